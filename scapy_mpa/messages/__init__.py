"""RDMAP messages of captures: each with what it has to do with others, memory with the message that named it."""

"""RDMAP messages: put together from DDP Segments, Requests with Answers, memory with the message that named it."""

"""RDMAP messages reassembled from DDP Segments, what they have to do with each other, whose memory they use."""

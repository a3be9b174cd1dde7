"""Rules of Full Operation: each watch gets the receiver's values in stream order and returns the rules they break.

No watch asks a receiver anything.  Those of one direction are independent of each other: :class:`~.fpdus.FPDUWatch`
(FPDUs, and by :class:`~.ddp.DDPWatch` their DDP Segments), :class:`~.counts.Counts` (what the report counts, and how
segments lie), :class:`~.segments.SegmentWatch` (rules about segments), :class:`~.messages.MessageWatch` (RDMAP messages
among the last FPDUs).  :class:`~.reads.ReadWatch` gets FPDUs of both directions.
"""

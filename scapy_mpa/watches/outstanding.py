"""RDMA Reads and Atomics of one direction and what the other one answers, in order (RFC 5040 §5.2, RFC 7306 §5.2).

In: Requests and Responses, each in the order of its own stream.  Out: breaches of who answers.  Reads are answered in
their order, Atomics in theirs, each by one message: so the oldest Request is the one that a Response answers.  Whether
there was a Request is not read off the order of the capture but off TCP: what had not been acknowledged with a
Response, its sender had not got.  Where octets of either direction are missing, and before the first FPDU captured,
nobody knows what is outstanding, and nothing is said.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

from scapy_mpa.receiver.values import Breach
from scapy_mpa.watches.ddp import DDPWatch, Request, Response

#: Requests, and answers to be judged, that are remembered: a bound of memory, 2 MiB; beyond it nothing more is said.
#: ORD has 14 bits (RFC 6581 §9.1), deployed stacks allow 256 at most.
MOST_OUTSTANDING: Final = 1 << 12
#: Requests in which the one is looked for that an answer out of order answers: a bound of time.
_MOST_LOOKED_AT: Final = 64
_READ_REQUEST, _READ_RESPONSE = 1, 2


class _Queue:
    """The Requests of one kind, Reads or Atomics, and their answers."""

    __slots__ = ("answers", "asked", "last", "passed_over")

    def __init__(self) -> None:
        self.asked: deque[Request] = deque()
        #: Requests before one that was answered.
        self.passed_over: deque[Request] = deque(maxlen=_MOST_LOOKED_AT)
        #: Answers to be judged, each with the offset up to which its sender had acknowledged Requests.
        self.answers: deque[tuple[Response, int]] = deque()
        #: The Request that was answered last, and its answer.
        self.last: tuple[Request, Response] | None = None


class Outstanding:
    """The Requests of one direction that wait for an answer.

    Args:
        requester: DDP Segments of the direction that requests.
        responder: DDP Segments of the direction that answers.
        is_known: whether both are read from their first FPDU on.
    """

    __slots__ = ("_atomics", "_is_known", "_reads", "_requester", "_responder", "_unasked")

    def __init__(self, requester: DDPWatch, responder: DDPWatch, is_known: bool) -> None:
        self._requester = requester
        self._responder = responder
        self._is_known = is_known
        self._reads, self._atomics = _Queue(), _Queue()
        #: Answers that nobody asked for, unless a Request turns out not to have been captured.
        self._unasked: list[Breach] = []

    @property
    def is_known(self) -> bool:
        """True if everything is known that was asked and answered."""
        return self._knows()

    def _knows(self) -> bool:
        if self._is_known and (self._requester.losses or self._responder.losses):
            self._give_up()
        return self._is_known

    def _give_up(self) -> None:
        self._is_known = False
        self._reads, self._atomics, self._unasked = _Queue(), _Queue(), []

    def requested(self, request: Request) -> None:
        """Take the next Request."""
        if not self._knows():
            return
        queue = self._reads if request.opcode == _READ_REQUEST else self._atomics
        queue.asked.append(request)
        if len(queue.asked) > MOST_OUTSTANDING:
            self._give_up()

    def answered(self, response: Response, acknowledged: int) -> None:
        """Take the next Response, whose sender had acknowledged no more than this when it began it: an offset."""
        if not self._knows():
            return
        queue = self._reads if response.opcode == _READ_RESPONSE else self._atomics
        if response.octets < 0 or len(queue.answers) == MOST_OUTSTANDING:
            self._give_up()
        else:
            queue.answers.append((response, acknowledged))

    def judge(self) -> Sequence[Breach]:
        """Return what the answers show, given what is known by now about the Requests."""
        if not (self._reads.answers or self._atomics.answers) or not self._knows():
            return ()
        return self._judge(self._reads) + self._judge(self._atomics)

    def _judge(self, queue: _Queue) -> list[Breach]:
        breaches = []
        while queue.answers:
            response, acknowledged = queue.answers[0]
            is_known = bool(queue.asked) and not _is_passed_over(queue.asked[0], response)
            if not is_known and len(queue.asked) < 2 and self._requester.end < acknowledged:
                break  # its Request may be among what is not read yet
            queue.answers.popleft()
            found, is_asked = _answer(queue, response, acknowledged)
            if found is None:
                continue
            breach = Breach(found[0], response.offset, response.frame, response.time, found[1])
            if is_asked:
                breaches.append(breach)
            elif len(self._unasked) < MOST_OUTSTANDING:
                self._unasked.append(breach)
        return breaches

    def finish(self) -> Sequence[Breach]:
        """Return the answers that nobody asked for, when nothing follows and nothing is missing."""
        return self._unasked if self._knows() else ()

    def unanswered(
        self, fin: tuple[int, int, int], asker_closed: int, acknowledged_by: Callable[[int], int]
    ) -> Sequence[Breach]:
        """Report Requests without an answer, where the responder closed in order.

        One side may close while the other is about to answer.  So where the requester closed first, the responder has
        to have said something else after it had got the Request and answered those before it.

        Args:
            fin: the responder's FIN: offset, frame and time.
            asker_closed: the frame of the requester's FIN, one after all others if it sent none.
            acknowledged_by: returns a frame by which the responder had acknowledged octets up to an offset.
        """
        if not self._knows() or self._responder.end != fin[0] or self._reads.answers or self._atomics.answers:
            return ()
        found = []
        for queue in (self._reads, self._atomics):
            answered = queue.last[1].frame if queue.last is not None else 0
            waiting = ((one, False) for one in queue.asked)
            for request, is_passed_over in (*((one, True) for one in queue.passed_over), *waiting):
                acknowledged, said = acknowledged_by(request.end), self._responder.untagged_frame
                has_said = is_passed_over or (acknowledged <= said and answered < said < asker_closed)
                if acknowledged > fin[1] or _may_be_ignored(request) or (asker_closed < fin[1] and not has_said):
                    continue
                detail = f"FIN, but the {_name(request)} of frame {request.frame} is not answered"
                found.append(Breach("request-unanswered", *fin, detail))
        return found


def _name(request: Request) -> str:
    return "Read" if request.opcode == _READ_REQUEST else "Atomic"


def _may_be_ignored(request: Request) -> bool:
    """Return True for a Read that made its sender ready, which the MPA layer takes (RFC 6581 §9.2)."""
    return not request.offset and any(not read.size for read in request.reads)


def _is_passed_over(request: Request, response: Response) -> bool:
    """Return True if a Response may be that to the next Request, since nobody has to answer this one."""
    return _may_be_ignored(request) and not _answers(request, response)


def _answers(request: Request, response: Response) -> bool:
    """Return True if a Response is what a Request asks for; STag and TO of no octets say nothing (RFC 5041 §5.2.1)."""
    if request.opcode != _READ_REQUEST:
        return request.request_id is None or request.request_id == response.request_id
    if not request.reads:
        return True
    for read in request.reads:
        is_there = not read.size or (read.sink_stag == response.stag and read.sink_to == response.to)
        if is_there and read.size == response.octets:
            return True
    return False


def _had_come(request: Request, response: Response, acknowledged: int) -> bool:
    """Return True if who answers had got a Request when the Response began."""
    return request.end <= acknowledged or request.frame <= response.first_frame


def _answer(queue: _Queue, response: Response, acknowledged: int) -> tuple[tuple[str, str] | None, bool]:
    """Let a Response answer a Request.

    Return the rule that it breaks, with details, None if it breaks none; and whether there is a Request for it.
    """
    asked, last, frame = queue.asked, queue.last, response.frame
    # Where the next one had come too: else it is that Read of no octets that is answered, and wrongly.
    if len(asked) > 1 and _is_passed_over(asked[0], response) and _had_come(asked[1], response, acknowledged):
        asked.popleft()
    oldest = asked[0] if asked and _had_come(asked[0], response, acknowledged) else None
    if oldest is not None and _answers(oldest, response):
        queue.last = asked.popleft(), response
        return None, True
    passed_over = next((one for one in queue.passed_over if _answers(one, response)), None)
    if passed_over is not None:
        queue.passed_over.remove(passed_over)  # the one that overtook it was reported
        return None, True
    is_read = response.opcode == _READ_RESPONSE
    name = "a Read" if is_read else "an Atomic"
    unasked = "read-response-unasked" if is_read else "atomic-response"
    if last is not None and _answers(last[0], response) and last[0].is_plain:
        before = f"the {_name(last[0])} of frame {last[0].frame}, which frame {last[1].frame} has answered"
        return (unasked, f"frame {frame} answers {before}"), False
    if oldest is None:
        after = f" before that of frame {asked[0].frame}" if asked else ""
        return (unasked, f"frame {frame} answers {name}, but none is outstanding{after}"), False
    differs = "read-response-differs" if is_read else "atomic-response"
    looked_at = list(islice(asked, _MOST_LOOKED_AT))
    fits = (
        at for at, one in enumerate(looked_at) if _had_come(one, response, acknowledged) and _answers(one, response)
    )
    index = next(fits, 0)
    if index:
        queue.passed_over.extend(asked.popleft() for _ in range(index))
        queue.last = later, _ = asked.popleft(), response
        which = f"the {_name(later)} of frame {later.frame} before that of frame {oldest.frame}"
        return (differs, f"frame {frame} answers {which}"), True
    asked.popleft()
    if not oldest.is_plain:
        return None, True
    queue.last = oldest, response
    which = f"the {_name(oldest)} of frame {oldest.frame} {_difference(oldest, response)}"
    return (differs, f"frame {frame} answers {which}"), True


def _difference(request: Request, response: Response) -> str:
    """Return in what a Response differs from what its Request asks for."""
    if not request.reads:
        answered = "without an ID" if response.request_id is None else f"with Request ID {response.request_id}"
        return f"{answered} instead of {request.request_id}"
    read, found = request.reads[0], []
    if response.octets != read.size:
        found.append(f"with {response.octets:,} octets of {read.size:,} asked for")
    if response.octets and response.stag != read.sink_stag:
        found.append(f"at STag {response.stag:#010x} instead of {read.sink_stag:#010x}")
    if response.octets and response.to != read.sink_to:
        found.append(f"at TO {response.to:#x} instead of {read.sink_to:#x}")
    return ", ".join(found)

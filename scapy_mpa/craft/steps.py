"""Steps of a conversation as text, in scenario files and on the command line: one line a step.

    initiator send 5000                     5000 octets, made up
    initiator write "some text" stag=16     octets of a text, and by name what the method takes
    responder send hex:00ff times=3         octets in hexadecimal, three times
    pause 0.01    path-mtu 600    start    close rst responder

The verbs of a side are methods of `Conversation`.
"""

from __future__ import annotations

import inspect
import shlex
from typing import Any

from .conversation import Conversation
from .setup import ConversationError
from .tcppacket import ROLES

_HEX = "hex:"
_MOST_TIMES = 1_000_000
VERBS = (
    "stream",
    "send",
    "write",
    "read",
    "read-request",
    "read-response",
    "atomic",
    "immediate",
    "terminate",
    "ulpdu",
)
"""What a side can do."""
_OTHERS = {"pause": float, "path-mtu": int}


def say(conversation: Conversation, step: str) -> None:
    """Add a step. Raises ConversationError for what is none, or breaks a rule."""
    try:
        words = shlex.split(step)
        _say(conversation, words)
    except ConversationError as error:
        raise ConversationError(f"step {step!r}: {error}") from None
    except (ValueError, TypeError, OverflowError) as error:
        raise ConversationError(f"step {step!r} cannot be understood: {error}") from None


def octets(text: str) -> bytes:
    """Octets from a text, or from `hex:` and hexadecimal digits. Raises ValueError."""
    return bytes.fromhex(text[len(_HEX) :]) if text.startswith(_HEX) else text.encode()


def _say(conversation: Conversation, words: list[str]) -> None:
    subject = words[0] if words else ""
    if subject in _OTHERS and len(words) == 2:
        method = conversation.pause if subject == "pause" else conversation.path_mtu
        method(_OTHERS[subject](words[1]))
    elif subject == "start" and len(words) == 1:
        conversation.start()
    elif subject == "close" and len(words) <= 3:
        conversation.close(*words[1:])  # type: ignore[arg-type]
    elif subject in ROLES and len(words) > 1:
        _say_by(conversation, subject, words[1], words[2:])
    else:
        known = ", ".join((*ROLES, *_OTHERS, "start", "close"))
        raise ConversationError(f"it begins with one of {known}, and says what")


def _say_by(conversation: Conversation, side: str, verb: str, words: list[str]) -> None:
    if verb not in VERBS:
        raise ConversationError(f"a side can {', '.join(VERBS)}")
    method = getattr(conversation, verb.replace("-", "_"))
    known = inspect.signature(method).parameters
    positional: list[Any] = []
    named: dict[str, Any] = {}
    times = 1
    for word in words:
        name, equals, text = word.partition("=")
        if equals and name == "times":
            times = int(text)
            if not 0 <= times <= _MOST_TIMES:
                raise ConversationError(f"{times} times: at most {_MOST_TIMES}")
        elif equals and name in known:
            named[name] = _value(text)
        else:
            positional.append(_value(word))
    for _ in range(times):
        method(side, *positional, **named)


def _value(text: str) -> Any:
    """A number, a pair of numbers, true or false; else octets, or a name that is handed on as it is."""
    if text in ("true", "false"):
        return text == "true"
    if text in ("fetch-add", "cmp-swap"):
        return text
    first, comma, second = text.partition(",")
    try:
        return (int(first, 0), int(second, 0)) if comma else int(text, 0)
    except ValueError:
        return octets(text)

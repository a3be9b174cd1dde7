"""Steps of a conversation as text, in scenario files and on the command line: one line a step.

    initiator send 5000                     5000 octets, made up
    initiator write "some text" stag=16     octets of a text, and by name what the method takes
    responder send hex:00ff times=3         octets in hexadecimal, three times
    initiator message 'RPCRDMA(xid=7)'      a Send of an upper layer's message: its layers, as Scapy writes them
    pause 0.01    path-mtu 600    start    close rst responder

The verbs of a side are methods of ``Conversation``.
"""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any

from scapy_mpa.craft.conversation import Conversation
from scapy_mpa.craft.setup import ConversationError
from scapy_mpa.framing.role import ROLES, Role

_HEX = "hex:"
_MOST_TIMES = 1_000_000
#: What a side can do.
VERBS = (
    "stream",
    "send",
    "message",
    "write",
    "read",
    "read-request",
    "read-response",
    "atomic",
    "immediate",
    "terminate",
    "ulpdu",
)
#: What else a step can be, and how it is written.
_USES: dict[str, str] = {
    **{role: f"add what it does, such as {role} send 100" for role in ROLES},
    "pause": "seconds follow: pause 0.5",
    "path-mtu": "octets follow: path-mtu 600",
    "start": "nothing follows it",
    "close": "fin, rst or none follow, and who: close rst responder",
}
_OTHERS = ("pause", "path-mtu", "start", "close")


def say(conversation: Conversation, step: str, by: Role | None = None) -> None:
    """Add a step; a verb without a side is that of ``by``, if it is given.

    Raises ConversationError for what is no step, or breaks a rule; its message quotes ``step``.
    """
    try:
        words = shlex.split(step)
        if by is not None and words and words[0] in VERBS:
            words.insert(0, by)
        _say(conversation, words, (*VERBS, *ROLES, *_OTHERS) if by is not None else (*ROLES, *_OTHERS))
    except ConversationError as error:
        raise ConversationError(f"step {step!r}: {error}") from None
    except ValueError as error:
        raise ConversationError(f"step {step!r} cannot be parsed: {error}") from None


def octets(text: str) -> bytes:
    """Octets from a text, or from ``hex:`` and hexadecimal digits. Raises ValueError."""
    return bytes.fromhex(text[len(_HEX) :]) if text.startswith(_HEX) else text.encode()


def _say(conversation: Conversation, words: list[str], known: tuple[str, ...]) -> None:
    """Add a step of these words; ``known`` are those that it may begin with."""
    subject = words[0] if words else ""
    if subject == "pause" and len(words) == 2:
        conversation.pause(_seconds(words[1]))
    elif subject == "path-mtu" and len(words) == 2:
        conversation.path_mtu(_number(subject, words[1]))
    elif subject == "start" and len(words) == 1:
        conversation.start()
    elif subject == "close" and len(words) <= 3:
        conversation.close(*words[1:])  # type: ignore[arg-type]
    elif subject in ROLES and len(words) > 1:
        _say_by(conversation, subject, words[1], words[2:])
    elif subject in known:
        raise ConversationError(_USES[subject])
    else:
        near = get_close_matches(subject, VERBS, 1)
        if near and near[0] not in known:
            raise ConversationError(f"a step begins with a side: initiator {shlex.join((near[0], *words[1:]))}")
        raise ConversationError(_unknown("a step begins with", subject, known))


def _unknown(what: str, word: str, known: Iterable[str]) -> str:
    """The error for an unknown word, with the nearest known one first."""
    names = [*known]
    near = get_close_matches(word, names, 1)
    return f"{f'did you mean {near[0]}? ' if near else ''}{what} {', '.join(names[:-1])} or {names[-1]}"


def _say_by(conversation: Conversation, side: str, verb: str, words: list[str]) -> None:
    if verb not in VERBS:
        raise ConversationError(_unknown("a side can", verb, VERBS))
    method = getattr(conversation, verb.replace("-", "_"))
    known = dict(inspect.signature(method).parameters)
    del known["side"]
    unnamed = [name for name, parameter in known.items() if parameter.kind is not parameter.KEYWORD_ONLY]
    given: dict[str, Any] = {}
    times = 1
    for word in words:
        name, equals, text = word.partition("=")
        if equals and name == "times":
            times = _number(name, text)
            if not 0 <= times <= _MOST_TIMES:
                raise ConversationError(f"{times} times: at most {_MOST_TIMES}")
            continue
        if not equals or name not in known:
            name, text = next((name for name in unnamed if name not in given), ""), word
        if not name or name in given:
            raise ConversationError(_too_much(verb, word, words, (*known, "times")))
        given[name] = READERS[known[name].annotation](name, text)
    for name, parameter in known.items():
        if parameter.default is parameter.empty and name not in given:
            raise ConversationError(f"{name} is missing")
    for _ in range(times):
        method(side, **given)


def _too_much(verb: str, word: str, words: list[str], names: tuple[str, ...]) -> str:
    """Return a hint about a word that no parameter of the verb takes."""
    name, equals, _ = word.partition("=")
    takes = f"{verb} takes {', '.join(names)}"
    if equals and (near := get_close_matches(name, names, 1)):
        return f"did you mean {near[0]}=? {takes}"
    hint = ""
    if not equals and not word[:1].isdecimal() and "payload" in names:
        text = " ".join(one for one in words if "=" not in one)
        hint = f'; put a text with blanks in quotation marks: {verb} "{text}"'
    return f"{word!r} is not expected: {takes}{hint}"


def _payload(name: str, text: str) -> bytes | int:
    try:
        return int(text, 0)
    except ValueError:
        pass
    try:
        return octets(text)
    except ValueError as error:
        raise ConversationError(f"{name} is {text!r}: {error}") from None


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConversationError(f"pause is {text!r}, but must be a number of seconds") from None


def _number(name: str, text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise ConversationError(f"{name} is {text!r}, but must be a whole number") from None


def _pair(name: str, text: str) -> tuple[int, int]:
    first, _, second = text.partition(",")
    return _number(name, first), _number(name, second)


def _truth(name: str, text: str) -> bool:
    if text not in ("true", "false"):
        raise ConversationError(f"{name} is {text!r}, but must be true or false")
    return text == "true"


def _text(name: str, text: str) -> str:
    return text


#: What reads a value, by the annotation of the parameter that it is for.
READERS: dict[str, Callable[[str, str], Any]] = {
    "Payload": _payload,
    "Payload | MadeUp": _payload,
    "int": _number,
    "int | None": _number,
    "tuple[int, int]": _pair,
    "bool": _truth,
    "str": _text,
    "Layers": _text,
}

"""Scenarios: traffic described in a small TOML file, or by the same parameters on the command line.

    title = "what it shows"
    clause = "RFC 5044 §5.1"
    impair = ["reorder:probability=0.2"]

    [[connection]]
    m = [1, 1]                              # parameters of craft.setup.Setup
    say = ["initiator send 5000"]           # steps, see craft.steps

What stands at the top of the file beside ``title``, ``clause``, ``seed`` and ``impair`` holds for every connection. A
connection may also have a ``title``, a ``count`` and ``after``, the seconds after which it begins (each further one of
``count`` begins that much later again). The folder ``scenarios`` ships some.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from scapy_mpa.craft.conversation import Conversation
from scapy_mpa.craft.impairments import Impairment, impairment
from scapy_mpa.craft.setup import SETUP_NAMES, Setup
from scapy_mpa.craft.steps import octets, say
from scapy_mpa.craft.traffic import Traffic
from scapy_mpa.craft.wanted import SECONDS, TEXT, is_number
from scapy_mpa.errors import MPAError
from scapy_mpa.system.names import printable

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SUFFIX = ".toml"
_PARAMETERS = frozenset(SETUP_NAMES) - {"alter", "frames", "time", "seed"}
_OF_SCENARIO = ("title", "clause", "seed", "impair", "connection")
_OF_CONNECTION = ("title", "count", "after", "say")
_MOST = 100_000


@dataclass(frozen=True)
class Scenario:
    """A number of conversations, each with its title, and what happens to their packets."""

    name: str
    title: str = ""
    clause: str = ""
    seed: int = 0
    impairments: tuple[Impairment, ...] = ()
    conversations: tuple[Conversation, ...] = ()
    titles: tuple[str, ...] = field(default=(), repr=False)

    def traffic(self, impairments: Iterable[object] = (), connection: int | None = None) -> Traffic:
        """Its traffic, impaired also by ``impairments``; only one of its connections, if that is asked for.

        Raises MPAError for an impairment, or a connection, that does not exist.
        """
        conversations = self.conversations
        happens = [*self.impairments, *(impairment(value) for value in impairments)]
        for number in (connection, *(one.connection for one in happens)):
            if number is not None and not 0 <= number < len(conversations):
                raise MPAError(f"{self.name} has no connection {number}; it has {len(conversations)}, from 0")
        if connection is not None:
            conversations = (conversations[connection],)
            # It is the only one now, and has another number.
            happens = [one._replace(connection=None) for one in happens if one.connection in (None, connection)]
        return Traffic(conversations, happens, seed=self.seed)


def shipped() -> list[str]:
    """The names of the scenarios that come with scapy-mpa."""
    folder = files(__package__) / "scenarios"
    return sorted(entry.name.removesuffix(SUFFIX) for entry in folder.iterdir() if entry.name.endswith(SUFFIX))


def load(
    name: str, *, seed: int | None = None, parameters: Mapping[str, Any] | None = None, steps: Iterable[str] = ()
) -> Scenario:
    """A scenario from a file, or one that is shipped, by its name.

    ``seed`` and ``parameters`` replace what the file says, ``steps`` are said on every connection at its end. Raises
    MPAError for a file that cannot be read, and for what it should not say.
    """
    if name.endswith(SUFFIX) or "/" in name:
        try:
            text = Path(name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise MPAError(f"{printable(name)}: {getattr(error, 'strerror', None) or error}") from None
    elif name in shipped():
        text = (files(__package__) / "scenarios" / f"{name}{SUFFIX}").read_text(encoding="utf-8")
    else:
        raise MPAError(
            f"there is no scenario {name!r} (craft --list names them); the name of a scenario file must end in {SUFFIX}"
        )
    return parse(text, name, seed=seed, parameters=parameters, steps=steps)


def parse(
    text: str,
    name: str = "scenario",
    *,
    seed: int | None = None,
    parameters: Mapping[str, Any] | None = None,
    steps: Iterable[str] = (),
) -> Scenario:
    """A scenario from the text of a file; see ``load``."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise MPAError(f"{printable(name)}: {error}") from None
    except RecursionError:
        raise MPAError(f"{printable(name)}: nested too deeply") from None
    try:
        return _scenario(name, table, seed, parameters or {}, list(steps))
    except MPAError as error:
        raise MPAError(f"{printable(name)}: {error}") from None


def toml_value(text: str) -> Any:
    """A value as a scenario file has it: ``1``, ``true``, ``[1, 0]``, ``"text"``; anything else is a text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return text


def _scenario(
    name: str, table: dict[str, Any], seed: int | None, parameters: Mapping[str, Any], steps: list[str]
) -> Scenario:
    _known(table, (*_OF_SCENARIO, *_PARAMETERS), "scenario")
    _known(parameters, _PARAMETERS, "parameter")
    shared = {key: value for key, value in table.items() if key in _PARAMETERS}
    seed = _number(table, "seed", 0) if seed is None else seed
    connections = table.get("connection", [{}])
    if not isinstance(connections, list) or not all(isinstance(one, dict) for one in connections):
        raise MPAError("connections are tables: [[connection]]")
    conversations: list[Conversation] = []
    titles: list[str] = []
    for one in connections:
        _known(one, (*_OF_CONNECTION, *_PARAMETERS), "connection")
        own = {key: value for key, value in one.items() if key in _PARAMETERS}
        setup = _decoded({**shared, **own, **parameters, "seed": seed})
        after = one.get("after", 0)
        if complaint := SECONDS.complaint("after", after):
            raise MPAError(complaint)
        said = [*_texts(one, "say"), *steps]
        count = _number(one, "count", 1)
        if len(conversations) + count > _MOST:
            raise MPAError(f"more than {_MOST} connections")
        for index in range(count):
            conversation = Conversation(**setup, time=Setup.time + after * (index + 1))
            for step in said:
                say(conversation, step)
            conversations.append(conversation)
            titles.append(_text(one, "title"))
    if not conversations:
        raise MPAError("it has no connection")
    return Scenario(
        name,
        _text(table, "title"),
        _text(table, "clause"),
        seed,
        tuple(impairment(value) for value in _list(table, "impair")),
        tuple(conversations),
        tuple(titles),
    )


def _decoded(setup: dict[str, Any]) -> dict[str, Any]:
    """Parameters of TOML as ``Setup`` takes them."""
    if "allow" in setup:
        setup["allow"] = tuple(_texts(setup, "allow"))
    if "private_data" in setup:
        texts = _texts(setup, "private_data")
        try:
            setup["private_data"] = tuple(octets(text) for text in texts)
        except ValueError as error:
            raise MPAError(f"private_data: {error}") from None
    for name in ("ports", "rev", "markers", "isn", "mulpdu", "enhanced", "legacy"):
        # TOML has no null: "" stands for what is left to be computed.
        if isinstance(setup.get(name), list):
            setup[name] = [None if value == "" else value for value in setup[name]]
    return setup


#: What a name is that is not known.
_WHAT = {
    "scenario": "a scenario has no entry",
    "parameter": "there is no parameter",
    "connection": "a connection has no entry",
}


def _known(table: Mapping[str, Any], names: Iterable[str], what: str) -> None:
    unknown = sorted(set(table) - set(names))
    if unknown:
        raise MPAError(f"{_WHAT[what]} {', '.join(unknown)}; known: {', '.join(sorted(names))}")


def _number(table: Mapping[str, Any], name: str, default: int) -> int:
    value = table.get(name, default)
    if not is_number(value) or value < 0:
        raise MPAError(f"{name} is {value!r}, but must be a whole number")
    return value


def _text(table: Mapping[str, Any], name: str) -> str:
    value = table.get(name, "")
    if complaint := TEXT.complaint(name, value):
        raise MPAError(complaint)
    return str(value)


def _list(table: Mapping[str, Any], name: str) -> list[Any]:
    value = table.get(name, [])
    if not isinstance(value, (list, tuple)):
        raise MPAError(f"{name} is {value!r}, but must be a list")
    return list(value)


def _texts(table: Mapping[str, Any], name: str) -> list[str]:
    values = _list(table, name)
    if not all(isinstance(value, str) for value in values):
        raise MPAError(f"{name} is {values!r}, but must be a list of strings")
    return values

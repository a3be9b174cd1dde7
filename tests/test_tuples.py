"""Our ``NamedTuple`` does what that of ``typing`` does."""

from __future__ import annotations

import copy
import inspect
import pickle
import typing
from collections.abc import Callable
from typing import Any

import pytest

from scapy_mpa.tuples import NamedTuple


class Ours(NamedTuple):
    """Two fields and a default."""

    frame: int
    #: Octets.
    size: int | None = None

    @property
    def end(self) -> int:
        """The frame after it."""
        return self.frame + 1


class Theirs(typing.NamedTuple):
    """Two fields and a default."""

    frame: int
    size: int | None = None


class Empty(NamedTuple):
    """No field."""


@pytest.mark.parametrize("name", ["_fields", "_field_defaults", "__match_args__", "__doc__", "__slots__"])
def test_class(name: str) -> None:
    assert getattr(Ours, name) == getattr(Theirs, name)
    assert typing.get_type_hints(Ours) == typing.get_type_hints(Theirs)
    assert [*inspect.signature(Ours).parameters] == [*inspect.signature(Theirs).parameters]


def test_values() -> None:
    ours: Any = Ours(1, size=2)
    theirs: Any = Theirs(1, size=2)
    assert ours == theirs == (1, 2)
    assert (repr(ours), hash(ours)) == (repr(theirs).replace("Theirs", "Ours"), hash(theirs))
    assert (ours._asdict(), ours._replace(size=3), Ours._make([4, 5])) == (theirs._asdict(), (1, 3), (4, 5))
    assert (ours.frame, ours.size, ours.end, Ours(7)) == (1, 2, 2, (7, None))
    for same in (pickle.loads(pickle.dumps(ours)), copy.deepcopy(ours), copy.copy(ours)):
        assert type(same) is Ours
        assert same == ours
    assert Empty() == ()
    assert repr(Empty()) == "Empty()"


@pytest.mark.parametrize(
    "act",
    [
        lambda made: made(),
        lambda made: made(1, 2, 3),
        lambda made: made(1, length=2),
        lambda made: made._make([1]),
        lambda made: setattr(made(1), "frame", 2),
        lambda made: setattr(made(1), "length", 2),
    ],
)
def test_refusals(act: Callable[[Any], object]) -> None:
    raised = []
    for made in (Ours, Theirs):
        with pytest.raises((TypeError, ValueError, AttributeError)) as error:
            act(made)
        raised.append(error.type)
    assert raised[0] is raised[1]
    with pytest.raises(ValueError, match="length"):  # in Python 3.13 that of typing raises TypeError
        Ours(1)._replace(length=2)  # type: ignore[call-arg]


def test_defaults_come_last() -> None:
    make: Any = type(NamedTuple)
    with pytest.raises(TypeError, match="without a default"):
        make("Wrong", (), {"__annotations__": {"first": "int", "last": "int"}, "first": 1})

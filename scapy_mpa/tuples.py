"""``NamedTuple``, as ``typing`` has it, made in a fifteenth of the time.

``typing`` compiles the annotation of each field, and ``collections`` a function for each class. The command makes more
than a hundred classes when it starts: here annotations stay text, and classes of as many fields share what is compiled.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

# From 3.14 on, a class hands over its annotations in another way (PEP 649).
if TYPE_CHECKING or sys.version_info >= (3, 14):
    from typing import NamedTuple as NamedTuple
else:
    from collections import _tuplegetter
    from functools import cache
    from types import FunctionType

    class _Fields(tuple):
        """What all named tuples have in common."""

        __slots__ = ()

        @classmethod
        def _make(cls, iterable):
            made = tuple.__new__(cls, iterable)
            if len(made) != len(cls._fields):
                raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
            return made

        def _replace(self, /, **changes):
            made = self._make(map(changes.pop, self._fields, self))
            if changes:
                raise ValueError(f"Got unexpected field names: {[*changes]!r}")
            return made

        __replace__ = _replace

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def __getnewargs__(self):
            return tuple(self)

        def __repr__(self):
            fields = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
            return f"{type(self).__name__}({fields})"

    @cache
    def _new_of(count):
        """The ``__new__`` of ``count`` fields, whatever their names."""
        names = "".join(f"_{at}, " for at in range(count))
        return eval(f"lambda _cls, {names}: _new(_cls, ({names}))", {"_new": tuple.__new__, "__builtins__": {}})

    class _NamedTupleMeta(type):
        """Makes a tuple of what the body of a class declares."""

        def __new__(cls, name, _bases, body):
            types = body.get("__annotations__", {})
            defaults = {field: body[field] for field in types if field in body}
            if [*types][len(types) - len(defaults) :] != [*defaults]:
                raise TypeError(f"{name}: a field without a default follows one that has one")
            like = _new_of(len(types))
            code = like.__code__.replace(co_varnames=("_cls", *types))
            new = FunctionType(code, like.__globals__, "__new__", (*defaults.values(),))
            new.__qualname__, new.__annotations__ = f"{name}.__new__", types
            getters = {field: _tuplegetter(at, None) for at, field in enumerate(types)}
            made = {"__slots__": (), "__new__": new, "__match_args__": (*types,), **getters}
            return type(name, (_Fields,), {**body, **made, "_fields": (*types,), "_field_defaults": defaults})

    NamedTuple = type.__new__(_NamedTupleMeta, "NamedTuple", (), {})

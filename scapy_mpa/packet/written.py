"""Layers as text: ``NVMeConnect(recfmt=0xffff) / NVMeConnectData(subnqn="nqn.a")``, as one writes them at the prompt.

It is read as Python writes it, and nothing is run: names of layers, their fields by name, ``/`` and ``bytes`` between
them, numbers, texts, octets and lists. Scapy's own ``RPC`` layers are known too.
"""

from __future__ import annotations

import ast
from functools import cache
from typing import Any, Final

from scapy.packet import Packet, Raw

from scapy_mpa.errors import FramingError
from scapy_mpa.packet import iser, nvme, rpcrdma, smbdirect

#: Characters of the longest text: Python's parser goes down a level for each that opens another.
LONGEST: Final = 10_000


def layers(text: str) -> Packet:
    """Build the packet that a text says; raises FramingError for an invalid one, and for unknown names."""
    if len(text) > LONGEST:
        raise FramingError(f"a message as layers has at most {LONGEST} characters, not {len(text)}")
    try:
        made = _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, RecursionError, MemoryError):
        raise FramingError(f"{text!r} is not layers, as in NVMeConnect(qid=1) / NVMeConnectData()") from None
    if not isinstance(made, Packet):
        raise FramingError(f"{text!r} names no layer, as NVMeConnect(qid=1) does")
    return made


def octets(text: str) -> bytes:
    """Build the octets of the packet that a text says; raises FramingError as :func:`layers`, or for a wrong value."""
    made = layers(text)
    try:
        return bytes(made)
    except Exception as error:  # whatever a field makes of what it cannot hold
        raise FramingError(f"{text!r} cannot be built: {error}") from error


@cache
def known() -> dict[str, type[Packet]]:
    """The layers that may be named."""
    from scapy.contrib import oncrpc

    found: dict[str, Any] = {"Raw": Raw}
    found |= {name: getattr(oncrpc, name) for name in ("RPC", "RPC_Call", "RPC_Reply")}
    for module in (iser, nvme, rpcrdma, smbdirect):
        for name, value in vars(module).items():
            if isinstance(value, type) and issubclass(value, Packet) and value.__module__ == module.__name__:
                found[name] = value
    return {name: layer for name, layer in found.items() if not name.startswith("_")}


def _value(node: ast.expr) -> Any:
    """The value of a part of it."""
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, str, bytes, type(None))):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _value(node.operand)
        if isinstance(value, int):
            return -value
    if isinstance(node, ast.List):
        return [_value(one) for one in node.elts]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        lower, upper = _value(node.left), _value(node.right)
        if isinstance(lower, Packet) and isinstance(upper, (Packet, bytes, str)):
            return lower / upper
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.args:
        return _layer(node.func.id, {one.arg or "**": _value(one.value) for one in node.keywords})
    raise FramingError(f"{ast.unparse(node)!r} is no layer with its fields by name, no number, text or list")


def _layer(name: str, fields: dict[str, Any]) -> Packet:
    if name not in known():
        raise FramingError(f"there is no layer {name}; the layers are {', '.join(known())}")
    layer = known()[name]
    its = [field.name for field in layer.fields_desc]
    for field in fields:
        if field not in its:
            raise FramingError(f"{name} has no field {field}; it has {', '.join(its)}")
    try:
        return layer(**fields)
    except Exception as error:  # whatever a field makes of what it cannot hold
        raise FramingError(f"{name} cannot hold that: {error}") from error

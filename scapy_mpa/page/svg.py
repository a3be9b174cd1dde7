"""Pictures of matplotlib as part of a page: smaller, without styles of their own, with names that no other picture has.

A page whose Content-Security-Policy allows nothing but its own style sheet shows no ``style`` attribute: what it says
becomes attributes of SVG. Colours stay as they are, so that the style sheet can set others where the page is dark.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from scapy_mpa.plot.look import LIGHT, settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SVG = "{http://www.w3.org/2000/svg}"
_LINK = "{http://www.w3.org/1999/xlink}href"
_NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
#: Attributes that hold numbers with more places than anybody sees: a hundredth of a point is enough.
_MEASURES = ("d", "x", "y", "width", "height", "transform", "points")
_USED = re.compile(r"url\(#([^)]+)\)")
_FONT = re.compile(r"(?:(?P<weight>bold|[1-9]00) )?(?P<size>[\d.]+)px")
#: What the style sheet says about all pictures, or what is so anyway.
_SAID_ELSEWHERE = {
    ("stroke-linejoin", "round"),
    ("stroke-linejoin", "miter"),
    ("stroke-linecap", "butt"),
    ("opacity", "1"),
}


def svg_of(figure: Figure, prefix: str, words: str) -> str:
    """A figure as an ``<svg>`` element; ``prefix`` begins its names, ``words`` tell those who do not see it."""
    root = ElementTree.fromstring(_drawn(figure))
    used = set(_used(root))
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
        _shorten(element, prefix, used)
    _flatten(root)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.attrib.update({"class": "picture", "role": "img", "aria-label": words})
    return ElementTree.tostring(root, encoding="unicode")


def _drawn(figure: Figure) -> str:
    """Return what matplotlib draws; :func:`write_figure`, which writes any format, would draw it twice.

    The page is the background: what shows there that a box scrolls sideways is not covered.
    """
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    file = io.StringIO()
    figure.patch.set_visible(False)
    for ax in figure.axes:
        for one in (ax, *ax.child_axes):
            one.patch.set_visible(False)
    with settings(LIGHT):
        canvas: Any = FigureCanvasSVG(figure)
        canvas.print_svg(file, metadata={"Date": None})
    return file.getvalue()


def _used(root: ElementTree.Element) -> Iterator[str]:
    """The names that something refers to."""
    for element in root.iter():
        link = element.attrib.get(_LINK)
        if link is not None:
            yield link.removeprefix("#")
        for value in element.attrib.values():
            yield from _USED.findall(value)


def _shorten(element: ElementTree.Element, prefix: str, used: set[str]) -> None:
    attributes = element.attrib
    for declaration in attributes.pop("style", "").split(";"):
        name, _, value = (part.strip() for part in declaration.partition(":"))
        font = _FONT.match(value) if name == "font" else None
        if font is not None:
            attributes["font-size"] = font["size"]
            if font["weight"] is not None:
                attributes["font-weight"] = font["weight"]
        elif name not in ("", "font-family") and (name, value) not in _SAID_ELSEWHERE:
            attributes[name] = value
    name = attributes.pop("id", "")
    if name in used:
        attributes["id"] = prefix + name
    link = attributes.pop(_LINK, None)
    if link is not None:
        attributes["href"] = f"#{prefix}{link.removeprefix('#')}"
    for name, value in attributes.items():
        if "url(#" in value:
            attributes[name] = value.replace("url(#", f"url(#{prefix}")
        elif name in _MEASURES:
            attributes[name] = " ".join(_NUMBER.sub(_rounded, value).split())
    if not (element.text or "").strip():
        element.text = None
    element.tail = None


def _rounded(found: re.Match[str]) -> str:
    text = f"{float(found[0]):.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _flatten(element: ElementTree.Element) -> None:
    """Take out what says nothing to a page, and groups that group nothing."""
    kept: list[ElementTree.Element] = []
    for child in element:
        _flatten(child)
        if child.tag in ("metadata", "style") or (child.tag == "defs" and not len(child)):
            continue
        if child.tag == "g" and not child.attrib:
            kept += child
        else:
            kept.append(child)
    element[:] = kept

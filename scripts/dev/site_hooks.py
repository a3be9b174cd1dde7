"""What mkdocs does besides its plugins when it builds the site: roles in docstrings become plain code."""

from __future__ import annotations

import re
from typing import Any

#: ``:class:`~scapy_mpa.errors.CaptureError``` as Markdown has left it.
_ROLE = re.compile(r":(?:class|data|exc|func|meth|mod|attr):<code>~?([^<]+)</code>")


def on_page_content(html: str, **_: Any) -> str:
    """The page, its roles replaced by the last part of the name that they hold."""
    return _ROLE.sub(lambda found: f"<code>{found[1].rpartition('.')[2]}</code>", html)

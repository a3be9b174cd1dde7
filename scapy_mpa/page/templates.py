"""Templates of pages: where they lie, what is escaped in them, and what a browser may run and load.

In: values, of which a peer or a capture may have chosen every octet.  Out: HTML in which they are text.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from scapy_mpa.errors import MPAError
from scapy_mpa.rules.table import SEVERITIES
from scapy_mpa.system.names import printable

if TYPE_CHECKING:
    from jinja2 import Environment


def check_jinja() -> None:
    """Raise MPAError, with the way to install it, if jinja2 is not there."""
    try:
        import jinja2  # noqa: F401
    except ImportError:
        raise MPAError("pages need jinja2, which is not installed: pip install 'scapy-mpa[report]'") from None


def environment() -> Environment:
    """Return the renderer of the templates of this folder: every text in them is escaped, and printable."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    def finalize(value: Any) -> Any:
        return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    environment = Environment(
        loader=PackageLoader("scapy_mpa", "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=finalize,
    )
    environment.globals["severities"] = SEVERITIES
    return environment


def source(environment: Environment, name: str) -> str:
    """A file of this folder, as it is."""
    loader = environment.loader
    assert loader is not None
    return loader.get_source(environment, name)[0]


def policy(style: str, script: str) -> str:
    """Return what the browser may run and load: this style sheet, this script, and nothing else."""
    style_hash, script_hash = (
        f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in (style, script)
    )
    return f"default-src 'none'; style-src {style_hash}; script-src {script_hash}; base-uri 'none'; form-action 'none'"

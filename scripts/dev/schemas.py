#!/usr/bin/env python3
"""Write what show.schema.json says about FPDUs and findings: what the schemas of the commands that list these say.

python -m scripts.dev.schemas
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SCHEMAS = Path(__file__).resolve().parents[2] / "scapy_mpa" / "report"


def schema(command: str) -> dict[str, Any]:
    """The schema of what a command prints."""
    loaded: dict[str, Any] = json.loads((SCHEMAS / f"{command}.schema.json").read_text(encoding="utf-8"))
    return loaded


def show_schema() -> str:
    """The text of show.schema.json."""
    made, fpdus = schema("show"), schema("fpdus")
    made["$defs"]["fpdu"] |= {key: fpdus[key] for key in ("properties", "required")}
    made["$defs"]["finding"] = schema("analyze")["$defs"]["finding"]
    return json.dumps(made, indent=2) + "\n"


if __name__ == "__main__":
    (SCHEMAS / "show.schema.json").write_text(show_schema(), encoding="utf-8")

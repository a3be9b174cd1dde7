#!/usr/bin/env python3
"""Run the notebook of the documentation, and write it with what its cells print and show.

    python -m scripts.dev.notebook

docs/notebook.ipynb is nbformat 4.  Its cells run one after the other, in a folder of their own, as Jupyter runs them:
what is printed comes first, then the value of the last expression, as text and, where it has some, as HTML.
"""

from __future__ import annotations

import ast
import io
import json
import os
import tempfile
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "docs" / "notebook.ipynb"


def run(notebook: dict[str, Any], root: Path = ROOT) -> dict[str, Any]:
    """The notebook with the outputs of its cells; ``pcaps`` lies where they run. Raises what a cell raises."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = []
    before, number = Path.cwd(), 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            Path("pcaps").symlink_to(root / "pcaps")
            for cell in notebook["cells"]:
                ran = cell
                if cell["cell_type"] == "code":
                    number += 1
                    outputs = _outputs("".join(cell["source"]), names, number)
                    ran = {**cell, "execution_count": number, "outputs": outputs}
                cells.append(ran)
        finally:
            os.chdir(before)
    return {**notebook, "cells": cells}


def _outputs(source: str, names: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """Return what a cell prints, and the value that it ends with."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    value = None
    with redirect_stdout(printed):
        exec(compile(tree, f"cell {number}", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": _lines(printed.getvalue())})
    if value is not None:
        data = {"text/plain": _lines(repr(value))}
        html = getattr(value, "_repr_html_", lambda: None)()
        if html is not None:
            data["text/html"] = _lines(html)
        result = {"output_type": "execute_result", "execution_count": number, "metadata": {}, "data": data}
        outputs.append(result)
    return outputs


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def text_of(notebook: dict[str, Any]) -> str:
    """A notebook as its file has it."""
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    NOTEBOOK.write_text(text_of(run(json.loads(NOTEBOOK.read_text(encoding="utf-8")))), encoding="utf-8")

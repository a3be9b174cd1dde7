"""What pyproject.toml cannot say: with SCAPY_MPA_COMPILE=1 in the environment the compiled twins are built too.

Without it the package is pure Python, and its wheel that of every platform.
"""

import os

from setuptools import Extension, setup

TWINS = ("capture/_records", "receive/_inorder")

compiled = os.environ.get("SCAPY_MPA_COMPILE", "") not in ("", "0")
setup(
    ext_modules=[
        Extension(f"scapy_mpa/{twin}".replace("/", "."), [f"scapy_mpa/{twin}.c"]) for twin in TWINS if compiled
    ]
)

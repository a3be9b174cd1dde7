"""The tests, laid out as the package is; captures and paths come from ``tests.conftest``."""

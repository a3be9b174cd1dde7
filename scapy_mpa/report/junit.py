"""A report as JUnit's XML: a test a connection, for systems that collect the results of tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from scapy_mpa.report.model import Report
from scapy_mpa.report.text import connection_lines, finding_lines
from scapy_mpa.rules.findings import Finding
from scapy_mpa.rules.table import SEVERITIES, Severity


def junit_of(report: Report, fail_on: Severity | Literal["never"]) -> bytes:
    """Return the XML.

    A connection fails for its findings of the severity ``fail_on`` or higher, and so does the capture for its own.
    Raises ImportError without junitparser.
    """
    from junitparser import Failure, JUnitXml, TestCase, TestSuite

    grave = SEVERITIES[: SEVERITIES.index(fail_on) + 1] if fail_on != "never" else ()

    def test_of(name: str, lines: Iterable[str], findings: Iterable[Finding]) -> TestCase:
        test = TestCase(name, "mpa.analyze")
        failures: list[Any] = []
        for one in findings:
            if one.severity in grave:
                failure = Failure(f"{one.rule.id}: {one.detail}", one.rule.id)
                failure.text = "\n".join(finding_lines(one))
                failures.append(failure)
        test.result = failures
        test.system_out = "\n".join(lines)
        return test

    suite = TestSuite("analyze")
    suite.add_testcase(test_of("capture", report.damage, report.findings))
    for connection in report.connections:
        name = f"connection {connection.number}: {connection.name}"
        suite.add_testcase(test_of(name, connection_lines(connection), connection.findings))
    found = JUnitXml("scapy-mpa analyze")
    found.add_testsuite(suite)
    found.update_statistics()  # type: ignore[no-untyped-call]
    return bytes(found.tostring())  # type: ignore[no-untyped-call]

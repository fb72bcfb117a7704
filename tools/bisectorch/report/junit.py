"""JUnit XML for CI: a test case a workload, failed by regressions.

An improvement passes and says so; an inconclusive workload is skipped with what it would take.
"""

from __future__ import annotations

from xml.etree import ElementTree

from bisectorch.model import Culprit, Findings, Verdict, WorkloadFindings
from bisectorch.report import account, wording
from bisectorch.report.wording import one_line


def render(findings: Findings) -> str:
    """The report of one session as a test suite."""
    suite = ElementTree.Element(
        "testsuite",
        {
            "name": _plain(f"bisectorch {account.title(findings)}"),
            "tests": str(len(findings.workloads)),
            "failures": str(sum(_regressed(found) for found in findings.workloads)),
            "errors": "0",
            "skipped": str(sum(_is_skipped(found) for found in findings.workloads)),
            "time": f"{findings.cost.seconds:.3f}",
        },
    )
    for found in findings.workloads:
        _case(suite, findings, found)
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    body = ElementTree.tostring(suites, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{body}\n'


def _case(suite: ElementTree.Element, findings: Findings, found: WorkloadFindings) -> None:
    benchmark, _, choice = found.workload.name.partition("(")
    group, _, name = benchmark.rpartition(".")
    case = ElementTree.SubElement(
        suite,
        "testcase",
        {
            "classname": _plain(group or "benchmarks"),
            "name": _plain(f"{name}({choice}" if choice else name),
        },
    )
    verdict = account.verdict_line(findings, found)
    if _regressed(found):
        failure = ElementTree.SubElement(
            case, "failure", {"type": "regression", "message": _plain(verdict)}
        )
        failure.text = "\n".join(
            _line(found, culprit) for culprit in found.culprits if culprit.is_regression
        )
    elif _is_skipped(found):
        ElementTree.SubElement(case, "skipped", {"message": _plain(verdict)})
    if found.culprits and not _regressed(found):
        out = ElementTree.SubElement(case, "system-out")
        out.text = "\n".join(_line(found, culprit) for culprit in found.culprits)


def _line(found: WorkloadFindings, culprit: Culprit) -> str:
    unit = found.workload.unit
    return _plain(
        f"{wording.percent(culprit.ratio)} {wording.percent_interval(culprit.ratio_interval)} "
        f"by {culprit.commit.sha} ({one_line(culprit.commit.subject, 200)}): "
        f"{wording.quantity(culprit.parent.level, unit)} to "
        f"{wording.quantity(culprit.child.level, unit)}; {culprit.command}"
    )


def _regressed(found: WorkloadFindings) -> bool:
    return any(culprit.is_regression for culprit in found.culprits)


def _is_skipped(found: WorkloadFindings) -> bool:
    return found.verdict is Verdict.INCONCLUSIVE and not found.culprits


def _plain(text: str) -> str:
    return one_line(text).encode("utf-8", "replace").decode("utf-8")

"""The findings of a diagnosis as text."""

from collections.abc import Iterator
from typing import Any

from launcher.cli.output.terminal import one_line, wrapped

Json = dict[str, Any]

_WAITING = {"Never": "waiting does not help", "MayHelp": "waiting may help", "Helps": "waiting helps"}
#: Tasks of a finding that are listed.
_MAX_TASKS = 8


def diagnosis_text(diagnosis: Json) -> Iterator[str]:
    """A heading, then each finding with its evidence and next step."""
    name, findings = diagnosis["metadata"]["name"], diagnosis["findings"]
    if findings:
        yield f"{name}: {len(findings)} finding{'' if len(findings) == 1 else 's'}"
    else:
        yield from wrapped(
            f"{name}: nothing wrong found. {one_line(diagnosis.get('message') or '')}".rstrip(), ""
        )
    for finding in findings:
        yield ""
        yield from _finding(finding)
    missing = diagnosis.get("missingEvidence") or ()
    if missing:
        yield ""
    for each in missing:
        yield from wrapped(f"not read: {each['resource']}: {one_line(each['reason'])}", "", "  ")


def top_finding(diagnosis: Json) -> str:
    """``FL-PEND-02: no node …``: the most important finding in one line; empty if there is none."""
    findings = diagnosis.get("findings")
    return f"{findings[0]['id']}: {one_line(findings[0]['summary'])}" if findings else ""


def _finding(finding: Json) -> Iterator[str]:
    yield f"{finding['id']}  {finding['severity']}, {_WAITING.get(finding['waiting'], finding['waiting'])}"
    yield from wrapped(one_line(finding["summary"]), "  ")
    if finding["tasks"] > 1:
        names, more = finding["taskNames"][:_MAX_TASKS], finding["tasks"] - _MAX_TASKS
        yield from wrapped(
            f"tasks: {', '.join(names)}{f' and {more} more' if more > 0 else ''}", "  ", "    "
        )
    for each in finding["evidence"]:
        yield from wrapped(f"{each['object']} {each['field']}:", "  ", "    ")
        for line in each["value"].splitlines():
            yield from wrapped(one_line(line), "    ", "      ")
    yield from wrapped(f"next: {one_line(finding['nextStep'])}", "  ", "    ")

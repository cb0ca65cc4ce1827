"""Objects of wrong shape, which other clients can store, do not break a diagnosis."""

from dataclasses import replace
from typing import Any

import pytest

from launcher.core.diagnosis.diagnosis import diagnose
from launcher.core.diagnosis.inputs import DiagnosisScope
from launcher.core.diagnosis.needed_reads import log_of_failure, running_pods
from tests.core.diagnosis.test_causes import SITUATIONS
from tests.local.malformed_objects import with_wrong_values


def variants(objects: Any) -> list[list[Any]]:
    """The list with one object at a time replaced by each of its malformed variants; names and uids stay."""
    found = []
    for index, obj in enumerate(objects):
        for wrong in with_wrong_values(obj):
            metadata = {**obj.get("metadata", {})}
            kept = {**wrong, "metadata": metadata} if "metadata" in obj else wrong
            found.append([*objects[:index], kept, *objects[index + 1 :]])
    return found


@pytest.mark.parametrize("cause", list(SITUATIONS))
def test_a_malformed_object_does_not_break_the_diagnosis(cause: str) -> None:
    source, _ = SITUATIONS[cause]

    for pods in variants(list(source.pods)):
        malformed = replace(source, pods=pods)
        diagnose(malformed)
        log_of_failure(malformed)
        running_pods(malformed, DiagnosisScope("worker", 0), limit=1)
    for nodes in variants(list(source.nodes or ())):
        diagnose(replace(source, nodes=nodes))
    for events in variants(list(source.events)):
        diagnose(replace(source, events=events))

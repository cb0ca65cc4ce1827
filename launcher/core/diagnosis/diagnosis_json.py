"""The Diagnosis object, as the API returns it."""

from collections.abc import Mapping, Sequence
from typing import Any

from launcher.core.diagnosis.diagnosis import diagnose
from launcher.core.diagnosis.finding import finding_to_json
from launcher.core.diagnosis.inputs import DiagnosisInput, DiagnosisScope
from launcher.core.json_access import as_object, text
from launcher.core.names import API_VERSION
from launcher.core.timestamps import format_rfc3339

KIND = "Diagnosis"


def diagnosis_to_json(
    source: DiagnosisInput, selector: DiagnosisScope | None, missing: Sequence[Mapping[str, str]] = ()
) -> dict[str, Any]:
    """The findings for *source*; *missing* names the resources that could not be read, with the reason."""
    metadata = source.object["metadata"]
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "creationTimestamp": format_rfc3339(source.now),
        },
        "message": text(as_object(source.object.get("status")).get("message")),
        "findings": [finding_to_json(finding) for finding in diagnose(source, selector)],
        "missingEvidence": list(missing),
    }

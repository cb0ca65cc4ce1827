"""FrameworkAttempt objects: the records of completed attempts of Frameworks that were retried."""

from typing import Any

from launcher.core.framework import Framework
from launcher.core.names import API_VERSION, KIND, PodIdentityKey, attempt_record_name
from launcher.core.owner_references import controller_reference
from launcher.core.planning.actions import RecordAttempt
from launcher.core.serialization.status_json import attempt_status_to_json
from launcher.core.status import FrameworkStatus

ATTEMPT_KIND = "FrameworkAttempt"


def framework_attempt_to_json(
    framework: Framework, status: FrameworkStatus, action: RecordAttempt
) -> dict[str, Any]:
    """The FrameworkAttempt of the completed attempt in *status*. The Framework owns it, so it is deleted with it."""
    retry, number = action.retry, status.attempt.id + 1
    return {
        "apiVersion": API_VERSION,
        "kind": ATTEMPT_KIND,
        "metadata": {
            "name": attempt_record_name(framework.name, number),
            "namespace": framework.namespace,
            "labels": {
                PodIdentityKey.FRAMEWORK_NAME.value: framework.name,
                PodIdentityKey.FRAMEWORK_ATTEMPT_ID.value: str(status.attempt.id),
            },
            "ownerReferences": [controller_reference(API_VERSION, KIND, framework.name, framework.uid)],
        },
        "frameworkName": framework.name,
        "attempt": number,
        "message": action.message,
        "counted": retry.accountable,
        **({"uncountedReason": retry.uncounted_reason} if retry.uncounted_reason else {}),
        "retryReason": retry.reason,
        **({} if retry.left is None else {"retriesLeft": retry.left}),
        "attemptStatus": attempt_status_to_json(status, framework.name, framework.uid),
    }

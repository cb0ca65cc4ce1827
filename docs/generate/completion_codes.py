"""``docs/completion-codes.md``: every code, its meaning and whether it is retried, from the tables of the code."""

from collections.abc import Mapping
from typing import Any

from docs.generate.markdown import code, page, table
from launcher.core.completion_codes import PREDEFINED, UNRECOGNIZED, Code
from launcher.core.failures.default_spec import DEFAULT_SPEC

_INTRODUCTION = """\
`completionStatus.code` is the result of an attempt, of a Framework or of a task. 0 is success. A
code above zero is the exit code of a container. A code below zero is set by the launcher: -100 to
-199 for transient failures, -200 to -299 for permanent ones, -300 to -399 for failures of unknown
kind, and -1000 and below by [failure rules](#codes-by-failure-rule).

The column *kind* matters for a retry policy with `fancyRetryPolicy: true`: a transient failure is
retried and does not count as a retry, a permanent one is not retried, and an unknown one is retried
up to `maxRetryCount` times. A conflict is a transient failure for lack of resources. [Retries and
completion](retries-and-completion.md) explains retry policies."""

#: What each code means to a user, and what to do about it.
MEANINGS: Mapping[Code, str] = {
    Code.SUCCEEDED: "The attempt succeeded.",
    Code.CONTAINER_TRANSIENT: "The program exited with 200, which means: the same attempt may succeed later.",
    Code.CONTAINER_TRANSIENT_CONFLICT: "The program exited with 201, which means: resources or peers were missing.",
    Code.CONTAINER_PERMANENT: "The program exited with 210, which means: a retry cannot succeed.",
    Code.FRAMEWORK_EXTERNAL_DELETED: "The Framework was deleted during the attempt.",
    Code.POD_EXTERNAL_DELETED: "The pod was deleted by a user or by the cluster, not by the launcher.",
    Code.POD_LOCAL_CACHE_CREATION_TIMEOUT: "A pod that was created did not appear in the watch of the launcher.",
    Code.POD_PENDING_DEADLINE_EXCEEDED: "The pod was Pending for longer than `pendingDeadlineSeconds`.",
    Code.GANG_TIMEOUT: "The tasks of the gang could not be placed together within `gang.timeoutSeconds`.",
    Code.POD_CREATION_TRANSIENT_ERROR: "The API server rejected the pod for now, for example because of a full quota.",
    Code.POD_CREATION_PERMANENT_ERROR: "The API server rejected the pod as invalid or forbidden: change the template.",
    Code.POD_START_PERMANENT_ERROR: "The pod can never start (`failFast`): change it, or create what is missing.",
    Code.STOP_FRAMEWORK_REQUESTED: "A user stopped the Framework (`launcher stop`, or `executionType: Stop`).",
    Code.ACTIVE_DEADLINE_EXCEEDED: "The Framework ran for longer than `activeDeadlineSeconds`.",
    Code.FRAMEWORK_ATTEMPT_COMPLETION: "The task was ended because the attempt of its Framework had completed.",
    Code.DELETE_TASK_REQUESTED: "The task was removed because its role was scaled down.",
    Code.START_CONDITION_UNREACHABLE: "A condition of `startAfter` can no longer become true.",
    Code.POD_FAILED_WITHOUT_FAILED_CONTAINER: "The pod failed, but none of its containers did.",
    Code.POD_CREATION_UNKNOWN_ERROR: "The pod could not be created, and the reason is unknown.",
    Code.STALLED: "The task had no output and no heartbeat for longer than `progressDeadlineSeconds`.",
}


def completion_codes_page() -> str:
    """The reference of completion codes."""
    own = (
        (
            str(int(entry)),
            code(PREDEFINED[entry].phrase),
            _kind(PREDEFINED[entry].attributes),
            MEANINGS[entry],
        )
        for entry in sorted(Code, key=lambda entry: (entry < 0, abs(entry)))
    )
    rules = (
        (str(rule["code"]), code(rule["phrase"]), _kind(rule["type"]["attributes"]), _patterns(rule))
        for rule in DEFAULT_SPEC
    )
    return page(
        "Completion codes",
        "launcher/core/completion_codes.py and launcher/core/failures/default_spec.py",
        _INTRODUCTION,
        "## Codes of the launcher",
        table(("code", "phrase", "kind", "meaning"), own),
        "## Codes by failure rule",
        "The first rule that matches a failed pod decides. `(?i)` means that case does not matter.",
        table(("code", "phrase", "kind", "matches"), rules),
        f"Every other exit code has the phrase `{UNRECOGNIZED}` and an unknown kind.",
    )


def _kind(attributes: Any) -> str:
    kinds = sorted(str(attribute).lower() for attribute in attributes)
    return ", ".join(kinds) or "unknown"


def _patterns(rule: Mapping[str, Any]) -> str:
    return " or ".join(_pattern(pattern) for pattern in rule["podPatterns"])


def _pattern(pattern: Mapping[str, Any]) -> str:
    if reason := pattern.get("reasonRegex"):
        return f"pod reason {code(reason)}"
    if conditions := pattern.get("conditions"):
        return "pod condition " + ", ".join(code(each["typeRegex"]) for each in conditions)
    (container,) = pattern["containers"]
    parts = []
    if reason := container.get("reasonRegex"):
        parts.append(f"container reason {code(reason)}")
    codes = container["codeRange"]
    if codes["min"] == codes.get("max"):
        parts.append(f"exit code {codes['min']}")
    elif codes.get("max") is None:
        parts.append(f"exit code {codes['min']} or more")
    if message := container.get("messageRegex"):
        parts.append(f"message {code(message)}")
    return ", ".join(parts)

"""The content of ``schemas/framework.schema.json``: the fields of a Framework, and the structure of a pod."""

import json
from pathlib import Path

from launcher.core.spec import DEFAULT_ATTEMPT_HISTORY
from schemas.generate.parts import (
    INT32,
    INT64,
    Schema,
    choice,
    flag,
    listing,
    mandatory,
    text,
    thing,
    whole,
)
from schemas.generate.pod_schema import pod_definitions
from schemas.generate.status_schema import framework_attempt, status

SCHEMA_FILE = Path(__file__).parents[1] / "framework.schema.json"
#: The names of the definitions of the status, and of the record of an attempt.
STATUS, ATTEMPT = "FrameworkStatus", "FrameworkAttempt"

POSITIVE = {"minimum": 1, "maximum": INT32}
ROLE_NAME = {"pattern": "^[a-z0-9]{1,63}$", "x-must": "must be 1 to 63 lower-case letters and digits"}


#: Indexes or exit codes, and ranges of them.
RANGES = "^[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?)*$"


def retry_policy(of: str, more: Schema | None = None) -> Schema:
    return thing(
        f"Whether {of} is retried after an attempt.",
        {
            "fancyRetryPolicy": flag(
                "The kind of failure decides: a transient failure (a lost node) is always retried and does not "
                "count, a permanent one (an invalid pod template) is never retried."
            ),
            "maxRetryCount": whole(
                "The maximum number of retries. -1 retries after every failure, -2 also after success.",
                minimum=-2,
                maximum=INT32,
                default=0,
            ),
            **(more or {}),
        },
    )


def exit_codes() -> Schema:
    return {
        "retryableExitCodes": {
            "description": "A failed container is retried only if its exit code is one of these, whatever the kind of "
            "failure; maxRetryCount still applies. A pod that ends without an exit code, because it was evicted or "
            "deleted, is retried by its kind of failure with fancyRetryPolicy, and not retried without it. "
            "Default: exit codes do not restrict retries.",
            "type": ["string", "integer", "null"],
            "minimum": 0,
            "maximum": 9999,
            "pattern": RANGES,
            "x-must": 'must list exit codes and ranges, such as "128-255" or "130,137,143"',
            "examples": ["128-255", "130,137,143"],
        }
    }


def completion_policy() -> Schema:
    never = "-1 means never, and 0 is read as -1."
    return thing(
        "When the tasks of this role complete the attempt of the Framework. "
        "If no role does, the attempt succeeds when all tasks have completed.",
        {
            "minFailedTaskCount": whole(
                f"The attempt fails when this many tasks have failed; {never}",
                minimum=-1,
                maximum=INT32,
                default=1,
            ),
            "minSucceededTaskCount": whole(
                f"The attempt succeeds when this many tasks have succeeded; {never}",
                minimum=-1,
                maximum=INT32,
                default=-1,
            ),
            "succeededIndexes": {
                "description": "The attempt succeeds when all of these tasks have succeeded.",
                "type": ["string", "integer", "null"],
                "minimum": 0,
                "maximum": 9999,
                "pattern": RANGES,
                "x-must": 'must list task indexes and ranges, such as "0" or "0,2-5"',
                "examples": ["0", "0,2-5"],
            },
        },
    )


def start_after() -> Schema:
    return listing(
        "Pods of this role are created when all of these conditions are met.",
        thing(
            "Wait for another role.",
            {
                "role": mandatory(text("The role to wait for.", **ROLE_NAME)),
                "condition": choice(
                    "The condition that its tasks have to meet.",
                    "Running",
                    "Ready",
                    "Succeeded",
                    default="Running",
                ),
                "atLeast": whole(
                    "The number of its tasks that have to meet it. Default: all.", minimum=1, maximum=10000
                ),
            },
            required=("role",),
        ),
    )


def task() -> Schema:
    return thing(
        "The template of the tasks of this role.",
        {
            "retryPolicy": retry_policy("a task", exit_codes()),
            "podGracefulDeletionTimeoutSec": whole(
                "A pod whose deletion takes longer than this is deleted by force. It may still run on an unreachable "
                "node. Default: pods are never deleted by force.",
                minimum=0,
                maximum=INT64,
            ),
            "pendingDeadlineSeconds": whole(
                "A pod that is Pending for longer than this fails its attempt. Default: no limit.",
                **POSITIVE,
            ),
            "progressDeadlineSeconds": whole(
                "A running task without output and without a heartbeat for longer than this fails its attempt "
                "(Stalled). Default: no limit.",
                **POSITIVE,
            ),
            "failFast": {
                "description": "A pod that can never start fails its attempt as a permanent failure: an invalid image "
                "name, a command that does not exist, a missing Secret or ConfigMap (after two minutes), or in local "
                "mode a request that exceeds every node. false waits. Default: true.",
                "type": ["boolean", "null"],
            },
            "podFailureSpec": pod_failure_spec(),
            "pod": {
                "description": "The pod of each task: metadata and spec, as in Kubernetes.",
                "$ref": "#/$defs/PodTemplateSpec",
                "x-kubernetes-preserve-unknown-fields": True,
            },
        },
    )


def pod_failure_spec() -> Schema:
    """The same format as the podFailureSpec of FrameworkController's configuration."""
    regex = "A regular expression in RE2 syntax, searched in"
    bounds = {
        "min": integer("The lowest value. Default: no limit."),
        "max": integer("The highest value. Default: no limit."),
    }
    container = thing(
        "All given fields must match one container.",
        {
            "nameRegex": text(f"{regex} the name of the container."),
            "reasonRegex": text(f"{regex} the reason of its termination."),
            "messageRegex": text(f"{regex} its termination message."),
            "signalRange": thing("The signal that terminated it, inclusive.", bounds),
            "codeRange": thing("Its exit code, inclusive.", bounds),
        },
    )
    condition = thing(
        "All given fields must match one condition that is True.",
        {
            "typeRegex": text(f"{regex} the type of the condition."),
            "reasonRegex": text(f"{regex} its reason."),
            "messageRegex": text(f"{regex} its message."),
        },
    )
    pattern = thing(
        "All given fields must match.",
        {
            "nameRegex": text(f"{regex} the name of the pod."),
            "reasonRegex": text(f"{regex} status.reason of the pod."),
            "messageRegex": text(f"{regex} status.message of the pod."),
            "containers": listing("Each pattern must match a container.", container),
            "conditions": listing("Each pattern must match a condition.", condition),
        },
    )
    kind = thing(
        "The type of the completion.",
        {
            "name": text("Failed, which is also the default.", enum=["Failed", None]),
            "attributes": listing(
                "With fancyRetryPolicy, Transient failures are always retried and Permanent ones never.",
                text("What is known about the failure.", enum=["Transient", "Permanent", "Conflict"]),
            ),
        },
    )
    return listing(
        "Failure rules of this role, in the format of FrameworkController. The first rule that matches a failed pod "
        "sets its completion code. They are evaluated before the rules of the cluster and the built-in rules.",
        thing(
            "A failed pod that matches one of the patterns completes with this code.",
            {
                "code": mandatory(
                    integer("The completion code: unique, and not in -999 to 0 or 200 to 219.")
                ),
                "phrase": text("A name for the code, such as OutOfGpuMemory."),
                "type": kind,
                "podPatterns": mandatory(listing("At least one pattern.", pattern)),
            },
            required=("code", "podPatterns"),
        ),
    )


def integer(description: str) -> Schema:
    return whole(description, minimum=-INT32 - 1, maximum=INT32)


def task_role() -> Schema:
    return thing(
        "A group of identical tasks.",
        {
            "name": mandatory(text("Unique within the Framework.", **ROLE_NAME)),
            "taskNumber": whole(
                "The number of tasks. It can be changed while the Framework runs.",
                minimum=0,
                maximum=10000,
                default=0,
            ),
            "startAfter": start_after(),
            "frameworkAttemptCompletionPolicy": completion_policy(),
            "background": flag(
                "The role never counts towards completion and ends with the attempt. For TensorBoard and similar."
            ),
            "task": task(),
        },
        required=("name",),
    )


def discovery() -> Schema:
    return thing(
        "Adds an init container to each pod. It waits until every task has an address and writes all to files.",
        {
            "mountPath": text(
                "The directory of the files in the containers.",
                pattern="^/",
                default="/configdir",
                **{"x-must": "must be an absolute path, such as /configdir"},
            ),
            "ports": {
                "description": "The port of the tasks of each role; auto selects a free port of the node.",
                "type": ["object", "null"],
                "additionalProperties": {
                    "type": ["integer", "string"],
                    "minimum": 1,
                    "maximum": 65535,
                    "pattern": "^auto$",
                    "x-must": 'must be a port number or "auto"',
                },
                "examples": [{"worker": 46866, "ps": "auto"}],
            },
            "waitForPorts": flag(
                "Wait until the tasks of all roles that are created earlier listen on their ports."
            ),
            "timeoutSeconds": whole(
                "A task that has waited longer for its peers fails and names the missing ones. Default: no limit.",
                **POSITIVE,
            ),
            "image": text(
                "The image of the init container, with /bin/sh and one of curl, wget and python3. "
                "Default: the image of the first container of the pod."
            ),
        },
    )


def gang() -> Schema:
    return thing(
        "All or nothing: the tasks are placed together, or none is.",
        {
            "minTasks": whole(
                "The number of tasks that have to fit. Default: all, except those of background roles.",
                **POSITIVE,
            ),
            "timeoutSeconds": whole(
                "The attempt fails after this time without enough resources. Default: no limit.", **POSITIVE
            ),
            "queue": text("The queue of the gang scheduler of the cluster, if it has queues."),
        },
    )


def spec() -> Schema:
    return thing(
        "The desired state.",
        {
            "description": text("A free text."),
            "executionType": choice(
                "Start runs the Framework, Create suspends it until it is set to Start, Stop ends it for good.",
                "Create",
                "Start",
                "Stop",
                default="Start",
            ),
            "retryPolicy": retry_policy("the Framework"),
            "roleSequence": listing(
                "The order in which the pods of roles are created; roles not listed follow. Default: all at once.",
                text("The name of a role.", **ROLE_NAME),
            ),
            "gang": gang(),
            "discovery": discovery(),
            "activeDeadlineSeconds": whole(
                "The Framework fails when it has run for longer than this.", **POSITIVE
            ),
            "ttlSecondsAfterFinished": whole(
                "The Framework is deleted this long after its completion. Default: 30 days.",
                minimum=0,
                maximum=INT32,
            ),
            "cleanPodPolicy": choice(
                "Which pods are deleted after the last attempt: those still Running, All or None.",
                "None",
                "Running",
                "All",
                default="Running",
            ),
            "attemptHistoryLimit": whole(
                "When the Framework is retried, the completed attempt becomes a FrameworkAttempt object; this many "
                f"are kept. 0 keeps none. Default: {DEFAULT_ATTEMPT_HISTORY}.",
                minimum=0,
                maximum=100,
            ),
            "replicas": whole(
                "The number of tasks of the only role, as kubectl scale and autoscalers set it. It overrides "
                "taskNumber until taskNumber is changed. Not allowed with several roles.",
                minimum=0,
                maximum=10000,
            ),
            "taskRoles": listing("The roles of the Framework.", task_role()),
        },
    )


def framework() -> Schema:
    name = text(
        "The name of the Framework, and the prefix of the names of its pods.",
        pattern="^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$",
        **{"x-must": "must be 1 to 63 lower-case letters, digits and hyphens, with no hyphen at either end"},
    )
    prefix = text(
        "Used without a name: the name is this prefix and five more characters.",
        pattern="^[a-z0-9][-a-z0-9]*$",
        **{"x-must": "must be lower-case letters, digits and hyphens, beginning with a letter or digit"},
    )
    return {
        "title": "Framework",
        "description": "A job: roles of tasks that start, retry and complete together.",
        "type": "object",
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "properties": {
            "apiVersion": {"type": "string", "enum": ["launcher.microsoft.com/v1"]},
            "kind": {"type": "string", "enum": ["Framework"]},
            "metadata": {
                "description": "Name, labels and annotations.",
                "$ref": "#/$defs/ObjectMeta",
                "type": "object",
                "properties": {"name": name, "generateName": prefix},
            },
            "spec": mandatory(spec()),
            "status": {
                "description": "The observed state, written by the launcher.",
                "type": ["object", "null"],
            },
        },
    }


def schema_text() -> str:
    """The content of the file: the fields of a Framework indented, each definition of Kubernetes on one line."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", **framework(), "$defs": {}}
    # Nothing refers to these: the launcher writes them, so they are not validated.
    definitions = {STATUS: status(), ATTEMPT: framework_attempt(), **pod_definitions()}
    lines = [
        f"    {json.dumps(name)}: {json.dumps(definition, separators=(',', ':'), ensure_ascii=False)}"
        for name, definition in definitions.items()
    ]
    start = json.dumps(head, indent=2, ensure_ascii=False).removesuffix("{}\n}")
    return start + "{\n" + ",\n".join(lines) + "\n  }\n}\n"

"""
Write ``schemas/framework.schema.json``: our fields and Kubernetes' structure of a pod, all in our own words.

Run as ``python -m tests.core.make_schema``. What Kubernetes knows of a pod is read from the development
dependency kubernetes-validate: names, types and required fields, nothing else. The words are in ``pod_words``.
"""

import json
from pathlib import Path

import kubernetes_validate

from tests.core.pod_words import WORDS
from tests.core.schema_parts import (
    INT32,
    INT64,
    Schema,
    choice,
    flag,
    kinds_of,
    listing,
    mandatory,
    text,
    thing,
    whole,
)
from tests.core.status_schema import status

SCHEMA_FILE = Path(__file__).parents[2] / "schemas" / "framework.schema.json"
#: The Kubernetes release whose pods are described.
KUBERNETES = "v1.37.0"
#: Where the status is described.
STATUS = "FrameworkStatus"
POD_TEMPLATE = "io.k8s.api.core.v1.PodTemplateSpec"

POSITIVE = {"minimum": 1, "maximum": INT32}
PORT = {"minimum": 1, "maximum": 65535}
FILE_MODE = {"minimum": 0, "maximum": 0o777}
ROLE_NAME = {"pattern": "^[a-z0-9]{1,63}$", "x-must": "must be 1 to 63 lower-case letters and digits"}


#: Indexes or exit codes, and ranges of them.
RANGES = "^[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?)*$"


def retry_policy(of: str, more: Schema | None = None) -> Schema:
    return thing(
        f"When {of} that has ended is run again.",
        {
            "fancyRetryPolicy": flag(
                "Let the kind of failure decide: a passing trouble (a lost node, a full registry) is always "
                "run again and costs no retry, a hopeless one (a bad pod template) never is."
            ),
            "maxRetryCount": whole(
                "How many retries there may be. -1 runs again after any failure, -2 after success too.",
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
            "description": "A container that fails is run again only if its exit code is one of these, whatever "
            "else is known of the failure; maxRetryCount still counts. A pod that ends without an exit code, since "
            "it was evicted or deleted, is run again as its kind of failure says with fancyRetryPolicy, and not "
            "without. Left out: the exit code alone decides nothing.",
            "type": ["string", "integer", "null"],
            "minimum": 0,
            "maximum": 9999,
            "pattern": RANGES,
            "x-must": 'must list exit codes and ranges, such as "128-255" or "130,137,143"',
            "examples": ["128-255", "130,137,143"],
        }
    }


def completion_policy() -> Schema:
    never = "-1 is never, and 0 is read as -1."
    return thing(
        "When the tasks of this role end the whole attempt. "
        "If no role does, the attempt succeeds once every task is done.",
        {
            "minFailedTaskCount": whole(
                f"This many failed tasks end the attempt as failed; {never}",
                minimum=-1,
                maximum=INT32,
                default=1,
            ),
            "minSucceededTaskCount": whole(
                f"This many succeeded tasks end the attempt as succeeded; {never}",
                minimum=-1,
                maximum=INT32,
                default=-1,
            ),
            "succeededIndexes": {
                "description": "Once all of these tasks have succeeded, the attempt ends as succeeded.",
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
        "Pods of this role are created only when all of these hold.",
        thing(
            "Wait for another role.",
            {
                "role": mandatory(text("The role to wait for.", **ROLE_NAME)),
                "condition": choice(
                    "What its tasks must have reached.", "Running", "Ready", "Succeeded", default="Running"
                ),
                "atLeast": whole(
                    "How many of its tasks must have; all of them if left out.", minimum=1, maximum=10000
                ),
            },
            required=("role",),
        ),
    )


def task() -> Schema:
    return thing(
        "What each task of the role is.",
        {
            "retryPolicy": retry_policy("a task", exit_codes()),
            "podGracefulDeletionTimeoutSec": whole(
                "A pod that takes longer than this to go is removed by force, at the risk that it still runs "
                "on a node that cannot be reached. Left out: never by force.",
                minimum=0,
                maximum=INT64,
            ),
            "pendingDeadlineSeconds": whole(
                "A pod that stays Pending for longer than this fails its attempt. Left out: it may wait.",
                **POSITIVE,
            ),
            "pod": {
                "description": "The pod to make for each task: metadata and spec, as in Kubernetes.",
                "$ref": "#/$defs/PodTemplateSpec",
                "x-kubernetes-preserve-unknown-fields": True,
            },
        },
    )


def task_role() -> Schema:
    return thing(
        "A group of identical tasks.",
        {
            "name": mandatory(text("Unique within the Framework.", **ROLE_NAME)),
            "taskNumber": whole(
                "How many tasks. May be changed while the Framework runs.",
                minimum=0,
                maximum=10000,
                default=0,
            ),
            "startAfter": start_after(),
            "frameworkAttemptCompletionPolicy": completion_policy(),
            "background": flag(
                "The role never counts towards the end of the attempt, and ends with it: for a tensorboard."
            ),
            "task": task(),
        },
        required=("name",),
    )


def discovery() -> Schema:
    return thing(
        "An init container is added to each pod. "
        "It waits until every task has an address and writes all of them to files.",
        {
            "mountPath": text(
                "Where the containers find the files.",
                pattern="^/",
                default="/configdir",
                **{"x-must": "must be an absolute path, such as /configdir"},
            ),
            "ports": {
                "description": "The port that each role's tasks listen on; auto takes a free one of the node.",
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
                "Wait also until the tasks of all roles that are created earlier listen on their ports."
            ),
            "timeoutSeconds": whole(
                "A task that has waited for its peers for longer fails and names those that are missing. "
                "Left out: it waits for ever.",
                **POSITIVE,
            ),
            "image": text(
                "The image of the init container: it has /bin/sh and one of curl, wget and python3. "
                "Left out: that of the pod's first container."
            ),
        },
    )


def gang() -> Schema:
    return thing(
        "All or nothing: the tasks are placed together, or none of them is.",
        {
            "minTasks": whole(
                "How many tasks must fit; left out: all of them, but for those of background roles.",
                **POSITIVE,
            ),
            "timeoutSeconds": whole(
                "How long to wait for room before the attempt fails. Left out: for ever.", **POSITIVE
            ),
            "queue": text("The queue it waits in, where the cluster's gang scheduler has queues."),
        },
    )


def spec() -> Schema:
    return thing(
        "What is wanted.",
        {
            "description": text("A note for people."),
            "executionType": choice(
                "Start runs the Framework, Create holds it back until it is set to Start, Stop ends it for good.",
                "Create",
                "Start",
                "Stop",
                default="Start",
            ),
            "retryPolicy": retry_policy("the Framework as a whole"),
            "roleSequence": listing(
                "The order in which roles are created; roles not named here follow. Left out: all at once.",
                text("The name of a role.", **ROLE_NAME),
            ),
            "gang": gang(),
            "discovery": discovery(),
            "activeDeadlineSeconds": whole("A Framework that runs for longer than this fails.", **POSITIVE),
            "ttlSecondsAfterFinished": whole(
                "The Framework is deleted this long after its end. Left out: never.", minimum=0, maximum=INT32
            ),
            "cleanPodPolicy": choice(
                "Which pods are deleted at the end: those still Running, All or None.",
                "None",
                "Running",
                "All",
                default="Running",
            ),
            "replicas": whole(
                "How many tasks the only task role has: kubectl scale and autoscalers write it. It stands over "
                "taskNumber, and follows when that is changed. Left out: taskNumber. Not with several roles.",
                minimum=0,
                maximum=10000,
            ),
            "taskRoles": listing("The groups of tasks that make up the Framework.", task_role()),
        },
    )


def framework() -> Schema:
    name = text(
        "Names the Framework and begins the name of each of its pods.",
        pattern="^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$",
        **{"x-must": "must be 1 to 63 lower-case letters, digits and hyphens, with no hyphen at either end"},
    )
    prefix = text(
        "Used when there is no name: the name is this and five more characters.",
        pattern="^[a-z0-9][-a-z0-9]*$",
        **{"x-must": "must be lower-case letters, digits and hyphens, beginning with a letter or digit"},
    )
    return {
        "title": "Framework",
        "description": "Groups of tasks that start, retry and finish together.",
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
                "description": "What has happened so far; written by the launcher.",
                "type": ["object", "null"],
            },
        },
    }


def one_of(*words: str) -> Schema:
    """One of these words, or nothing."""
    return {"enum": [*words, None]}


#: Rules that spare users a pod that Kubernetes would refuse, beyond names and types.
TIGHTER: dict[tuple[str, str], Schema] = {
    ("PodSpec", "restartPolicy"): one_of("Always", "OnFailure", "Never"),
    ("PodSpec", "dnsPolicy"): one_of("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
    ("PodSpec", "preemptionPolicy"): one_of("PreemptLowerPriority", "Never"),
    ("PodSpec", "activeDeadlineSeconds"): {"minimum": 1, "maximum": INT32},
    # The time at which a grace ends has to be one that can be written.
    ("PodSpec", "terminationGracePeriodSeconds"): {"maximum": INT32},
    ("PodSecurityContext", "fsGroupChangePolicy"): one_of("OnRootMismatch", "Always"),
    ("Container", "imagePullPolicy"): one_of("Always", "IfNotPresent", "Never"),
    ("Container", "restartPolicy"): one_of("Always", "OnFailure", "Never"),
    ("Container", "terminationMessagePolicy"): one_of("File", "FallbackToLogsOnError"),
    ("ContainerPort", "containerPort"): PORT,
    ("ContainerPort", "hostPort"): {"minimum": 0, "maximum": 65535},
    ("ContainerPort", "protocol"): one_of("TCP", "UDP", "SCTP"),
    ("HTTPGetAction", "port"): PORT,
    ("HTTPGetAction", "scheme"): one_of("HTTP", "HTTPS"),
    ("TCPSocketAction", "port"): PORT,
    ("GRPCAction", "port"): PORT,
    ("Probe", "initialDelaySeconds"): {"minimum": 0},
    ("Probe", "timeoutSeconds"): {"minimum": 0},
    ("Probe", "periodSeconds"): {"minimum": 0},
    ("Probe", "successThreshold"): {"minimum": 0},
    ("Probe", "failureThreshold"): {"minimum": 0},
    ("VolumeMount", "mountPropagation"): one_of("None", "HostToContainer", "Bidirectional"),
    ("HostPathVolumeSource", "type"): one_of(
        "",
        "DirectoryOrCreate",
        "Directory",
        "FileOrCreate",
        "File",
        "Socket",
        "CharDevice",
        "BlockDevice",
    ),
    **{
        (source, "defaultMode"): FILE_MODE
        for source in ("ConfigMapVolumeSource", "SecretVolumeSource", "DownwardAPIVolumeSource")
    },
    ("ProjectedVolumeSource", "defaultMode"): FILE_MODE,
    ("KeyToPath", "mode"): FILE_MODE,
    ("DownwardAPIVolumeFile", "mode"): FILE_MODE,
    ("NodeSelectorRequirement", "operator"): one_of("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"),
    ("LabelSelectorRequirement", "operator"): one_of("In", "NotIn", "Exists", "DoesNotExist"),
    ("PreferredSchedulingTerm", "weight"): {"minimum": 1, "maximum": 100},
    ("WeightedPodAffinityTerm", "weight"): {"minimum": 1, "maximum": 100},
    ("Toleration", "operator"): one_of("", "Exists", "Equal", "Lt", "Gt"),
    ("Toleration", "effect"): one_of("", "NoSchedule", "PreferNoSchedule", "NoExecute"),
    ("TopologySpreadConstraint", "maxSkew"): {"minimum": 1},
    ("TopologySpreadConstraint", "whenUnsatisfiable"): one_of("DoNotSchedule", "ScheduleAnyway"),
    **{
        (context, field): {"minimum": 0, "maximum": INT32}
        for context in ("PodSecurityContext", "SecurityContext")
        for field in ("runAsUser", "runAsGroup")
    },
    ("PodSecurityContext", "fsGroup"): {"minimum": 0, "maximum": INT32},
    ("SeccompProfile", "type"): one_of("RuntimeDefault", "Unconfined", "Localhost"),
    ("AppArmorProfile", "type"): one_of("RuntimeDefault", "Unconfined", "Localhost"),
}


def _short(name: str) -> str:
    return name.rsplit("/", 1)[-1].rsplit(".", 1)[-1]


def _present(schema: Schema) -> Schema:
    """The same, but null is not an answer; a definition stays shared and the type stands beside its name."""
    return {**schema, "type": "object"} if "$ref" in schema else mandatory(schema)


class PodDefinitions:
    """Everything a PodTemplateSpec is made of, with nothing but types, names and what is required."""

    def __init__(
        self,
        known: Schema,
        tighter: dict[tuple[str, str], Schema] = TIGHTER,
        words: dict[str, dict[str, str]] = WORDS,
    ) -> None:
        self._known, self._tighter, self._words = known, tighter, words
        self.found: Schema = {}

    def refer(self, name: str) -> Schema:
        """The way to write the definition called *name*; objects are shared, the rest stands in place."""
        source, short = self._known[name], _short(name)
        if "object" not in kinds_of(source):
            return self._compact(source)
        if short not in self.found:
            self.found[short] = {}  # in its place before its parts ask for it
            self.found[short] = self._definition(short, source)
        return {"$ref": f"#/$defs/{short}"}

    def _definition(self, short: str, source: Schema) -> Schema:
        compact = self._compact(source)
        properties = compact.get("properties", {})
        for field in compact.get("required", ()):
            properties[field] = _present(properties[field])
        for (owner, field), rules in self._tighter.items():
            if owner == short:
                properties[field] |= rules
        for field, words in self._words.get(short, {}).items():
            properties[field] = {"description": words, **properties[field]}
        return compact

    def _compact(self, source: Schema) -> Schema:
        if "$ref" in source:
            return self.refer(source["$ref"].rsplit("/", 1)[-1])
        if "oneOf" in source:  # a quantity or an int-or-string: upstream's oneOf would refuse null
            kinds = [kind for option in source["oneOf"] for kind in kinds_of(option) if kind != "null"]
            return {"type": [*kinds, "null"]}
        compact: Schema = {"type": source["type"]}
        if "integer" in kinds_of(source):
            largest = INT32 if source.get("format") == "int32" else INT64
            compact |= {"minimum": -largest - 1, "maximum": largest}
        if "items" in source:
            compact["items"] = _present(self._compact(source["items"]))
        if isinstance(source.get("additionalProperties"), dict):
            compact["additionalProperties"] = self._compact(source["additionalProperties"])
        if "properties" in source:
            compact["properties"] = {name: self._compact(part) for name, part in source["properties"].items()}
        if "required" in source:
            compact["required"] = source["required"]
        return compact


def definitions_of_kubernetes() -> Schema:
    """Every definition of Kubernetes, by its full name."""
    data = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema" / f"{KUBERNETES}-local"
    definitions: Schema = json.loads((data / "_definitions.json").read_text())["$defs"]
    return definitions


def pod_definitions() -> Schema:
    """The definitions behind ``#/$defs/PodTemplateSpec``, by short name."""
    definitions = PodDefinitions(definitions_of_kubernetes())
    definitions.refer(POD_TEMPLATE)
    return dict(sorted(definitions.found.items()))


def schema_text() -> str:
    """The file's content: our part spread out for readers, each definition of Kubernetes on one line."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", **framework(), "$defs": {}}
    # Nothing refers to the status: whoever reads a Framework takes none from its sender, and so does not look at it.
    definitions = {STATUS: status(), **pod_definitions()}
    lines = [
        f"    {json.dumps(name)}: {json.dumps(definition, separators=(',', ':'), ensure_ascii=False)}"
        for name, definition in definitions.items()
    ]
    start = json.dumps(head, indent=2, ensure_ascii=False).removesuffix("{}\n}")
    return start + "{\n" + ",\n".join(lines) + "\n  }\n}\n"


if __name__ == "__main__":
    SCHEMA_FILE.write_text(schema_text())

"""The flags of ``arena submit tfjob``: the value and the fields of a Framework that each sets."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto

ROLES = ("ps", "worker", "chief", "evaluator")


class FlagType(Enum):
    """The type of the value of a flag."""

    TEXT = auto()
    NUMBER = auto()
    SWITCH = auto()
    #: A text; the flag may be repeated.
    REPEATED = auto()


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag, without its dashes."""

    name: str
    kind: FlagType
    #: The text of --help.
    help: str
    #: The fields of the Framework that it sets.
    becomes: str
    default: str | int = ""
    short: str = ""
    #: Names in earlier versions.
    old: tuple[str, ...] = ()
    #: Why it is not supported, with the alternative.
    refused: str = ""
    metavar: str = ""


_T, _N, _S, _E = FlagType.TEXT, FlagType.NUMBER, FlagType.SWITCH, FlagType.REPEATED
_MODELS = "models are not supported; register the model after the job has completed"

_COMMON = (
    Flag("name", _T, "name of the job", "metadata.name; at most 49 characters"),
    Flag("image", _T, "image of every role that has no image of its own", "the image of containers"),
    Flag("gpus", _N, "GPUs of each worker, chief and evaluator", "limit nvidia.com/gpu; env gpus", 0),
    Flag("device", _E, "other devices", "limits of containers", metavar="RESOURCE=QUANTITY"),
    Flag("workers", _N, "number of workers", "role worker; a single worker without --ps is role chief", 1),
    Flag(
        "retry",
        _N,
        "no effect, as in Arena for tfjobs",
        "no effect, with a note: Arena ignored it for tfjobs",
        0,
    ),
    Flag(
        "working-dir",
        _T,
        "working directory of the command",
        "workingDir of containers",
        "/root",
        old=("workingDir",),
    ),
    Flag("env", _E, "an environment variable", "env of containers", short="e", metavar="NAME=VALUE"),
    Flag(
        "data",
        _E,
        "mount a PersistentVolumeClaim",
        "volume persistentVolumeClaim and its mount",
        short="d",
        metavar="CLAIM:/PATH",
    ),
    Flag(
        "data-dir",
        _E,
        "mount a directory of the node",
        "volume hostPath and its mount",
        old=("dataDir",),
        metavar="/HOST[:/PATH]",
    ),
    Flag(
        "annotation",
        _E,
        "an annotation",
        "annotation of the Framework and its pods",
        short="a",
        metavar="NAME=VALUE",
    ),
    Flag("label", _E, "a label", "label of the Framework and its pods", short="l", metavar="NAME=VALUE"),
    Flag("selector", _E, "required label of nodes", "nodeSelector of every role", metavar="NAME=VALUE"),
    Flag(
        "toleration",
        _E,
        "a taint to tolerate; all for every taint",
        "tolerations of every role",
        metavar="KEY=VALUE:EFFECT,OPERATOR",
    ),
    Flag(
        "config-file",
        _E,
        "mount a file of this machine in the containers",
        "a ConfigMap owned by the Framework, and its mount",
        metavar="FILE[:/PATH]",
    ),
    Flag(
        "image-pull-secret",
        _E,
        "a Secret for pulling images",
        "imagePullSecrets of every role",
        metavar="SECRET",
    ),
    Flag("image-pull-policy", _T, "Always, IfNotPresent or Never", "imagePullPolicy of containers", "Always"),
    Flag("rdma", _S, "use RDMA", "capability IPC_LOCK and limit rdma/hca: 1, except for the evaluator"),
    Flag("gang", _S, "start all instances or none", "spec.gang, and the pod-group labels of Arena"),
    Flag("priority", _T, "a PriorityClass", "priorityClassName of every role", short="p"),
    Flag("queue", _S, "suspend it until it is started", "executionType Create; start it with launcher start"),
    Flag("shell", _T, "shell that runs the command", "command of containers: SHELL -c COMMAND", "sh"),
    Flag("scheduler", _T, "name of a scheduler", "schedulerName of every role"),
    Flag(
        "hostNetwork", _S, "use the network of the node", "hostNetwork and dnsPolicy ClusterFirstWithHostNet"
    ),
    Flag("hostIPC", _S, "use the IPC namespace of the node", "hostIPC of every role"),
    Flag("hostPID", _S, "use the process namespace of the node", "hostPID of every role"),
    Flag("model-name", _T, "register a model", "rejected", refused=_MODELS),
    Flag("model-source", _T, "source of the model", "rejected", refused=_MODELS),
)

_TF = (
    Flag(
        "worker-image",
        _T,
        "image of worker, chief and evaluator",
        "image of roles worker, chief, evaluator",
        old=("workerImage",),
    ),
    Flag("ps-image", _T, "image of parameter servers", "image of role ps", old=("psImage",)),
    Flag("ps", _N, "number of parameter servers", "role ps", 0),
    Flag("ps-gpus", _N, "GPUs of each parameter server", "limit nvidia.com/gpu of role ps", 0),
    Flag("chief", _S, "add a chief", "role chief with one task"),
    Flag("evaluator", _S, "add an evaluator", "role evaluator with one task"),
    Flag(
        "success-policy", _T, "ChiefWorker or AllWorkers", "frameworkAttemptCompletionPolicy", "ChiefWorker"
    ),
    Flag(
        "clean-task-policy", _T, "Running, None or All", "cleanPodPolicy", "Running", old=("cleanTaskPolicy",)
    ),
    Flag("running-timeout", _T, "maximum time of running", "activeDeadlineSeconds", metavar="DURATION"),
    Flag(
        "starting-timeout",
        _T,
        "maximum time until it runs",
        "pendingDeadlineSeconds of each task, per pod",
        metavar="DURATION",
    ),
    Flag(
        "ttl-after-finished",
        _T,
        "time after which the completed job is deleted",
        "ttlSecondsAfterFinished",
        metavar="DURATION",
    ),
    Flag(
        "role-sequence",
        _T,
        "order in which roles are created: Worker,PS or w,p",
        "spec.roleSequence, and annotation job-role-sequence on the Framework and its pods",
        metavar="ROLES",
    ),
    Flag(
        "share-memory",
        _T,
        "size of /dev/shm",
        "volume emptyDir in memory at /dev/shm",
        "2Gi",
        metavar="QUANTITY",
    ),
    Flag("sync-mode", _T, "git or rsync", "init container init-code, volume code-sync", old=("syncMode",)),
    Flag(
        "sync-source",
        _T,
        "source of the code",
        "env or argument of init container init-code",
        old=("syncSource",),
    ),
    Flag(
        "sync-image",
        _T,
        "image of the container that fetches the code",
        "image of init container init-code",
        old=("syncImage",),
    ),
    Flag(
        "tensorboard",
        _S,
        "run TensorBoard with the job",
        "background role tensorboard, Service JOB-tensorboard",
    ),
    Flag(
        "tensorboard-image",
        _T,
        "image of TensorBoard",
        "image of role tensorboard",
        "tensorflow/tensorflow:1.12.0",
        old=("tensorboardImage",),
    ),
    Flag(
        "logdir",
        _T,
        "directory of the training logs",
        "--logdir of TensorBoard, and its volume",
        "/training_logs",
    ),
)


def _of_roles() -> Iterator[Flag]:
    """The flags of each role, or of some roles."""
    for role in ROLES:
        if role != "evaluator":
            what = f"containerPort of role {role}, and its port in TF_CONFIG; 0 selects the first free port from 20000"
            yield Flag(f"{role}-port", _N, f"the port of role {role}", what, 0, old=(f"{role}Port",))
        for resource in ("cpu", "memory"):
            title = resource.capitalize()
            old = (f"{role}{title}", f"{role.capitalize()}{title}")
            yield Flag(
                f"{role}-{resource}",
                _T,
                f"{resource} of role {role}",
                f"request {resource} of role {role}, and limit unless set",
                old=old,
                metavar="QUANTITY",
            )
            yield Flag(
                f"{role}-{resource}-limit",
                _T,
                f"maximum {resource} of role {role}",
                f"limit {resource} of role {role}",
                metavar="QUANTITY",
            )
        yield Flag(
            f"{role}-selector",
            _E,
            f"required label of nodes for role {role}, instead of --selector",
            f"nodeSelector of role {role}, instead of --selector",
            metavar="NAME=VALUE",
        )
        if role in ("ps", "worker"):
            yield Flag(
                f"{role}-affinity-policy", _T, "none, spread or binpack", f"affinity of role {role}", "none"
            )
            yield Flag(
                f"{role}-affinity-constraint",
                _T,
                "preferred or required",
                f"type of the affinity of role {role}",
                "preferred",
            )


FLAGS: Mapping[str, Flag] = {flag.name: flag for flag in (*_COMMON, *_TF, *_of_roles())}

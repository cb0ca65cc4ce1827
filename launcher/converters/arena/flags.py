"""Every flag of ``arena submit tfjob``: what it takes, and what it becomes in a Framework."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto

ROLES = ("ps", "worker", "chief", "evaluator")


class FlagType(Enum):
    """What stands behind a flag."""

    TEXT = auto()
    NUMBER = auto()
    SWITCH = auto()
    #: A text each time that the flag is given.
    EACH = auto()


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag, without its dashes."""

    name: str
    kind: FlagType
    #: What the user writes it for.
    help: str
    #: What it is in the Framework.
    becomes: str
    default: str | int = ""
    short: str = ""
    #: Spellings of earlier versions.
    old: tuple[str, ...] = ()
    #: Why it cannot be had; the way out is in there.
    refused: str = ""
    metavar: str = ""


_T, _N, _S, _E = FlagType.TEXT, FlagType.NUMBER, FlagType.SWITCH, FlagType.EACH
_MODELS = "the launcher keeps no models; register the model when the job has ended"

_COMMON = (
    Flag("name", _T, "what the job is called", "metadata.name; at most 49 characters"),
    Flag("image", _T, "of every role that has none of its own", "the image of containers"),
    Flag("gpus", _N, "GPUs of each worker, chief and evaluator", "limit nvidia.com/gpu; env gpus", 0),
    Flag("device", _E, "other devices", "limits of containers", metavar="RESOURCE=QUANTITY"),
    Flag("workers", _N, "how many workers", "role worker; one alone, without --ps, is role chief", 1),
    Flag(
        "retry",
        _N,
        "was never heeded for a tfjob",
        "nothing, and a note: Arena did not heed it for tfjobs",
        0,
    ),
    Flag(
        "working-dir",
        _T,
        "the directory of the command",
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
    Flag(
        "selector", _E, "labels that nodes have to have", "nodeSelector of every role", metavar="NAME=VALUE"
    ),
    Flag(
        "toleration",
        _E,
        "a taint that is put up with; all for every one",
        "tolerations of every role",
        metavar="KEY=VALUE:EFFECT,OPERATOR",
    ),
    Flag(
        "config-file",
        _E,
        "a file of this machine for the containers",
        "a ConfigMap of the Framework's, and its mount",
        metavar="FILE[:/PATH]",
    ),
    Flag(
        "image-pull-secret",
        _E,
        "a Secret to pull images with",
        "imagePullSecrets of every role",
        metavar="SECRET",
    ),
    Flag("image-pull-policy", _T, "Always, IfNotPresent or Never", "imagePullPolicy of containers", "Always"),
    Flag("rdma", _S, "use RDMA", "capability IPC_LOCK and limit rdma/hca: 1, not of the evaluator"),
    Flag("gang", _S, "start all instances or none", "spec.gang, and the pod-group labels of Arena"),
    Flag("priority", _T, "a PriorityClass", "priorityClassName of every role", short="p"),
    Flag(
        "queue", _S, "hold it until somebody starts it", "executionType Create; begin it with launcher start"
    ),
    Flag("shell", _T, "what reads the command", "command of containers: SHELL -c COMMAND", "sh"),
    Flag("scheduler", _T, "a scheduler of your own", "schedulerName of every role"),
    Flag(
        "hostNetwork", _S, "use the network of the node", "hostNetwork and dnsPolicy ClusterFirstWithHostNet"
    ),
    Flag("hostIPC", _S, "share memory with the node", "hostIPC of every role"),
    Flag("hostPID", _S, "see the processes of the node", "hostPID of every role"),
    Flag("model-name", _T, "register a model", "refused", refused=_MODELS),
    Flag("model-source", _T, "where the model is", "refused", refused=_MODELS),
)

_TF = (
    Flag(
        "worker-image",
        _T,
        "of worker, chief and evaluator",
        "image of roles worker, chief, evaluator",
        old=("workerImage",),
    ),
    Flag("ps-image", _T, "of parameter servers", "image of role ps", old=("psImage",)),
    Flag("ps", _N, "how many parameter servers", "role ps", 0),
    Flag("ps-gpus", _N, "GPUs of each parameter server", "limit nvidia.com/gpu of role ps", 0),
    Flag("chief", _S, "have a chief", "role chief with one task"),
    Flag("evaluator", _S, "have an evaluator", "role evaluator with one task"),
    Flag(
        "success-policy", _T, "ChiefWorker or AllWorkers", "frameworkAttemptCompletionPolicy", "ChiefWorker"
    ),
    Flag(
        "clean-task-policy", _T, "Running, None or All", "cleanPodPolicy", "Running", old=("cleanTaskPolicy",)
    ),
    Flag("running-timeout", _T, "how long it may run", "activeDeadlineSeconds", metavar="DURATION"),
    Flag(
        "starting-timeout",
        _T,
        "how long it may take to start",
        "pendingDeadlineSeconds of each task, counted for each pod",
        metavar="DURATION",
    ),
    Flag(
        "ttl-after-finished",
        _T,
        "how long it is kept when it has ended",
        "ttlSecondsAfterFinished",
        metavar="DURATION",
    ),
    Flag(
        "role-sequence",
        _T,
        "which roles are created first: Worker,PS or w,p",
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
        "where the code is",
        "env or argument of init container init-code",
        old=("syncSource",),
    ),
    Flag(
        "sync-image",
        _T,
        "of the container that gets the code",
        "image of init container init-code",
        old=("syncImage",),
    ),
    Flag(
        "tensorboard",
        _S,
        "run a TensorBoard beside it",
        "background role tensorboard, Service JOB-tensorboard",
    ),
    Flag(
        "tensorboard-image",
        _T,
        "of the TensorBoard",
        "image of role tensorboard",
        "tensorflow/tensorflow:1.12.0",
        old=("tensorboardImage",),
    ),
    Flag(
        "logdir",
        _T,
        "where the training writes its logs",
        "--logdir of TensorBoard, and its volume",
        "/training_logs",
    ),
)


def _of_roles() -> Iterator[Flag]:
    """What can be said of each role, or of some."""
    for role in ROLES:
        if role != "evaluator":
            what = (
                f"containerPort of role {role}, and its port in TF_CONFIG; 0 is the first free one from 20000"
            )
            yield Flag(f"{role}-port", _N, f"the port of role {role}", what, 0, old=(f"{role}Port",))
        for resource in ("cpu", "memory"):
            title = resource.capitalize()
            old = (f"{role}{title}", f"{role.capitalize()}{title}")
            yield Flag(
                f"{role}-{resource}",
                _T,
                f"{resource} of role {role}",
                f"request {resource} of role {role}, and limit unless that is given",
                old=old,
                metavar="QUANTITY",
            )
            yield Flag(
                f"{role}-{resource}-limit",
                _T,
                f"most {resource} of role {role}",
                f"limit {resource} of role {role}",
                metavar="QUANTITY",
            )
        yield Flag(
            f"{role}-selector",
            _E,
            f"the same for role {role} alone, instead",
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
                f"which affinity of role {role}",
                "preferred",
            )


FLAGS: Mapping[str, Flag] = {flag.name: flag for flag in (*_COMMON, *_TF, *_of_roles())}

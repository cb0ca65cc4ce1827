"""
The table of all causes that a diagnosis can find, and that messages name.

Ids are stable and never reused. docs/troubleshooting.md has one section per id, and a test produces each of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Severity(StrEnum):
    """How much a finding matters, most first."""

    #: Something failed, or cannot continue without a change.
    ERROR = "Error"
    #: Something is delayed, and may stay so.
    WARNING = "Warning"
    #: The Framework is in this state as requested, or for a short time.
    INFO = "Info"


class Waiting(StrEnum):
    """Whether the situation can end without a change by the user, least likely first."""

    NEVER = "Never"
    MAY_HELP = "MayHelp"
    HELPS = "Helps"


@dataclass(frozen=True, slots=True)
class Cause:
    """A row of the table of causes. The id is stable: other programs and docs/troubleshooting.md refer to it."""

    id: str
    title: str
    severity: Severity
    waiting: Waiting


class Reason(NamedTuple):
    """A cause found in an object, as a clause."""

    cause: Cause
    #: Without the name of the task.
    text: str
    #: The name of the object or field that the next step concerns.
    subject: str = ""


_E, _W, _I = Severity.ERROR, Severity.WARNING, Severity.INFO
_NEVER, _MAY, _HELPS = Waiting.NEVER, Waiting.MAY_HELP, Waiting.HELPS

# Scheduling.
INSUFFICIENT_NOW = Cause("FL-PEND-01", "No node has enough free resources", _W, _HELPS)
INSUFFICIENT_EVER = Cause("FL-PEND-02", "No node is large enough", _E, _NEVER)
NODE_SELECTOR = Cause("FL-PEND-03", "No node matches nodeSelector or nodeAffinity", _E, _NEVER)
TAINT = Cause("FL-PEND-04", "Nodes have a taint that the pod does not tolerate", _E, _NEVER)
HOST_PORT = Cause("FL-PEND-05", "A host port is in use on every node", _W, _HELPS)
POD_AFFINITY = Cause("FL-PEND-06", "Pod affinity or anti-affinity excludes every node", _W, _MAY)
GANG_NOW = Cause("FL-PEND-07", "The gang does not fit at present", _W, _HELPS)
GANG_EVER = Cause("FL-PEND-08", "The gang is larger than the cluster", _E, _NEVER)
CORDONED = Cause("FL-PEND-09", "Nodes are cordoned", _W, _MAY)
NO_NODES = Cause("FL-PEND-10", "There are no nodes", _E, _MAY)
TOO_MANY_PODS = Cause("FL-PEND-11", "Nodes have reached their number of pods", _W, _HELPS)
SCHEDULING_GATE = Cause("FL-PEND-12", "A scheduling gate holds the pod", _W, _MAY)
RESERVED = Cause("FL-PEND-13", "Capacity is reserved for pods that have waited longer", _W, _HELPS)
NO_SCHEDULER = Cause("FL-PEND-14", "No scheduler handles the pod", _E, _MAY)
NODES_NOT_READY = Cause("FL-PEND-15", "Nodes are not ready", _W, _MAY)
TOPOLOGY_SPREAD = Cause("FL-PEND-16", "Topology spread constraints exclude every node", _W, _MAY)
UNSCHEDULABLE = Cause("FL-PEND-17", "The scheduler found no node for another reason", _W, _MAY)

# Images.
INVALID_IMAGE = Cause("FL-IMG-01", "The image name is invalid", _E, _NEVER)
IMAGE_NOT_FOUND = Cause("FL-IMG-02", "The image does not exist in the registry", _E, _MAY)
IMAGE_DENIED = Cause("FL-IMG-03", "The registry denies access to the image", _E, _MAY)
REGISTRY_UNREACHABLE = Cause("FL-IMG-04", "The registry cannot be reached", _W, _MAY)
IMAGE_NEVER_PULLED = Cause("FL-IMG-05", "The image is absent and its pull policy is Never", _E, _MAY)
IMAGE_RATE_LIMIT = Cause("FL-IMG-06", "The registry limits the number of pulls", _W, _HELPS)
IMAGE_PULL = Cause("FL-IMG-07", "The image cannot be pulled for another reason", _W, _MAY)
IMAGE_PULLING = Cause("FL-IMG-08", "The image is being pulled", _I, _HELPS)

# Volumes.
HOST_PATH_MISSING = Cause("FL-VOL-01", "A hostPath does not exist or has another type", _E, _MAY)
CONFIG_MAP_MISSING = Cause("FL-VOL-02", "A ConfigMap is missing", _E, _MAY)
SECRET_MISSING = Cause("FL-VOL-03", "A Secret is missing", _E, _MAY)
CLAIM_MISSING = Cause("FL-VOL-04", "A PersistentVolumeClaim is missing or not bound", _E, _MAY)
NFS_UNREACHABLE = Cause("FL-VOL-05", "An NFS export cannot be mounted", _E, _MAY)
HOST_PATH_FORBIDDEN = Cause("FL-VOL-06", "A hostPath is outside the allowed prefixes", _E, _NEVER)
KEY_MISSING = Cause("FL-VOL-07", "A key is missing in a ConfigMap or Secret", _E, _MAY)
MOUNT_FAILED = Cause("FL-VOL-08", "A volume cannot be mounted for another reason", _W, _MAY)
VOLUME_ATTACH = Cause("FL-VOL-09", "A volume is attached to another node", _W, _MAY)

# Admission.
QUOTA = Cause("FL-ADM-01", "A resource quota is exceeded", _W, _HELPS)
LIMIT_RANGE = Cause("FL-ADM-02", "A LimitRange rejects the pod", _E, _NEVER)
POD_SECURITY = Cause("FL-ADM-03", "PodSecurity rejects the pod", _E, _NEVER)
WEBHOOK_DENIED = Cause("FL-ADM-04", "An admission webhook or policy rejects the pod", _E, _NEVER)
WEBHOOK_UNREACHABLE = Cause("FL-ADM-05", "An admission webhook cannot be called", _W, _MAY)
INVALID_POD = Cause("FL-ADM-06", "The pod is invalid", _E, _NEVER)
SERVICE_ACCOUNT = Cause("FL-ADM-07", "The service account does not exist", _E, _MAY)
NAME_TAKEN = Cause("FL-ADM-08", "A pod of another owner has the name", _W, _MAY)
INVALID_SPEC = Cause("FL-ADM-09", "The stored spec is invalid", _E, _NEVER)
NAMESPACE_TERMINATING = Cause("FL-ADM-10", "The namespace is being deleted", _E, _NEVER)
PRIORITY_CLASS = Cause("FL-ADM-11", "The priority class does not exist", _E, _MAY)
POD_FORBIDDEN = Cause("FL-ADM-12", "The API server rejects the pod for another reason", _E, _MAY)

# Containers.
COMMAND_NOT_FOUND = Cause("FL-RUN-01", "The command does not exist", _E, _NEVER)
COMMAND_DENIED = Cause("FL-RUN-02", "The command may not be executed", _E, _NEVER)
CONTAINER_CONFIG = Cause("FL-RUN-03", "The container's configuration is invalid", _E, _MAY)
CONTAINER_CREATE = Cause("FL-RUN-04", "The container cannot be created", _W, _MAY)
INIT_FAILING = Cause("FL-RUN-05", "An init container fails", _E, _MAY)
INIT_RUNNING = Cause("FL-RUN-06", "An init container has not finished", _I, _MAY)
CRASH_LOOP = Cause("FL-RUN-07", "A container exits again and again", _E, _MAY)
OUT_OF_MEMORY = Cause("FL-RUN-08", "A container ran out of memory", _E, _NEVER)
SIGNAL = Cause("FL-RUN-09", "A container was killed by a signal", _E, _NEVER)
EXIT_CODE = Cause("FL-RUN-10", "A container exited with an error", _E, _NEVER)
NOT_READY = Cause("FL-RUN-11", "A container is not ready", _W, _MAY)
UNKNOWN_EXIT = Cause("FL-RUN-12", "The node does not know how the container ended", _E, _NEVER)
DISK_FULL = Cause("FL-RUN-13", "The disk is full", _E, _MAY)
SECONDARY_FAILURES = Cause("FL-RUN-14", "Other tasks failed after the first one", _I, _NEVER)
POD_DEADLINE = Cause("FL-RUN-15", "activeDeadlineSeconds of the pod exceeded", _E, _NEVER)
SANDBOX = Cause("FL-RUN-16", "The network of the pod cannot be set up", _W, _MAY)
NO_OUTPUT = Cause("FL-RUN-17", "A running task has written nothing for a long time", _I, _MAY)
STALLED = Cause("FL-RUN-18", "A task made no progress within progressDeadlineSeconds", _E, _NEVER)
ADDRESS_IN_USE = Cause("FL-RUN-19", "A program cannot listen on its port", _E, _NEVER)

# Nodes.
NODE_NOT_READY = Cause("FL-NODE-01", "The node of a task is not ready", _W, _MAY)
NODE_LOST = Cause("FL-NODE-02", "The node of a task is gone", _E, _NEVER)
EVICTED = Cause("FL-NODE-03", "The node evicted the pod", _E, _NEVER)
NODE_REJECTED = Cause("FL-NODE-04", "The node rejected the pod", _E, _NEVER)
DISRUPTED = Cause("FL-NODE-05", "The pod was preempted or its node shut down", _E, _NEVER)

# Start order and rendezvous.
START_AFTER = Cause("FL-ORD-01", "Waiting for another role (startAfter)", _I, _HELPS)
ROLE_SEQUENCE = Cause("FL-ORD-02", "Waiting for another role (roleSequence)", _I, _HELPS)
START_UNREACHABLE = Cause("FL-ORD-03", "A start condition can no longer be met", _E, _NEVER)
PEERS_MISSING = Cause("FL-ORD-04", "Waiting for the addresses of other tasks", _I, _MAY)
PEERS_TIMEOUT = Cause("FL-ORD-05", "Other tasks had no address in time", _E, _NEVER)

# Retries.
FRAMEWORK_BACKOFF = Cause("FL-RETRY-01", "The Framework waits for its next attempt", _I, _HELPS)
TASK_BACKOFF = Cause("FL-RETRY-02", "A task waits for its next attempt", _I, _HELPS)
RETRIES_EXHAUSTED = Cause("FL-RETRY-03", "All retries are used", _W, _NEVER)
NOT_RETRIED = Cause("FL-RETRY-04", "The failure is not retried", _I, _NEVER)
PREVIOUS_POD = Cause("FL-RETRY-05", "The pod of the previous attempt still exists", _I, _HELPS)

# Lifecycle.
SUSPENDED = Cause("FL-LIFE-01", "The Framework is suspended", _I, _NEVER)
STOPPED = Cause("FL-LIFE-02", "The Framework was stopped", _I, _NEVER)
SCALED_TO_ZERO = Cause("FL-LIFE-03", "The Framework has no tasks", _I, _NEVER)
ACTIVE_DEADLINE = Cause("FL-LIFE-04", "activeDeadlineSeconds of the Framework exceeded", _E, _NEVER)
PENDING_DEADLINE = Cause("FL-LIFE-05", "pendingDeadlineSeconds exceeded", _E, _NEVER)
GANG_TIMEOUT = Cause("FL-LIFE-06", "gang.timeoutSeconds exceeded", _E, _NEVER)
FRAMEWORK_DELETING = Cause("FL-LIFE-07", "The Framework is being deleted", _I, _HELPS)
FRAMEWORK_FINALIZER = Cause("FL-LIFE-08", "A finalizer holds the deleted Framework", _W, _MAY)
POD_TERMINATING = Cause("FL-LIFE-09", "A pod is stuck in termination", _W, _MAY)
POD_FINALIZER = Cause("FL-LIFE-10", "A finalizer holds a deleted pod", _W, _MAY)
POD_DELETED = Cause("FL-LIFE-11", "A pod was deleted by another client", _E, _NEVER)
POD_UNOBSERVED = Cause("FL-LIFE-12", "A created pod did not appear", _E, _NEVER)

# The launcher itself.
NOT_RECONCILED = Cause("FL-SYS-01", "No launcher has processed the Framework", _E, _MAY)
OUTDATED_STATUS = Cause("FL-SYS-02", "The last change is not processed yet", _W, _MAY)
THROTTLED = Cause("FL-SYS-03", "The API server limits the launcher's requests", _W, _HELPS)
INTERNAL_ERROR = Cause("FL-SYS-04", "The launcher fails on this Framework", _E, _MAY)
UNREADABLE_STATUS = Cause("FL-SYS-05", "The status was not written by a launcher", _E, _NEVER)
LAUNCHER_DISK_FULL = Cause("FL-SYS-06", "The disk of the launcher's store is almost full", _E, _MAY)
API_UNAVAILABLE = Cause("FL-SYS-07", "The launcher cannot reach the API server", _W, _MAY)
MALFORMED_POD = Cause("FL-SYS-08", "A pod cannot be parsed", _W, _NEVER)
NO_LEADER = Cause("FL-SYS-09", "No launcher leads", _E, _MAY)
BACKLOG = Cause("FL-SYS-10", "The launcher has a backlog", _W, _HELPS)

#: Every cause by its id, in the order of docs/troubleshooting.md.
CAUSES: Mapping[str, Cause] = {
    cause.id: cause for cause in tuple(globals().values()) if isinstance(cause, Cause)
}

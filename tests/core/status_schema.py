"""The status of a Framework as a schema: for those who read it, since only the launcher writes it."""

from launcher.core.status import State
from tests.core.schema_parts import INT32, Schema, flag, listing, text, thing, whole

_STATES = ", ".join(state.value for state in State)
_ABSENT = "null until then."


def _count(description: str) -> Schema:
    return whole(description, minimum=0, maximum=INT32)


def _counts(of: str) -> Schema:
    return {
        "description": f"How many tasks {of} are in which state; states that no task is in are left out.",
        "type": ["object", "null"],
        "additionalProperties": {"type": "integer", "minimum": 0, "maximum": INT32},
    }


def _times(of: str) -> dict[str, Schema]:
    return {
        "startTime": text(f"When {of} began."),
        "runTime": text(f"When {of} was first seen running; {_ABSENT}"),
        "completionTime": text(f"When {of} ended; {_ABSENT}"),
    }


def _retries(of: str) -> Schema:
    return thing(
        f"How often {of} has been run again.",
        {
            "totalRetriedCount": _count("All retries so far."),
            "accountableRetriedCount": _count("Those that count towards maxRetryCount."),
            "retryDelaySec": _count("How long the next retry waits; null when none is ahead."),
            "quickRetryCount": _count(
                "Retries in a row of attempts that ended at once, which makes the waits longer."
            ),
        },
    )


def _condition() -> Schema:
    return thing(
        "One thing that is true or not.",
        {
            "type": text("Started, Running, Succeeded, Failed, Suspended or Valid."),
            "status": text("True or False."),
            "observedGeneration": whole("The generation it is about, where that is not the status's own."),
            "lastTransitionTime": text("When it last changed."),
            "reason": text("Why, as one word for programs."),
            "message": text("Why, for people."),
        },
    )


def _container_end() -> Schema:
    return thing(
        "How one container ended.",
        {
            "name": text("The container."),
            "reason": text("Why it ended, as one word."),
            "message": text(
                "What it said at its end: its termination message, or the last lines of its log."
            ),
            "signal": whole("The signal that ended it."),
            "code": whole("Its exit code."),
        },
    )


def _end(**more: Schema) -> Schema:
    return thing(
        f"How the attempt ended; {_ABSENT}",
        {
            "code": whole(
                "0 is success; a positive one is a container's own, a negative one the launcher's."
            ),
            "phrase": text("The code as a word."),
            "type": thing(
                "What kind of end it was.",
                {
                    "name": text("Succeeded or Failed."),
                    "attributes": listing(
                        "What is known about the failure, which decides about retries.",
                        text("Transient, Permanent or Conflict."),
                    ),
                },
            ),
            "diagnostics": text("What happened, for people."),
            "pod": thing(
                "What the pod said at its end.",
                {
                    "reason": text("The pod's reason."),
                    "message": text("The pod's message."),
                    "containers": listing("The containers that tell something.", _container_end()),
                },
            ),
            **more,
        },
    )


def _trigger() -> Schema:
    return thing(
        "What ended the attempt.",
        {
            "message": text("The rule that held."),
            "taskRoleName": text("The role whose task it was."),
            "taskIndex": whole("The index of that task."),
        },
    )


def _task() -> Schema:
    return thing(
        "One task.",
        {
            "index": _count("Its number in the role, from 0."),
            "incarnation": _count("How often a task of this index was taken away and made again."),
            "instanceUID": text("Its unique id."),
            "state": text(f"Where it stands: {_STATES}."),
            "message": text("Why it is where it is."),
            **_times("the task"),
            "transitionTime": text("When its state last changed."),
            "deletionPending": flag("It is no longer wanted, and goes as soon as its pod has."),
            "retryPolicyStatus": _retries("the task"),
            "attemptStatus": thing(
                "The attempt that is under way, or was the last.",
                {
                    "id": _count("Its number, from 0."),
                    **_times("the attempt"),
                    "instanceUID": text("Its unique id."),
                    "podName": text("Its pod."),
                    "podUID": text("The uid of that pod."),
                    "podNodeName": text("The node that the pod runs on."),
                    "podIP": text("The address of the pod."),
                    "podHostIP": text("The address of that node."),
                    "completionStatus": _end(),
                },
            ),
        },
    )


def _role() -> Schema:
    return thing(
        "One task role.",
        {
            "name": text("The role."),
            "instanceUID": text("Its unique id."),
            "podGracefulDeletionTimeoutSec": whole("How long its pods may take to go; null is for ever."),
            "taskCounts": _counts("of the role"),
            "taskStatuses": listing("Tasks one by one: all of them in a small Framework.", _task()),
            "foldedTasks": listing(
                "The other tasks: one entry for those that are alike.",
                {
                    **thing(
                        "Tasks that are alike. A member that is a list has one value for each index.",
                        {
                            "indexes": text("Which tasks, such as 0-99,105."),
                            "state": text(f"Where they stand: {_STATES}."),
                        },
                    ),
                    "x-kubernetes-preserve-unknown-fields": True,
                },
            ),
            "foldedMessages": listing("Messages that folded tasks point to by number.", text("A message.")),
            "foldedCompletionStatuses": listing("Ends that folded tasks point to by number.", _end()),
        },
    )


def status() -> Schema:
    """Every field that a status has."""
    return thing(
        "What has happened so far; written by the launcher.",
        {
            "observedGeneration": whole("The metadata.generation that this is about."),
            "state": text(f"Where the Framework stands: {_STATES}."),
            "message": text("Why it is where it is."),
            "taskCounts": _counts("of all roles"),
            "replicas": _count("How many tasks there are, if there is one role: what kubectl scale reads."),
            "selector": text("Selects the pods of these tasks by their labels, for autoscalers."),
            **_times("the Framework"),
            "transitionTime": text("When the state last changed."),
            "conditions": listing(
                "What is true of the Framework, as kubectl wait --for=condition=… asks for it.", _condition()
            ),
            "retryPolicyStatus": _retries("the Framework as a whole"),
            "attemptStatus": thing(
                "The attempt that is under way, or was the last.",
                {
                    "id": _count("Its number, from 0."),
                    **_times("the attempt"),
                    "instanceUID": text("Its unique id."),
                    "configMapName": text("What FrameworkController called its object; there is none here."),
                    "configMapUID": text("The unique id that it would have."),
                    "completionStatus": _end(trigger=_trigger()),
                    "rescaleCount": _count("How often the number of tasks was changed."),
                    "taskRoleStatuses": listing("The roles, one by one.", _role()),
                },
            ),
        },
    )

"""The schema of the status of a Framework. Only the launcher writes it, so the schema is for readers."""

from launcher.core.status import State
from schemas.generate.parts import INT32, Schema, flag, listing, text, thing, whole

_STATES = ", ".join(state.value for state in State)
_ABSENT = "null before."


def _count(description: str) -> Schema:
    return whole(description, minimum=0, maximum=INT32)


def _counts(of: str) -> Schema:
    return {
        "description": f"The number of tasks {of} by state; states without tasks are omitted.",
        "type": ["object", "null"],
        "additionalProperties": {"type": "integer", "minimum": 0, "maximum": INT32},
    }


def _times(of: str) -> dict[str, Schema]:
    return {
        "startTime": text(f"When {of} started."),
        "runTime": text(f"When {of} was first observed running; {_ABSENT}"),
        "completionTime": text(f"When {of} completed; {_ABSENT}"),
    }


def _retries(of: str) -> Schema:
    return thing(
        f"The retries of {of}.",
        {
            "totalRetriedCount": _count("The number of retries."),
            "accountableRetriedCount": _count("The number of retries that count towards maxRetryCount."),
            "retryDelaySec": _count("The delay of the next retry; null if none is scheduled."),
            "quickRetryCount": _count(
                "The number of consecutive retries of short attempts, which increases the delay."
            ),
        },
    )


def _condition() -> Schema:
    return thing(
        "A condition.",
        {
            "type": text("Started, Running, Succeeded, Failed, Suspended, Valid or GangPlaced."),
            "status": text("True or False."),
            "observedGeneration": whole(
                "The generation of the condition, if it differs from that of the status."
            ),
            "lastTransitionTime": text("When it last changed."),
            "reason": text("The reason as one word, for programs."),
            "message": text("The reason as a sentence."),
        },
    )


def _container_end() -> Schema:
    return thing(
        "How a container terminated.",
        {
            "name": text("The name of the container."),
            "reason": text("The reason as one word."),
            "message": text("The termination message, or the last lines of the log."),
            "signal": whole("The signal that terminated it."),
            "code": whole("Its exit code."),
        },
    )


def _end(**more: Schema) -> Schema:
    return thing(
        f"How the attempt completed; {_ABSENT}",
        {
            "code": whole(
                "0: success; positive: the exit code of a container; negative: a code of the launcher."
            ),
            "phrase": text("The name of the code."),
            "type": thing(
                "The type of the completion.",
                {
                    "name": text("Succeeded or Failed."),
                    "attributes": listing(
                        "The kind of failure, which decides retries.",
                        text("Transient, Permanent or Conflict."),
                    ),
                },
            ),
            "diagnostics": text("What happened, as a sentence."),
            "failureRule": text(
                "The rule of a podFailureSpec that matched the pod, such as task.podFailureSpec[0]."
            ),
            "pod": thing(
                "The pod at its termination.",
                {
                    "reason": text("The reason of the pod."),
                    "message": text("The message of the pod."),
                    "containers": listing(
                        "The containers that terminated with an error or a message.", _container_end()
                    ),
                },
            ),
            **more,
        },
    )


def _trigger() -> Schema:
    return thing(
        "What completed the attempt.",
        {
            "message": text("The rule that applied."),
            "taskRoleName": text("The role of the task that completed it."),
            "taskIndex": whole("The index of that task."),
        },
    )


def _task() -> Schema:
    return thing(
        "One task.",
        {
            "index": _count("The index of the task, from 0."),
            "incarnation": _count("How often a task of this index was removed and added again."),
            "instanceUID": text("Its unique id."),
            "state": text(f"The state: {_STATES}."),
            "message": text("Why it is in this state."),
            **_times("the task"),
            "transitionTime": text("When its state last changed."),
            "deletionPending": flag(
                "Whether the task is removed as soon as its pod is deleted, because the role was scaled down."
            ),
            "retryPolicyStatus": _retries("the task"),
            "attemptStatus": thing(
                "The current or the last attempt.",
                {
                    "id": _count("The number of the attempt, from 0."),
                    **_times("the attempt"),
                    "instanceUID": text("Its unique id."),
                    "podName": text("The name of its pod."),
                    "podUID": text("The uid of that pod."),
                    "podNodeName": text("The node that the pod runs on."),
                    "podIP": text("The address of the pod."),
                    "podHostIP": text("The address of that node."),
                    "completionStatus": _end(),
                },
            ),
            "attemptHistory": listing(
                "The latest attempts before the current one, oldest first. Of totalRetriedCount earlier attempts, those"
                " that are not listed were dropped.",
                _completed_attempt(),
            ),
        },
    )


def _completed_attempt() -> Schema:
    return thing(
        "An attempt that completed and was retried.",
        {
            "id": _count("The number of the attempt, from 0."),
            **_times("the attempt"),
            "podUID": text("The uid of its pod."),
            "podNodeName": text("The node that the pod ran on."),
            "code": whole("The code of its completion."),
            "phrase": text("The name of the code."),
            "reason": text("Why it completed, in words."),
            "exitCode": whole("The exit code of the container that failed."),
            "signal": whole("The signal that terminated that container."),
            "failureRule": text("The rule of a podFailureSpec that matched the pod."),
            **_retry_decision(),
        },
    )


def _retry_decision() -> dict[str, Schema]:
    return {
        "counted": flag("Whether the retry counts towards maxRetryCount."),
        "uncountedReason": text("Why it does not count."),
        "retryReason": text("Why it was retried."),
        "retriesLeft": _count("The number of counted retries that remained; absent: unlimited."),
    }


def _role() -> Schema:
    return thing(
        "One task role.",
        {
            "name": text("The name of the role."),
            "instanceUID": text("Its unique id."),
            "podGracefulDeletionTimeoutSec": whole(
                "After this time the deletion of a pod is forced; null: never."
            ),
            "taskCounts": _counts("of the role"),
            "taskStatuses": listing("One entry per task: all tasks in a small Framework.", _task()),
            "foldedTasks": listing(
                "The other tasks, with one entry for similar ones.",
                {
                    **thing(
                        "Similar tasks. A member that is a list has one value for each index.",
                        {
                            "indexes": text("The indexes of the tasks, such as 0-99,105."),
                            "state": text(f"Their state: {_STATES}."),
                        },
                    ),
                    "x-kubernetes-preserve-unknown-fields": True,
                },
            ),
            "foldedMessages": listing("Messages that folded tasks refer to by position.", text("A message.")),
            "foldedCompletionStatuses": listing(
                "Completions that folded tasks refer to by position.", _end()
            ),
        },
    )


def status() -> Schema:
    """The schema of the whole status."""
    return thing(
        "The observed state, written by the launcher.",
        {
            "observedGeneration": whole("The metadata.generation that this status describes."),
            "state": text(f"The state: {_STATES}."),
            "message": text("Why it is in this state."),
            "taskCounts": _counts("of all roles"),
            "replicas": _count(
                "The number of tasks of a Framework with one role, as kubectl scale reads it."
            ),
            "selector": text("The label selector of the pods of these tasks, for autoscalers."),
            **_times("the Framework"),
            "transitionTime": text("When the state last changed."),
            "conditions": listing("The conditions, for kubectl wait --for=condition=…", _condition()),
            "retryPolicyStatus": _retries("the Framework"),
            "attemptStatus": _attempt_status("The current or the last attempt."),
        },
    )


def _attempt_status(description: str) -> Schema:
    return thing(
        description,
        {
            "id": _count("The number of the attempt, from 0."),
            **_times("the attempt"),
            "instanceUID": text("Its unique id."),
            "configMapName": text("The name of FrameworkController's ConfigMap; none is created."),
            "configMapUID": text("The uid of that ConfigMap; none is created."),
            "completionStatus": _end(trigger=_trigger()),
            "rescaleCount": _count("How often the number of tasks was changed."),
            "taskRoleStatuses": listing("The roles.", _role()),
        },
    )


def framework_attempt() -> Schema:
    """The schema of a FrameworkAttempt, without its metadata."""
    return thing(
        "A completed attempt of a Framework that was retried, written by the launcher.",
        {
            "frameworkName": text("The Framework."),
            "attempt": _count("The number of the attempt, from 1."),
            "message": text("Why the attempt completed."),
            **_retry_decision(),
            "attemptStatus": _attempt_status(
                "The attempt with its tasks, as in the status of the Framework."
            ),
        },
    )

"""What must hold of a namespace whatever has happened there, judged by every version of every object in it."""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from launcher.core.planning.options import PlannerOptions
from launcher.core.pods.observed_pod import pod_from_json
from launcher.store.interface import PODS
from tests.chaos.history import Write
from tests.chaos.load import Job, Try
from tests.controller.simulation.audit import Auditor, Broken
from tests.local.server import ended

#: Of one Framework: each of its tries, and the uids of the pods that were created for it.
Tries = Mapping[Try, AbstractSet[str]]


def broken_promises(
    jobs: Sequence[Job],
    writes: Sequence[Write],
    frameworks: Mapping[str, Any],
    pods: Mapping[str, Any],
    deleted: AbstractSet[str],
    *,
    two_lead: bool,
) -> list[str]:
    """
    Each promise that was broken, in words.

    *frameworks* and *pods* are those of the end, *deleted* the uids of pods that somebody else has deleted. Only when
    *two_lead* may a pod come for a try that the other has ended already.
    """
    broken = list(_of_the_engine(writes, frameworks, pods, two_lead))
    tries = _tries(writes)
    for job in jobs:
        framework = frameworks[job.name]
        own = tries.get(framework["metadata"]["uid"], {})
        broken += [f"{job.name}: {what}" for what in _of_the_job(job, framework, own, deleted)]
    again = _run_again_after_success(writes, deleted)
    broken += [f"{name} ran again after it had succeeded" for name in again]
    return broken


def _of_the_engine(
    writes: Sequence[Write], frameworks: Mapping[str, Any], pods: Mapping[str, Any], two_lead: bool
) -> Iterator[str]:
    """The promises that are kept in virtual time, too."""
    auditor = Auditor()
    for write in writes:
        try:
            auditor(write.kind.resource, write.gone, write.obj)
        except Broken as broken:
            yield str(broken)
    late = [story.of for story in auditor.stories.values() if story.late]
    if late and not two_lead:
        yield f"pods were created for tries that were not saved, or over, or had one: {late}"
    try:
        auditor.check_end(list(frameworks.values()), list(pods.values()), time.time(), PlannerOptions())
    except Broken as broken:
        yield str(broken)


def _of_the_job(job: Job, framework: Any, tries: Tries, deleted: AbstractSet[str]) -> Iterator[str]:
    status = framework.get("status", {})
    if status.get("state") != "Completed":
        yield f"it has not ended: {status.get('state')}"
        return
    end = ended(framework), status["attemptStatus"]["completionStatus"]["code"]
    if end != (job.result, job.code):
        yield f"it ended as {end}, and not as {(job.result, job.code)}"
    counted = status["retryPolicyStatus"]["accountableRetriedCount"]
    if counted != job.retries:
        yield f"{counted} of its retries count, and not {job.retries}"
    most = max(
        task["retryPolicyStatus"]["accountableRetriedCount"]
        for role in status["attemptStatus"]["taskRoleStatuses"]
        for task in role["taskStatuses"]
    )
    if most != job.task_retries:
        yield f"{most} of the retries of its tasks count, and not {job.task_retries}"
    twice = {each: uids for each, uids in tries.items() if len(uids - deleted) > 1}
    if twice:
        yield f"pods were made twice: {twice}"
    if not any(uids & deleted for uids in tries.values()):
        strange, missing = tries.keys() - job.certain - job.possible, job.certain - tries.keys()
        if strange or missing:
            yield f"it had pods for {sorted(strange)}, and none for {sorted(missing)}"


def _tries(writes: Sequence[Write]) -> dict[str, dict[Try, set[str]]]:
    """By the uid of the Framework."""
    found: dict[str, dict[Try, set[str]]] = defaultdict(lambda: defaultdict(set))
    for write in writes:
        pod = pod_from_json(write.obj) if write.kind == PODS else None
        if pod is not None and pod.task is not None:
            of = pod.task
            found[pod.owner][Try(of.framework_attempt, of.role, of.index, of.task_attempt)].add(pod.uid)
    return found


def _run_again_after_success(writes: Sequence[Write], deleted: AbstractSet[str]) -> Iterator[str]:
    """
    Tasks of which another pod was created in the same attempt after one had succeeded.

    One that somebody deleted right then may be gone before its success was looked at.
    """
    succeeded: dict[tuple[str, int, str], str] = {}
    for write in writes:
        pod = pod_from_json(write.obj) if write.kind == PODS else None
        if pod is None or pod.task is None:
            continue
        task = (pod.owner, pod.task.framework_attempt, pod.name)
        if pod.phase == "Succeeded" and pod.uid not in deleted:
            succeeded.setdefault(task, pod.uid)
        elif succeeded.get(task, pod.uid) != pod.uid:
            yield f"{pod.name} ({pod.task})"
            succeeded[task] = pod.uid

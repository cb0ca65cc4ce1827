"""``arena submit tfjob`` into a Framework: the TFJob that Arena would make, and what Arena makes beside it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from launcher.converters.arena import job_spec, labels, pods, tensorboard, volumes
from launcher.converters.arena.flag_values import FlagValues
from launcher.converters.arena.job_spec import ArenaJob, JobEnvironment, read_job
from launcher.converters.kubeflow import tfjob
from launcher.core.errors import InvalidObject

CONFIG = "TF_CONFIG"
#: By the flag that asks for it.
_OF_FLAGS = {
    "retry": "Arena does not heed it for a tfjob, nor is it heeded here",
    "queue": "it is not begun until somebody starts it: launcher start NAME",
    "tensorboard": "it ends with the job; Arena's goes on until the job is deleted",
    "starting-timeout": "it is counted for each instance, from the creation of its pod",
}


def notes_on(job: ArenaJob) -> Iterator[str]:
    """A line for everything that no longer means quite the same, or never meant what it seems to."""
    yield from _on_instances(job)
    yield from (f"--{flag}: {note}" for flag, note in _OF_FLAGS.items() if job.given.values.get(flag))
    for role in dict.fromkeys(job.sequence):
        if not job.has(role):
            yield f"role sequence: the job has no {job_spec.TITLES[role]}, which is passed over"
    if job.given.text("worker-affinity-policy") != "none" and not job.has("ps"):
        yield "--worker-affinity-policy: without parameter servers it has no effect, as in Arena"


def _on_instances(job: ArenaJob) -> Iterator[str]:
    if job.alone:
        dropped = " beside the chief that was asked for" if job.given.is_on("chief") else ""
        yield (
            f"one worker without parameter servers{dropped} is run as {job.name}-chief-0, and without {CONFIG}, "
            "as Arena does it"
        )
    if job.knows_peers and CONFIG in job.env:
        yield f"--env: {CONFIG} gives way to the one that names the instances"


Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Submitted:
    """The Framework, the objects that it is to own, and a line for everything that its user should know."""

    framework: Json
    companions: tuple[Json, ...]
    notes: tuple[str, ...]


def submitted(given: FlagValues, command: str, around: JobEnvironment) -> Submitted:
    """What the flags ask for. Raises InvalidObject with everything that is wrong."""
    job = read_job(given, command, around)
    labels.check_marks(job)
    framework = _framework(job)
    companions = tuple(volumes.config_maps(job))
    notes = tuple(notes_on(job))
    if given.problems:
        raise InvalidObject(tuple(dict.fromkeys(given.problems)))
    return Submitted(framework, companions, notes)


def _framework(job: ArenaJob) -> Json:
    framework = tfjob.framework_of(_tfjob(job)).framework
    spec = framework["spec"]
    if present := _sequence(job):
        spec["roleSequence"] = present
    if job.given.is_on("gang"):
        spec["gang"] = {"minTasks": job.instances}
    for role in spec["taskRoles"]:
        if limit := job.given.seconds("starting-timeout"):
            role["task"]["pendingDeadlineSeconds"] = limit
        if job.alone:
            _tell_of_nobody(job, role["task"]["pod"])
    if job.given.is_on("tensorboard"):
        spec["taskRoles"].append(tensorboard.role(job, pods.common_spec(job)))
    return framework


def _tfjob(job: ArenaJob) -> Json:
    """The TFJob that Arena would make."""
    given = job.given
    policy = given.word("success-policy", ("ChiefWorker", "AllWorkers"))
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {
            "name": job.name,
            "labels": labels.job_labels(job),
            "annotations": labels.job_annotations(job),
        },
        "spec": {
            "successPolicy": "" if policy == "ChiefWorker" else policy,
            "runPolicy": {
                "cleanPodPolicy": given.word("clean-task-policy", ("Running", "None", "All")),
                "activeDeadlineSeconds": given.seconds("running-timeout"),
                "ttlSecondsAfterFinished": given.seconds("ttl-after-finished"),
                "suspend": given.is_on("queue"),
            },
            "tfReplicaSpecs": {
                job_spec.TITLES[role.type]: {
                    "replicas": role.count,
                    # A worker beside a chief may fall and get up again.
                    "restartPolicy": "OnFailure" if role.type == "worker" and job.has("chief") else "Never",
                    "template": pods.template(job, role),
                }
                for role in job.roles
            },
        },
    }


def _sequence(job: ArenaJob) -> list[str]:
    """The roles of the sequence that the job has, each once."""
    return [role for role in dict.fromkeys(job.sequence) if job.has(role)]


def _tell_of_nobody(job: ArenaJob, pod: Json) -> None:
    """Leave out what tells of peers, unless it is the user's own."""
    own = {CONFIG: job.env[CONFIG]} if CONFIG in job.env else {}
    for container in pod["spec"]["containers"]:
        others = [each for each in container["env"] if each["name"] != CONFIG]
        container["env"] = [*others, *pods.env_of(own)]

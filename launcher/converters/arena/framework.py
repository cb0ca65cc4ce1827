"""Converts ``arena submit tfjob`` to a Framework, by way of the TFJob that Arena would create."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from launcher.converters.arena import job_spec, labels, pods, tensorboard, volumes
from launcher.converters.arena.flag_values import FlagValues
from launcher.converters.arena.job_spec import ArenaJob, JobEnvironment, read_job
from launcher.converters.kubeflow import tfjob
from launcher.core.errors import InvalidObject

CONFIG = "TF_CONFIG"
#: Notes by flag.
_FLAG_NOTES = {
    "retry": "ignored, as by Arena for tfjobs",
    "queue": "the job starts with: launcher start NAME",
    "tensorboard": "stops with the job; Arena's runs until the job is deleted",
    "starting-timeout": "applies to each instance, from the creation of its pod",
}


def job_notes(job: ArenaJob) -> Iterator[str]:
    """Notes about differences in behaviour, and about flags without effect."""
    yield from _instance_notes(job)
    yield from (f"--{flag}: {note}" for flag, note in _FLAG_NOTES.items() if job.flags.values.get(flag))
    for role in dict.fromkeys(job.sequence):
        if not job.has(role):
            yield f"role sequence: the job has no {job_spec.TITLES[role]}; ignored"
    if job.flags.text("worker-affinity-policy") != "none" and not job.has("ps"):
        yield "--worker-affinity-policy: no effect without parameter servers, as in Arena"


def _instance_notes(job: ArenaJob) -> Iterator[str]:
    if job.is_standalone:
        dropped = " besides the chief" if job.flags.is_on("chief") else ""
        yield (
            f"one worker without parameter servers{dropped} runs as {job.name}-chief-0 without {CONFIG}, as in Arena"
        )
    if job.has_tf_config and CONFIG in job.env:
        yield f"--env: {CONFIG} is overridden by the value for the instances"


Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ArenaConversion:
    """The Framework, the objects that it will own, and notes for the user."""

    framework: Json
    config_maps: tuple[Json, ...]
    notes: tuple[str, ...]


def convert(flags: FlagValues, command: str, environment: JobEnvironment) -> ArenaConversion:
    """Converts the flags. Raises InvalidObject with all errors."""
    job = read_job(flags, command, environment)
    labels.check_metadata(job)
    framework = _framework(job)
    config_maps = tuple(volumes.config_maps(job))
    notes = tuple(job_notes(job))
    if flags.errors:
        raise InvalidObject(tuple(dict.fromkeys(flags.errors)))
    return ArenaConversion(framework, config_maps, notes)


def _framework(job: ArenaJob) -> Json:
    framework = tfjob.convert(_tfjob(job)).framework
    spec = framework["spec"]
    if present := _sequence(job):
        spec["roleSequence"] = present
    if job.flags.is_on("gang"):
        spec["gang"] = {"minTasks": job.instances}
    for role in spec["taskRoles"]:
        if limit := job.flags.seconds("starting-timeout"):
            role["task"]["pendingDeadlineSeconds"] = limit
        if job.is_standalone:
            _remove_tf_config(job, role["task"]["pod"])
    if job.flags.is_on("tensorboard"):
        spec["taskRoles"].append(tensorboard.role(job, pods.common_spec(job)))
    return framework


def _tfjob(job: ArenaJob) -> Json:
    """The TFJob that Arena would create."""
    flags = job.flags
    policy = flags.choice("success-policy", ("ChiefWorker", "AllWorkers"))
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
                "cleanPodPolicy": flags.choice("clean-task-policy", ("Running", "None", "All")),
                "activeDeadlineSeconds": flags.seconds("running-timeout"),
                "ttlSecondsAfterFinished": flags.seconds("ttl-after-finished"),
                "suspend": flags.is_on("queue"),
            },
            "tfReplicaSpecs": {
                job_spec.TITLES[role.type]: {
                    "replicas": role.count,
                    # As in Arena, workers are restarted if there is a chief.
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


def _remove_tf_config(job: ArenaJob, pod: Json) -> None:
    """Removes TF_CONFIG, unless the user set it."""
    own = {CONFIG: job.env[CONFIG]} if CONFIG in job.env else {}
    for container in pod["spec"]["containers"]:
        others = [variable for variable in container["env"] if variable["name"] != CONFIG]
        container["env"] = [*others, *pods.env_of(own)]

"""What users of Arena should know about a job that is not quite what it was there."""

from collections.abc import Iterator

from launcher.intake.arena import sequence
from launcher.intake.arena.job import Job

CONFIG = "TF_CONFIG"
#: By the flag that asks for it.
_OF_FLAGS = {
    "retry": "Arena does not heed it for a tfjob, nor is it heeded here",
    "queue": "it is not begun until somebody starts it: launcher start NAME",
    "tensorboard": "it ends with the job; Arena's goes on until the job is deleted",
    "starting-timeout": "it is counted for each instance, from the creation of its pod",
}


def notes_on(job: Job) -> Iterator[str]:
    """A line for everything that no longer means quite the same, or never meant what it seems to."""
    yield from _on_instances(job)
    yield from (f"--{flag}: {note}" for flag, note in _OF_FLAGS.items() if job.given.values.get(flag))
    for role in dict.fromkeys(job.sequence):
        if not job.has(role):
            yield f"role sequence: the job has no {sequence.TITLES[role]}, which is passed over"
    if job.given.text("worker-affinity-policy") != "none" and not job.has("ps"):
        yield "--worker-affinity-policy: without parameter servers it has no effect, as in Arena"


def _on_instances(job: Job) -> Iterator[str]:
    if job.alone:
        dropped = " beside the chief that was asked for" if job.given.is_on("chief") else ""
        yield (
            f"one worker without parameter servers{dropped} is run as {job.name}-chief-0, and without {CONFIG}, "
            "as Arena does it"
        )
    if job.knows_peers and CONFIG in job.env:
        yield f"--env: {CONFIG} gives way to the one that names the instances"

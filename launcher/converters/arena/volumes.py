"""Volumes and volume mounts of a job's pods."""

from base64 import b64encode
from collections.abc import Iterator
from hashlib import md5
from itertools import groupby
from typing import Any

from launcher.converters.arena import code_sync
from launcher.converters.arena.flag_parsers import ConfigFile
from launcher.converters.arena.job_spec import ArenaJob

Json = dict[str, Any]

LOGS = "training-logs-volume"
_SHARED = "dshm"


def volumes(job: ArenaJob) -> list[Json]:
    """The volumes of every role."""
    return [*claim_volumes(job), *_own_volumes(job)]


def mounts(job: ArenaJob) -> list[Json]:
    """The volume mounts of every role."""
    return [*claim_mounts(job), *_own_mounts(job)]


def claim_volumes(job: ArenaJob) -> list[Json]:
    return [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in job.claims]


def claim_mounts(job: ArenaJob) -> list[Json]:
    return [{"name": claim, "mountPath": path} for claim, path in job.claims.items()]


def logs_volume(job: ArenaJob) -> Json:
    """A host directory for the logs that TensorBoard reads."""
    return {"name": LOGS, "hostPath": {"path": job.log_directory, "type": "DirectoryOrCreate"}}


def config_maps(job: ArenaJob) -> list[Json]:
    """One ConfigMap for each target directory of config files."""
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": _config_map(job, directory), "labels": {"createdBy": "arena"}},
            **_contents(files),
        }
        for directory, files in _by_directory(job)
    ]


def _own_volumes(job: ArenaJob) -> Iterator[Json]:
    for at, (source, _) in enumerate(job.directories):
        yield {"name": f"training-data-{at}", "hostPath": {"path": source}}
    if job.flags.text("sync-mode"):
        yield {"name": code_sync.VOLUME, "emptyDir": {}}
    if size := job.flags.amount("share-memory"):
        yield {"name": _SHARED, "emptyDir": {"medium": "Memory", "sizeLimit": size}}
    for directory, _ in _by_directory(job):
        name = _config_map(job, directory)
        yield {"name": f"config-{_digest(directory)}", "configMap": {"name": name}}


def _own_mounts(job: ArenaJob) -> Iterator[Json]:
    for at, (_, target) in enumerate(job.directories):
        yield {"name": f"training-data-{at}", "mountPath": target}
    if job.flags.text("sync-mode"):
        directory = job.flags.text("working-dir").rstrip("/")
        yield {"name": code_sync.VOLUME, "mountPath": f"{directory}/code"}
    if job.flags.text("share-memory"):
        yield {"name": _SHARED, "mountPath": "/dev/shm"}  # noqa: S108 - in the container
    for file in job.files:
        # A subPath mount keeps other files of the directory visible.
        yield {"name": f"config-{_digest(file.directory)}", "mountPath": file.target, "subPath": file.key}


def _by_directory(job: ArenaJob) -> list[tuple[str, list[ConfigFile]]]:
    by_directory = sorted(job.files, key=lambda file: file.directory)
    return [
        (directory, list(files)) for directory, files in groupby(by_directory, lambda file: file.directory)
    ]


def _digest(directory: str) -> str:
    return md5(directory.encode(), usedforsecurity=False).hexdigest()[:15]


def _config_map(job: ArenaJob, directory: str) -> str:
    return f"{job.name}-{_digest(directory)}"


def _contents(files: list[ConfigFile]) -> Json:
    data, binary = {}, {}
    for file in files:
        try:
            data[file.key] = file.content.decode()
        except UnicodeDecodeError:
            binary[file.key] = b64encode(file.content).decode()
    return {name: value for name, value in (("data", data), ("binaryData", binary)) if value}

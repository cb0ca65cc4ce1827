"""
Allocates the GPUs of the nodes to the containers of pods.

Each pod with GPUs has a file with its allocation, so that the next launcher, and every restart of a container, uses
the same ones. They are released after the last container has ended.
"""

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import orjson

from launcher.core.errors import Unavailable
from launcher.core.pods.observed_pod import node_name
from launcher.node.pods.gpus import GPU_RESOURCE, GpuAllocation, allocate_gpus
from launcher.node.pods.pod_spec import containers_of, uid_of
from launcher.store.interface import Object

log = logging.getLogger(__name__)


class DeviceManager:
    """The GPUs of all pods. No GPU is allocated to two pods at a time."""

    def __init__(self, directory: Path, gpus: Mapping[str, Sequence[str]]) -> None:
        """*gpus* are the indexes of the GPUs of each node; the allocations are read from *directory*."""
        self._directory, self._gpus = directory, gpus
        self._allocations: dict[str, GpuAllocation] = {}
        for file in directory.glob("*.json"):
            self._read(file)

    def _read(self, file: Path) -> None:
        try:
            self._allocations[file.stem] = orjson.loads(file.read_bytes())
        except (OSError, orjson.JSONDecodeError) as error:
            # Files are replaced atomically, so it was written before the machine crashed: no container of it runs.
            log.warning("allocation of GPUs is not readable", extra={"file": str(file), "error": str(error)})

    def pod_uids(self) -> list[str]:
        """The pods that have GPUs."""
        return list(self._allocations)

    def allocated(self, uid: str) -> GpuAllocation:
        """The GPUs of the pod's containers; empty if it has none."""
        return self._allocations.get(uid, {})

    def allocate(self, pod: Object) -> GpuAllocation:
        """
        Allocates the GPUs that the pod's containers request, unless it has them already, and returns them.

        Raises Unavailable while other pods have them, such as one whose containers are being killed.
        """
        uid, node = uid_of(pod), node_name(pod) or ""
        if allocation := self._allocations.get(uid):
            return allocation
        free = self._free(node)
        new = allocate_gpus(containers_of(pod), free)
        if new is None:
            raise Unavailable(
                f"node {node} has {len(free)} free {GPU_RESOURCE}, and the pod requests more; waiting for other pods"
            )
        if new:
            self._write(uid, new)
            self._allocations[uid] = new
        return new

    def release(self, uid: str) -> GpuAllocation:
        """Releases the GPUs of the pod, whose containers have ended. Returns those that it had."""
        allocation = self._allocations.pop(uid, None)
        if allocation is None:
            return {}
        self._file(uid).unlink(missing_ok=True)
        return allocation

    def _free(self, node: str) -> list[str]:
        used = {gpu for pod in self._allocations.values() for gpus in pod.values() for gpu in gpus}
        return [gpu for gpu in self._gpus.get(node, ()) if gpu not in used]

    def _write(self, uid: str, allocation: GpuAllocation) -> None:
        file = self._file(uid)
        new = file.with_suffix(".new")
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(
                os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb"
            ) as stream:
                stream.write(orjson.dumps(allocation))
            new.replace(file)
        except OSError as error:
            raise Unavailable(f"{GPU_RESOURCE}: the allocation cannot be written: {error}") from error

    def _file(self, uid: str) -> Path:
        return self._directory / f"{uid}.json"

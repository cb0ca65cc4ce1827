"""A real node: kubelet, containerd and kube-proxy on a simulated machine."""

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.processes import RunningProcess
from tests.eventually import TIMEOUT_SECONDS, until
from tests.realnodes import cgroups, configuration
from tests.realnodes.machine import NodeMachine

#: Replaces mount(8): its last two arguments are the source and the target.
_MOUNT = """#!/bin/bash
case "${{*: -2:1}}" in
{cases}
esac
exec /bin/mount "$@"
"""


class Node:
    """One node; kubelet and kube-proxy are started after its images are imported."""

    def __init__(self, name: str, directory: Path, logs: Path) -> None:
        """*directory* is removed with the node; *logs* of its programs stay."""
        self.name, self._logs = name, logs
        self._settings = directory / "settings"
        #: The directory /data of this node for hostPath volumes.
        self.data = directory / "data"
        for path in (directory / "var", self.data, self._settings / "cni"):
            path.mkdir(parents=True)
        self.machine = NodeMachine(
            name,
            directory,
            shown={"/var": directory / "var", "/data": self.data},
            replaced=_replaced_files(self._settings),
        )
        self._exports: dict[str, str] = {}
        self._kubelet_command: Sequence[str] = ()
        self._kubelet: RunningProcess | None = None
        self._runtime: RunningProcess | None = None

    def start_runtime(self, pods: str) -> None:
        """Starts containerd with the pod network *pods*, and waits until it responds."""
        self._network_config.write_text(configuration.pod_network(pods))
        config = self._settings / "containerd.toml"
        config.write_text(
            configuration.containerd(self._network_config.parent, self._settings / "registries")
        )
        self._resume_runtime()

    def _resume_runtime(self) -> None:
        config = self._settings / "containerd.toml"
        self._runtime = self._start("containerd", ["containerd", f"--config={config}"])
        until(self._runtime_responds, f"containerd on {self.name} responds")

    @property
    def _network_config(self) -> Path:
        return self._settings / "cni" / "10-pods.conflist"

    def set_registry(self, host: str, url: str) -> None:
        """Pulls images of that registry from the address."""
        directory = self._settings / "registries" / host
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "hosts.toml").write_text(configuration.registry(url))

    @contextmanager
    def broken_network(self) -> Iterator[None]:
        """Inside the block the node has no program that connects new pods."""
        config = self._network_config.read_text()
        self._network_config.write_text(config.replace('"type": "bridge"', '"type": "no-such-plugin"'))
        try:
            yield
        finally:
            self._network_config.write_text(config)

    def load(self, archive: Path) -> None:
        """Imports the image of the archive."""
        self._ctr("images", "import", str(archive))

    def kill(self, container: str) -> None:
        """Kills the container without the kubelet."""
        self._ctr("tasks", "kill", "--signal=SIGKILL", container)

    def remove(self, container: str) -> None:
        """Kills the container and removes it from the runtime, which is restarted and no longer knows it."""
        self.kill(container)
        until(lambda: container not in self._ctr("tasks", "list") or None, "the container has ended")
        self._ctr("containers", "delete", container)
        assert self._runtime is not None, "containerd does not run"
        self._runtime.send(signal.SIGKILL)
        assert self._runtime.ended(within=TIMEOUT_SECONDS)
        self._runtime.close()
        self._resume_runtime()

    def start_kubelet(self, program: Path, address: str, authority: Path, kubeconfig: Path) -> None:
        """Starts the kubelet for the first time, which registers the node."""
        config, resolver = self._settings / "kubelet.yaml", self._settings / "resolv.conf"
        resolver.touch()
        group = f"{self.machine.cgroup}/{cgroups.PODS}"
        config.write_text(configuration.kubelet(authority, group, resolver))
        self._kubelet_command = [
            str(program),
            f"--config={config}",
            f"--kubeconfig={kubeconfig}",
            f"--hostname-override={self.name}",
            f"--node-ip={address}",
        ]
        self.resume()

    def start_proxy(self, program: Path, kubeconfig: Path) -> None:
        """Starts kube-proxy."""
        config = self._settings / "kube-proxy.yaml"
        config.write_text(configuration.kube_proxy(self.name, kubeconfig))
        self._start("kube-proxy", [str(program), f"--config={config}"])

    def kill_kubelet(self) -> None:
        """Kills the kubelet; containers continue without status updates."""
        assert self._kubelet is not None, "kubelet does not run"
        self._kubelet.send(signal.SIGKILL)
        assert self._kubelet.ended(within=TIMEOUT_SECONDS)
        self._kubelet.close()
        self._kubelet = None

    def resume(self) -> None:
        """Restarts the kubelet."""
        # A test may have replaced the program that mounts volumes.
        path = f"{self._settings / 'programs'}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        self._kubelet = self._start("kubelet", self._kubelet_command, path=path)

    def replace_nfs(self, export: str, directory: str) -> None:
        """Bind-mounts *directory* of the node where the kubelet mounts the export, without a server."""
        self._exports[export] = directory
        cases = (f'{one}) exec /bin/mount --bind {two} "${{*: -1}}" ;;' for one, two in self._exports.items())
        script = _MOUNT.format(cases="\n".join(cases))
        program = self._settings / "programs" / "mount"
        program.parent.mkdir(exist_ok=True)
        program.write_text(script)
        program.chmod(0o755)

    def log(self, program: str) -> str:
        """The log of the program."""
        return self._log(program).read_text(errors="replace")

    def _start(self, program: str, argv: Sequence[str], path: str = "") -> RunningProcess:
        env = {"PATH": path or "/usr/sbin:/usr/bin:/sbin:/bin"}
        return self.machine.start(argv, log=self._log(program), env=env)

    def _log(self, program: str) -> Path:
        return self._logs / f"{self.name}-{program}.log"

    def _runtime_responds(self) -> bool | None:
        try:
            return bool(self._ctr("version"))
        except AssertionError:
            return None

    def _ctr(self, *words: str) -> str:
        return self.machine.run("ctr", f"--address={configuration.RUNTIME}", "--namespace=k8s.io", *words)


def _replaced_files(directory: Path) -> dict[str, Path]:
    """The node's own files for kernel settings that the kubelet writes, with their current values."""
    files: dict[str, Path] = {}
    for name in configuration.TUNED:
        file = directory / name.replace("/", ".")
        file.write_text(Path("/proc/sys", name).read_text())
        files[f"/proc/sys/{name}"] = file
    return files

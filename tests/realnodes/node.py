"""A real node: kubelet, containerd and kube-proxy on a machine of their own."""

import signal
from collections.abc import Sequence
from pathlib import Path

from tests.cluster.processes import Running
from tests.local.server import PATIENCE, until
from tests.realnodes import cgroups, configuration
from tests.realnodes.machine import Machine

#: Stands before the machine's own: the last two of its words are what to mount, and where.
_MOUNT = """#!/bin/bash
case "${{*: -2:1}}" in
{cases}
esac
exec /bin/mount "$@"
"""


class Node:
    """One node, from its containerd up; kubelet and kube-proxy are started when its images are there."""

    def __init__(self, name: str, directory: Path, logs: Path) -> None:
        """*directory* goes with the node; what its programs say stays, in *logs*."""
        self.name, self._logs = name, logs
        self._settings = directory / "settings"
        #: What pods of this node, and no other, find at /data when they ask for a path of the host.
        self.data = directory / "data"
        for path in (directory / "var", self.data, self._settings / "cni"):
            path.mkdir(parents=True)
        self.machine = Machine(
            name,
            directory,
            shown={"/var": directory / "var", "/data": self.data},
            pretended=_pretended(self._settings),
        )
        self._exports: dict[str, str] = {}
        self._kubelet_words: Sequence[str] = ()
        self._kubelet: Running | None = None

    def start_runtime(self, pods: str) -> None:
        """Start containerd, whose pods get addresses of that network; return when it answers."""
        (self._settings / "cni" / "10-pods.conflist").write_text(configuration.pod_network(pods))
        config = self._settings / "containerd.toml"
        config.write_text(configuration.containerd(self._settings / "cni"))
        self._start("containerd", ["containerd", f"--config={config}"])
        until(self._runtime_answers, f"containerd on {self.name} answers")

    def load(self, archive: Path) -> None:
        """Have the image in that archive."""
        self._ctr("images", "import", str(archive))

    def kill(self, container: str) -> None:
        """End that container without a word of warning, behind kubelet's back."""
        self._ctr("tasks", "kill", "--signal=SIGKILL", container)

    def start_kubelet(self, program: Path, address: str, authority: Path, kubeconfig: Path) -> None:
        """Start it for the first time: the node makes itself known."""
        config, resolver = self._settings / "kubelet.yaml", self._settings / "resolv.conf"
        resolver.touch()
        group = f"{self.machine.cgroup}/{cgroups.PODS}"
        config.write_text(configuration.kubelet(authority, group, resolver))
        self._kubelet_words = [
            str(program),
            f"--config={config}",
            f"--kubeconfig={kubeconfig}",
            f"--hostname-override={self.name}",
            f"--node-ip={address}",
        ]
        self.resume()

    def start_proxy(self, program: Path, kubeconfig: Path) -> None:
        """Start kube-proxy."""
        config = self._settings / "kube-proxy.yaml"
        config.write_text(configuration.kube_proxy(self.name, kubeconfig))
        self._start("kube-proxy", [str(program), f"--config={config}"])

    def lose_kubelet(self) -> None:
        """Kill kubelet: containers go on, and nobody hears of them."""
        assert self._kubelet is not None, "kubelet does not run"
        self._kubelet.send(signal.SIGKILL)
        assert self._kubelet.ended(within=PATIENCE)
        self._kubelet.forget()
        self._kubelet = None

    def resume(self) -> None:
        """Start kubelet again."""
        # Volumes of other kinds are mounted by a program of this name, and a test may want its own.
        path = f"{self._settings / 'programs'}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        self._kubelet = self._start("kubelet", self._kubelet_words, path=path)

    def stand_in_for_nfs(self, export: str, directory: str) -> None:
        """Let that directory of the node be bound where kubelet mounts the export; no server is asked."""
        self._exports[export] = directory
        cases = (f'{one}) exec /bin/mount --bind {two} "${{*: -1}}" ;;' for one, two in self._exports.items())
        script = _MOUNT.format(cases="\n".join(cases))
        program = self._settings / "programs" / "mount"
        program.parent.mkdir(exist_ok=True)
        program.write_text(script)
        program.chmod(0o755)

    def log(self, program: str) -> str:
        """What that program has said."""
        return self._log(program).read_text(errors="replace")

    def _start(self, program: str, argv: Sequence[str], path: str = "") -> Running:
        env = {"PATH": path or "/usr/sbin:/usr/bin:/sbin:/bin"}
        return self.machine.start(argv, log=self._log(program), env=env)

    def _log(self, program: str) -> Path:
        return self._logs / f"{self.name}-{program}.log"

    def _runtime_answers(self) -> bool | None:
        try:
            return bool(self._ctr("version"))
        except AssertionError:
            return None

    def _ctr(self, *words: str) -> str:
        return self.machine.run("ctr", f"--address={configuration.RUNTIME}", "--namespace=k8s.io", *words)


def _pretended(directory: Path) -> dict[str, Path]:
    """Files of the node's own for what kubelet sets for the whole machine, as it is now."""
    files: dict[str, Path] = {}
    for name in configuration.TUNED:
        file = directory / name.replace("/", ".")
        file.write_text(Path("/proc/sys", name).read_text())
        files[f"/proc/sys/{name}"] = file
    return files

"""Confinement of containers: capabilities, privileges, system calls, processes, cgroups."""

import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from launcher.node.container_runtime import Confinement, ResourceLimits, StartFailed
from launcher.node.pods.confinement import container_confinement
from launcher.node.pods.oom import oom_score
from launcher.node.pods.unsupported import unsupported_fields
from launcher.node.runtime.process_runtime import ProcessRuntime
from launcher.node.shim.confinement import CAPABILITIES
from tests.node.harness import a_container, a_pod, as_root
from tests.node.runtimes import (
    ISOLATION_MODES,
    a_config,
    a_runtime,
    log_text,
    run_to_end,
    shell,
    shim_pid,
    use_isolation,
)

#: Tries a system call and prints its error.
CALL = "import ctypes, os; c = ctypes.CDLL(None, use_errno=True); r = c.{}; print(r, os.strerror(ctypes.get_errno()))"
#: A way of starting the shim may replace the program that the tests themselves run with.
PYTHON = sys.executable


@pytest.fixture(params=[mode for mode in ISOLATION_MODES if mode != "bwrap"])
async def runtime(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ProcessRuntime]:
    use_isolation(request.param, tmp_path, monkeypatch)
    async with a_runtime(tmp_path) as opened:
        yield opened


def cgroup_files() -> list[str]:
    # os.walk ignores directories that other tests remove meanwhile.
    folders = os.walk("/sys/fs/cgroup")
    return sorted(f"{folder}/cgroup.procs" for folder, _, files in folders if "cgroup.procs" in files)


def oom_score_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text())


def context(**fields: Any) -> dict[str, Any]:
    return {"securityContext": fields}


@pytest.mark.parametrize(
    ("settings", "has", "lacks"),
    [
        pytest.param({}, "CHOWN", "SYS_ADMIN", id="containerd's set by default"),
        pytest.param({"capabilities": {"add": ["SYS_TIME"]}}, "SYS_TIME", "SYS_ADMIN", id="add"),
        pytest.param(
            {"capabilities": {"add": ["CAP_SYS_TIME"]}}, "SYS_TIME", "SYS_ADMIN", id="with its prefix"
        ),
        pytest.param({"capabilities": {"drop": ["CHOWN"]}}, "KILL", "CHOWN", id="drop"),
        pytest.param(
            {"capabilities": {"drop": ["ALL"], "add": ["KILL"]}}, "KILL", "CHOWN", id="drop all but"
        ),
        pytest.param(
            {"capabilities": {"add": ["ALL"], "drop": ["KILL"]}}, "SYS_ADMIN", "KILL", id="add all but"
        ),
    ],
)
def test_capabilities_are_those_of_the_security_context(settings: Any, has: str, lacks: str) -> None:
    found = container_confinement(a_pod("p"), context(**settings)).capabilities

    assert found is not None
    assert has in found
    assert lacks not in found


def test_privileged_keeps_all_capabilities_and_an_unknown_one_is_reported() -> None:
    assert container_confinement(a_pod("p"), context(privileged=True)) == Confinement()
    with pytest.raises(StartFailed, match=r"capabilities\.add: unknown capability 'FLY'"):
        container_confinement(a_pod("p"), context(capabilities={"add": ["FLY"]}))


@as_root
async def test_root_has_the_configured_capabilities(tmp_path: Path) -> None:
    kept = {"CHOWN", "KILL"}
    async with a_runtime(tmp_path) as runtime:
        config = shell(tmp_path, "grep Cap /proc/self/status", confinement=Confinement(kept))
        assert await run_to_end(runtime, config) == 0

    sets = {line.split()[0]: int(line.split()[1], 16) for line in log_text(tmp_path).splitlines()}
    mask = sum(1 << CAPABILITIES.index(name) for name in kept)
    assert sets["CapBnd:"] == sets["CapEff:"] == sets["CapPrm:"] == mask
    assert sets["CapInh:"] == sets["CapAmb:"] == 0


@pytest.mark.parametrize("forbidden", [True, False])
async def test_no_new_privileges_is_set_as_configured(
    runtime: ProcessRuntime, tmp_path: Path, forbidden: bool
) -> None:
    confinement = Confinement((), no_new_privileges=forbidden)
    config = shell(tmp_path, "grep NoNewPrivs /proc/self/status", confinement=confinement)

    assert await run_to_end(runtime, config) == 0

    assert log_text(tmp_path).split() == ["NoNewPrivs:", "1" if forbidden else "0"]


@pytest.mark.parametrize(
    "call",
    [
        pytest.param("unshare(0x10000000)", id="a user namespace"),
        pytest.param("mount(b'none', b'/mnt', b'tmpfs', 0, None)", id="mount"),
        pytest.param("syscall(321, 0, 0, 0)", id="bpf"),
    ],
)
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of another machine")
async def test_the_default_filter_refuses_system_calls(
    runtime: ProcessRuntime, tmp_path: Path, call: str
) -> None:
    config = a_config(tmp_path, PYTHON, "-c", CALL.format(call), confinement=Confinement(filtered=True))

    code = await run_to_end(runtime, config)

    assert (code, log_text(tmp_path)) == (0, "-1 Operation not permitted\n")


async def test_programs_work_under_the_default_filter(runtime: ProcessRuntime, tmp_path: Path) -> None:
    script = "import threading, subprocess; t = threading.Thread(target=print, args=('thread',)); t.start(); t.join(); "
    script += "subprocess.run(['echo', 'child'], check=True)"
    confinement = Confinement((), no_new_privileges=True, filtered=True)
    config = a_config(tmp_path, PYTHON, "-u", "-c", script, confinement=confinement)

    assert await run_to_end(runtime, config) == 0

    assert log_text(tmp_path) == "thread\nchild\n"


async def test_an_executed_command_is_confined_like_its_container(
    runtime: ProcessRuntime, tmp_path: Path
) -> None:
    confinement = Confinement((), no_new_privileges=True)
    config = shell(tmp_path, "exec sleep 600", confinement=confinement)
    await runtime.start_container(config)

    code, output = await runtime.exec_sync(
        config.id, ["grep", "-E", "NoNewPrivs|CapBnd", "/proc/self/status"], timeout_seconds=10
    )

    assert code == 0
    assert output.split() == [b"CapBnd:", b"0000000000000000", b"NoNewPrivs:", b"1"]


async def test_a_container_has_no_more_processes_than_its_limit(
    runtime: ProcessRuntime, tmp_path: Path
) -> None:
    script = """
import os, time
made = 0
try:
    for made in range(60):
        if not os.fork():
            time.sleep(60)
except BlockingIOError:
    pass
print(made)
"""
    config = a_config(tmp_path, PYTHON, "-u", "-c", script, limits=ResourceLimits(pids=20))
    if runtime.unsupported_features(config) or (os.geteuid() == 0 and runtime._features["users"] is not None):
        # The limit of a user is not enforced for root, even if root is mapped to another user.
        pytest.skip("there is no limit of processes here")

    assert await run_to_end(runtime, config) == 0

    assert 5 < int(log_text(tmp_path)) <= 20


@as_root
async def test_a_root_container_cannot_change_cgroups(tmp_path: Path) -> None:
    groups = cgroup_files()
    if not groups:
        pytest.skip("no cgroups on this machine")
    async with a_runtime(tmp_path) as runtime:
        config = shell(tmp_path, f"echo $$ >{groups[0]}", confinement=Confinement(("CHOWN", "DAC_OVERRIDE")))

        assert await run_to_end(runtime, config) != 0

    assert "Read-only file system" in log_text(tmp_path)


@pytest.mark.parametrize(
    ("resources", "score"),
    [
        pytest.param({}, 1000, id="BestEffort"),
        pytest.param({"limits": {"cpu": "1", "memory": "1Gi"}}, -997, id="Guaranteed"),
        pytest.param({"requests": {"memory": "1Gi"}}, 750, id="Burstable"),
        pytest.param({"requests": {"cpu": "1"}}, 999, id="Burstable without memory"),
        pytest.param({"requests": {"memory": "8Gi"}}, 3, id="Burstable with more than there is"),
    ],
)
def test_the_oom_score_equals_that_of_the_kubelet(resources: Any, score: int) -> None:
    container = a_container("main", "true", resources=resources)

    assert oom_score(a_pod("p", container), container, {"memory": "4Gi"}) == score


async def test_a_container_is_killed_before_the_shim_when_memory_runs_out(
    runtime: ProcessRuntime, tmp_path: Path
) -> None:
    config = shell(tmp_path, "cat /proc/self/oom_score_adj", oom_score=-997)

    assert await run_to_end(runtime, config) == 0

    assert int(log_text(tmp_path)) > oom_score_of(shim_pid(runtime))


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        ({"hostPID": True}, "hostPID"),
        ({"shareProcessNamespace": True}, "shareProcessNamespace"),
        ({"ephemeralContainers": [{"name": "debug"}]}, "ephemeralContainers"),
        ({"priorityClassName": "high"}, "priorityClassName"),
        (
            {"securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "x"}}},
            "Localhost",
        ),
        ({"securityContext": {"sysctls": [{"name": "a", "value": "b"}]}}, "sysctls"),
        ({"securityContext": {"seLinuxOptions": {"level": "s0"}}}, "seLinuxOptions"),
    ],
)
def test_unsupported_fields_are_reported(spec: Any, word: str) -> None:
    [sentence] = unsupported_fields(a_pod("p", **spec), is_root=True, has_seccomp=True)

    assert word in sentence


def test_an_ordinary_pod_has_no_unsupported_fields() -> None:
    pod = a_pod("p", a_container("main", "true"))

    assert list(unsupported_fields(pod, is_root=False, has_seccomp=False)) == []


def test_added_capabilities_without_root_are_reported() -> None:
    container = a_container("main", "true", **context(capabilities={"add": ["NET_ADMIN"]}))
    pod = a_pod("p", container)

    [sentence] = unsupported_fields(pod, is_root=False, has_seccomp=True)

    assert "NET_ADMIN cannot be granted" in sentence
    assert list(unsupported_fields(pod, is_root=True, has_seccomp=True)) == []


def test_a_seccomp_profile_without_seccomp_is_reported() -> None:
    container = a_container("main", "true", **context(seccompProfile={"type": "RuntimeDefault"}))
    pod = a_pod("p", container)

    [sentence] = unsupported_fields(pod, is_root=True, has_seccomp=False)

    assert "not supported on this processor" in sentence
    assert list(unsupported_fields(pod, is_root=True, has_seccomp=True)) == []


@pytest.mark.parametrize(
    "confinement",
    [
        pytest.param(Confinement(no_new_privileges=True), id="allowPrivilegeEscalation"),
        pytest.param(Confinement(filtered=True), id="seccompProfile"),
    ],
)
async def test_a_machine_without_namespaces_reports_what_it_does_not_confine(
    confinement: Confinement, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_isolation("plain", tmp_path, monkeypatch)
    async with a_runtime(tmp_path) as runtime:
        missing = runtime.unsupported_features(a_config(tmp_path, "/bin/true", confinement=confinement))
        plain = runtime.unsupported_features(a_config(tmp_path, "/bin/true"))

    (added,) = (each for each in missing if each not in plain)
    assert added.startswith("allowPrivilegeEscalation: false and seccompProfile")

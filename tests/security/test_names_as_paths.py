"""A name of a stored object never becomes a path outside the launcher's directories."""

from pathlib import Path

import pytest

from launcher.node.agent.termination_messages import TerminationMessages
from launcher.node.container_runtime import RunId, StartFailed
from launcher.node.logs.container_logs import ContainerLogs
from launcher.store.interface import CONFIG_MAPS, Object
from tests.node.harness import NodeAgentHarness, a_container, a_pod, in_virtual_time, runs, waits
from tests.node.runtimes import a_runtime, shell

NAMES = ["../../../../victim", "..", "a/b", "", "nul\0"]


def a_victim(tmp_path: Path) -> Path:
    victim = tmp_path / "victim"
    victim.mkdir(mode=0o700)
    (victim / "file").write_text("untouched")
    return victim


def is_untouched(victim: Path) -> bool:
    return [path.name for path in victim.iterdir()] == ["file"] and victim.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "volume", [{"configMap": {"name": "c"}}, {"emptyDir": {}}], ids=["configMap", "emptyDir"]
)
def test_a_volume_name_cannot_write_or_remove_files_outside(
    tmp_path: Path, name: str, volume: Object
) -> None:
    victim = a_victim(tmp_path)

    async def scenario(harness: NodeAgentHarness) -> None:
        config = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "c", "namespace": "default"},
            "data": {"key": "value"},
        }
        await harness.store.create(CONFIG_MAPS, config)
        async with harness.agent():
            await harness.create(a_pod("bad", volumes=[{"name": name, **volume}]))
            await harness.create(a_pod("good", a_container("main", "sleep", "900")))
            await harness.when("bad", waits("ContainerCreating"))
            await harness.when("good", runs())
            [event] = await harness.events("FailedMount")

        assert "cannot be a file name" in event

    in_virtual_time(scenario, tmp_path / "data")

    assert is_untouched(victim)


@pytest.mark.parametrize("name", NAMES)
def test_a_container_name_cannot_create_files_outside(tmp_path: Path, name: str) -> None:
    victim = a_victim(tmp_path)

    async def scenario(harness: NodeAgentHarness) -> None:
        async with harness.agent():
            await harness.create(a_pod("bad", a_container(name, "true")))
            await harness.create(a_pod("good", a_container("main", "sleep", "900")))
            waiting = await harness.when("bad", waits("CreateContainerConfigError", name))
            await harness.when("good", runs())

        assert "container name" in waiting["status"]["containerStatuses"][0]["state"]["waiting"]["message"]
        assert [config.id.split(".")[1] for config in harness.runtime.configs] == ["main"]

    in_virtual_time(scenario, tmp_path / "data")

    assert is_untouched(victim)


@pytest.mark.parametrize("name", NAMES)
def test_logs_and_termination_messages_have_no_path_outside(tmp_path: Path, name: str) -> None:
    victim = a_victim(tmp_path)

    with pytest.raises(ValueError, match="cannot be"):
        ContainerLogs(tmp_path / "data" / "logs").path("default", "pod", "uid", name, 0)
    with pytest.raises(ValueError, match="cannot be"):
        TerminationMessages(tmp_path / "data" / "ends").create_file(RunId(name))
    TerminationMessages(tmp_path / "data" / "ends").remove(RunId(name))

    assert is_untouched(victim)


@pytest.mark.parametrize("name", [name for name in NAMES if "\0" not in name])
async def test_the_shim_starts_no_run_whose_id_is_a_path(tmp_path: Path, name: str) -> None:
    victim = a_victim(tmp_path)
    data = tmp_path / "data"
    data.mkdir()

    async with a_runtime(data) as runtime:
        with pytest.raises(StartFailed, match="invalid id"):
            await runtime.start_container(shell(data, "true", run=name))

    assert is_untouched(victim)

"""The files of the agent: failed and oversized volumes, and the removal of logs."""

import asyncio
import os
from pathlib import Path

from launcher.node.logs.log_retention import FrameworkOwner, LogRetention
from launcher.store.interface import FRAMEWORKS, PODS, DeleteOptions, Object
from tests import builders
from tests.node.harness import (
    NodeAgentHarness,
    a_container,
    a_pod,
    as_root,
    in_virtual_time,
    phase,
    runs,
    state,
    waits,
)


def test_a_failed_volume_is_retried_with_backoff(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        volumes = [{"name": "v", "configMap": {"name": "none"}}]
        async with harness.agent():
            await harness.create(a_pod("p", volumes=volumes))
            waiting = await harness.when("p", waits("ContainerCreating"))
            [event] = await harness.events("FailedMount")
            await asyncio.sleep(100)

        assert waiting["status"]["phase"] == "Pending"
        assert state(waiting)["waiting"] == {"reason": "ContainerCreating", "message": event}
        assert event == 'MountVolume.SetUp failed for volume "v" : configmap "none" not found'
        assert harness.store.status_writes == 1
        assert harness.runtime.configs == []

    in_virtual_time(scenario, tmp_path)


def test_a_pod_whose_volume_exceeds_its_limit_is_evicted(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        volumes = [{"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}]
        container = a_container("main", "sleep", "900", volumeMounts=[{"name": "v", "mountPath": "/v"}])
        async with harness.agent():
            await harness.create(a_pod("p", container, volumes=volumes, restartPolicy="Always"))
            await harness.when("p", runs())
            await asyncio.sleep(60)
            mount = harness.runtime.configs[0].mounts[0]
            (mount.source / "big").write_bytes(b"x" * 2_000_000)
            done = await harness.when("p", phase("Failed"))
            assert await harness.events("Evicted")

        assert done["status"]["reason"] == "Evicted"
        assert done["status"]["message"] == 'Usage of EmptyDir volume "v" exceeds the limit "1Mi".'
        assert mount.target == "/v"
        assert "terminated" in state(done)
        assert not mount.source.exists()

    in_virtual_time(scenario, tmp_path)


def test_a_pod_deleted_while_its_volume_is_missing_is_removed(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        async with harness.agent():
            await harness.create(a_pod("p", volumes=[{"name": "v", "csi": {}}]))
            await harness.when("p", waits("ContainerCreating"))
            await harness.store.delete(PODS, "default", "p")
            await harness.wait_until_deleted("p")

    in_virtual_time(scenario, tmp_path)


def test_an_export_that_cannot_be_mounted_is_reported_with_the_flag_to_set(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        async with harness.agent():
            await harness.create(a_pod("p", volumes=[{"name": "v", "nfs": {"server": "s", "path": "/x"}}]))
            [event] = await harness.events("FailedMount")

        assert "--nfs s:/x=DIR" in event

    in_virtual_time(scenario, tmp_path)


@as_root
def test_exports_that_an_earlier_launcher_has_mounted_are_unmounted(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        async with harness.agent():
            await wait_for_due_work()

    export, target = tmp_path / "export", tmp_path / "nfs" / "server%3A%2Fdata"
    export.mkdir()
    target.mkdir(parents=True)
    assert os.system(f"mount --bind {export} {target}") == 0

    in_virtual_time(scenario, tmp_path)

    assert not target.exists()


def a_framework(name: str) -> Object:
    return builders.a_framework(name=name, metadata={"namespace": "default"})


def owned_by(framework: Object) -> Object:
    meta = framework["metadata"]
    return {
        "ownerReferences": [
            {
                "apiVersion": "v1",
                "kind": "Framework",
                "name": meta["name"],
                "uid": meta["uid"],
                "controller": True,
            }
        ]
    }


async def wait_for_due_work() -> None:
    """Waits longer than anything that is due takes."""
    await asyncio.sleep(1)


def test_logs_are_removed_with_their_pod_or_with_its_framework(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        framework = await harness.store.create(FRAMEWORKS, a_framework("f"))
        async with harness.agent():
            await harness.create(a_pod("alone"))
            await harness.create(a_pod("f-w-0", metadata=owned_by(framework)))
            for name in ("alone", "f-w-0"):
                await harness.when(name, phase("Succeeded"))
                await harness.store.delete(PODS, "default", name)
            await wait_for_due_work()
            assert harness.logs.removed == [("default", "alone")]
            await harness.store.delete(FRAMEWORKS, "default", "f")
            await wait_for_due_work()

        assert harness.logs.removed == [("default", "alone"), ("default", "f-w-0")]

    in_virtual_time(scenario, tmp_path)


def test_logs_of_a_pod_that_outlives_its_framework_are_removed_with_the_pod(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        framework = await harness.store.create(FRAMEWORKS, a_framework("f"))
        async with harness.agent():
            await harness.create(
                a_pod("f-w-0", a_container("main", "sleep", "900"), metadata=owned_by(framework))
            )
            await harness.when("f-w-0", runs())
            await harness.store.delete(FRAMEWORKS, "default", "f")
            await wait_for_due_work()
            assert harness.logs.removed == []
            await harness.store.delete(PODS, "default", "f-w-0", DeleteOptions(grace=0))
            await wait_for_due_work()

        assert harness.logs.removed == [("default", "f-w-0")]

    in_virtual_time(scenario, tmp_path)


def test_logs_are_retained_while_a_pod_of_that_name_exists(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        async with harness.agent():
            await harness.create(a_pod("p"))
            await harness.when("p", phase("Succeeded"))
            await harness.store.delete(PODS, "default", "p")
            await harness.create(a_pod("p", a_container("main", "sleep", "900")))
            await harness.when("p", runs())
            await wait_for_due_work()

        assert harness.logs.removed == []

    in_virtual_time(scenario, tmp_path)


def test_logs_of_an_earlier_launcher_are_checked_at_the_start(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        await harness.store.create(FRAMEWORKS, a_framework("here"))
        await harness.create(a_pod("p", a_container("main", "sleep", "900")))
        for name in ("p", "here-w-0", "gone-w-0", "alone"):
            (harness.logs.root / "default" / name / "uid").mkdir(parents=True)
        async with harness.agent():
            await wait_for_due_work()
            assert sorted(harness.logs.removed) == [("default", "alone"), ("default", "gone-w-0")]
            await harness.store.delete(FRAMEWORKS, "default", "here")
            await wait_for_due_work()

        assert ("default", "here-w-0") in harness.logs.removed
        assert ("default", "p") not in harness.logs.removed

    in_virtual_time(scenario, tmp_path)


def test_logs_of_a_recreated_framework_are_removed(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        framework = await harness.store.create(FRAMEWORKS, a_framework("f"))
        async with harness.agent():
            await harness.create(a_pod("f-w-0", metadata=owned_by(framework)))
            await harness.when("f-w-0", phase("Succeeded"))
            await harness.store.delete(FRAMEWORKS, "default", "f")
            await harness.store.create(FRAMEWORKS, a_framework("f"))
            await harness.store.delete(PODS, "default", "f-w-0")
            await wait_for_due_work()

        assert harness.logs.removed == [("default", "f-w-0")]

    in_virtual_time(scenario, tmp_path)


def test_a_framework_with_a_new_uid_replaces_the_old_one(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        logs = LogRetention(harness.store, harness.logs, lambda _: False)
        old = await harness.store.create(FRAMEWORKS, a_framework("f"))
        removing = asyncio.create_task(logs.run())
        logs.on_upsert(("default", "f"), old)
        logs.pod_deleted(("default", "f-w-0"), FrameworkOwner("f", old["metadata"]["uid"]))
        await wait_for_due_work()
        assert harness.logs.removed == []
        logs.on_upsert(("default", "f"), {"metadata": {"uid": "another"}})
        await wait_for_due_work()
        removing.cancel()

        assert harness.logs.removed == [("default", "f-w-0")]

    in_virtual_time(scenario, tmp_path)


def test_files_of_terminated_pods_are_removed_at_the_start(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        for uid in ("11111111-2222-4333-8444-555555555555", "99999999-2222-4333-8444-555555555555"):
            (tmp_path / "pods" / uid / "volumes" / "v").mkdir(parents=True)
        (tmp_path / "ends").mkdir()
        (tmp_path / "ends" / "11111111-2222-4333-8444-555555555555.main.0").touch()
        async with harness.agent():
            await wait_for_due_work()

        assert list((tmp_path / "pods").iterdir()) == []
        assert list((tmp_path / "ends").iterdir()) == []

    in_virtual_time(scenario, tmp_path)

"""What the agent makes on disk: volumes that cannot be made, that grow too big, and logs that nobody needs."""

import asyncio
import os
from pathlib import Path

from launcher.node.logs.log_retention import FrameworkOwner, LogRetention
from launcher.store.interface import FRAMEWORKS, PODS, DeleteOptions, Object
from tests.node.world import World, a_container, a_pod, as_root, in_virtual_time, phase, runs, state, waits


def test_a_volume_that_cannot_be_made_is_tried_again_with_growing_pauses(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        volumes = [{"name": "v", "configMap": {"name": "none"}}]
        async with world.agent():
            await world.create(a_pod("p", volumes=volumes))
            waiting = await world.when("p", waits("ContainerCreating"))
            [event] = await world.events("FailedMount")
            await asyncio.sleep(100)

        assert waiting["status"]["phase"] == "Pending"
        assert state(waiting)["waiting"] == {"reason": "ContainerCreating", "message": event}
        assert event == 'MountVolume.SetUp failed for volume "v" : configmap "none" not found'
        assert world.store.status_writes == 1
        assert world.runtime.orders == []

    in_virtual_time(scenario, tmp_path)


def test_a_pod_whose_volume_grows_too_big_is_evicted(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        volumes = [{"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}]
        container = a_container("main", "sleep", "900", volumeMounts=[{"name": "v", "mountPath": "/v"}])
        async with world.agent():
            await world.create(a_pod("p", container, volumes=volumes, restartPolicy="Always"))
            await world.when("p", runs())
            await asyncio.sleep(60)
            mount = world.runtime.orders[0].mounts[0]
            (mount.source / "big").write_bytes(b"x" * 2_000_000)
            done = await world.when("p", phase("Failed"))
            assert await world.events("Evicted")

        assert done["status"]["reason"] == "Evicted"
        assert done["status"]["message"] == 'Usage of EmptyDir volume "v" exceeds the limit "1Mi".'
        assert mount.target == "/v"
        assert "terminated" in state(done)
        assert not mount.source.exists()

    in_virtual_time(scenario, tmp_path)


def test_a_pod_that_is_deleted_while_its_volume_is_missing_goes(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with world.agent():
            await world.create(a_pod("p", volumes=[{"name": "v", "csi": {}}]))
            await world.when("p", waits("ContainerCreating"))
            await world.store.delete(PODS, "default", "p")
            await world.gone("p")

    in_virtual_time(scenario, tmp_path)


def test_an_export_without_a_stand_in_is_told_with_the_way_out(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with world.agent():
            await world.create(a_pod("p", volumes=[{"name": "v", "nfs": {"server": "s", "path": "/x"}}]))
            [event] = await world.events("FailedMount")

        assert "--nfs s:/x=DIR" in event

    in_virtual_time(scenario, tmp_path)


@as_root
def test_exports_that_an_earlier_launcher_has_mounted_are_unmounted(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with world.agent():
            await settle()

    export, target = tmp_path / "export", tmp_path / "nfs" / "server%3A%2Fdata"
    export.mkdir()
    target.mkdir(parents=True)
    assert os.system(f"mount --bind {export} {target}") == 0

    in_virtual_time(scenario, tmp_path)

    assert not target.exists()


def a_framework(name: str) -> Object:
    return {
        "apiVersion": FRAMEWORKS.api_version,
        "kind": "Framework",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {},
    }


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


async def settle() -> None:
    """Long enough for everything that is due at this time."""
    await asyncio.sleep(1)


def test_logs_go_with_their_pod_or_with_the_framework_that_owns_it(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        framework = await world.store.create(FRAMEWORKS, a_framework("f"))
        async with world.agent():
            await world.create(a_pod("alone"))
            await world.create(a_pod("f-w-0", metadata=owned_by(framework)))
            for name in ("alone", "f-w-0"):
                await world.when(name, phase("Succeeded"))
                await world.store.delete(PODS, "default", name)
            await settle()
            assert world.logs.removed == [("default", "alone")]
            await world.store.delete(FRAMEWORKS, "default", "f")
            await settle()

        assert world.logs.removed == [("default", "alone"), ("default", "f-w-0")]

    in_virtual_time(scenario, tmp_path)


def test_logs_of_a_pod_that_outlives_its_framework_go_with_it(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        framework = await world.store.create(FRAMEWORKS, a_framework("f"))
        async with world.agent():
            await world.create(
                a_pod("f-w-0", a_container("main", "sleep", "900"), metadata=owned_by(framework))
            )
            await world.when("f-w-0", runs())
            await world.store.delete(FRAMEWORKS, "default", "f")
            await settle()
            assert world.logs.removed == []
            await world.store.delete(PODS, "default", "f-w-0", DeleteOptions(grace=0))
            await settle()

        assert world.logs.removed == [("default", "f-w-0")]

    in_virtual_time(scenario, tmp_path)


def test_logs_stay_while_there_is_a_pod_of_that_name(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with world.agent():
            await world.create(a_pod("p"))
            await world.when("p", phase("Succeeded"))
            await world.store.delete(PODS, "default", "p")
            await world.create(a_pod("p", a_container("main", "sleep", "900")))
            await world.when("p", runs())
            await settle()

        assert world.logs.removed == []

    in_virtual_time(scenario, tmp_path)


def test_logs_that_an_earlier_launcher_left_are_looked_through(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.store.create(FRAMEWORKS, a_framework("here"))
        await world.create(a_pod("p", a_container("main", "sleep", "900")))
        for name in ("p", "here-w-0", "gone-w-0", "alone"):
            (world.logs.root / "default" / name / "uid").mkdir(parents=True)
        async with world.agent():
            await settle()
            assert sorted(world.logs.removed) == [("default", "alone"), ("default", "gone-w-0")]
            await world.store.delete(FRAMEWORKS, "default", "here")
            await settle()

        assert ("default", "here-w-0") in world.logs.removed
        assert ("default", "p") not in world.logs.removed

    in_virtual_time(scenario, tmp_path)


def test_a_framework_that_was_made_anew_has_no_old_logs(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        framework = await world.store.create(FRAMEWORKS, a_framework("f"))
        async with world.agent():
            await world.create(a_pod("f-w-0", metadata=owned_by(framework)))
            await world.when("f-w-0", phase("Succeeded"))
            await world.store.delete(FRAMEWORKS, "default", "f")
            await world.store.create(FRAMEWORKS, a_framework("f"))
            await world.store.delete(PODS, "default", "f-w-0")
            await settle()

        assert world.logs.removed == [("default", "f-w-0")]

    in_virtual_time(scenario, tmp_path)


def test_a_framework_in_the_place_of_another_says_that_the_other_is_gone(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        logs = LogRetention(world.store, world.logs, lambda _: False)
        old = await world.store.create(FRAMEWORKS, a_framework("f"))
        removing = asyncio.create_task(logs.run())
        logs.on_upsert(("default", "f"), old)
        logs.pod_gone(("default", "f-w-0"), FrameworkOwner("f", old["metadata"]["uid"]))
        await settle()
        assert world.logs.removed == []
        logs.on_upsert(("default", "f"), {"metadata": {"uid": "another"}})
        await settle()
        removing.cancel()

        assert world.logs.removed == [("default", "f-w-0")]

    in_virtual_time(scenario, tmp_path)


def test_what_is_left_of_pods_that_are_over_is_removed_at_the_start(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        for uid in ("11111111-2222-4333-8444-555555555555", "99999999-2222-4333-8444-555555555555"):
            (tmp_path / "pods" / uid / "volumes" / "v").mkdir(parents=True)
        (tmp_path / "ends").mkdir()
        (tmp_path / "ends" / "11111111-2222-4333-8444-555555555555.main.0").touch()
        async with world.agent():
            await settle()

        assert list((tmp_path / "pods").iterdir()) == []
        assert list((tmp_path / "ends").iterdir()) == []

    in_virtual_time(scenario, tmp_path)

"""Names of Services as lines of a hosts file, and the files that pods get."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from launcher.core.pods.services import ANNOTATION
from launcher.node.agent.hosts_files import HostsFileManager
from launcher.node.container_runtime import ContainerConfig, ContainerRun, Mount
from launcher.node.pods.hosts_entries import hosts_lines, named_pod, named_service
from launcher.store.interface import (
    PODS,
    SERVICES,
    Change,
    DeleteOptions,
    MergePatch,
    Object,
    ResourceKind,
    Version,
)
from launcher.store.selectors import EVERYTHING, Selector
from tests.node.world import World, WorldStore, a_container, a_pod, eventually, in_virtual_time, phase, runs


def owned(framework: str = "f") -> Object:
    return {
        "apiVersion": "launcher.microsoft.com/v1",
        "kind": "Framework",
        "name": framework,
        "uid": "u",
        "controller": True,
    }


def a_service(name: str = "f", framework: str | None = "f", *, headless: bool = True, **spec: Any) -> Object:
    """A Service, of a Framework unless that is None."""
    labels = {"FC_FRAMEWORK_NAME": framework} if framework else {}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": labels,
            "ownerReferences": [owned(framework)] if framework else [],
        },
        "spec": {"selector": labels, **({"clusterIP": "None"} if headless else {}), **spec},
    }


def a_task(index: int = 0, framework: str | None = "f", *containers: Object, **spec: Any) -> Object:
    """The pod of one task, which runs until it is ended."""
    meta: Object = {"annotations": spec.pop("annotations", {})}
    if framework:
        marks = {"FC_FRAMEWORK_NAME": framework, "FC_TASK_INDEX": str(index)}
        meta |= {"labels": marks, "ownerReferences": [owned(framework)]}
    name = f"{framework or 'alone'}-w-{index}"
    return a_pod(name, *(containers or (a_container("main", "sleep", "10000"),)), metadata=meta, **spec)


def with_address(pod: Object, address: str = "127.0.0.2", **status: Any) -> Object:
    ready = {"type": "Ready", "status": "True"}
    return {**pod, "status": {"podIP": address, "phase": "Running", "conditions": [ready], **status}}


def lines(services: list[Object], pods: list[Object]) -> list[str]:
    known = [service for each in services if (service := named_service(each)) is not None]
    return list(hosts_lines(known, [pod for each in pods if (pod := named_pod(each)) is not None]))


def all_names(address: str, name: str) -> str:
    inner = f"{name}.default"
    return f"{address} {inner}.svc.cluster.local {inner}.svc {inner} {name}"


# Lines.


def test_a_service_has_the_names_that_a_cluster_gives_it() -> None:
    assert lines([a_service()], [with_address(a_task())]) == [all_names("127.0.0.2", "f")]


def test_pods_have_names_in_the_service_that_they_name() -> None:
    pods = [
        with_address(a_task(0, hostname="f-w-0", subdomain="f"), "127.0.0.2"),
        with_address(a_task(1, hostname="f-w-1", subdomain="f"), "127.0.0.3"),
        with_address(a_task(2, hostname="f-w-2", subdomain="another"), "127.0.0.3"),
    ]

    assert lines([a_service()], pods) == [
        all_names("127.0.0.2", "f"),
        all_names("127.0.0.3", "f"),
        all_names("127.0.0.2", "f-w-0.f"),
        all_names("127.0.0.3", "f-w-1.f"),
    ]
    assert lines([a_service(headless=False)], pods[:1]) == [all_names("127.0.0.2", "f")]


def test_each_task_may_have_its_service() -> None:
    services = [
        a_service(f"f-w-{n}", selector={"FC_FRAMEWORK_NAME": "f", "FC_TASK_INDEX": str(n)}) for n in range(3)
    ]
    pods = [with_address(a_task(n), f"127.0.0.{n + 2}") for n in range(2)]

    assert lines(services, pods) == [all_names("127.0.0.2", "f-w-0"), all_names("127.0.0.3", "f-w-1")]


@pytest.mark.parametrize(
    ("pod", "service", "leads"),
    [
        pytest.param(a_task(), a_service(), False, id="not while a pod has no address"),
        pytest.param(with_address(a_task(), phase="Failed"), a_service(), False, id="not once it is over"),
        pytest.param(
            with_address(a_task(), conditions=[]), a_service(), False, id="not while it is not ready"
        ),
        pytest.param(
            with_address(a_task(), conditions=[]),
            a_service(publishNotReadyAddresses=True),
            True,
            id="unless the Service takes those too",
        ),
        pytest.param(with_address(a_task()), a_service(selector={"a": "b"}), False, id="not to others"),
        pytest.param(with_address(a_task()), a_service(selector={}), False, id="not without a selector"),
    ],
)
def test_a_service_leads_to_the_pods_that_it_selects(pod: Object, service: Object, leads: bool) -> None:
    assert bool(lines([service], [pod])) is leads


def test_lines_are_no_longer_than_every_library_reads() -> None:
    long = "n" * 60

    found = lines(
        [a_service(long, publishNotReadyAddresses=True)],
        [with_address(a_task(hostname=long, subdomain=long))],
    )

    assert all(len(line) <= 500 for line in found)
    assert f"127.0.0.2 {long}.{long}" in found


# Files.


def mounted(world: World, run: int = -1) -> Mount | None:
    """What stands at /etc/hosts in that run."""
    return next((mount for mount in world.runtime.orders[run].mounts if mount.target == "/etc/hosts"), None)


def names_in(mount: Mount | None) -> set[str]:
    assert mount is not None
    found = [line.split() for line in mount.source.read_text().splitlines() if ".svc " in line]
    return {f"{words[0]} {words[-1]}" for words in found}


def test_every_pod_of_a_framework_has_the_same_file_and_sees_others_come_and_go(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.store.create(SERVICES, a_service(publishNotReadyAddresses=True))
        async with world.agent():
            await world.create(a_task(0, hostname="f-w-0", subdomain="f"))
            await world.when("f-w-0", runs())
            first = mounted(world)
            assert first is not None
            file = first.source.stat().st_ino
            await eventually(lambda: names_in(first) == {"127.0.0.2 f", "127.0.0.2 f-w-0.f"})

            await world.create(a_task(1, hostname="f-w-1", subdomain="f"))
            await world.when("f-w-1", runs())
            both = {"127.0.0.2 f", "127.0.0.2 f-w-0.f", "127.0.0.2 f-w-1.f"}
            assert mounted(world) == first
            await eventually(lambda: names_in(first) == both)

            await world.store.delete(PODS, "default", "f-w-1")
            await eventually(lambda: names_in(first) == {"127.0.0.2 f", "127.0.0.2 f-w-0.f"})
            assert first.source.stat().st_ino == file
            assert first.read_only
            assert "localhost" in first.source.read_text()

    in_virtual_time(scenario, tmp_path)


def test_a_file_is_right_before_the_container_starts(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        seen: list[set[str]] = []
        start = world.runtime.start

        async def looking(order: ContainerConfig) -> ContainerRun:
            seen.append(names_in(next(mount for mount in order.mounts if mount.target == "/etc/hosts")))
            return await start(order)

        world.runtime.start = looking  # type: ignore[method-assign]  # to look at the very moment
        await world.store.create(SERVICES, a_service())
        async with world.agent():
            for index in range(3):
                await world.create(a_task(index, subdomain="f", hostname=f"f-w-{index}"))
                await world.when(f"f-w-{index}", runs())

        assert seen == [
            set(),
            {"127.0.0.2 f", "127.0.0.2 f-w-0.f"},
            {"127.0.0.2 f", "127.0.0.2 f-w-0.f", "127.0.0.2 f-w-1.f"},
        ]

    in_virtual_time(scenario, tmp_path)


def test_a_pod_without_services_gets_a_file_with_its_own_name_until_it_is_over(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with world.agent():
            await world.create(a_task(0, "f", a_container("main", "sleep", "60")))
            await world.when("f-w-0", runs())
            file = mounted(world)
            assert file is not None
            assert file.source.read_text().splitlines()[-1] == "127.0.0.2 f-w-0"
            await world.when("f-w-0", phase("Succeeded"))
            await eventually(lambda: not file.source.exists())

    in_virtual_time(scenario, tmp_path)


@pytest.mark.parametrize(
    ("spec", "asks"),
    [
        pytest.param({"hostNetwork": True}, False, id="in the node's network it asks the node's servers"),
        pytest.param(
            {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}, True, id="unless it says so"
        ),
        pytest.param({"dnsPolicy": "Default"}, False, id="or it wants to"),
        pytest.param({"dnsPolicy": "ClusterFirst"}, True, id="else it asks the cluster's"),
    ],
)
def test_a_pod_that_would_not_ask_the_cluster_gets_no_names_of_services(
    tmp_path: Path, spec: Object, asks: bool
) -> None:
    async def scenario(world: World) -> None:
        await world.store.create(SERVICES, a_service())
        async with world.agent():
            await world.create(a_task(**spec))
            await world.when("f-w-0", runs())

        file = mounted(world)
        assert (file is not None and file.source.parent.name == "default") is asks

    in_virtual_time(scenario, tmp_path)


@pytest.mark.parametrize("path", ["/etc/hosts", "/etc"])
def test_what_the_user_mounts_there_stays(tmp_path: Path, path: str) -> None:
    async def scenario(world: World) -> None:
        await world.store.create(SERVICES, a_service())
        mounts = [{"name": "v", "mountPath": path}]
        container = a_container("main", "sleep", "10000", volumeMounts=mounts)
        async with world.agent():
            await world.create(a_task(0, "f", container, volumes=[{"name": "v", "emptyDir": {}}]))
            await world.when("f-w-0", runs())

        targets = [mount.target for mount in world.runtime.orders[0].mounts]
        assert [target for target in targets if target != "/etc/hostname"] == [path, "/dev/termination-log"]

    in_virtual_time(scenario, tmp_path)


def test_services_of_nobody_are_known_to_all_and_those_of_a_framework_to_it_alone(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.store.create(SERVICES, a_service("f"))
        await world.store.create(SERVICES, a_service("g", "g"))
        await world.store.create(SERVICES, a_service("all", None, selector={"FC_TASK_INDEX": "0"}))
        found = {}
        async with world.agent():
            for framework in ("f", "g", None):
                hostname = {"hostname": f"{framework}0", "subdomain": "all"}
                pod = await world.create(a_task(0, framework, **hostname))
                await world.when(pod["metadata"]["name"], runs())
                found[framework] = mounted(world)
            shared = {"127.0.0.2 all", "127.0.0.2 f0.all", "127.0.0.2 g0.all"}
            await eventually(lambda: names_in(found["f"]) == {"127.0.0.2 f", *shared})
            await eventually(lambda: names_in(found["g"]) == {"127.0.0.2 g", *shared})
            await eventually(lambda: names_in(found[None]) == shared)

            await world.store.delete(SERVICES, "default", "all")
            await eventually(lambda: names_in(found["f"]) == {"127.0.0.2 f"})
            await eventually(lambda: names_in(found[None]) == set())

    in_virtual_time(scenario, tmp_path)


def test_a_pod_that_is_over_is_led_to_no_more(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.store.create(SERVICES, a_service())
        async with world.agent():
            await world.create(a_task(0))
            await world.when("f-w-0", runs())
            file = mounted(world)
            await world.create(a_task(1, "f", a_container("main", "sleep", "5"), hostname="h", subdomain="f"))
            await eventually(lambda: "127.0.0.2 h.f" in names_in(file))
            await world.when("f-w-1", phase("Succeeded"))
            await eventually(lambda: names_in(file) == {"127.0.0.2 f"})

    in_virtual_time(scenario, tmp_path)


def test_files_go_with_the_last_pod_and_outlive_the_launcher_till_then(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.store.create(SERVICES, a_service())
        async with world.agent():
            await world.create(a_task(0))
            await world.when("f-w-0", runs())
        (tmp_path / "hosts" / "default" / "left-over").write_text("")
        file = mounted(world)
        assert file is not None
        node = file.source.stat().st_ino
        async with world.agent():
            await world.create(a_task(1, hostname="h", subdomain="f"))
            await eventually(lambda: "127.0.0.2 h.f" in names_in(file))
            assert file.source.stat().st_ino == node
            assert [path.name for path in file.source.parent.iterdir()] == ["f"]

            for index in (0, 1):
                await world.store.delete(PODS, "default", f"f-w-{index}")
            await eventually(lambda: not file.source.parent.exists())

    in_virtual_time(scenario, tmp_path)


class Deaf(WorldStore):
    """Its changes of Services are never heard of."""

    async def watch(  # type: ignore[override]  # an iterator all the same
        self,
        kind: ResourceKind,
        namespace: str | None = None,
        where: Selector = EVERYTHING,
        *,
        since: Version,
        bookmarks: bool = False,
    ) -> AsyncIterator[Change]:
        async for change in super().watch(kind, namespace, where, since=since, bookmarks=bookmarks):
            if kind is not SERVICES:
                yield change


def test_services_that_were_made_before_the_pod_are_known_however_slowly_they_are_heard_of(
    tmp_path: Path,
) -> None:
    async def scenario(world: World) -> None:
        store = Deaf(world.clock)
        hosts = HostsFileManager(store, tmp_path / "hosts")
        working = asyncio.create_task(hosts.run())
        annotations = {ANNOTATION: "PerTask"}
        plain, named = await world.create(a_task(0)), await world.create(a_task(1, annotations=annotations))
        assert str(await hosts.file_for(named, "127.0.0.2")).endswith(".hosts")
        await store.create(SERVICES, a_service("f-w-1"))

        assert str(await hosts.file_for(plain, "127.0.0.2")).endswith(".hosts")
        assert await hosts.file_for(named, "127.0.0.2") == tmp_path / "hosts" / "default" / "f"
        working.cancel()

    in_virtual_time(scenario, tmp_path)


NODES = {"h10": "127.0.0.51", "h100": "127.0.0.52", "10.0.0.3": "127.0.0.53"}
NODE_LINES = ["127.0.0.51 h10", "127.0.0.52 h100"]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"hostNetwork": True}, id="host network"),
        pytest.param({"dnsPolicy": "Default"}, id="the node's DNS"),
        pytest.param({}, id="cluster DNS, no Service"),
    ],
)
def test_pods_without_services_resolve_the_names_of_nodes(tmp_path: Path, spec: Object) -> None:
    (tmp_path / "machine").write_text("127.0.0.1 localhost\n")

    async def scenario(world: World) -> None:
        hosts = HostsFileManager(world.store, tmp_path / "hosts", tmp_path / "machine", NODES)
        working = asyncio.create_task(hosts.run())

        file = await hosts.file_for(await world.create(a_task(0, **spec)), "127.0.0.51")

        working.cancel()
        assert file is not None
        own = [] if spec.get("hostNetwork") else ["127.0.0.51 f-w-0"]
        assert file.read_text().splitlines() == ["127.0.0.1 localhost", *own, *NODE_LINES]

    in_virtual_time(scenario, tmp_path)


def test_pods_with_services_resolve_the_names_of_nodes_too(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.store.create(SERVICES, a_service(publishNotReadyAddresses=True))
        hosts = HostsFileManager(world.store, tmp_path / "hosts", nodes=NODES)
        working = asyncio.create_task(hosts.run())

        file = await hosts.file_for(await world.create(a_task(0)), "127.0.0.51")

        working.cancel()
        assert file is not None
        assert file.read_text().splitlines()[-3:] == [all_names("127.0.0.51", "f"), *NODE_LINES]

    in_virtual_time(scenario, tmp_path)


def test_a_pod_with_a_dns_policy_of_none_gets_no_names_but_its_own(tmp_path: Path) -> None:
    (tmp_path / "machine").write_text("127.0.0.1 localhost\n")

    async def scenario(world: World) -> None:
        hosts = HostsFileManager(world.store, tmp_path / "hosts", tmp_path / "machine", NODES)

        file = await hosts.file_for(await world.create(a_task(0, dnsPolicy="None")), "127.0.0.51")

        assert file is not None
        assert file.read_text().splitlines() == ["127.0.0.1 localhost", "127.0.0.51 f-w-0"]

    in_virtual_time(scenario, tmp_path)


def test_a_pod_knows_its_own_name_before_anybody_has_told_its_address(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.store.create(SERVICES, a_service(publishNotReadyAddresses=True))
        hosts = HostsFileManager(world.store, tmp_path / "hosts")
        working = asyncio.create_task(hosts.run())
        pod = await world.create(a_task(0))
        hosts.pod_seen(("default", "f-w-0"), pod)

        file = await hosts.file_for(pod, "127.0.0.9")
        assert file is not None
        at_first = file.read_text()
        hosts.pod_seen(("default", "f-w-0"), pod)  # nothing has been told of it meanwhile
        again = (await hosts.file_for(pod, "127.0.0.9") or file).read_text()

        working.cancel()
        assert all_names("127.0.0.9", "f") in at_first
        assert all_names("127.0.0.9", "f") in again

    in_virtual_time(scenario, tmp_path)


def test_a_file_never_gets_shorter_so_that_no_reader_finds_half_of_it(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.store.create(SERVICES, a_service())
        async with world.agent():
            await world.create(a_task(0))
            await world.when("f-w-0", runs())
            file = mounted(world)
            assert file is not None
            await eventually(lambda: names_in(file) == {"127.0.0.2 f"})
            size = file.source.stat().st_size
            await world.store.patch(SERVICES, "default", "f", MergePatch({"spec": {"selector": {"a": "b"}}}))
            await eventually(lambda: names_in(file) == set())
            assert file.source.stat().st_size == size
            await world.store.delete(PODS, "default", "f-w-0", DeleteOptions(grace=0))

    in_virtual_time(scenario, tmp_path)

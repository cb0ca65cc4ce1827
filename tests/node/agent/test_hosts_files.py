"""Names of Services as lines of a hosts file, and the files that pods get."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from launcher.core.pods.services import SERVICES_ANNOTATION
from launcher.node.agent.hosts_files import HostsFileManager
from launcher.node.container_runtime import ContainerConfig, ContainerRun, Mount
from launcher.node.pods.hosts_entries import hosts_lines, named_pod, named_service
from launcher.store.informer import SharedInformers
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
from tests.eventually import eventually
from tests.node.harness import (
    FaultyMemoryStore,
    NodeAgentHarness,
    a_container,
    a_pod,
    in_virtual_time,
    phase,
    runs,
)


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
    """The pod of one task, which runs until it is stopped."""
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


def test_a_service_has_the_names_of_cluster_dns() -> None:
    assert lines([a_service()], [with_address(a_task())]) == [all_names("127.0.0.2", "f")]


def test_pods_have_names_in_the_service_of_their_subdomain() -> None:
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


@pytest.mark.parametrize(
    ("cluster_ip", "target", "resolved"),
    [
        pytest.param("10.0.0.1", 80, "10.0.0.1", id="its address"),
        pytest.param("127.96.0.1", "http", "127.96.0.1", id="its address, if it maps a port"),
        pytest.param("127.96.0.1", 80, "127.0.0.2", id="its pods, whose port only they can listen on"),
    ],
)
def test_the_name_of_a_service_resolves_to_its_address(
    cluster_ip: str, target: int | str, resolved: str
) -> None:
    ports = [{"port": 80, "targetPort": target}, {"port": 81}]
    service = a_service(headless=False, clusterIP=cluster_ip, ports=ports)

    assert lines([service], [with_address(a_task())]) == [all_names(resolved, "f")]


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
        pytest.param(
            with_address(a_task(), phase="Failed"), a_service(), False, id="not after its termination"
        ),
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
def test_a_service_resolves_to_the_pods_that_it_selects(pod: Object, service: Object, leads: bool) -> None:
    assert bool(lines([service], [pod])) is leads


def test_lines_are_short_enough_for_every_c_library() -> None:
    long = "n" * 60

    found = lines(
        [a_service(long, publishNotReadyAddresses=True)],
        [with_address(a_task(hostname=long, subdomain=long))],
    )

    assert all(len(line) <= 500 for line in found)
    assert f"127.0.0.2 {long}.{long}" in found


# Files.


def mounted(harness: NodeAgentHarness, run: int = -1) -> Mount | None:
    """The mount at /etc/hosts of that run."""
    return next(
        (mount for mount in harness.runtime.configs[run].mounts if mount.target == "/etc/hosts"), None
    )


def names_in(mount: Mount | None) -> set[str]:
    assert mount is not None
    found = [line.split() for line in mount.source.read_text().splitlines() if ".svc " in line]
    return {f"{words[0]} {words[-1]}" for words in found}


def test_all_pods_of_a_framework_share_a_file_that_follows_pod_changes(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        await harness.store.create(SERVICES, a_service(publishNotReadyAddresses=True))
        async with harness.agent():
            await harness.create(a_task(0, hostname="f-w-0", subdomain="f"))
            await harness.when("f-w-0", runs())
            first = mounted(harness)
            assert first is not None
            file = first.source.stat().st_ino
            await eventually(lambda: names_in(first) == {"127.0.0.2 f", "127.0.0.2 f-w-0.f"})

            await harness.create(a_task(1, hostname="f-w-1", subdomain="f"))
            await harness.when("f-w-1", runs())
            both = {"127.0.0.2 f", "127.0.0.2 f-w-0.f", "127.0.0.2 f-w-1.f"}
            assert mounted(harness) == first
            await eventually(lambda: names_in(first) == both)

            await harness.store.delete(PODS, "default", "f-w-1")
            await eventually(lambda: names_in(first) == {"127.0.0.2 f", "127.0.0.2 f-w-0.f"})
            assert first.source.stat().st_ino == file
            assert first.read_only
            assert "localhost" in first.source.read_text()

    in_virtual_time(scenario, tmp_path)


def test_the_file_is_up_to_date_before_the_container_starts(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        seen: list[set[str]] = []
        start = harness.runtime.start_container

        async def record_and_start(config: ContainerConfig) -> ContainerRun:
            seen.append(names_in(next(mount for mount in config.mounts if mount.target == "/etc/hosts")))
            return await start(config)

        harness.runtime.start_container = record_and_start  # type: ignore[method-assign]  # records the file at that time
        await harness.store.create(SERVICES, a_service())
        async with harness.agent():
            for index in range(3):
                await harness.create(a_task(index, subdomain="f", hostname=f"f-w-{index}"))
                await harness.when(f"f-w-{index}", runs())

        assert seen == [
            set(),
            {"127.0.0.2 f", "127.0.0.2 f-w-0.f"},
            {"127.0.0.2 f", "127.0.0.2 f-w-0.f", "127.0.0.2 f-w-1.f"},
        ]

    in_virtual_time(scenario, tmp_path)


def test_a_pod_without_services_has_a_file_with_its_own_name_until_it_terminates(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        async with harness.agent():
            await harness.create(a_task(0, "f", a_container("main", "sleep", "60")))
            await harness.when("f-w-0", runs())
            file = mounted(harness)
            assert file is not None
            assert file.source.read_text().splitlines()[-1] == "127.0.0.2 f-w-0"
            await harness.when("f-w-0", phase("Succeeded"))
            await eventually(lambda: not file.source.exists())

    in_virtual_time(scenario, tmp_path)


@pytest.mark.parametrize(
    ("spec", "uses_cluster"),
    [
        pytest.param({"hostNetwork": True}, False, id="the host network uses the node's DNS"),
        pytest.param(
            {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"},
            True,
            id="with the DNS policy for it",
        ),
        pytest.param({"dnsPolicy": "Default"}, False, id="or it wants to"),
        pytest.param({"dnsPolicy": "ClusterFirst"}, True, id="the default uses cluster DNS"),
    ],
)
def test_a_pod_without_cluster_dns_has_no_names_of_services(
    tmp_path: Path, spec: Object, uses_cluster: bool
) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        await harness.store.create(SERVICES, a_service())
        async with harness.agent():
            await harness.create(a_task(**spec))
            await harness.when("f-w-0", runs())

        file = mounted(harness)
        assert (file is not None and file.source.parent.name == "default") is uses_cluster

    in_virtual_time(scenario, tmp_path)


@pytest.mark.parametrize("path", ["/etc/hosts", "/etc"])
def test_a_users_mount_at_etc_hosts_is_not_replaced(tmp_path: Path, path: str) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        await harness.store.create(SERVICES, a_service())
        mounts = [{"name": "v", "mountPath": path}]
        container = a_container("main", "sleep", "10000", volumeMounts=mounts)
        async with harness.agent():
            await harness.create(a_task(0, "f", container, volumes=[{"name": "v", "emptyDir": {}}]))
            await harness.when("f-w-0", runs())

        targets = [mount.target for mount in harness.runtime.configs[0].mounts]
        assert [target for target in targets if target != "/etc/hostname"] == [path, "/dev/termination-log"]

    in_virtual_time(scenario, tmp_path)


def test_services_without_an_owner_are_in_all_files_and_others_in_that_of_their_framework(
    tmp_path: Path,
) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        await harness.store.create(SERVICES, a_service("f"))
        await harness.store.create(SERVICES, a_service("g", "g"))
        await harness.store.create(SERVICES, a_service("all", None, selector={"FC_TASK_INDEX": "0"}))
        found = {}
        async with harness.agent():
            for framework in ("f", "g", None):
                hostname = {"hostname": f"{framework}0", "subdomain": "all"}
                pod = await harness.create(a_task(0, framework, **hostname))
                await harness.when(pod["metadata"]["name"], runs())
                found[framework] = mounted(harness)
            shared = {"127.0.0.2 all", "127.0.0.2 f0.all", "127.0.0.2 g0.all"}
            await eventually(lambda: names_in(found["f"]) == {"127.0.0.2 f", *shared})
            await eventually(lambda: names_in(found["g"]) == {"127.0.0.2 g", *shared})
            await eventually(lambda: names_in(found[None]) == shared)

            await harness.store.delete(SERVICES, "default", "all")
            await eventually(lambda: names_in(found["f"]) == {"127.0.0.2 f"})
            await eventually(lambda: names_in(found[None]) == set())

    in_virtual_time(scenario, tmp_path)


def test_a_service_does_not_resolve_to_terminated_pods(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        await harness.store.create(SERVICES, a_service())
        async with harness.agent():
            await harness.create(a_task(0))
            await harness.when("f-w-0", runs())
            file = mounted(harness)
            await harness.create(
                a_task(1, "f", a_container("main", "sleep", "5"), hostname="h", subdomain="f")
            )
            await eventually(lambda: "127.0.0.2 h.f" in names_in(file))
            await harness.when("f-w-1", phase("Succeeded"))
            await eventually(lambda: names_in(file) == {"127.0.0.2 f"})

    in_virtual_time(scenario, tmp_path)


def test_files_outlive_the_launcher_and_are_removed_with_the_last_pod(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        await harness.store.create(SERVICES, a_service())
        async with harness.agent():
            await harness.create(a_task(0))
            await harness.when("f-w-0", runs())
        (tmp_path / "hosts" / "default" / "left-over").write_text("")
        file = mounted(harness)
        assert file is not None
        node = file.source.stat().st_ino
        async with harness.agent():
            await harness.create(a_task(1, hostname="h", subdomain="f"))
            await eventually(lambda: "127.0.0.2 h.f" in names_in(file))
            assert file.source.stat().st_ino == node
            assert [path.name for path in file.source.parent.iterdir()] == ["f"]

            for index in (0, 1):
                await harness.store.delete(PODS, "default", f"f-w-{index}")
            await eventually(lambda: not file.source.parent.exists())

    in_virtual_time(scenario, tmp_path)


class StoreWithoutServiceEvents(FaultyMemoryStore):
    """Never yields changes of Services."""

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


def test_services_created_before_the_pod_are_in_its_file_even_if_the_watch_is_slow(
    tmp_path: Path,
) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        store = StoreWithoutServiceEvents(harness.clock)
        informers = SharedInformers(store)
        hosts = HostsFileManager(store, informers, tmp_path / "hosts")
        working = asyncio.gather(hosts.run(), informers.run())
        annotations = {SERVICES_ANNOTATION: "PerTask"}
        plain, named = (
            await harness.create(a_task(0)),
            await harness.create(a_task(1, annotations=annotations)),
        )
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

    async def scenario(harness: NodeAgentHarness) -> None:
        informers = SharedInformers(harness.store)
        hosts = HostsFileManager(harness.store, informers, tmp_path / "hosts", tmp_path / "machine", NODES)
        working = asyncio.gather(hosts.run(), informers.run())

        file = await hosts.file_for(await harness.create(a_task(0, **spec)), "127.0.0.51")

        working.cancel()
        assert file is not None
        own = [] if spec.get("hostNetwork") else ["127.0.0.51 f-w-0"]
        assert file.read_text().splitlines() == ["127.0.0.1 localhost", *own, *NODE_LINES]

    in_virtual_time(scenario, tmp_path)


def test_pods_with_services_resolve_the_names_of_nodes_too(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        await harness.store.create(SERVICES, a_service(publishNotReadyAddresses=True))
        informers = SharedInformers(harness.store)
        hosts = HostsFileManager(harness.store, informers, tmp_path / "hosts", nodes=NODES)
        working = asyncio.gather(hosts.run(), informers.run())

        file = await hosts.file_for(await harness.create(a_task(0)), "127.0.0.51")

        working.cancel()
        assert file is not None
        assert file.read_text().splitlines()[-3:] == [all_names("127.0.0.51", "f"), *NODE_LINES]

    in_virtual_time(scenario, tmp_path)


def test_a_pod_with_dns_policy_none_has_only_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "machine").write_text("127.0.0.1 localhost\n")

    async def scenario(harness: NodeAgentHarness) -> None:
        informers = SharedInformers(harness.store)
        hosts = HostsFileManager(harness.store, informers, tmp_path / "hosts", tmp_path / "machine", NODES)

        file = await hosts.file_for(await harness.create(a_task(0, dnsPolicy="None")), "127.0.0.51")

        assert file is not None
        assert file.read_text().splitlines() == ["127.0.0.1 localhost", "127.0.0.51 f-w-0"]

    in_virtual_time(scenario, tmp_path)


def test_a_pod_resolves_its_own_name_before_its_status_has_an_address(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        await harness.store.create(SERVICES, a_service(publishNotReadyAddresses=True))
        informers = SharedInformers(harness.store)
        hosts = HostsFileManager(harness.store, informers, tmp_path / "hosts")
        working = asyncio.gather(hosts.run(), informers.run())
        pod = await harness.create(a_task(0))
        hosts.update_pod(("default", "f-w-0"), pod)

        file = await hosts.file_for(pod, "127.0.0.9")
        assert file is not None
        at_first = file.read_text()
        hosts.update_pod(("default", "f-w-0"), pod)  # the same version again
        again = (await hosts.file_for(pod, "127.0.0.9") or file).read_text()

        working.cancel()
        assert all_names("127.0.0.9", "f") in at_first
        assert all_names("127.0.0.9", "f") in again

    in_virtual_time(scenario, tmp_path)


def test_a_file_never_gets_shorter(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        await harness.store.create(SERVICES, a_service())
        async with harness.agent():
            await harness.create(a_task(0))
            await harness.when("f-w-0", runs())
            file = mounted(harness)
            assert file is not None
            await eventually(lambda: names_in(file) == {"127.0.0.2 f"})
            size = file.source.stat().st_size
            await harness.store.patch(
                SERVICES, "default", "f", MergePatch({"spec": {"selector": {"a": "b"}}})
            )
            await eventually(lambda: names_in(file) == set())
            assert file.source.stat().st_size == size
            await harness.store.delete(PODS, "default", "f-w-0", DeleteOptions(grace=0))

    in_virtual_time(scenario, tmp_path)

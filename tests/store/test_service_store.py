"""Cluster IPs and node ports are allocated as by kube-apiserver."""

import asyncio
import time
from ipaddress import IPv4Network
from typing import Any

import pytest

from launcher.core.errors import InvalidObject, Unavailable
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.embedded.watch_cache import WatchCache
from launcher.store.interface import CONFIG_MAPS, SERVICES, Object
from launcher.store.service_store import ServiceStore
from tests.store.builders import uids

RANGE = IPv4Network("127.96.0.0/29")


def a_service(name: str = "web", **spec: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}], **spec},
    }


def memory_store() -> MemoryStore:
    return MemoryStore(time.time, uids(), WatchCache())


@pytest.fixture
def store() -> ServiceStore:
    return ServiceStore(memory_store(), RANGE, lambda _: 0)


def fields(error: pytest.ExceptionInfo[InvalidObject]) -> list[str]:
    return [each.field for each in error.value.errors]


async def test_a_service_gets_an_address_that_no_other_one_has(store: ServiceStore) -> None:
    created = await asyncio.gather(
        *(store.create(SERVICES, a_service(name)) for name in ("a", "b", "c", "d"))
    )

    addresses = {service["spec"]["clusterIP"] for service in created}
    assert addresses == {"127.96.0.1", "127.96.0.2", "127.96.0.3", "127.96.0.4"}
    assert created[0]["spec"] == {
        "type": "ClusterIP",
        "sessionAffinity": "None",
        "selector": {"app": "web"},
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
        "clusterIP": created[0]["spec"]["clusterIP"],
        "clusterIPs": [created[0]["spec"]["clusterIP"]],
    }


async def test_the_address_of_a_deleted_service_is_used_again_once_all_others_are(
    store: ServiceStore,
) -> None:
    for number in range(6):
        await store.create(SERVICES, a_service(f"s{number}"))
    with pytest.raises(Unavailable, match=r"127\.96\.0\.0/29"):
        await store.create(SERVICES, a_service())

    await store.delete(SERVICES, "default", "s3")

    assert (await store.create(SERVICES, a_service()))["spec"]["clusterIP"] == "127.96.0.4"


async def test_a_dry_run_allocates_nothing(store: ServiceStore) -> None:
    shown = await store.create(SERVICES, a_service("a"), dry_run=True)

    assert shown["spec"] == (await store.create(SERVICES, a_service("b")))["spec"]


@pytest.mark.parametrize(
    ("spec", "stored"),
    [
        pytest.param({"clusterIP": "None"}, {"clusterIP": "None", "clusterIPs": ["None"]}, id="headless"),
        pytest.param(
            {"type": "ExternalName", "externalName": "a.example"},
            {"externalName": "a.example"},
            id="an alias",
        ),
    ],
)
async def test_a_service_without_an_address_of_its_own_gets_none(
    store: ServiceStore, spec: Object, stored: Object
) -> None:
    created = await store.create(SERVICES, a_service(**spec))

    kept = {key: created["spec"].get(key) for key in ("clusterIP", "clusterIPs", "externalName")}
    assert kept == {"clusterIP": None, "clusterIPs": None, "externalName": None} | stored


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        pytest.param({"clusterIP": "10.0.0.1"}, "spec.clusterIP", "127.96.0.0/29", id="another range"),
        pytest.param({"clusterIP": "127.96.0.0"}, "spec.clusterIP", "127.96.0.0/29", id="the network"),
        pytest.param({"clusterIP": "fd00::1"}, "spec.clusterIP", "127.96.0.0/29", id="IPv6"),
        pytest.param(
            {"clusterIP": "127.96.0.2"}, "spec.clusterIP", "already allocated", id="an address in use"
        ),
        pytest.param(
            {"clusterIPs": ["127.96.0.5", "fd00::1"]}, "spec.clusterIPs", "one address", id="two families"
        ),
        pytest.param(
            {"ports": [{"port": 80, "nodePort": 30000}]},
            "spec.ports[0].nodePort",
            "may not be used",
            id="a node port of another type",
        ),
        pytest.param(
            {"type": "NodePort", "ports": [{"port": 80, "nodePort": 8080}]},
            "spec.ports[0].nodePort",
            "between 30000 and 32767",
            id="a node port out of the range",
        ),
        pytest.param(
            {"type": "NodePort", "ports": [{"port": 80}, {"port": 81, "nodePort": 32767}]},
            "spec.ports[1].nodePort",
            "already allocated",
            id="a node port in use",
        ),
        pytest.param(
            {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30001}, {"port": 81, "nodePort": 30001}]},
            "spec.ports[1].nodePort",
            "unique",
            id="a node port twice",
        ),
    ],
)
async def test_a_chosen_address_or_port_that_cannot_be_allocated_is_rejected(
    store: ServiceStore, spec: Object, field: str, message: str
) -> None:
    others = {"clusterIP": "127.96.0.2", "type": "NodePort", "ports": [{"port": 80, "nodePort": 32767}]}
    await store.create(SERVICES, a_service("other", **others))

    with pytest.raises(InvalidObject, match=message) as error:
        await store.create(SERVICES, a_service(**spec))

    assert fields(error) == [field]


async def test_node_ports_are_allocated_or_chosen(store: ServiceStore) -> None:
    ports = [
        {"port": 80},
        {"port": 81, "nodePort": 30000},
        {"port": 81, "nodePort": 30000, "protocol": "UDP"},
    ]

    first = await store.create(SERVICES, a_service("first", type="NodePort", ports=ports))
    second = await store.create(SERVICES, a_service("second", type="LoadBalancer"))

    assert [port["nodePort"] for port in first["spec"]["ports"]] == [30001, 30000, 30000]
    assert second["spec"]["ports"][0]["nodePort"] == 30002


async def test_an_update_that_omits_what_was_allocated_keeps_it(store: ServiceStore) -> None:
    before = await store.create(SERVICES, a_service(type="NodePort"))
    changed = a_service(type="NodePort", ports=[{"port": 81}, {"port": 80, "name": "http"}])
    changed["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"]

    after = await store.update(SERVICES, changed)

    assert after["spec"]["clusterIP"] == before["spec"]["clusterIP"]
    assert [port["nodePort"] for port in after["spec"]["ports"]] == [30001, 30000]


async def test_another_type_releases_what_it_does_not_need(store: ServiceStore) -> None:
    service = await store.create(SERVICES, a_service(type="NodePort"))

    service["spec"]["type"] = "ClusterIP"
    service = await store.update(SERVICES, service)
    assert "nodePort" not in service["spec"]["ports"][0]

    service["spec"] |= {"type": "ExternalName", "externalName": "a.example"}
    service = await store.update(SERVICES, service)
    assert "clusterIP" not in service["spec"]

    service["spec"]["type"] = "NodePort"
    service = await store.update(SERVICES, service)
    assert (service["spec"]["clusterIP"], service["spec"]["ports"][0]["nodePort"]) == ("127.96.0.1", 30000)


async def test_stored_services_without_an_address_of_the_range_are_repaired() -> None:
    inner = memory_store()
    await inner.create(SERVICES, a_service("kept", clusterIP="127.96.0.1", clusterIPs=["127.96.0.1"]))
    await inner.create(SERVICES, a_service("moved", clusterIP="10.0.0.1", clusterIPs=["10.0.0.1"]))
    await inner.create(SERVICES, a_service("new", type="NodePort"))
    await inner.create(SERVICES, a_service("headless", clusterIP="None"))
    await inner.create(SERVICES, {**a_service("malformed"), "spec": "x"})
    kept = await inner.get(SERVICES, "default", "kept")

    await ServiceStore(inner, RANGE, lambda _: 0).repair()

    specs = {each["metadata"]["name"]: each["spec"] for each in (await inner.list(SERVICES)).items}
    assert await inner.get(SERVICES, "default", "kept") == kept
    assert (specs["moved"]["clusterIP"], specs["moved"]["clusterIPs"]) == ("127.96.0.2", ["127.96.0.2"])
    assert (specs["new"]["clusterIP"], specs["new"]["ports"][0]["nodePort"]) == ("127.96.0.3", 30000)
    assert specs["malformed"] == "x"
    assert specs["headless"]["clusterIP"] == "None"


async def test_other_kinds_are_not_changed(store: ServiceStore) -> None:
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}

    created = await store.create(CONFIG_MAPS, config_map)

    assert await store.update(CONFIG_MAPS, created) == created

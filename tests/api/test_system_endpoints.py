from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

import pytest

from launcher.api.system_endpoints import Check, Health
from launcher.core.errors import Unavailable
from launcher.store.object_errors import ObjectErrors
from tests.api.client import Client
from tests.api.servers import make_application, running


async def well() -> None:
    pass


async def unhealthy() -> None:
    raise Unavailable("the disk holds a secret")


@asynccontextmanager
async def health(**checks: Check) -> AsyncIterator[Client]:
    parts = Health(checks)
    app = make_application()
    for name, handler in (("healthz", parts.healthz), ("livez", parts.livez), ("readyz", parts.readyz)):
        app.router.add_get(f"/{name}", handler)
        app.router.add_get(f"/{name}/{{check}}", handler)
    app.router.add_get("/version", parts.version)
    app.router.add_get("/", parts.root)
    async with running(app) as server:
        yield server.client


async def test_check_031_the_version_is_that_of_kubernetes_and_ours() -> None:
    async with health() as client:
        reported = (await client.get("/version")).json()

    assert reported["gitVersion"] == f"v1.34.0+launcher.{version('framework-launcher')}"
    assert (reported["major"], reported["minor"]) == ("1", "34")
    assert all(isinstance(value, str) for value in reported.values())


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_check_032_a_healthy_server_responds_with_ok(path: str) -> None:
    async with health(store=well) as client:
        response = await client.get(path)

    assert (response.status, response.body) == (200, b"ok")
    assert response.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert response.headers["X-Content-Type-Options"] == "nosniff"


async def test_check_118_verbose_lists_every_check() -> None:
    async with health(store=well) as client:
        response = await client.get("/readyz?verbose")

    assert response.body == b"[+]ping ok\n[+]store ok\nreadyz check passed\n"


async def test_check_118_a_check_can_be_excluded() -> None:
    async with health(store=unhealthy, disk=well) as client:
        assert (await client.get("/readyz?exclude=store")).body == b"ok"
        response = await client.get("/readyz?exclude=store&exclude=nothing&verbose=1")

    assert b"[+]store excluded: ok\n" in response.body
    assert b"nothing" in response.body


async def test_check_118_one_check_can_be_requested() -> None:
    async with health(store=unhealthy, disk=well) as client:
        assert (await client.get("/readyz/disk")).body == b"ok"
        assert (await client.get("/readyz/store")).status == 500
        assert (await client.get("/readyz/other")).status == 404


async def test_a_failed_check_is_reported_without_its_reason() -> None:
    async with health(store=unhealthy, disk=well) as client:
        response = await client.get("/readyz")

    assert response.status == 500
    assert response.body == (
        b"[+]ping ok\n[-]store failed: reason withheld\n[+]disk ok\nreadyz check failed\n"
    )


async def test_a_server_that_is_not_ready_is_alive() -> None:
    async with health(store=unhealthy) as client:
        assert (await client.get("/livez")).status == 200
        assert (await client.get("/healthz")).status == 500


async def test_the_root_lists_the_available_paths() -> None:
    async with health() as client:
        paths = (await client.get("/")).json()["paths"]

    assert {"/apis", "/openapi/v3", "/metrics"} <= set(paths)


async def test_verbose_names_objects_with_errors_and_no_check_fails_for_them() -> None:
    errors = ObjectErrors()
    errors.record("scheduler", "pods", ("default", "bad"), TypeError("a secret value"))
    parts = Health({}, errors.current)
    app = make_application()
    parts.add_to(app)

    async with running(app) as server:
        plain, verbose = [await server.client.get(path) for path in ("/readyz", "/readyz?verbose")]

    assert (plain.status, plain.body) == (200, b"ok")
    assert verbose.status == 200
    assert b"scheduler: pods default/bad: TypeError" in verbose.body
    assert b"secret" not in verbose.body

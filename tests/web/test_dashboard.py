"""The files of the dashboard: who gets them, with which headers, and how large they are."""

import gzip
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient
from pytest_aiohttp import AiohttpClient

from launcher.api.middleware.access_guard import LOOPBACK, AccessGuard
from launcher.api.middleware.error_responses import errors_as_status
from launcher.web.dashboard import Dashboard
from tests.launcher_process import PROJECT

Client = TestClient[web.Request, web.Application]

FOLDER = PROJECT / "launcher" / "web"
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
#: The limit of the first page with everything that it loads, compressed.
MAX_FIRST_PAGE_BYTES = 60_000


def static_files() -> list[Path]:
    return sorted(path for path in FOLDER.rglob("*") if path.suffix in (".css", ".html", ".js", ".svg"))


async def paths(_: web.Request) -> web.Response:
    return web.json_response({"paths": []})


async def frameworks(_: web.Request) -> web.Response:
    return web.json_response({"items": []})


@pytest.fixture
async def client(aiohttp_client: AiohttpClient) -> Client:
    """A client of a launcher with a token."""
    dashboard = Dashboard()
    guard = AccessGuard(LOOPBACK, "secret", is_public=dashboard.serves)
    app = web.Application(middlewares=[errors_as_status, guard.middleware])
    dashboard.add_to(app, paths)
    app.router.add_get("/frameworks", frameworks)
    return await aiohttp_client(app)


async def test_a_browser_gets_the_page_without_a_token(client: Client) -> None:
    response = await client.get("/", headers={"Accept": BROWSER})

    assert response.status == 200
    assert response.content_type == "text/html"
    assert "<title>Framework Launcher</title>" in await response.text()


@pytest.mark.parametrize(
    "accept", ["*/*", "application/json", "application/json, */*", "text/html;q=0.5, application/json", ""]
)
async def test_other_clients_get_the_list_of_paths_with_their_token(client: Client, accept: str) -> None:
    headers = {"Accept": accept, "Authorization": "Bearer secret"}

    response = await client.get("/", headers=headers)

    assert await response.json() == {"paths": []}


async def test_only_the_files_need_no_token(client: Client) -> None:
    statuses = {
        path: (await client.get(path, headers={"Accept": accept})).status
        for path, accept in (
            ("/", "application/json"),
            ("/frameworks", BROWSER),
            ("/dashboard/app.js", "*/*"),
            ("/dashboard/dashboard.py", "*/*"),
            ("/dashboard/nothing.js", "*/*"),
        )
    }

    assert statuses == {
        "/": 401,
        "/frameworks": 401,
        "/dashboard/app.js": 200,
        "/dashboard/dashboard.py": 401,
        "/dashboard/nothing.js": 401,
    }


async def test_a_file_that_does_not_exist_is_not_found(client: Client) -> None:
    headers = {"Authorization": "Bearer secret"}

    assert (await client.get("/dashboard/dashboard.py", headers=headers)).status == 404
    assert (await client.get("/dashboard/../pyproject.toml", headers=headers)).status == 404


async def test_a_page_of_another_site_cannot_load_the_files(client: Client) -> None:
    response = await client.get("/", headers={"Accept": BROWSER, "Sec-Fetch-Site": "cross-site"})

    assert response.status == 403


@pytest.mark.parametrize("path", ["/", "/dashboard/app.js", "/dashboard/app.css", "/dashboard/icon.svg"])
async def test_every_file_has_the_policy_that_forbids_foreign_and_inline_scripts(
    client: Client, path: str
) -> None:
    headers = (await client.get(path, headers={"Accept": BROWSER})).headers

    assert headers["Content-Security-Policy"] == POLICY
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "Set-Cookie" not in headers


async def test_an_unchanged_file_is_not_sent_again(client: Client) -> None:
    tag = (await client.get("/dashboard/app.js")).headers["ETag"]

    response = await client.get("/dashboard/app.js", headers={"If-None-Match": tag})

    assert response.status == 304


async def test_a_client_without_gzip_gets_the_plain_file(client: Client) -> None:
    response = await client.get("/dashboard/app.js", headers={"Accept-Encoding": "identity"})

    assert "Content-Encoding" not in response.headers
    assert await response.read() == (FOLDER / "app.js").read_bytes()


def test_the_first_page_is_small() -> None:
    """The list with every module that it imports; pages that are loaded later do not count."""
    loaded = [FOLDER / name for name in ("index.html", "app.css", "pages.css", "icon.svg")]
    loaded += sorted(imported(FOLDER / "app.js") | imported(FOLDER / "pages" / "frameworks.js"))

    size = sum(len(gzip.compress(path.read_bytes())) for path in loaded)

    assert size <= MAX_FIRST_PAGE_BYTES, f"{size} bytes: {[path.name for path in loaded]}"


def imported(path: Path) -> set[Path]:
    """The module and those that it imports when it is loaded."""
    found = {path}
    for name in re.findall(r'^import [^;]*? from "(\.[^"]+)";', path.read_text(), re.MULTILINE | re.DOTALL):
        found |= imported((path.parent / name).resolve()) - found
    return found


@pytest.mark.parametrize("path", static_files(), ids=lambda path: path.name)
def test_no_file_has_markup_from_text_or_a_foreign_address(path: Path) -> None:
    text = path.read_text()
    forbidden = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\(|new Function|srcdoc="
    )
    namespaces = ("http://www.w3.org/2000/svg",)

    assert re.findall(forbidden, text) == []
    assert [url for url in re.findall(r"https?://[^\s\"'`)]+", text) if url not in namespaces] == []
    assert re.findall(r"\sstyle=|\son[a-z]+=\"", text) == []


def test_a_wheel_contains_every_file() -> None:
    patterns = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    packaged = {path for pattern in patterns["launcher.web"] for path in FOLDER.glob(pattern)}

    assert packaged == set(static_files())


def test_files_are_small_enough_to_read() -> None:
    assert list(too_long()) == []


def too_long() -> Iterator[str]:
    for path in static_files():
        if path.suffix == ".js" and len(path.read_text().splitlines()) > 450:
            yield path.name

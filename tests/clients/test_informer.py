"""A client-go informer: its cache stays current under all conditions."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qs

import orjson
import pytest

from tests.clients.isolated_namespace import IsolatedNamespace
from tests.clients.program import ClientProcess
from tests.clients.short_watch_cache import MAX_ENTRIES
from tests.local.server import Server

# The first test may have to build the program.
pytestmark = pytest.mark.timeout(700)

#: The time within which an informer has synced.
SYNC_SECONDS = 30.0


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """A launcher that this test may kill."""
    directory = tmp_path / "server"
    directory.mkdir()
    server = Server(directory, module=getattr(request, "param", "launcher"))
    yield server
    server.end()


class GoInformer:
    """The running informer and its output."""

    def __init__(self, program: ClientProcess) -> None:
        self.program = program

    def events(self) -> list[Any]:
        """Returns all events so far."""
        return [orjson.loads(line) for line in self.program.lines()]

    def changes(self) -> list[tuple[str, str]]:
        """The type of each change, and the name of its Framework."""
        return [(event["type"], event["name"]) for event in self.events() if "name" in event]

    def requests(self) -> list[dict[str, str]]:
        """The queries of its requests."""
        queries = [event.get("query", "") for event in self.events() if event["type"] == "request"]
        return [{key: values[0] for key, values in parse_qs(query).items()} for query in queries]

    def wait_until_synced(self) -> list[str]:
        """Waits until it has synced, and returns the names in its cache."""

        def probe(_: list[str]) -> list[str] | None:
            return next(
                (event.get("names", []) for event in self.events() if event["type"] == "synced"), None
            )

        names = self.program.until(probe, "the informer has synced", within=SYNC_SECONDS)
        return sorted(name.partition("/")[2] for name in names)

    def wait_for_event(self, change_type: str, name: str) -> None:
        """Waits until the event is in the output."""
        self.program.until(
            lambda _: (change_type, name) in self.changes() or None, f"{name} is {change_type}"
        )


class StartInformer(Protocol):
    def __call__(self, *, watch_list: bool = True) -> GoInformer: ...


@pytest.fixture
def start(isolated: IsolatedNamespace, informer_program: Path, tmp_path: Path) -> Iterator[StartInformer]:
    """Start an informer on the test's namespace."""
    started = list[ClientProcess]()

    def start(*, watch_list: bool = True) -> GoInformer:
        command = [
            str(informer_program),
            f"-server={isolated.server.url}",
            f"-namespace={isolated.namespace}",
        ]
        environment = {**os.environ, "KUBE_FEATURE_WatchListClient": str(watch_list).lower()}
        started.append(ClientProcess(command, tmp_path / f"informer{len(started)}", environment))
        return GoInformer(started[-1])

    yield start
    for event in started:
        event.end()


def change_description(isolated: IsolatedNamespace, name: str, text: str) -> None:
    """Changes the description of a Framework."""
    body = orjson.dumps({"spec": {"description": text}}).decode()
    header = "Content-Type: application/merge-patch+json"
    isolated.server.curl(f"{isolated.frameworks}/{name}", "-X", "PATCH", "-H", header, "--data-binary", body)


def delete(isolated: IsolatedNamespace, name: str) -> None:
    """Deletes a Framework."""
    isolated.server.curl(f"{isolated.frameworks}/{name}?propagationPolicy=Background", "-X", "DELETE")


def create(isolated: IsolatedNamespace, *names: str) -> None:
    """Creates Frameworks that the controller does not change."""
    for name in names:
        isolated.server.post(isolated.frameworks, isolated.suspended(name))


def is_initial(request: dict[str, str]) -> bool:
    """Whether the request lists all objects."""
    return "watch" not in request or "sendInitialEvents" in request


@pytest.mark.parametrize("watch_list", [True, False], ids=["by one watch", "by list and watch"])
def test_an_informer_syncs_within_seconds_and_stays_current(
    isolated: IsolatedNamespace, start: StartInformer, watch_list: bool
) -> None:
    create(isolated, "one", "two")
    informer = start(watch_list=watch_list)

    assert informer.wait_until_synced() == ["one", "two"]
    create(isolated, "three")
    informer.wait_for_event("added", "three")
    change_description(isolated, "one", "changed")
    informer.wait_for_event("updated", "one")
    delete(isolated, "two")
    informer.wait_for_event("deleted", "two")

    assert [name for change_type, name in informer.changes() if change_type == "added"].count("one") == 1
    assert [is_initial(request) for request in informer.requests()][1:] in ([], [False])
    assert ("sendInitialEvents" in informer.requests()[0]) is watch_list
    assert {event["kind"] for event in informer.events() if "kind" in event} == {"Framework"}


def test_an_informer_of_an_empty_namespace_syncs(isolated: IsolatedNamespace, start: StartInformer) -> None:
    informer = start()

    assert informer.wait_until_synced() == []
    create(isolated, "first")
    informer.wait_for_event("added", "first")


def test_an_informer_follows_a_framework_until_it_is_completed(
    isolated: IsolatedNamespace, start: StartInformer
) -> None:
    informer = start()
    informer.wait_until_synced()

    isolated.server.post(isolated.frameworks, isolated.framework())
    informer.program.wait_for_line('"state":"Completed"')

    versions = [int(event["version"]) for event in informer.events() if event.get("name") == "mnist"]
    assert versions == sorted(set(versions))


def change_during_restart(
    isolated: IsolatedNamespace, informer: GoInformer, change: Callable[[], None]
) -> None:
    """Restarts the launcher and calls *change* while the informer is paused."""
    informer.program.pause()
    try:
        isolated.server.kill()
        isolated.server.start()
        change()
    finally:
        informer.program.resume()


@pytest.mark.parametrize("watch_list", [True, False], ids=["by one watch", "by list and watch"])
def test_an_informer_catches_up_after_a_restart_of_the_launcher(
    isolated: IsolatedNamespace, start: StartInformer, watch_list: bool
) -> None:
    create(isolated, "changed", "deleted", "same")
    informer = start(watch_list=watch_list)
    assert informer.wait_until_synced() == ["changed", "deleted", "same"]

    def change() -> None:
        change_description(isolated, "changed", "new")
        delete(isolated, "deleted")
        create(isolated, "new")

    change_during_restart(isolated, informer, change)
    for change_type, name in (("updated", "changed"), ("deleted", "deleted"), ("added", "new")):
        informer.wait_for_event(change_type, name)
    create(isolated, "later")
    informer.wait_for_event("added", "later")

    assert [name for change_type, name in informer.changes() if change_type == "added"].count("same") == 1


@pytest.mark.parametrize("server", ["tests.clients.short_watch_cache"], indirect=True)
@pytest.mark.parametrize("watch_list", [True, False], ids=["by one watch", "by list and watch"])
def test_an_informer_lists_again_after_its_version_expired(
    isolated: IsolatedNamespace, start: StartInformer, watch_list: bool
) -> None:
    create(isolated, "changed", "deleted")
    informer = start(watch_list=watch_list)
    assert informer.wait_until_synced() == ["changed", "deleted"]
    before = len(informer.requests())

    def change() -> None:
        delete(isolated, "deleted")
        for number in range(MAX_ENTRIES + 1):
            change_description(isolated, "changed", f"change {number}")

    change_during_restart(isolated, informer, change)
    informer.wait_for_event("deleted", "deleted")
    informer.wait_for_event("updated", "changed")

    assert any(is_initial(request) for request in informer.requests()[before:])

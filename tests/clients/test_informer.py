"""A client-go informer, what every controller written in Go stands on: its copy stays true, whatever happens."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qs

import orjson
import pytest

from tests.clients.forgetful import REMEMBERED
from tests.clients.gobuild import informer
from tests.clients.program import Program
from tests.clients.space import Space
from tests.local.server import Server

# The first test of all may have to build the program.
pytestmark = pytest.mark.timeout(700)

#: Seconds in which an informer has its first copy.
SOON = 30.0


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """A launcher that this test may kill."""
    directory = tmp_path / "server"
    directory.mkdir()
    server = Server(directory, module=getattr(request, "param", "launcher"))
    yield server
    server.end()


class Informer:
    """The running program, by what it tells."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def told(self) -> list[Any]:
        """Everything that it has told so far."""
        return [orjson.loads(line) for line in self.program.lines()]

    def changes(self) -> list[tuple[str, str]]:
        """What happened to which Framework."""
        return [(each["happened"], each["name"]) for each in self.told() if "name" in each]

    def requests(self) -> list[dict[str, str]]:
        """The queries of its requests."""
        queries = [each.get("query", "") for each in self.told() if each["happened"] == "request"]
        return [{key: values[0] for key, values in parse_qs(query).items()} for query in queries]

    def synced(self) -> list[str]:
        """The names in its first copy, once it has one."""

        def look(_: list[str]) -> list[str] | None:
            return next((each.get("names", []) for each in self.told() if each["happened"] == "synced"), None)

        names = self.program.until(look, "the informer has a copy", within=SOON)
        return sorted(name.partition("/")[2] for name in names)

    def until(self, happened: str, name: str) -> None:
        """Return when it has told of that."""
        self.program.until(lambda _: (happened, name) in self.changes() or None, f"{name} is {happened}")


class Start(Protocol):
    def __call__(self, *, watch_list: bool = True) -> Informer: ...


@pytest.fixture
def start(space: Space, tmp_path: Path) -> Iterator[Start]:
    """Start an informer on the test's namespace."""
    program, started = informer(), list[Program]()

    def start(*, watch_list: bool = True) -> Informer:
        command = [str(program), f"-server={space.server.url}", f"-namespace={space.namespace}"]
        environment = {**os.environ, "KUBE_FEATURE_WatchListClient": str(watch_list).lower()}
        started.append(Program(command, tmp_path / f"informer{len(started)}", environment))
        return Informer(started[-1])

    yield start
    for each in started:
        each.end()


def describe(space: Space, name: str, words: str) -> None:
    """Change one Framework."""
    body = orjson.dumps({"spec": {"description": words}}).decode()
    header = "Content-Type: application/merge-patch+json"
    space.server.curl(f"{space.frameworks}/{name}", "-X", "PATCH", "-H", header, "--data-binary", body)


def delete(space: Space, name: str) -> None:
    """Delete one Framework."""
    space.server.curl(f"{space.frameworks}/{name}?propagationPolicy=Background", "-X", "DELETE")


def create(space: Space, *names: str) -> None:
    """Create Frameworks that nobody but the test changes."""
    for name in names:
        space.server.post(space.frameworks, space.held(name))


def is_initial(request: dict[str, str]) -> bool:
    """Whether the request asks for everything that is there."""
    return "watch" not in request or "sendInitialEvents" in request


@pytest.mark.parametrize("watch_list", [True, False], ids=["by one watch", "by list and watch"])
def test_it_has_a_copy_within_seconds_and_keeps_it(space: Space, start: Start, watch_list: bool) -> None:
    create(space, "one", "two")
    informer = start(watch_list=watch_list)

    assert informer.synced() == ["one", "two"]
    create(space, "three")
    informer.until("added", "three")
    describe(space, "one", "changed")
    informer.until("updated", "one")
    delete(space, "two")
    informer.until("deleted", "two")

    assert [name for happened, name in informer.changes() if happened == "added"].count("one") == 1
    assert [is_initial(request) for request in informer.requests()][1:] in ([], [False])
    assert ("sendInitialEvents" in informer.requests()[0]) is watch_list
    assert {each["kind"] for each in informer.told() if "kind" in each} == {"Framework"}


def test_it_has_an_empty_copy_of_an_empty_namespace(space: Space, start: Start) -> None:
    informer = start()

    assert informer.synced() == []
    create(space, "first")
    informer.until("added", "first")


def test_it_follows_a_framework_to_its_end(space: Space, start: Start) -> None:
    informer = start()
    informer.synced()

    space.server.post(space.frameworks, space.framework())
    informer.program.until_said('"state":"Completed"')

    versions = [int(each["version"]) for each in informer.told() if each.get("name") == "mnist"]
    assert versions == sorted(set(versions))


def meanwhile(space: Space, informer: Informer, happens: Callable[[], None]) -> None:
    """The launcher is killed and starts again, and that happens before the informer takes notice."""
    informer.program.pause()
    try:
        space.server.kill()
        space.server.start()
        happens()
    finally:
        informer.program.go_on()


@pytest.mark.parametrize("watch_list", [True, False], ids=["by one watch", "by list and watch"])
def test_it_outlives_the_launcher_and_learns_what_happened_meanwhile(
    space: Space, start: Start, watch_list: bool
) -> None:
    create(space, "changed", "gone", "same")
    informer = start(watch_list=watch_list)
    assert informer.synced() == ["changed", "gone", "same"]

    def happens() -> None:
        describe(space, "changed", "meanwhile")
        delete(space, "gone")
        create(space, "new")

    meanwhile(space, informer, happens)
    for happened, name in (("updated", "changed"), ("deleted", "gone"), ("added", "new")):
        informer.until(happened, name)
    create(space, "later")
    informer.until("added", "later")

    assert [name for happened, name in informer.changes() if happened == "added"].count("same") == 1


@pytest.mark.parametrize("server", ["tests.clients.forgetful"], indirect=True)
@pytest.mark.parametrize("watch_list", [True, False], ids=["by one watch", "by list and watch"])
def test_it_takes_a_new_copy_when_what_it_missed_is_forgotten(
    space: Space, start: Start, watch_list: bool
) -> None:
    create(space, "changed", "gone")
    informer = start(watch_list=watch_list)
    assert informer.synced() == ["changed", "gone"]
    before = len(informer.requests())

    def happens() -> None:
        delete(space, "gone")
        for number in range(REMEMBERED + 1):
            describe(space, "changed", f"for the {number}th time")

    meanwhile(space, informer, happens)
    informer.until("deleted", "gone")
    informer.until("updated", "changed")

    assert any(is_initial(request) for request in informer.requests()[before:])

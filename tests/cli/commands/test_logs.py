import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from aiohttp import web

from launcher.cli.main import main
from launcher.core.planning.options import PlannerOptions
from launcher.core.planning.retry import RetryBackoff
from tests.builders import a_framework, a_pod_template, a_role
from tests.cli.conftest import BackgroundCommand, Served
from tests.cli.in_memory_launcher import InMemoryLauncher
from tests.cli.terminals import Piped, Terminal, launcher

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def mnist(server: InMemoryLauncher) -> InMemoryLauncher:
    """A server with a Framework of two workers, which have not been started, and one parameter server."""
    server.create(a_framework(a_role("worker", 2), a_role("ps", 1)))
    return server


@pytest.fixture
def server_without_backoff(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemoryLauncher]:
    """A launcher that retries at once, set as the server of all commands."""
    launcher = InMemoryLauncher(planner_options=PlannerOptions(backoff=RetryBackoff(0, 0)))
    monkeypatch.setenv("LAUNCHER_SERVER", launcher.url)
    yield launcher
    launcher.close()


def printed(capsys: Capture, *arguments: str) -> list[str]:
    assert main(["logs", *arguments]) == 0
    return capsys.readouterr().out.splitlines()


def test_lines_of_several_tasks_begin_with_the_task(mnist: InMemoryLauncher, capsys: Capture) -> None:
    mnist.run("mnist-worker-0", "hello", "again")
    mnist.run("mnist-worker-1", "hi")

    lines = printed(capsys, "mnist")

    assert lines == ["worker-0 | hello", "worker-0 | again", "worker-1 | hi"]
    assert printed(capsys, "mnist", "worker") == lines


def test_lines_of_one_task_have_no_prefix(mnist: InMemoryLauncher, capsys: Capture) -> None:
    mnist.run("mnist-worker-0", "hello", "\x1b[2Jbytes\ras they came")

    assert main(["logs", "mnist", "worker/0"]) == 0
    assert capsys.readouterr().out == "hello\n\x1b[2Jbytes\ras they came\n"


def test_logs_are_limited_by_the_options(mnist: InMemoryLauncher, capsys: Capture) -> None:
    mnist.run("mnist-worker-0", "one", "two", "three")

    assert printed(capsys, "mnist", "worker/0", "--tail", "2") == ["two", "three"]
    assert printed(capsys, "mnist", "worker/0", "--since", "1h") == ["one", "two", "three"]
    (line,) = printed(capsys, "mnist", "worker/0", "--timestamps", "--tail", "1")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z three", line)
    assert printed(capsys, "mnist", "worker/0", "-c", "main", "--tail", "0") == []


def test_logs_of_a_deleted_pod_are_printed(mnist: InMemoryLauncher, capsys: Capture) -> None:
    mnist.run("mnist-worker-0", "last words")
    main(["stop", "mnist"])
    mnist.remove("mnist-worker-0")

    assert "worker-0 | last words" in printed(capsys, "mnist")


def test_previous_is_the_attempt_before_the_current_one(
    server_without_backoff: InMemoryLauncher, capsys: Capture
) -> None:
    server = server_without_backoff
    role = a_role(tasks=1)
    role["task"]["retryPolicy"] = {"maxRetryCount": 2}
    server.create(a_framework(role))
    for text in ("first try", "second try"):
        server.run("mnist-worker-0", text)
        server.create_event("Pod", "mnist-worker-0", "Started", "it runs", uid=server.uid("mnist-worker-0"))
        uid = server.uid("mnist-worker-0")
        server.end("mnist-worker-0", 137)
        server.until_replaced("mnist-worker-0", uid)
    server.run("mnist-worker-0", "third try")

    assert printed(capsys, "mnist", "worker/0") == ["third try"]
    assert printed(capsys, "mnist", "worker/0", "--previous") == ["second try"]


def test_a_first_attempt_has_no_previous_log(mnist: InMemoryLauncher, capsys: Capture) -> None:
    mnist.run("mnist-worker-0", "first try")

    assert main(["logs", "mnist", "worker/0", "-p"]) == 1
    expected = "worker-0 has no previous attempt; list them with: launcher attempts mnist\n"
    assert capsys.readouterr().err == expected


async def serve_retried_framework(_: web.Request) -> web.Response:
    """A Framework whose task is in its second attempt, as kube-apiserver returns it."""
    task = {
        "index": 0,
        "retryPolicyStatus": {"totalRetriedCount": 1},
        "attemptHistory": [{"id": 0, "podUID": "first"}],
        "attemptStatus": {"podUID": "second"},
    }
    roles = [{"name": "worker", "taskStatuses": [task]}]
    status = {"attemptStatus": {"id": 0, "startTime": "2026-01-01T00:00:00Z", "taskRoleStatuses": roles}}
    return web.json_response({**a_framework(a_role(tasks=1)), "status": status})


def error_response(code: int, reason: str) -> web.Response:
    status = {"kind": "Status", "code": code, "reason": reason, "message": "no such log"}
    return web.json_response(status, status=code)


def serve_cluster(served: Served, log: Callable[[web.Request], Awaitable[web.Response]]) -> str:
    """The URL of a cluster with the retried Framework and these logs."""
    app = web.Application()
    app.router.add_get("/{path:.*}/frameworks/mnist", serve_retried_framework)
    app.router.add_get("/{path:.*}/log", log)
    return f"http://127.0.0.1:{served(app, None)}"


def test_previous_logs_of_deleted_pods_are_not_available_on_a_cluster_without_an_archive(
    served: Served, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    async def log(request: web.Request) -> web.Response:
        # As kube-apiserver responds, which ignores uid.
        if "previous" in request.query:
            return error_response(400, "BadRequest")
        return web.Response(text="the current attempt\n")

    monkeypatch.setenv("LAUNCHER_SERVER", serve_cluster(served, log))

    assert main(["logs", "mnist", "-p"]) == 1
    printed_ = capsys.readouterr()
    assert printed_.out == ""
    assert "the log of an earlier pod mnist-worker-0 no longer exists" in printed_.err


def test_logs_of_deleted_pods_are_read_from_the_archive_of_a_cluster(
    served: Served, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    async def log(request: web.Request) -> web.Response:
        uid = request.query.get("uid")
        if uid is None or "previous" in request.query:
            return error_response(404, "NotFound")
        return web.Response(text=f"the log of the {uid} pod\n", headers={"Launcher-Pod-Uid": uid})

    monkeypatch.setenv("LAUNCHER_SERVER", serve_cluster(served, log))

    assert printed(capsys, "mnist") == ["the log of the second pod"]
    assert printed(capsys, "mnist", "-p") == ["the log of the first pod"]
    assert printed(capsys, "mnist", "--attempt", "1") == ["the log of the first pod"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        pytest.param(["mnist", "wrok"], "mnist has no role wrok; roles: worker, ps", id="no such role"),
        pytest.param(
            ["mnist", "worker/2"], "mnist has no task worker/2; the last one is worker/1", id="no such task"
        ),
        pytest.param(
            ["mnist", "-c", "side"], "no task of mnist has a container side", id="no such container"
        ),
        pytest.param(["mnist", "ps/0"], "mnist-ps-0 is not scheduled to a node yet", id="not yet started"),
        pytest.param(["mnist"], "no task of mnist has logs", id="no logs at all"),
        pytest.param(["other"], '"other" not found', id="no such Framework"),
    ],
)
def test_logs_that_do_not_exist_are_reported(
    arguments: list[str], error: str, mnist: InMemoryLauncher, capsys: Capture
) -> None:
    mnist.until("mnist", "AttemptPreparing")

    assert main(["logs", *arguments]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert error in captured.err


def test_following_continues_with_tasks_that_start_later(mnist: InMemoryLauncher, capsys: Capture) -> None:
    mnist.run("mnist-worker-0", "before")
    command = BackgroundCommand("logs", "mnist", "-f")
    mnist.until_watched("pods", 1)
    mnist.write("mnist-worker-0", "meanwhile")
    mnist.run("mnist-worker-1", "later")
    mnist.write("mnist-worker-1", "more")
    mnist.end("mnist-worker-1", 0, "done")
    mnist.end("mnist-worker-0", 1, "the end")
    mnist.remove("mnist-ps-0")

    assert command.end() == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("worker-0")] == [
        "worker-0 | before",
        "worker-0 | meanwhile",
        "worker-0 | the end",
    ]
    assert [line for line in lines if line.startswith("worker-1")] == [
        "worker-1 | later",
        "worker-1 | more",
        "worker-1 | done",
    ]
    assert len(lines) == 6


def test_following_continues_with_later_attempts(server: InMemoryLauncher, capsys: Capture) -> None:
    role = a_role(tasks=1)
    role["task"]["retryPolicy"] = {"maxRetryCount": 1}
    server.create(a_framework(role))
    server.run("mnist-worker-0", "first try")
    command = BackgroundCommand("logs", "mnist", "worker/0", "-f")
    server.until_watched("pods", 1)
    server.end("mnist-worker-0", 137, "killed")
    server.run("mnist-worker-0", "second try")
    server.end("mnist-worker-0", 0, "done")

    assert command.end() == 0
    assert capsys.readouterr().out.splitlines() == ["first try", "killed", "second try", "done"]


def test_following_ends_with_the_framework_while_a_pod_is_running(
    server: InMemoryLauncher, capsys: Capture
) -> None:
    server.create(a_framework(a_role(tasks=2), cleanPodPolicy="None"))
    server.run("mnist-worker-0", "I stay")
    server.run("mnist-worker-1")
    command = BackgroundCommand("logs", "mnist", "-f")
    server.until_watched("pods", 1)
    server.end("mnist-worker-1", 1, "I fail")

    assert command.end() == 0
    assert sorted(capsys.readouterr().out.splitlines()) == ["worker-0 | I stay", "worker-1 | I fail"]


def test_following_a_completed_framework_prints_all_logs_and_ends(
    mnist: InMemoryLauncher, capsys: Capture
) -> None:
    mnist.run("mnist-worker-0", "gone")
    main(["stop", "mnist"])
    for pod in ("mnist-worker-0", "mnist-worker-1", "mnist-ps-0"):
        mnist.remove(pod)
    mnist.until("mnist", "Completed")

    assert printed(capsys, "mnist", "-f")[-1] == "worker-0 | gone"


def test_no_line_is_lost_or_repeated_when_the_server_restarts(
    mnist: InMemoryLauncher, tmp_path: Path
) -> None:
    before, disconnected = (
        [f"before {number}" for number in range(50)],
        [f"disconnected {number}" for number in range(50)],
    )
    mnist.run("mnist-worker-0", *before)
    with Piped(tmp_path, "logs", "mnist", "worker/0", "-f") as command:
        command.until("before 49\n")
        mnist.stop()
        mnist.write("mnist-worker-0", *disconnected)
        mnist.start()
        mnist.end("mnist-worker-0", 1, "the end")
        for pod in ("mnist-worker-1", "mnist-ps-0"):
            mnist.remove(pod)

        assert command.end() == 0
        assert command.out.splitlines() == [*before, *disconnected, "the end"]


def test_tail_does_not_cut_what_is_written_later(mnist: InMemoryLauncher, capsys: Capture) -> None:
    mnist.run("mnist-worker-0", "one", "two", "three")
    command = BackgroundCommand("logs", "mnist", "-f", "--tail", "1")
    mnist.until_watched("pods", 1)
    mnist.run("mnist-worker-1", "four", "five")
    mnist.end("mnist-worker-1", 1)
    for pod in ("mnist-worker-0", "mnist-ps-0"):
        mnist.remove(pod)

    assert command.end() == 0
    assert sorted(capsys.readouterr().out.splitlines()) == [
        "worker-0 | three",
        "worker-1 | five",
        "worker-1 | four",
    ]


def test_lines_of_several_containers_have_labels_and_init_containers_come_first(
    server: InMemoryLauncher, capsys: Capture
) -> None:
    containers = [{"name": name, "image": "busybox", "command": ["true"]} for name in ("main", "side")]
    init = [{"name": "early", "image": "busybox", "command": ["true"]}]
    server.create(
        a_framework(a_role(tasks=1, pod=a_pod_template(containers=containers, initContainers=init)))
    )
    server.run("mnist-worker-0", "from main")

    assert printed(capsys, "mnist") == ["worker-0/main | from main"]
    assert printed(capsys, "mnist", "-c", "main") == ["from main"]


def test_on_a_terminal_each_task_has_a_colour_and_control_characters_are_removed(
    mnist: InMemoryLauncher,
) -> None:
    mnist.run("mnist-worker-0", "\x1b[2Jhello")
    mnist.run("mnist-worker-1", "hi")

    with Terminal(launcher("logs", "mnist")) as terminal:
        assert terminal.end() == 0
    with Terminal(launcher("logs", "mnist"), variables={"NO_COLOR": "1"}) as plain:
        assert plain.end() == 0

    labels = re.findall(r"\x1b\[(\d+)m(worker-\d \| )\x1b\[0m(hello|hi)", terminal.seen)
    assert [(label, text) for _, label, text in labels] == [("worker-0 | ", "hello"), ("worker-1 | ", "hi")]
    assert labels[0][0] != labels[1][0]
    assert plain.seen == "worker-0 | hello\nworker-1 | hi\n"


def test_a_line_may_be_of_any_length(mnist: InMemoryLauncher, capsys: Capture) -> None:
    mnist.run("mnist-worker-0", "x" * 300_000)

    assert printed(capsys, "mnist", "worker/0") == ["x" * 300_000]

"""The program of the init container: its requests, the files that it writes, and its exit codes."""

import json
import re
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from launcher.core.names import PLACEHOLDERS
from launcher.node.pods.environment import expand
from launcher.rendezvous.container_programs import IMAGE_COMMANDS, program_command, program_text
from tests.eventually import TIMEOUT_SECONDS
from tests.rendezvous.programs.conftest import MakeImage, StartLauncher
from tests.rendezvous.programs.fake_launcher import ATTEMPT_PATH, FakeLauncher, FakeResponse
from tests.rendezvous.programs.image import HTTP_CLIENTS, ProgramImage

PROGRAM = program_command("rendezvous.sh")[2]
FILES = {
    "configfile": "10.0.0.1:46866,10.0.0.2:46866\n10.0.0.3:46867\n",
    "hosts.env": "export MASTER_ADDR=10.0.0.1\nexport RANK=1\n",
    "injector.sh": "#!/bin/bash\nexport FB_WORKER_IPS=10.0.0.1,10.0.0.2\n",
}
COMPLETE = FakeResponse(200, "".join(f"==> {name} <==\n{text}" for name, text in FILES.items()))
MISSING = FakeResponse(202, '{"missing":["worker/1"],"message":"waiting for addresses of worker-1"}')


def environment(launcher: FakeLauncher, image: ProgramImage, **others: str) -> dict[str, str]:
    """The environment of an init container; its mount path is created."""
    mount = image.directory / "configdir"
    mount.mkdir(exist_ok=True)
    return {
        "LAUNCHER_RENDEZVOUS": launcher.attempt_url,
        "LAUNCHER_TOKEN": launcher.token,
        "LAUNCHER_MOUNT": str(mount),
        "FC_TASKROLE_NAME": "worker",
        "FC_TASK_INDEX": "1",
        **others,
    }


def written_files(image: ProgramImage) -> dict[str, str]:
    """All files under the mount path, including hidden ones."""
    mount = image.directory / "configdir"
    return {str(path.relative_to(mount)): path.read_text() for path in mount.rglob("*") if path.is_file()}


def hosts_json(**roles: list[tuple[str, int]]) -> FakeResponse:
    """A response with a hosts.json that has these addresses and ports."""
    peers = {
        role: [
            {"index": index, "ip": ip, "hostIP": ip, "host": f"mnist-{role}-{index}", "port": port}
            for index, (ip, port) in enumerate(tasks)
        ]
        for role, tasks in roles.items()
    }
    text = json.dumps({"generation": 1, "roles": peers}, separators=(",", ":"))
    return FakeResponse(200, f"==> hosts.json <==\n{text}\n")


def port_of(server: socket.socket) -> int:
    port: int = server.getsockname()[1]
    return port


@pytest.mark.parametrize("http_client", HTTP_CLIENTS)
def test_it_sends_one_request_and_writes_all_files(
    start_launcher: StartLauncher, make_image: MakeImage, shell: str, http_client: str
) -> None:
    launcher, image = start_launcher(COMPLETE), make_image(http_client, shell=shell)

    done = image.run(PROGRAM, **environment(launcher, image))

    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert {name: text for name, text in written_files(image).items() if name != "wait.sh"} == FILES
    [request] = launcher.requests
    assert request.path == ATTEMPT_PATH
    assert request.query == {"format": "all", "task": "worker/1", "wait": "300"}
    assert request.headers["Authorization"] == f"Bearer {launcher.token}"


@pytest.mark.parametrize("http_client", HTTP_CLIENTS)
def test_only_the_wget_of_busybox_exposes_the_token_and_a_message_reports_it(
    start_launcher: StartLauncher, make_image: MakeImage, http_client: str
) -> None:
    launcher, image = start_launcher(COMPLETE), make_image(http_client)

    done = image.run(PROGRAM, **environment(launcher, image))

    is_busybox = http_client.startswith("busybox")
    programs = launcher.requests[0].exposing_programs
    assert [name for name in programs if "wget" not in name] == []
    assert bool(programs) is is_busybox
    assert ("on its command line" in done.stderr) is is_busybox
    assert launcher.token not in done.stdout + done.stderr + "".join(written_files(image).values())


def test_all_users_can_read_the_files_and_run_the_scripts_with_any_umask(
    start_launcher: StartLauncher, make_image: MakeImage
) -> None:
    image = make_image("curl")

    image.run("umask 077\n" + PROGRAM, **environment(start_launcher(COMPLETE), image))

    mount = image.directory / "configdir"
    modes = {path.name: path.stat().st_mode & 0o777 for path in mount.iterdir()}
    assert modes == {"configfile": 0o644, "hosts.env": 0o644, "injector.sh": 0o755, "wait.sh": 0o755}


def test_existing_files_are_replaced(start_launcher: StartLauncher, make_image: MakeImage) -> None:
    image = make_image("curl")
    launcher = start_launcher(COMPLETE, FakeResponse(200, "==> configfile <==\nnew\n"))

    image.run(PROGRAM, **environment(launcher, image))
    image.run(PROGRAM, **environment(launcher, image))

    assert written_files(image)["configfile"] == "new\n"


def test_files_are_written_under_the_mount_path_only(
    start_launcher: StartLauncher, make_image: MakeImage
) -> None:
    image = make_image("curl")
    launcher = start_launcher(FakeResponse(200, "==> ../outside <==\nx\n==> in <==\ny\n"))

    image.run(PROGRAM, **environment(launcher, image))

    assert not (image.directory / "outside").exists()
    assert written_files(image)["in"] == "y\n"


@pytest.mark.parametrize("http_client", HTTP_CLIENTS)
def test_the_request_is_repeated_while_tasks_are_missing(
    start_launcher: StartLauncher, make_image: MakeImage, http_client: str
) -> None:
    launcher, image = start_launcher(MISSING, FakeResponse(204), COMPLETE), make_image(http_client)

    done = image.run(PROGRAM, **environment(launcher, image))

    assert done.returncode == 0, done.stderr
    assert len(launcher.requests) == 3
    assert "rendezvous: waiting for addresses of worker-1\n" in done.stderr


@pytest.mark.parametrize("http_client", HTTP_CLIENTS)
@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(FakeResponse(503, '{"message":"shutting down"}'), id="the launcher stops"),
        pytest.param(FakeResponse(429), id="too many requests"),
        pytest.param(FakeResponse(200, "==> configfile <==\n", truncated=True), id="truncated response"),
    ],
)
def test_a_failed_request_is_retried(
    start_launcher: StartLauncher, make_image: MakeImage, http_client: str, failure: FakeResponse
) -> None:
    launcher, image = start_launcher(failure, COMPLETE), make_image(http_client)

    done = image.run(PROGRAM, **environment(launcher, image))

    assert done.returncode == 0, done.stderr
    assert len(launcher.requests) == 2
    assert written_files(image)["configfile"] == FILES["configfile"]


@pytest.mark.parametrize("http_client", HTTP_CLIENTS)
def test_after_the_timeout_it_names_the_missing_tasks(
    start_launcher: StartLauncher, make_image: MakeImage, http_client: str
) -> None:
    launcher, image = start_launcher(MISSING), make_image(http_client)

    done = image.run(PROGRAM, **environment(launcher, image, LAUNCHER_TIMEOUT="1"))

    assert done.returncode == 201
    assert done.stderr.endswith("timed out after 1s: waiting for addresses of worker-1\n")
    assert launcher.requests[0].query["wait"] == "1"
    assert written_files(image) == {}


@pytest.mark.parametrize("http_client", HTTP_CLIENTS)
def test_without_a_response_until_the_timeout_it_exits_with_1(
    make_image: MakeImage, http_client: str
) -> None:
    image = make_image(http_client)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        launcher = FakeLauncher([], f"http://127.0.0.1:{port_of(closed)}")

    done = image.run(PROGRAM, **environment(launcher, image, LAUNCHER_TIMEOUT="1"))

    assert done.returncode == 1
    assert "the launcher cannot be reached (" in done.stderr


@pytest.mark.parametrize("http_client", HTTP_CLIENTS)
@pytest.mark.parametrize("status", [403, 404])
def test_a_rejected_request_is_not_retried(
    start_launcher: StartLauncher, make_image: MakeImage, http_client: str, status: int
) -> None:
    launcher = start_launcher(FakeResponse(status, '{"message":"attempt 0 of \\"mnist\\" has ended"}'))
    image = make_image(http_client)

    done = image.run(PROGRAM, **environment(launcher, image))

    assert (done.returncode, len(launcher.requests)) == (210, 1)
    # The wget of busybox does not return the body of an error.
    is_busybox = http_client.startswith("busybox")
    message = (
        f"the launcher returned HTTP status {status}" if is_busybox else "attempt 0 of 'mnist' has ended"
    )
    assert done.stderr.endswith(f"rendezvous: {message}\n")


def test_an_invalid_request_is_not_retried(start_launcher: StartLauncher, make_image: MakeImage) -> None:
    launcher, image = (
        start_launcher(FakeResponse(400, '{"message":"wait: not a number"}')),
        make_image("curl"),
    )

    done = image.run(PROGRAM, **environment(launcher, image))

    assert (done.returncode, done.stderr) == (1, "rendezvous: wait: not a number\n")


def test_without_an_http_client_it_names_those_that_it_supports(
    start_launcher: StartLauncher, make_image: MakeImage
) -> None:
    launcher, image = start_launcher(COMPLETE), make_image()

    done = image.run(PROGRAM, **environment(launcher, image))

    assert done.returncode == 1
    assert "none of curl, python3 and wget" in done.stderr


@pytest.mark.parametrize("http_client", ["curl", "python3", "wget"])
def test_it_accepts_a_certificate_of_the_given_ca(
    start_launcher: StartLauncher, make_image: MakeImage, http_client: str
) -> None:
    launcher, image = start_launcher(COMPLETE, tls=True), make_image(http_client)

    done = image.run(PROGRAM, **environment(launcher, image, LAUNCHER_CA=launcher.ca))

    assert done.returncode == 0, done.stderr
    assert "BEGIN" not in "".join(written_files(image).values())


@pytest.mark.parametrize("http_client", ["curl", "python3", "wget"])
def test_it_sends_no_request_to_a_launcher_with_a_certificate_of_another_ca(
    start_launcher: StartLauncher, make_image: MakeImage, http_client: str
) -> None:
    launcher, other = start_launcher(COMPLETE, tls=True), start_launcher(COMPLETE, tls=True)
    image = make_image(http_client)

    done = image.run(PROGRAM, **environment(launcher, image, LAUNCHER_CA=other.ca, LAUNCHER_TIMEOUT="1"))

    assert done.returncode == 1
    assert launcher.requests == []


def test_the_wget_of_busybox_is_not_used_with_tls(
    start_launcher: StartLauncher, make_image: MakeImage
) -> None:
    launcher, image = start_launcher(COMPLETE, tls=True), make_image("busybox wget")

    done = image.run(PROGRAM, **environment(launcher, image, LAUNCHER_CA=launcher.ca))

    assert done.returncode == 1
    assert "does not verify certificates; use curl, python3 or GNU wget" in done.stderr
    assert written_files(image) == {}


@pytest.mark.parametrize("http_client", HTTP_CLIENTS)
def test_on_sigterm_it_exits_while_it_waits_and_leaves_no_files(
    start_launcher: StartLauncher, make_image: MakeImage, shell: str, http_client: str
) -> None:
    launcher, image = start_launcher(COMPLETE), make_image(http_client, shell=shell)
    launcher.responding.clear()

    with image.start(PROGRAM, **environment(launcher, image)) as process:
        assert launcher.requested.wait(TIMEOUT_SECONDS)
        process.send_signal(signal.SIGTERM)

        assert process.wait(TIMEOUT_SECONDS) == 143
        launcher.responding.set()
    assert list((image.directory / "configdir").iterdir()) == []


def test_with_an_auto_port_it_chooses_another_free_port_after_a_conflict(
    start_launcher: StartLauncher, make_image: MakeImage, shell: str
) -> None:
    launcher, image = start_launcher(FakeResponse(409), COMPLETE), make_image("curl", shell=shell)

    done = image.run(PROGRAM, **environment(launcher, image, LAUNCHER_PORT="auto"))

    first, second = (int(request.query["port"]) for request in launcher.requests)
    assert done.returncode == 0, done.stderr
    assert first != second
    for port in (first, second):
        assert 20_000 <= port < 30_000
        with socket.create_server(("127.0.0.1", port)):
            pass


def test_a_port_with_a_listener_is_not_chosen(
    start_launcher: StartLauncher, make_image: MakeImage, tmp_path: Path
) -> None:
    """Both runs have the same random number, and a server listens on the port of the first during the second."""
    launcher, image = start_launcher(COMPLETE), make_image("curl")
    (tmp_path / "uuid").write_text("00000007-0000-0000-0000-000000000000\n")
    program = PROGRAM.replace("/proc/sys/kernel/random/uuid", str(tmp_path / "uuid"))
    assert program != PROGRAM

    image.run(program, **environment(launcher, image, LAUNCHER_PORT="auto"))
    first = int(launcher.requests[0].query["port"])
    with socket.create_server(("127.0.0.1", first)):
        image.run(program, **environment(launcher, image, LAUNCHER_PORT="auto"))

    assert int(launcher.requests[1].query["port"]) > first


@pytest.mark.parametrize("tool", ["python3", "bash", "busybox nc", "curl"])
def test_it_waits_for_the_ports_of_the_given_roles(
    start_launcher: StartLauncher, make_image: MakeImage, shell: str, tool: str
) -> None:
    image = make_image(tool, *({"wget"} - {tool}), shell=shell)
    with socket.create_server(("127.0.0.1", 0)) as ps:
        launcher = start_launcher(hosts_json(worker=[("127.0.0.1", 9)], ps=[("127.0.0.1", port_of(ps))]))

        done = image.run(PROGRAM, **environment(launcher, image, LAUNCHER_WAIT_PORTS="ps"))

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("tool", ["python3", "bash", "busybox nc", "curl"])
def test_after_the_timeout_it_names_the_tasks_without_a_listener(
    start_launcher: StartLauncher, make_image: MakeImage, tool: str
) -> None:
    image = make_image(tool, *({"wget"} - {tool}))
    with socket.create_server(("127.0.0.1", 0)) as ps:
        launcher = start_launcher(
            hosts_json(worker=[("127.0.0.1", 9)], ps=[("127.0.0.1", port_of(ps)), ("127.0.0.1", 9)])
        )
        variables = environment(launcher, image, LAUNCHER_WAIT_PORTS="worker ps", LAUNCHER_TIMEOUT="2")

        done = image.run(PROGRAM, **variables)

    assert done.returncode == 201
    assert done.stderr.endswith(
        "timed out: no listener for worker-0 at 127.0.0.1 port 9, ps-1 at 127.0.0.1 port 9\n"
    )


def test_it_exits_as_soon_as_the_last_task_listens(
    start_launcher: StartLauncher, make_image: MakeImage
) -> None:
    image = make_image("curl", "bash")
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = port_of(closed)
    launcher = start_launcher(hosts_json(ps=[("127.0.0.1", port)]))

    with image.start(PROGRAM, **environment(launcher, image, LAUNCHER_WAIT_PORTS="ps")) as process:
        assert launcher.requested.wait(TIMEOUT_SECONDS)
        with socket.create_server(("127.0.0.1", port)) as server:
            server.settimeout(TIMEOUT_SECONDS)
            server.accept()[0].close()

            assert process.wait(TIMEOUT_SECONDS) == 0


def test_users_can_wait_for_ports_with_wait_sh(start_launcher: StartLauncher, make_image: MakeImage) -> None:
    image = make_image("curl", "bash")
    with socket.create_server(("127.0.0.1", 0)) as ps:
        launcher = start_launcher(hosts_json(worker=[("127.0.0.1", 9)], ps=[("127.0.0.1", port_of(ps))]))
        image.run(PROGRAM, **environment(launcher, image, LAUNCHER_TIMEOUT="1"))

        assert image.run("sh configdir/wait.sh ps").returncode == 0
        assert image.run("sh configdir/wait.sh ps worker").returncode == 201


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(PROGRAM, id="rendezvous"),
        *(pytest.param(command[2], id=image) for image, command in IMAGE_COMMANDS.items()),
    ],
)
def test_the_command_of_a_pod_contains_nothing_that_is_expanded(text: str) -> None:
    """Kubernetes expands ``$$`` and ``$(NAME)`` in commands, and the launcher ``{{NAME}}`` in pod templates."""

    class AnyVariable(dict[str, str]):
        def get(self, key: str, default: Any = None) -> Any:
            return "expanded" if re.fullmatch(r"[-._a-zA-Z][-._a-zA-Z0-9]*", key) else default

    assert expand(text, AnyVariable()) == text
    assert not [name for name in PLACEHOLDERS if f"{{{{{name}}}}}" in text]
    assert len(text) < 10_000  # it is part of every pod


def test_the_text_with_comments_is_the_same_program(
    start_launcher: StartLauncher, make_image: MakeImage, shell: str
) -> None:
    launcher, image = start_launcher(COMPLETE), make_image("python3", shell=shell)

    done = image.run(program_text("rendezvous.sh"), **environment(launcher, image))

    assert done.returncode == 0, done.stderr
    assert written_files(image)["configfile"] == FILES["configfile"]

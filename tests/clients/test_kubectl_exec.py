"""kubectl exec, cp and attach on pods of local mode, of each container runtime."""

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.builders import Json
from tests.cli.terminals import Terminal
from tests.clients.isolated_namespace import IsolatedNamespace, wait_for_file
from tests.clients.kubectl import Kubectl
from tests.engine.archives import BUSYBOX
from tests.engine.fixtures import ENGINES
from tests.eventually import until
from tests.local.server import Server


@pytest.fixture(scope="module", params=["process", *ENGINES])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A launcher with that runtime, which the tests share."""
    directory = tmp_path_factory.mktemp("server")
    if request.param == "process":
        server = Server(directory)
        yield server
        server.end()
        return
    engine = request.getfixturevalue("engines").get(request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", engine.url)
        server = Server(directory, "--runtime=docker")
    yield server
    server.end()
    engine.remove_containers()


@pytest.fixture
def isolated(isolated: IsolatedNamespace) -> IsolatedNamespace:
    """An empty namespace, whose pods have an image that the engines have."""
    return replace(isolated, image=BUSYBOX)


@pytest.fixture(autouse=True)
def pod(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    """A running pod ``alone`` with two containers."""
    never = wait_for_file("never")
    kubectl("create", "-f", "-", stdin=isolated.pod(one=never, two=f"MINE=two; {never}"))
    kubectl("wait", "pod/alone", "--for=condition=Ready", "--timeout=30s")


def test_exec_returns_the_output_and_the_exit_code_of_a_command(kubectl: Kubectl) -> None:
    done = kubectl.run("exec", "alone", "--", "sh", "-c", "echo $LAUNCHER_TEST; echo bad >&2; exit 7")

    assert done.returncode == 7
    assert done.stdout.endswith("/data\n")
    assert 'Defaulted container "one" out of: one, two' in done.stderr
    assert "bad\n" in done.stderr


def test_exec_passes_on_its_input(kubectl: Kubectl) -> None:
    text = "line\n" * 100_000

    assert kubectl("exec", "-i", "alone", "-c", "two", "--", "cat", stdin=text) == text


def test_exec_without_a_program_names_it(kubectl: Kubectl) -> None:
    done = kubectl.run("exec", "alone", "-c", "one", "--", "nosuch")

    # Docker 20.10 returns 126, and its message is output of the command.
    assert done.returncode in (126, 127)
    assert 'exec: "nosuch": executable file not found' in done.stdout + done.stderr


def test_exec_in_an_unknown_container_is_an_error(kubectl: Kubectl) -> None:
    assert "container three is not valid" in kubectl.error_output(
        "exec", "alone", "-c", "three", "--", "true"
    )


def test_exec_with_spdy_names_the_way_out(kubectl: Kubectl) -> None:
    done = kubectl.run("exec", "alone", "--", "true", KUBECTL_REMOTE_COMMAND_WEBSOCKETS="false")

    assert done.returncode == 1
    assert "SPDY is not supported" in done.stderr


def test_exec_with_a_terminal_is_a_shell(kubectl: Kubectl) -> None:
    command, environment = kubectl.command_line("exec", "-it", "alone", "-c", "one", "--", "sh")

    with Terminal(command, columns=91, rows=17, variables=environment) as terminal:
        # The shell of busybox queries the position of the cursor.
        terminal.until(r"[#$] \S*$")
        terminal.type("stty size; echo $((40+2))\n")
        terminal.until("17 91\n42\n")
        terminal.resize(77, 33)
        # A terminal sends it to its foreground processes.
        terminal.process.send_signal(signal.SIGWINCH)
        terminal.type("until stty size | grep '33 77'; do sleep 0.05; done\n")
        terminal.until(r"\n([#$] )?33 77\n")
        terminal.type("exit 6\n")

        assert terminal.end() == 6


def test_cp_copies_files_in_both_directions(
    kubectl: Kubectl, isolated: IsolatedNamespace, tmp_path: Path
) -> None:
    original, copy = tmp_path / "original", tmp_path / "copy"
    original.write_bytes(os.urandom(3_000_000))

    kubectl("cp", str(original), "alone:/gate/there", "-c", "one")
    kubectl("cp", "alone:/gate/there", str(copy), "-c", "two")

    assert (isolated.gate / "there").read_bytes() == original.read_bytes()
    assert copy.read_bytes() == original.read_bytes()


def test_a_session_ends_with_its_pod(kubectl: Kubectl) -> None:
    session = kubectl.follow("exec", "alone", "-c", "one", "--", "sh", "-c", "echo ready; sleep 600")
    session.wait_for_line("ready")

    kubectl("delete", "pod", "alone")

    assert session.exit_code() == 137


def test_a_command_ends_with_its_client(kubectl: Kubectl, isolated: IsolatedNamespace) -> None:
    # The shell may report that SIGHUP has ended sleep too.
    script = (
        "exec 2>/dev/null; trap 'touch /gate/hung-up; exit' HUP; echo ready; while :; do sleep 0.05; done"
    )
    session = kubectl.follow("exec", "alone", "-c", "one", "--", "sh", "-c", script)
    session.wait_for_line("ready")

    session.end()

    until(lambda: (isolated.gate / "hung-up").exists() or None, "the command has received SIGHUP")


def test_attach_prints_the_output_until_the_container_ends(
    isolated: IsolatedNamespace, kubectl: Kubectl
) -> None:
    script = (
        "echo before; n=0; until [ -e /gate/go ]; do n=$((n+1)); echo line $n; sleep 0.05; done; echo last"
    )
    kubectl("create", "-f", "-", stdin=isolated.pod("printing", main=script))
    kubectl("wait", "pod/printing", "--for=condition=Ready", "--timeout=30s")

    until(lambda: "line" in kubectl("logs", "printing") or None, "the log has its first lines")
    attached = kubectl.follow("attach", "printing")
    attached.wait_for_line("line")
    isolated.create_file("go")

    assert attached.exit_code() == 0
    assert attached.lines()[-1] == "last"
    assert "before" not in attached.lines()


def _pod_with_streams(isolated: IsolatedNamespace, script: str, **streams: bool) -> Json:
    """A pod ``attended`` with one container that has these streams."""
    pod = isolated.pod("attended", main=script)
    pod["spec"]["containers"][0] |= streams
    return pod


def test_attach_passes_on_its_input_until_it_ends(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    pod = _pod_with_streams(isolated, "cat; echo ended", stdin=True, stdinOnce=True)
    kubectl("create", "-f", "-", stdin=pod)
    kubectl("wait", "pod/attended", "--for=condition=Ready", "--timeout=30s")
    text = "line\n" * 50_000

    assert kubectl("attach", "-i", "attended", "-q", stdin=text) == f"{text}ended\n"

    kubectl("wait", "pod/attended", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=30s")


def test_attach_with_a_terminal_is_the_shell_of_the_container(
    isolated: IsolatedNamespace, kubectl: Kubectl
) -> None:
    kubectl("create", "-f", "-", stdin=_pod_with_streams(isolated, "exec sh", stdin=True, tty=True))
    kubectl("wait", "pod/attended", "--for=condition=Ready", "--timeout=30s")
    command, environment = kubectl.command_line("attach", "-it", "attended")

    with Terminal(command, columns=91, rows=17, variables=environment) as terminal:
        terminal.until("If you don't see a command prompt")
        terminal.type("until stty size | grep '17 91'; do sleep 0.05; done\n")
        terminal.until(r"\n([#$] )?17 91\n")
        terminal.resize(77, 33)
        # A terminal sends it to its foreground processes.
        terminal.process.send_signal(signal.SIGWINCH)
        terminal.type("until stty size | grep '33 77'; do sleep 0.05; done\n")
        terminal.until(r"\n([#$] )?33 77\n")
        terminal.type("exit 6\n")

        assert terminal.end() == 0
    path = "jsonpath={.status.containerStatuses[0].state.terminated.exitCode}"
    kubectl("wait", "pod/attended", f"--for={path}=6", "--timeout=30s")
    assert "33 77" in kubectl("logs", "attended")


def test_attach_reports_that_a_container_has_no_terminal(
    isolated: IsolatedNamespace, kubectl: Kubectl
) -> None:
    command, environment = kubectl.command_line("attach", "-it", "alone", "-c", "one")

    with Terminal(command, variables=environment) as terminal:
        terminal.until("Unable to use a TTY - container one did not allocate one")


def test_a_container_has_its_input_after_a_restart_of_the_launcher(
    isolated: IsolatedNamespace, kubectl: Kubectl, request: pytest.FixtureRequest
) -> None:
    if request.node.callspec.params["server"] != "process":
        pytest.skip(
            "the contract of the runtimes has this test, and the engines are not those of the machine"
        )
    pod = _pod_with_streams(isolated, "echo ready; cat; echo ended", stdin=True, stdinOnce=True)
    kubectl("create", "-f", "-", stdin=pod)
    until(lambda: "ready" in kubectl("logs", "attended") or None, "the container has written to its log")

    isolated.restart_server()

    assert kubectl("attach", "-i", "attended", "-q", stdin="word\n") == "word\nended\n"


def test_run_with_input_prints_the_output_and_returns_the_exit_code(
    isolated: IsolatedNamespace, kubectl: Kubectl
) -> None:
    options = ("--image", isolated.image, "--restart=Never", "-i", "--rm", "-q", "--command", "--")

    done = kubectl.run("run", "once", *options, "sh", "-c", "cat; exit 5", stdin="one\ntwo\n")

    assert (done.returncode, done.stdout.startswith("one\ntwo\n")) == (5, True), done.stderr
    assert "once" not in kubectl("get", "pods", "-o", "name")

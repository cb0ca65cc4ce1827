"""kubectl exec, cp and attach on pods of local mode."""

import os
from pathlib import Path

import pytest

from tests.cli.terminals import Terminal
from tests.clients.isolated_namespace import IsolatedNamespace, wait_for_file
from tests.clients.kubectl import Kubectl


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

    assert done.returncode == 127
    assert 'exec: "nosuch": executable file not found' in done.stderr


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
        terminal.until(r"[#$] $")
        terminal.type("stty size; echo $((40+2))\n")
        terminal.until("17 91\n42\n")
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


def test_attach_prints_the_output_until_the_container_ends(
    isolated: IsolatedNamespace, kubectl: Kubectl
) -> None:
    script = (
        "echo before; n=0; until [ -e /gate/go ]; do n=$((n+1)); echo line $n; sleep 0.05; done; echo last"
    )
    kubectl("create", "-f", "-", stdin=isolated.pod("printing", main=script))
    kubectl("wait", "pod/printing", "--for=condition=Ready", "--timeout=30s")

    attached = kubectl.follow("attach", "printing")
    attached.wait_for_line("line")
    isolated.create_file("go")

    assert attached.exit_code() == 0
    assert attached.lines()[-1] == "last"
    assert "before" not in attached.lines()

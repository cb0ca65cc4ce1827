"""The program in the init container: what it asks, what it writes, and how it ends."""

import json
import re
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from launcher.core.names import PLACEHOLDERS
from launcher.node.pods.environment import expanded
from launcher.rendezvous.programs import STAND_INS, command, program
from tests.rendezvous.programs.conftest import MakeImage, Pretend
from tests.rendezvous.programs.image import ASKERS, PATIENCE, Image
from tests.rendezvous.programs.pretended import ATTEMPT, Answer, Pretended

PROGRAM = command("rendezvous.sh")[2]
FILES = {
    "configfile": "10.0.0.1:46866,10.0.0.2:46866\n10.0.0.3:46867\n",
    "hosts.env": "export MASTER_ADDR=10.0.0.1\nexport RANK=1\n",
    "injector.sh": "#!/bin/bash\nexport FB_WORKER_IPS=10.0.0.1,10.0.0.2\n",
}
EVERYTHING = Answer(200, "".join(f"==> {name} <==\n{text}" for name, text in FILES.items()))
PATIENCE_PLEASE = Answer(
    202, '{"missing":["worker/1"],"message":"waiting for worker/1, which has no address"}'
)


def variables(launcher: Pretended, image: Image, **others: str) -> dict[str, str]:
    """The environment of an init container."""
    mount = image.directory / "configdir"
    mount.mkdir(exist_ok=True)
    return {
        "LAUNCHER_RENDEZVOUS": launcher.attempt,
        "LAUNCHER_TOKEN": launcher.token,
        "LAUNCHER_MOUNT": str(mount),
        "FC_TASKROLE_NAME": "worker",
        "FC_TASK_INDEX": "1",
        **others,
    }


def written(image: Image) -> dict[str, str]:
    """Everything under the mount path, hidden files too."""
    mount = image.directory / "configdir"
    return {str(path.relative_to(mount)): path.read_text() for path in mount.rglob("*") if path.is_file()}


def hosts(**roles: list[tuple[str, int]]) -> Answer:
    """An answer whose hosts.json tells these addresses and ports."""
    told = {
        role: [
            {"index": index, "ip": ip, "hostIP": ip, "host": f"mnist-{role}-{index}", "port": port}
            for index, (ip, port) in enumerate(tasks)
        ]
        for role, tasks in roles.items()
    }
    text = json.dumps({"generation": 1, "roles": told}, separators=(",", ":"))
    return Answer(200, f"==> hosts.json <==\n{text}\n")


@pytest.mark.parametrize("asker", ASKERS)
def test_it_asks_once_and_writes_every_file(
    pretend: Pretend, image: MakeImage, shell: str, asker: str
) -> None:
    launcher, here = pretend(EVERYTHING), image(asker, shell=shell)

    done = here.run(PROGRAM, **variables(launcher, here))

    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert {name: text for name, text in written(here).items() if name != "wait.sh"} == FILES
    [question] = launcher.questions
    assert question.path == ATTEMPT
    assert question.query == {"format": "all", "task": "worker/1", "wait": "300"}
    assert question.headers["Authorization"] == f"Bearer {launcher.token}"


@pytest.mark.parametrize("asker", ASKERS)
def test_only_busyboxs_wget_shows_the_token_and_that_is_said(
    pretend: Pretend, image: MakeImage, asker: str
) -> None:
    launcher, here = pretend(EVERYTHING), image(asker)

    done = here.run(PROGRAM, **variables(launcher, here))

    busybox = asker.startswith("busybox")
    assert [name for name in launcher.questions[0].shown if "wget" not in name] == []
    assert bool(launcher.questions[0].shown) is busybox
    assert ("on its command line" in done.stderr) is busybox
    assert launcher.token not in done.stdout + done.stderr + "".join(written(here).values())


def test_others_can_read_what_it_writes_whatever_its_umask_and_run_the_scripts(
    pretend: Pretend, image: MakeImage
) -> None:
    here = image("curl")

    here.run("umask 077\n" + PROGRAM, **variables(pretend(EVERYTHING), here))

    mount = here.directory / "configdir"
    modes = {path.name: path.stat().st_mode & 0o777 for path in mount.iterdir()}
    assert modes == {"configfile": 0o644, "hosts.env": 0o644, "injector.sh": 0o755, "wait.sh": 0o755}


def test_an_earlier_answer_is_replaced(pretend: Pretend, image: MakeImage) -> None:
    here = image("curl")
    launcher = pretend(EVERYTHING, Answer(200, "==> configfile <==\nnew\n"))

    here.run(PROGRAM, **variables(launcher, here))
    here.run(PROGRAM, **variables(launcher, here))

    assert written(here)["configfile"] == "new\n"


def test_an_answer_writes_nowhere_but_there(pretend: Pretend, image: MakeImage) -> None:
    here = image("curl")

    here.run(PROGRAM, **variables(pretend(Answer(200, "==> ../outside <==\nx\n==> in <==\ny\n")), here))

    assert not (here.directory / "outside").exists()
    assert written(here)["in"] == "y\n"


@pytest.mark.parametrize("asker", ASKERS)
def test_when_one_question_is_not_enough_it_asks_again(
    pretend: Pretend, image: MakeImage, asker: str
) -> None:
    launcher, here = pretend(PATIENCE_PLEASE, Answer(204), EVERYTHING), image(asker)

    done = here.run(PROGRAM, **variables(launcher, here))

    assert done.returncode == 0, done.stderr
    assert len(launcher.questions) == 3
    assert "rendezvous: waiting for worker/1, which has no address\n" in done.stderr


@pytest.mark.parametrize("asker", ASKERS)
@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(Answer(503, '{"message":"the launcher ends"}'), id="it ends"),
        pytest.param(Answer(429), id="too many ask"),
        pytest.param(Answer(200, "==> configfile <==\n", cut=True), id="cut off"),
    ],
)
def test_when_the_launcher_was_away_it_asks_again(
    pretend: Pretend, image: MakeImage, asker: str, trouble: Answer
) -> None:
    launcher, here = pretend(trouble, EVERYTHING), image(asker)

    done = here.run(PROGRAM, **variables(launcher, here))

    assert done.returncode == 0, done.stderr
    assert len(launcher.questions) == 2
    assert written(here)["configfile"] == FILES["configfile"]


@pytest.mark.parametrize("asker", ASKERS)
def test_when_the_time_is_up_it_says_who_is_missing(pretend: Pretend, image: MakeImage, asker: str) -> None:
    launcher, here = pretend(PATIENCE_PLEASE), image(asker)

    done = here.run(PROGRAM, **variables(launcher, here, LAUNCHER_TIMEOUT="1"))

    assert done.returncode == 201
    assert done.stderr.endswith("gave up after 1 s: waiting for worker/1, which has no address\n")
    assert launcher.questions[0].query["wait"] == "1"
    assert written(here) == {}


@pytest.mark.parametrize("asker", ASKERS)
def test_when_nobody_answers_in_time_that_is_said(image: MakeImage, asker: str) -> None:
    here = image(asker)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = Pretended([], f"http://127.0.0.1:{taken.getsockname()[1]}")

    done = here.run(PROGRAM, **variables(nobody, here, LAUNCHER_TIMEOUT="1"))

    assert done.returncode == 1
    assert "the launcher cannot be reached (" in done.stderr


@pytest.mark.parametrize("asker", ASKERS)
@pytest.mark.parametrize("status", [403, 404])
def test_a_refusal_ends_it_at_once(pretend: Pretend, image: MakeImage, asker: str, status: int) -> None:
    launcher, here = pretend(Answer(status, '{"message":"attempt 0 of \\"mnist\\" is over"}')), image(asker)

    done = here.run(PROGRAM, **variables(launcher, here))

    assert (done.returncode, len(launcher.questions)) == (210, 1)
    # busybox's wget keeps to itself what is said with a refusal.
    said = f"the launcher answers {status}" if asker.startswith("busybox") else "attempt 0 of 'mnist' is over"
    assert done.stderr.endswith(f"rendezvous: {said}\n")


def test_what_can_never_be_answered_is_not_asked_again(pretend: Pretend, image: MakeImage) -> None:
    launcher, here = pretend(Answer(400, '{"message":"wait: not a number"}')), image("curl")

    done = here.run(PROGRAM, **variables(launcher, here))

    assert (done.returncode, done.stderr) == (1, "rendezvous: wait: not a number\n")


def test_without_any_tool_to_ask_with_it_names_those_that_would_do(
    pretend: Pretend, image: MakeImage
) -> None:
    launcher, here = pretend(EVERYTHING), image()

    done = here.run(PROGRAM, **variables(launcher, here))

    assert done.returncode == 1
    assert "none of curl, python3 and wget" in done.stderr


@pytest.mark.parametrize("asker", ["curl", "python3", "wget"])
def test_it_believes_the_authority_that_it_was_given(pretend: Pretend, image: MakeImage, asker: str) -> None:
    launcher, here = pretend(EVERYTHING, tls=True), image(asker)

    done = here.run(PROGRAM, **variables(launcher, here, LAUNCHER_CA=launcher.ca))

    assert done.returncode == 0, done.stderr
    assert "BEGIN" not in "".join(written(here).values())


@pytest.mark.parametrize("asker", ["curl", "python3", "wget"])
def test_it_tells_nothing_to_a_launcher_that_another_authority_vouches_for(
    pretend: Pretend, image: MakeImage, asker: str
) -> None:
    launcher, other, here = pretend(EVERYTHING, tls=True), pretend(EVERYTHING, tls=True), image(asker)

    done = here.run(PROGRAM, **variables(launcher, here, LAUNCHER_CA=other.ca, LAUNCHER_TIMEOUT="1"))

    assert done.returncode == 1
    assert launcher.questions == []


def test_a_wget_that_checks_no_certificate_is_not_used_for_one(pretend: Pretend, image: MakeImage) -> None:
    launcher, here = pretend(EVERYTHING, tls=True), image("busybox wget")

    done = here.run(PROGRAM, **variables(launcher, here, LAUNCHER_CA=launcher.ca))

    assert done.returncode == 1
    assert "cannot check a certificate: use one with curl, python3 or GNU's wget" in done.stderr
    assert written(here) == {}


@pytest.mark.parametrize("asker", ASKERS)
def test_asked_to_end_it_ends_while_it_waits_and_leaves_nothing(
    pretend: Pretend, image: MakeImage, shell: str, asker: str
) -> None:
    launcher, here = pretend(EVERYTHING), image(asker, shell=shell)
    launcher.open.clear()

    with here.start(PROGRAM, **variables(launcher, here)) as process:
        assert launcher.asked.wait(PATIENCE)
        process.send_signal(signal.SIGTERM)

        assert process.wait(PATIENCE) == 143
        launcher.open.set()
    assert list((here.directory / "configdir").iterdir()) == []


def test_it_tells_a_port_that_is_free(pretend: Pretend, image: MakeImage, shell: str) -> None:
    launcher, here = pretend(Answer(409), EVERYTHING), image("curl", shell=shell)

    done = here.run(PROGRAM, **variables(launcher, here, LAUNCHER_PORT="auto"))

    first, second = (int(question.query["port"]) for question in launcher.questions)
    assert done.returncode == 0, done.stderr
    assert first != second
    for port in (first, second):
        assert 20_000 <= port < 30_000
        with socket.create_server(("127.0.0.1", port)):
            pass


def test_a_port_that_somebody_has_is_not_told(pretend: Pretend, image: MakeImage, tmp_path: Path) -> None:
    """The random number is made the same for both, and the first one's port is taken in between."""
    launcher, here = pretend(EVERYTHING), image("curl")
    (tmp_path / "uuid").write_text("00000007-0000-0000-0000-000000000000\n")
    fixed = PROGRAM.replace("/proc/sys/kernel/random/uuid", str(tmp_path / "uuid"))
    assert fixed != PROGRAM

    here.run(fixed, **variables(launcher, here, LAUNCHER_PORT="auto"))
    first = int(launcher.questions[0].query["port"])
    with socket.create_server(("127.0.0.1", first)):
        here.run(fixed, **variables(launcher, here, LAUNCHER_PORT="auto"))

    assert int(launcher.questions[1].query["port"]) > first


@pytest.mark.parametrize("tool", ["python3", "bash", "busybox nc", "curl"])
def test_it_waits_until_those_it_was_told_of_listen(
    pretend: Pretend, image: MakeImage, shell: str, tool: str
) -> None:
    here = image(tool, *({"wget"} - {tool}), shell=shell)
    with socket.create_server(("127.0.0.1", 0)) as ps:
        launcher = pretend(hosts(worker=[("127.0.0.1", 9)], ps=[("127.0.0.1", ps.getsockname()[1])]))

        done = here.run(PROGRAM, **variables(launcher, here, LAUNCHER_WAIT_PORTS="ps"))

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("tool", ["python3", "bash", "busybox nc", "curl"])
def test_it_names_those_who_do_not_listen_when_the_time_is_up(
    pretend: Pretend, image: MakeImage, tool: str
) -> None:
    here = image(tool, *({"wget"} - {tool}))
    with socket.create_server(("127.0.0.1", 0)) as ps:
        there = ps.getsockname()[1]
        launcher = pretend(hosts(worker=[("127.0.0.1", 9)], ps=[("127.0.0.1", there), ("127.0.0.1", 9)]))
        wanted = variables(launcher, here, LAUNCHER_WAIT_PORTS="worker ps", LAUNCHER_TIMEOUT="2")

        done = here.run(PROGRAM, **wanted)

    assert done.returncode == 201
    said = "the time is up, and nobody listens for worker/0 at 127.0.0.1 port 9, ps/1 at 127.0.0.1 port 9\n"
    assert done.stderr.endswith(said)


def test_it_goes_on_as_soon_as_the_last_one_listens(pretend: Pretend, image: MakeImage) -> None:
    here = image("curl", "bash")
    with socket.create_server(("127.0.0.1", 0)) as early:
        port = early.getsockname()[1]
    launcher = pretend(hosts(ps=[("127.0.0.1", port)]))

    with here.start(PROGRAM, **variables(launcher, here, LAUNCHER_WAIT_PORTS="ps")) as process:
        assert launcher.asked.wait(PATIENCE)
        with socket.create_server(("127.0.0.1", port)) as server:
            server.settimeout(PATIENCE)
            server.accept()[0].close()

            assert process.wait(PATIENCE) == 0


def test_users_can_wait_for_ports_themselves_later(pretend: Pretend, image: MakeImage) -> None:
    here = image("curl", "bash")
    with socket.create_server(("127.0.0.1", 0)) as ps:
        launcher = pretend(hosts(worker=[("127.0.0.1", 9)], ps=[("127.0.0.1", ps.getsockname()[1])]))
        here.run(PROGRAM, **variables(launcher, here, LAUNCHER_TIMEOUT="1"))

        assert here.run("sh configdir/wait.sh ps").returncode == 0
        assert here.run("sh configdir/wait.sh ps worker").returncode == 201


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(PROGRAM, id="rendezvous"),
        *(pytest.param(command[2], id=image) for image, command in STAND_INS.items()),
    ],
)
def test_a_pods_command_can_hold_it_unchanged(text: str) -> None:
    """Kubernetes reads ``$$`` and ``$(NAME)`` in a command, the launcher ``{{NAME}}`` in any text of a pod."""

    class Anything(dict[str, str]):
        def get(self, key: str, default: Any = None) -> Any:
            return "changed" if re.fullmatch(r"[-._a-zA-Z][-._a-zA-Z0-9]*", key) else default

    assert expanded(text, Anything()) == text
    assert not [mark for mark in PLACEHOLDERS if f"{{{{{mark}}}}}" in text]
    assert len(text) < 10_000  # every pod carries it


def test_without_remarks_it_is_the_same_program(pretend: Pretend, image: MakeImage, shell: str) -> None:
    launcher, here = pretend(EVERYTHING), image("python3", shell=shell)

    done = here.run(program("rendezvous.sh"), **variables(launcher, here))

    assert done.returncode == 0, done.stderr
    assert written(here)["configfile"] == FILES["configfile"]

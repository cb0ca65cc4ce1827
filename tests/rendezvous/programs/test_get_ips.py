"""``source get_ips.sh``: the addresses of workers and parameter servers, as the manual's samples expect them."""

import json
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from launcher.rendezvous.programs import program
from tests.rendezvous.programs.conftest import MakeImage, Pretend
from tests.rendezvous.programs.image import ASKERS, Image
from tests.rendezvous.programs.pretended import ATTEMPT, Answer, Pretended

SHOW = ' && echo "$worker_hosts $ps_hosts"'
#: What the launcher gives to every container of a Framework with two workers and one parameter server.
POD = {
    "FC_FRAMEWORK_NAMESPACE": "default",
    "FC_FRAMEWORK_NAME": "mnist",
    "FC_FRAMEWORK_ATTEMPT_ID": "0",
    "FC_TASKROLE_NAME": "ps",
    "FC_TASK_INDEX": "0",
    "framework_name": "mnist",
    "worker_tasknum": "2",
    "ps_tasknum": "1",
}
PORTS = {"worker_port": "46866", "ps_port": "46867"}


def told(**roles: list[str]) -> Answer:
    """What the launcher tells of tasks on these nodes; their own addresses are others."""
    found = {
        role: [
            {"index": index, "ip": f"172.16.0.{index}", "hostIP": ip, "host": f"mnist-{role}-{index}"}
            for index, ip in enumerate(addresses)
        ]
        for role, addresses in roles.items()
    }
    return Answer(200, json.dumps({"generation": 1, "roles": found}, separators=(",", ":")) + "\n")


ALL = told(worker=["10.0.0.1", "10.0.0.2"], ps=["10.0.0.3"])


def pod(role: str, index: int, address: str | None) -> dict[str, Any]:
    """As an API server lists it; its user has tried to look like an address."""
    marks = {"FC_TASKROLE_NAME": role, "FC_TASK_INDEX": str(index)}
    trap = 'echo ,"FC_TASK_INDEX":"7",{"hostIP":"6.6.6.6"}'
    return {
        "metadata": {
            "name": f"mnist-{role}-{index}",
            "labels": marks,
            "annotations": {"note": trap, **marks},
        },
        "spec": {
            "containers": [{"command": ["sh", "-c", trap], "env": [{"name": "FC_TASK_INDEX", "value": "7"}]}]
        },
        "status": {} if address is None else {"hostIP": address, "hostIPs": [{"ip": address}]},
    }


def pods(*items: dict[str, Any], indent: int | None = None) -> Answer:
    listed = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items}
    return Answer(200, json.dumps(listed, indent=indent, separators=None if indent else (",", ":")))


def sourced(image: Image, after: str = SHOW, **variables: str) -> subprocess.CompletedProcess[str]:
    """As the manual's samples run it, of the directory they are in."""
    (image.directory / "get_ips.sh").write_text(program("get_ips.sh"))
    return image.run(". ./get_ips.sh" + after, **variables)


def by_launcher(launcher: Pretended) -> dict[str, str]:
    return {**POD, "LAUNCHER_RENDEZVOUS": launcher.attempt, "LAUNCHER_TOKEN": launcher.token}


@pytest.mark.parametrize("asker", ASKERS)
def test_it_tells_where_every_task_is_with_the_ports_that_it_was_given(
    pretend: Pretend, image: MakeImage, shell: str, asker: str
) -> None:
    launcher = pretend(ALL)

    done = sourced(image(asker, shell=shell), **by_launcher(launcher), **PORTS)

    assert done.stdout == "10.0.0.1:46866,10.0.0.2:46866 10.0.0.3:46867\n", done.stderr
    [question] = launcher.questions
    assert question.path == ATTEMPT
    assert {**question.query, "wait": ""} == {"format": "hosts.json", "task": "ps/0", "wait": ""}
    assert question.headers["Authorization"] == f"Bearer {launcher.token}"


@pytest.mark.parametrize("asker", ASKERS)
def test_only_busyboxs_wget_shows_the_token(pretend: Pretend, image: MakeImage, asker: str) -> None:
    launcher = pretend(ALL)

    sourced(image(asker), **by_launcher(launcher))

    assert bool(launcher.questions[0].shown) is asker.startswith("busybox")


def test_without_a_port_addresses_stand_alone(pretend: Pretend, image: MakeImage, shell: str) -> None:
    done = sourced(image("curl", shell=shell), **by_launcher(pretend(ALL)))

    assert (done.stdout, done.stderr) == ("10.0.0.1,10.0.0.2 10.0.0.3\n", "")


def test_bash_sources_it_as_the_manual_has_it(pretend: Pretend, image: MakeImage) -> None:
    here = image("curl", shell="bash")
    (here.directory / "get_ips.sh").write_text(program("get_ips.sh"))
    sample = "export framework_name=tf-example && source ./get_ips.sh && echo $ps_hosts:49867"

    done = here.run(sample, **{**by_launcher(pretend(ALL)), "framework_name": "mnist"})

    assert done.stdout == "10.0.0.3:49867\n", done.stderr


def test_the_lists_are_exported_and_nothing_else_is_left(
    pretend: Pretend, image: MakeImage, shell: str
) -> None:
    here = image("curl", shell=shell)
    (here.directory / "get_ips.sh").write_text(program("get_ips.sh"))
    script = "set >before; . ./get_ips.sh; set >after; env | sort | sed -n '/_hosts=/p'"

    done = here.run(script, **by_launcher(pretend(ALL)))

    assert done.stdout == "ps_hosts=10.0.0.3\nworker_hosts=10.0.0.1,10.0.0.2\n"
    names = [
        {line.partition("=")[0] for line in (here.directory / file).read_text().splitlines() if "=" in line}
        for file in ("before", "after")
    ]
    changing = {"_", "BASH_LINENO", "PIPESTATUS", "OPTIND", "LINENO"}
    assert names[1] - names[0] - changing == {"worker_hosts", "ps_hosts"}


def test_the_user_may_want_fewer_tasks_than_there_are(pretend: Pretend, image: MakeImage) -> None:
    done = sourced(image("curl"), **{**by_launcher(pretend(ALL)), "worker_tasknum": "1"})

    assert done.stdout == "10.0.0.1 10.0.0.3\n"


def test_more_tasks_than_there_are_is_an_error(pretend: Pretend, image: MakeImage) -> None:
    done = sourced(image("curl"), "; echo $?", **{**by_launcher(pretend(ALL)), "worker_tasknum": "3"})

    assert done.stdout == "1\n"
    assert "worker_tasknum is 3, but there are not so many tasks" in done.stderr


def test_a_role_that_nobody_is_told_of_is_an_error(pretend: Pretend, image: MakeImage) -> None:
    done = sourced(image("curl"), "; echo $?", **by_launcher(pretend(told(worker=["1.1.1.1", "1.1.1.2"]))))

    assert done.stdout == "1\n"
    assert "there is no role ps, or it starts only after this one" in done.stderr


def test_other_roles_have_their_lists_too(pretend: Pretend, image: MakeImage) -> None:
    launcher = pretend(told(worker=["10.0.0.1", "10.0.0.2"], ps=["10.0.0.3"], chief=["10.0.0.4"]))

    done = sourced(image("curl"), " && echo $chief_hosts", **by_launcher(launcher), chief_tasknum="1")

    assert done.stdout == "10.0.0.4\n"


def test_an_address_with_colons_has_brackets_before_its_port(pretend: Pretend, image: MakeImage) -> None:
    launcher = pretend(told(worker=["fd00::1", "fd00::2"], ps=["fd00::3"]))

    done = sourced(image("curl"), **by_launcher(launcher), worker_port="1")

    assert done.stdout == "[fd00::1]:1,[fd00::2]:1 fd00::3\n"


def test_it_waits_until_all_are_known(pretend: Pretend, image: MakeImage) -> None:
    launcher = pretend(
        Answer(202, '{"missing":["ps/0"],"message":"no address yet of ps/0"}'), Answer(503), ALL
    )

    done = sourced(image("curl"), **by_launcher(launcher))

    assert done.stdout == "10.0.0.1,10.0.0.2 10.0.0.3\n"
    assert "get_ips.sh: no address yet of ps/0\n" in done.stderr


def test_when_the_time_is_up_the_command_after_it_does_not_run(
    pretend: Pretend, image: MakeImage, shell: str
) -> None:
    launcher = pretend(Answer(202, '{"missing":["ps/0"],"message":"no address yet of ps/0"}'))

    done = sourced(image("curl", shell=shell), **by_launcher(launcher), LAUNCHER_TIMEOUT="1")

    assert (done.returncode, done.stdout) == (201, "")
    assert done.stderr.endswith("get_ips.sh: gave up after 1 s: no address yet of ps/0\n")


def test_a_refusal_is_final(pretend: Pretend, image: MakeImage) -> None:
    launcher = pretend(Answer(403, '{"message":"attempt 0 of this Framework is over"}'))

    done = sourced(image("curl"), **by_launcher(launcher))

    assert (done.returncode, done.stderr) == (210, "get_ips.sh: attempt 0 of this Framework is over\n")


def test_it_can_also_be_run(pretend: Pretend, image: MakeImage) -> None:
    here = image("curl")
    (here.directory / "get_ips.sh").write_text(program("get_ips.sh"))

    done = here.run("sh get_ips.sh", **by_launcher(pretend(Answer(404))))

    assert done.returncode == 210


@pytest.mark.parametrize("variable", ["LAUNCHER_API", "KUBE_APISERVER_ADDRESS"])
@pytest.mark.parametrize("asker", ASKERS)
def test_elsewhere_it_lists_pods_without_showing_who_asks(
    pretend: Pretend, image: MakeImage, asker: str, variable: str
) -> None:
    launcher = pretend(
        pods(pod("ps", 0, "10.0.0.3")), pods(pod("worker", 1, "10.0.0.2"), pod("worker", 0, "10.0.0.1"))
    )

    done = sourced(image(asker), **POD, **PORTS, **{variable: launcher.url}, LAUNCHER_TOKEN=launcher.token)

    assert done.stdout == "10.0.0.1:46866,10.0.0.2:46866 10.0.0.3:46867\n", done.stderr
    first = launcher.questions[0]
    assert first.path == "/api/v1/namespaces/default/pods"
    selector = "FC_FRAMEWORK_NAME=mnist,FC_FRAMEWORK_ATTEMPT_ID=0,FC_TASKROLE_NAME=ps"
    assert first.query == {"pretty": "false", "labelSelector": selector}
    assert "Authorization" not in first.headers


def test_a_list_of_pods_may_be_laid_out_for_people(pretend: Pretend, image: MakeImage) -> None:
    launcher = pretend(pods(pod("ps", 0, "10.0.0.3"), indent=2))

    done = sourced(
        image("curl"), " && echo $ps_hosts", framework_name="x", ps_tasknum="1", LAUNCHER_API=launcher.url
    )

    assert done.stdout == "10.0.0.3\n", done.stderr


def test_it_lists_pods_until_each_has_a_node(pretend: Pretend, image: MakeImage) -> None:
    half = pods(pod("ps", 0, "10.0.0.3"), pod("ps", 1, None))
    launcher = pretend(Answer(500), half, pods(pod("ps", 0, "10.0.0.3"), pod("ps", 1, "10.0.0.4")))
    variables = {"framework_name": "x", "ps_tasknum": "2", "LAUNCHER_API": launcher.url}

    done = sourced(image("curl"), " && echo $ps_hosts", **variables)

    assert done.stdout == "10.0.0.3,10.0.0.4\n", done.stderr
    assert "not all 2 tasks of role ps have an address yet" in done.stderr


def test_of_pods_too_it_waits_for_a_limited_time(pretend: Pretend, image: MakeImage) -> None:
    launcher = pretend(pods(pod("ps", 0, None)))
    variables = {"framework_name": "x", "ps_tasknum": "1", "LAUNCHER_API": launcher.url}

    done = sourced(image("curl"), **variables, LAUNCHER_TIMEOUT="1")

    assert done.returncode == 201
    assert "gave up after 1 s: not all 1 tasks of role ps have an address yet" in done.stderr


def test_what_it_cannot_do_without_is_named(pretend: Pretend, image: MakeImage) -> None:
    here = image("curl")

    nobody = sourced(here)
    nameless = sourced(here, worker_tasknum="1")

    assert (nobody.returncode, nameless.returncode) == (1, 1)
    assert "worker_tasknum and ps_tasknum are not set" in nobody.stderr
    assert "framework_name is not set" in nameless.stderr


def test_where_nobody_serves_that_is_said(image: MakeImage, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nowhere = f"http://127.0.0.1:{taken.getsockname()[1]}"
    variables = {"framework_name": "x", "ps_tasknum": "1", "LAUNCHER_API": nowhere}

    done = sourced(image("curl"), **variables, LAUNCHER_TIMEOUT="1")

    assert done.returncode == 1
    assert f"{nowhere}: the launcher cannot be reached (" in done.stderr

"""``source get_ips.sh``: the addresses of workers and parameter servers, as the samples of the manual expect them."""

import json
import socket
import subprocess
from typing import Any

import pytest

from launcher.rendezvous.container_programs import program_text
from tests.rendezvous.programs.conftest import MakeImage, StartLauncher
from tests.rendezvous.programs.fake_launcher import ATTEMPT_PATH, FakeLauncher, FakeResponse
from tests.rendezvous.programs.image import HTTP_CLIENTS, ProgramImage

PRINT_HOSTS = ' && echo "$worker_hosts $ps_hosts"'
#: Variables of every container of a Framework with two workers and one parameter server.
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
MISSING = FakeResponse(202, '{"missing":["ps/0"],"message":"waiting for addresses of ps-0"}')


def hosts_json(**roles: list[str]) -> FakeResponse:
    """Addresses of the nodes of all tasks; the addresses of the pods are different."""
    peers = {
        role: [
            {"index": index, "ip": f"172.16.0.{index}", "hostIP": ip, "host": f"mnist-{role}-{index}"}
            for index, ip in enumerate(addresses)
        ]
        for role, addresses in roles.items()
    }
    return FakeResponse(200, json.dumps({"generation": 1, "roles": peers}, separators=(",", ":")) + "\n")


COMPLETE = hosts_json(worker=["10.0.0.1", "10.0.0.2"], ps=["10.0.0.3"])


def a_listed_pod(role: str, index: int, address: str | None) -> dict[str, Any]:
    """A pod as an API server lists it, with text of the user that looks like an address."""
    identity = {"FC_TASKROLE_NAME": role, "FC_TASK_INDEX": str(index)}
    text = 'echo ,"FC_TASK_INDEX":"7",{"hostIP":"6.6.6.6"}'
    container = {"command": ["sh", "-c", text], "env": [{"name": "FC_TASK_INDEX", "value": "7"}]}
    return {
        "metadata": {
            "name": f"mnist-{role}-{index}",
            "labels": identity,
            "annotations": {"note": text, **identity},
        },
        "spec": {"containers": [container]},
        "status": {} if address is None else {"hostIP": address, "hostIPs": [{"ip": address}]},
    }


def pod_list(*items: dict[str, Any], indent: int | None = None) -> FakeResponse:
    obj = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items}
    return FakeResponse(200, json.dumps(obj, indent=indent, separators=None if indent else (",", ":")))


def install(image: ProgramImage) -> None:
    (image.directory / "get_ips.sh").write_text(program_text("get_ips.sh"))


def source(
    image: ProgramImage, then: str = PRINT_HOSTS, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Sources get_ips.sh in its directory, as the samples of the manual do."""
    install(image)
    return image.run(". ./get_ips.sh" + then, **variables)


def pod_environment(launcher: FakeLauncher) -> dict[str, str]:
    return {**POD, "LAUNCHER_RENDEZVOUS": launcher.attempt_url, "LAUNCHER_TOKEN": launcher.token}


@pytest.mark.parametrize("http_client", HTTP_CLIENTS)
def test_it_sets_the_addresses_of_all_tasks_with_their_ports(
    start_launcher: StartLauncher, make_image: MakeImage, shell: str, http_client: str
) -> None:
    launcher = start_launcher(COMPLETE)

    done = source(make_image(http_client, shell=shell), **pod_environment(launcher), **PORTS)

    assert done.stdout == "10.0.0.1:46866,10.0.0.2:46866 10.0.0.3:46867\n", done.stderr
    [request] = launcher.requests
    assert request.path == ATTEMPT_PATH
    assert {**request.query, "wait": ""} == {"format": "hosts.json", "task": "ps/0", "wait": ""}
    assert request.headers["Authorization"] == f"Bearer {launcher.token}"


@pytest.mark.parametrize("http_client", HTTP_CLIENTS)
def test_only_the_wget_of_busybox_exposes_the_token(
    start_launcher: StartLauncher, make_image: MakeImage, http_client: str
) -> None:
    launcher = start_launcher(COMPLETE)

    source(make_image(http_client), **pod_environment(launcher))

    assert bool(launcher.requests[0].exposing_programs) is http_client.startswith("busybox")


def test_without_ports_the_lists_contain_addresses_only(
    start_launcher: StartLauncher, make_image: MakeImage, shell: str
) -> None:
    done = source(make_image("curl", shell=shell), **pod_environment(start_launcher(COMPLETE)))

    assert (done.stdout, done.stderr) == ("10.0.0.1,10.0.0.2 10.0.0.3\n", "")


def test_the_sample_of_the_manual_works_in_bash(start_launcher: StartLauncher, make_image: MakeImage) -> None:
    image = make_image("curl", shell="bash")
    install(image)
    sample = "export framework_name=tf-example && source ./get_ips.sh && echo $ps_hosts:49867"

    done = image.run(sample, **{**pod_environment(start_launcher(COMPLETE)), "framework_name": "mnist"})

    assert done.stdout == "10.0.0.3:49867\n", done.stderr


def test_only_the_lists_are_exported(
    start_launcher: StartLauncher, make_image: MakeImage, shell: str
) -> None:
    image = make_image("curl", shell=shell)
    install(image)
    script = "set >before; . ./get_ips.sh; set >after; env | sort | sed -n '/_hosts=/p'"

    done = image.run(script, **pod_environment(start_launcher(COMPLETE)))

    assert done.stdout == "ps_hosts=10.0.0.3\nworker_hosts=10.0.0.1,10.0.0.2\n"
    before, after = (
        {line.partition("=")[0] for line in (image.directory / file).read_text().splitlines() if "=" in line}
        for file in ("before", "after")
    )
    of_shell = {"_", "BASH_LINENO", "PIPESTATUS", "OPTIND", "LINENO"}
    assert after - before - of_shell == {"worker_hosts", "ps_hosts"}


def test_fewer_tasks_than_there_are_can_be_requested(
    start_launcher: StartLauncher, make_image: MakeImage
) -> None:
    done = source(make_image("curl"), **{**pod_environment(start_launcher(COMPLETE)), "worker_tasknum": "1"})

    assert done.stdout == "10.0.0.1 10.0.0.3\n"


def test_more_tasks_than_there_are_is_an_error(start_launcher: StartLauncher, make_image: MakeImage) -> None:
    variables = {**pod_environment(start_launcher(COMPLETE)), "worker_tasknum": "3"}

    done = source(make_image("curl"), "; echo $?", **variables)

    assert done.stdout == "1\n"
    assert "worker_tasknum is 3, but role worker has fewer tasks" in done.stderr


def test_a_role_without_addresses_is_an_error(start_launcher: StartLauncher, make_image: MakeImage) -> None:
    launcher = start_launcher(hosts_json(worker=["1.1.1.1", "1.1.1.2"]))

    done = source(make_image("curl"), "; echo $?", **pod_environment(launcher))

    assert done.stdout == "1\n"
    assert "ps_tasknum is 1, but role ps does not exist or starts after this role" in done.stderr


def test_other_roles_have_lists_too(start_launcher: StartLauncher, make_image: MakeImage) -> None:
    launcher = start_launcher(
        hosts_json(worker=["10.0.0.1", "10.0.0.2"], ps=["10.0.0.3"], chief=["10.0.0.4"])
    )

    done = source(make_image("curl"), " && echo $chief_hosts", **pod_environment(launcher), chief_tasknum="1")

    assert done.stdout == "10.0.0.4\n"


def test_an_ipv6_address_with_a_port_has_brackets(
    start_launcher: StartLauncher, make_image: MakeImage
) -> None:
    launcher = start_launcher(hosts_json(worker=["fd00::1", "fd00::2"], ps=["fd00::3"]))

    done = source(make_image("curl"), **pod_environment(launcher), worker_port="1")

    assert done.stdout == "[fd00::1]:1,[fd00::2]:1 fd00::3\n"


def test_it_waits_until_all_addresses_are_known(start_launcher: StartLauncher, make_image: MakeImage) -> None:
    launcher = start_launcher(MISSING, FakeResponse(503), COMPLETE)

    done = source(make_image("curl"), **pod_environment(launcher))

    assert done.stdout == "10.0.0.1,10.0.0.2 10.0.0.3\n"
    assert "get_ips.sh: waiting for addresses of ps-0\n" in done.stderr


def test_after_the_timeout_the_next_command_does_not_run(
    start_launcher: StartLauncher, make_image: MakeImage, shell: str
) -> None:
    launcher = start_launcher(MISSING)

    done = source(make_image("curl", shell=shell), **pod_environment(launcher), LAUNCHER_TIMEOUT="1")

    assert (done.returncode, done.stdout) == (201, "")
    assert done.stderr.endswith("get_ips.sh: timed out after 1s: waiting for addresses of ps-0\n")


def test_a_forbidden_request_is_not_retried(start_launcher: StartLauncher, make_image: MakeImage) -> None:
    launcher = start_launcher(FakeResponse(403, '{"message":"attempt 0 of this Framework has ended"}'))

    done = source(make_image("curl"), **pod_environment(launcher))

    assert (done.returncode, done.stderr) == (210, "get_ips.sh: attempt 0 of this Framework has ended\n")


def test_when_it_is_run_instead_of_sourced_it_exits(
    start_launcher: StartLauncher, make_image: MakeImage
) -> None:
    image = make_image("curl")
    install(image)

    done = image.run("sh get_ips.sh", **pod_environment(start_launcher(FakeResponse(404))))

    assert done.returncode == 210


@pytest.mark.parametrize("variable", ["LAUNCHER_API", "KUBE_APISERVER_ADDRESS"])
@pytest.mark.parametrize("http_client", HTTP_CLIENTS)
def test_outside_of_pods_it_lists_pods_without_a_token(
    start_launcher: StartLauncher, make_image: MakeImage, http_client: str, variable: str
) -> None:
    launcher = start_launcher(
        pod_list(a_listed_pod("ps", 0, "10.0.0.3")),
        pod_list(a_listed_pod("worker", 1, "10.0.0.2"), a_listed_pod("worker", 0, "10.0.0.1")),
    )
    variables = {**POD, **PORTS, variable: launcher.url, "LAUNCHER_TOKEN": launcher.token}

    done = source(make_image(http_client), **variables)

    assert done.stdout == "10.0.0.1:46866,10.0.0.2:46866 10.0.0.3:46867\n", done.stderr
    first = launcher.requests[0]
    assert first.path == "/api/v1/namespaces/default/pods"
    selector = "FC_FRAMEWORK_NAME=mnist,FC_FRAMEWORK_ATTEMPT_ID=0,FC_TASKROLE_NAME=ps"
    assert first.query == {"pretty": "false", "labelSelector": selector}
    assert "Authorization" not in first.headers


def test_an_indented_list_of_pods_is_parsed(start_launcher: StartLauncher, make_image: MakeImage) -> None:
    launcher = start_launcher(pod_list(a_listed_pod("ps", 0, "10.0.0.3"), indent=2))
    variables = {"framework_name": "x", "ps_tasknum": "1", "LAUNCHER_API": launcher.url}

    done = source(make_image("curl"), " && echo $ps_hosts", **variables)

    assert done.stdout == "10.0.0.3\n", done.stderr


def test_it_lists_pods_until_each_has_an_address(
    start_launcher: StartLauncher, make_image: MakeImage
) -> None:
    first = a_listed_pod("ps", 0, "10.0.0.3")
    launcher = start_launcher(
        FakeResponse(500),
        pod_list(first, a_listed_pod("ps", 1, None)),
        pod_list(first, a_listed_pod("ps", 1, "10.0.0.4")),
    )
    variables = {"framework_name": "x", "ps_tasknum": "2", "LAUNCHER_API": launcher.url}

    done = source(make_image("curl"), " && echo $ps_hosts", **variables)

    assert done.stdout == "10.0.0.3,10.0.0.4\n", done.stderr
    assert "not all 2 tasks of role ps have an address" in done.stderr


def test_listing_pods_has_a_timeout(start_launcher: StartLauncher, make_image: MakeImage) -> None:
    launcher = start_launcher(pod_list(a_listed_pod("ps", 0, None)))
    variables = {"framework_name": "x", "ps_tasknum": "1", "LAUNCHER_API": launcher.url}

    done = source(make_image("curl"), **variables, LAUNCHER_TIMEOUT="1")

    assert done.returncode == 201
    assert "timed out after 1s: not all 1 tasks of role ps have an address" in done.stderr


def test_missing_variables_are_named(make_image: MakeImage) -> None:
    image = make_image("curl")

    without_tasknum = source(image)
    without_name = source(image, worker_tasknum="1")

    assert (without_tasknum.returncode, without_name.returncode) == (1, 1)
    assert "worker_tasknum and ps_tasknum are not set" in without_tasknum.stderr
    assert "framework_name is not set" in without_name.stderr


def test_a_server_that_cannot_be_reached_is_named(make_image: MakeImage) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    variables = {"framework_name": "x", "ps_tasknum": "1", "LAUNCHER_API": url}

    done = source(make_image("curl"), **variables, LAUNCHER_TIMEOUT="1")

    assert done.returncode == 1
    assert f"{url}: the launcher cannot be reached (" in done.stderr

"""``launcher simpletfjob``; the numbers are those of the specification's test cases."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from launcher.cli.main import main
from launcher.store.interface import NODES
from tests.cli.in_memory_launcher import InMemoryLauncher

Capture = pytest.CaptureFixture[str]
Json = dict[str, Any]

JOB = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: mnist-{{.type}}-{{.index}}
spec:
  template:
    spec:
      nodeName: {{.host}}
      hostNetwork: true
      containers:
        - name: main
          image: tf:1
          env:
            - name: TF_CONFIG
              value: >
{{.TF_CONFIG}}
      restartPolicy: OnFailure
  backoffLimit: 4
"""
HOSTS = "--nodes=h10,h100,h14,h2,h23"


@pytest.fixture(autouse=True)
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with a template in it and without a kubeconfig."""
    (tmp_path / "mnist.yaml").write_text(JOB)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "LAUNCHER_SERVER"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def cluster(server: InMemoryLauncher) -> InMemoryLauncher:
    """A launcher with five schedulable nodes and three others."""
    control_plane = {"taints": [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]}
    for name in ("h23", "h2", "h14", "h100", "h10"):
        add_node(server, name)
    add_node(server, "h0", {"unschedulable": True})
    add_node(server, "h1", control_plane)
    add_node(server, "h3", ready="Unknown")
    return server


def add_node(server: InMemoryLauncher, name: str, spec: Json | None = None, ready: str = "True") -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec or {}}
    server.call(server.store.create(NODES, node))
    stored = server.call(server.store.get(NODES, "", name))
    status = {"conditions": [{"type": "Ready", "status": ready}]}
    server.call(server.store.update_status(NODES, {**stored, "status": status}))


def hosts_of_jobs(path: str = "mnist_tfjob.yaml") -> list[str]:
    """The host of each Job, in the order of the output."""
    return [job["spec"]["template"]["spec"]["nodeName"] for job in yaml.safe_load_all(Path(path).read_text())]


def names_of_jobs() -> list[str]:
    return [job["metadata"]["name"] for job in yaml.safe_load_all(Path("mnist_tfjob.yaml").read_text())]


def test_68_a_template_is_filled_in_for_each_machine_and_the_output_named(capsys: Capture) -> None:
    assert main(["simpletfjob", "mnist.yaml", HOSTS, "-N", "3"]) == 0

    assert capsys.readouterr() == ("mnist_tfjob.yaml\n", "")
    assert names_of_jobs() == ["mnist-ps-0", "mnist-worker-0", "mnist-worker-1"]
    assert hosts_of_jobs() == ["h10", "h100", "h14"]


def test_69_machines_are_sorted_by_the_bytes_of_their_names(
    cluster: InMemoryLauncher, capsys: Capture
) -> None:
    assert main(["simpletfjob", "mnist.yaml"]) == 0

    assert hosts_of_jobs() == ["h10", "h100", "h14", "h2", "h23"]


@pytest.mark.parametrize("number", [["-N", "0"], ["-N", "-1"], ["--num=-1"], []])
def test_70_all_machines_are_used_without_a_number(number: list[str]) -> None:
    assert main(["simpletfjob", "mnist.yaml", HOSTS, *number]) == 0

    assert len(hosts_of_jobs()) == 5


@pytest.mark.parametrize(("number", "error"), [("9", "only 5 nodes are available"), ("-3", "or -1 for all")])
def test_71_an_impossible_number_is_rejected(number: str, error: str, capsys: Capture) -> None:
    assert main(["simpletfjob", "mnist.yaml", HOSTS, "-N", number]) == 2

    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"-N {number}: ")
    assert error in printed.err
    assert not Path("mnist_tfjob.yaml").exists()


def test_72_the_first_machines_are_parameter_servers() -> None:
    assert main(["simpletfjob", "mnist.yaml", HOSTS, "--psn", "2", "-N", "5"]) == 0

    assert names_of_jobs() == [
        f"mnist-{task}" for task in ("ps-0", "ps-1", "worker-0", "worker-1", "worker-2")
    ]


@pytest.mark.parametrize("arguments", [["--psn", "3", "-N", "3"], ["--psn", "0"], ["-N", "1"]])
def test_73_at_least_one_parameter_server_and_one_worker_are_required(
    arguments: list[str], capsys: Capture
) -> None:
    assert main(["simpletfjob", "mnist.yaml", HOSTS, *arguments]) == 2

    assert capsys.readouterr().err.startswith("--psn ")


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["mnist.yaml", "-E"], id="at the end"),
        pytest.param(["-E", "mnist.yaml"], id="before the template"),
        pytest.param(["mnist.yaml", "-E", "exc"], id="with its own file"),
        pytest.param(["-E", "exc", "mnist.yaml"], id="with its own file, before the template"),
        pytest.param(["--exc", "mnist.yaml"], id="in full"),
    ],
)
def test_74_machines_of_the_file_exc_are_excluded(arguments: list[str], capsys: Capture) -> None:
    Path("exc").write_bytes(b" h10\r\n\r\nh14  \r\nh23\n\n")

    assert main(["simpletfjob", *arguments, HOSTS]) == 0

    assert hosts_of_jobs() == ["h100", "h2"]
    assert capsys.readouterr().err == ""


def test_machines_of_another_file_are_excluded() -> None:
    Path("busy.txt").write_text("h2\n")

    assert main(["simpletfjob", "mnist.yaml", HOSTS, "-N", "4", "-E", "busy.txt"]) == 0

    assert hosts_of_jobs() == ["h10", "h100", "h14", "h23"]


def test_an_excluded_machine_that_does_not_exist_is_reported(capsys: Capture) -> None:
    Path("exc").write_text("h11\n")

    assert main(["simpletfjob", "mnist.yaml", HOSTS, "-E"]) == 0

    assert capsys.readouterr().err == "exc: unknown machine h11\n"


def test_75_a_missing_file_of_excluded_machines_is_an_error(capsys: Capture) -> None:
    assert main(["simpletfjob", "mnist.yaml", HOSTS, "-E"]) == 2

    assert capsys.readouterr().err == "-E: exc: No such file or directory\n"


@pytest.mark.parametrize(
    ("template", "output"),
    [
        ("x/y/mnist.yaml", "x/y/mnist_tfjob.yaml"),
        ("mnist", "mnist_tfjob.yaml"),
        ("m.yml", "m.yml_tfjob.yaml"),
    ],
)
def test_76_the_output_file_is_beside_the_template(template: str, output: str, capsys: Capture) -> None:
    Path(template).parent.mkdir(parents=True, exist_ok=True)
    Path(template).write_text(JOB)

    assert main(["simpletfjob", template, HOSTS, "-N3"]) == 0

    assert capsys.readouterr().out == f"{output}\n"
    assert len(hosts_of_jobs(output)) == 3


def test_77_no_newline_ends_the_output() -> None:
    Path("mnist.yaml").write_text(f"{JOB}\n\n\n")

    assert main(["simpletfjob", "mnist.yaml", HOSTS]) == 0

    assert Path("mnist_tfjob.yaml").read_bytes().endswith(b"backoffLimit: 4")


def test_78_an_unknown_variable_is_an_error_and_nothing_is_written(capsys: Capture) -> None:
    Path("mnist.yaml").write_text("a: 1\nb: {{.nope}}\n")

    assert main(["simpletfjob", "mnist.yaml", HOSTS]) == 2

    assert capsys.readouterr().err.startswith("mnist.yaml: line 2: no variable {{.nope}}; there are ")
    assert not Path("mnist_tfjob.yaml").exists()


def test_79_a_template_may_decide_by_type() -> None:
    Path("mnist.yaml").write_text('{{if eq .type "ps"}}a{{else}}b{{end}}')

    assert main(["simpletfjob", "mnist.yaml", HOSTS, "-N", "2"]) == 0

    assert Path("mnist_tfjob.yaml").read_text() == "a\n---\nb"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        pytest.param(["nope.yaml", HOSTS], "nope.yaml: No such file or directory", id="no template"),
        pytest.param([], "FILE: required", id="no name of one"),
        pytest.param(["-E"], "FILE: required", id="-E alone"),
        pytest.param(["mnist.yaml", HOSTS, "--psf", "x"], "--psf: not supported; ", id="--psf"),
        pytest.param(["mnist.yaml", "--nodes=a,b,a"], "--nodes: each machine may be listed once", id="twice"),
        pytest.param(["mnist.yaml", HOSTS, "--wait"], "--wait: only together with --submit", id="--wait"),
        pytest.param(["mnist.yaml", HOSTS, "--dry-run"], "--dry-run: only together", id="--dry-run"),
        pytest.param(["mnist.yaml", "--kubeconfig=nope"], "kubeconfig nope: ", id="no kubeconfig"),
    ],
)
def test_errors_of_the_arguments_are_reported_with_a_remedy(
    arguments: list[str], error: str, capsys: Capture
) -> None:
    assert main(["simpletfjob", *arguments]) == 2

    assert capsys.readouterr().err.startswith(error)


def test_a_template_that_is_not_text_is_rejected(capsys: Capture) -> None:
    Path("mnist.yaml").write_bytes(b"\xff\xfe")

    assert main(["simpletfjob", "mnist.yaml", HOSTS]) == 2

    assert capsys.readouterr().err == "mnist.yaml: not a text file in UTF-8\n"


def test_an_output_file_that_cannot_be_written_is_an_error(capsys: Capture) -> None:
    Path("mnist_tfjob.yaml").mkdir()

    assert main(["simpletfjob", "mnist.yaml", HOSTS]) == 2

    assert capsys.readouterr().err == "mnist_tfjob.yaml: Is a directory\n"


@pytest.mark.parametrize("port", ["0", "65536", "x", "-1"])
def test_an_invalid_port_is_rejected(port: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["simpletfjob", "mnist.yaml", HOSTS, f"--port={port}"])

    assert "must be a port from 1 to 65535" in capsys.readouterr().err


def test_unschedulable_machines_are_excluded_and_reported(cluster: InMemoryLauncher, capsys: Capture) -> None:
    assert main(["simpletfjob", "mnist.yaml", "-N", "2"]) == 0

    assert capsys.readouterr().err.splitlines() == [
        "h0 is excluded: cordoned (--all-nodes includes it)",
        "h1 is excluded: reserved for the control plane (--all-nodes includes it)",
        "h3 is excluded: not ready (--all-nodes includes it)",
    ]


def test_all_nodes_includes_every_machine(cluster: InMemoryLauncher, capsys: Capture) -> None:
    assert main(["simpletfjob", "mnist.yaml", "--all-nodes"]) == 0

    assert hosts_of_jobs() == ["h0", "h1", "h10", "h100", "h14", "h2", "h23", "h3"]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("where", ["home", "variable", "flag"])
def test_the_machines_are_those_of_a_kubeconfig(
    where: str, cluster: InMemoryLauncher, working_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = working_directory / (".kube/config" if where == "home" else "elsewhere")
    file.parent.mkdir(exist_ok=True)
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": cluster.url}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    file.write_text(yaml.safe_dump(config))
    if where == "variable":
        monkeypatch.setenv("KUBECONFIG", str(file))
    # It would have precedence, but no server listens there.
    monkeypatch.setenv("LAUNCHER_SERVER", "http://127.0.0.1:1" if where == "flag" else "")
    flag = ["--kubeconfig", str(file), "--context", "c"] if where == "flag" else []

    assert main(["simpletfjob", "mnist.yaml", "-N", "3", *flag]) == 0

    assert hosts_of_jobs() == ["h10", "h100", "h14"]


def test_without_a_cluster_the_error_lists_all_options(
    free_port: int, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("LAUNCHER_SERVER", f"http://127.0.0.1:{free_port}")

    assert main(["simpletfjob", "mnist.yaml"]) == 1

    printed = capsys.readouterr().err
    assert all(option in printed for option in ("--server", "--kubeconfig", "--nodes"))


def test_the_result_is_submitted_with_submit(cluster: InMemoryLauncher, capsys: Capture) -> None:
    assert main(["simpletfjob", "mnist.yaml", "-N", "3", "--submit"]) == 0

    printed = capsys.readouterr()
    assert printed.out == "framework/mnist submitted\n"
    assert "mnist_tfjob.yaml: written\n" in printed.err
    assert "mnist_tfjob.yaml: note: each worker becomes a role" in printed.err
    assert hosts_of_jobs() == ["h10", "h100", "h14"]
    assert [role["name"] for role in cluster.get("mnist")["spec"]["taskRoles"]] == [
        "ps",
        "worker0",
        "worker1",
    ]


def test_a_submitted_framework_succeeds_when_all_workers_succeed(
    cluster: InMemoryLauncher, capsys: Capture
) -> None:
    main(["simpletfjob", "mnist.yaml", "-N", "3", "--submit"])
    for pod in ("mnist-ps-0", "mnist-worker0-0", "mnist-worker1-0"):
        cluster.run(pod)

    cluster.end("mnist-worker0-0")
    assert cluster.get("mnist")["status"]["state"] != "Completed"
    cluster.end("mnist-worker1-0")
    cluster.remove("mnist-ps-0")

    assert main(["wait", "mnist", "--timeout", "30"]) == 0


def test_a_dry_run_prints_the_objects(cluster: InMemoryLauncher, capsys: Capture) -> None:
    assert main(["simpletfjob", "mnist.yaml", "-N", "2", "--submit", "--dry-run", "-o", "yaml"]) == 0

    assert yaml.safe_load(capsys.readouterr().out)["metadata"]["name"] == "mnist"
    assert cluster.names() == []


def test_an_invalid_template_is_rejected_and_not_submitted(
    cluster: InMemoryLauncher, capsys: Capture
) -> None:
    Path("mnist.yaml").write_text(JOB.replace("backoffLimit: 4", "parallelism: 2"))

    assert main(["simpletfjob", "mnist.yaml", "-N", "2", "--submit"]) == 2

    assert "mnist_tfjob.yaml: Job mnist-ps-0: spec.parallelism: Invalid value: 2" in capsys.readouterr().err
    assert cluster.names() == []


def test_an_invalid_framework_is_rejected_with_its_fields(cluster: InMemoryLauncher, capsys: Capture) -> None:
    Path("mnist.yaml").write_text(JOB.replace("mnist-", "Mnist-"))

    assert main(["simpletfjob", "mnist.yaml", "-N", "2", "--submit"]) == 2

    assert 'mnist_tfjob.yaml: metadata.name: Invalid value: "Mnist"' in capsys.readouterr().err


def test_a_link_called_simpletfjob_is_that_command(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr("sys.argv", ["/usr/local/bin/simpletfjob", "mnist.yaml", HOSTS, "-N", "3"])

    assert main() == 0

    assert capsys.readouterr().out == "mnist_tfjob.yaml\n"


def test_a_link_of_another_name_is_the_launcher(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr("sys.argv", ["/usr/local/bin/launcher", "completion", "bash"])

    assert main() == 0
    assert "_launcher" in capsys.readouterr().out

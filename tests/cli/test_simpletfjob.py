"""``launcher simpletfjob``; the numbers are those of the specification's test cases."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from launcher.cli.main import main
from launcher.store.interface import NODES
from tests.cli.world import World

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
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with a template in it, and no cluster in sight."""
    (tmp_path / "mnist.yaml").write_text(JOB)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "LAUNCHER_SERVER"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def cluster(world: World) -> World:
    """A launcher with five machines that can be used and three that cannot."""
    control_plane = {"taints": [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]}
    for name in ("h23", "h2", "h14", "h100", "h10"):
        add_node(world, name)
    add_node(world, "h0", {"unschedulable": True})
    add_node(world, "h1", control_plane)
    add_node(world, "h3", ready="Unknown")
    return world


def add_node(world: World, name: str, spec: Json | None = None, ready: str = "True") -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec or {}}
    world._call(world.store.create(NODES, node))
    stored = world._call(world.store.get(NODES, "", name))
    status = {"conditions": [{"type": "Ready", "status": ready}]}
    world._call(world.store.update_status(NODES, {**stored, "status": status}))


def hosts_made(path: str = "mnist_tfjob.yaml") -> list[str]:
    """Where each Job goes, in the order of the output."""
    return [job["spec"]["template"]["spec"]["nodeName"] for job in yaml.safe_load_all(Path(path).read_text())]


def names_made() -> list[str]:
    return [job["metadata"]["name"] for job in yaml.safe_load_all(Path("mnist_tfjob.yaml").read_text())]


def test_68_a_template_is_filled_in_for_each_machine_and_the_output_named(capsys: Capture) -> None:
    assert main(["simpletfjob", "mnist.yaml", HOSTS, "-N", "3"]) == 0

    assert capsys.readouterr() == ("mnist_tfjob.yaml\n", "")
    assert names_made() == ["mnist-ps-0", "mnist-worker-0", "mnist-worker-1"]
    assert hosts_made() == ["h10", "h100", "h14"]


def test_69_machines_are_taken_byte_by_byte_in_order_of_their_names(cluster: World, capsys: Capture) -> None:
    assert main(["simpletfjob", "mnist.yaml"]) == 0

    assert hosts_made() == ["h10", "h100", "h14", "h2", "h23"]


@pytest.mark.parametrize("number", [["-N", "0"], ["-N", "-1"], ["--num=-1"], []])
def test_70_all_machines_are_taken_unless_a_number_is_given(number: list[str]) -> None:
    assert main(["simpletfjob", "mnist.yaml", HOSTS, *number]) == 0

    assert len(hosts_made()) == 5


@pytest.mark.parametrize(
    ("number", "complaint"), [("9", "the machines to use are only 5"), ("-3", "or -1 for all")]
)
def test_71_a_number_that_cannot_be_is_refused(number: str, complaint: str, capsys: Capture) -> None:
    assert main(["simpletfjob", "mnist.yaml", HOSTS, "-N", number]) == 2

    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"-N {number}: ")
    assert complaint in told.err
    assert not Path("mnist_tfjob.yaml").exists()


def test_72_the_first_machines_are_parameter_servers() -> None:
    assert main(["simpletfjob", "mnist.yaml", HOSTS, "--psn", "2", "-N", "5"]) == 0

    assert names_made() == [f"mnist-{task}" for task in ("ps-0", "ps-1", "worker-0", "worker-1", "worker-2")]


@pytest.mark.parametrize("words", [["--psn", "3", "-N", "3"], ["--psn", "0"], ["-N", "1"]])
def test_73_without_parameter_server_or_worker_it_is_refused(words: list[str], capsys: Capture) -> None:
    assert main(["simpletfjob", "mnist.yaml", HOSTS, *words]) == 2

    assert capsys.readouterr().err.startswith("--psn ")


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["mnist.yaml", "-E"], id="at the end"),
        pytest.param(["-E", "mnist.yaml"], id="before the template"),
        pytest.param(["mnist.yaml", "-E", "exc"], id="with its own file"),
        pytest.param(["-E", "exc", "mnist.yaml"], id="with its own file, before the template"),
        pytest.param(["--exc", "mnist.yaml"], id="in full"),
    ],
)
def test_74_machines_of_the_file_exc_are_left_out(words: list[str], capsys: Capture) -> None:
    Path("exc").write_bytes(b" h10\r\n\r\nh14  \r\nh23\n\n")

    assert main(["simpletfjob", *words, HOSTS]) == 0

    assert hosts_made() == ["h100", "h2"]
    assert capsys.readouterr().err == ""


def test_machines_of_another_file_are_left_out_as_its_manual_says() -> None:
    Path("busy.txt").write_text("h2\n")

    assert main(["simpletfjob", "mnist.yaml", HOSTS, "-N", "4", "-E", "busy.txt"]) == 0

    assert hosts_made() == ["h10", "h100", "h14", "h23"]


def test_a_machine_to_leave_out_that_there_is_not_is_told(capsys: Capture) -> None:
    Path("exc").write_text("h11\n")

    assert main(["simpletfjob", "mnist.yaml", HOSTS, "-E"]) == 0

    assert capsys.readouterr().err == "exc: there is no machine h11\n"


def test_75_a_missing_file_of_machines_to_leave_out_is_refused(capsys: Capture) -> None:
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
def test_76_the_output_stands_beside_the_template(template: str, output: str, capsys: Capture) -> None:
    Path(template).parent.mkdir(parents=True, exist_ok=True)
    Path(template).write_text(JOB)

    assert main(["simpletfjob", template, HOSTS, "-N3"]) == 0

    assert capsys.readouterr().out == f"{output}\n"
    assert len(hosts_made(output)) == 3


def test_77_no_newline_ends_the_output() -> None:
    Path("mnist.yaml").write_text(f"{JOB}\n\n\n")

    assert main(["simpletfjob", "mnist.yaml", HOSTS]) == 0

    assert Path("mnist_tfjob.yaml").read_bytes().endswith(b"backoffLimit: 4")


def test_78_an_unknown_variable_is_refused_and_nothing_written(capsys: Capture) -> None:
    Path("mnist.yaml").write_text("a: 1\nb: {{.nope}}\n")

    assert main(["simpletfjob", "mnist.yaml", HOSTS]) == 2

    assert capsys.readouterr().err.startswith(
        "mnist.yaml: line 2: there is no variable {{.nope}}; there are "
    )
    assert not Path("mnist_tfjob.yaml").exists()


def test_79_a_template_may_decide_by_type() -> None:
    Path("mnist.yaml").write_text('{{if eq .type "ps"}}a{{else}}b{{end}}')

    assert main(["simpletfjob", "mnist.yaml", HOSTS, "-N", "2"]) == 0

    assert Path("mnist_tfjob.yaml").read_text() == "a\n---\nb"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        pytest.param(["nope.yaml", HOSTS], "nope.yaml: No such file or directory", id="no template"),
        pytest.param([], "FILE: name the template", id="no name of one"),
        pytest.param(["-E"], "FILE: name the template", id="-E alone"),
        pytest.param(["mnist.yaml", HOSTS, "--psf", "x"], "--psf: simpletfjob never had it; ", id="--psf"),
        pytest.param(["mnist.yaml", "--nodes=a,b,a"], "--nodes: a machine is named twice", id="twice"),
        pytest.param(["mnist.yaml", HOSTS, "--wait"], "--wait: only together with --submit", id="--wait"),
        pytest.param(["mnist.yaml", HOSTS, "--dry-run"], "--dry-run: only together", id="--dry-run"),
        pytest.param(["mnist.yaml", "--kubeconfig=nope"], "kubeconfig nope: ", id="no kubeconfig"),
    ],
)
def test_where_the_original_would_have_crashed_the_way_out_is_told(
    words: list[str], complaint: str, capsys: Capture
) -> None:
    assert main(["simpletfjob", *words]) == 2

    assert capsys.readouterr().err.startswith(complaint)


def test_a_template_that_is_no_text_is_refused(capsys: Capture) -> None:
    Path("mnist.yaml").write_bytes(b"\xff\xfe")

    assert main(["simpletfjob", "mnist.yaml", HOSTS]) == 2

    assert capsys.readouterr().err == "mnist.yaml: it is no text in UTF-8\n"


def test_output_that_cannot_be_written_is_refused(capsys: Capture) -> None:
    Path("mnist_tfjob.yaml").mkdir()

    assert main(["simpletfjob", "mnist.yaml", HOSTS]) == 2

    assert capsys.readouterr().err == "mnist_tfjob.yaml: Is a directory\n"


@pytest.mark.parametrize("port", ["0", "65536", "x", "-1"])
def test_a_port_that_is_none_is_refused(port: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["simpletfjob", "mnist.yaml", HOSTS, f"--port={port}"])

    assert "is no port: 1 to 65535" in capsys.readouterr().err


def test_machines_that_are_unfit_are_left_out_and_told(cluster: World, capsys: Capture) -> None:
    assert main(["simpletfjob", "mnist.yaml", "-N", "2"]) == 0

    assert capsys.readouterr().err.splitlines() == [
        "h0 is left out: it is cordoned (--all-nodes takes it all the same)",
        "h1 is left out: it is kept for the control plane (--all-nodes takes it all the same)",
        "h3 is left out: it is not ready (--all-nodes takes it all the same)",
    ]


def test_every_machine_is_taken_when_asked_for(cluster: World, capsys: Capture) -> None:
    assert main(["simpletfjob", "mnist.yaml", "--all-nodes"]) == 0

    assert hosts_made() == ["h0", "h1", "h10", "h100", "h14", "h2", "h23", "h3"]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("where", ["home", "variable", "flag"])
def test_the_machines_are_those_of_a_kubeconfig(
    where: str, cluster: World, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = here / (".kube/config" if where == "home" else "elsewhere")
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
    # Would be asked first if it were named, and nobody answers there.
    monkeypatch.setenv("LAUNCHER_SERVER", "http://127.0.0.1:1" if where == "flag" else "")
    flag = ["--kubeconfig", str(file), "--context", "c"] if where == "flag" else []

    assert main(["simpletfjob", "mnist.yaml", "-N", "3", *flag]) == 0

    assert hosts_made() == ["h10", "h100", "h14"]


def test_without_any_cluster_every_way_out_is_told(
    free_port: int, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("LAUNCHER_SERVER", f"http://127.0.0.1:{free_port}")

    assert main(["simpletfjob", "mnist.yaml"]) == 1

    told = capsys.readouterr().err
    assert all(option in told for option in ("--server", "--kubeconfig", "--nodes"))


def test_what_is_made_can_be_submitted_at_once(cluster: World, capsys: Capture) -> None:
    assert main(["simpletfjob", "mnist.yaml", "-N", "3", "--submit"]) == 0

    told = capsys.readouterr()
    assert told.out == "framework/mnist submitted\n"
    assert "mnist_tfjob.yaml: written\n" in told.err
    assert "mnist_tfjob.yaml: note: each worker is a role of its own" in told.err
    assert hosts_made() == ["h10", "h100", "h14"]
    assert [role["name"] for role in cluster.get("mnist")["spec"]["taskRoles"]] == [
        "ps",
        "worker0",
        "worker1",
    ]


def test_success_of_every_worker_is_success_of_what_was_submitted(cluster: World, capsys: Capture) -> None:
    main(["simpletfjob", "mnist.yaml", "-N", "3", "--submit"])
    for pod in ("mnist-ps-0", "mnist-worker0-0", "mnist-worker1-0"):
        cluster.run(pod)

    cluster.end("mnist-worker0-0")
    assert cluster.get("mnist")["status"]["state"] != "Completed"
    cluster.end("mnist-worker1-0")
    cluster.remove("mnist-ps-0")

    assert main(["wait", "mnist", "--timeout", "30"]) == 0


def test_what_would_be_submitted_can_be_looked_at(cluster: World, capsys: Capture) -> None:
    assert main(["simpletfjob", "mnist.yaml", "-N", "2", "--submit", "--dry-run", "-o", "yaml"]) == 0

    assert yaml.safe_load(capsys.readouterr().out)["metadata"]["name"] == "mnist"
    assert cluster.names() == []


def test_what_cannot_be_submitted_is_refused_and_nothing_sent(cluster: World, capsys: Capture) -> None:
    Path("mnist.yaml").write_text(JOB.replace("backoffLimit: 4", "parallelism: 2"))

    assert main(["simpletfjob", "mnist.yaml", "-N", "2", "--submit"]) == 2

    assert "mnist_tfjob.yaml: Job mnist-ps-0: spec.parallelism: Invalid value: 2" in capsys.readouterr().err
    assert cluster.names() == []


def test_a_framework_that_breaks_rules_is_refused_by_their_names(cluster: World, capsys: Capture) -> None:
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

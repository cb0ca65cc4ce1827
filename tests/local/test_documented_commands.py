"""
Commands and templates of the documents of other systems, unchanged, run to completion on this machine.

Their images are replaced by directories with small programs.
"""

import re
from pathlib import Path

import pytest
import yaml

from tests.eventually import until
from tests.local.conftest import Serve
from tests.local.documented_commands import Shell, blocks, command
from tests.local.server import PODS, Server, ended

#: Resolves every address of TF_CONFIG, then waits until all tasks have done so: the name of a completed pod no longer
#: resolves. Parameter servers and evaluators run until they are stopped.
_TRAINER = """\
import json, os, pathlib, socket, sys, time
config = json.loads(os.environ["TF_CONFIG"])
task = config["task"]
deadline = time.monotonic() + 50
def wait(condition, *arguments):
    while not condition(*arguments):
        assert time.monotonic() < deadline, arguments
        time.sleep(0.1)
def resolved(address):
    try:
        return socket.getaddrinfo(*address.split(":"))
    except OSError:
        return None
for addresses in config["cluster"].values():
    for address in addresses:
        wait(resolved, address)
reported = pathlib.Path("REPORTED")
reported.mkdir(exist_ok=True)
(reported / f"{task['type']}-{task['index']}").touch()
for role, addresses in config["cluster"].items():
    for index in range(len(addresses)):
        wait((reported / f"{role}-{index}").exists)
print(task["type"], task["index"], *sys.argv[1:], flush=True)
while task["type"] in ("ps", "evaluator"):
    time.sleep(0.1)
"""


def trainer(tmp_path: Path) -> str:
    """The text of the program, whose tasks wait for each other by files in *tmp_path*."""
    return _TRAINER.replace("REPORTED", str(tmp_path / "reported"))


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def shell_for(server: Server, tmp_path: Path, nodes: int = 1) -> Shell:
    """A shell configured for the server, once that has *nodes* nodes."""

    def all_ready() -> bool | None:
        found = [node["status"].get("conditions") or [] for node in server.get("/api/v1/nodes")["items"]]
        ready = [each for each in found if any(c["type"] == "Ready" and c["status"] == "True" for c in each)]
        return len(ready) == nodes or None

    until(all_ready, "the nodes are ready")
    return Shell(tmp_path / "home", {"LAUNCHER_SERVER": server.url})


def pod_names(server: Server, selector: str) -> list[str]:
    pods = server.get(f"{PODS}?labelSelector={selector}")["items"]
    return sorted(pod["metadata"]["name"] for pod in pods)


def test_an_arena_job_with_a_role_sequence_runs(serve: Serve, tmp_path: Path) -> None:
    submit = command("000", "arena submit")
    images = set(re.findall(r"image=\"?([^\" \\]+)", submit))
    flags = []
    for number, image in enumerate(sorted(images)):
        root = tmp_path / f"image{number}"
        program(root / "app/main.py", trainer(tmp_path))
        program(root / "usr/local/bin/tensorboard", "#!/bin/sh\nexec sleep 1000\n")
        flags.append(f"--image={image}={root}")
    server = serve(*flags, "--node=gpus,nvidia.com/gpu=4")
    shell = shell_for(server, tmp_path)

    printed = shell(submit)
    framework = server.completed("tf-distributed-test")

    assert printed.splitlines() == [
        "framework.launcher.microsoft.com/tf-distributed-test created",
        "service/tf-distributed-test-tensorboard created",
    ]
    assert ended(framework) == "Succeeded"
    found = shell('launcher events tf-distributed-test | grep "the Role Sequence" | tail -n 1')
    assert "the Role Sequence of job tf-distributed-test is: [Worker Chief PS Evaluator]" in found
    assert framework["spec"]["roleSequence"] == ["worker", "chief", "ps", "evaluator"]
    assert server.log("tf-distributed-test-chief-0") == "chief 0\n"
    pod = server.get(f"{PODS}/tf-distributed-test-chief-0")
    assert pod["metadata"]["annotations"]["job-role-sequence"] == "Worker,Chief,PS,Evaluator"
    assert "tf-distributed-test-chief-0" in pod_names(server, "tf-job-name=tf-distributed-test")
    (first, *_) = [line for line in shell("arena get tf-distributed-test").splitlines() if "chief-0" in line]
    assert first.split()[:3] == ["tf-distributed-test", "SUCCEEDED", "TFJOB"]


def test_a_command_quoted_as_in_arenas_documentation_runs(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    server = serve(f"--image=x={tmp_path / 'empty'}")
    shell = shell_for(server, tmp_path)

    shell("""arena submit tf --name=quoted --image=x "'echo --max_steps 5000'" """)

    assert ended(server.completed("quoted")) == "Succeeded"
    assert server.log("quoted-chief-0") == "--max_steps 5000\n"


@pytest.mark.parametrize("written", ["Worker,PS,Chief,Evaluator", "w,p,c,e"])
def test_the_role_sequence_may_be_in_arenas_config_file(serve: Serve, tmp_path: Path, written: str) -> None:
    lines = [line for block in blocks("000") for line in block.splitlines()]
    (line,) = [line for line in lines if line == f"tfjob_role_sequence = {written}"]
    shell = shell_for(serve(), tmp_path)
    program(tmp_path / "home/.arena/config", line + "\n")

    output = shell("arena submit tfjob --dry-run --name=a --workers=1 --ps=1 --image=x 'true'")

    framework = next(each for each in yaml.safe_load_all(output) if each["kind"] == "Framework")
    assert framework["spec"]["roleSequence"] == ["worker", "ps"]
    assert framework["metadata"]["annotations"]["job-role-sequence"] == "Worker,PS,Chief,Evaluator"


def test_an_arena_job_with_code_from_git_runs(serve: Serve, tmp_path: Path) -> None:
    submit = command("001", "arena submit")
    trainers = re.findall(r"Image=(\S+)", submit)
    program(
        tmp_path / "git/git-sync",
        "#!/bin/sh\n"
        'main="$GIT_SYNC_ROOT/$GIT_SYNC_DEST/tfjob/docker/v1alpha2/distributed-mnist/main.py"\n'
        f'mkdir -p "${{main%/*}}"\ncat > "$main" <<\'EOF\'\n{trainer(tmp_path)}EOF\n',
    )
    (tmp_path / "empty").mkdir()
    server = serve(
        f"--image=alpine/git:2.47.2={tmp_path / 'git'}",
        *(f"--image={image}={tmp_path / 'empty'}" for image in trainers),
        "--node=gpus,nvidia.com/gpu=4",
    )
    shell = shell_for(server, tmp_path)

    shell(submit)

    assert ended(server.completed("tf-dist-git")) == "Succeeded"
    assert server.log("tf-dist-git-worker-0") == "worker 0 --logdir /training_logs\n"
    listed = shell("arena get tf-dist-git").splitlines()
    assert listed[0].split() == ["NAME", "STATUS", "TRAINER", "AGE", "INSTANCE", "NODE"]


def test_a_simpletfjob_template_runs_on_its_machines(serve: Serve, tmp_path: Path) -> None:
    template, printed = blocks("002", "yaml")
    share = tmp_path / "share"
    program(share / "tensorflow/mnist/mnist_cnn.py", trainer(tmp_path))
    (tmp_path / "empty").mkdir()
    server = serve(
        *(f"--node={name},ip=127.0.0.{at}" for at, name in enumerate(("h10", "h100", "h14"), 51)),
        f"--image=tensorflow/tensorflow:1.13.1-py3={tmp_path / 'empty'}",
        f"--claim=nfs-pvc={share}",
    )
    shell = shell_for(server, tmp_path, nodes=3)
    (tmp_path / "home/mnist.yaml").write_text(template)

    shell(f"{command('002', 'simpletfjob mnist.yaml -N 3')} --submit --wait")

    assert (tmp_path / "home/mnist_tfjob.yaml").read_text().strip() == printed.strip()
    framework = server.framework("mnist")
    assert ended(framework) == "Succeeded"
    pods = {name: server.get(f"{PODS}/{name}") for name in ("mnist-worker0-0", "mnist-worker1-0")}
    assert [pod["spec"]["nodeName"] for pod in pods.values()] == ["h100", "h14"]
    assert server.log("mnist-worker1-0") == "worker 1 --strategy=ps --steps=5000\n"


def test_simpletfjob_skips_machines_in_the_exclude_file(serve: Serve, tmp_path: Path) -> None:
    template, _ = blocks("002", "yaml")
    (left_out,) = [block for block in blocks("002") if block.startswith("h10\n")]
    server = serve(*(f"--node=h{number}" for number in (10, 14, 23, 36, 40, 50, 51, 52)))
    shell = shell_for(server, tmp_path, nodes=8)
    (tmp_path / "home/mnist.yaml").write_text(template)
    (tmp_path / "home/exc").write_text(left_out)

    shell(f"{command('002', 'simpletfjob mnist.yaml -N 3 -E')} --server {server.url}")

    generated = (tmp_path / "home/mnist_tfjob.yaml").read_text()
    assert re.findall(r"nodeName: (\S+)", generated) == ["h50", "h51", "h52"]

import pytest

from launcher.cli.arena.arguments import deprecated_flags, make_parser
from launcher.cli.arena.argv import rewrite_argv
from launcher.cli.arena.pod_status import is_initialising
from launcher.cli.errors import UsageError
from launcher.core.pods.pod_status_column import pod_status_column

COMMANDS = (
    "submit",
    "list",
    "get",
    "logs",
    "attach",
    "delete",
    "prune",
    "top node",
    "top job",
    "whoami",
    "version",
)
PARSER = make_parser(dict.fromkeys(COMMANDS, lambda given: 0))


def rewritten(line: str) -> str:
    return " ".join(rewrite_argv(line.split(), PARSER, deprecated_flags(), lambda old, new: None))


@pytest.mark.parametrize(
    ("line", "arguments"),
    [
        ("-n ns logs -f job", "logs --namespace=ns --follow -- job"),
        ("logs job -nns", "logs --namespace=ns -- job"),
        ("logs job -n=ns", "logs --namespace=ns -- job"),
        ("get -ge job", "get --gpus --events -- job"),
        ("get -geo json job", "get --gpus --events --output=json -- job"),
        ("logs -t -1 job", "logs --tail=-1 -- job"),
        ("attach job -- ls -l", "attach -- job ls -l"),
        ("submit tf --workingDir /w a --chief=T b", "submit tf --working-dir=/w --chief -- a b"),
        ("submit tf --psCpu=1 --ChiefMemory 2Gi a", "submit tf --ps-cpu=1 --chief-memory=2Gi -- a"),
        ("top node", "top node"),
        ("list list", "list -- list"),
    ],
)
def test_flags_in_the_syntax_of_arena_are_rewritten(line: str, arguments: str) -> None:
    assert rewritten(line) == arguments


@pytest.mark.parametrize("line", ["get -g=maybe job", "logs job -i", "submit tf --chief="])
def test_invalid_command_lines_are_rejected(line: str) -> None:
    with pytest.raises(UsageError):
        rewritten(line)


@pytest.mark.parametrize("line", ["nonsense", "submit nonsense --name=tf", "top nonsense"])
def test_an_unknown_command_is_reported_by_its_name(line: str) -> None:
    with pytest.raises(UsageError, match="'nonsense'"):
        PARSER.parse_args(rewritten(line).split())


RUNNING: dict[str, object] = {"state": {"running": {}}}
DONE = {"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
WAITING = {"state": {"waiting": {"reason": "PodInitializing"}}}


@pytest.mark.parametrize(
    ("status", "text"),
    [
        ({"phase": "Pending"}, "Pending"),
        (
            {"phase": "Pending", "initContainerStatuses": [RUNNING], "containerStatuses": [WAITING]},
            "Init:0/1",
        ),
        ({"phase": "Pending", "initContainerStatuses": [WAITING, WAITING]}, "Init:0/2"),
        ({"phase": "Pending", "initContainerStatuses": [DONE, RUNNING]}, "Init:1/2"),
        (
            {"initContainerStatuses": [{"state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]},
            "Init:Error",
        ),
        (
            {
                "initContainerStatuses": [DONE],
                "containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull"}}}],
            },
            "ErrImagePull",
        ),
        ({"phase": "Running", "containerStatuses": [RUNNING]}, "Running"),
        ({"phase": "Succeeded", "containerStatuses": [DONE]}, "Completed"),
        (
            {"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 3}}}]},
            "ExitCode:3",
        ),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
        ({}, "Unknown"),
    ],
)
def test_pods_have_the_status_of_kubectl(status: dict[str, object], text: str) -> None:
    assert pod_status_column({"metadata": {}, "status": status}) == text


def test_a_running_pod_with_a_sidecar_reads_running() -> None:
    spec = {
        "initContainers": [{"name": "proxy", "restartPolicy": "Always"}],
        "containers": [{"name": "main"}],
    }
    sidecar = {"name": "proxy", "started": True, **RUNNING}
    status = {"phase": "Running", "initContainerStatuses": [sidecar], "containerStatuses": [RUNNING]}
    pod = {"metadata": {}, "spec": spec, "status": status}

    assert pod_status_column(pod) == "Running"
    assert not is_initialising(pod)


def test_a_completed_container_beside_one_that_is_not_ready_reads_not_ready() -> None:
    containers = [DONE, {**RUNNING, "ready": False}]

    assert pod_status_column({"metadata": {}, "status": {"containerStatuses": containers}}) == "NotReady"


def test_a_container_killed_by_a_signal_reads_signal() -> None:
    killed = {"state": {"terminated": {"exitCode": 137, "signal": 9}}}

    assert pod_status_column({"metadata": {}, "status": {"containerStatuses": [killed]}}) == "Signal:9"


def test_a_deleted_pod_is_terminating() -> None:
    assert (
        pod_status_column({"metadata": {"deletionTimestamp": "now"}, "status": {"phase": "Running"}})
        == "Terminating"
    )

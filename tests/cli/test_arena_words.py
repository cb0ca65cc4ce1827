import pytest

from launcher.cli.arena.arguments import make_parser, old_spellings
from launcher.cli.arena.argv import as_argparse
from launcher.cli.arena.pod_status import pod_words
from launcher.cli.errors import UsageError

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
    return " ".join(as_argparse(line.split(), PARSER, old_spellings(), lambda old, new: None))


@pytest.mark.parametrize(
    ("line", "words"),
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
def test_arenas_way_of_writing_is_rewritten(line: str, words: str) -> None:
    assert rewritten(line) == words


@pytest.mark.parametrize("line", ["get -g=maybe job", "logs job -i", "submit tf --chief="])
def test_what_arena_cannot_read_is_refused(line: str) -> None:
    with pytest.raises(UsageError):
        rewritten(line)


@pytest.mark.parametrize("line", ["nonsense", "submit nonsense --name=tf", "top nonsense"])
def test_a_command_that_there_is_not_is_refused_by_its_name(line: str) -> None:
    with pytest.raises(UsageError, match="'nonsense'"):
        PARSER.parse_args(rewritten(line).split())


RUNNING: dict[str, object] = {"state": {"running": {}}}
DONE = {"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
WAITING = {"state": {"waiting": {"reason": "PodInitializing"}}}


@pytest.mark.parametrize(
    ("status", "words"),
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
def test_pods_are_told_of_in_the_words_of_kubectl(status: dict[str, object], words: str) -> None:
    assert pod_words({"metadata": {}, "status": status}) == words


def test_a_pod_that_is_to_go_is_terminating() -> None:
    assert (
        pod_words({"metadata": {"deletionTimestamp": "now"}, "status": {"phase": "Running"}}) == "Terminating"
    )

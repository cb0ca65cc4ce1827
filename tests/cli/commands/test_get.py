import random
import re
from collections.abc import Mapping
from typing import Any

import orjson
import pytest
import yaml

from launcher.cli.client.api_client import ApiClient
from launcher.cli.main import main
from launcher.cli.output.framework_summary import attempt_text
from launcher.cli.output.task_entries import RoleEntries
from launcher.cli.output.task_table import RoleTable, TaskRow, task_rows, task_state
from launcher.core.completion_codes import Code, completion_for
from launcher.core.planning.retry import Retry, RetryBackoff, after_completion, with_executed_retry
from launcher.core.serialization.status_json import listed_in_full
from launcher.core.spec import RetryPolicy
from launcher.core.status import RetryStatus
from launcher.store.interface import FRAMEWORKS, PODS
from tests.builders import a_framework, a_role
from tests.cli.in_memory_launcher import InMemoryLauncher
from tests.cli.terminals import Terminal, launcher
from tests.core.builders import UID
from tests.core.statuses import F, a_status, half_failed_with_long_messages, stored_json
from tests.eventually import eventually

Capture = pytest.CaptureFixture[str]
Json = dict[str, Any]
LONG = "a-framework-with-a-name-that-is-as-long-as-names-can-be-55"


def wait_for_task_counts(server: InMemoryLauncher, **expected: int) -> None:
    """Wait until mnist has that many tasks in these states."""

    async def has_counts() -> bool:
        framework = await server.store.get(FRAMEWORKS, "default", "mnist")
        counts = framework.get("status", {}).get("taskCounts", {})
        return bool(expected.items() <= counts.items())

    server.call(eventually(has_counts, f"the tasks of mnist are {expected}"))


def test_frameworks_are_listed_with_their_state_and_progress(
    server: InMemoryLauncher, capsys: Capture
) -> None:
    server.create(a_framework(a_role(tasks=2, frameworkAttemptCompletionPolicy={"minFailedTaskCount": 2})))
    server.create(a_framework(a_role(tasks=1), name="other"))
    server.run("mnist-worker-0")
    server.end("mnist-worker-0", 1)
    server.run("other-worker-0")
    server.end("other-worker-0", 0)
    server.until("other", "Completed")
    server.run("mnist-worker-1")
    wait_for_task_counts(server, AttemptRunning=1, Completed=1)

    assert main(["list"]) == 0

    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == ["NAME", "STATE", "TASKS", "ATTEMPT", "AGE"]
    assert [line.split()[:4] for line in lines] == [
        ["mnist", "Running", "1/2", "1"],
        ["other", "Succeeded", "1/1", "1"],
    ]


def test_a_list_has_the_reason_of_frameworks_that_wait_or_failed(
    server: InMemoryLauncher, capsys: Capture
) -> None:
    server.create(a_framework(a_role(tasks=1), name="failed"))
    server.create(a_framework(a_role(tasks=1), name="running"))
    server.create(a_framework(executionType="Create", name="waiting"))
    server.run("failed-worker-0")
    server.end("failed-worker-0", 7)
    server.run("running-worker-0")
    server.until("failed", "Completed")
    server.until("running", "AttemptRunning")
    server.until("waiting", "AttemptCreationPending")

    assert main(["list"]) == 0

    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == ["NAME", "STATE", "TASKS", "ATTEMPT", "AGE", "REASON"]
    failed, running, waiting = (line.split(maxsplit=5)[5:] for line in lines)
    assert failed[0].startswith("Task worker-0 failed: container main exited with code 7.")
    assert (running, waiting) == ([], ["Suspended: executionType is Create."])


def test_a_reason_is_one_line_below_its_framework_on_a_terminal(server: InMemoryLauncher) -> None:
    server.create(a_framework(a_role(tasks=1)))
    server.run("mnist-worker-0")
    server.end("mnist-worker-0", 7)
    server.until("mnist", "Completed")

    with Terminal(launcher("list")) as terminal:
        assert terminal.end() == 0

    header, row, reason = terminal.seen.splitlines()
    assert header.split() == ["NAME", "STATE", "TASKS", "ATTEMPT", "AGE"]
    assert row.split()[:2] == ["mnist", "Failed"]
    assert reason.startswith("    Task worker-0 failed: container main exited with code 7. Role worker:")
    assert (len(reason), reason[-1]) == (80, "…")


def test_a_framework_that_succeeded_is_not_diagnosed(
    server: InMemoryLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    diagnosed: list[str] = []

    def diagnosis(_: ApiClient, name: str) -> dict[str, Any]:
        diagnosed.append(name)
        return {"findings": []}

    monkeypatch.setattr(ApiClient, "diagnosis", diagnosis)
    for name in ("good", "bad"):
        server.create(a_framework(a_role(tasks=1), name=name))
        server.run(f"{name}-worker-0")
        server.end(f"{name}-worker-0", int(name == "bad"))
        server.until(name, "Completed")

    for command in ("get", "describe"):
        for name in ("good", "bad"):
            assert main([command, name]) == 0

    assert diagnosed == ["bad", "bad"]


def test_a_list_of_all_namespaces_has_a_namespace_column(server: InMemoryLauncher, capsys: Capture) -> None:
    framework = a_framework(name="far")
    framework["metadata"]["namespace"] = "team"
    server.create(a_framework(name="near"))
    server.create(framework)

    main(["list"])
    near = capsys.readouterr().out
    main(["list", "-A"])
    all_namespaces = capsys.readouterr().out

    assert "far" not in near
    assert [line.split()[:2] for line in all_namespaces.splitlines()[1:]] == [
        ["default", "near"],
        ["team", "far"],
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["--name-contains", "nis"], id="part of the name"),
        pytest.param(["-l", "team=vision"], id="label"),
        pytest.param(["--field-selector", "spec.executionType=Create"], id="field"),
        pytest.param(["--node", "gpu-1"], id="node"),
    ],
)
def test_a_list_is_filtered_by_the_server(
    server: InMemoryLauncher, arguments: list[str], capsys: Capture
) -> None:
    matching = a_framework(a_role(tasks=1), name="mnist", executionType="Create")
    matching["metadata"]["labels"] = {"team": "vision"}
    server.create(matching)
    server.create(a_framework(a_role(tasks=1), name="other"))
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default", "labels": {"FC_FRAMEWORK_NAME": "mnist"}},
        "spec": {"nodeName": "gpu-1", "containers": [{"name": "main", "image": "busybox"}]},
    }
    server.call(server.store.create(PODS, pod))

    assert main(["list", "-o", "name", *arguments]) == 0

    assert capsys.readouterr().out.split() == ["framework/mnist"]


def test_a_filter_that_matches_nothing_is_no_reason_to_submit(
    server: InMemoryLauncher, capsys: Capture
) -> None:
    server.create(a_framework())

    assert main(["list", "--name-contains", "nothing"]) == 0

    assert capsys.readouterr().err == "No Frameworks match in namespace default.\n"


def test_an_empty_list_names_the_command_to_submit(server: InMemoryLauncher, capsys: Capture) -> None:
    assert main(["list"]) == 0

    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "No Frameworks found in namespace default. Submit one with: launcher submit FILE\n"


def test_lists_and_objects_are_printed_as_json_and_yaml(server: InMemoryLauncher, capsys: Capture) -> None:
    server.create(a_framework())
    stored = server.get("mnist")["metadata"]["uid"]

    def printed_frameworks(*arguments: str) -> str:
        assert main(arguments) == 0
        return capsys.readouterr().out

    assert orjson.loads(printed_frameworks("list", "-o", "json"))["items"][0]["metadata"]["uid"] == stored
    assert yaml.safe_load(printed_frameworks("list", "-o", "yaml"))["items"][0]["metadata"]["uid"] == stored
    assert orjson.loads(printed_frameworks("get", "mnist", "-o", "json"))["metadata"]["uid"] == stored
    assert yaml.safe_load(printed_frameworks("get", "mnist", "-o", "yaml"))["metadata"]["uid"] == stored
    assert (
        printed_frameworks("list", "-o", "name")
        == printed_frameworks("get", "mnist", "-o", "name")
        == "framework/mnist\n"
    )


def test_names_are_complete_in_a_pipe_and_cut_on_a_terminal(
    server: InMemoryLauncher, capsys: Capture
) -> None:
    server.create(a_framework(a_role("w", 1), name=LONG))

    main(["list"])
    piped = capsys.readouterr().out
    with Terminal(launcher("list")) as terminal:
        assert terminal.end() == 0

    assert LONG in piped
    assert LONG not in terminal.seen
    # The end of the name stays, so that names with the same start differ.
    # How much of it fits depends on the width of the state, which may be CreationPending or shorter.
    assert re.search(rf"{LONG[:12]}\S*…\S*{LONG[-10:]}   \S+   0/1     1 ", terminal.seen)
    assert all(len(line) <= 80 for line in terminal.seen.splitlines())


def test_one_framework_is_shown_with_its_tasks(server: InMemoryLauncher, capsys: Capture) -> None:
    server.create(a_framework(a_role(tasks=2), a_role("ps", 1)))
    server.run("mnist-worker-1")
    server.end("mnist-worker-1", 7)
    server.until("mnist", "Completed")

    assert main(["get", "mnist"]) == 0

    headline, message, finding, blank, header, *tasks = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"mnist: Failed after \d+s, 3/3 finished", headline)
    assert "1 failed task reached minFailedTaskCount 1" in message
    assert finding == "  FL-RUN-10: worker-1: container main exited with code 7"
    assert blank == ""
    assert header.split() == ["TASK", "STATE", "ATTEMPT", "NODE", "EXIT", "REASON"]
    assert [line.split()[:2] for line in tasks] == [
        ["worker-0", "Stopped"],
        ["worker-1", "Failed"],
        ["ps-0", "Stopped"],
    ]
    assert tasks[1].split()[2:5] == ["1", "node-1", "7"]


def test_many_tasks_are_summarised_with_the_exceptions(server: InMemoryLauncher, capsys: Capture) -> None:
    server.create(a_framework(a_role(tasks=400, frameworkAttemptCompletionPolicy={"minFailedTaskCount": -1})))
    server.run("mnist-worker-123")
    server.end("mnist-worker-123", 7)
    server.run("mnist-worker-0")
    wait_for_task_counts(server, AttemptRunning=1, Completed=1)

    main(["get", "mnist"])
    summary = capsys.readouterr().out.splitlines()[5:]
    main(["get", "mnist", "--all"])
    every = capsys.readouterr().out.splitlines()[5:]

    assert summary[0].split(maxsplit=2)[:2] == ["worker", "(400)"]
    assert "1 Failed" in summary[0]
    assert any(line.startswith("worker-123 ") for line in summary[1:])
    assert len(summary) <= 22
    assert [line.split()[0] for line in every] == [f"worker-{index}" for index in range(400)]


def test_a_description_has_conditions_roles_tasks_and_events(
    server: InMemoryLauncher, capsys: Capture
) -> None:
    server.create(a_framework(a_role(tasks=1), description="digits"))
    server.run("mnist-worker-0")
    server.until("mnist", "AttemptRunning")
    server.create_event("Pod", "mnist-worker-0", "Scheduled", "assigned to node-1")
    server.create_event("Pod", "mnist-2-worker-0", "Scheduled", "of another Framework")

    assert main(["describe", "mnist"]) == 0

    printed = capsys.readouterr().out
    assert re.search(r"^Description: +digits$", printed, re.MULTILINE)
    for title in ("Conditions", "Roles", "Tasks", "Events"):
        assert f"\n{title}:\n" in printed
    assert re.search(r"Scheduled +pod/mnist-worker-0 +assigned to node-1", printed)
    assert "another" not in printed


def test_the_wide_table_has_the_age_of_the_last_output_of_running_tasks(
    server: InMemoryLauncher, capsys: Capture
) -> None:
    server.create(a_framework(a_role(tasks=4, frameworkAttemptCompletionPolicy={"minFailedTaskCount": 4})))
    server.run("mnist-worker-0")
    server.run("mnist-worker-1")
    server.call(
        server.logs.write(
            "mnist-worker-0",
            server.uid("mnist-worker-0"),
            "main",
            "step 1",
            "step 2",
            seconds_ago=50.5 * 3600,
        )
    )
    server.run("mnist-worker-2", "failed")
    server.end("mnist-worker-2", 1)
    wait_for_task_counts(server, AttemptRunning=2, Completed=1)

    assert main(["get", "mnist", "-o", "wide"]) == 0

    lines = capsys.readouterr().out.splitlines()
    header = next(line for line in lines if line.startswith("TASK"))
    column = slice(header.index("LAST OUTPUT"), header.index("REASON"))
    ages = {line.split()[0]: line[column].strip() for line in lines if line.startswith("worker-")}
    assert ages == {"worker-0": "2d2h", "worker-1": "", "worker-2": "", "worker-3": ""}


@pytest.mark.parametrize("name", ["mnist", "a-framework-with-a-name-of-49-characters-of-which-2"])
def test_everything_fits_a_terminal_of_80_columns(name: str, server: InMemoryLauncher) -> None:
    server.create(a_framework(a_role(tasks=3), name=name))
    server.run(f"{name}-worker-0")
    server.end(f"{name}-worker-0", 1)
    server.until(name, "Completed")
    server.create_event("Pod", f"{name}-worker-1", "Scheduled", f"assigned {name}-worker-1 to a node")

    seen = ""
    for command in (
        ["get", name],
        ["list", "-o", "wide"],
        ["list", "-A"],
        ["describe", name],
        ["events", name],
    ):
        with Terminal(launcher(*command)) as terminal:
            assert terminal.end() == 0
            assert all(len(line) <= 80 for line in terminal.seen.splitlines()), terminal.seen
            seen += terminal.seen
    # The task of an event is recognizable even if the name of its pod does not fit.
    assert len(re.findall(r"Scheduled +pod/\S*worker-1$", seen, re.MULTILINE)) == 2


def test_events_are_those_of_the_framework_and_its_pods(server: InMemoryLauncher, capsys: Capture) -> None:
    server.create_event("Framework", "mnist", "Started", "it starts")
    server.create_event("Pod", "mnist-worker-0", "Pulled", "twice\nas long")
    server.create_event("Pod", "mnistworker-0", "Other", "not ours")
    server.create_event("Framework", "mnist-2", "Other", "not ours either")

    main(["events", "mnist"])
    ours = capsys.readouterr().out.splitlines()
    main(["events"])
    everything = capsys.readouterr().out.splitlines()

    assert [line.split()[1:4] for line in ours[1:]] == [
        ["Normal", "Started", "framework/mnist"],
        ["Normal", "Pulled", "pod/mnist-worker-0"],
    ]
    assert ours[2].endswith("twice as long")
    assert len(everything) == 5


@pytest.mark.parametrize("command", ["describe", "events"])
def test_events_of_a_deleted_framework_of_the_same_name_are_not_printed(
    command: str, server: InMemoryLauncher, capsys: Capture
) -> None:
    server.create_event("Framework", "mnist", "OldFramework", "before", uid="old-1", age=60)
    server.create_event("Pod", "mnist-worker-0", "OldPod", "before", uid="old-2", age=60)
    server.create(a_framework())
    server.run("mnist-worker-0")
    server.create_event(
        "Framework", "mnist", "NewFramework", "now", uid=server.get("mnist")["metadata"]["uid"]
    )
    server.create_event("Pod", "mnist-worker-0", "NewPod", "now", uid=server.uid("mnist-worker-0"))
    server.create_event("Pod", "mnist-worker-0", "EarlierAttempt", "now", uid="earlier", age=-2)
    server.until("mnist", "AttemptRunning")

    assert main([command, "mnist"]) == 0
    shown = capsys.readouterr().out
    assert all(reason in shown for reason in ("NewFramework", "NewPod", "EarlierAttempt"))
    assert "OldFramework" not in shown
    assert "OldPod" not in shown


def test_events_outlive_their_framework(server: InMemoryLauncher, capsys: Capture) -> None:
    server.create_event("Framework", "mnist", "OldFramework", "before", uid="old-1", age=60)

    assert main(["events", "mnist"]) == 0
    assert "OldFramework" in capsys.readouterr().out


def test_folded_tasks_have_the_same_rows_as_listed_ones() -> None:
    folded = stored_json(a_status(half_failed_with_long_messages(random.Random(7))))
    full = listed_in_full(folded, F, UID)
    spec = {"taskRoles": [{"name": "w", "task": {"retryPolicy": {"maxRetryCount": 3}}}]}

    def rows(status: Mapping[str, Any]) -> list[TaskRow]:
        return list(task_rows({"spec": spec, "status": status}, 0, show_all=True))

    assert "foldedTasks" in folded["attemptStatus"]["taskRoleStatuses"][0]
    # A folded entry has no node.
    assert [row._replace(node="") for row in rows(folded)] == [row._replace(node="") for row in rows(full)]


def a_completed_task(**completion: Any) -> Json:
    return {"state": "Completed", "attemptStatus": {"completionStatus": completion}}


@pytest.mark.parametrize(
    ("task", "state"),
    [
        (a_completed_task(code=0, type={"name": "Succeeded"}), "Succeeded"),
        (a_completed_task(code=7, type={"name": "Failed"}), "Failed"),
        (a_completed_task(code=-220, type={"name": "Failed"}), "Stopped"),
        ({"state": "AttemptRunning"}, "Running"),
        (
            {
                "state": "AttemptCompleted",
                "retryPolicyStatus": {"retryDelaySec": 10},
                "attemptStatus": {"completionTime": "1970-01-01T00:01:37Z"},
            },
            "Retrying in 7s",
        ),
        # The pod of the failed attempt is kept for its logs until the retry.
        (
            {
                "state": "AttemptDeletionPending",
                "retryPolicyStatus": {"retryDelaySec": 10},
                "attemptStatus": {"completionTime": "1970-01-01T00:01:37Z"},
            },
            "Retrying in 7s",
        ),
        (
            {
                "state": "AttemptDeletionPending",
                "retryPolicyStatus": {"retryDelaySec": None},
                "attemptStatus": {"completionTime": "1970-01-01T00:01:37Z"},
            },
            "DeletionPending",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_state_of_a_task(task: Json, state: str) -> None:
    assert task_state(task, now=100) == state


def test_a_framework_that_its_user_stopped_is_stopped_not_failed(
    server: InMemoryLauncher, capsys: Capture
) -> None:
    server.create(a_framework(a_role(tasks=1)))
    server.run("mnist-worker-0")
    server.until("mnist", "AttemptRunning")
    main(["stop", "mnist"])
    server.remove("mnist-worker-0")
    server.until("mnist", "Completed")
    capsys.readouterr()

    main(["list"])
    assert capsys.readouterr().out.splitlines()[1].split()[:2] == ["mnist", "Stopped"]
    main(["get", "mnist"])
    assert capsys.readouterr().out.startswith("mnist: Stopped after ")
    assert main(["wait", "mnist"]) == 1
    assert capsys.readouterr().err == "mnist stopped: executionType is Stop.\n"


def test_the_attempt_is_counted_from_one_with_the_last_one(server: InMemoryLauncher, capsys: Capture) -> None:
    server.create(a_framework(a_role(tasks=1), retryPolicy={"maxRetryCount": 2}))
    server.run("mnist-worker-0")
    server.end("mnist-worker-0", 1)
    server.run("mnist-worker-0")
    server.until("mnist", "AttemptRunning")

    main(["get", "mnist"])
    assert ", attempt 2 of 3, 0/1 finished\n" in capsys.readouterr().out
    main(["list"])
    assert "0/1     2 of 3 " in capsys.readouterr().out
    main(["describe", "mnist"])
    assert re.search(r"^Attempt: +2 of 3$", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize(
    ("retried", "counted", "limit", "text"),
    [
        pytest.param(0, 0, 0, "1", id="no retries"),
        pytest.param(0, 0, 2, "1 of 3", id="the first of three"),
        pytest.param(2, 2, 2, "3 of 3", id="the last of three"),
        pytest.param(3, 1, 2, "4 of 5", id="two retries did not count"),
        pytest.param(4, 4, 2, "5", id="the policy was changed"),
        pytest.param(7, 7, -1, "8", id="retries without a limit"),
    ],
)
def test_the_attempt_and_the_last_one(retried: int, counted: int, limit: int, text: str) -> None:
    retry_status = {"totalRetriedCount": retried, "accountableRetriedCount": counted}

    assert attempt_text(retry_status, {"maxRetryCount": limit}) == text


def test_the_attempt_is_that_of_the_retry_message() -> None:
    policy, before = RetryPolicy(fancy=False, max_retries=3), RetryStatus(total=4, accountable=1)
    retry = after_completion(
        policy,
        completion_for(Code.POD_CREATION_UNKNOWN_ERROR, ""),
        before,
        duration=0,
        backoff=RetryBackoff(),
    )
    assert isinstance(retry, Retry)
    after = with_executed_retry(before, retry)

    retry_status = {"totalRetriedCount": after.total, "accountableRetriedCount": after.accountable}
    assert retry.reason == f"attempt {attempt_text(retry_status, {'maxRetryCount': 3})}" == "attempt 6 of 7"


def test_of_many_tasks_those_that_are_retried_later_are_counted_together() -> None:
    tasks = [
        {
            "index": index,
            "state": "AttemptDeletionPending",
            "message": "exited",
            "retryPolicyStatus": {"totalRetriedCount": 0, "retryDelaySec": 10 + index},
            "attemptStatus": {"completionTime": "1970-01-01T00:00:00Z"},
        }
        for index in range(3)
    ]

    rows = list(RoleTable(RoleEntries("worker", tasks), None, now=0).summary(20))

    assert [(row.task, row.state) for row in rows] == [
        ("worker (3)", "3 Retrying"),
        ("worker-0 … 2 (3)", "Retrying"),
    ]


def summary(*messages: str) -> list[TaskRow]:
    """The summary of a role with a pending task for each message."""
    tasks = [
        {
            "index": index,
            "state": "AttemptCreationPending",
            "message": message,
            "retryPolicyStatus": {"totalRetriedCount": 0},
            "attemptStatus": {},
        }
        for index, message in enumerate(messages)
    ]
    return list(RoleTable(RoleEntries("worker", tasks), None, now=0).summary(20))


def test_of_many_tasks_each_reason_is_shown_once() -> None:
    rows = summary(*["no node fits"] * 60, "", *["the volume is missing"] * 2)

    assert [(row.task, row.reason) for row in rows] == [
        ("worker (63)", ""),
        ("worker-0 … 59 (60)", "no node fits"),
        ("worker-61 … 62 (2)", "the volume is missing"),
    ]


def test_of_many_reasons_only_some_are_shown() -> None:
    rows = summary(*(f"reason {number}" for number in range(60)))

    assert len(rows) == 22
    assert (rows[-1].task, rows[-1].state) == ("worker-…", "40 more")


def test_a_framework_that_is_scaled_to_zero_shows_that(server: InMemoryLauncher, capsys: Capture) -> None:
    server.create(a_framework(a_role("worker", 1)))
    server.run("mnist-worker-0")
    server.until("mnist", "AttemptRunning")

    assert main(["scale", "mnist", "worker=0"]) == 0
    server.remove("mnist-worker-0")
    server.until_message("mnist", "Scaled to 0 tasks; no pods are created until a role is scaled up.")
    capsys.readouterr()
    assert main(["get", "mnist"]) == 0
    assert "Scaled to 0 tasks" in capsys.readouterr().out
    assert main(["scale", "mnist", "worker=1"]) == 0
    server.run("mnist-worker-0")
    server.until_message("mnist", "1 of 1 tasks running.")

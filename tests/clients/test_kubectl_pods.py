"""kubectl on pods of Frameworks and of users: lists, logs and wait."""

import re
import time
from datetime import UTC, datetime

import orjson

from tests.clients.isolated_namespace import IsolatedNamespace, wait_for_file
from tests.clients.kubectl import Kubectl, fits_terminal
from tests.eventually import until

TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.\d{9}Z ")


def wait_pod_succeeded(kubectl: Kubectl, name: str = "alone") -> None:
    """Waits until the pod has succeeded."""
    kubectl("wait", f"pod/{name}", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=60s")


def test_get_pods_shows_the_tasks_of_a_framework(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=isolated.framework(script=wait_for_file("go"), tasks=2))
    kubectl("wait", "fw/mnist", "--for=jsonpath={.status.taskCounts.AttemptRunning}=2", "--timeout=30s")

    running = kubectl("get", "pods")
    isolated.create_file("go")
    kubectl.wait_succeeded()

    assert [line.split()[:4] for line in running.splitlines()] == [
        ["NAME", "READY", "STATUS", "RESTARTS"],
        ["mnist-worker-0", "1/1", "Running", "0"],
        ["mnist-worker-1", "1/1", "Running", "0"],
    ]
    assert fits_terminal(running)
    assert {row[2] for row in kubectl.table("get", "pods")[1:]} == {"Completed"}


def test_get_pods_wide_shows_nodes_and_addresses(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=isolated.framework())
    kubectl.wait_succeeded()
    node = kubectl("get", "nodes", "-o", "name").strip().removeprefix("node/")

    headings, row = kubectl.table("get", "pods", "-o", "wide")

    assert headings[5:] == ["IP", "NODE", "NOMINATED NODE", "READINESS GATES"]
    assert row[6] == node


def test_wait_ends_when_the_framework_has_succeeded(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=isolated.framework(script=wait_for_file("go")))
    waiting = kubectl.follow("wait", "fw/mnist", "--for=condition=Succeeded", "--timeout=60s")
    kubectl("wait", "fw/mnist", "--for=condition=Running", "--timeout=30s")

    assert waiting.process.poll() is None
    isolated.create_file("go")

    assert waiting.exit_code() == 0
    assert waiting.lines() == ["framework.launcher.microsoft.com/mnist condition met"]


def test_wait_for_a_condition_that_is_never_met_times_out(
    isolated: IsolatedNamespace, kubectl: Kubectl
) -> None:
    kubectl("create", "-f", "-", stdin=isolated.suspended())

    error = kubectl.error_output("wait", "fw/mnist", "--for=condition=Succeeded", "--timeout=1s")

    assert "timed out waiting for the condition on frameworks/mnist" in error


def test_a_failed_framework_shows_the_reason(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=isolated.framework(script="echo no luck; exit 3"))
    kubectl("wait", "fw/mnist", "--for=condition=Failed", "--timeout=60s")

    assert kubectl.table("get", "fw")[1][1] == "Failed"
    assert kubectl("logs", "mnist-worker-0") == "no luck\n"
    assert kubectl.table("get", "pods")[1][2] == "Error"
    assert re.search(r"^ +Exit Code: +3$", kubectl("describe", "pod", "mnist-worker-0"), re.MULTILINE)


def test_logs_follow_the_pod_to_its_end(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    script = f"echo first; {wait_for_file('go')} echo last"
    kubectl("create", "-f", "-", stdin=isolated.framework(script=script))
    kubectl("wait", "fw/mnist", "--for=condition=Running", "--timeout=30s")
    following = kubectl.follow("logs", "--follow", "mnist-worker-0")

    following.wait_for_line("first")
    assert following.process.poll() is None
    isolated.create_file("go")

    assert following.exit_code() == 0
    assert following.lines() == ["first", "last"]


def test_logs_of_several_containers(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=isolated.pod(one="echo from one", two="echo from two"))
    wait_pod_succeeded(kubectl)

    first = kubectl.run("logs", "alone")
    both = kubectl("logs", "alone", "--all-containers", "--prefix")

    assert first.stdout == "from one\n"
    assert 'Defaulted container "one" out of: one, two' in first.stderr
    assert kubectl("logs", "alone", "-c", "two") == "from two\n"
    assert sorted(both.splitlines()) == ["[pod/alone/one] from one", "[pod/alone/two] from two"]
    assert "container three is not valid for pod alone" in kubectl.error_output(
        "logs", "alone", "-c", "three"
    )


def test_logs_of_a_missing_pod_are_an_error(kubectl: Kubectl) -> None:
    assert '(NotFound): pods "nosuch" not found' in kubectl.error_output("logs", "nosuch")


def test_logs_of_all_pods_with_a_label(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    script = "echo task $FC_TASK_INDEX"
    kubectl("create", "-f", "-", stdin=isolated.framework(script=script, tasks=3))
    kubectl.wait_succeeded()
    labels = orjson.loads(kubectl("get", "pod", "mnist-worker-0", "-o", "json"))["metadata"]["labels"]
    name = next(key for key, value in labels.items() if value == "mnist")

    output = kubectl("logs", "-l", f"{name}=mnist")

    assert sorted(output.splitlines()) == ["task 0", "task 1", "task 2"]


def test_logs_from_the_end_and_with_times(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    before = datetime.now(UTC).replace(microsecond=0, tzinfo=None)
    kubectl("create", "-f", "-", stdin=isolated.pod(main="for i in 1 2 3 4 5; do echo line $i; done"))
    wait_pod_succeeded(kubectl)

    timed = kubectl("logs", "alone", "--timestamps").splitlines()

    assert kubectl("logs", "alone", "--tail=2") == "line 4\nline 5\n"
    assert kubectl("logs", "alone", "--tail=0") == ""
    assert kubectl("logs", "alone", "--limit-bytes=8") == "line 1\nl"
    assert [TIME.sub("", line) for line in timed] == [f"line {number}" for number in range(1, 6)]
    for line in timed:
        found = TIME.match(line)
        assert found
        assert before <= datetime.fromisoformat(found[1]) <= datetime.now(UTC).replace(tzinfo=None)


#: A script that prints lines until the test creates ``stop``.
_PRINT_UNTIL_STOPPED = "until [ -e /gate/stop ]; do echo new; sleep 0.1; done"


def test_logs_since_a_time_omit_older_lines(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    kubectl(
        "create",
        "-f",
        "-",
        stdin=isolated.pod(main=f"echo old; {wait_for_file('go')} {_PRINT_UNTIL_STOPPED}"),
    )
    kubectl("wait", "pod/alone", "--for=condition=Ready", "--timeout=30s")
    until(lambda: kubectl("logs", "alone") or None, "the first line is printed")
    written = TIME.match(kubectl("logs", "alone", "--timestamps"))
    assert written
    # Only whole seconds are supported.
    until(lambda: time.time() - _seconds(written[1]) > 3 or None, "the first line is old")
    isolated.create_file("go")
    until(lambda: "new" in kubectl("logs", "alone") or None, "another line is printed")

    assert set(kubectl("logs", "alone", "--since=2s").split()) == {"new"}
    isolated.create_file("stop")
    wait_pod_succeeded(kubectl)
    first, *others = kubectl("logs", "alone", "--since=10m").splitlines()
    assert (first, set(others)) == ("old", {"new"})
    assert kubectl("logs", "alone", f"--since-time={written[1]}Z").splitlines() == [first, *others]


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def test_logs_of_the_run_before_a_restart(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    script = "if mkdir /gate/was-here 2>/dev/null; then echo first run; exit 1; else echo second run; fi"
    kubectl("create", "-f", "-", stdin=isolated.pod(restart="OnFailure", main=script))
    wait_pod_succeeded(kubectl)

    assert kubectl("logs", "alone") == "second run\n"
    assert kubectl("logs", "alone", "--previous") == "first run\n"
    assert kubectl.table("get", "pods")[1][3].split()[0] == "1"


def test_logs_of_a_missing_previous_run_are_an_error(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=isolated.pod(main="true"))
    wait_pod_succeeded(kubectl)

    error = kubectl.error_output("logs", "alone", "--previous")

    assert 'previous terminated container "main" in pod "alone" not found' in error


def test_run_creates_a_pod_that_becomes_ready_and_completes(
    isolated: IsolatedNamespace, kubectl: Kubectl
) -> None:
    mark = f"--env=LAUNCHER_TEST={isolated.server.data}"
    command = ["sh", "-c", "echo up; trap 'exit 0' TERM; sleep 600 & wait"]
    output = kubectl("run", "alone", "--image=none", "--restart=Never", mark, "--command", "--", *command)

    assert output == "pod/alone created\n"
    assert (
        kubectl("wait", "--for=condition=Ready", "pod/alone", "--timeout=30s") == "pod/alone condition met\n"
    )
    assert kubectl("delete", "pod", "alone", "--grace-period=5").startswith('pod "alone" deleted')
    assert kubectl("get", "pods", "-o", "name") == ""


def test_describe_pod_shows_its_containers_and_events(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=isolated.pod(main="true"))
    wait_pod_succeeded(kubectl)

    shown = kubectl("describe", "pod", "alone")

    assert re.search(r"^Status: +Succeeded$", shown, re.MULTILINE)
    assert re.search(r"^ +Reason: +Completed$", shown, re.MULTILINE)
    assert re.search(r"^ +Normal +Scheduled ", shown.partition("Events:")[2], re.MULTILINE)


def test_a_pod_reads_config_maps_and_secrets(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    kubectl("create", "configmap", "settings", "--from-literal=rate=0.1")
    kubectl("create", "secret", "generic", "key", "--from-literal=token=quiet")
    pod = isolated.pod(main="echo $RATE $TOKEN")
    pod["spec"]["containers"][0]["env"] += [
        {"name": "RATE", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "rate"}}},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "key", "key": "token"}}},
    ]

    kubectl("create", "-f", "-", stdin=pod)
    wait_pod_succeeded(kubectl)

    assert kubectl("logs", "alone") == "0.1 quiet\n"


def test_applying_a_pod_again_changes_nothing(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    pod = isolated.pod(main=wait_for_file("never"))

    output = [kubectl("apply", "-f", "-", stdin=pod).split()[1] for _ in range(2)]
    pod["metadata"]["labels"] = {"colour": "red"}
    output.append(kubectl("apply", "-f", "-", stdin=pod).split()[1])

    assert output == ["created", "unchanged", "configured"]
    assert kubectl("get", "pod", "alone", "-o", "jsonpath={.metadata.labels.colour}") == "red"

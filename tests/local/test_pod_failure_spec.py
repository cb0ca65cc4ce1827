"""Failure rules of a role decide whether its tasks are retried."""

from typing import Any

from tests.builders import Json, a_framework, a_pod_template, a_role
from tests.eventually import until
from tests.local.conftest import Serve
from tests.local.server import FRAMEWORKS


def a_rule(code: int, attribute: str, **pattern: Any) -> Json:
    return {
        "code": code,
        "phrase": f"Rule{code}",
        "type": {"attributes": [attribute]},
        "podPatterns": [{"containers": [pattern]}],
    }


def a_failing_role(name: str, script: str, retries: int, *rules: Json) -> Json:
    container = {"name": "main", "image": "none", "command": ["sh", "-c", script]}
    role = a_role(
        name,
        1,
        pod=a_pod_template(containers=[container]),
        frameworkAttemptCompletionPolicy={"minFailedTaskCount": -1},
    )
    role["task"]["retryPolicy"] = {"fancyRetryPolicy": True, "maxRetryCount": retries}
    role["task"]["podFailureSpec"] = list(rules)
    return role


def test_the_failure_rules_of_a_role_decide_whether_its_task_is_retried(serve: Serve) -> None:
    server = serve()
    fails_once = "[ $FC_TASK_ATTEMPT_ID = 0 ] || exit 0; echo lost the GPU > /dev/termination-log; exit 3"
    always_fails = "echo the data is corrupt > /dev/termination-log; exit 3"
    framework = a_framework(
        # Exit code 3 alone is not retried without retries left; the transient failure is.
        a_failing_role("flaky", fails_once, 0, a_rule(301, "Transient", messageRegex="(?i)lost the gpu")),
        # Exit code 3 alone would be retried; the permanent failure is not.
        a_failing_role("broken", always_fails, 5, a_rule(302, "Permanent", messageRegex="corrupt")),
        name="rules",
    )
    assert server.post(FRAMEWORKS, framework)["kind"] == "Framework"

    def completed() -> Json | None:
        found: Json = server.get(f"{FRAMEWORKS}/rules")
        return found if found.get("status", {}).get("completionTime") else None

    status = until(completed, "the Framework is completed")["status"]["attemptStatus"]["taskRoleStatuses"]
    tasks = {role["name"]: role["taskStatuses"][0] for role in status}

    assert tasks["flaky"]["attemptStatus"]["completionStatus"]["code"] == 0
    assert tasks["flaky"]["retryPolicyStatus"]["totalRetriedCount"] == 1
    invalid = tasks["broken"]["attemptStatus"]["completionStatus"]
    assert (invalid["code"], invalid["phrase"]) == (302, "Rule302")
    assert tasks["broken"]["retryPolicyStatus"]["totalRetriedCount"] == 0


def test_an_invalid_failure_rule_of_a_role_is_rejected_with_its_field(serve: Serve) -> None:
    server = serve()
    rules = [a_rule(205, "Transient", messageRegex="(a+)+"), a_rule(300, "Transient", reasonRegx="Error")]
    framework = a_framework(a_failing_role("worker", "exit 3", 0, *rules))

    response = server.post(FRAMEWORKS, framework)

    field = "spec.taskRoles[0].task.podFailureSpec"
    assert response["code"] == 422
    assert {cause["field"] for cause in response["details"]["causes"]} == {
        f"{field}[0].code",
        f"{field}[0].podPatterns[0].containers[0].messageRegex",
        f"{field}[1].podPatterns[0].containers[0].reasonRegx",
    }

"""Tasks that stall fail, unless they send heartbeats."""

from tests.builders import Json, a_framework, a_pod_template, a_role
from tests.local.conftest import Serve
from tests.local.server import FRAMEWORKS, ended

#: Sends heartbeats for longer than the deadline, without output.
HEARTBEATS = """\
for i in 1 2 3 4 5 6 7 8; do
  curl --silent --fail -X POST -H "Authorization: Bearer $LAUNCHER_TOKEN" \\
    "$LAUNCHER_RENDEZVOUS/heartbeat?task=$FC_TASKROLE_NAME/$FC_TASK_INDEX" || exit 5
  sleep 0.5
done
"""


def a_framework_with_deadline(name: str, script: str) -> Json:
    container = {"name": "main", "image": "x", "command": ["sh", "-c", script]}
    role = a_role("worker", 1, pod=a_pod_template(containers=[container]))
    role["task"]["progressDeadlineSeconds"] = 2
    return a_framework(role, name=name)


def test_a_task_without_output_fails_and_one_with_heartbeats_does_not(serve: Serve) -> None:
    server = serve()
    server.post(FRAMEWORKS, a_framework_with_deadline("silent", "echo step 7; exec sleep 600"))
    server.post(FRAMEWORKS, a_framework_with_deadline("alive", HEARTBEATS))

    silent, alive = server.completed("silent"), server.completed("alive")

    assert silent["status"]["attemptStatus"]["completionStatus"]["phrase"] == "Stalled"
    assert "last output: step 7" in silent["status"]["message"]
    assert ended(alive) == "Succeeded", alive["status"]["message"]

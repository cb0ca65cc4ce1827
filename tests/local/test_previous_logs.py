"""``launcher logs -p`` prints the log of the previous attempt."""

import pytest

from launcher.cli.main import main
from tests.builders import a_framework, a_pod_template, a_role
from tests.local.conftest import Serve
from tests.local.server import FRAMEWORKS


def test_the_previous_attempt_is_the_one_before_the_last(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server = serve(module="tests.local.serve_without_backoff")
    monkeypatch.setenv("LAUNCHER_SERVER", server.url)
    command = ["sh", "-c", "echo attempt $FC_TASK_ATTEMPT_ID; exit 1"]
    role = a_role(
        tasks=1, pod=a_pod_template(containers=[{"name": "main", "image": "x", "command": command}])
    )
    role["task"]["retryPolicy"] = {"maxRetryCount": 3}
    server.post(FRAMEWORKS, a_framework(role))
    server.completed("mnist")

    assert main(["logs", "mnist", "worker/0"]) == 0
    assert main(["logs", "mnist", "worker/0", "-p"]) == 0
    assert capsys.readouterr().out == "attempt 3\nattempt 2\n"

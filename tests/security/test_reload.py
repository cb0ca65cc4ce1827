"""SIGHUP reloads token, certificate, policy and failure rules; bad settings change nothing."""

import os
import signal
import ssl
from pathlib import Path

import pytest

from tests.builders import Json, a_framework, a_pod_template, a_role
from tests.cluster.pki import Authority
from tests.eventually import until
from tests.local.conftest import Serve
from tests.local.server import FRAMEWORKS, Server

OLD, NEW = "old-token-0123456789", "new-token-0123456789"


def ready(server: Server, *options: str) -> Server:
    until(lambda: server.curl("/readyz", *options) == "ok" or None, "the launcher is ready")
    return server


def send_sighup(server: Server) -> None:
    os.kill(server.pid, signal.SIGHUP)


def secret(path: Path, text: str) -> Path:
    path.touch(mode=0o600)
    path.write_text(text)
    return path


def code(server: Server, token: str) -> str:
    status = ("-o", "/dev/null", "-w", "%{http_code}", "-H", f"Authorization: Bearer {token}")
    return server.curl(FRAMEWORKS, *status)


def two_tasks(name: str) -> Json:
    return a_framework(a_role(tasks=2), name=name)


def logged(server: Server, text: str) -> str:
    """Waits for a line of the log that contains *text*, and returns it."""

    def probe() -> str | None:
        return next((line for line in server.errors().splitlines() if text in line), None)

    return until(probe, f"{text!r} in the log")


def test_a_new_token_replaces_the_old_one(serve: Serve, tmp_path: Path) -> None:
    token = secret(tmp_path / "token", OLD)
    server = ready(serve("--token-file", str(token)))
    assert (code(server, OLD), code(server, NEW)) == ("200", "401")

    token.write_text(NEW)
    send_sighup(server)

    until(lambda: code(server, NEW) == "200" or None, "the new token is accepted")
    assert code(server, OLD) == "401"


@pytest.mark.parametrize(
    ("text", "mode"), [("short", 0o600), ("", 0o600), (NEW, 0o644)], ids=["short", "empty", "readable by all"]
)
def test_an_invalid_token_file_keeps_the_old_token(
    serve: Serve, tmp_path: Path, text: str, mode: int
) -> None:
    token = secret(tmp_path / "token", OLD)
    server = ready(serve("--token-file", str(token)))

    token.write_text(text)
    token.chmod(mode)
    send_sighup(server)

    assert "--token-file" in logged(server, "settings not reloaded")
    assert code(server, OLD) == "200"


def test_a_reloaded_policy_applies_to_the_next_framework(serve: Serve, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("policy: {max-tasks: 2}\n")
    server = ready(serve("--config", str(config)))
    assert server.post(FRAMEWORKS, two_tasks("before"))["kind"] == "Framework"

    config.write_text("policy: {max-tasks: 1}\n")
    send_sighup(server)

    def is_rejected() -> bool | None:
        response = server.post(f"{FRAMEWORKS}?dryRun=All", two_tasks("after"))
        return True if response.get("code") == 422 else None

    until(is_rejected, "the new policy applies")


def test_a_reloaded_policy_applies_to_mounts(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    config = tmp_path / "config.yaml"
    config.write_text(f"policy: {{host-path-prefixes: [{tmp_path}/first]}}\n")
    server = ready(serve("--config", str(config)))
    container = {
        "name": "main",
        "image": "none",
        "command": ["touch", "/mnt/written"],
        "volumeMounts": [{"name": "work", "mountPath": "/mnt"}],
    }
    volumes = [{"name": "work", "hostPath": {"path": str(tmp_path / "second")}}]
    framework = a_framework(
        a_role(tasks=1, pod=a_pod_template(containers=[container], volumes=volumes)), name="writer"
    )
    assert server.post(FRAMEWORKS, framework)["code"] == 422

    config.write_text(f"policy: {{host-path-prefixes: [{tmp_path}/second]}}\n")
    send_sighup(server)

    until(lambda: server.post(FRAMEWORKS, framework)["kind"] == "Framework" or None, "the new policy applies")
    until(lambda: (tmp_path / "second" / "written").exists() or None, "the volume is mounted")


def failure_rule(code: int) -> str:
    pattern = "{containers: [{codeRange: {min: 3, max: 3}}]}"
    return f"pod-failure-spec:\n- code: {code}\n  phrase: Rule{code}\n  podPatterns: [{pattern}]\n"


def completion_phrase(server: Server, name: str) -> str:
    """The completion phrase of a Framework with one task that exits with code 3."""
    container = {"name": "main", "image": "none", "command": ["sh", "-c", "exit 3"]}
    framework = a_framework(a_role(tasks=1, pod=a_pod_template(containers=[container])), name=name)
    assert server.post(FRAMEWORKS, framework)["kind"] == "Framework"

    def probe() -> str | None:
        status = server.get(f"{FRAMEWORKS}/{name}").get("status") or {}
        if not status.get("completionTime"):
            return None
        phrase: str = status["attemptStatus"]["completionStatus"]["phrase"]
        return phrase

    return until(probe, f"{name} is completed")


def test_new_failure_rules_classify_the_next_failed_pod(serve: Serve, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(failure_rule(300))
    server = ready(serve("--verbose", "--config", str(config)))
    assert completion_phrase(server, "before") == "Rule300"

    config.write_text(failure_rule(205))
    send_sighup(server)
    assert "pod-failure-spec[0].code: Invalid value: 205" in logged(server, "settings not reloaded")
    assert completion_phrase(server, "meanwhile") == "Rule300"

    config.write_text(failure_rule(301))
    send_sighup(server)
    logged(server, "settings reloaded")
    assert "needs a restart" not in server.errors()
    assert completion_phrase(server, "after") == "Rule301"


def test_an_invalid_config_file_keeps_the_old_policy_and_is_reported(serve: Serve, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("policy: {max-tasks: 1}\n")
    server = ready(serve("--config", str(config)))

    config.write_text("policy:\n  max-tasks: none\n")
    send_sighup(server)

    assert "line 2: policy: max-tasks must be" in logged(server, "settings not reloaded")
    assert server.post(FRAMEWORKS, two_tasks("after"))["code"] == 422


def test_a_changed_setting_that_needs_a_restart_is_reported(serve: Serve, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("host: [a.example]\n")
    server = ready(serve("--config", str(config)))

    config.write_text("host: [b.example]\n")
    send_sighup(server)

    assert "setting='host'" in logged(server, "needs a restart")
    assert server.get(FRAMEWORKS)["kind"] == "FrameworkList"


def test_a_new_path_of_the_token_keeps_the_old_token(serve: Serve, tmp_path: Path) -> None:
    old, new = secret(tmp_path / "old", OLD), secret(tmp_path / "new", NEW)
    config = tmp_path / "config.yaml"
    config.write_text(f"token-file: {old}\n")
    server = ready(serve("--config", str(config)))

    # The new file is not hidden in running pods.
    config.write_text(f"token-file: {new}\n")
    send_sighup(server)

    assert "a new path needs a restart" in logged(server, "settings not reloaded")
    assert (code(server, OLD), code(server, NEW)) == ("200", "401")


def test_a_rotated_certificate_is_served_to_new_clients(serve: Serve, tmp_path: Path) -> None:
    old, new = Authority(tmp_path / "old").server(), Authority(tmp_path / "new").server()
    certificate, key = tmp_path / "tls.crt", secret(tmp_path / "tls.key", old.key.read_text())
    certificate.write_bytes(old.certificate.read_bytes())
    server = ready(serve("--tls-cert", str(certificate), "--tls-key", str(key)), "--insecure")
    port = int(server.url.rpartition(":")[2])

    def served_certificate() -> str:
        return ssl.get_server_certificate(("127.0.0.1", port), timeout=10)

    assert served_certificate() == old.certificate.read_text()
    certificate.write_bytes(new.certificate.read_bytes())
    key.write_bytes(new.key.read_bytes())

    until(
        lambda: served_certificate() == new.certificate.read_text() or None, "the new certificate is served"
    )


def test_a_reload_cannot_remove_the_token_of_a_launcher_that_other_machines_can_reach(
    serve: Serve, tmp_path: Path
) -> None:
    pair = Authority(tmp_path / "authority").server()
    token, config = secret(tmp_path / "token", OLD), tmp_path / "config.yaml"
    config.write_text(
        f"listen: 0.0.0.0:0\ntoken-file: {token}\ntls-cert: {pair.certificate}\ntls-key: {pair.key}\n"
    )
    # Without the flag --listen of the fixture, which would override the file.
    shell = f'exec "$1" -m launcher serve --data "$8" --config {config}'
    server = serve(under=("sh", "-c", shell, "sh"))
    server.url = server.url.replace("0.0.0.0", "127.0.0.1")
    ready(server, "--insecure")

    # Valid for a start on loopback, but this launcher listens on every address until it is restarted.
    config.write_text(f"listen: 127.0.0.1:0\ntls-cert: {pair.certificate}\ntls-key: {pair.key}\n")
    send_sighup(server)

    assert "set a token" in logged(server, "settings not reloaded")
    response = server.curl(FRAMEWORKS, "--insecure", "-o", "/dev/null", "-w", "%{http_code}")
    assert response == "401"


def test_pods_do_not_ignore_sighup(serve: Serve) -> None:
    server = ready(serve())
    container = {"name": "main", "image": "none", "command": ["cat", "/proc/self/status"]}
    server.post(
        FRAMEWORKS, a_framework(a_role(tasks=1, pod=a_pod_template(containers=[container])), name="signals")
    )
    server.completed("signals")

    status = dict(
        line.split(":\t", 1) for line in server.log("signals-worker-0").splitlines() if ":\t" in line
    )

    assert not int(status["SigIgn"], 16) & 1 << (signal.SIGHUP - 1)

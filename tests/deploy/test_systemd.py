"""The systemd unit and the config file of deploy/ are valid, and the documented installation works."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from launcher.cli.main import main
from launcher.settings.local import settings_from
from tests.docs.pages import PROJECT, blocks
from tests.eventually import TIMEOUT_SECONDS
from tests.local.server import Server

SYSTEMD = Path(__file__).parents[2] / "deploy" / "systemd"
UNIT = (SYSTEMD / "framework-launcher.service").read_text()


def start_command() -> list[str]:
    """The command of the unit."""
    (line,) = re.findall(r"^ExecStart=(.*)$", UNIT, re.MULTILINE)
    return shlex.split(line)


def test_the_launcher_accepts_the_config_file(tmp_path: Path) -> None:
    text = (SYSTEMD / "config.yaml").read_text()
    for name in ("token", "tls.crt", "tls.key"):
        (tmp_path / name).write_text("0123456789abcdef")
        (tmp_path / name).chmod(0o600)
    (tmp_path / "config.yaml").write_text(
        text.replace("/run/credentials/framework-launcher.service", str(tmp_path))
    )

    settings = settings_from({"config": str(tmp_path / "config.yaml")}, {})

    assert (settings.host, settings.port) == ("0.0.0.0", 8443)
    assert settings.token == "0123456789abcdef"
    assert settings.tls is not None
    assert settings.policy.privileged is False


def test_the_unit_loads_every_credential_of_the_config_file() -> None:
    named = re.findall(
        r"/run/credentials/framework-launcher\.service/(\S+)", (SYSTEMD / "config.yaml").read_text()
    )

    assert sorted(named) == sorted(re.findall(r"^LoadCredential=([^:]+):", UNIT, re.MULTILINE))


def test_the_unit_starts_an_existing_command(capsys: pytest.CaptureFixture[str]) -> None:
    _, *arguments = start_command()

    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--help"])

    assert ended.value.code == 0
    assert "--config" in capsys.readouterr().out


def test_pods_survive_a_restart_of_the_unit() -> None:
    assert "KillMode=process" in UNIT.splitlines()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "framework-launcher.service"
    unit.write_text(UNIT.replace(start_command()[0], "/bin/true"))

    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stderr) == (0, "")


def test_the_documentation_names_every_file() -> None:
    page = (SYSTEMD.parents[1] / "docs/install-machine.md").read_text()

    assert [path.name for path in SYSTEMD.iterdir() if f"`{path.name}`" not in page] == []


#: Commands of the installation that need a network or systemd, or change the checkout.
SKIPPED = ("rm ", "/usr/bin/python3 ", "/opt/", "systemd-sysusers", "systemctl ")


def bash(script: str, directory: Path) -> str:
    """The output of the script, which must succeed."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=directory,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_the_commands_of_the_installation_page_install_a_service_that_its_clients_can_use(
    tmp_path: Path,
) -> None:
    install, use, *_ = [block.text for block in blocks(PROJECT / "docs/install-machine.md", "sh")]
    root, client = tmp_path / "root", tmp_path / "client"
    lines = [line for line in install.splitlines() if not line.startswith(SKIPPED)]
    script = "\n".join(lines).replace("$(hostname -f)", "localhost").replace(" /etc/", f" {root}/etc/")

    bash(script, PROJECT)

    settings = root / "etc/framework-launcher"
    config = settings / "config.yaml"
    config.write_text(
        config.read_text().replace("/run/credentials/framework-launcher.service", str(settings))
    )
    server = Server(tmp_path, "--config", str(config))
    try:
        client.mkdir()
        for name in ("token", "tls.crt"):
            shutil.copy(settings / name, client)
        (client / "examples").symlink_to(PROJECT / "examples")
        address = server.url.removeprefix("https://127.0.0.1:")
        printed = bash(use.replace("launcher.example.com:8443", f"localhost:{address}"), client)
    finally:
        server.end()
    assert "hello from greeter 1 of hello" in printed
    assert '"kind": "FrameworkList"' in printed

"""What an admin copies from deploy/ is understood by the programs that read it."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from launcher.cli.main import main
from launcher.settings import settings_from

SYSTEMD = Path(__file__).parents[1] / "deploy" / "systemd"
UNIT = (SYSTEMD / "framework-launcher.service").read_text()


def command() -> list[str]:
    """What the unit starts."""
    (line,) = re.findall(r"^ExecStart=(.*)$", UNIT, re.MULTILINE)
    return shlex.split(line)


def test_the_config_file_is_one_that_the_launcher_takes(tmp_path: Path) -> None:
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


def test_every_credential_that_the_config_file_names_is_loaded_by_the_unit() -> None:
    named = re.findall(
        r"/run/credentials/framework-launcher\.service/(\S+)", (SYSTEMD / "config.yaml").read_text()
    )

    assert sorted(named) == sorted(re.findall(r"^LoadCredential=([^:]+):", UNIT, re.MULTILINE))


def test_the_unit_starts_a_command_that_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    _, *words = command()

    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])

    assert ended.value.code == 0
    assert "--config" in capsys.readouterr().out


def test_pods_outlive_a_restart_of_the_unit() -> None:
    assert "KillMode=process" in UNIT.splitlines()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not there")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "framework-launcher.service"
    unit.write_text(UNIT.replace(command()[0], "/bin/true"))

    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stderr) == (0, "")


def test_readme_tells_where_every_file_goes() -> None:
    readme = (SYSTEMD / "README.md").read_text()

    assert [
        path.name for path in SYSTEMD.iterdir() if path.name != "README.md" and f"`{path.name}`" not in readme
    ] == []

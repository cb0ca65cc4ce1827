"""Changes of /etc/hosts are visible in running containers of every isolation mode."""

from pathlib import Path

import pytest

from launcher.node.agent.hosts_files import rewrite
from launcher.node.container_runtime import Mount
from tests.eventually import eventually
from tests.node.runtimes import ISOLATION_MODES, a_runtime, log_text, shell, use_isolation, wait_until_ended

#: Waits for the name to lead there; fails when the file can be written to.
_SCRIPT = """
until getent hosts peer.f | grep -q 127.0.0.2; do sleep 0.1; done; echo first
until getent hosts peer.f | grep -q 127.0.0.3; do sleep 0.1; done; echo then
if echo >>/etc/hosts; then exit 1; fi 2>/dev/null
"""


@pytest.mark.parametrize("isolation", ISOLATION_MODES)
async def test_a_running_program_resolves_changed_names(
    isolation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "hosts"
    rewrite(file, b"127.0.0.2 peer.f\n127.0.0.9 another\n")
    use_isolation(isolation, tmp_path, monkeypatch)
    async with a_runtime(tmp_path, {}) as runtime:
        await runtime.start_container(
            shell(tmp_path, f"PATH=/usr/bin:/bin{_SCRIPT}", mounts=[Mount(file, "/etc/hosts", True)])
        )
        await eventually(lambda: "first" in log_text(tmp_path))

        rewrite(file, b"127.0.0.3 peer.f\n")
        run = await wait_until_ended(runtime)

    assert run.ended is not None
    assert (run.ended.exit_code, log_text(tmp_path)) == (0, "first\nthen\n")

"""However containers get files of their own: names are found in the file at /etc/hosts, as it was and rewritten."""

from pathlib import Path

import pytest

from launcher.node.agent.hosts_files import rewrite
from launcher.node.container_runtime import Mount
from tests.node.runtimes import WAYS, a_runtime, ended, said, shell, until, use_way

#: Waits for the name to lead there; fails when the file can be written to.
_SCRIPT = """
until getent hosts peer.f | grep -q 127.0.0.2; do sleep 0.1; done; echo first
until getent hosts peer.f | grep -q 127.0.0.3; do sleep 0.1; done; echo then
if echo >>/etc/hosts; then exit 1; fi 2>/dev/null
"""


@pytest.mark.parametrize("way", WAYS)
async def test_a_program_that_runs_sees_names_that_move(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "hosts"
    rewrite(file, b"127.0.0.2 peer.f\n127.0.0.9 another\n")
    use_way(way, tmp_path, monkeypatch)
    async with a_runtime(tmp_path, {}) as runtime:
        await runtime.start(
            shell(tmp_path, f"PATH=/usr/bin:/bin{_SCRIPT}", mounts=[Mount(file, "/etc/hosts", True)])
        )
        await until(lambda: "first" in said(tmp_path))

        rewrite(file, b"127.0.0.3 peer.f\n")
        run = await ended(runtime)

    assert run.ended is not None
    assert (run.ended.exit_code, said(tmp_path)) == (0, "first\nthen\n")

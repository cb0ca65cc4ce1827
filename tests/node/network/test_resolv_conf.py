from pathlib import Path

import pytest

from launcher.node.network.resolv_conf import name_servers, usable_resolv_conf


@pytest.mark.parametrize(
    ("machine", "resolved", "expected"),
    [
        pytest.param("nameserver 10.0.0.2\n", None, "etc/resolv.conf", id="a server of the network"),
        pytest.param(
            "# stub\nnameserver 127.0.0.53\n",
            "nameserver 10.0.0.2\n",
            "run/systemd/resolve/resolv.conf",
            id="systemd-resolved",
        ),
        pytest.param("nameserver 127.0.0.1\n", None, None, id="only a local server"),
        pytest.param("nameserver ::1\nnameserver\nnameserver x\n", None, None, id="no IPv4 server"),
        pytest.param(None, None, None, id="no file"),
    ],
)
def test_the_file_with_servers_that_pods_reach_is_chosen(
    tmp_path: Path, machine: str | None, resolved: str | None, expected: str | None
) -> None:
    for name, text in (("etc/resolv.conf", machine), ("run/systemd/resolve/resolv.conf", resolved)):
        if text is not None:
            (tmp_path / name).parent.mkdir(parents=True)
            (tmp_path / name).write_text(text)

    assert usable_resolv_conf(tmp_path) == (tmp_path / expected if expected else None)


def test_name_servers_are_read_without_options(tmp_path: Path) -> None:
    file = tmp_path / "resolv.conf"
    file.write_text("search example.com\nnameserver 10.0.0.2\nnameserver  10.0.0.3 # second\n")

    assert [str(server) for server in name_servers(file)] == ["10.0.0.2", "10.0.0.3"]

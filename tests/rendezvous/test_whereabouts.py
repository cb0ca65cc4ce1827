"""Where pods are told to find the launcher, and whom to believe that it is the launcher."""

import resource
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.core.errors import NotFound
from launcher.settings import ClusterSettings, InPod, Kubeconfig, Settings, TlsFiles
from launcher.wiring.rendezvous import authority_of, launcher_url, raise_open_file_limit

LOCAL = Settings("127.0.0.1", 0, Path("/nowhere"), ())
CLUSTER = ClusterSettings("0.0.0.0", 8443, Kubeconfig(), tls="framework-launcher-tls")


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        yield sock


@pytest.fixture
def everywhere() -> Iterator[socket.socket]:
    with socket.create_server(("0.0.0.0", 0)) as sock:
        yield sock


def test_on_one_machine_it_is_where_the_launcher_listens(listening: socket.socket) -> None:
    port = listening.getsockname()[1]

    assert launcher_url(LOCAL, listening) == f"http://127.0.0.1:{port}"
    assert (
        launcher_url(replace(LOCAL, tls=TlsFiles(Path("c"), Path("k"))), listening)
        == f"https://127.0.0.1:{port}"
    )


def test_in_a_cluster_it_is_the_service(everywhere: socket.socket) -> None:
    settings = replace(CLUSTER, cluster=InPod("10.0.0.1", "443"))

    assert launcher_url(settings, everywhere, "home") == "https://framework-launcher.home.svc"


def test_a_launcher_that_listens_everywhere_is_called_by_a_name(everywhere: socket.socket) -> None:
    port = everywhere.getsockname()[1]

    assert launcher_url(CLUSTER, everywhere, "home") == f"https://{socket.gethostname()}:{port}"
    named = replace(CLUSTER, hosts=("launcher.example",))
    assert launcher_url(named, everywhere, "home") == f"https://launcher.example:{port}"


@pytest.mark.parametrize("settings", [LOCAL, CLUSTER, replace(CLUSTER, cluster=InPod("h", "p"))])
def test_what_the_admin_says_stands_over_all(
    settings: Settings | ClusterSettings, listening: socket.socket
) -> None:
    told = replace(settings, discovery_url="https://launcher.example")

    assert launcher_url(told, listening, "home") == "https://launcher.example"


def test_the_authority_stands_beside_the_certificate_or_is_the_certificate(tmp_path: Path) -> None:
    certificate = tmp_path / "tls.crt"
    certificate.write_text("certificate")
    alone = authority_of(certificate)
    (tmp_path / "ca.crt").write_text("authority")

    assert (alone, authority_of(certificate)) == ("certificate", "authority")


def test_a_certificate_that_cannot_be_read_is_for_an_admin_to_see_to(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="certificate cannot be read"):
        authority_of(tmp_path / "tls.crt")


def test_as_many_may_be_connected_as_the_system_allows() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(before[0], 512), before[1]))
    try:
        raise_open_file_limit()

        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (before[1], before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)

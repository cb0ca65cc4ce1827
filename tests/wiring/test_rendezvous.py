"""The URL of the launcher for pods, its CA certificate, and the limit of connections."""

import resource
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.core.errors import NotFound
from launcher.settings.cluster import ClusterSettings, InPod, Kubeconfig
from launcher.settings.local import Settings
from launcher.settings.sources import TlsFiles
from launcher.wiring.rendezvous import ca_bundle, launcher_url, raise_open_file_limit

LOCAL = Settings("127.0.0.1", 0, Path("/nowhere"), ())
CLUSTER = ClusterSettings("0.0.0.0", 8443, Kubeconfig(), tls="framework-launcher-tls")


@pytest.fixture
def loopback_socket() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        yield sock


@pytest.fixture
def wildcard_socket() -> Iterator[socket.socket]:
    with socket.create_server(("0.0.0.0", 0)) as sock:
        yield sock


def test_on_one_machine_it_is_the_address_of_the_socket(loopback_socket: socket.socket) -> None:
    port = loopback_socket.getsockname()[1]
    with_tls = replace(LOCAL, tls=TlsFiles(Path("c"), Path("k")))

    assert launcher_url(LOCAL, loopback_socket) == f"http://127.0.0.1:{port}"
    assert launcher_url(with_tls, loopback_socket) == f"https://127.0.0.1:{port}"


def test_in_a_cluster_it_is_the_service(wildcard_socket: socket.socket) -> None:
    settings = replace(CLUSTER, cluster=InPod("10.0.0.1", "443"))

    assert launcher_url(settings, wildcard_socket, "home") == "https://framework-launcher.home.svc"


def test_with_a_wildcard_address_it_is_the_host_name(wildcard_socket: socket.socket) -> None:
    port = wildcard_socket.getsockname()[1]
    with_host = replace(CLUSTER, hosts=("launcher.example",))

    assert launcher_url(CLUSTER, wildcard_socket, "home") == f"https://{socket.gethostname()}:{port}"
    assert launcher_url(with_host, wildcard_socket, "home") == f"https://launcher.example:{port}"


@pytest.mark.parametrize("settings", [LOCAL, CLUSTER, replace(CLUSTER, cluster=InPod("h", "p"))])
def test_the_setting_overrides_it(
    settings: Settings | ClusterSettings, loopback_socket: socket.socket
) -> None:
    configured = replace(settings, discovery_url="https://launcher.example")

    assert launcher_url(configured, loopback_socket, "home") == "https://launcher.example"


def test_the_ca_is_ca_crt_next_to_the_certificate_or_the_certificate_itself(tmp_path: Path) -> None:
    certificate = tmp_path / "tls.crt"
    certificate.write_text("certificate")
    without_ca_file = ca_bundle(certificate)
    (tmp_path / "ca.crt").write_text("authority")

    assert (without_ca_file, ca_bundle(certificate)) == ("certificate", "authority")


def test_an_unreadable_certificate_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="certificate is not readable"):
        ca_bundle(tmp_path / "tls.crt")


def test_the_limit_of_open_files_is_raised_to_the_hard_limit() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(before[0], 512), before[1]))
    try:
        raise_open_file_limit()

        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (before[1], before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)

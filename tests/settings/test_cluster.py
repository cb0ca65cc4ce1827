"""Settings of Kubernetes mode."""

from pathlib import Path

import pytest

from launcher.settings.cluster import (
    InPod,
    Kubeconfig,
    cluster_settings_from,
    is_for_kubernetes,
)
from launcher.settings.config_file import REPEATED
from launcher.settings.local import settings_from
from launcher.settings.sources import TlsFiles
from launcher.settings.values import InvalidSetting

IN_POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "6443"}


def test_kubernetes_mode_is_selected_by_flag_variable_or_config_file(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("kubernetes: true\n")

    assert is_for_kubernetes({"kubernetes": True}, {})
    assert is_for_kubernetes({}, {"LAUNCHER_KUBERNETES": "true"})
    assert is_for_kubernetes({"config": str(config)}, {})
    assert not is_for_kubernetes({"config": str(config)}, {"LAUNCHER_KUBERNETES": "0"})
    assert not is_for_kubernetes({}, IN_POD)
    with pytest.raises(InvalidSetting, match="LAUNCHER_KUBERNETES: 'perhaps' is neither true nor false"):
        is_for_kubernetes({}, {"LAUNCHER_KUBERNETES": "perhaps"})


def test_a_setting_that_is_on_or_off_accepts_nothing_else() -> None:
    assert not cluster_settings_from({"dashboard": "off"}, IN_POD).dashboard
    with pytest.raises(InvalidSetting, match="--dashboard: 'x' is neither on nor off"):
        cluster_settings_from({"dashboard": "x"}, IN_POD)


def test_frameworkcontrollers_group_is_served_if_configured() -> None:
    assert not cluster_settings_from({}, IN_POD).frameworkcontroller
    assert cluster_settings_from({"serve-frameworkcontroller": True}, IN_POD).frameworkcontroller
    assert cluster_settings_from(
        {}, {**IN_POD, "LAUNCHER_SERVE_FRAMEWORKCONTROLLER": "true"}
    ).frameworkcontroller


def test_metrics_need_no_authentication_by_default() -> None:
    assert not cluster_settings_from({}, IN_POD).metrics_auth
    assert cluster_settings_from({"metrics-auth": True}, IN_POD).metrics_auth
    with pytest.raises(InvalidSetting, match="metrics-auth: requires --kubernetes"):
        settings_from({"metrics-auth": True}, {})


def test_in_a_pod_the_default_is_its_own_cluster() -> None:
    assert cluster_settings_from({}, IN_POD).cluster == InPod("10.96.0.1", "6443")
    assert cluster_settings_from({"context": "other"}, IN_POD).cluster == Kubeconfig(None, "other")
    assert cluster_settings_from({"kubeconfig": "file"}, IN_POD).cluster == Kubeconfig("file")


def test_outside_of_a_cluster_the_kubeconfig_is_that_of_kubectl() -> None:
    assert cluster_settings_from({}, {}).cluster == Kubeconfig()
    assert cluster_settings_from({}, {"KUBECONFIG": "a:b"}).cluster == Kubeconfig("a:b")
    assert cluster_settings_from({"kubeconfig": "c"}, {"KUBECONFIG": "a:b"}).cluster == Kubeconfig("c")


def test_a_certificate_in_files_or_a_secret_permits_other_machines(tmp_path: Path) -> None:
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    for path in (certificate, key):
        path.write_text("")
        path.chmod(0o600)
    open_to_all = {"listen": "0.0.0.0:8443"}

    files = cluster_settings_from(
        {**open_to_all, "tls-cert": str(certificate), "tls-key": str(key), "client-ca": str(key)}, {}
    )
    secret = cluster_settings_from({**open_to_all, "tls-secret": "framework-launcher-tls"}, {})

    assert (files.tls, files.client_ca) == (TlsFiles(certificate, key), key)
    assert (secret.tls, secret.client_ca) == ("framework-launcher-tls", None)


@pytest.mark.parametrize("name", ["data", "token-file", "node", "image", "nfs", "claim", "workdir"])
def test_settings_of_local_mode_are_rejected_in_kubernetes_mode(name: str) -> None:
    value = ["x"] if name in REPEATED else "x"

    with pytest.raises(InvalidSetting, match=f"{name}: not supported with --kubernetes"):
        cluster_settings_from({name: value}, {})


@pytest.mark.parametrize("name", ["kubeconfig", "context", "tls-secret", "client-ca", "log-archive"])
def test_settings_of_kubernetes_mode_are_rejected_in_local_mode(name: str) -> None:
    with pytest.raises(InvalidSetting, match=f"{name}: requires --kubernetes"):
        settings_from({name: "x"}, {})


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        pytest.param({"listen": "0.0.0.0:80"}, "callers send their credentials", id="open without TLS"),
        pytest.param({"client-ca": "x"}, "client-ca: requires TLS", id="client certificates without TLS"),
        pytest.param(
            {"tls-secret": "s", "client-ca": "nowhere"},
            "client-ca: nowhere is not a readable file",
            id="no such authority",
        ),
        pytest.param({"tls-cert": "x"}, "must be set together", id="a certificate without its key"),
    ],
)
def test_an_invalid_setting_of_kubernetes_mode_is_named(flags: dict[str, object], error: str) -> None:
    with pytest.raises(InvalidSetting, match=error):
        cluster_settings_from(flags, {})


def test_certificate_files_and_a_secret_cannot_be_combined(tmp_path: Path) -> None:
    path = tmp_path / "pem"
    path.write_text("")
    path.chmod(0o600)

    with pytest.raises(InvalidSetting, match="cannot be combined"):
        cluster_settings_from({"tls-cert": str(path), "tls-key": str(path), "tls-secret": "s"}, {})

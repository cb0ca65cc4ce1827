"""Flags, environment and config file become settings, or one sentence that says what to change."""

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.cli.commands import serve
from launcher.core.validation.admission_policy import Policy
from launcher.settings import (
    REPEATED,
    SINGLE,
    SWITCHES,
    ClusterSettings,
    InPod,
    InvalidSetting,
    Kubeconfig,
    Settings,
    TlsFiles,
    cluster_settings_from,
    for_run,
    is_for_kubernetes,
    settings_from,
)

TOKEN = "0123456789abcdef"


def settings_of(tmp_path: Path, config: str) -> Settings:
    path = tmp_path / "config.yaml"
    path.write_text(config)
    return settings_from({"config": str(path)}, {})


def test_with_nothing_said_it_listens_on_loopback_with_one_node_and_the_users_own_data() -> None:
    settings = settings_from({}, {"XDG_DATA_HOME": "/home/ann/.data"})

    assert (settings.host, settings.port) == ("127.0.0.1", 8080)
    assert settings.data == Path("/home/ann/.data/framework-launcher")
    assert len(settings.nodes) == 1
    assert settings.policy == Policy()


def test_a_flag_stands_over_its_variable_and_that_over_the_config_file(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("listen: 127.0.0.1:1\ndata: /filed\n")
    environment = {"LAUNCHER_CONFIG": str(config), "LAUNCHER_LISTEN": "127.0.0.1:2", "LAUNCHER_DATA": "/set"}

    settings = settings_from({"listen": "127.0.0.1:3"}, environment)

    assert (settings.port, settings.data) == (3, Path("/set"))
    assert settings_from({}, {"LAUNCHER_CONFIG": str(config)}).data == Path("/filed")


def test_several_values_in_one_variable_have_blanks_between_them() -> None:
    settings = settings_from({}, {"LAUNCHER_NODE": "one,cpu=1 two,cpu=2"})

    assert [node.name for node in settings.nodes] == ["one", "two"]


def test_a_config_file_says_what_pods_may_ask_for(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "policy: {host-path-prefixes: [/srv], nfs-servers: [], host-network: false, max-tasks: 7}\n"
    )

    settings = settings_from({"config": str(config)}, {})

    assert settings.policy == Policy(
        host_path_prefixes=("/srv",), nfs_servers=(), host_network=False, max_tasks=7
    )


def test_images_exports_and_claims_are_directories_by_name(tmp_path: Path) -> None:
    given = {
        "image": [f"registry.example:5000/tf={tmp_path}"],
        "nfs": [f"10.0.0.1:/share={tmp_path}"],
        "claim": [f"data={tmp_path}"],
    }

    settings = settings_from(given, {})

    assert settings.images == {"registry.example:5000/tf": tmp_path}
    assert settings.nfs == {"10.0.0.1:/share": tmp_path}
    assert settings.claims == {"data": tmp_path}


def test_a_token_and_a_certificate_open_it_to_other_machines(tmp_path: Path) -> None:
    for name in ("token", "crt", "key"):
        (tmp_path / name).write_text(TOKEN + "\n")
        (tmp_path / name).chmod(0o600)
    given = {
        "listen": "0.0.0.0:8443",
        "token-file": str(tmp_path / "token"),
        "tls-cert": str(tmp_path / "crt"),
        "tls-key": str(tmp_path / "key"),
    }

    assert settings_from(given, {}).token == TOKEN
    with pytest.raises(InvalidSetting, match="TLS"):
        settings_from({**given, "tls-cert": None, "tls-key": None}, {})
    with pytest.raises(InvalidSetting, match="token"):
        settings_from({**given, "token-file": None}, {})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        pytest.param({"listen": "8080"}, r"listen: '8080' is not HOST:PORT", id="a port alone"),
        pytest.param({"listen": "127.0.0.1:99999"}, "is not HOST:PORT", id="no such port"),
        pytest.param({"listen": "0.0.0.0:80"}, "a token and TLS", id="open to everybody"),
        pytest.param({"tls-cert": "x"}, "belong together", id="a certificate without its key"),
        pytest.param({"tls-cert": "x", "tls-key": "y"}, "x is no file", id="no such certificate"),
        pytest.param({"token-file": "nowhere"}, "token-file: nowhere is no file", id="no such token"),
        pytest.param({"image": ["tf"]}, "image: 'tf' is not KEY=DIR", id="an image without its directory"),
        pytest.param({"nfs": ["s:/p=/nowhere"]}, "/nowhere is no directory", id="no such directory"),
        pytest.param({"node": ["a,cpu=much"]}, "node: .*much", id="a node of no size"),
        pytest.param({"node": ["a", "a"]}, "node: .*a", id="two nodes of one name"),
        pytest.param({"config": "nowhere"}, "config: nowhere is no file", id="no such config"),
    ],
)
def test_what_cannot_be_followed_is_named(given: dict[str, object], told: str) -> None:
    with pytest.raises(InvalidSetting, match=told):
        settings_from(given, {})


@pytest.mark.parametrize(
    ("config", "told"),
    [
        pytest.param("lisen: x", "no setting 'lisen'; did you mean 'listen'?", id="misspelt"),
        pytest.param("[a]", "has to be a mapping", id="a list"),
        pytest.param("a: b: c", "mapping values", id="no YAML"),
        pytest.param("listen: 80", "listen has to be text", id="a number"),
        pytest.param(
            "kubernetes: 1", "kubernetes has to be true or false", id="neither yes nor no to a mode"
        ),
        pytest.param("node: gpu", "node has to be a list of texts", id="one word for several"),
        pytest.param("policy: {max-task: 1}", "did you mean 'max-tasks'?", id="misspelt policy"),
        pytest.param("policy: {max-tasks: 0}", "at least 1", id="no tasks"),
        pytest.param("policy: {privileged: maybe}", "true or false", id="neither yes nor no"),
        pytest.param("policy: {nfs-servers: a}", "list of texts", id="one server"),
        pytest.param("policy: {nfs-servers: ['']}", "none of them empty", id="an empty server"),
        pytest.param("policy: {host-path-prefixes: ['']}", "an absolute path", id="an empty prefix"),
        pytest.param("policy: {host-path-prefixes: [srv]}", "an absolute path", id="a relative prefix"),
        pytest.param("policy: {host-path-prefixes: [/a/../b]}", "an absolute path", id="a prefix with dots"),
        pytest.param("data: a\n\ndata: b", "line 3: data is set twice", id="a setting twice"),
        pytest.param(
            "policy:\n  max-tasks: 1\n  max-tasks: 2",
            "line 3: policy.max-tasks is set twice",
            id="a rule twice",
        ),
        pytest.param("\nlisten: 80", "line 2: listen has to be text", id="the line of a wrong type"),
        pytest.param("\n\nlisten: x", "line 3: listen: 'x' is not HOST:PORT", id="the line of a wrong value"),
        pytest.param("policy:\n  privileged: 1", "line 2: policy: privileged has to be", id="a rule's line"),
        pytest.param("listen:", "line 1: listen has to be text", id="nothing"),
        pytest.param("policy:", "policy has to be a mapping", id="no policy"),
        pytest.param("data: ''", "line 1: data: the value is empty", id="an empty text"),
        pytest.param('data: "a\\0b"', "line 1: data: the value is empty", id="a text with a zero byte"),
        pytest.param("host: ['']", "line 1: host: the value is empty", id="an empty text in a list"),
        pytest.param("? [a]\n: b", "a key has to be text", id="a list as a key"),
        pytest.param("[" * 5000, "levels deep", id="too deep"),
    ],
)
def test_what_is_wrong_in_the_config_file_is_named(tmp_path: Path, config: str, told: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        settings_of(tmp_path, config)

    assert told in str(refused.value)


@pytest.mark.parametrize("name", [*SINGLE, *REPEATED, "config"])
@pytest.mark.parametrize("value", ["", "  "])
@pytest.mark.parametrize("settings", [settings_from, cluster_settings_from])
def test_an_empty_flag_or_variable_is_named(
    settings: Callable[..., Settings | ClusterSettings], name: str, value: str
) -> None:
    variable = "LAUNCHER_" + name.upper().replace("-", "_")

    with pytest.raises(InvalidSetting, match=f"^(--{name}|tls-cert and tls-key)"):
        settings({name: [value] if name in REPEATED else value}, {})
    with pytest.raises(InvalidSetting, match=f"^({variable}|tls-cert and tls-key)"):
        settings({}, {variable: value})


def test_an_empty_config_file_sets_nothing(tmp_path: Path) -> None:
    for config in ("", "\n", "# listen: x\n", "---\n# nothing\n"):
        assert replace(settings_of(tmp_path, config), credentials=()) == settings_from({}, {})


@pytest.mark.parametrize("host", ["http://a", "a:80", "a/b", "a b", "-" * 64, "[::1]"])
def test_a_host_that_is_no_name_is_refused(host: str) -> None:
    with pytest.raises(
        InvalidSetting, match=r"--host: .* is not a host name; write it without scheme and port"
    ):
        settings_from({"host": [host]}, {})


@pytest.mark.parametrize(
    ("text", "mode", "told"),
    [
        pytest.param(TOKEN, 0o644, "chmod 600", id="everybody can read it"),
        pytest.param(TOKEN, 0o602, "chmod 600", id="everybody can write it"),
        pytest.param(TOKEN, 0o620, "chmod 600", id="its group can write it"),
        pytest.param("short", 0o600, "at least 16", id="too short"),
        pytest.param("two words of some length", 0o600, "one word", id="two words"),
        pytest.param("", 0o600, "one word", id="empty"),
        pytest.param(" \n\t\n", 0o600, "one word", id="nothing but blanks"),
    ],
)
def test_a_token_that_protects_nothing_is_refused(tmp_path: Path, text: str, mode: int, told: str) -> None:
    path = tmp_path / "token"
    path.write_text(text)
    path.chmod(mode)

    with pytest.raises(InvalidSetting, match=told):
        settings_from({"token-file": str(path)}, {})


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o640, 0o440])
def test_a_token_may_be_readable_by_its_group(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "token"
    path.write_text(TOKEN)
    path.chmod(mode)

    assert settings_from({"token-file": str(path)}, {}).token == TOKEN


@pytest.mark.parametrize("settings", [settings_from, cluster_settings_from])
@pytest.mark.parametrize("mode", [0o644, 0o602, 0o620])
def test_a_key_that_other_users_can_use_is_refused(
    tmp_path: Path, settings: Callable[..., Settings | ClusterSettings], mode: int
) -> None:
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    certificate.write_text("")
    key.write_text("")
    key.chmod(mode)

    with pytest.raises(InvalidSetting, match=f"--tls-key: .* run: chmod 600 {key}"):
        settings({"tls-cert": str(certificate), "tls-key": str(key)}, {})


def test_a_mounted_secret_is_accepted_in_a_pod_unless_all_can_write_it(tmp_path: Path) -> None:
    # As the kubelet mounts it: a link into a directory that is replaced as a whole.
    (tmp_path / "..2026_01").mkdir()
    (tmp_path / "..data").symlink_to("..2026_01")
    for name in ("tls.crt", "tls.key"):
        (tmp_path / "..data" / name).write_text("")
        (tmp_path / "..data" / name).chmod(0o644)
        (tmp_path / name).symlink_to(f"..data/{name}")
    given = {"tls-cert": str(tmp_path / "tls.crt"), "tls-key": str(tmp_path / "tls.key")}

    assert cluster_settings_from(given, IN_POD).tls == TlsFiles(tmp_path / "tls.crt", tmp_path / "tls.key")

    (tmp_path / "tls.key").chmod(0o646)
    with pytest.raises(InvalidSetting, match="--tls-key: other users can read or change"):
        cluster_settings_from(given, IN_POD)


def test_a_launcher_for_one_framework_has_a_token_of_its_own(tmp_path: Path) -> None:
    one, other = for_run(tmp_path, [], [], []), for_run(tmp_path, [], [], [])

    assert one.token
    assert one.token != other.token
    assert one.port == 0


def test_every_setting_is_a_flag_of_serve() -> None:
    parser = argparse.ArgumentParser()
    serve.add(parser.add_subparsers())

    given = vars(parser.parse_args(["serve"]))

    assert set(serve.SINGLE) == set(SINGLE)
    assert set(serve.REPEATED) == set(REPEATED)
    assert set(serve.SWITCHES) == set(SWITCHES)
    assert {*SINGLE, *REPEATED, *SWITCHES} <= set(given)


# Kubernetes mode.

IN_POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "6443"}


def test_kubernetes_mode_is_asked_for_by_flag_variable_or_config_file(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("kubernetes: true\n")

    assert is_for_kubernetes({"kubernetes": True}, {})
    assert is_for_kubernetes({}, {"LAUNCHER_KUBERNETES": "true"})
    assert is_for_kubernetes({"config": str(config)}, {})
    assert not is_for_kubernetes({"config": str(config)}, {"LAUNCHER_KUBERNETES": "0"})
    assert not is_for_kubernetes({}, IN_POD)
    with pytest.raises(InvalidSetting, match="LAUNCHER_KUBERNETES: 'perhaps' is neither true nor false"):
        is_for_kubernetes({}, {"LAUNCHER_KUBERNETES": "perhaps"})


def test_frameworkcontrollers_name_is_served_when_it_is_asked_for() -> None:
    assert not cluster_settings_from({}, IN_POD).frameworkcontroller
    assert cluster_settings_from({"serve-frameworkcontroller": True}, IN_POD).frameworkcontroller
    assert cluster_settings_from(
        {}, {**IN_POD, "LAUNCHER_SERVE_FRAMEWORKCONTROLLER": "true"}
    ).frameworkcontroller


def test_metrics_are_open_unless_authentication_is_asked_for() -> None:
    assert not cluster_settings_from({}, IN_POD).metrics_auth
    assert cluster_settings_from({"metrics-auth": True}, IN_POD).metrics_auth
    with pytest.raises(InvalidSetting, match="metrics-auth: only with --kubernetes"):
        settings_from({"metrics-auth": True}, {})


def test_a_pod_that_is_told_nothing_means_the_cluster_around_it() -> None:
    assert cluster_settings_from({}, IN_POD).cluster == InPod("10.96.0.1", "6443")
    assert cluster_settings_from({"context": "other"}, IN_POD).cluster == Kubeconfig(None, "other")
    assert cluster_settings_from({"kubeconfig": "file"}, IN_POD).cluster == Kubeconfig("file")


def test_outside_of_a_cluster_the_kubeconfig_is_that_of_kubectl() -> None:
    assert cluster_settings_from({}, {}).cluster == Kubeconfig()
    assert cluster_settings_from({}, {"KUBECONFIG": "a:b"}).cluster == Kubeconfig("a:b")
    assert cluster_settings_from({"kubeconfig": "c"}, {"KUBECONFIG": "a:b"}).cluster == Kubeconfig("c")


def test_a_certificate_in_files_or_in_a_secret_opens_the_front_door_to_other_machines(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("name", ["data", "token-file", "node", "image", "nfs", "claim"])
def test_what_a_cluster_decides_is_refused_in_kubernetes_mode(name: str) -> None:
    value = ["x"] if name in REPEATED else "x"

    with pytest.raises(InvalidSetting, match=f"{name}: not with --kubernetes"):
        cluster_settings_from({name: value}, {})


@pytest.mark.parametrize("name", ["kubeconfig", "context", "tls-secret", "client-ca"])
def test_what_speaks_of_a_cluster_is_refused_without_one(name: str) -> None:
    with pytest.raises(InvalidSetting, match=f"{name}: only with --kubernetes"):
        settings_from({name: "x"}, {})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        pytest.param({"listen": "0.0.0.0:80"}, "callers send their credentials", id="open without TLS"),
        pytest.param({"client-ca": "x"}, "client-ca: only with TLS", id="client certificates without TLS"),
        pytest.param(
            {"tls-secret": "s", "client-ca": "nowhere"},
            "client-ca: nowhere is no file",
            id="no such authority",
        ),
        pytest.param({"tls-cert": "x"}, "belong together", id="a certificate without its key"),
    ],
)
def test_what_cannot_be_followed_on_a_cluster_is_named(given: dict[str, object], told: str) -> None:
    with pytest.raises(InvalidSetting, match=told):
        cluster_settings_from(given, {})


def test_a_certificate_comes_from_one_place(tmp_path: Path) -> None:
    path = tmp_path / "pem"
    path.write_text("")
    path.chmod(0o600)

    with pytest.raises(InvalidSetting, match="give the one or the other"):
        cluster_settings_from({"tls-cert": str(path), "tls-key": str(path), "tls-secret": "s"}, {})


@pytest.mark.parametrize("settings", [settings_from, cluster_settings_from])
def test_where_pods_find_the_launcher_can_be_said(
    settings: Callable[..., Settings | ClusterSettings],
) -> None:
    said = settings({"discovery-url": "https://launcher.example:8443/"}, {})
    by_variable = settings({}, {"LAUNCHER_DISCOVERY_URL": "http://[2001:db8::1]/behind/a/proxy"})

    assert said.discovery_url == "https://launcher.example:8443"
    assert by_variable.discovery_url == "http://[2001:db8::1]/behind/a/proxy"
    assert settings({}, {}).discovery_url == ""


@pytest.mark.parametrize(
    "url",
    ["launcher.example", "ftp://launcher", "https://", "https://a?b=c", "https://a b", "https://a/$(b)"],
)
def test_a_url_that_pods_could_not_use_is_refused(url: str) -> None:
    for settings in (settings_from, cluster_settings_from):
        with pytest.raises(InvalidSetting, match=r"discovery-url: .* is no URL of a server"):
            settings({"discovery-url": url}, {})


def test_the_budgets_of_logs_are_sizes() -> None:
    by_default = settings_from({}, {}).log_budgets
    said = settings_from({"log-budget": "2Gi"}, {"LAUNCHER_LOG_BUDGET_FRAMEWORK": "64M"}).log_budgets

    assert (by_default.total, by_default.framework, by_default.reserve) == (10 << 30, 1 << 30, 256 << 20)
    assert (said.total, said.framework, said.reserve) == (2 << 30, 64_000_000, 256 << 20)


@pytest.mark.parametrize("name", ["log-budget", "log-budget-framework", "log-disk-reserve"])
@pytest.mark.parametrize("text", ["4GB", "-1", "much"])
def test_a_budget_of_logs_that_is_no_size_is_refused(name: str, text: str) -> None:
    with pytest.raises(InvalidSetting, match=name):
        settings_from({name: text}, {})

"""Settings of local mode, and rules for the settings of both modes."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.cli.commands import serve
from launcher.cli.main import parse_arguments
from launcher.core.validation.admission_policy import AdmissionPolicy
from launcher.settings.cluster import (
    ClusterSettings,
    LogArchiveSettings,
    cluster_settings_from,
)
from launcher.settings.config_file import REPEATED, SINGLE, SWITCHES, TOGGLES
from launcher.settings.local import Settings, for_run, settings_from
from launcher.settings.sources import TlsFiles
from launcher.settings.values import InvalidSetting, PodNetworkMode
from tests.settings.test_cluster import IN_POD

TOKEN = "0123456789abcdef"


def settings_of(tmp_path: Path, config: str) -> Settings:
    path = tmp_path / "config.yaml"
    path.write_text(config)
    return settings_from({"config": str(path)}, {})


def test_defaults_are_loopback_one_node_and_the_users_data_directory() -> None:
    settings = settings_from({}, {"XDG_DATA_HOME": "/home/ann/.data"})

    assert (settings.host, settings.port) == ("127.0.0.1", 8080)
    assert settings.data == Path("/home/ann/.data/framework-launcher")
    assert len(settings.nodes) == 1
    assert settings.policy == AdmissionPolicy()


def test_flags_override_variables_which_override_the_config_file(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("listen: 127.0.0.1:1\ndata: /filed\n")
    environment = {"LAUNCHER_CONFIG": str(config), "LAUNCHER_LISTEN": "127.0.0.1:2", "LAUNCHER_DATA": "/set"}

    settings = settings_from({"listen": "127.0.0.1:3"}, environment)

    assert (settings.port, settings.data) == (3, Path("/set"))
    assert settings_from({}, {"LAUNCHER_CONFIG": str(config)}).data == Path("/filed")


def test_several_values_in_a_variable_are_separated_by_spaces() -> None:
    settings = settings_from({}, {"LAUNCHER_NODE": "one,cpu=1 two,cpu=2"})

    assert [node.name for node in settings.nodes] == ["one", "two"]


def test_a_config_file_sets_the_admission_policy(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "policy: {host-path-prefixes: [/srv], nfs-servers: [], host-network: false, max-tasks: 7}\n"
    )

    settings = settings_from({"config": str(config)}, {})

    assert settings.policy == AdmissionPolicy(
        host_path_prefixes=("/srv",), nfs_servers=(), host_network=False, max_tasks=7
    )


def test_images_exports_and_claims_are_directories_by_name(tmp_path: Path) -> None:
    flags = {
        "image": [f"registry.example:5000/tf={tmp_path}"],
        "nfs": [f"10.0.0.1:/share={tmp_path}"],
        "claim": [f"data={tmp_path}"],
    }

    settings = settings_from(flags, {})

    assert settings.images == {"registry.example:5000/tf": tmp_path}
    assert settings.nfs == {"10.0.0.1:/share": tmp_path}
    assert settings.claims == {"data": tmp_path}


def test_an_image_can_have_an_entrypoint(tmp_path: Path) -> None:
    directory = tmp_path / "a,b"
    directory.mkdir()
    flags = {"image": [f"tf:2={directory},entrypoint=python3 -u 'my main.py',x=1", "plain=/"]}

    settings = settings_from(flags, {})

    assert settings.images == {"tf:2": directory, "plain": Path("/")}
    assert settings.entrypoints == {"tf:2": ["python3", "-u", "my main.py,x=1"]}


def test_a_token_and_tls_permit_other_machines(tmp_path: Path) -> None:
    for name in ("token", "crt", "key"):
        (tmp_path / name).write_text(TOKEN + "\n")
        (tmp_path / name).chmod(0o600)
    flags = {
        "listen": "0.0.0.0:8443",
        "token-file": str(tmp_path / "token"),
        "tls-cert": str(tmp_path / "crt"),
        "tls-key": str(tmp_path / "key"),
    }

    assert settings_from(flags, {}).token == TOKEN
    with pytest.raises(InvalidSetting, match="TLS"):
        settings_from({**flags, "tls-cert": None, "tls-key": None}, {})
    with pytest.raises(InvalidSetting, match="token"):
        settings_from({**flags, "token-file": None}, {})


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        pytest.param({"listen": "8080"}, r"listen: '8080' is not HOST:PORT", id="a port alone"),
        pytest.param({"listen": "127.0.0.1:99999"}, "is not HOST:PORT", id="no such port"),
        pytest.param({"listen": "0.0.0.0:80"}, "a token and TLS", id="open to other machines"),
        pytest.param({"tls-cert": "x"}, "must be set together", id="a certificate without its key"),
        pytest.param({"tls-cert": "x", "tls-key": "y"}, "x is not a readable file", id="no such certificate"),
        pytest.param(
            {"token-file": "nowhere"}, "token-file: nowhere is not a readable file", id="no such token"
        ),
        pytest.param({"image": ["tf"]}, "image: 'tf' is not KEY=DIR", id="an image without its directory"),
        pytest.param({"image": ["tf=/,entrypoint="]}, "image: .*entrypoint is empty", id="no entrypoint"),
        pytest.param({"image": ["tf=/,entrypoint='a"]}, "image: .*no closing quotation", id="an open quote"),
        pytest.param({"workdir": "/nowhere"}, "workdir: /nowhere is not a directory", id="no such workdir"),
        pytest.param(
            {"pod-network": "own"}, "pod-network: 'own' is not known; use auto, isolated", id="no mode"
        ),
        pytest.param({"nfs": ["s:/p=/nowhere"]}, "/nowhere is not a directory", id="no such directory"),
        pytest.param({"node": ["a,cpu=much"]}, "node: .*much", id="a node of no size"),
        pytest.param({"node": ["a", "a"]}, "node: .*a", id="two nodes of one name"),
        pytest.param({"config": "nowhere"}, "config: nowhere is not a readable file", id="no such config"),
    ],
)
def test_an_invalid_setting_is_named(flags: dict[str, object], error: str) -> None:
    with pytest.raises(InvalidSetting, match=error):
        settings_from(flags, {})


@pytest.mark.parametrize(
    ("config", "error"),
    [
        pytest.param("lisen: x", "unknown setting 'lisen'; did you mean 'listen'?", id="misspelt"),
        pytest.param("[a]", "must be a mapping", id="a list"),
        pytest.param("a: b: c", "mapping values", id="no YAML"),
        pytest.param("listen: 80", "listen must be a string", id="a number"),
        pytest.param("kubernetes: 1", "kubernetes must be true or false", id="neither yes nor no to a mode"),
        pytest.param("node: gpu", "node must be a list of strings", id="one word for several"),
        pytest.param("policy: {max-task: 1}", "did you mean 'max-tasks'?", id="misspelt policy"),
        pytest.param("policy: {max-tasks: 0}", "at least 1", id="no tasks"),
        pytest.param("policy: {privileged: maybe}", "true or false", id="neither yes nor no"),
        pytest.param("policy: {nfs-servers: a}", "list of strings", id="one server"),
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
        pytest.param("\nlisten: 80", "line 2: listen must be a string", id="the line of a wrong type"),
        pytest.param("\n\nlisten: x", "line 3: listen: 'x' is not HOST:PORT", id="the line of a wrong value"),
        pytest.param("policy:\n  privileged: 1", "line 2: policy: privileged must be", id="a rule's line"),
        pytest.param("listen:", "line 1: listen must be a string", id="nothing"),
        pytest.param("policy:", "policy must be a mapping", id="no policy"),
        pytest.param(
            "pod-failure-spec:\n- code: 221\n  podPatterns: [{reasonRegex: '('}]",
            "line 3: pod-failure-spec[0].podPatterns[0].reasonRegex: Invalid value: '('",
            id="a failure rule",
        ),
        pytest.param("pod-failure-spec: {}", "pod-failure-spec must be a string", id="failure rules by name"),
        pytest.param("data: ''", "line 1: data: the value is empty", id="an empty text"),
        pytest.param('data: "a\\0b"', "line 1: data: the value is empty", id="a text with a zero byte"),
        pytest.param("host: ['']", "line 1: host: the value is empty", id="an empty text in a list"),
        pytest.param("? [a]\n: b", "a key must be a string", id="a list as a key"),
        pytest.param("[" * 5000, "levels deep", id="too deep"),
    ],
)
def test_an_error_in_the_config_file_is_named(tmp_path: Path, config: str, error: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        settings_of(tmp_path, config)

    assert error in str(refused.value)


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
def test_an_invalid_host_name_is_rejected(host: str) -> None:
    with pytest.raises(
        InvalidSetting, match=r"--host: .* is not a host name; specify it without scheme and port"
    ):
        settings_from({"host": [host]}, {})


@pytest.mark.parametrize(
    ("text", "mode", "error"),
    [
        pytest.param(TOKEN, 0o644, "chmod 600", id="all users can read it"),
        pytest.param(TOKEN, 0o602, "chmod 600", id="all users can write it"),
        pytest.param(TOKEN, 0o620, "chmod 600", id="its group can write it"),
        pytest.param("short", 0o600, "at least 16", id="too short"),
        pytest.param("two words of some length", 0o600, "one token", id="two words"),
        pytest.param("", 0o600, "one token", id="empty"),
        pytest.param(" \n\t\n", 0o600, "one token", id="nothing but blanks"),
    ],
)
def test_a_weak_token_is_rejected(tmp_path: Path, text: str, mode: int, error: str) -> None:
    path = tmp_path / "token"
    path.write_text(text)
    path.chmod(mode)

    with pytest.raises(InvalidSetting, match=error):
        settings_from({"token-file": str(path)}, {})


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o640, 0o440])
def test_a_token_may_be_readable_by_its_group(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "token"
    path.write_text(TOKEN)
    path.chmod(mode)

    assert settings_from({"token-file": str(path)}, {}).token == TOKEN


@pytest.mark.parametrize("settings", [settings_from, cluster_settings_from])
@pytest.mark.parametrize("mode", [0o644, 0o602, 0o620])
def test_a_key_accessible_to_other_users_is_rejected(
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
    flags = {"tls-cert": str(tmp_path / "tls.crt"), "tls-key": str(tmp_path / "tls.key")}

    assert cluster_settings_from(flags, IN_POD).tls == TlsFiles(tmp_path / "tls.crt", tmp_path / "tls.key")

    (tmp_path / "tls.key").chmod(0o646)
    with pytest.raises(InvalidSetting, match="--tls-key: other users can read or change"):
        cluster_settings_from(flags, IN_POD)


def test_a_launcher_for_one_framework_has_a_token_of_its_own(tmp_path: Path) -> None:
    one, other = for_run(tmp_path, [], [], []), for_run(tmp_path, [], [], [])

    assert one.token
    assert one.token != other.token
    assert one.port == 0


def test_the_working_directory_is_the_root_or_where_the_command_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")

    assert settings_from({}, {}).workdir == Path("/")
    assert settings_from({"workdir": ".."}, {}).workdir.resolve() == tmp_path
    assert for_run(tmp_path, [], [], []).workdir == tmp_path / "gone"
    assert for_run(tmp_path, [], [], [], workdir="/usr").workdir == Path("/usr")
    (tmp_path / "gone").rmdir()
    assert for_run(tmp_path, [], [], []).workdir == Path("/")


def test_pods_are_isolated_where_they_can_be_unless_a_setting_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert settings_from({}, {}).pod_network is PodNetworkMode.AUTO
    monkeypatch.delenv("LAUNCHER_POD_NETWORK", raising=False)
    assert for_run(tmp_path, [], [], []).pod_network is PodNetworkMode.AUTO
    monkeypatch.setenv("LAUNCHER_POD_NETWORK", "shared")
    assert for_run(tmp_path, [], [], []).pod_network is PodNetworkMode.SHARED
    assert for_run(tmp_path, [], [], [], pod_network="auto").pod_network is PodNetworkMode.AUTO
    assert settings_from({}, {"LAUNCHER_POD_NETWORK": "isolated"}).pod_network is PodNetworkMode.ISOLATED
    assert for_run(tmp_path, [], [], [], pod_network="isolated").pod_network is PodNetworkMode.ISOLATED
    with pytest.raises(InvalidSetting, match="pod-network: '' is not known; use auto, isolated, shared"):
        for_run(tmp_path, [], [], [], pod_network="")


def test_an_empty_working_directory_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="workdir: the value is empty"):
        for_run(tmp_path, [], [], [], workdir="")


FAILURE_RULES = """
podFailureSpec:
- code: 221
  phrase: OutOfGpuMemory
  type: {attributes: [Permanent]}
  podPatterns:
  - containers:
    - messageRegex: '(?msi)tensorflow.*resource exhausted.*oom.*'
      codeRange: {min: 1}
"""


def test_failure_rules_are_a_list_of_the_config_file_or_a_file(tmp_path: Path) -> None:
    spec = tmp_path / "frameworkcontroller.yaml"
    # The rest of FrameworkController's config file is ignored.
    spec.write_text(f"workerNumber: 500\n{FAILURE_RULES}")

    in_config = settings_of(tmp_path, FAILURE_RULES.replace("podFailureSpec", "pod-failure-spec"))
    by_path = settings_of(tmp_path, f"pod-failure-spec: {spec}")
    by_flag = settings_from({"pod-failure-spec": str(spec)}, {})
    on_cluster = cluster_settings_from({}, {**IN_POD, "LAUNCHER_POD_FAILURE_SPEC": str(spec)})

    assert [(rule.code, rule.phrase) for rule in in_config.failure_rules] == [(221, "OutOfGpuMemory")]
    assert by_path.failure_rules == by_flag.failure_rules == in_config.failure_rules
    assert on_cluster.failure_rules == in_config.failure_rules
    assert settings_from({}, {}).failure_rules == ()


@pytest.mark.parametrize(
    ("content", "error"),
    [
        pytest.param("podFailureSpec: {}", "must contain a list podFailureSpec", id="no list"),
        pytest.param("rules: []", "must contain a list podFailureSpec", id="no podFailureSpec"),
        pytest.param(
            "- code: 5\n  podPattern: []", "podFailureSpec[0].podPattern: unknown field", id="a list"
        ),
        pytest.param("podFailureSpec: [", "line 2, column 1", id="no YAML"),
    ],
)
def test_an_error_in_a_file_of_failure_rules_is_reported(tmp_path: Path, content: str, error: str) -> None:
    spec = tmp_path / "rules.yaml"
    spec.write_text(content)

    with pytest.raises(InvalidSetting) as refused:
        settings_from({"pod-failure-spec": str(spec)}, {})

    assert str(refused.value).startswith(f"--pod-failure-spec: {spec}: ")
    assert error in str(refused.value)


def test_every_setting_is_a_flag_of_serve() -> None:
    args = vars(parse_arguments(["serve"]))

    assert set(serve.SINGLE) == set(SINGLE)
    assert set(serve.REPEATED) == set(REPEATED)
    assert set(serve.SWITCHES) == set(SWITCHES)
    assert set(serve.TOGGLES) == set(TOGGLES)
    assert {*SINGLE, *REPEATED, *SWITCHES, *TOGGLES} <= set(args)


@pytest.mark.parametrize("settings", [settings_from, cluster_settings_from])
def test_the_dashboard_is_on_until_it_is_disabled(
    settings: Callable[..., Settings | ClusterSettings], tmp_path: Path
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("dashboard: false\n")

    assert settings({}, {}).dashboard
    assert not settings({"dashboard": "off"}, {}).dashboard
    assert not settings({}, {"LAUNCHER_DASHBOARD": "off"}).dashboard
    assert not settings({"config": str(file)}, {}).dashboard
    assert settings({"config": str(file), "dashboard": "on"}, {}).dashboard
    with pytest.raises(InvalidSetting, match="dashboard"):
        settings({"dashboard": "maybe"}, {})


@pytest.mark.parametrize("settings", [settings_from, cluster_settings_from])
def test_the_discovery_url_can_be_set(
    settings: Callable[..., Settings | ClusterSettings],
) -> None:
    configured = settings({"discovery-url": "https://launcher.example:8443/"}, {})
    by_variable = settings({}, {"LAUNCHER_DISCOVERY_URL": "http://[2001:db8::1]/behind/a/proxy"})

    assert configured.discovery_url == "https://launcher.example:8443"
    assert by_variable.discovery_url == "http://[2001:db8::1]/behind/a/proxy"
    assert settings({}, {}).discovery_url == ""


@pytest.mark.parametrize(
    "url",
    ["launcher.example", "ftp://launcher", "https://", "https://a?b=c", "https://a b", "https://a/$(b)"],
)
def test_an_invalid_discovery_url_is_rejected(url: str) -> None:
    for settings in (settings_from, cluster_settings_from):
        with pytest.raises(InvalidSetting, match=r"discovery-url: .* is not a server URL"):
            settings({"discovery-url": url}, {})


def test_log_budgets_are_sizes() -> None:
    by_default = settings_from({}, {}).log_budgets
    configured = settings_from({"log-budget": "2Gi"}, {"LAUNCHER_LOG_BUDGET_FRAMEWORK": "64M"}).log_budgets

    assert (by_default.total, by_default.framework, by_default.reserve) == (10 << 30, 1 << 30, 256 << 20)
    assert (configured.total, configured.framework, configured.reserve) == (2 << 30, 64_000_000, 256 << 20)


@pytest.mark.parametrize("name", ["log-budget", "log-budget-framework", "log-disk-reserve"])
@pytest.mark.parametrize("text", ["4GB", "-1", "much"])
def test_an_invalid_log_budget_is_rejected(name: str, text: str) -> None:
    with pytest.raises(InvalidSetting, match=name):
        settings_from({name: text}, {})


def test_logs_are_archived_if_configured(tmp_path: Path) -> None:
    url = f"file://{tmp_path}"
    flags = {"log-archive": url, "log-archive-tail": "64Ki"}
    environment = {"LAUNCHER_LOG_ARCHIVE_TIMEOUT": "2m"}

    assert cluster_settings_from({}, {}).log_archive is None
    assert cluster_settings_from({"log-archive": url}, {}).log_archive == LogArchiveSettings(url, 1 << 20, 30)
    assert cluster_settings_from(flags, environment).log_archive == LogArchiveSettings(url, 64 << 10, 120)


@pytest.mark.parametrize("url", ["s3://logs", "s3://logs/team/a", "gs://logs/x", "az://logs"])
def test_the_archive_may_be_a_bucket(url: str) -> None:
    archive = cluster_settings_from({}, {"LAUNCHER_LOG_ARCHIVE": url}).log_archive

    assert archive is not None
    assert archive.url == url


def test_the_directory_of_the_archive_may_have_special_characters(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()

    assert cluster_settings_from({"log-archive": f"file://{tmp_path}/a%20b"}, {}).log_archive is not None


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        pytest.param({"log-archive": "/srv/logs"}, "log-archive: '/srv/logs' is not the URL", id="a path"),
        pytest.param({"log-archive": "ftp://logs"}, "is not the URL of a log archive", id="a scheme"),
        pytest.param({"log-archive": "s3://"}, "is not the URL of a log archive", id="no bucket"),
        pytest.param({"log-archive": "s3://logs?x=y"}, "is not the URL of a log archive", id="a query"),
        pytest.param(
            {"log-archive": "file:///no/such/dir"}, "/no/such/dir is not a directory", id="no such directory"
        ),
        pytest.param({"log-archive": "s3://a:b@logs"}, "contains credentials", id="credentials"),
        pytest.param({"log-archive-tail": "1Mi"}, "log-archive-tail: requires", id="a tail without archive"),
        pytest.param({"log-archive-timeout": "1m"}, "timeout: requires", id="a timeout without archive"),
        pytest.param(
            {"log-archive": "s3://logs", "log-archive-tail": "1Ki"},
            "less than the minimum",
            id="a small tail",
        ),
        pytest.param(
            {"log-archive": "s3://logs", "log-archive-tail": "1Gi"},
            "more than the maximum",
            id="a large tail",
        ),
        pytest.param(
            {"log-archive": "s3://logs", "log-archive-timeout": "0s"}, "less than the minimum", id="no time"
        ),
        pytest.param(
            {"log-archive": "s3://logs", "log-archive-timeout": "soon"}, "is not a duration", id="no duration"
        ),
    ],
)
def test_an_invalid_setting_of_the_archive_is_named(flags: dict[str, object], error: str) -> None:
    with pytest.raises(InvalidSetting, match=error) as raised:
        cluster_settings_from(flags, {})

    assert "a:b" not in str(raised.value)


def test_in_local_mode_an_archive_is_rejected_because_logs_are_kept() -> None:
    with pytest.raises(InvalidSetting, match="local mode keeps logs in its data directory"):
        settings_from({}, {"LAUNCHER_LOG_ARCHIVE": "s3://logs"})


def test_the_runtime_is_process_unless_docker_is_configured() -> None:
    assert settings_from({}, {}).runtime == "process"
    assert settings_from({"runtime": "docker"}, {}).runtime == "docker"
    assert settings_from({}, {"LAUNCHER_RUNTIME": "docker"}).runtime == "docker"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        pytest.param({"runtime": "podman"}, "use process or docker", id="unknown runtime"),
        pytest.param({"runtime": "docker", "image": ["a=/"]}, "requires --runtime process", id="image"),
        pytest.param({"runtime": "docker", "workdir": "/"}, "requires --runtime process", id="workdir"),
    ],
)
def test_settings_that_contradict_the_runtime_are_rejected(flags: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidSetting, match=message):
        settings_from(flags, {})


def test_the_engine_is_that_of_docker_host_or_at_the_usual_sockets() -> None:
    environment = {"DOCKER_HOST": "unix:///x", "XDG_RUNTIME_DIR": "/run/me", "HOME": "/home/me"}
    engine = settings_from({}, environment).engine

    assert engine.url == "unix:///x"
    assert "/run/me/podman/podman.sock" in engine.sockets
    assert Path("/home/me/.docker/config.json") in engine.credentials

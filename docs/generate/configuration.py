"""``docs/configuration.md``: every setting of ``launcher serve``, from its flags and the admission policy."""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields

from docs.generate.markdown import code, page, sentence, table
from launcher.cli.commands import serve
from launcher.core.validation.admission_policy import AdmissionPolicy
from launcher.settings.cluster import LOCAL_ONLY
from launcher.settings.local import KUBERNETES_ONLY, LOG_ARCHIVE

_INTRODUCTION = """\
Every setting of `launcher serve` is a flag, an environment variable and a line of the config file,
under the same name. Flags override environment variables, which override the config file (`--config
FILE`, or `LAUNCHER_CONFIG`), a YAML file. A setting that may be repeated is a list in the config
file; in its variable the values are separated by spaces. An empty value, an unknown name and a
duplicate are errors. [Security](security.md) explains who can call the API with which settings."""

_POLICY = """\
The key `policy` of the config file limits what Frameworks may request. It has no flag and no
variable. A Framework that violates it is rejected with the field. SIGHUP reloads the policy, the
token and the certificate."""

#: What each rule of the admission policy means.
POLICY_MEANINGS: Mapping[str, str] = {
    "host-path-prefixes": "`hostPath` volumes must be below one of these directories, after links are resolved.",
    "nfs-servers": "`nfs` volumes must be on one of these servers.",
    "host-network": "Whether pods may use `hostNetwork`.",
    "privileged": "Whether containers may be `privileged`.",
    "max-tasks": "The largest number of tasks of one Framework.",
}


def configuration_page() -> str:
    """The reference of settings."""
    return page(
        "Configuration reference",
        "the settings of `launcher serve`",
        _INTRODUCTION,
        "## Settings",
        table(("flag", "variable", "mode", "meaning"), _settings()),
        "## Admission policy",
        _POLICY,
        table(("key of `policy`", "default", "meaning"), _policy()),
    )


def _settings() -> Iterator[tuple[str, str, str, str]]:
    flags = {
        **serve.SINGLE,
        **serve.TOGGLES,
        **serve.REPEATED,
        **{name: ("", text) for name, text in serve.SWITCHES.items()},
    }
    for name, (value, meaning) in flags.items():
        text = meaning.removeprefix("with --kubernetes: ")
        yield code(f"--{name} {value}".strip()), code(_variable(name)), _mode(name), sentence(text)


def _variable(name: str) -> str:
    return "LAUNCHER_" + name.upper().replace("-", "_")


def _mode(name: str) -> str:
    if name in LOCAL_ONLY:
        return "local"
    only_kubernetes = (*KUBERNETES_ONLY, *LOG_ARCHIVE, "metrics-auth", "serve-frameworkcontroller")
    return "Kubernetes" if name in only_kubernetes else "both"


def _policy() -> Iterator[tuple[str, str, str]]:
    for rule in fields(AdmissionPolicy):
        name = rule.name.replace("_", "-")
        assert rule.default is not MISSING
        default = "no limit" if rule.default is None else code(str(rule.default).lower())
        yield code(name), default, POLICY_MEANINGS[name]

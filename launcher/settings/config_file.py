"""The config file: its settings, with checked types, and the line of each for errors."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from launcher.core.errors import InvalidObject
from launcher.core.failures.spec_parser import Rule, rules_from_json
from launcher.core.parsing.decoder import Media
from launcher.core.parsing.source_positions import position_of
from launcher.core.validation.admission_policy import AdmissionPolicy
from launcher.core.validation.field_errors import suggestion
from launcher.settings.values import InvalidSetting, read_yaml_file, readable_file

#: Settings with one value, with several values, and boolean settings, of which the last are on by default.
SINGLE = (
    "listen",
    "data",
    "token-file",
    "tls-cert",
    "tls-key",
    "tls-secret",
    "client-ca",
    "kubeconfig",
    "context",
    "discovery-url",
    "runtime",
    "workdir",
    "pod-network",
    "log-budget",
    "log-budget-framework",
    "log-disk-reserve",
    "log-archive",
    "log-archive-tail",
    "log-archive-timeout",
    "pod-failure-spec",
)
REPEATED = ("node", "image", "nfs", "claim", "host")
SWITCHES = ("kubernetes", "serve-frameworkcontroller", "metrics-auth")
TOGGLES = ("dashboard",)
POD_FAILURE_SPEC = "pod-failure-spec"


@dataclass(frozen=True, slots=True)
class ConfigFileSettings:
    """The settings of the config file, with checked types."""

    values: Mapping[str, Any] = field(default_factory=dict)
    path: Path | None = None
    data: bytes = b""

    @classmethod
    def read(cls, source: str, path: Path) -> "ConfigFileSettings":
        """Reads the file. Raises InvalidSetting with the line of the first error."""
        path = readable_file(source, path)
        data = path.read_bytes()
        content = read_yaml_file("config", path, data)
        if not isinstance(content.value, dict):
            raise InvalidSetting(f"config: {path} must be a mapping of settings")
        config = cls(content.value, path, data)
        for name in content.duplicates:
            raise config.error(name, f"{name} is set twice; remove one of them")
        for name, value in content.value.items():
            config._check(name, value)
        return config

    def source(self, name: str) -> str:
        """Returns file, line and name of the setting; only the name if there is no file."""
        return name if self.path is None else f"{self._line(name)}: {name}"

    def error(self, field: str, reason: str) -> InvalidSetting:
        return InvalidSetting(f"{self._line(field)}: {reason}")

    def policy(self) -> AdmissionPolicy:
        """Parses ``host-path-prefixes: [/srv]`` and so on into an AdmissionPolicy. Raises InvalidSetting."""
        known = {entry.name.replace("_", "-"): entry.name for entry in fields(AdmissionPolicy)}
        values: dict[str, Any] = {}
        for name, value in self.values.get("policy", {}).items():
            if name not in known:
                raise self.error(
                    f"policy.{name}", f"policy: unknown setting {name!r}{_suggestion(name, known)}"
                )
            if reason := _policy_error(name, value):
                raise self.error(f"policy.{name}", f"policy: {name} must be {reason}")
            values[known[name]] = tuple(value) if isinstance(value, list) else value
        return AdmissionPolicy(**values)

    def failure_rules(self, entries: list[Any]) -> tuple[Rule, ...]:
        """Parses rules in the config file. Raises InvalidSetting with the line of the first error."""
        try:
            return rules_from_json(entries, POD_FAILURE_SPEC)
        except InvalidObject as error:
            first = error.errors[0].field if error.errors else POD_FAILURE_SPEC
            raise self.error(first, str(error)) from error

    def _check(self, name: str, value: Any) -> None:
        known = (*SINGLE, *REPEATED, *SWITCHES, *TOGGLES, "policy")
        if name not in known:
            raise self.error(name, f"unknown setting {name!r}{_suggestion(name, known)}")
        if name == POD_FAILURE_SPEC and isinstance(value, list):
            return
        expected = _type_of(name)
        if not isinstance(value, expected) or (expected is list and not _is_list_of_strings(value)):
            description = {
                str: "a string",
                list: "a list of strings",
                dict: "a mapping",
                bool: "true or false",
            }[expected]
            raise self.error(name, f"{name} must be {description}")

    def _line(self, field: str) -> str:
        return f"config: {self.path}: line {position_of(self.data, field, Media.YAML)[0]}"


def _type_of(name: str) -> type[Any]:
    if name in SWITCHES or name in TOGGLES:
        return bool
    return str if name in SINGLE else dict if name == "policy" else list


def _is_list_of_strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


def _policy_error(name: str, value: Any) -> str | None:
    """Returns the expected type if the value of a policy setting is wrong, otherwise None."""
    if name == "host-path-prefixes":
        # Without its slash a prefix would match every path.
        is_valid = _is_list_of_strings(value) and all(
            path.startswith("/") and ".." not in path.split("/") for path in value
        )
        return None if is_valid else "a list of strings, each an absolute path without '..'"
    if name == "nfs-servers":
        return None if _is_list_of_strings(value) and all(value) else "a list of strings, none of them empty"
    if name == "max-tasks":
        is_valid = isinstance(value, int) and not isinstance(value, bool) and value >= 1
        return None if is_valid else "a number of at least 1"
    return None if isinstance(value, bool) else "true or false"


def _suggestion(name: Any, known: Iterable[str]) -> str:
    similar = suggestion(str(name), known)
    return f"; did you mean {similar!r}?" if similar else f"; known settings: {', '.join(known)}"

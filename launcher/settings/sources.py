"""The settings of flags, environment variables and config file, by name."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher.core.errors import InvalidObject
from launcher.core.failures.spec_parser import Rule, rules_from_json
from launcher.core.quantity import quantity
from launcher.core.timestamps import seconds_in
from launcher.core.validation.admission_policy import AdmissionPolicy
from launcher.settings.config_file import POD_FAILURE_SPEC, TOGGLES, ConfigFileSettings
from launcher.settings.values import (
    HOST_PATTERN,
    InvalidSetting,
    check_private,
    read_yaml_file,
    readable_file,
)

#: Set by the kubelet in every container.
POD_VARIABLE = "KUBERNETES_SERVICE_HOST"
_BOOLEANS = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Files of a certificate with its chain, and of its key."""

    certificate: Path
    key: Path


class SettingSources:
    """The settings of flags, environment and config file, and the source of each."""

    def __init__(self, flags: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        """*flags* are values by name, None or empty if not set. Raises InvalidSetting."""
        self._flags, self._environment = flags, environment
        self._config = ConfigFileSettings()
        if config := self.one("config"):
            self._config = ConfigFileSettings.read(self.source("config"), Path(config))

    def source(self, name: str) -> str:
        """Returns the flag, the variable or the line of the config file that sets *name*."""
        if self._is_flag(name):
            return f"--{name}"
        if _variable(name) in self._environment:
            return _variable(name)
        return self._config.source(name)

    def one(self, name: str) -> str | None:
        """Returns the value, or None if it is not set. Raises InvalidSetting if it is empty."""
        value = self._raw(name)
        return None if value is None else self._text(name, value)

    def several(self, name: str) -> Sequence[str]:
        """Returns the values; in a variable they are separated by spaces. Raises InvalidSetting if one is empty."""
        values = self._raw(name)
        if isinstance(values, str):
            values = values.split() or [""]
        return [self._text(name, value) for value in values or ()]

    def is_enabled(self, name: str, *, default: bool = False) -> bool:
        value = self._raw(name)
        if value is None:
            return default
        if isinstance(value, str):
            if value.lower() not in _BOOLEANS:
                expected = "on nor off" if name in TOGGLES else "true nor false"
                raise InvalidSetting(f"{self.source(name)}: {value!r} is neither {expected}")
            return _BOOLEANS[value.lower()]
        return bool(value)

    def reject(self, names: Iterable[str], reason: str) -> None:
        """Raises InvalidSetting if one of these is set."""
        for name in names:
            if self._raw(name) is not None:
                raise InvalidSetting(f"{self.source(name)}: {reason}")

    def file(self, name: str) -> Path | None:
        """Returns the absolute path of a readable file. Raises InvalidSetting."""
        path = self.one(name)
        return None if path is None else readable_file(self.source(name), Path(path))

    def secret_file(self, name: str) -> Path | None:
        """Like ``file``, for a file that other users can neither read nor change."""
        path = self.file(name)
        if path is not None:
            check_private(self.source(name), path, in_pod=POD_VARIABLE in self._environment)
        return path

    def tls(self) -> TlsFiles | None:
        if (self.one("tls-cert") is None) != (self.one("tls-key") is None):
            raise InvalidSetting("tls-cert and tls-key must be set together")
        cert, key = self.file("tls-cert"), self.secret_file("tls-key")
        return TlsFiles(cert, key) if cert and key else None

    def size(self, name: str, default: int, minimum: int, maximum: int | None = None) -> int:
        """Returns the bytes of a quantity such as ``1Gi``. Raises InvalidSetting."""
        text = self.one(name)
        if text is None:
            return default
        try:
            amount = int(quantity(text))
        except ValueError as error:
            raise InvalidSetting(f"{self.source(name)}: {error}") from error
        if amount < minimum:
            raise InvalidSetting(f"{self.source(name)}: {text} is less than the minimum, {minimum} bytes")
        if maximum is not None and amount > maximum:
            raise InvalidSetting(f"{self.source(name)}: {text} is more than the maximum, {maximum} bytes")
        return amount

    def seconds(self, name: str, default: float, minimum: float) -> float:
        """Returns the seconds of a duration such as ``5m``. Raises InvalidSetting."""
        text = self.one(name)
        if text is None:
            return default
        try:
            seconds = seconds_in(text)
        except ValueError as error:
            raise InvalidSetting(f"{self.source(name)}: {error}") from error
        if seconds < minimum:
            raise InvalidSetting(f"{self.source(name)}: {text} is less than the minimum, {minimum:g}s")
        return seconds

    def hosts(self) -> tuple[str, ...]:
        hosts = tuple(self.several("host"))
        for host in hosts:
            if not HOST_PATTERN.fullmatch(host):
                raise InvalidSetting(
                    f"{self.source('host')}: {host!r} is not a host name; specify it without scheme and port"
                )
        return hosts

    def credentials(self) -> tuple[Path, ...]:
        """Returns token, key and config file, and the credentials directory of systemd."""
        paths = (
            self._config.path,
            self.one("token-file"),
            self.one("tls-key"),
            self._environment.get("CREDENTIALS_DIRECTORY"),
        )
        return tuple(Path(path).absolute() for path in paths if path)

    def policy(self) -> AdmissionPolicy:
        return self._config.policy()

    def failure_rules(self) -> tuple[Rule, ...]:
        """Returns the rules of ``pod-failure-spec``: a list in the config file, or the path of a file with one."""
        value = self._raw(POD_FAILURE_SPEC)
        if isinstance(value, list):
            return self._config.failure_rules(value)
        path = self.file(POD_FAILURE_SPEC)
        return () if path is None else _failure_rules(self.source(POD_FAILURE_SPEC), path)

    def _raw(self, name: str) -> Any:
        if self._is_flag(name):
            return self._flags[name]
        return self._environment.get(_variable(name), self._config.values.get(name))

    def _is_flag(self, name: str) -> bool:
        # A repeated flag that is not set is empty, and a switch is false.
        return self._flags.get(name) not in (None, [], (), False)

    def _text(self, name: str, value: str) -> str:
        if not value.strip() or "\0" in value:
            raise InvalidSetting(f"{self.source(name)}: the value is empty; set one or remove the setting")
        return value


def _variable(name: str) -> str:
    return "LAUNCHER_" + name.upper().replace("-", "_")


def _failure_rules(source: str, path: Path) -> tuple[Rule, ...]:
    """Returns the rules of a file in the format of FrameworkController's config file; other settings are ignored."""
    content = read_yaml_file(source, path, path.read_bytes()).value
    entries = content.get("podFailureSpec") if isinstance(content, dict) else content
    if not isinstance(entries, list):
        raise InvalidSetting(f"{source}: {path}: must contain a list podFailureSpec")
    try:
        return rules_from_json(entries)
    except InvalidObject as error:
        raise InvalidSetting(f"{source}: {path}: {error}") from error

"""Keys and certificates of a control plane, signed by its own CA."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

_DAYS = "2"
_SERVER_NAMES = "IP:127.0.0.1,DNS:localhost,DNS:kubernetes.default.svc"


@dataclass(frozen=True, slots=True)
class Certificate:
    """Two files in PEM."""

    certificate: Path
    key: Path


class Authority:
    """The CA that kube-apiserver trusts."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        self._directory = directory
        self.certificate = directory / "ca.crt"
        self._key = _new_key(directory / "ca.key")
        _openssl(
            "req",
            "-x509",
            "-new",
            "-key",
            self._key,
            "-subj",
            "/CN=test bed",
            "-days",
            _DAYS,
            "-out",
            self.certificate,
        )

    def server(self, *addresses: str) -> Certificate:
        """A certificate for a server on loopback and at these addresses."""
        names = ",".join([_SERVER_NAMES, *(f"IP:{address}" for address in addresses)])
        return self._signed("server", "/CN=kube-apiserver", f"subjectAltName={names}")

    def client(self, name: str, *groups: str) -> Certificate:
        """A certificate for a user, a member of these groups."""
        subject = "".join([*(f"/O={group}" for group in groups), f"/CN={name}"])
        return self._signed(f"client-{name}", subject, "extendedKeyUsage=clientAuth")

    def service_accounts(self) -> tuple[Path, Path]:
        """The key that signs the tokens of service accounts, and its public key."""
        key, public = _new_key(self._directory / "sa.key"), self._directory / "sa.pub"
        _openssl("pkey", "-in", key, "-pubout", "-out", public)
        return key, public

    def _signed(self, file: str, subject: str, extension: str) -> Certificate:
        certificate = self._directory / f"{file}.crt"
        key = _new_key(self._directory / f"{file}.key")
        signer = ("-CA", self.certificate, "-CAkey", self._key)
        names = ("-subj", subject, "-addext", extension, "-addext", "basicConstraints=critical,CA:FALSE")
        _openssl("req", "-x509", "-new", "-key", key, *names, *signer, "-days", _DAYS, "-out", certificate)
        return Certificate(certificate, key)


def self_signed(directory: Path, subject_alt_name: str = "DNS:localhost") -> Certificate:
    """Writes tls.crt and tls.key of a self-signed server certificate."""
    certificate, key = directory / "tls.crt", _new_key(directory / "tls.key")
    subject = ("-subj", "/CN=launcher", "-addext", f"subjectAltName={subject_alt_name}")
    _openssl("req", "-x509", "-new", "-key", key, *subject, "-days", _DAYS, "-out", certificate)
    return Certificate(certificate, key)


def _new_key(path: Path) -> Path:
    _openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", path)
    return path


def _openssl(*arguments: str | Path) -> None:
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, f"openssl {arguments[0]}: {done.stderr}"

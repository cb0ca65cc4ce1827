"""Container images as OCI archives, with one layer of files of this machine."""

import hashlib
import io
import json
import platform
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.realnodes.configuration import PAUSE

BUSYBOX = "localhost/busybox:1"

#: OCI architecture by machine.
_ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}
_PATH = "/usr/local/bin:/usr/bin:/bin"
_INDEX = "application/vnd.oci.image.index.v1+json"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"
_ETC = {
    "/etc/passwd": "root:x:0:0:root:/:/bin/sh\nnonroot:x:65532:65532:nonroot:/:/bin/sh\n",
    "/etc/group": "root:x:0:\nnonroot:x:65532:\n",
}
#: Unused directories of Python's library.
_NOT_TO_RUN = ("site-packages", "dist-packages", "test", "idlelib", "ensurepip", "lib2to3")
_PAUSE = """
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
static void leave(int number) { (void)number; _exit(0); }
static void reap(int number) { (void)number; while (waitpid(-1, 0, WNOHANG) > 0) {} }
int main(void) {
  signal(SIGINT, leave);
  signal(SIGTERM, leave);
  signal(SIGCHLD, reap);
  for (;;) pause();
}
"""


@dataclass(slots=True)
class Image:
    """The files of an image by path, its command and its names."""

    names: Sequence[str]
    files: dict[str, Path] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    entrypoint: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    user: str = ""

    def add_tree(self, directory: Path, at: str, *, without: Iterable[str] = ()) -> None:
        """Adds all files of *directory*, without directories of the names *without*."""
        excluded = {"__pycache__", *without}
        for path in directory.rglob("*"):
            parts = path.relative_to(directory).parts
            if not excluded.intersection(parts) and not path.is_dir():
                self.files["/".join((at, *parts))] = path.resolve()

    def modules(self) -> list[Path]:
        """Its shared libraries that Python loads."""
        return [path for target, path in self.files.items() if target.endswith(".so")]

    def write(self, archive: Path) -> None:
        """Writes the archive for ``ctr images import``."""
        layer = self._layer()
        config = {
            "architecture": _ARCHITECTURE[platform.machine()],
            "os": "linux",
            "config": {
                "Env": [f"{name}={value}" for name, value in {"PATH": _PATH, **self.env}.items()],
                "Entrypoint": list(self.entrypoint),
                "User": self.user,
            },
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
        blobs = [layer, json.dumps(config).encode()]
        manifest = {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": _descriptor(_CONFIG, blobs[1]),
            "layers": [_descriptor(_LAYER, layer)],
        }
        blobs.append(json.dumps(manifest).encode())
        whole = _descriptor(_MANIFEST, blobs[2])
        named = [{**whole, "annotations": {"io.containerd.image.name": name}} for name in self.names]
        index = {"schemaVersion": 2, "mediaType": _INDEX, "manifests": named}
        with tarfile.open(archive, "w") as tar:
            _put(tar, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
            _put(tar, "index.json", json.dumps(index).encode())
            for blob in blobs:
                _put(tar, f"blobs/sha256/{_digest(blob).partition(':')[2]}", blob)

    def _layer(self) -> bytes:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            _put_directory(tar, "tmp", 0o1777)
            for target in sorted({*self.files, *self.texts, *self.links}):
                name = target.lstrip("/")
                if target in self.links:
                    _put_link(tar, name, self.links[target])
                elif target in self.texts:
                    _put(tar, name, self.texts[target].encode())
                else:
                    path = self.files[target]
                    _put(tar, name, path.read_bytes(), 0o755 if path.stat().st_mode & 0o100 else 0o644)
        return buffer.getvalue()


def pause(scratch: Path) -> Image:
    """The pause image."""
    program = scratch / "pause"
    words = ["gcc", "-static", "-Os", "-s", "-x", "c", "-o", str(program), "-"]
    subprocess.run(words, input=_PAUSE, text=True, timeout=60, check=True)
    return Image([PAUSE], {"/pause": program}, entrypoint=["/pause"])


def busybox() -> Image:
    """Busybox with all its applets."""
    image = Image([BUSYBOX])
    add_shell(image)
    return image


def discovery(*names: str) -> Image:
    """The image of ``deploy/discovery.Containerfile``: a shell and curl."""
    image, curl = Image(names, user="65532:65532"), Path(shutil.which("curl") or "curl").resolve()
    add_shell(image)
    image.files["/usr/bin/curl"] = curl
    add_libraries(image, [curl])
    return image


def python(*names: str) -> Image:
    """The Python of this process, at its path on this machine."""
    image = Image(names, texts=dict(_ETC))
    stdlib, interpreter = Path(sysconfig.get_path("stdlib")), Path(sys.executable).resolve()
    image.add_tree(stdlib, str(stdlib), without=(*_NOT_TO_RUN, Path(sysconfig.get_config_var("LIBPL")).name))
    image.files[str(interpreter)] = interpreter
    image.links.update({"/usr/bin/python": str(interpreter), "/usr/bin/python3": str(interpreter)})
    add_libraries(image, [interpreter, *image.modules()])
    return image


def add_shell(image: Image) -> None:
    """Adds busybox with all its applets."""
    program = Path(shutil.which("busybox") or "busybox")
    output = subprocess.run([program, "--list"], capture_output=True, text=True, timeout=30, check=True)
    image.files["/bin/busybox"] = program
    image.links.update({f"/bin/{name}": "busybox" for name in output.stdout.split() if name != "busybox"})
    image.texts.update(_ETC)
    add_libraries(image, [program])


def add_libraries(image: Image, programs: Sequence[Path]) -> None:
    """Adds the shared libraries of these programs and modules."""
    done = subprocess.run(
        ["ldd", *map(str, programs)], capture_output=True, text=True, timeout=120, check=False
    )
    for line in done.stdout.splitlines():
        for word in line.split():
            if word.startswith("/") and not word.endswith(":"):
                image.files[word] = Path(word).resolve()


def _descriptor(kind: str, blob: bytes) -> dict[str, object]:
    return {"mediaType": kind, "digest": _digest(blob), "size": len(blob)}


def _digest(blob: bytes) -> str:
    return "sha256:" + hashlib.sha256(blob).hexdigest()


def _put(tar: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))


def _put_directory(tar: tarfile.TarFile, name: str, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, mode
    tar.addfile(entry)


def _put_link(tar: tarfile.TarFile, name: str, target: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = tarfile.SYMTYPE, target
    tar.addfile(entry)

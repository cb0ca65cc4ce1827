"""Container images without a registry: one layer each, made of files of this machine, as OCI archives."""

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

#: What Go, and so OCI, calls the processors of this machine.
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
#: Of Python's own library, what no program of ours uses.
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
    """The files of an image by their places in it, how it is started, and by which names it is known."""

    names: Sequence[str]
    files: dict[str, Path] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    entrypoint: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    user: str = ""

    def add_tree(self, directory: Path, at: str, *, without: Iterable[str] = ()) -> None:
        """Put all files of *directory* there, but for directories of these names."""
        unwanted = {"__pycache__", *without}
        for path in directory.rglob("*"):
            parts = path.relative_to(directory).parts
            if not unwanted.intersection(parts) and not path.is_dir():
                self.files["/".join((at, *parts))] = path.resolve()

    def modules(self) -> list[Path]:
        """The files in it that Python loads as libraries."""
        return [path for place, path in self.files.items() if place.endswith(".so")]

    def write(self, archive: Path) -> None:
        """Write it as one file that ``ctr images import`` takes."""
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
            for place in sorted({*self.files, *self.texts, *self.links}):
                name = place.lstrip("/")
                if place in self.links:
                    _put_link(tar, name, self.links[place])
                elif place in self.texts:
                    _put(tar, name, self.texts[place].encode())
                else:
                    path = self.files[place]
                    _put(tar, name, path.read_bytes(), 0o755 if path.stat().st_mode & 0o100 else 0o644)
        return buffer.getvalue()


def pause(scratch: Path) -> Image:
    """What holds a pod's namespaces, and does nothing."""
    program = scratch / "pause"
    words = ["gcc", "-static", "-Os", "-s", "-x", "c", "-o", str(program), "-"]
    subprocess.run(words, input=_PAUSE, text=True, timeout=60, check=True)
    return Image([PAUSE], {"/pause": program}, entrypoint=["/pause"])


def busybox() -> Image:
    """A shell, and the small programs that go with it."""
    image = Image([BUSYBOX])
    add_shell(image)
    return image


def discovery(*names: str) -> Image:
    """What ``deploy/discovery.Containerfile`` says: a shell and curl."""
    image, curl = Image(names, user="65532:65532"), Path(shutil.which("curl") or "curl").resolve()
    add_shell(image)
    image.files["/usr/bin/curl"] = curl
    add_libraries(image, [curl])
    return image


def python(*names: str) -> Image:
    """The Python that runs us, in the place where it is on this machine, and nothing else."""
    image = Image(names, texts=dict(_ETC))
    stdlib, interpreter = Path(sysconfig.get_path("stdlib")), Path(sys.executable).resolve()
    image.add_tree(stdlib, str(stdlib), without=(*_NOT_TO_RUN, Path(sysconfig.get_config_var("LIBPL")).name))
    image.files[str(interpreter)] = interpreter
    image.links.update({"/usr/bin/python": str(interpreter), "/usr/bin/python3": str(interpreter)})
    add_libraries(image, [interpreter, *image.modules()])
    return image


def add_shell(image: Image) -> None:
    """Put in busybox, by all its names."""
    program = Path(shutil.which("busybox") or "busybox")
    said = subprocess.run([program, "--list"], capture_output=True, text=True, timeout=30, check=True)
    image.files["/bin/busybox"] = program
    image.links.update({f"/bin/{name}": "busybox" for name in said.stdout.split() if name != "busybox"})
    image.texts.update(_ETC)
    add_libraries(image, [program])


def add_libraries(image: Image, programs: Sequence[Path]) -> None:
    """Put in what these programs and modules are linked with."""
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

"""Images as docker-archives, which Docker and Podman load, made of files of this machine."""

import hashlib
import io
import json
import platform
import tarfile

from tests.realnodes import images
from tests.realnodes.images import Image

#: Busybox, with and without an entrypoint; the registry does not exist.
BUSYBOX = "images.test/busybox:1"
ENTRYPOINT = "images.test/entrypoint:1"


def archive(image: Image, **config: object) -> bytes:
    """The docker-archive of the image; *config*: more fields of its configuration, such as ``Cmd``."""
    layer = image._layer()
    settings = {
        "Env": [f"{name}={value}" for name, value in {"PATH": images._PATH, **image.env}.items()],
        "Entrypoint": list(image.entrypoint) or None,
        "User": image.user,
        **config,
    }
    description = {
        "architecture": images._ARCHITECTURE[platform.machine()],
        "os": "linux",
        "config": settings,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    content = json.dumps(description).encode()
    name = f"{hashlib.sha256(content).hexdigest()}.json"
    manifest = [{"Config": name, "RepoTags": list(image.names), "Layers": ["layer.tar"]}]
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        images._put(tar, "manifest.json", json.dumps(manifest).encode())
        images._put(tar, name, content)
        images._put(tar, "layer.tar", layer)
    return buffer.getvalue()


def busybox(*names: str) -> Image:
    image = Image(names or [BUSYBOX])
    images.add_shell(image)
    return image


def with_entrypoint() -> bytes:
    """An image with an entrypoint, arguments, a user, a variable and a working directory."""
    image = busybox(ENTRYPOINT)
    image.entrypoint, image.env, image.user = ["/bin/echo", "entrypoint"], {"FROM_IMAGE": "yes"}, "65532"
    return archive(image, Cmd=["cmd"], WorkingDir="/tmp")

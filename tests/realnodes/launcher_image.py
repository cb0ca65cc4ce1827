"""The image of the launcher as deploy/Containerfile builds it, from installed packages."""

import re
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from tests.cluster.versions import PROJECT
from tests.realnodes import images
from tests.realnodes.images import Image

_INSTALL_PATH = "/opt/framework-launcher"
#: The sources of the launcher.
_SOURCES = ("launcher", "schemas", "pyproject.toml", "README.md", "LICENSE")
#: Locked dependencies of the build only.
_BUILD = "setuptools"


def launcher_image(name: str, scratch: Path) -> Image:
    """The launcher and its locked dependencies on Python, without shell, root and writable files."""
    image = images.python(name)
    image.add_tree(_installed(scratch), _INSTALL_PATH)
    for package in _locked():
        _add_package(image, package)
    images.add_libraries(image, image.modules())
    image.entrypoint = ["/usr/bin/python3", "-m", "launcher"]
    image.env = {
        "PYTHONPATH": _INSTALL_PATH,
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONSAFEPATH": "1",
    }
    image.user = "65532:65532"
    return image


def _installed(scratch: Path) -> Path:
    """The directory in which the launcher is installed from a built wheel, so that missing files are detected."""
    source, target = scratch / "source", scratch / "installed"
    source.mkdir()
    for name in _SOURCES:
        origin = PROJECT / name
        if origin.is_dir():
            shutil.copytree(origin, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(origin, source)
    words = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    words += ["--no-build-isolation", "--no-compile", f"--target={target}", str(source)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"pip install: {done.stdout}{done.stderr}"
    return target


def _locked() -> list[str]:
    lock = (PROJECT / "requirements.lock").read_text()
    return [name for name in re.findall(r"^([\w.-]+)==", lock, re.MULTILINE) if name != _BUILD]


def _add_package(image: Image, name: str) -> None:
    try:
        package = distribution(name)
    except PackageNotFoundError:
        return  # for another Python than this one
    for file in package.files or ():
        path = Path(str(file.locate()))
        if ".." not in file.parts and "__pycache__" not in file.parts and path.is_file():
            image.files["/".join((_INSTALL_PATH, *file.parts))] = path

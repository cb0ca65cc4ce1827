"""Framework files: read and checked, or every mistake told with its place."""

import sys
from pathlib import Path
from typing import Any

from launcher.core.errors import InvalidObject, RequestError
from launcher.core.framework import Framework
from launcher.core.manifest import Manifest, read_framework
from launcher.core.reading.decode import Media
from launcher.core.spec import FrameworkName
from launcher.core.wire import spec_from_json

#: Stands for the uid that the store will give.
_UID = "00000000-0000-0000-0000-000000000000"


class Refused(Exception):
    """The user has to mend something; the lines say what."""

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


def read(path: Path, *, strict: bool = False) -> Manifest:
    """The Framework in that file, ``-`` being standard input. Raises Refused."""
    name = "standard input" if path == Path("-") else str(path)
    try:
        data = sys.stdin.buffer.read() if path == Path("-") else path.read_bytes()
    except OSError as error:
        raise Refused(f"{name}: {error.strerror}") from error
    media = Media.JSON if path.suffix == ".json" else Media.YAML
    try:
        return read_framework(data, media=media, strict=strict)
    except InvalidObject as error:
        raise Refused(*_places(name, error, data, media)) from error
    except RequestError as error:
        raise Refused(f"{name}: {error}") from error


def framework_of(obj: dict[str, Any]) -> Framework:
    """The Framework as it would be stored, with stand-ins for what the store alone can give: uid and suffix."""
    meta = obj["metadata"]
    name = FrameworkName(meta.get("name") or f"{meta['generateName']}xxxxx")
    return Framework(name, meta.get("namespace", "default"), _UID, 1, spec_from_json(obj["spec"]))


def _places(name: str, error: InvalidObject, data: bytes, media: Media) -> list[str]:
    # Only for those who made a mistake: it reads the text once more.
    from launcher.core.reading.places import placed

    return [f"{name}:{each.line}:{each.column}: {each}" for each in placed(error.problems, data, media)]

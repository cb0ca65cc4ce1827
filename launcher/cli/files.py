"""Framework files: read and checked, or every mistake told with its place."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher.cli.complaint import Refused
from launcher.core.errors import InvalidObject, Problem, RequestError
from launcher.core.framework import Framework
from launcher.core.manifest import Manifest, read_framework
from launcher.core.reading.decode import Media, text_of
from launcher.core.reading.json_text import read_json
from launcher.core.spec import FrameworkName
from launcher.core.wire import spec_from_json

#: Stands for the uid that the store will give.
_UID = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True, slots=True)
class Text:
    """A file as it stands: what it is called in messages, its bytes, and what they are written in."""

    name: str
    data: bytes
    media: Media

    def located(self, problems: Iterable[Problem]) -> list[str]:
        """``FILE:7:3: spec.taskRoles[0].taskNumber: …``, a line for each of the problems."""
        # Only for those who made a mistake: it reads the text once more.
        from launcher.core.reading.places import placed

        found = placed(problems, self.data, self.media)
        return [f"{self.name}:{each.line}:{each.column}: {each}" for each in found]

    def value(self) -> Any:
        """What it spells, as plain JSON. Raises RequestError."""
        # Only for those who send or convert it: whoever checks it has read it anyway.
        from launcher.core.reading.yaml_text import read_yaml

        return (read_json if self.media is Media.JSON else read_yaml)(text_of(self.data)).value

    @property
    def namespace(self) -> str | None:
        """The namespace that it names; None where it names none or cannot be read, which others will tell."""
        try:
            value = self.value()
        except RequestError:
            return None
        match value:
            case {"metadata": {"namespace": str() as namespace}}:
                return namespace
            case _:
                return None


def load(path: Path) -> Text:
    """The bytes of that file, ``-`` being standard input. Raises Refused."""
    name = "standard input" if path == Path("-") else str(path)
    try:
        data = sys.stdin.buffer.read() if path == Path("-") else path.read_bytes()
    except OSError as error:
        raise Refused(f"{name}: {error.strerror}") from error
    return Text(name, data, Media.JSON if path.suffix == ".json" else Media.YAML)


def read(path: Path, *, strict: bool = False) -> Manifest:
    """The Framework in that file. Raises Refused."""
    return check(load(path), strict=strict)


def check(text: Text, *, strict: bool = False) -> Manifest:
    """The Framework that *text* spells. Raises Refused."""
    try:
        return read_framework(text.data, media=text.media, strict=strict)
    except InvalidObject as error:
        raise Refused(*text.located(error.problems)) from error
    except RequestError as error:
        raise Refused(f"{text.name}: {error}") from error


def framework_of(obj: dict[str, Any]) -> Framework:
    """The Framework as it would be stored, with stand-ins for what the store alone can give: uid and suffix."""
    meta = obj["metadata"]
    name = FrameworkName(meta.get("name") or f"{meta['generateName']}xxxxx")
    spec = spec_from_json(obj["spec"], meta.get("annotations"))
    return Framework(name, meta.get("namespace", "default"), _UID, 1, spec)

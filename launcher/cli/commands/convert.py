"""``convert``: the Framework that somebody else's object becomes."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launcher.cli.arguments import SubParsers, add_command
from launcher.cli.errors import UsageError, print_error

if TYPE_CHECKING:
    from launcher.cli.manifest_file import ManifestFile
    from launcher.converters.conversion import Conversion
    from launcher.core.errors import InvalidObject


def add(commands: SubParsers) -> None:
    """The parser of ``convert``."""
    command = add_command(
        commands,
        "convert",
        _convert,
        help="print the Frameworks that TFJobs and others become",
        more="It takes TFJobs of every version, PyTorchJobs, MPIJobs, XGBoostJobs, JAXJobs, and Frameworks, "
        "FrameworkController's too; several in one file, and lists. What no longer means quite the same is told "
        "on stderr. What has no counterpart is refused by its field: then nothing is printed, and the exit code is 2.",
        example="launcher convert tfjob.yaml | launcher submit -",
    )
    command.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="objects, as YAML or JSON; - reads standard input"
    )
    command.add_argument(
        "-o", "--output", choices=("yaml", "json"), default="yaml", help="the format (default yaml)"
    )


@dataclass(frozen=True, slots=True)
class _Converted:
    """A Framework, and what its user should know."""

    framework: dict[str, Any]
    notes: tuple[str, ...]


def _convert(given: argparse.Namespace) -> int:
    from launcher.cli.manifest_file import load

    converted: list[_Converted] = []
    refused: list[str] = []
    for text in [part for path in given.files for part in load(path).documents()]:
        for found in _converted(text):
            if isinstance(found, UsageError):
                refused += found.lines
            else:
                print_error(*(f"{text.name}: {note}" for note in found.notes))
                converted.append(found)
    if refused:
        raise UsageError(*refused)
    if not converted:
        raise UsageError("there is nothing in it to convert")
    _print(converted, given.output)
    return 0


def _converted(text: "ManifestFile") -> Iterator[_Converted | UsageError]:
    """The Frameworks of one document, and why there is none in the place of each that there is not."""
    from launcher.converters.registry import framework_for, objects_in
    from launcher.core.errors import InvalidObject, RequestError

    try:
        objects = list(objects_in(text.value()))
    except RequestError as error:
        yield UsageError(f"{text.name}: {error}")
        return
    for where, obj in objects:
        try:
            mapped = framework_for(obj)
        except InvalidObject as error:
            yield _refusal(text, where, error)
        else:
            yield _checked(text, mapped, where, is_same=obj.get("kind") == mapped.framework["kind"])


def _checked(
    text: "ManifestFile", mapped: "Conversion", where: str, *, is_same: bool
) -> _Converted | UsageError:
    """The Framework with its defaults; what is wrong with it stands where it was written if its kind *is_same*."""
    from launcher.core.errors import InvalidObject, RequestError
    from launcher.core.manifest import validate_framework

    try:
        manifest = validate_framework(mapped.framework)
    except InvalidObject as error:
        if is_same:
            return _refusal(text, where, error)
        return UsageError(*(f"{text.name}: as a Framework: {each}" for each in error.errors))
    except RequestError as error:
        return UsageError(f"{text.name}: {error}")
    warnings = (f"warning: {warning}" for warning in manifest.warnings)
    return _Converted(manifest.object, (*(f"note: {note}" for note in mapped.notes), *warnings))


def _refusal(text: "ManifestFile", where: str, error: "InvalidObject") -> UsageError:
    return UsageError(*text.located(replace(each, field=where + each.field) for each in error.errors))


def _print(converted: list[_Converted], output: str) -> None:
    from launcher.cli.output.serializers import as_json, as_yaml

    frameworks = [each.framework for each in converted]
    if output == "json":
        whole = {"apiVersion": "v1", "kind": "List", "items": frameworks}
        print(as_json(frameworks[0] if len(frameworks) == 1 else whole))
        return
    for at, each in enumerate(converted):
        lines = ["---"] if at else []
        print(*lines, *(f"# {note}" for note in each.notes), as_yaml(each.framework), sep="\n", end="")

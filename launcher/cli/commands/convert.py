"""``convert``: objects of other systems as Frameworks."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher.cli.command import Command
from launcher.cli.errors import UsageError, print_error
from launcher.cli.manifest_file import ManifestFile, load
from launcher.cli.output.formats import print_list, print_object
from launcher.cli.output.yaml_format import dump_yaml
from launcher.converters.conversion import Conversion
from launcher.converters.registry import convert_to_framework, objects_in_document
from launcher.core.errors import InvalidObject, RequestError
from launcher.core.manifest import validate_framework


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="objects, as YAML or JSON; - reads standard input"
    )
    parser.add_argument(
        "-o", "--output", choices=("yaml", "json"), default="yaml", help="the output format (default yaml)"
    )


@dataclass(frozen=True, slots=True)
class _Converted:
    """A Framework, and the notes and warnings about it."""

    framework: dict[str, Any]
    notes: tuple[str, ...]


def _convert(args: argparse.Namespace) -> int:

    converted: list[_Converted] = []
    errors: list[str] = []
    for document in [document for path in args.files for document in load(path).documents()]:
        for result in _results(document):
            if isinstance(result, UsageError):
                errors += result.lines
            else:
                print_error(*(f"{document.name}: {note}" for note in result.notes))
                converted.append(result)
    if errors:
        raise UsageError(*errors)
    if not converted:
        raise UsageError("the files contain no objects to convert")
    _print(converted, args.output)
    return 0


def _results(document: ManifestFile) -> Iterator[_Converted | UsageError]:
    """The Framework or the errors of each object in the document."""
    try:
        objects = list(objects_in_document(document.value()))
    except RequestError as error:
        yield UsageError(f"{document.name}: {error}")
        return
    for path, obj in objects:
        try:
            conversion = convert_to_framework(obj)
        except InvalidObject as error:
            yield _errors(document, path, error)
        else:
            is_framework = obj.get("kind") == conversion.framework["kind"]
            yield _validated(document, conversion, path, is_framework=is_framework)


def _validated(
    document: ManifestFile, conversion: Conversion, path: str, *, is_framework: bool
) -> _Converted | UsageError:
    """The Framework with its defaults, or its errors; those have lines if the object in the file *is_framework*."""
    try:
        manifest = validate_framework(conversion.framework)
    except InvalidObject as error:
        if is_framework:
            return _errors(document, path, error)
        return UsageError(*(f"{document.name}: as a Framework: {each}" for each in error.errors))
    except RequestError as error:
        return UsageError(f"{document.name}: {error}")
    warnings = (f"warning: {warning}" for warning in manifest.warnings)
    return _Converted(manifest.object, (*(f"note: {note}" for note in conversion.notes), *warnings))


def _errors(document: ManifestFile, path: str, error: InvalidObject) -> UsageError:
    return UsageError(*document.located(each._replace(field=path + each.field) for each in error.errors))


def _print(converted: list[_Converted], output: str) -> None:
    frameworks = [each.framework for each in converted]
    if output == "json":
        if len(frameworks) == 1:
            print_object(frameworks[0], "json")
        else:
            print_list(frameworks, "json")
        return
    for index, each in enumerate(converted):
        lines = ["---"] if index else []
        print(*lines, *(f"# {note}" for note in each.notes), dump_yaml(each.framework), sep="\n", end="")


COMMANDS = {
    "convert": Command(
        _convert,
        _add_arguments,
        example="launcher convert tfjob.yaml | launcher submit -",
        details="Accepts TFJobs of every version, PyTorchJobs, MPIJobs, XGBoostJobs, JAXJobs, and Frameworks, also "
        "those of FrameworkController; several in one file, and lists. Differences in behaviour are printed as notes "
        "on stderr. Fields without a counterpart are errors: then nothing is printed, and the exit code is 2.",
    )
}

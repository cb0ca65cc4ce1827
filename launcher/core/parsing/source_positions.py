"""The line and column of a field in the text it came from; asked only when something has to be told about it."""

from collections.abc import Iterable
from dataclasses import replace

from launcher.core.errors import FieldError
from launcher.core.parsing import field_path
from launcher.core.parsing.decoder import Media
from launcher.core.parsing.field_path import Path
from launcher.core.parsing.json_reader import steps_in_json
from launcher.core.parsing.tokens import paths
from launcher.core.parsing.yaml_reader import steps_in_yaml


def locate(data: bytes, field: str, media: Media) -> tuple[int, int]:
    """
    The line and column, both from 1, of *field* in *data*, which has been read without an error.

    A field that is missing is looked for where it should be: in the innermost object that is there.
    """
    text = data.decode("utf-8-sig")
    return _line_and_column(text, _found(text, {field_path.steps(field)}, media)[field_path.steps(field)])


def placed(problems: Iterable[FieldError], data: bytes, media: Media) -> tuple[FieldError, ...]:
    """The same problems with the line and column of each, for one reading of *data*."""
    problems = tuple(problems)
    text = data.decode("utf-8-sig")
    fields = {problem.field: field_path.steps(problem.field) for problem in problems}
    found = _found(text, set(fields.values()), media)
    where = {field: _line_and_column(text, found[path]) for field, path in fields.items()}
    return tuple(replace(each, line=where[each.field][0], column=where[each.field][1]) for each in problems)


def _found(text: str, wanted: set[Path], media: Media) -> dict[Path, int]:
    """Where each path is written, or as much of it as is; of a key that stands twice, the last."""
    parts = {path[:length] for path in wanted for length in range(len(path) + 1)}
    steps = steps_in_json(text) if media is Media.JSON else steps_in_yaml(text)
    known = {path: at for path, at in paths(steps) if path in parts}
    return {path: _nearest(path, known) for path in wanted}


def _nearest(path: Path, known: dict[Path, int]) -> int:
    return next((known[path[:end]] for end in range(len(path), -1, -1) if path[:end] in known), 0)


def _line_and_column(text: str, at: int) -> tuple[int, int]:
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)

"""The line and column of a field in its source text, for error messages."""

from collections.abc import Iterable

from launcher.core.errors import FieldError
from launcher.core.parsing import field_path
from launcher.core.parsing.decoder import Media
from launcher.core.parsing.field_path import Path
from launcher.core.parsing.json_reader import json_tokens
from launcher.core.parsing.tokens import token_paths
from launcher.core.parsing.yaml_reader import yaml_tokens


def position_of(data: bytes, field: str, media: Media) -> tuple[int, int]:
    """
    The line and column, both from 1, of *field* in *data*, which must be valid JSON or YAML.

    The position of a missing field is that of the innermost object that exists.
    """
    text = data.decode("utf-8-sig")
    return _line_and_column(
        text, _offsets(text, {field_path.parse_path(field)}, media)[field_path.parse_path(field)]
    )


def with_positions(errors: Iterable[FieldError], data: bytes, media: Media) -> tuple[FieldError, ...]:
    """The errors with their lines and columns; *data* is parsed once."""
    errors = tuple(errors)
    text = data.decode("utf-8-sig")
    fields = {error.field: field_path.parse_path(error.field) for error in errors}
    offsets = _offsets(text, set(fields.values()), media)
    positions = {field: _line_and_column(text, offsets[path]) for field, path in fields.items()}
    return tuple(
        error._replace(line=positions[error.field][0], column=positions[error.field][1]) for error in errors
    )


def _offsets(text: str, paths: set[Path], media: Media) -> dict[Path, int]:
    """The offset of each path or of its longest existing prefix; for a duplicate key, of the last."""
    parts = {path[:length] for path in paths for length in range(len(path) + 1)}
    steps = json_tokens(text) if media is Media.JSON else yaml_tokens(text)
    existing = {path: offset for path, offset in token_paths(steps) if path in parts}
    return {path: _offset_of_nearest(path, existing) for path in paths}


def _offset_of_nearest(path: Path, offsets: dict[Path, int]) -> int:
    return next((offsets[path[:end]] for end in range(len(path), -1, -1) if path[:end] in offsets), 0)


def _line_and_column(text: str, offset: int) -> tuple[int, int]:
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)

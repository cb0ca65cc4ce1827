"""Field errors with the reasons and phrases of Kubernetes."""

import json
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from launcher.core.errors import MAX_REPORTED_ERRORS, FieldError
from launcher.core.parsing.decoder import abbreviate

#: The least similarity of two words for a suggestion.
_MIN_SIMILARITY = 0.75
#: Longer words are not compared, which takes quadratic time.
_MAX_COMPARED = 64


def suggestion(word: str, candidates: Iterable[str]) -> str | None:
    """The most similar known word, ignoring case; None when none is similar."""
    if len(word) > _MAX_COMPARED:
        return None
    by_lower_case = {candidate.lower(): candidate for candidate in candidates}
    similar = get_close_matches(word.lower(), by_lower_case, n=1, cutoff=_MIN_SIMILARITY)
    return by_lower_case[similar[0]] if similar else None


#: Reasons of errors that are warnings unless validation is strict.
UNKNOWN_FIELD = "FieldUnknown"
DUPLICATE_FIELD = "FieldDuplicate"
#: The reason of an unknown field that is a warning even in strict validation.
IGNORED_FIELD = "FieldIgnored"


_KINDS = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}


def kind_of(value: Any) -> str:
    """The JSON type of a value."""
    return _KINDS.get(type(value), "null")


def quote_value(value: Any) -> str:
    """The value as JSON, abbreviated; for a list or object only its type."""
    if isinstance(value, dict | list):
        return f'"{kind_of(value)}"'
    return json.dumps(abbreviate(value) if isinstance(value, str) else value, ensure_ascii=False)


def invalid(field: str, value: Any, must: str) -> FieldError:
    """``Invalid value: -1: must be at least 0``."""
    return FieldError(field, f"Invalid value: {quote_value(value)}: {must}")


def required(field: str, reason: str = "") -> FieldError:
    """``Required value: a pod needs at least one container``."""
    return FieldError(
        field, f"Required value: {reason}" if reason else "Required value", "FieldValueRequired"
    )


def type_invalid(field: str, value: Any, must: str) -> FieldError:
    """``Invalid value: "string": must be of type integer``."""
    return FieldError(field, f'Invalid value: "{kind_of(value)}": {must}', "FieldValueTypeInvalid")


def unsupported(field: str, value: Any, supported: Iterable[str]) -> FieldError:
    """``Unsupported value: "start": supported values: "Create", "Start"; did you mean "Start"?``."""
    values = tuple(supported)
    guess = suggestion(value, values) if isinstance(value, str) else None
    listed = ", ".join(map(quote_value, values))
    message = f"Unsupported value: {quote_value(value)}: supported values: {listed}{_did_you_mean(guess)}"
    return FieldError(field, message, "FieldValueNotSupported")


def duplicate(field: str, value: Any, reason: str) -> FieldError:
    """``Duplicate value: "worker": names of roles must be unique``."""
    return FieldError(field, f"Duplicate value: {quote_value(value)}: {reason}", "FieldValueDuplicate")


def forbidden(field: str, reason: str) -> FieldError:
    """``spec.hostNetwork: Forbidden: …``."""
    return FieldError(field, f"Forbidden: {reason}", "FieldValueForbidden")


def not_found(field: str, value: Any, names: Iterable[str], noun: str) -> FieldError:
    """``Not found: "wroker": no such role; did you mean "worker"?``."""
    guess = suggestion(value, names) if isinstance(value, str) else None
    return FieldError(
        field,
        f"Not found: {quote_value(value)}: no such {noun}{_did_you_mean(guess)}",
        "FieldValueNotFound",
    )


def unknown_field(field: str, guess: str | None) -> FieldError:
    """``unknown field "spec.taskRole"; did you mean "taskRoles"?``."""
    return FieldError(field, f'unknown field "{_bare(field)}"{_did_you_mean(guess)}', UNKNOWN_FIELD)


def ignored_field(field: str, guess: str | None, writer: str) -> FieldError:
    """``unknown field "spec.privileged" ignored, as by OpenPAI``."""
    message = f'unknown field "{_bare(field)}" ignored, as by {writer}{_did_you_mean(guess)}'
    return FieldError(field, message, IGNORED_FIELD)


def strict_errors(findings: Iterable[FieldError]) -> tuple[FieldError, ...]:
    """The findings that are errors in strict validation."""
    return tuple(finding for finding in findings if finding.reason != IGNORED_FIELD)


def duplicate_field(field: str) -> FieldError:
    """``duplicate field "spec.description"; the last value is used``."""
    return FieldError(field, f'duplicate field "{_bare(field)}"; the last value is used', DUPLICATE_FIELD)


def truncate_errors(errors: Iterable[FieldError]) -> tuple[FieldError, ...]:
    """The errors, cut to the maximum with a note about the rest."""
    all_errors = tuple(errors)
    if len(all_errors) <= MAX_REPORTED_ERRORS:
        return all_errors
    return (
        *all_errors[:MAX_REPORTED_ERRORS],
        FieldError("", f"at least {len(all_errors) - MAX_REPORTED_ERRORS} more errors"),
    )


def _did_you_mean(guess: str | None) -> str:
    return f'; did you mean "{guess}"?' if guess else ""


def _bare(field: str) -> str:
    return field.replace('"', "'")

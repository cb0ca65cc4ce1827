"""How broken rules are told: Kubernetes' reasons and openings, so that its clients show them well."""

import json
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from launcher.core.errors import FieldError
from launcher.core.parsing.decoder import short

#: Below this share of common letters two words are no misspelling of each other.
_ALIKE = 0.75
#: A longer word is not compared: the time it takes grows with the square of its length.
_LONGEST = 64


def suggestion(word: str, known: Iterable[str]) -> str | None:
    """The known word that *word* is most like, whatever its case; None when none is near."""
    if len(word) > _LONGEST:
        return None
    spelt = {candidate.lower(): candidate for candidate in known}
    near = get_close_matches(word.lower(), spelt, n=1, cutoff=_ALIKE)
    return spelt[near[0]] if near else None


#: Reasons for what only strict reading refuses.
UNKNOWN_FIELD = "FieldUnknown"
DUPLICATE_FIELD = "FieldDuplicate"
#: The reason for an unknown field that even strict reading only warns about.
IGNORED_FIELD = "FieldIgnored"

#: More of one object is not told: nobody reads on, and an answer has to stay small.
MAX_REPORTED_ERRORS = 100

_KINDS = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}


def kind_of(value: Any) -> str:
    """What JSON calls such a value."""
    return _KINDS.get(type(value), "null")


def quote_value(value: Any) -> str:
    """The value as JSON if it is short, else its beginning; of a list or object only the kind."""
    if isinstance(value, dict | list):
        return f'"{kind_of(value)}"'
    return json.dumps(short(value) if isinstance(value, str) else value, ensure_ascii=False)


def invalid(field: str, value: Any, must: str) -> FieldError:
    """``Invalid value: -1: must be at least 0``."""
    return FieldError(field, f"Invalid value: {quote_value(value)}: {must}")


def required(field: str, why: str = "") -> FieldError:
    """``Required value: a pod needs at least one container``."""
    return FieldError(field, f"Required value: {why}" if why else "Required value", "FieldValueRequired")


def type_invalid(field: str, value: Any, must: str) -> FieldError:
    """``Invalid value: "string": must be of type integer``."""
    return FieldError(field, f'Invalid value: "{kind_of(value)}": {must}', "FieldValueTypeInvalid")


def unsupported(field: str, value: Any, supported: Iterable[str]) -> FieldError:
    """``Unsupported value: "start": supported values: "Create", "Start"; did you mean "Start"?``."""
    words = tuple(supported)
    guess = suggestion(value, words) if isinstance(value, str) else None
    listed = ", ".join(map(quote_value, words))
    message = f"Unsupported value: {quote_value(value)}: supported values: {listed}{_question(guess)}"
    return FieldError(field, message, "FieldValueNotSupported")


def duplicate(field: str, value: Any, why: str) -> FieldError:
    """``Duplicate value: "worker": each role needs a name of its own``."""
    return FieldError(field, f"Duplicate value: {quote_value(value)}: {why}", "FieldValueDuplicate")


def forbidden(field: str, why: str) -> FieldError:
    """``spec.hostNetwork: Forbidden: …``."""
    return FieldError(field, f"Forbidden: {why}", "FieldValueForbidden")


def not_found(field: str, value: Any, known: Iterable[str], what: str) -> FieldError:
    """``Not found: "wroker": there is no such role; did you mean "worker"?``."""
    guess = suggestion(value, known) if isinstance(value, str) else None
    return FieldError(
        field,
        f"Not found: {quote_value(value)}: there is no such {what}{_question(guess)}",
        "FieldValueNotFound",
    )


def unknown_field(field: str, guess: str | None) -> FieldError:
    """``unknown field "spec.taskRole"; did you mean "taskRoles"?``."""
    return FieldError(field, f'unknown field "{_bare(field)}"{_question(guess)}', UNKNOWN_FIELD)


def ignored_field(field: str, guess: str | None, writer: str) -> FieldError:
    """``unknown field "spec.privileged"; it is ignored, as it was by OpenPAI``."""
    message = f'unknown field "{_bare(field)}"; it is ignored, as it was by {writer}{_question(guess)}'
    return FieldError(field, message, IGNORED_FIELD)


def strict_errors(findings: Iterable[FieldError]) -> tuple[FieldError, ...]:
    """The findings that strict reading refuses."""
    return tuple(finding for finding in findings if finding.reason != IGNORED_FIELD)


def duplicate_field(field: str) -> FieldError:
    """``duplicate field "spec.description"; the last one counts``."""
    return FieldError(field, f'duplicate field "{_bare(field)}"; the last one counts', DUPLICATE_FIELD)


def truncate_errors(problems: Iterable[FieldError]) -> tuple[FieldError, ...]:
    """The problems, or as many of them as anybody reads and a word about the rest."""
    found = tuple(problems)
    if len(found) <= MAX_REPORTED_ERRORS:
        return found
    return (
        *found[:MAX_REPORTED_ERRORS],
        FieldError("", f"there are at least {len(found) - MAX_REPORTED_ERRORS} more problems"),
    )


def _question(guess: str | None) -> str:
    return f'; did you mean "{guess}"?' if guess else ""


def _bare(field: str) -> str:
    return field.replace('"', "'")

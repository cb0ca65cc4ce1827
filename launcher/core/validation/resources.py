"""Validates resource requests and limits: names, quantities, and requests that do not exceed limits."""

import re
from collections.abc import Generator, Iterator
from decimal import Decimal
from typing import Any, Final

from launcher.core.errors import FieldError
from launcher.core.json_access import as_object
from launcher.core.parsing.field_path import format_path
from launcher.core.quantity import quantity
from launcher.core.validation.field_errors import invalid, required
from launcher.core.validation.names import label_key_error
from launcher.core.validation.placeholders import Fill

_STANDARD: Final = ("cpu", "memory", "ephemeral-storage")
_HUGE_PAGES: Final = "hugepages-"
#: Common misspellings of quantities: 4GB, 4 Gi, 512mb, 4K.
_MISSPELLED: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kKmMgGtTpPeE])([iI]?)[bB]?\s*")
_FORMS: Final = (
    "must be a quantity: a number, optionally with one of the suffixes n u m k M G T P E Ki Mi Gi Ti Pi Ei or an "
    "exponent, such as 2, 500m, 4Gi or 1e3"
)


def resource_errors(resources: Any, field: str, fill: Fill) -> Iterator[FieldError]:
    """Errors of the requests and limits at *field*; values of a wrong type are skipped."""
    amounts: dict[str, dict[str, Decimal]] = {}
    for kind in ("limits", "requests"):
        match = amounts[kind] = {}
        for name, value in as_object(as_object(resources).get(kind)).items():
            path = f"{field}.{format_path((kind, name))}"
            if error := _name_error(name):
                yield invalid(path, name, error)
                continue
            amount = yield from _amount(value, path, fill)
            if amount is None:
                continue
            match[name] = amount
            if is_extended(name) and amount != amount.to_integral_value():
                yield invalid(path, value, f"must be an integer: {name} cannot be divided")
    yield from _pair_errors(amounts["requests"], amounts["limits"], field)


def amount_errors(value: Any, field: str, fill: Fill) -> Iterator[FieldError]:
    """Errors of the quantity at *field*; None is absent."""
    if value is not None:
        yield from _amount(value, field, fill)


def is_extended(name: str) -> bool:
    """Whether it is an extended resource, such as ``nvidia.com/gpu``."""
    prefix = name.rpartition("/")[0]
    return bool(prefix) and prefix != "kubernetes.io" and not prefix.endswith(".kubernetes.io")


def _name_error(name: str) -> str | None:
    if "/" not in name and name not in _STANDARD and not name.startswith(_HUGE_PAGES):
        guess = '; did you mean "nvidia.com/gpu"?' if "gpu" in name.lower() else ""
        return (
            "must be cpu, memory, ephemeral-storage, hugepages-SIZE or an extended resource with its prefix, such as "
            f"nvidia.com/gpu{guess}"
        )
    return label_key_error(name)


def _amount(value: Any, field: str, fill: Fill) -> Generator[FieldError, None, Decimal | None]:
    """Yields errors of the quantity; returns its amount, or None if it is invalid."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        amount = quantity(fill(value) if isinstance(value, str) else value)
    except ValueError as error:
        too_large = "too large" in str(error)
        yield invalid(
            field, value, "is too large for a quantity" if too_large else f"{_FORMS}{_suggestion(value)}"
        )
        return None
    if amount < 0:
        yield invalid(field, value, "must not be negative")
        return None
    return amount


def _suggestion(value: Any) -> str:
    match = _MISSPELLED.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return ""
    number, unit = match[1], match[2].upper()
    decimal, binary = f"{number}{'k' if unit == 'K' else unit}", f"{number}{unit}i"
    return f'; did you mean "{binary}"?' if match[3] else f'; did you mean "{decimal}" or "{binary}"?'


def _pair_errors(
    requests: dict[str, Decimal], limits: dict[str, Decimal], field: str
) -> Iterator[FieldError]:
    for name, amount in requests.items():
        limit, path = limits.get(name), f"{field}.{format_path(('requests', name))}"
        if is_extended(name) and limit is None:
            yield required(
                f"{field}.{format_path(('limits', name))}",
                "extended resources need equal requests and limits",
            )
        elif limit is not None and (amount > limit or (is_extended(name) and amount != limit)):
            must = "equal to" if is_extended(name) else "at most"
            yield invalid(path, str(amount), f"must be {must} the {name} limit of {limit}")

"""Amounts of resources: quantities that can be read, of resources that exist, with limits not below requests."""

import re
from collections.abc import Generator, Iterator
from decimal import Decimal
from typing import Any, Final

from launcher.core.errors import FieldError
from launcher.core.parsing.field_path import written
from launcher.core.quantity import quantity
from launcher.core.validation.field_errors import invalid, required
from launcher.core.validation.names import label_key_fault
from launcher.core.validation.placeholders import Fill
from launcher.core.validation.pod_template import as_object

_STANDARD: Final = ("cpu", "memory", "ephemeral-storage")
_HUGE_PAGES: Final = "hugepages-"
#: How people write amounts that Kubernetes writes otherwise: 4GB, 4 Gi, 512mb, 4K.
_MISSPELLED: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kKmMgGtTpPeE])([iI]?)[bB]?\s*")
_FORMS: Final = (
    "must be a quantity: a number, and where needed one of the suffixes n u m k M G T P E Ki Mi Gi Ti Pi Ei or an "
    "exponent, such as 2, 500m, 4Gi or 1e3"
)


def resource_problems(resources: Any, field: str, fill: Fill) -> Iterator[FieldError]:
    """Each rule that the requests and limits at *field* break; what has not its proper shape is passed over."""
    amounts: dict[str, dict[str, Decimal]] = {}
    for kind in ("limits", "requests"):
        found = amounts[kind] = {}
        for name, value in as_object(as_object(resources).get(kind)).items():
            where = f"{field}.{written((kind, name))}"
            if fault := _name_fault(name):
                yield invalid(where, name, fault)
                continue
            amount = yield from _amount(value, where, fill)
            if amount is None:
                continue
            found[name] = amount
            if is_extended(name) and amount != amount.to_integral_value():
                yield invalid(where, value, f"must be a whole number: {name} is not divided among containers")
    yield from _pair_problems(amounts["requests"], amounts["limits"], field)


def amount_problems(value: Any, field: str, fill: Fill) -> Iterator[FieldError]:
    """Each rule that the quantity at *field* breaks; None is absent."""
    if value is not None:
        yield from _amount(value, field, fill)


def is_extended(name: str) -> bool:
    """Whether only a device plugin knows the resource, such as ``nvidia.com/gpu``."""
    prefix = name.rpartition("/")[0]
    return bool(prefix) and prefix != "kubernetes.io" and not prefix.endswith(".kubernetes.io")


def _name_fault(name: str) -> str | None:
    if "/" not in name and name not in _STANDARD and not name.startswith(_HUGE_PAGES):
        guess = '; did you mean "nvidia.com/gpu"?' if "gpu" in name.lower() else ""
        return (
            "must be cpu, memory, ephemeral-storage, hugepages-SIZE or the name of a device with its prefix, such as "
            f"nvidia.com/gpu{guess}"
        )
    return label_key_fault(name)


def _amount(value: Any, field: str, fill: Fill) -> Generator[FieldError, None, Decimal | None]:
    """Yields what is wrong with the quantity; returns its amount, None if it has none."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        amount = quantity(fill(value) if isinstance(value, str) else value)
    except ValueError as error:
        too_large = "too large" in str(error)
        yield invalid(
            field, value, "is too large for a quantity" if too_large else f"{_FORMS}{_question(value)}"
        )
        return None
    if amount < 0:
        yield invalid(field, value, "must not be negative")
        return None
    return amount


def _question(value: Any) -> str:
    found = _MISSPELLED.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return ""
    number, unit = found[1], found[2].upper()
    decimal, binary = f"{number}{'k' if unit == 'K' else unit}", f"{number}{unit}i"
    return f'; did you mean "{binary}"?' if found[3] else f'; did you mean "{decimal}" or "{binary}"?'


def _pair_problems(
    requests: dict[str, Decimal], limits: dict[str, Decimal], field: str
) -> Iterator[FieldError]:
    for name, amount in requests.items():
        limit, where = limits.get(name), f"{field}.{written(('requests', name))}"
        if is_extended(name) and limit is None:
            yield required(
                f"{field}.{written(('limits', name))}", f"{name} is never shared: request and limit are one"
            )
        elif limit is not None and (amount > limit or (is_extended(name) and amount != limit)):
            must = "equal to" if is_extended(name) else "at most"
            yield invalid(where, str(amount), f"must be {must} the limit of {name}, which is {limit}")

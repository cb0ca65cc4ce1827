"""Kubernetes quantities: ``100m``, ``1.5Gi``, ``2k``, ``1e3``."""

import re
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import Final

_FORM: Final = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))"
    r"(?:(?P<suffix>n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)|[eE](?P<exponent>[+-]?[0-9]{1,3}))?"
)
_SCALE: Final = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}
#: Longer texts are rejected: converting them would be slow.
_MAX_LENGTH: Final = 64
_SMALLEST: Final = Decimal("1e-9")
#: Kubernetes counts in 64 bits.
_LARGEST: Final = Decimal(2**63 - 1)


def quantity(value: str | float) -> Decimal:
    """
    The amount, rounded up to a billionth as Kubernetes does.

    Raises ValueError with a message for users.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{value!r} is not a quantity; use a number such as 2, 500m, 1.5 or 4Gi")
    return _read(str(value))


@lru_cache(maxsize=4096)
def _read(text: str) -> Decimal:
    match = _FORM.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if match is None:
        raise ValueError(
            f"{text[:_MAX_LENGTH]!r} is not a quantity; use a number, optionally with one of the suffixes "
            "n u m k M G T P E Ki Mi Gi Ti Pi Ei or an exponent, such as 500m, 4Gi or 1e3"
        )
    amount = Decimal(match["number"])
    if match["suffix"]:
        amount *= _SCALE[match["suffix"]]
    elif match["exponent"]:
        amount = amount.scaleb(int(match["exponent"]))
    if abs(amount) > _LARGEST:
        raise ValueError(f"{text!r} is too large; the maximum is {_LARGEST}")
    if amount % _SMALLEST:
        amount = amount.quantize(_SMALLEST, rounding=ROUND_CEILING)
    return amount

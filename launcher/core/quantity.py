"""Amounts of a resource as Kubernetes writes them: ``100m``, ``1.5Gi``, ``2k``, ``1e3``."""

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
#: Long enough for every amount that anybody means; the sum of a long one is not worked out.
_LONGEST: Final = 64
_SMALLEST: Final = Decimal("1e-9")
#: Kubernetes counts in 64 bits.
_LARGEST: Final = Decimal(2**63 - 1)


def quantity(value: str | float) -> Decimal:
    """
    The amount that *value* stands for, rounded up to a billionth, as Kubernetes does.

    Raises ValueError, whose message says what is wrong and what could stand there.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{value!r} is not a quantity: write a number such as 2, 500m, 1.5 or 4Gi")
    return _read(str(value))


@lru_cache(maxsize=4096)
def _read(text: str) -> Decimal:
    found = _FORM.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None:
        raise ValueError(
            f"{text[:_LONGEST]!r} is not a quantity: write a number and, if need be, one of the suffixes "
            "n u m k M G T P E Ki Mi Gi Ti Pi Ei or an exponent, such as 500m, 4Gi or 1e3"
        )
    amount = Decimal(found["number"])
    if found["suffix"]:
        amount *= _SCALE[found["suffix"]]
    elif found["exponent"]:
        amount = amount.scaleb(int(found["exponent"]))
    if abs(amount) > _LARGEST:
        raise ValueError(f"{text!r} is too large: a quantity is at most {_LARGEST}")
    if amount % _SMALLEST:
        amount = amount.quantize(_SMALLEST, rounding=ROUND_CEILING)
    return amount

"""Kubernetes quantities."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.core.quantity import quantity


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        pytest.param("100m", "0.1", id="thousandths"),
        pytest.param("1.5Gi", "1610612736", id="a part of a power of two"),
        pytest.param("2k", "2000", id="a power of ten"),
        pytest.param("1Ki", "1024", id="a power of two"),
        pytest.param("1e3", "1000", id="an exponent"),
        pytest.param("1E3", "1000", id="a capital exponent"),
        pytest.param("1E", "1000000000000000000", id="exa is no exponent"),
        pytest.param("12e-1", "1.2", id="an exponent below zero"),
        pytest.param("250u", "0.00025", id="millionths"),
        pytest.param(".5", "0.5", id="nothing before the point"),
        pytest.param("5.", "5", id="nothing after the point"),
        pytest.param("+2", "2", id="a plus sign"),
        pytest.param("-2", "-2", id="a minus sign"),
        pytest.param("0.1n", "0.000000001", id="less than a billionth is rounded up"),
        pytest.param(3, "3", id="a whole number"),
        pytest.param(0.5, "0.5", id="a number"),
        pytest.param(1e-7, "0.0000001", id="a number that Python writes with an exponent"),
        pytest.param("9223372036854775807", "9223372036854775807", id="the largest"),
    ],
)
def test_a_quantity_is_parsed(text: Any, amount: str) -> None:
    assert quantity(text) == Decimal(amount)


@pytest.mark.parametrize(
    "text",
    ["", "a", "1 Gi", "1K", "1mi", "Gi", "1e", "--1", "1,5", "0x10", "NaN", "inf", "１", "1\n", "1" * 65],
)
def test_an_invalid_quantity_is_rejected_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a quantity; use a number.* 4Gi"):
        quantity(text)


@pytest.mark.parametrize("value", [True, None, [], float("nan"), float("inf")])
def test_a_value_that_is_neither_text_nor_a_finite_number_is_rejected(value: Any) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        quantity(value)


@pytest.mark.parametrize("text", ["9223372036854775808", "10E", "1e999", "-1e19"])
def test_a_quantity_beyond_64_bits_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="is too large"):
        quantity(text)


@given(st.text("0123456789.eEinumkKMGTP+-", max_size=70))
def test_any_text_is_a_quantity_or_rejected(text: str) -> None:
    try:
        amount = quantity(text)
    except ValueError:
        return

    assert abs(amount) < 2**63
    assert amount % Decimal("1e-9") == 0

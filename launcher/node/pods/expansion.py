"""``$(NAME)`` in commands, arguments and values: replaced where the name is known, left as it is where not."""

import re
from collections.abc import Mapping

_REFERENCE = re.compile(r"\$(?:(\$)|\(([^)]*)\))")


def expanded(text: str, values: Mapping[str, str]) -> str:
    """*text* with every known reference replaced; ``$$`` is one dollar sign and never begins a reference."""
    if "$" not in text:
        return text
    return _REFERENCE.sub(lambda found: "$" if found[1] else values.get(found[2], found[0]), text)


def unknown_in(text: str, values: Mapping[str, str]) -> list[str]:
    """The names that *text* refers to and nobody has given a value."""
    return [name for dollar, name in _REFERENCE.findall(text) if not dollar and name not in values]

"""
What one word of YAML means, as a plain JSON value.

Words are read as Kubernetes' users expect, without the surprises of YAML 1.1:

* true, false, null and ``~`` are what they look like. yes, no, on and off stay text: in a pod they are most often
  meant so (an environment variable, a label), and where a boolean is due the answer says what to write.
* Numbers are JSON's, so 1e3 is one, plus hexadecimal and octal: 0644 is a file mode, as it is for kubectl.
* Dates, times such as 12:30 and versions stay text.
"""

import re
from typing import Any, Final

from yaml.events import ScalarEvent

from launcher.core.errors import BadRequest
from launcher.core.parsing.decoder import number, short

_WORDS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
#: What a word that is not text begins with; any other needs no closer look.
_NOT_TEXT: Final = frozenset("~nNtTfF+-.0123456789")
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_BASED = re.compile(r"([-+]?)0(?:x([0-9a-fA-F]+)|o?([0-7]+))")
_FRACTION = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_ENDLESS = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
#: More digits than this are beyond 64 bits in every base.
_MOST_DIGITS = 30

_TAG = "tag:yaml.org,2002:"
#: Of a quoted word, and of one that is called text.
_TEXT: Final = (None, "!", _TAG + "str")
_KINDS: Final[dict[str, tuple[type, ...]]] = {
    _TAG + "null": (type(None),),
    _TAG + "bool": (bool,),
    _TAG + "int": (int,),
    _TAG + "float": (int, float),
}


def value_of(event: ScalarEvent) -> Any:
    """The value that the word stands for. Raises BadRequest when JSON has no such value."""
    if event.implicit[0] and event.tag is None:
        return plain(event.value)
    if event.tag in _TEXT:
        return event.value
    kinds = _KINDS.get(event.tag)
    value = plain(event.value)
    if kinds is None or type(value) not in kinds:
        tag = short(event.tag)
        raise BadRequest(f"the tag {tag} does not fit here; leave it out, or quote what is meant as text")
    return value


def plain(word: str) -> Any:
    """What an unquoted word stands for. Raises BadRequest for a number that JSON or 64 bits cannot hold."""
    if word and word[0] not in _NOT_TEXT:
        return word
    if word in _WORDS:
        return _WORDS[word]
    if _INTEGER.fullmatch(word):
        return number(_whole(word, 10), word)
    if based := _BASED.fullmatch(word):
        sign, sixteen, eight = based.groups()
        return number(_whole(sign + (sixteen or eight), 16 if sixteen else 8), word)
    if _FRACTION.fullmatch(word):
        return number(float(word), word)
    if _ENDLESS.fullmatch(word):
        raise BadRequest(f"{word} is no number that JSON can hold; quote it if it is meant as text")
    return word


def _whole(digits: str, base: int) -> float:
    return int(digits, base) if len(digits) <= _MOST_DIGITS else float("inf")

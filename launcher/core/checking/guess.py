"""What somebody who misspelt a word may have meant."""

from collections.abc import Iterable
from difflib import get_close_matches

#: Below this share of common letters two words are no misspelling of each other.
_ALIKE = 0.75
#: A longer word is not compared: the time it takes grows with the square of its length.
_LONGEST = 64


def meant(word: str, known: Iterable[str]) -> str | None:
    """The known word that *word* is most like, whatever its case; None when none is near."""
    if len(word) > _LONGEST:
        return None
    spelt = {candidate.lower(): candidate for candidate in known}
    near = get_close_matches(word.lower(), spelt, n=1, cutoff=_ALIKE)
    return spelt[near[0]] if near else None

"""The role sequence: which roles of a job are created first."""

from collections.abc import Iterable

from launcher.core.checking.problems import invalid
from launcher.core.errors import Problem

#: What Arena calls each role.
TITLES = {"worker": "Worker", "ps": "PS", "chief": "Chief", "evaluator": "Evaluator"}
_SHORT = {title[0].lower(): role for role, title in TITLES.items()}


def read_sequence(text: str, where: str, problems: list[Problem]) -> tuple[str, ...]:
    """The roles that ``Worker,PS`` or ``w,p`` names, in its order; *where* is who said so."""
    words = [word.strip().lower() for word in text.split(",")]
    roles = [_SHORT.get(word, word) for word in words]
    for word, role in zip(text.split(","), roles, strict=True):
        if role not in TITLES:
            allowed = ", ".join(f"{title} ({title[0].lower()})" for title in TITLES.values())
            problems.append(invalid(where, word.strip(), f"there is no such role; there are {allowed}"))
    return tuple(role for role in roles if role in TITLES)


def written(roles: Iterable[str]) -> str:
    """``Worker,PS``: what the annotation says."""
    return ",".join(TITLES[role] for role in roles)

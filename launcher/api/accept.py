"""The Accept header: what a client takes, in the order of its wishes."""

from collections.abc import Iterator


def clauses_of(accept: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Each type that the client takes with its parameters, the most wanted first; nothing said is anything."""
    ranked: list[tuple[float, str, dict[str, str]]] = []
    for text in (accept.strip() or "*/*").split(","):
        media, *rest = (part.strip() for part in text.split(";"))
        parameters = dict(map(_parameter, rest))
        if (quality := _quality(parameters.pop("q", "1"))) > 0:
            ranked.append((-quality, media.lower(), parameters))
    return ((media, parameters) for _, media, parameters in sorted(ranked, key=lambda clause: clause[0]))


def _parameter(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name.strip().lower(), value.strip().strip('"')


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0

"""
Requests that mean harm: small ones that would grow, large ones that would take long, deep ones, broken ones.

Run as ``python -m tests.core.hostile`` it reads each of them under a limit of memory, and prints as JSON how each
ended and how much processor time it took, beside that of honest requests.
"""

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

from launcher.core.errors import LauncherError
from launcher.core.manifest import parse_framework
from launcher.core.parsing.decoder import MAX_BODY_BYTES, MOST_VALUES, Media
from tests.core.manifests import a_framework, a_pod, a_role

#: What reading may take in memory beyond the program itself; the largest request is a hundredth of it.
MEMORY = 300 * 1024 * 1024

HEAD = "apiVersion: launcher.microsoft.com/v1\nkind: Framework\nmetadata: {name: a}\n"


def framework(spec: str) -> bytes:
    return f"{HEAD}spec:\n{spec}".encode()


def filled(start: str, part: str, end: str = "", size: int = MAX_BODY_BYTES) -> bytes:
    """*part* again and again between *start* and *end*, as often as it fits into a request."""
    return (start + part * ((size - len(start) - len(end)) // len(part.encode())) + end).encode()


def numbered(start: str, part: Callable[[int], str], end: str = "", size: int = MAX_BODY_BYTES) -> bytes:
    """The same with parts that differ."""
    text, length, number = [start], len(start) + len(end), 0
    while (length := length + len(one := part(number))) <= size:
        text.append(one)
        number += 1
    return "".join([*text, end]).encode()


def laughs(levels: int = 9) -> bytes:
    """The billion laughs: each level is nine of the level before."""
    lines = ["  a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    lines += [f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return framework("\n".join(lines))


def merges() -> bytes:
    """One object of many keys, merged into as many others as fit."""
    wide = ", ".join(f"k{n}: 1" for n in range(5000))
    return numbered(f"{HEAD}x: &x {{{wide}}}\n", lambda n: f"m{n}: {{<<: *x}}\n")


def waiting_in_rings() -> bytes:
    """Many roles that all wait for many others."""
    roles = [
        a_role(f"r{n}", startAfter=[{"role": f"r{(n * m + m) % 400}"} for m in range(1, 60)])
        for n in range(400)
    ]
    return json.dumps(a_framework(*roles)).encode()


def unlike_any_other() -> bytes:
    """Unknown fields, each near to many known ones, as many as fit."""
    start = json.dumps(a_framework())[:-1]
    return numbered(start, lambda n: f',"specification{n}":{{}}', "}", size=MAX_BODY_BYTES)


def broken_everywhere() -> bytes:
    """Problems of shape in every value."""
    return json.dumps(a_framework(*[a_role(f"Role {n}", -n) for n in range(1, 9000)])).encode()


def roles_without_pods() -> bytes:
    """Problems of sense in every value."""
    return json.dumps(a_framework(*[{"name": "a"} for _ in range(60000)])).encode()


def many_labels() -> bytes:
    """A valid Framework of the largest size: as many values as there may be."""
    labels = {f"k{n}": "v" for n in range(MOST_VALUES - 100)}
    pod = {**a_pod(), "metadata": {"labels": labels}}
    return json.dumps(a_framework(a_role(pod=pod)), separators=(",", ":")).encode()


def many_labels_one_wrong() -> bytes:
    return many_labels().replace(b'"k7":"v"', b'"k7":1.5')


INPUTS: dict[str, tuple[Media, Callable[[], bytes]]] = {
    "billion laughs": (Media.YAML, laughs),
    "quadratic aliases": (
        Media.YAML,
        lambda: filled(f"{HEAD}a: &a [{'x, ' * 50_000}]\nb:\n", "- *a\n"),
    ),
    "quadratic merges": (Media.YAML, merges),
    "deep lists in YAML": (Media.YAML, lambda: filled("", "[")),
    "deep objects in YAML": (Media.YAML, lambda: filled("", "{a: ")),
    "deep block lists": (Media.YAML, lambda: filled("", "- ")),
    "deep indentation": (Media.YAML, lambda: numbered("", lambda n: f"{' ' * n}a:\n")),
    "deep lists in JSON": (Media.JSON, lambda: filled("", "[")),
    "deep objects in JSON": (Media.JSON, lambda: filled("", '{"a":')),
    "deep and closed": (Media.JSON, lambda: b"[" * 1000 + b"]" * 1000),
    "many numbers in YAML": (Media.YAML, lambda: filled("[", "1,", "1]")),
    "many numbers in JSON": (Media.JSON, lambda: filled("[", "1,", "1]")),
    "many empty objects": (Media.JSON, lambda: filled("[", "{},", "1]")),
    "many anchors": (Media.YAML, lambda: numbered("", lambda n: f"- &a{n} 1\n")),
    "many keys": (Media.YAML, lambda: numbered("", lambda n: f"k{n}: 1\n")),
    "one key many times": (Media.YAML, lambda: filled("", "k: 1\n")),
    "one key many times in JSON": (Media.JSON, lambda: filled('{"a":1', ',"a":1', "}")),
    "lost deep inside": (Media.JSON, lambda: b'{"a":' + b"[" * 900 + b"]" * 900 + b',"a":1}'),
    "many documents": (Media.YAML, lambda: filled("", "---\n")),
    "many remarks": (Media.YAML, lambda: filled("", "#\n")),
    "one long word": (Media.YAML, lambda: filled("a: ", "x")),
    "one long number": (Media.YAML, lambda: filled("a: ", "9")),
    "one long octal number": (Media.YAML, lambda: filled("a: 0", "7")),
    "one long fraction": (Media.YAML, lambda: filled("a: 0.", "9")),
    "one long number in JSON": (Media.JSON, lambda: filled("[", "9", "]")),
    "one long key": (Media.YAML, lambda: framework("  ? " + "k" * 2_000_000 + "\n  : 1")),
    "one open quote": (Media.YAML, lambda: filled('a: "', "x\n ")),
    "many question marks": (Media.YAML, lambda: filled("", "? ")),
    "many tabs": (Media.YAML, lambda: filled("a:", "\t")),
    "many exclamation marks": (Media.YAML, lambda: filled("", "!")),
    "no UTF-8": (Media.YAML, lambda: b"\xff" * MAX_BODY_BYTES),
    "UTF-16": (Media.YAML, lambda: HEAD.encode("utf-16")),
    "zeros": (Media.YAML, lambda: b"\0" * MAX_BODY_BYTES),
    "too large": (Media.JSON, lambda: b" " * (MAX_BODY_BYTES + 1)),
    "rings": (Media.JSON, waiting_in_rings),
    "unknown fields": (Media.JSON, unlike_any_other),
    "broken everywhere": (Media.JSON, broken_everywhere),
    "roles without pods": (Media.JSON, roles_without_pods),
    "many labels, one wrong": (Media.JSON, many_labels_one_wrong),
}


def ending(data: bytes, media: Media) -> dict[str, object]:
    """How reading *data* ended, and the processor time it took."""
    started = time.process_time()
    try:
        parse_framework(data, media=media)
        error, message = "", ""
    except (LauncherError, MemoryError, RecursionError) as raised:
        error, message = type(raised).__name__, str(raised)
    return {
        "error": error,
        "message": message[:400],
        "length": len(message),
        "time": time.process_time() - started,
    }


def honest() -> dict[str, object]:
    """The same for a valid request with as many values as there may be: the measure of all others."""
    as_yaml = many_labels().replace(b'":', b'": ')
    return ending(as_yaml, Media.YAML)


def limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def main() -> None:
    # Everything that is loaded when first needed is loaded now, so that only reading is measured and limited.
    ending(json.dumps(a_framework(a_role(tasks=-1))).encode(), Media.JSON)
    ending(framework("  {}"), Media.YAML)
    limit_memory()
    endings = {"honest": honest()}
    for name, (media, made) in INPUTS.items():
        endings[name] = ending(made(), media)
    sys.stdout.write(json.dumps(endings))


if __name__ == "__main__":
    main()

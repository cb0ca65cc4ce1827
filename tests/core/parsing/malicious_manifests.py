"""
Malicious manifests: small ones that expand, large ones that are slow to parse, deep ones, broken ones.

``python -m tests.core.parsing.malicious_manifests`` parses each of them with a memory limit and prints, as JSON, the
error and the processor time of each, and the processor time of the largest valid manifest for comparison.
"""

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

from launcher.core.errors import LauncherError
from launcher.core.manifest import parse_framework
from launcher.core.parsing.decoder import MAX_BODY_BYTES, MAX_VALUES, Media
from tests.builders import a_framework, a_pod_template, a_role

#: Memory for parsing, in addition to the program itself; the largest manifest is a hundredth of it.
MEMORY_LIMIT_BYTES = 300 * 1024 * 1024

HEADER = "apiVersion: launcher.microsoft.com/v1\nkind: Framework\nmetadata: {name: a}\n"


def framework(spec: str) -> bytes:
    return f"{HEADER}spec:\n{spec}".encode()


def repeated(start: str, part: str, end: str = "", size: int = MAX_BODY_BYTES) -> bytes:
    """*part* between *start* and *end*, repeated as often as the size limit allows."""
    return (start + part * ((size - len(start) - len(end)) // len(part.encode())) + end).encode()


def numbered(start: str, part: Callable[[int], str], end: str = "", size: int = MAX_BODY_BYTES) -> bytes:
    """Numbered parts between *start* and *end*, as many as the size limit allows."""
    text, length, number = [start], len(start) + len(end), 0
    while (length := length + len(next_part := part(number))) <= size:
        text.append(next_part)
        number += 1
    return "".join([*text, end]).encode()


def billion_laughs(levels: int = 9) -> bytes:
    """The billion laughs: each level is nine of the level before."""
    lines = ["  a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    lines += [f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return framework("\n".join(lines))


def quadratic_merges() -> bytes:
    """One object with many keys, merged into as many others as the size limit allows."""
    wide = ", ".join(f"k{n}: 1" for n in range(5000))
    return numbered(f"{HEADER}x: &x {{{wide}}}\n", lambda n: f"m{n}: {{<<: *x}}\n")


def cyclic_start_after() -> bytes:
    """Many roles that start after many others."""
    roles = [
        a_role(f"r{n}", startAfter=[{"role": f"r{(n * m + m) % 400}"} for m in range(1, 60)])
        for n in range(400)
    ]
    return json.dumps(a_framework(*roles)).encode()


def unknown_fields() -> bytes:
    """As many unknown fields as the size limit allows, each similar to many known ones."""
    start = json.dumps(a_framework())[:-1]
    return numbered(start, lambda n: f',"specification{n}":{{}}', "}", size=MAX_BODY_BYTES)


def schema_errors() -> bytes:
    """Schema errors in every value."""
    return json.dumps(a_framework(*[a_role(f"Role {n}", -n) for n in range(1, 9000)])).encode()


def roles_without_pods() -> bytes:
    """Validation errors in every role."""
    return json.dumps(a_framework(*[{"name": "a"} for _ in range(60000)])).encode()


def many_labels() -> bytes:
    """A valid Framework with the maximum number of values."""
    labels = {f"k{n}": "v" for n in range(MAX_VALUES - 100)}
    pod = {**a_pod_template(), "metadata": {"labels": labels}}
    return json.dumps(a_framework(a_role(pod=pod)), separators=(",", ":")).encode()


def many_labels_one_wrong() -> bytes:
    return many_labels().replace(b'"k7":"v"', b'"k7":1.5')


INPUTS: dict[str, tuple[Media, Callable[[], bytes]]] = {
    "billion laughs": (Media.YAML, billion_laughs),
    "quadratic aliases": (
        Media.YAML,
        lambda: repeated(f"{HEADER}a: &a [{'x, ' * 50_000}]\nb:\n", "- *a\n"),
    ),
    "quadratic merges": (Media.YAML, quadratic_merges),
    "deep lists in YAML": (Media.YAML, lambda: repeated("", "[")),
    "deep objects in YAML": (Media.YAML, lambda: repeated("", "{a: ")),
    "deep block lists": (Media.YAML, lambda: repeated("", "- ")),
    "deep indentation": (Media.YAML, lambda: numbered("", lambda n: f"{' ' * n}a:\n")),
    "deep lists in JSON": (Media.JSON, lambda: repeated("", "[")),
    "deep objects in JSON": (Media.JSON, lambda: repeated("", '{"a":')),
    "deep and closed": (Media.JSON, lambda: b"[" * 1000 + b"]" * 1000),
    "many numbers in YAML": (Media.YAML, lambda: repeated("[", "1,", "1]")),
    "many numbers in JSON": (Media.JSON, lambda: repeated("[", "1,", "1]")),
    "many empty objects": (Media.JSON, lambda: repeated("[", "{},", "1]")),
    "many anchors": (Media.YAML, lambda: numbered("", lambda n: f"- &a{n} 1\n")),
    "many keys": (Media.YAML, lambda: numbered("", lambda n: f"k{n}: 1\n")),
    "one key many times": (Media.YAML, lambda: repeated("", "k: 1\n")),
    "one key many times in JSON": (Media.JSON, lambda: repeated('{"a":1', ',"a":1', "}")),
    "duplicate key deep inside": (Media.JSON, lambda: b'{"a":' + b"[" * 900 + b"]" * 900 + b',"a":1}'),
    "many documents": (Media.YAML, lambda: repeated("", "---\n")),
    "many comments": (Media.YAML, lambda: repeated("", "#\n")),
    "one long word": (Media.YAML, lambda: repeated("a: ", "x")),
    "one long number": (Media.YAML, lambda: repeated("a: ", "9")),
    "one long octal number": (Media.YAML, lambda: repeated("a: 0", "7")),
    "one long fraction": (Media.YAML, lambda: repeated("a: 0.", "9")),
    "one long number in JSON": (Media.JSON, lambda: repeated("[", "9", "]")),
    "one long key": (Media.YAML, lambda: framework("  ? " + "k" * 2_000_000 + "\n  : 1")),
    "one open quote": (Media.YAML, lambda: repeated('a: "', "x\n ")),
    "many question marks": (Media.YAML, lambda: repeated("", "? ")),
    "many tabs": (Media.YAML, lambda: repeated("a:", "\t")),
    "many exclamation marks": (Media.YAML, lambda: repeated("", "!")),
    "no UTF-8": (Media.YAML, lambda: b"\xff" * MAX_BODY_BYTES),
    "UTF-16": (Media.YAML, lambda: HEADER.encode("utf-16")),
    "zeros": (Media.YAML, lambda: b"\0" * MAX_BODY_BYTES),
    "too large": (Media.JSON, lambda: b" " * (MAX_BODY_BYTES + 1)),
    "cyclic startAfter": (Media.JSON, cyclic_start_after),
    "unknown fields": (Media.JSON, unknown_fields),
    "schema errors everywhere": (Media.JSON, schema_errors),
    "roles without pods": (Media.JSON, roles_without_pods),
    "many labels, one wrong": (Media.JSON, many_labels_one_wrong),
}


def parse_and_measure(data: bytes, media: Media) -> dict[str, object]:
    """Parses *data*; returns the error and the processor time."""
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


def largest_valid() -> dict[str, object]:
    """The result for the largest valid manifest, with which all others are compared."""
    as_yaml = many_labels().replace(b'":', b'": ')
    return parse_and_measure(as_yaml, Media.YAML)


def limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY_LIMIT_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def main() -> None:
    # Loads all modules that are imported lazily, so that only parsing is measured and limited.
    parse_and_measure(json.dumps(a_framework(a_role(tasks=-1))).encode(), Media.JSON)
    parse_and_measure(framework("  {}"), Media.YAML)
    limit_memory()
    results = {"valid": largest_valid()}
    for name, (media, make) in INPUTS.items():
        results[name] = parse_and_measure(make(), media)
    sys.stdout.write(json.dumps(results))


if __name__ == "__main__":
    main()

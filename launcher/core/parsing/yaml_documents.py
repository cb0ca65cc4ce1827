"""The documents of a YAML text."""

import re

#: The separator line of YAML documents.
SEPARATOR = re.compile(r"^---[ \t]*(?:#.*)?\r?$", re.MULTILINE)


def yaml_documents(data: bytes) -> list[bytes]:
    """Returns the documents, each with empty lines before it that keep its line numbers; none for comments alone."""
    found: list[bytes] = []
    before = 0
    for part in SEPARATOR.split(data.decode(errors="surrogateescape")):
        if has_content(part):
            found.append(("\n" * before + part).encode(errors="surrogateescape"))
        before += part.count("\n")
    return [data] if len(found) == 1 else found


def has_content(text: str) -> bool:
    """Whether a document contains more than comments."""
    return any(line.strip() and not line.lstrip().startswith("#") for line in text.splitlines())

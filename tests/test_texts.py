"""The user-visible texts stand in one table that can be read in one go, and use plain words."""

import ast
import re
from collections import defaultdict

from tests.texts import PROJECT, TABLE, table

#: Values are reported, recorded and logged, by programs: no people, no furniture. ``keeper.log`` is a file name.
METAPHORS = re.compile(
    r"\b(tell|tells|told|hear|hears|heard|somebody|nobody|whoever|anybody|himself|keeper(?!\.log)|desk|jury|crew|guest|"
    r"attendant|burial|last words|comes? true|came true|takes up|let go|looked at|stands over)\b"
)


def test_the_table_holds_every_text_of_the_code() -> None:
    assert TABLE.read_text() == table(), "run: make texts"


def test_no_text_uses_a_metaphor() -> None:
    found = [line for line in table().splitlines() if METAPHORS.search(line)]

    assert found == []


def test_no_class_name_is_defined_in_two_modules() -> None:
    modules = defaultdict(list)
    for path in sorted((PROJECT / "launcher").rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                modules[node.name.lstrip("_")].append(str(path.relative_to(PROJECT)))

    assert {name: paths for name, paths in modules.items() if len(paths) > 1} == {}

"""A class is found by its name: no two modules define a class of the same name."""

import ast
from collections import defaultdict
from collections.abc import Iterator

from tests.cluster.versions import PROJECT

PACKAGES = ("launcher", "schemas", "deploy", "docs", "tests")


def public_classes() -> Iterator[tuple[str, str]]:
    """The name of each class at the top of a module, and the module."""
    for package in PACKAGES:
        for path in (PROJECT / package).rglob("*.py"):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    yield node.name, str(path.relative_to(PROJECT))


def test_no_class_name_is_defined_in_two_modules() -> None:
    modules = defaultdict(list)
    for name, module in public_classes():
        modules[name].append(module)

    assert {name: found for name, found in modules.items() if len(found) > 1} == {}
    assert "FrameworkController" in modules

"""Links lead somewhere, generated pages equal the code, and pages name only files that exist."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from docs.generate.completion_codes import MEANINGS
from docs.generate.fields import REQUIRED_BY_VALIDATION
from docs.generate.pages import DOCS
from docs.generate.pages import PAGES as GENERATED
from launcher.core.completion_codes import Code
from launcher.core.errors import InvalidObject
from launcher.core.manifest import parse_framework
from launcher.core.parsing.decoder import Media
from launcher.core.status import FRAMEWORK_STEPS, TASK_STEPS, State
from launcher.settings.local import settings_from
from tests.docs.pages import PAGES, PROJECT, anchors, blocks, links, name_of, prose, yaml_text

every_page = pytest.mark.parametrize("page", PAGES, ids=name_of)
#: The changelog names files of earlier versions.
current_page = pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=name_of
)


@every_page
def test_every_link_leads_to_a_file_and_an_anchor_of_it(page: Path) -> None:
    for link in links(page):
        if re.match(r"https?:|mailto:", link):
            continue
        target, _, anchor = link.partition("#")
        path = (page.parent / target).resolve() if target else page
        assert path.exists(), link
        assert not anchor or anchor in anchors(path), link


@current_page
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    found = re.findall(
        r"(?<![\w./-])((?:launcher|tests|docs|schemas|deploy|examples)/[\w./-]*\w)", page.read_text()
    )

    assert [path for path in found if not (PROJECT / path).exists()] == []


@every_page
def test_prose_is_wrapped(page: Path) -> None:
    lines = [line for line in prose(page).splitlines() if not line.lstrip("> ").startswith(("|", "<!--"))]

    assert [line for line in lines if len(line) > 100] == []


#: Things are not people: no page, comment or description says, hears or asks something.
NOT_PLAIN = re.compile(
    r"\b(tells?|told|hears?|heard|says?|said|asks|asked|stands|some ?body|nobody|any ?body|whoever|whom)\b",
    re.IGNORECASE,
)
#: What users read besides the pages.
FILES = sorted(
    path
    for top in ("examples", "deploy", "schemas", "Makefile")
    for path in ((PROJECT / top).rglob("*") if (PROJECT / top).is_dir() else [PROJECT / top])
    if path.is_file() and path.suffix not in (".md", ".pyc")
)


@every_page
def test_a_page_uses_plain_words(page: Path) -> None:
    assert NOT_PLAIN.findall(prose(page)) == []


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_file_that_users_read_uses_plain_words(path: Path) -> None:
    assert NOT_PLAIN.findall(path.read_text()) == []


def test_every_page_of_the_documentation_is_in_its_index() -> None:
    index = DOCS / "README.md"
    linked = {(DOCS / link.partition("#")[0]).resolve() for link in links(index)}
    decisions = {DOCS / "decisions" / link for link in links(DOCS / "decisions/README.md")}

    assert {name_of(page) for page in DOCS.rglob("*.md") if page not in linked | decisions | {index}} == set()


def test_readme_has_at_most_three_screens() -> None:
    assert len((PROJECT / "README.md").read_text().splitlines()) <= 130


@pytest.mark.parametrize("name", GENERATED)
def test_a_generated_page_equals_the_code(name: str) -> None:
    assert (DOCS / name).read_text() == GENERATED[name](), "run: make docs"


@pytest.mark.parametrize("field", sorted(REQUIRED_BY_VALIDATION))
def test_a_field_that_the_reference_calls_required_is_required_by_validation(field: str) -> None:
    framework = yaml.safe_load((PROJECT / "examples/hello.yaml").read_text())
    *path, last = field.replace("[]", ".0").split(".")
    owner = framework
    for name in path:
        owner = owner[0] if name == "0" else owner[name]
    del owner[last]

    with pytest.raises(InvalidObject, match="Required value") as rejected:
        parse_framework(yaml.safe_dump(framework).encode(), media=Media.YAML, strict=True)

    assert rejected.value.errors[0].field.replace("[0]", "[]").startswith(field)


def test_every_completion_code_has_a_meaning() -> None:
    assert set(MEANINGS) == set(Code)


def test_every_metric_of_the_code_is_in_the_reference() -> None:
    code = "".join(path.read_text() for path in (PROJECT / "launcher").rglob("*.py"))
    names = set(re.findall(r"""["'](launcher_[a-z_]+)["']""", code))

    assert {name for name in names if f"`{name}" not in (DOCS / "metrics.md").read_text()} == set()


@current_page
def test_every_event_that_a_page_names_is_recorded(page: Path) -> None:
    code = "".join(path.read_text() for path in (PROJECT / "launcher").rglob("*.py"))
    lists = re.findall(r"\bevents?((?:,?\s(?:and\s)?`[A-Z]\w+`)+)", prose(page))
    reasons = {reason for names in lists for reason in re.findall(r"`(\w+)`", names)}

    assert {reason for reason in reasons if f'"{reason}"' not in code} == set()


def diagram(steps: Mapping[State, frozenset[State]]) -> str:
    """The table of steps as a mermaid diagram."""
    transitions = [(before, after) for before in State for after in State if after in steps.get(before, ())]
    lines = [
        f"[*] --> {State.CREATION_PENDING}",
        *(f"{a} --> {b}" for a, b in transitions),
        f"{State.COMPLETED} --> [*]",
    ]
    return "\n    ".join(["stateDiagram-v2", *lines])


def test_the_page_about_the_status_explains_every_state() -> None:
    text = (DOCS / "reading-a-status.md").read_text()

    assert [state for state in State if f"`{state}`" not in text] == []


@pytest.mark.parametrize("steps", [TASK_STEPS, FRAMEWORK_STEPS], ids=["task", "Framework"])
def test_the_state_diagrams_equal_the_tables(steps: Mapping[State, frozenset[State]]) -> None:
    assert f"```mermaid\n{diagram(steps)}\n```" in (DOCS / "retries-and-completion.md").read_text()


def test_the_policy_of_the_security_page_is_accepted_in_a_config_file(tmp_path: Path) -> None:
    (block,) = blocks(DOCS / "security.md", "yaml")
    (tmp_path / "config.yaml").write_text(block.text)

    assert settings_from({"config": str(tmp_path / "config.yaml")}, {}).policy.max_tasks == 1000


@every_page
def test_every_framework_on_a_page_is_valid_without_a_warning(page: Path) -> None:
    for block in blocks(page, "yaml"):
        if "kind: Framework" in block.text and not block.comment.startswith("invalid file: "):
            assert parse_framework(block.text.encode(), media=Media.YAML, strict=True).warnings == ()
        else:
            yaml.safe_load(block.text)


@every_page
def test_what_a_page_shows_of_a_file_is_in_the_file(page: Path) -> None:
    for block in blocks(page, "yaml"):
        kind, _, path = block.comment.partition(": ")
        if kind == "same as":
            assert yaml_text(PROJECT / path) == block.text


def test_every_make_target_has_a_description_and_is_in_contributing() -> None:
    makefile = (PROJECT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    text = (PROJECT / "CONTRIBUTING.md").read_text()

    assert targets == set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE))
    assert {target for target in targets if f"`make {target}" not in text} == set()


def test_the_architecture_names_every_package_and_dependency() -> None:
    text = (DOCS / "architecture.md").read_text()
    folders = [
        path.parent for path in (PROJECT / "launcher").rglob("__init__.py") if path.parent.name != "launcher"
    ]
    packages = {f"`{folder.relative_to(PROJECT)}/`" for folder in folders}
    dependencies = re.findall(
        r'^    "([A-Za-z_-]+)>=', (PROJECT / "pyproject.toml").read_text(), re.MULTILINE
    )

    assert {package for package in packages if package not in text} == set()
    assert {name for name in dependencies if f"| {name} |" not in text} == set()

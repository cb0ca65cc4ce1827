"""What README says is true."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from launcher.core.manifest import parse_framework
from launcher.core.parsing.decoder import Media
from launcher.core.status import FRAMEWORK_STEPS, TASK_STEPS, State
from launcher.settings import settings_from

PROJECT = Path(__file__).parent.parent
README = (PROJECT / "README.md").read_text()
#: Every piece of YAML that it shows.
SAMPLES = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)


def diagram(steps: Mapping[State, frozenset[State]]) -> str:
    """The table of steps as mermaid draws it."""
    arrows = [(before, after) for before in State for after in State if after in steps.get(before, ())]
    lines = [
        f"[*] --> {State.CREATION_PENDING}",
        *(f"{a} --> {b}" for a, b in arrows),
        f"{State.COMPLETED} --> [*]",
    ]
    return "\n    ".join(["stateDiagram-v2", *lines])


@pytest.mark.parametrize("steps", [TASK_STEPS, FRAMEWORK_STEPS], ids=["task", "Framework"])
def test_the_state_diagrams_are_those_of_the_tables(steps: Mapping[State, frozenset[State]]) -> None:
    assert f"```mermaid\n{diagram(steps)}\n```" in README


def test_the_policy_is_one_that_a_config_file_can_have(tmp_path: Path) -> None:
    (config,) = (sample for sample in SAMPLES if sample.startswith("policy:"))
    (tmp_path / "config.yaml").write_text(config)

    assert settings_from({"config": str(tmp_path / "config.yaml")}, {}).policy.max_tasks == 1000


def test_the_first_framework_is_valid_without_a_warning() -> None:
    example = next(sample for sample in SAMPLES if "kind: Framework" in sample)

    assert parse_framework(example.encode(), media=Media.YAML, strict=True).warnings == ()
    assert yaml.safe_load(example)["metadata"]["name"] == "hello"


def test_every_make_target_has_a_word_of_help_and_readme_names_it() -> None:
    makefile = (PROJECT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))

    assert targets == set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE))
    assert all(
        f"`{target}`" in README or f"make {target}" in README for target in targets - {"clean", "help"}
    )


def test_every_room_and_dependency_is_in_readme() -> None:
    rooms = {f"`launcher/{path.parent.name}/`" for path in PROJECT.glob("launcher/*/__init__.py")}
    project = (PROJECT / "pyproject.toml").read_text()
    dependencies = re.findall(r'^    "([A-Za-z_-]+)>=', project, re.MULTILINE)

    assert {room for room in rooms if room not in README} == set()
    assert {name for name in dependencies if f"| {name} |" not in README} == set()

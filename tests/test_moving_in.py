"""The page about moving in says what the code does: every field and every flag, and no other."""

import argparse
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from launcher.cli.arena import unsupported
from launcher.cli.main import make_parser
from launcher.converters.arena.flags import FLAGS, Flag
from launcher.converters.conversion import Fields
from launcher.converters.kubeflow.job_spec import JobFamily
from launcher.converters.registry import FAMILIES, framework_for
from launcher.core.errors import InvalidObject
from launcher.core.validation.schema import framework_schema

Json = dict[str, Any]
Rows = list[tuple[str, str]]

FOLDER = Path(__file__).parent.parent / "examples/moving-in"
PAGE = (FOLDER / "README.md").read_text()
ALL = [family for family, _ in FAMILIES]


def tables(heading: str) -> list[Rows]:
    """The tables below that heading, without their heads."""
    (section,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    found = re.findall(r"^\| [^\n]* \|\n\| --- \| --- \|\n((?:\|[^\n]*\n)+)", section, re.MULTILINE)
    return [[_cells(line) for line in table.splitlines()] for table in found]


def _cells(line: str) -> tuple[str, str]:
    first, last = line.removeprefix("| ").removesuffix(" |").split(" | ")
    return first, last


def fields(heading: str) -> Mapping[str, str]:
    """What becomes of each field."""
    (table,) = tables(heading)
    return {field.strip("`"): becomes for field, becomes in table}


def a_job(family: JobFamily, **spec: Any) -> Json:
    container = {"name": family.container or "main", "image": "x"}
    replicas = {"template": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": family.versions[0],
        "kind": family.kind,
        "metadata": {"name": "a"},
        "spec": {family.field: {family.deciding[0].capitalize(): replicas}, **spec},
    }


def asked_for(job: Json, family: JobFamily, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Every field of the spec that is looked at when the job is read."""
    asked: list[str] = []
    take = Fields.take

    def noted(self: Fields, name: str, kind: type[Any]) -> Any:
        asked.append(self.at(name))
        return take(self, name, kind)

    with monkeypatch.context() as patch:
        patch.setattr(Fields, "take", noted)
        framework_for(job)
    type_ = family.deciding[0].capitalize()
    plain = [re.sub(r"\[\d+\]", "", field).replace(f".{type_}", ".TYPE") for field in asked]
    return {field for field in plain if field.startswith("spec.") and ".template." not in field}


@pytest.mark.parametrize("family", ALL, ids=lambda family: family.kind)
def test_every_field_that_is_read_is_in_the_table_and_no_other(
    family: JobFamily, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asked_for(a_job(family, runPolicy={"schedulingPolicy": {"minAvailable": 1}}), family, monkeypatch)
    if family.kind == "TFJob":
        old = {"tfReplicaType": "MASTER", "template": {"spec": {"containers": [{"name": "tensorflow"}]}}}
        job = {**a_job(family), "spec": {"replicaSpecs": [old]}}
        asked |= {field for field in asked_for(job, family, monkeypatch) if "replicaSpecs" in field}
    else:
        # Told once, of TFJob.
        asked = {field for field in asked if not field.startswith("spec.runPolicy")}
    if family.kind == "PyTorchJob":
        asked |= {
            field
            for field in asked_for(a_job(family, elasticPolicy={"maxReplicas": 1}), family, monkeypatch)
            if "elasticPolicy" in field
        }
    told = fields(family.kind)

    assert {field for field, becomes in told.items() if not becomes.startswith("refused")} == asked


@pytest.mark.parametrize(
    ("family", "field"),
    [
        pytest.param(family, field, id=field)
        for family in ALL
        for field, becomes in fields(family.kind).items()
        if becomes.startswith("refused")
    ],
)
def test_what_the_table_calls_refused_is_refused_by_name(family: JobFamily, field: str) -> None:
    job = a_job(family)
    place = job
    for name in field.split(".")[:-1]:
        place = place.setdefault(name, {})
    place[field.split(".")[-1]] = {"any": "thing"}

    with pytest.raises(InvalidObject) as refused:
        framework_for(job)

    assert [problem.field for problem in refused.value.errors] == [field]


def test_every_field_of_frameworkcontrollers_is_one_of_ours() -> None:
    schema = framework_schema()

    def resolved(found: Json) -> Json:
        while "$ref" in found or "items" in found:
            found = schema["$defs"][found["$ref"].rpartition("/")[2]] if "$ref" in found else found["items"]
        return found

    for field in fields("FrameworkController"):
        found = schema
        for name in field.split("."):
            assert name in found["properties"], field
            found = resolved(found["properties"][name])


def test_every_flag_of_arena_is_in_the_table_with_what_it_becomes() -> None:
    flags, _ = tables("Arena")

    assert flags == [
        (_spelt(flag), f"refused: {flag.refused}" if flag.refused else flag.becomes)
        for flag in FLAGS.values()
    ]


def _spelt(flag: Flag) -> str:
    spellings = [
        f"--{flag.name}",
        *([f"-{flag.short}"] if flag.short else []),
        *(f"--{old}" for old in flag.old),
    ]
    return ", ".join(f"`{spelling}`" for spelling in spellings)


def test_what_arena_had_and_is_not_to_be_had_is_there_with_the_reason() -> None:
    _, gone = tables("Arena")

    (reason,) = set(unsupported.KINDS.values())
    kinds = ", ".join(f"`{kind}`" for kind in unsupported.KINDS)
    assert gone == [
        *((f"`arena {command}`", why) for command, why in unsupported.COMMANDS.items()),
        (f"`arena submit` {kinds}", reason),
        *((f"`--{flag}`", why) for flag, why in {**unsupported.FLAGS, **unsupported.IGNORED}.items()),
    ]


def test_every_flag_of_simpletfjob_is_in_the_table_and_no_other() -> None:
    (rows,) = tables("simpletfjob")
    told = {word for first, _ in rows for word in re.findall(r"`(-[\w-]+)`", first)}

    parser = _command("simpletfjob")
    known = {word for action in parser._actions for word in action.option_strings}
    assert told == known - {"-h", "--help"}


def _command(name: str) -> argparse.ArgumentParser:
    (commands,) = [
        action for action in make_parser()._actions if isinstance(action, argparse._SubParsersAction)
    ]
    parser: argparse.ArgumentParser = commands.choices[name]
    return parser


def test_every_sample_is_linked() -> None:
    samples = {path.name for path in FOLDER.iterdir()} - {"README.md"}

    assert samples == set(re.findall(r"\]\(([\w-][\w.-]*)\)", PAGE))

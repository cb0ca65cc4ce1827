"""The pages about migration list every field and flag that the code reads, and no other."""

import argparse
import re
from collections.abc import Mapping
from typing import Any

import pytest

from launcher.cli.main import make_parser
from launcher.converters.conversion import Fields
from launcher.converters.kubeflow.job_spec import JobFamily
from launcher.converters.registry import FAMILIES, convert_to_framework
from launcher.core.errors import InvalidObject
from launcher.core.validation.schema import framework_schema
from tests.docs.pages import PROJECT

Json = dict[str, Any]
Rows = list[tuple[str, str]]

SAMPLES = PROJECT / "examples/migrate"
MIGRATE = PROJECT / "docs/migrate"
ALL = [family for family, _ in FAMILIES]


def tables(page: str, heading: str) -> list[Rows]:
    """The tables below that heading of a page, without their heads."""
    text = (MIGRATE / page).read_text()
    (section,) = re.findall(rf"^##? {heading}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    found = re.findall(r"^\| [^\n]* \|\n\| --- \| --- \|\n((?:\|[^\n]*\n)+)", section, re.MULTILINE)
    return [[_cells(line) for line in table.splitlines()] for table in found]


def _cells(line: str) -> tuple[str, str]:
    first, last = line.removeprefix("| ").removesuffix(" |").split(" | ")
    return first, last


def fields(page: str, heading: str) -> Mapping[str, str]:
    """The fields of the table below that heading, each with its meaning."""
    (table,) = tables(page, heading)
    return {field.strip("`"): meaning for field, meaning in table}


def job_fields(family: JobFamily) -> Mapping[str, str]:
    return fields("kubeflow-tfjob.md", family.kind)


def a_job(family: JobFamily, **spec: Any) -> Json:
    container = {"name": family.container or "main", "image": "x"}
    replicas = {"template": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": family.versions[0],
        "kind": family.kind,
        "metadata": {"name": "a"},
        "spec": {family.field: {family.deciding[0].capitalize(): replicas}, **spec},
    }


def fields_read(job: Json, family: JobFamily, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Every field of the spec that the converter reads, present or not."""
    read: list[str] = []
    take = Fields.take

    def record(self: Fields, name: str, kind: type[Any]) -> Any:
        read.append(self.path_of(name))
        return take(self, name, kind)

    with monkeypatch.context() as patch:
        patch.setattr(Fields, "take", record)
        convert_to_framework(job)
    type_ = family.deciding[0].capitalize()
    plain = [re.sub(r"\[\d+\]", "", field).replace(f".{type_}", ".TYPE") for field in read]
    return {field for field in plain if field.startswith("spec.") and ".template." not in field}


@pytest.mark.parametrize("family", ALL, ids=lambda family: family.kind)
def test_every_field_that_is_read_is_in_the_table_and_no_other(
    family: JobFamily, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_policy = a_job(family, runPolicy={"schedulingPolicy": {"minAvailable": 1}})
    read = fields_read(with_policy, family, monkeypatch)
    if family.kind == "TFJob":
        old = {"tfReplicaType": "MASTER", "template": {"spec": {"containers": [{"name": "tensorflow"}]}}}
        job = {**a_job(family), "spec": {"replicaSpecs": [old]}}
        read |= {field for field in fields_read(job, family, monkeypatch) if "replicaSpecs" in field}
    else:
        # Described once, with TFJob.
        read = {field for field in read if not field.startswith("spec.runPolicy")}
    if family.kind == "PyTorchJob":
        elastic = a_job(family, elasticPolicy={"maxReplicas": 1})
        read |= {field for field in fields_read(elastic, family, monkeypatch) if "elasticPolicy" in field}

    documented = job_fields(family)

    assert {field for field, meaning in documented.items() if not meaning.startswith("rejected")} == read


@pytest.mark.parametrize(
    ("family", "field"),
    [
        pytest.param(family, field, id=field)
        for family in ALL
        for field, meaning in job_fields(family).items()
        if meaning.startswith("rejected")
    ],
)
def test_a_field_that_the_table_calls_rejected_is_rejected_by_name(family: JobFamily, field: str) -> None:
    job = a_job(family)
    parent = job
    for name in field.split(".")[:-1]:
        parent = parent.setdefault(name, {})
    parent[field.split(".")[-1]] = {"any": "thing"}

    with pytest.raises(InvalidObject) as rejected:
        convert_to_framework(job)

    assert [problem.field for problem in rejected.value.errors] == [field]


def test_every_field_of_frameworkcontroller_is_a_field_of_a_framework() -> None:
    schema = framework_schema()

    def resolved(found: Json) -> Json:
        while "$ref" in found or "items" in found:
            found = schema["$defs"][found["$ref"].rpartition("/")[2]] if "$ref" in found else found["items"]
        return found

    for field in fields("frameworkcontroller.md", "Fields"):
        found = schema
        for name in field.split("."):
            assert name in found["properties"], field
            found = resolved(found["properties"][name])


def test_every_flag_of_simpletfjob_is_in_the_table_and_no_other() -> None:
    (rows,) = tables("simpletfjob.md", "From simpletfjob")
    documented = {word for first, _ in rows for word in re.findall(r"`(-[\w-]+)`", first)}

    parser = _command("simpletfjob")
    accepted = {word for action in parser._actions for word in action.option_strings}
    assert documented == accepted - {"-h", "--help"}


def _command(name: str) -> argparse.ArgumentParser:
    (commands,) = [
        action for action in make_parser()._actions if isinstance(action, argparse._SubParsersAction)
    ]
    parser: argparse.ArgumentParser = commands.choices[name]
    return parser


def test_every_sample_is_linked_from_a_page_about_migration() -> None:
    samples = {path.name for path in SAMPLES.iterdir()} - {"README.md"}
    text = "".join(page.read_text() for page in MIGRATE.glob("*.md"))

    assert samples == set(re.findall(r"examples/migrate/([\w.-]+)\)", text))

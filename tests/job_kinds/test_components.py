"""The components of deploy/ are what the code says of its jobs."""

from launcher.job_kinds.job_kind import FOREIGN
from launcher.job_kinds.schema import OWN_LABEL, crd_of
from tests.job_kinds.make_components import component_files


def test_the_files_are_those_that_are_written_from_the_code() -> None:
    there = {path: path.read_text() for path in component_files() if path.exists()}

    assert there == component_files(), "run: python -m tests.job_kinds.make_components"


def test_a_definition_serves_every_version_stores_one_and_says_whose_it_is() -> None:
    for foreign in FOREIGN:
        definition = crd_of(foreign)
        versions = definition["spec"]["versions"]

        assert [version["name"] for version in versions if version["served"]] == [
            kind.version for kind in foreign.kinds
        ]
        assert [version["name"] for version in versions if version["storage"]] == [foreign.kind.version]
        assert definition["metadata"]["labels"].items() >= OWN_LABEL.items()

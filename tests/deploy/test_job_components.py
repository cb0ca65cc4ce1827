"""The components of deploy/ for job kinds are generated from the code."""

from deploy.generate.job_components import component_files
from deploy.generate.job_crd import job_crd
from launcher.job_kinds.job_kind import JOB_KINDS
from launcher.job_kinds.schema import OWN_LABEL


def test_the_component_files_equal_the_generated_ones() -> None:
    files = {path: path.read_text() for path in component_files() if path.exists()}

    assert files == component_files(), "run: make schema"


def test_a_crd_serves_all_versions_stores_one_and_has_the_launchers_label() -> None:
    for foreign in JOB_KINDS:
        definition = job_crd(foreign)
        versions = definition["spec"]["versions"]

        assert [version["name"] for version in versions if version["served"]] == [
            kind.version for kind in foreign.kinds
        ]
        assert [version["name"] for version in versions if version["storage"]] == [foreign.kind.version]
        assert definition["metadata"]["labels"].items() >= OWN_LABEL.items()

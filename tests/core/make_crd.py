"""Write ``deploy/kubernetes/base/crd.yaml`` from the schema. Run as ``python -m tests.core.make_crd``."""

from pathlib import Path

import yaml

from launcher.core.crd import framework_crd

CRD_FILE = Path(__file__).parents[2] / "deploy" / "kubernetes" / "base" / "crd.yaml"
_HEAD = "# Written from schemas/framework.schema.json by: python -m tests.core.make_crd\n"


def crd_text() -> str:
    """The file's content."""
    return _HEAD + yaml.dump(framework_crd(), Dumper=_Spelt, sort_keys=False, width=110, allow_unicode=True)


class _Spelt(yaml.SafeDumper):
    """Writes what occurs twice twice."""

    def ignore_aliases(self, data: object) -> bool:
        return True


if __name__ == "__main__":
    CRD_FILE.parent.mkdir(parents=True, exist_ok=True)
    CRD_FILE.write_text(crd_text())

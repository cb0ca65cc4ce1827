"""docs/troubleshooting.md explains every finding."""

import re
from pathlib import Path

from launcher.core.causes import CAUSES

PAGE = (Path(__file__).parents[2] / "docs" / "troubleshooting.md").read_text()


def test_every_finding_has_a_section_that_begins_with_its_title() -> None:
    sections = re.findall(r"^#### (FL-\S+)\n\n((?:.+\n)+)", PAGE, re.MULTILINE)

    assert [cause for cause, _ in sections] == list(CAUSES)
    for cause, text in sections:
        assert " ".join(text.split()).startswith(f"{CAUSES[cause].title}. ")

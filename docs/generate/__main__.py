"""Writes the generated pages of ``docs/``: ``python -m docs.generate``, or ``make docs``."""

from docs.generate.pages import DOCS, PAGES

for name, make_page in PAGES.items():
    (DOCS / name).write_text(make_page())

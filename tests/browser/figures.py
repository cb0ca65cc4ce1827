"""Measurements of the dashboard: one line each, which `make test-browser` prints at its end."""

from tests.launcher_process import PROJECT

_FILE = PROJECT / "build" / "browser-figures.txt"


def record_figure(name: str, value: float, unit: str) -> None:
    """Adds a line to the file of figures."""
    _FILE.parent.mkdir(exist_ok=True)
    with _FILE.open("a") as file:
        file.write(f"{name}: {value:,.1f} {unit}\n")

import subprocess
import sys
from pathlib import Path

import pytest

from launcher.cli.main import main

PROJECT = Path(__file__).parent.parent.parent
EXAMPLES = sorted((PROJECT / "examples").glob("*.yaml"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_has_a_story_that_ends(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["story", str(example)]) == 0

    told = capsys.readouterr()
    assert told.err == ""
    end = told.out[told.out.rindex("Completed\n") :]
    assert "Succeeded (0)" in end or "Failed" in end
    assert all(len(line) <= 80 for line in told.out.splitlines())


def test_the_story_tells_of_a_retry_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    main(["story", str(PROJECT / "examples" / "parameter-server.yaml")])

    told = capsys.readouterr().out
    assert "worker[1]" in told
    assert "ContainerSigKillReceived (137); tried again at once: retry 1 of 1" in told


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("kind: Framework", "apiVersion", id="a field is missing"),
        pytest.param("a: [", "line 2, column 1", id="it is no YAML"),
        pytest.param(
            "{apiVersion: launcher.microsoft.com/v1, kind: Framework, metadata: {name: UP}, spec: {taskRoles: []}}",
            "metadata.name",
            id="a rule is broken",
        ),
    ],
)
def test_a_mistake_in_the_file_is_told_and_ends_with_2(
    text: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "f.yaml").write_text(text)

    assert main(["story", str(tmp_path / "f.yaml")]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert complaint in told.err
    assert "Traceback" not in told.err


def test_a_file_that_is_not_there_is_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["story", "nowhere.yaml"]) == 2
    assert capsys.readouterr().err == "launcher: nowhere.yaml: No such file or directory\n"


def test_help_is_answered_without_importing_the_engine() -> None:
    asking = (
        "import sys; from launcher.cli.main import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
    )
    listing = "print(*sorted(sys.modules), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", asking + listing],
        capture_output=True,
        text=True,
        check=True,
        cwd=PROJECT,
        timeout=60,
    )

    assert "story" in done.stdout
    heavy = {
        "aiohttp",
        "asyncio",
        "jsonschema",
        "jsonschema_rs",
        "kubernetes_asyncio",
        "orjson",
        "sqlite3",
        "yaml",
    }
    assert heavy.isdisjoint(done.stderr.split())

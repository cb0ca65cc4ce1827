"""One-shot commands import only the modules that they use."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from launcher.cli.main import COMMANDS, main
from launcher.cli.names import KINDS
from launcher.core.names import API_VERSION, KIND
from launcher.job_kinds.job_kind import JOB_KINDS
from tests.builders import a_framework
from tests.cli.in_memory_launcher import InMemoryLauncher
from tests.cli.terminals import PROJECT
from tests.eventually import TIMEOUT_SECONDS

ASYNC = {"aiohttp", "asyncio", "jsonschema", "kubernetes_asyncio"}
SLOW = ASYNC | {"orjson", "yaml", "jsonschema_rs", "rich", "dataclasses", "inspect", "sqlite3", "textwrap"}


def imported(*arguments: str) -> set[str]:
    """The modules that the command has imported when it exits with 0."""
    code = (
        "import sys; from launcher.cli.main import main\n"
        f"assert main({list(arguments)!r}) == 0\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=PROJECT,
        timeout=TIMEOUT_SECONDS,
    )
    return set(done.stderr.split())


@pytest.mark.parametrize(
    ("arguments", "modules"),
    [
        (["list"], SLOW - {"textwrap"}),
        (["list", "-o", "json"], SLOW - {"textwrap"}),
        (["get", "mnist"], SLOW - {"textwrap"}),
        (["completion", "names"], SLOW),
        (["list", "-o", "yaml"], ASYNC),
        (["describe", "mnist"], ASYNC),
        (["events", "mnist"], ASYNC),
        (["version"], ASYNC),
        (["stop", "mnist"], ASYNC),
        (["scale", "mnist", "worker=3"], ASYNC),
        (["delete", "mnist"], ASYNC),
        (["submit", "--dry-run", "examples/hello.yaml"], ASYNC),
        (["arena", "list"], ASYNC),
        (["validate", "examples/hello.yaml"], ASYNC),
        (["render", "examples/hello.yaml"], ASYNC),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_one_shot_commands_do_not_import(
    arguments: list[str], modules: set[str], server: InMemoryLauncher
) -> None:
    server.create(a_framework())

    assert imported(*arguments).isdisjoint(modules)


def test_simpletfjob_with_given_machines_does_not_import_a_cluster_client(tmp_path: Path) -> None:
    template = tmp_path / "mnist.yaml"
    template.write_text("host: {{.host}}\n")

    assert imported("simpletfjob", "--nodes", "a,b", str(template)).isdisjoint(ASYNC)


def test_help_imports_no_command_module() -> None:
    code = "import sys; from launcher.cli.main import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}print(*sys.modules, file=sys.stderr)"],
        capture_output=True,
        text=True,
        check=True,
        cwd=PROJECT,
        timeout=TIMEOUT_SECONDS,
    )

    assert all(name in done.stdout for name, _, _ in COMMANDS)
    assert not [name for name in done.stderr.split() if name.startswith("launcher.cli.commands.")]
    assert (SLOW - {"textwrap"} | {"http.client"}).isdisjoint(done.stderr.split())


def test_local_mode_imports_neither_kubernetes_asyncio_nor_jsonschema(tmp_path: Path) -> None:
    serve = [sys.executable, "-X", "importtime", "-m", "launcher", "serve", "--listen", "127.0.0.1:0"]
    log = tmp_path / "imports"
    with (
        log.open("w") as stderr,
        subprocess.Popen(
            [*serve, "--data", str(tmp_path / "data")], stdout=subprocess.PIPE, stderr=stderr, text=True
        ) as server,
    ):
        assert server.stdout is not None
        found = re.search(r"listens on (\S+),", server.stdout.readline())
        assert found is not None
        # A valid Framework: jsonschema explains rejections only.
        code = main(["submit", "--dry-run", "--server", found[1], str(PROJECT / "examples" / "hello.yaml")])
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=TIMEOUT_SECONDS)
    modules = {line.rpartition("|")[2].strip() for line in log.read_text().splitlines()}

    assert code == 0
    assert {"aiohttp", "jsonschema_rs"} <= modules
    assert {"kubernetes_asyncio", "jsonschema", "launcher.wiring.kubernetes"}.isdisjoint(modules)


def test_names_contains_every_served_job_kind() -> None:
    group = API_VERSION.partition("/")[0]

    assert (
        (KIND, f"{KIND.lower()}s", group),
        *((job.kind.kind, job.plural, job.kind.group) for job in JOB_KINDS),
    ) == KINDS


def test_the_former_name_of_simulate_still_works_and_is_not_listed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = str(PROJECT / "examples" / "hello.yaml")

    assert main(["simulate", file]) == 0
    simulated = capsys.readouterr().out
    assert main(["story", file]) == 0

    assert capsys.readouterr().out == simulated
    assert "story" not in [name for name, _, _ in COMMANDS]


def test_an_unknown_command_is_reported_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        main(["lits"])

    assert exited.value.code == 2
    error = capsys.readouterr().err
    assert "invalid choice: 'lits'" in error
    assert "'list'" in error

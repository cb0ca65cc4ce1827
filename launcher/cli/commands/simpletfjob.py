"""``simpletfjob``: a template filled in for every machine of a cluster, as the tool of that name does it."""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.cli.arguments import SubParsers, add_command, add_output, add_server
from launcher.cli.cluster_nodes import add_cluster, nodes_of
from launcher.cli.errors import UsageError, print_error

if TYPE_CHECKING:
    from launcher.cli.client.api_client import ApiClient
    from launcher.converters.conversion import Conversion
    from launcher.converters.simpletfjob.template import Task

#: What -E reads in the current directory unless it is told otherwise.
_EXCLUDED = "exc"
_TF_PORT = 2222


def add(commands: SubParsers) -> None:
    """The parser of ``simpletfjob``."""
    command = add_command(
        commands,
        "simpletfjob",
        _simpletfjob,
        help="fill in a template for each machine, as simpletfjob does",
        more="The template may use {{.type}} (ps or worker), {{.index}}, {{.host}} and {{.TF_CONFIG}}. What it becomes "
        "for each machine is written beside it, mnist_tfjob.yaml for mnist.yaml, and run when --submit is given.",
        example="launcher simpletfjob mnist.yaml -N 3 -E",
    )
    command.add_argument("template", nargs="?", type=Path, metavar="FILE", help="the template")
    command.add_argument(
        "-N",
        "--num",
        type=int,
        default=-1,
        metavar="NUMBER",
        help="how many machines to use (default -1: all)",
    )
    command.add_argument(
        "--psn",
        type=int,
        default=1,
        metavar="NUMBER",
        help="how many of them are parameter servers (default 1)",
    )
    command.add_argument(
        "-E",
        "--exc",
        nargs="?",
        const=_EXCLUDED,
        metavar="FILE",
        help=f"leave out the machines that this file names, one on each line (default {_EXCLUDED})",
    )
    command.add_argument("--psf", metavar="HOSTS", help="was never there; use --nodes and --psn")
    command.add_argument(
        "--port",
        type=_port,
        default=_TF_PORT,
        metavar="PORT",
        help=f"the port in TF_CONFIG (default {_TF_PORT})",
    )
    add_cluster(command)
    command.add_argument(
        "--all-nodes",
        action="store_true",
        help="also those not ready, cordoned or kept for the control plane",
    )
    command.add_argument(
        "--submit", action="store_true", help="give what was made to the server, as one Framework"
    )
    command.add_argument(
        "--wait", action="store_true", help="until what was submitted has ended; exit 1 unless it succeeded"
    )
    command.add_argument(
        "--dry-run", action="store_true", help="have it checked by the server, and store nothing"
    )
    add_output(command, "name", "json", "yaml")
    add_server(command)


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: 1 to 65535")
    return int(text)


def _simpletfjob(given: argparse.Namespace) -> int:
    from launcher.converters.simpletfjob.template import joined, output_path, rendered

    _check(given)
    text = _read(given.template)
    tasks = _tasks(given)
    with _refusing(f"{given.template}: "):
        documents = rendered(text, tasks, given.port)
    output = Path(output_path(given.template))
    _write(output, joined(documents))
    if not given.submit:
        print(output)
        return 0
    print_error(f"{output}: written")
    return _submit(given, output, _mapped(output, documents, tasks))


def _check(given: argparse.Namespace) -> None:
    """Put right who is who, and raise UsageError for what does not go together."""
    if given.template is None:
        # -E takes no file in the original, so the word behind it may be the template.
        if given.exc in (None, _EXCLUDED):
            raise UsageError("FILE: name the template, as in: launcher simpletfjob mnist.yaml -N 3")
        given.template, given.exc = Path(given.exc), _EXCLUDED
    if given.psf is not None:
        raise UsageError(
            "--psf: simpletfjob never had it; name the machines with --nodes, parameter servers first, and how many "
            "those are with --psn"
        )
    for option in ("wait", "dry_run", "output"):
        if getattr(given, option) and not given.submit:
            raise UsageError(f"--{option.replace('_', '-')}: only together with --submit")


def _tasks(given: argparse.Namespace) -> "tuple[Task, ...]":
    from launcher.converters.simpletfjob.template import chosen, hosts_in, tasks_on

    excluded = () if given.exc is None else hosts_in(_read(Path(given.exc), "-E: "))
    hosts = _hosts(given, excluded)
    with _refusing():
        return tasks_on(chosen(hosts, excluded, given.num), given.psn)


def _hosts(given: argparse.Namespace, excluded: Sequence[str]) -> list[str]:
    """The machines to choose from, in order, after a word about those that are none."""
    from launcher.converters.simpletfjob.template import why_not

    if given.nodes is not None:
        known = [host.strip() for host in given.nodes.split(",") if host.strip()]
        if len(set(known)) < len(known):
            raise UsageError("--nodes: a machine is named twice; each has one task")
        unfit: dict[str, str] = {}
    else:
        nodes = {str(node["metadata"]["name"]): node for node in nodes_of(given)}
        known = list(nodes)
        unfit = {} if given.all_nodes else {name: why for name in known if (why := why_not(nodes[name]))}
    print_error(*(f"{given.exc}: there is no machine {host}" for host in excluded if host not in known))
    for host, why in unfit.items():
        if host not in excluded:
            print_error(f"{host} is left out: {why} (--all-nodes takes it all the same)")
    return [host for host in known if host not in unfit]


def _mapped(output: Path, documents: Sequence[str], tasks: "Sequence[Task]") -> "tuple[Conversion, ...]":
    """The Frameworks to submit, checked, after their notes have been told. Raises UsageError."""
    from launcher.converters.simpletfjob.per_task_objects import documents_in, frameworks_of
    from launcher.core.manifest import validate_framework

    with _refusing(f"{output}: "):
        objects = [
            found for text, task in zip(documents, tasks, strict=True) for found in documents_in(text, task)
        ]
        frameworks = frameworks_of(objects)
        for each in frameworks:
            validate_framework(each.framework)
    print_error(*(f"{output}: note: {note}" for each in frameworks for note in each.notes))
    return frameworks


def _submit(given: argparse.Namespace, output: Path, frameworks: "Sequence[Conversion]") -> int:
    import orjson

    from launcher.cli.client.api_client import run_with_client
    from launcher.cli.manifest_file import ManifestFile
    from launcher.cli.submission import Submission
    from launcher.core.parsing.decoder import Media

    async def work(api: "ApiClient") -> int:
        submission = Submission(api, given.namespace, dry_run=given.dry_run, output=given.output)
        texts = [ManifestFile(str(output), orjson.dumps(each.framework), Media.JSON) for each in frameworks]
        stored = [await submission.sent(text) for text in texts]
        if given.dry_run or not given.wait:
            return 0
        return max([await submission.ended(framework) for framework in stored])

    return run_with_client(given, work)


@contextmanager
def _refusing(prefix: str = "") -> Iterator[None]:
    """Inside, what is wrong with the user's words; outside, UsageError with a line for each."""
    from launcher.core.errors import BadRequest, InvalidObject

    try:
        yield
    except InvalidObject as error:
        raise UsageError(*(f"{prefix}{problem}" for problem in error.errors)) from error
    except BadRequest as error:
        raise UsageError(f"{prefix}{error}") from error


def _read(path: Path, prefix: str = "") -> str:
    try:
        return path.read_bytes().decode()
    except OSError as error:
        raise UsageError(f"{prefix}{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{prefix}{path}: it is no text in UTF-8") from error


def _write(path: Path, text: str) -> None:
    try:
        path.write_bytes(text.encode())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error

"""``explain-retry``: what follows when a task fails in a given way, before anything is submitted."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from launcher.cli.arguments import FILE_HELP
from launcher.cli.command import Command
from launcher.cli.errors import UsageError
from launcher.cli.manifest_file import documents_in, framework_in
from launcher.cli.output.terminal import wrapped
from launcher.core.manifest import framework_of
from launcher.core.planning.retry import GiveUp, Retry
from launcher.core.planning.retry_explanation import CONTAINER_REASONS, RetryExplanation, explain_retry
from launcher.core.spec import FrameworkSpec, RetryPolicy, TaskRole

_MAX_EXIT_CODE = 255
_INDENT = "  "


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help=FILE_HELP)
    parser.add_argument("--role", metavar="ROLE", help="the role of the task (default: the only role)")
    parser.add_argument("--exit-code", type=_exit_code, metavar="CODE", help="the exit code of its container")
    parser.add_argument(
        "--reason",
        type=_reason,
        metavar="REASON",
        help=f"the reason of the container ({', '.join(CONTAINER_REASONS)}) or of the pod (Evicted, NodeLost, …)",
    )


def _explain_retry(args: argparse.Namespace) -> int:
    if args.exit_code is None and not args.reason:
        raise UsageError("--exit-code or --reason: write how the task fails, such as --exit-code 137")
    documents = documents_in(args.file)
    if len(documents) > 1:
        raise UsageError(f"{args.file}: has {len(documents)} documents; write one Framework or job")
    framework = framework_of(framework_in(documents[0]).object)
    role = _role(framework.spec, args.role)
    explanation = explain_retry(framework.spec, role, args.exit_code, args.reason or "")
    for line in _lines(framework.spec, role, explanation):
        print(line)
    return 0


def _role(spec: FrameworkSpec, name: str | None) -> TaskRole:
    names = ", ".join(role.name for role in spec.roles)
    if name is None and len(spec.roles) > 1:
        raise UsageError(f"--role: the Framework has several roles; write one of {names}")
    for role in spec.roles:
        if name in (None, role.name):
            return role
    raise UsageError(f"--role: no role {name!r}; roles: {names}")


def _lines(spec: FrameworkSpec, role: TaskRole, explanation: RetryExplanation) -> Iterator[str]:
    completion = explanation.completion
    kinds = ", ".join(sorted(completion.attributes)) or "unknown"
    yield f"Task {role.name}-0: {explanation.cause}"
    yield from wrapped(f"Rule: {completion.rule or 'none matches'}", _INDENT)
    yield from wrapped(f"Completion: {completion.summary}, type of failure: {kinds}", _INDENT)
    yield ""
    yield f"Retries of the task ({_policy(role.retry)}):"
    yield from _decision_lines(explanation.task_decisions)
    if explanation.completes_attempt:
        yield ""
        yield from wrapped(explanation.completes_attempt, "")
    if explanation.framework_decisions:
        yield f"Retries of the Framework ({_policy(spec.retry)}):"
        yield from _decision_lines(explanation.framework_decisions)


def _decision_lines(decisions: Sequence[Retry | GiveUp]) -> Iterator[str]:
    for decision in decisions:
        if isinstance(decision, GiveUp):
            yield from wrapped(f"Not retried: {decision.reason}.", _INDENT, _INDENT * 2)
        else:
            when = f"after {decision.delay}s" if decision.delay else "at once"
            yield from wrapped(f"Retried {when}: {decision.reason}.", _INDENT, _INDENT * 2)
    if not isinstance(decisions[-1], GiveUp):
        yield f"{_INDENT}… and so on, without a limit."


def _policy(policy: RetryPolicy) -> str:
    return f"maxRetryCount {policy.max_retries}" + (", fancyRetryPolicy" if policy.fancy else "")


def _exit_code(text: str) -> int:
    code = int(text) if text.isascii() and text.isdecimal() else -1
    if not 1 <= code <= _MAX_EXIT_CODE:
        raise argparse.ArgumentTypeError(f"{text!r} is not the exit code of a failure, 1 to {_MAX_EXIT_CODE}")
    return code


def _reason(text: str) -> str:
    if not text.isalnum():
        raise argparse.ArgumentTypeError(f"{text!r} is not a reason; for example OOMKilled or Evicted")
    return text


COMMANDS = {
    "explain-retry": Command(
        _explain_retry,
        _add_arguments,
        example="launcher explain-retry examples/hello.yaml --exit-code 137",
        details="Uses the rules of the role and the built-in rules; rules that the config of a launcher adds are not "
        "known here. Each attempt is assumed to fail at once and in the same way.",
    )
}

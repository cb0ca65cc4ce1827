"""``docs/migrate/arena-flags.md``: every flag of ``arena submit tfjob``, and what of Arena is not available."""

from collections.abc import Iterator

from docs.generate.markdown import code, page, table
from launcher.cli.arena import unsupported
from launcher.converters.arena.flags import FLAGS, Flag

_INTRODUCTION = "[From Arena](arena.md) explains how to use `launcher arena`."


def arena_flags_page() -> str:
    """The reference of Arena's flags."""
    return page(
        "Arena flag reference",
        "launcher/converters/arena/flags.py and launcher/cli/arena/unsupported.py",
        _INTRODUCTION,
        "## Flags of `arena submit tfjob`",
        table(("flag", "in the Framework"), ((_spelling(flag), _result(flag)) for flag in FLAGS.values())),
        "## Not available",
        table(("command or flag", "reason"), _unavailable()),
    )


def _spelling(flag: Flag) -> str:
    short = [f"-{flag.short}"] if flag.short else []
    return ", ".join(code(name) for name in [f"--{flag.name}", *short, *(f"--{old}" for old in flag.old)])


def _result(flag: Flag) -> str:
    return f"rejected: {flag.refused}" if flag.refused else flag.becomes


def _unavailable() -> Iterator[tuple[str, str]]:
    for command, reason in unsupported.COMMANDS.items():
        yield code(f"arena {command}"), reason
    for reason in dict.fromkeys(unsupported.KINDS.values()):
        kinds = (code(kind) for kind, each in unsupported.KINDS.items() if each == reason)
        yield f"`arena submit` {', '.join(kinds)}", reason
    for flag, reason in {**unsupported.FLAGS, **unsupported.IGNORED}.items():
        yield code(f"--{flag}"), reason

"""What the launcher logs, for a terminal or the journal: one line per record, with all that varies behind it."""

import logging

#: What every record has; whatever else it has was given as ``extra``.
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def log_to_stderr(level: int) -> None:
    """From now on."""
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter())
    logging.basicConfig(level=level, handlers=[handler])


class LineFormatter(logging.Formatter):
    """``2026-01-31 12:00:00 WARNING controller.loop: framework could not be worked on framework=… why=…``."""

    def __init__(self) -> None:
        super().__init__("{asctime} {levelname} {name}: {message}", "%Y-%m-%d %H:%M:%S", style="{")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - its name in the library
        varying = {key: value for key, value in vars(record).items() if key not in _OWN}
        line = super().formatMessage(record).replace("\n", "\\n")
        return " ".join([line, *(f"{key}={value!r}" for key, value in varying.items())])

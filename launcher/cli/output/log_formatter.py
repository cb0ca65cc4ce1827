"""The format of the launcher's log: one line per record, with its ``extra`` fields at the end."""

import logging

#: The attributes of every record; all others are ``extra`` fields.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def log_to_stderr(level: int) -> None:
    """Log to stderr from now on."""
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter())
    logging.basicConfig(level=level, handlers=[handler])


class LineFormatter(logging.Formatter):
    """``2026-01-31 12:00:00 WARNING controller.framework_controller: reconcile failed framework=… error=…``."""

    def __init__(self) -> None:
        super().__init__("{asctime} {levelname} {name}: {message}", "%Y-%m-%d %H:%M:%S", style="{")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - its name in the library
        extra = {key: value for key, value in vars(record).items() if key not in _STANDARD}
        line = super().formatMessage(record).replace("\n", "\\n")
        return " ".join([line, *(f"{key}={value!r}" for key, value in extra.items())])

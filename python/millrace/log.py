"""The log of the library, as that of the logger `millrace`."""

import logging

logger = logging.getLogger("millrace")
_LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)


def log_line(level: int, line: str) -> None:
    """For the extension."""
    logger.log(_LEVELS[level], "%s", line)

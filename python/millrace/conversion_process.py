"""The process of `millrace convert dataset`, to which samples are sent."""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import signal
import struct
import subprocess
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from ._program import PROGRAM
from .log import logger

STREAM = "-"
_MAGIC = b"millrace samples 1\n"
_END = struct.pack("<I", 0)
_PIPE_BYTES = 1 << 20
_USAGE_STATUS = 2
_LEVELS = {"warning: ": logging.WARNING, "error: ": logging.ERROR}


class Process:
    """Not thread-safe. Call stop in the end."""

    def __init__(self, source: str, target: str, options: Sequence[str]) -> None:
        self._errors: list[str] = []
        # A process group of its own: Ctrl-C in a terminal is for the sender, which then stops it.
        self._process = subprocess.Popen(
            [PROGRAM, "convert", "dataset", "--json", *options, "--", source, target],
            stdin=subprocess.PIPE if source == STREAM else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=0,
        )
        self._log = threading.Thread(target=self._read_log, daemon=True)
        self._log.start()

    def _read_log(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            text = line.decode(errors="replace").rstrip("\n")
            prefix = next((prefix for prefix in _LEVELS if text.startswith(prefix)), "")
            if text.startswith("millrace: ") or self._errors:
                self._errors.append(text.removeprefix("millrace: "))
            else:
                level = _LEVELS.get(prefix, logging.INFO)
                logger.log(level, "%s", text.removeprefix(prefix))

    def start(self, header: dict[str, Any]) -> int | None:
        """Sends the header. Returns how many samples are stored already; None: all."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(OSError):
            fcntl.fcntl(self._process.stdin, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        text = json.dumps(header).encode()
        self.send(_MAGIC + struct.pack("<I", len(text)) + text)
        self._process.stdin.flush()
        words = self._process.stdout.readline().split()
        if words[:1] == [b"begin"]:
            return int(words[1])
        if words != [b"complete"]:
            self._fail()
        return None

    def send(self, records: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(records)
        except BrokenPipeError:
            self._fail()

    def finish(self, ends_samples: bool) -> dict[str, Any]:
        """Returns the result, after the last sample."""
        assert self._process.stdout is not None
        if ends_samples:
            self.send(_END)
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        output = self._process.stdout.read()
        if self._process.wait() != 0:
            self._fail()
        result: dict[str, Any] = json.loads(output)
        return result

    def _fail(self) -> None:
        status = self._process.wait()
        self._log.join()
        text = "\n".join(self._errors)
        if status < 0:
            text = f"millrace convert dataset was ended by {signal.Signals(-status).name}" + (
                f": {text}" if text else ""
            )
        text = text or f"millrace convert dataset ended with status {status}"
        raise ValueError(text) if status == _USAGE_STATUS else RuntimeError(text)

    def stop(self, is_urgent: bool) -> None:
        """Ends the process. It keeps what is complete; if not urgent, of all that was sent."""
        if is_urgent and self._process.poll() is None:
            self._process.terminate()
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        try:
            self._process.wait()
        except BaseException:
            self._process.kill()
            raise
        finally:
            self._log.join()
            for pipe in (self._process.stdout, self._process.stderr):
                if pipe is not None:
                    pipe.close()


@contextlib.contextmanager
def running(source: str, target: str, options: Sequence[str]) -> Iterator[Process]:
    """source: a path, or STREAM for samples that are sent."""
    process = Process(source, target, options)
    is_urgent = True
    try:
        yield process
        is_urgent = False
    except Exception:
        is_urgent = source != STREAM
        raise
    finally:
        process.stop(is_urgent)

"""The program `millrace`, which the package contains."""

import errno
import json
import os
import pathlib
import subprocess
import sys
from typing import Any

PROGRAM = pathlib.Path(__file__).parent / "bin" / "millrace"


def main() -> None:
    os.execv(PROGRAM, ["millrace", *sys.argv[1:]])


def run_json(verb: str, path: str, *options: str) -> tuple[dict[str, Any], str]:
    """What a verb prints with --json, and its error's text, or "". It raises OSError with that text
    if there is nothing but the error."""
    words = [os.fspath(PROGRAM), verb, "--json", *options, "--", path]
    result = subprocess.run(words, capture_output=True, text=True, errors="surrogateescape")
    error = result.stderr.strip().removeprefix("millrace: ").removeprefix("error: ")
    if result.returncode and not result.stdout:
        raise OSError(errno.EIO, error or f"millrace {verb} ended with {result.returncode}")
    return json.loads(result.stdout), error if result.returncode else ""

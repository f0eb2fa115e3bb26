"""The program `millrace`, which the package contains."""

import os
import pathlib
import sys


def main() -> None:
    program = pathlib.Path(__file__).parent / "bin" / "millrace"
    os.execv(program, ["millrace", *sys.argv[1:]])

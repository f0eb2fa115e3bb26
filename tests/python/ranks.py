"""Programs on several ranks, as torchrun would start them, but so that they can be killed."""

import os
import pathlib
import socket
import subprocess
import sys


def start(command: list[object], ranks: int, folder: pathlib.Path | None = None):
    """Starts a program of Python. Returns its processes, whose output is text."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(ranks),
        "OMP_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
        "ACCELERATE_USE_CPU": "1",
    }
    return [
        subprocess.Popen(
            [sys.executable, *map(str, command)],
            cwd=folder,
            stdout=subprocess.PIPE,
            text=True,
            env=environment | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(ranks)
    ]


def finish(programs: list[subprocess.Popen]) -> list[list[str]]:
    """Waits. Returns the lines of each rank."""
    outputs = [program.communicate(timeout=600)[0] for program in programs]
    assert [program.returncode for program in programs] == [0] * len(programs)
    return [output.splitlines() for output in outputs]

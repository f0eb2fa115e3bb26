"""Fixtures: datasets made by the program, which MILLRACE names, from photos that RENDER_SHAPES
renders."""

import json
import os
import pathlib
import subprocess

import pytest

MILLRACE = os.environ["MILLRACE"]


def pytest_runtest_logreport(report):
    """Prints results as cmocka does, for scripts/test."""
    if report.when == "call" or report.outcome != "passed":
        name = report.nodeid.rpartition("::")[2]
        print(f"\n[ RUN      ] {name}")
        if report.passed:
            print(f"[       OK ] {name}")
        elif report.failed:
            print(f"[  FAILED  ] {name}")
        else:
            print(f"SKIPPED: {report.longrepr[2].removeprefix('Skipped: ')}")


def pytest_collectreport(report):
    if report.skipped:
        print(f"SKIPPED: {report.longrepr[2].removeprefix('Skipped: ')}")


def pytest_report_teststatus(report):
    counts = report.when == "call" or report.outcome != "passed"
    return (report.outcome if counts else ""), "", ""


def run(*words: object) -> str:
    return subprocess.run(
        [MILLRACE, *map(str, words)], check=True, capture_output=True, text=True
    ).stdout


@pytest.fixture(scope="session")
def millrace():
    return run


@pytest.fixture(scope="session")
def photos(tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("photos")
    subprocess.run(
        [os.environ["RENDER_SHAPES"], "--count", "11", "--side", "48", folder / "photos"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    run("convert", "dataset", folder / "photos", folder / "shards", "--quiet")
    return folder / "shards"


@pytest.fixture(scope="session")
def texts(tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("texts")
    with open(folder / "list.jsonl", "w", encoding="utf-8") as lines:
        for i in range(41):
            row = {"text": "caf\u00e9 " * (i % 5), "score": i / 8, "tags": list(range(i % 4))}
            lines.write(json.dumps(row) + "\n")
    run("convert", "dataset", folder / "list.jsonl", folder / "shards", "--quiet")
    return folder / "shards"

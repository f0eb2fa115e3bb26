"""turns — for the programs in bench/: runs peers in turns, measures commands, and summarizes rounds."""
import atexit
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import tempfile
import threading
import time


class Failed(Exception):
    pass


def need(parser, path, hint):
    """Exits with a usage error if a program or file is missing."""
    if not shutil.which(str(path)) and not os.path.isdir(path):
        parser.error(f"there is no {path}: {hint}")


BUILDING = "cmake --preset release && cmake --build --preset release"


def process_tree(pid):
    """Returns the fields of /proc/PID/stat after the name, of a process and all its descendants."""
    stats = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            stats[int(entry)] = pathlib.Path("/proc", entry, "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:  # it ended
            pass
    tree, more = {}, {pid} & stats.keys()
    while more:
        tree |= {member: stats[member] for member in more}
        more = {member for member, fields in stats.items() if int(fields[1]) in more}
    return tree


def tree_memory(pid):
    """Returns the memory of a process and all its descendants in bytes: all, and what no file backs.
    Shared pages count once."""
    totals = [0, 0]
    for member in process_tree(pid):
        try:
            lines = pathlib.Path(f"/proc/{member}/smaps_rollup").read_text().splitlines()[1:]
        except OSError:  # it ended
            continue
        sizes = {name: int(size.split()[0]) * 1024 for name, size in (line.split(":") for line in lines)}
        totals = [totals[0] + sizes["Pss"], totals[1] + sizes["Pss"] - sizes["Pss_File"]]
    return tuple(totals)


class MemoryPeak:
    """Within `with`, samples tree_memory ten times per second. Afterwards, `all` and `unbacked` are the
    largest samples."""

    def __init__(self, pid):
        self.pid, self.ended, self.all, self.unbacked = pid, threading.Event(), 0, 0
        self.thread = threading.Thread(target=self.sample)

    def sample(self):
        while True:
            now = tree_memory(self.pid)
            self.all, self.unbacked = max(self.all, now[0]), max(self.unbacked, now[1])
            if self.ended.wait(0.1):
                return

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()


class Peer:
    """A process of a peers.py. Between its turns, it and its children are stopped, so that they never
    run during another peer's turn."""

    def __init__(self, name, words):
        self.name, self.errors, self.began = name, tempfile.TemporaryFile(), time.monotonic()
        try:
            self.process = subprocess.Popen([str(word) for word in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, start_new_session=True, text=True)
        except OSError as failure:
            raise Failed(f"{name}: {failure}") from failure
        atexit.register(self.end)

    def begin(self):
        """Waits until the peer reports that it is ready."""
        self.report = self.answer()
        return self

    def answer(self):
        """Returns the next line of JSON. Some peers also print other lines."""
        for line in self.process.stdout:
            if line.startswith("{"):
                while pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "TZ":
                    time.sleep(0.001)
                return json.loads(line)
        self.process.wait()
        self.errors.seek(0)
        raise Failed(f"{self.name}: {self.errors.read().decode(errors='replace').strip().splitlines()[-1:]}")

    def turn(self, warming, measured):
        try:
            os.killpg(self.process.pid, signal.SIGCONT)
            self.process.stdin.write(f"{warming} {measured}\n")
            self.process.stdin.flush()
        except OSError as failure:  # the process no longer exists
            raise Failed(f"{self.name}: {failure}") from failure
        return self.answer()

    def end(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def resident_bytes(pid):
    """Returns the current and the peak resident memory."""
    lines = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
    return tuple(int(lines.get(name, "0 kB").split()[0]) * 1024 for name in ("VmRSS", "VmHWM"))


def command(words, resident=None):
    """Runs a command. Returns its output, its seconds, and the CPU seconds of it and its children.
    Appends its resident_bytes to the list `resident` fifty times per second."""
    words = [str(word) for word in words]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        began = time.monotonic()
        process = subprocess.Popen(words, stdout=out, stderr=errors)
        while resident is not None and not os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            resident.append(resident_bytes(process.pid))
            time.sleep(0.02)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        errors.seek(0)
        if process.returncode:
            raise Failed(f"{' '.join(words[:2])}: {errors.read().decode(errors='replace').strip().splitlines()[-1:]}")
        return out.read().decode(), seconds, usage.ru_utime + usage.ru_stime


def drop_cache(paths):
    os.sync()
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def file_system(path):
    """Returns the type of the file system at path, such as "ext4"."""
    best = ("", "?")
    for line in open("/proc/self/mountinfo"):
        before, after = line.split(" - ")
        mount = before.split()[4]
        if path.resolve().is_relative_to(mount) and len(mount) >= len(best[0]):  # a later mount hides earlier ones at the same place
            best = (mount, after.split()[0])
    return best[1]


# ---- Several rounds. A row holds the figures of one turn: a dict. ----

def values_of(rows, key):
    return [row[key] for row in rows if row and row.get(key)]


def spread(rows, key, form):
    """Formats the median, minimum and maximum."""
    values = values_of(rows, key)
    if not values:
        return "–"
    middle = format(statistics.median(values), form)
    return middle if len(values) == 1 else f"{middle} ({format(min(values), form)}–{format(max(values), form)})"


def ratio(ours, theirs, key):
    """Compares turns of the same round, so that a slowdown of the machine affects both."""
    pairs = [a[key] / b[key] for a, b in zip(ours, theirs) if a and b and a.get(key) and b.get(key)]
    if not pairs:
        return "–"
    return f"{statistics.median(pairs):.2f} x" + (f" ({min(pairs):.2f}–{max(pairs):.2f})" if len(pairs) > 1 else "")

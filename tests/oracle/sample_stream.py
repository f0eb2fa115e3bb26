"""Sends samples to `millrace convert dataset - DST`, from docs/reference/sample-stream.md.

    import sample_stream
    result = sample_stream.convert("out", [("a/1", {"txt": b"one"}), ...], "--resume")
    result.reply, result.status, result.output, result.errors

A sender that is a process of its own calls send(sys.stdout.buffer, sys.stdin.buffer, samples).
"""
import collections
import json
import os
import struct
import subprocess
import tempfile

MILLRACE = os.environ.get("MILLRACE", "millrace")
MAGIC = b"millrace samples 1\n"
END = struct.pack("<I", 0)
Result = collections.namedtuple("Result", "reply status output errors")


def block(data):
    return struct.pack("<I", len(data)) + data


def header(identity="1", classes=()):
    return MAGIC + block(json.dumps({"identity": identity, "classes": list(classes)}).encode())


def record(key, fields):
    """fields: a dictionary, or a list of pairs."""
    key = key if isinstance(key, bytes) else key.encode()
    fields = list(fields.items() if isinstance(fields, dict) else fields)
    body = struct.pack("<II", len(fields), len(key)) + key
    for extension, data in fields:
        extension = extension.encode()
        body += struct.pack("<II", len(extension), len(data)) + extension + data
    return block(body)


def send(to, reply, samples, head=None, write=None, end=END):
    """Sends the samples that are not stored yet: pairs for record, or bytes to send as they are.
    write(to, data) sends data in its own way. Returns the words of the reply."""
    write = write or (lambda file, data: file.write(data))
    write(to, head or header())
    to.flush()
    words = reply.readline().decode().split()
    if words[:1] == ["begin"]:
        for sample in samples[int(words[1]):]:
            write(to, sample if isinstance(sample, bytes) else record(*sample))
        write(to, end)
    to.flush()
    return words


def convert(target, samples, *options, head=None, write=None, end=END):
    words = []
    command = [MILLRACE, "convert", "dataset", "-", target, "--quiet", *options]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=errors)
        try:
            words = send(process.stdin, process.stdout, samples, head, write, end)
            process.stdin.close()
        except BrokenPipeError:
            pass
        output = process.stdout.read().decode()
        status = process.wait()
        errors.seek(0)
        return Result(words, status, output, errors.read().decode())

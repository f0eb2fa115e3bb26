#!/usr/bin/env python3
"""web_server FOLDER [FAULT]: serves the folder's files over HTTP on a free port of 127.0.0.1, which it
prints, until it is killed. It sends ranges, ETags and keep-alive as nginx does.

Of the requests for a range of more than one byte, every second one meets the fault; its repetition
does not:
    cut        the connection ends after 64 KiB of the body, or half of it
    reset      the connection is reset before an answer
    busy       status 503, and `Retry-After: 0`
    throttled  status 429, without an advice when to retry
    garbage    bytes that are no HTTP
    shifted    another range than the requested one
    longer     more bytes than the range has, as its Content-Length says
    stalled    the body stops without an end of the connection (only the first request)
Of all requests:
    whole      ranges are ignored: status 200 and the whole file
    plain      no ETag, no date
The file `faults` in the folder counts what was injected.
"""
import email.utils
import hashlib
import http.server
import itertools
import os
import pathlib
import re
import socket
import struct
import sys
import threading
import urllib.parse

folder, fault = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2] if len(sys.argv) > 2 else ""
turns, injected, lock = itertools.count(), itertools.count(1), threading.Lock()
CUT_BYTES = 64 << 10


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, headers=(), body=b"", sent=None):
        self.send_response(status)
        for name, value in {"Content-Length": len(body), **dict(headers)}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body if sent is None else body[:sent])
        self.close_connection = self.close_connection or sent is not None

    def count(self):
        with lock:
            (folder / "faults").write_text(str(next(injected)))

    def meets_fault(self, begin, end):
        if end - begin <= 1 or fault in ("", "whole", "plain"):
            return False
        turn = next(turns)
        if turn != 0 if fault == "stalled" else turn % 2:
            return False
        self.count()
        return True

    def do_GET(self):
        path = (folder / urllib.parse.unquote(self.path.split("?")[0]).lstrip("/")).resolve()
        if not path.is_file() or folder not in path.parents:
            return self.answer(404, body=b"<html>no such file</html>")
        data, status = path.read_bytes(), os.stat(path)
        tag = f'"{hashlib.sha256(data).hexdigest()[:16]}"'
        headers = {"ETag": tag, "Last-Modified": email.utils.formatdate(status.st_mtime, usegmt=True)}
        if fault == "plain":
            headers = {}
        elif self.headers.get("If-Match", tag) != tag:
            return self.answer(412)
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if not match or fault == "whole":
            return self.answer(200, headers, data)
        begin, end = int(match[1]), min(int(match[2]) + 1, len(data))
        if begin >= len(data):
            return self.answer(416, {"Content-Range": f"bytes */{len(data)}"})
        is_faulty, sent = self.meets_fault(begin, end), None
        if is_faulty and fault == "busy":
            return self.answer(503, {"Retry-After": "0"}, b"later")
        if is_faulty and fault == "throttled":
            return self.answer(429)
        if is_faulty and fault in ("reset", "garbage"):
            if fault == "garbage":
                self.wfile.write(b"\x00\xffgarbage\r\n\r\n" * 100)
            else:
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            return None
        if is_faulty and fault in ("cut", "stalled"):
            sent = min(CUT_BYTES, (end - begin) // 2)
        if is_faulty and fault == "shifted":
            begin, end = begin + 1, end + 1
        if is_faulty and fault == "longer":
            end = end + 1
        headers["Content-Range"] = f"bytes {begin}-{end - 1}/{len(data)}"
        body = data[begin:end].ljust(end - begin, b"\0")
        self.answer(206, headers, body, sent)
        if is_faulty and fault == "stalled":
            self.wfile.flush()
            threading.Event().wait()


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(server.server_address[1], flush=True)
server.serve_forever()

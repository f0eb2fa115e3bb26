"""chrome_trace — checks that a viewer can show a trace of `millrace train --profile`, and prints
its content.

    chrome_trace.py TRACE.json     prints a line per process: its number, threads, steps, and the trainer's
                                   spans within them

Fails if spans of a thread overlap without nesting, a begin has no end, or a name is missing.
"""
import json
import sys
from collections import defaultdict
from decimal import Decimal

document = json.load(open(sys.argv[1]), parse_float=Decimal)
events = document["traceEvents"]
names, spans, async_spans = {}, defaultdict(list), {}
for event in events:
    thread = event["pid"], event.get("tid", 0)
    if event["ph"] == "M":
        if "name" in event["args"]:
            assert (event["name"], thread) not in names, event
            names[event["name"], thread] = event["args"]["name"]
    elif event["ph"] == "X":
        assert event["dur"] >= 0, event
        spans[thread].append((event["ts"], event["ts"] + event["dur"], event["name"]))
    elif event["ph"] == "b":
        assert (event["pid"], event["id"]) not in async_spans, event
        async_spans[event["pid"], event["id"]] = event
    else:
        assert event["ph"] == "e", event
        begun = async_spans.pop((event["pid"], event["id"]))
        assert begun["ts"] <= event["ts"] and begun["name"] == event["name"] and begun["tid"] == event["tid"], event
assert not async_spans, async_spans
for thread in spans:
    assert ("thread_name", thread) in names and ("process_name", (thread[0], 0)) in names, thread

for process in sorted({pid for pid, _ in spans}):
    threads = sorted(name for (kind, (pid, _)), name in names.items() if kind == "thread_name" and pid == process)
    steps, step_contents = 0, set()
    for (pid, tid), thread_spans in spans.items():
        if pid != process:
            continue
        open_spans, children = [], []
        for begin, end, name in sorted(thread_spans, key=lambda span: (span[0], -span[1])):
            while open_spans and open_spans[-1][1] <= begin and not (begin == end == open_spans[-1][1]):
                open_spans.pop()
            assert not open_spans or end <= open_spans[-1][1], (names["thread_name", (pid, tid)], open_spans[-1], (begin, end, name))
            if [a[2] for a in open_spans] == ["step"]:
                children.append(name)
            if name == "step":
                if steps:
                    step_contents.add(" ".join(children))
                steps, children = steps + 1, []
            open_spans.append((begin, end, name))
        if steps and children:
            step_contents.add(" ".join(children))
    print(f"{process}: {', '.join(threads)}: {steps} steps of {' | '.join(sorted(step_contents))}")

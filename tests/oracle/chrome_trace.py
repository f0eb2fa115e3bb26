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
names, spans, flights = {}, defaultdict(list), {}
for event in events:
    place = event["pid"], event.get("tid", 0)
    if event["ph"] == "M":
        if "name" in event["args"]:
            assert (event["name"], place) not in names, event
            names[event["name"], place] = event["args"]["name"]
    elif event["ph"] == "X":
        assert event["dur"] >= 0, event
        spans[place].append((event["ts"], event["ts"] + event["dur"], event["name"]))
    elif event["ph"] == "b":
        assert (event["pid"], event["id"]) not in flights, event
        flights[event["pid"], event["id"]] = event
    else:
        assert event["ph"] == "e", event
        begun = flights.pop((event["pid"], event["id"]))
        assert begun["ts"] <= event["ts"] and begun["name"] == event["name"] and begun["tid"] == event["tid"], event
assert not flights, flights
for place in spans:
    assert ("thread_name", place) in names and ("process_name", (place[0], 0)) in names, place

for process in sorted({pid for pid, _ in spans}):
    threads = sorted(name for (kind, (pid, _)), name in names.items() if kind == "thread_name" and pid == process)
    steps, within = 0, set()
    for (pid, tid), list_ in spans.items():
        if pid != process:
            continue
        around, children = [], []
        for begin, end, name in sorted(list_, key=lambda span: (span[0], -span[1])):
            while around and around[-1][1] <= begin and not (begin == end == around[-1][1]):
                around.pop()
            assert not around or end <= around[-1][1], (names["thread_name", (pid, tid)], around[-1], (begin, end, name))
            if [a[2] for a in around] == ["step"]:
                children.append(name)
            if name == "step":
                if steps:
                    within.add(" ".join(children))
                steps, children = steps + 1, []
            around.append((begin, end, name))
        if steps and children:
            within.add(" ".join(children))
    print(f"{process}: {', '.join(threads)}: {steps} steps of {' | '.join(sorted(within))}")

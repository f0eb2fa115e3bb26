"""Evaluates conditions with Python: reads lines `condition<TAB>a<TAB>b`, where a and b are numbers or
nan, and prints 1 or 0 for each."""
import math
import re
import sys


class Number(float):
    """A comparison with NaN is false, also !=."""

    def __ne__(self, other):
        return not math.isnan(self) and float(self) != other


CLASSES = ["cat", "dog", "a \\ b"]
for line in sys.stdin:
    condition, a, b, label = line.rstrip("\n").split("\t")
    python = condition.replace("&&", " and ").replace("||", " or ").replace("!=", "<>")
    python = python.replace("!", " not ").replace("<>", "!=")
    python = re.sub(r'class\s*\(\s*"([^"]*)"\s*\)', lambda m: "(label == %d)" % CLASSES.index(m[1]), python)
    names = {"a": Number(a), "b": Number(b), "label": Number(label), "true": 1, "false": 0}
    print(int(bool(eval(python.strip(), {}, names))))

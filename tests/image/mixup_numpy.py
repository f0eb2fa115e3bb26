#!/usr/bin/env python3
"""mixup_numpy.py FOLDER - compares each file of uint16 numbers in units of 1/4096, named after its
alpha, with the same number of draws from numpy's Beta."""
import pathlib
import sys

import numpy as np

failed = False
for path in sorted(pathlib.Path(sys.argv[1]).iterdir()):
    alpha = float(path.name)
    ours = np.fromfile(path, np.uint16)
    theirs = np.rint(np.random.default_rng(20240917).beta(alpha, alpha, 4 * len(ours)) * 4096).astype(int)
    distance = np.abs(np.cumsum(np.bincount(ours, minlength=4097)) / len(ours)
                      - np.cumsum(np.bincount(theirs, minlength=4097)) / len(theirs)).max()
    limit = 1.95 * np.sqrt(1 / len(ours) + 1 / len(theirs))  # the Kolmogorov-Smirnov limit at a significance of 0.001
    print(f"alpha {alpha}: distance {distance:.5f}, limit {limit:.5f}, variance {ours.var() / 4096 ** 2:.5f} of {1 / (8 * alpha + 4):.5f}")
    failed |= distance > limit
sys.exit(bool(failed))

"""powersgd — computes the expected results of compressed gradients over several ranks and steps.

    powersgd.py FOLDER RANKS STEPS START FEEDBACK WARM

FOLDER contains:

    shapes.txt                   `rows cols rank` per tensor; rank 0: uncompressed
    q-STEP.f32                   initial Q of all matrices for a step, used if none is kept
    gradients-STEP-RANK.f32      all tensors of a step, concatenated
    sums-STEP-RANK.f32           the sums to compare; all ranks have the same bits
"""
import sys
import numpy as np

folder, ranks, steps, start, feedback, warm = sys.argv[1], *map(int, sys.argv[2:])
shapes = [tuple(map(int, line.split())) for line in open(f"{folder}/shapes.txt")]
ends = np.cumsum([rows * cols for rows, cols, _ in shapes])


def tensors(name):
    flat = np.fromfile(f"{folder}/{name}.f32", np.float32).astype(np.float64)
    assert flat.size == ends[-1], (name, flat.size)
    return [part.reshape(rows, cols) for part, (rows, cols, _) in zip(np.split(flat, ends[:-1]), shapes)]


def orthogonal(matrix):
    matrix = matrix.copy()
    for i in range(matrix.shape[1]):
        matrix[:, i] /= np.linalg.norm(matrix[:, i]) + 1e-8
        for j in range(i + 1, matrix.shape[1]):
            matrix[:, j] -= (matrix[:, i] @ matrix[:, j]) * matrix[:, i]
    return matrix


errors = [[np.zeros((rows, cols)) for rows, cols, _ in shapes] for _ in range(ranks)]
previous_q = [None] * len(shapes)
worst = 0
for step in range(steps):
    gradients = [tensors(f"gradients-{step}-{rank}") for rank in range(ranks)]
    sums = tensors(f"sums-{step}-0")
    for rank in range(1, ranks):
        for own, first in zip(tensors(f"sums-{step}-{rank}"), sums):
            assert np.array_equal(own, first), f"step {step}: the sums of rank {rank} differ from those of rank 0"
    initial_q, at = np.fromfile(f"{folder}/q-{step}.f32", np.float32).astype(np.float64), 0
    for i, (rows, cols, columns) in enumerate(shapes):
        expected = sum(gradients[rank][i] for rank in range(ranks))
        q0 = initial_q[at : at + cols * columns].reshape(cols, columns)
        at += cols * columns
        if columns > 0 and step >= start:
            inputs = [gradients[rank][i] + (errors[rank][i] if feedback else 0) for rank in range(ranks)]
            q = orthogonal(previous_q[i] if warm and previous_q[i] is not None else q0)
            p = orthogonal(sum(m @ q for m in inputs))
            q = sum(m.T @ p for m in inputs)
            previous_q[i] = q
            expected = p @ q.T
            for rank in range(ranks):
                errors[rank][i] = inputs[rank] - expected / ranks
        off = np.abs(sums[i] - expected).max() / np.abs(expected).max()
        worst = max(worst, off)
        assert off < 2e-4, f"step {step}, tensor {i}: off by {off}"
print(f"powersgd: {steps} steps of {len(shapes)} tensors, off by {worst:.1e} at most")

/*
 * ops_cpu_f64 — the cpu's compute ops in double, to check backward passes by central differences.
 */
#define REAL_BITS 64
#include "trainer/ops/cpu/table.inc"

/*
 * ops_cpu_f64 — the cpu's compute ops in double, for gradient checks by central differences.
 */
#define REAL_BITS 64
#include "trainer/ops/cpu/table.inc"

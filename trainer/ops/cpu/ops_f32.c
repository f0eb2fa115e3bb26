/*
 * ops_cpu_f32 — the cpu's compute ops in float.
 */
#define REAL_BITS 32
#include "trainer/ops/cpu/table.inc"

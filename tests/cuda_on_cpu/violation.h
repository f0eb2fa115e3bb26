/*
 * violation — what a GPU would do something undefined with: told in one line on stderr, and the
 * program ends (SIGABRT).
 */
#ifndef MILLRACE_TESTS_CUDA_ON_CPU_VIOLATION_H
#define MILLRACE_TESTS_CUDA_ON_CPU_VIOLATION_H

#ifdef __cplusplus
extern "C" {
#endif

/* "cuda_on_cpu: ..."; within a kernel with its name, block and thread. */
void shim_violation(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#ifdef __cplusplus
}
#endif

#endif

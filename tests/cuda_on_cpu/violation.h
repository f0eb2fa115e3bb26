/*
 * violation — reports behavior that is undefined on a GPU: prints one line on stderr and ends the
 * program (SIGABRT).
 */
#ifndef MILLRACE_TESTS_CUDA_ON_CPU_VIOLATION_H
#define MILLRACE_TESTS_CUDA_ON_CPU_VIOLATION_H

#ifdef __cplusplus
extern "C" {
#endif

/* Prints "cuda_on_cpu: ..."; within a kernel, also the kernel's name, the block and the thread. */
void shim_violation(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#ifdef __cplusplus
}
#endif

#endif

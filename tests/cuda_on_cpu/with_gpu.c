/*
 * with_gpu — runs a program if there is a GPU; otherwise prints the reason and exits with status 77
 * (skipped).
 */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <unistd.h>

enum { SKIPPED = 77, NOT_FOUND = 127 };

int main(int count, char **arguments)
{
    int devices = 0;
    cudaError_t status = cudaGetDeviceCount(&devices);
    if (count < 2)
        return NOT_FOUND;
    if (status != cudaSuccess || devices == 0) {
        printf("SKIPPED: no GPU: %s\n", cudaGetErrorString(status));
        return SKIPPED;
    }
    execv(arguments[1], arguments + 1);
    perror(arguments[1]);
    return NOT_FOUND;
}

/*
 * dynlib — see dynlib.h.
 */
#include "base/os/dynlib.h"

#include <dlfcn.h>
#include <string.h>

void *dynlib_open(const char *const *files, size_t count)
{
    void *library = NULL;
    for (size_t i = 0; i < count && !library; i++)
        library = dlopen(files[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    return library;
}

const char *dynlib_find(void *library, const struct dynlib_function *functions, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        void *address = dlsym(library, functions[i].name);
        if (!address)
            return functions[i].name;
        memcpy(functions[i].function, &address,
               sizeof address); /* POSIX lets dlsym return a function's address */
    }
    return NULL;
}

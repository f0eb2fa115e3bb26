/*
 * use — see use.h.
 */
#include "python/native/use.h"

#include <unistd.h>

struct use use_begin(const char *noun)
{
    return (struct use){.noun = noun, .pid = getpid()};
}

bool use_is_own_process(const struct use *use)
{
    return use->pid == getpid();
}

static int refuse_busy(const struct use *use)
{
    PyErr_Format(PyExc_RuntimeError, "another thread uses the %s", use->noun);
    return -1;
}

int use_acquire(struct use *use)
{
    if (!use_is_own_process(use)) {
        PyErr_Format(PyExc_RuntimeError,
                     "the %s was opened before a fork, which its threads do not survive; open it "
                     "in this process, or start processes with the method 'spawn'",
                     use->noun);
        return -1;
    }
    if (use->is_busy)
        return refuse_busy(use);
    if (use->is_closed) {
        PyErr_Format(PyExc_RuntimeError, "the %s is closed", use->noun);
        return -1;
    }
    use->is_busy = true;
    return 0;
}

void use_release(struct use *use)
{
    use->is_busy = false;
}

int use_close(struct use *use)
{
    bool is_own = use_is_own_process(use);
    if (use->is_closed)
        return 0;
    if (is_own && use->is_busy)
        return refuse_busy(use);
    use->is_closed = true;
    use->is_busy = is_own;
    return is_own;
}

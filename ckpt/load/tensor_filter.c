#include "ckpt/load/tensor_filter.h"

#include "ckpt/load/hash.h"

#include <fnmatch.h>
#include <string.h>

bool tensor_filter_matches(const void *filter, const char *name)
{
    const char *pattern = filter;
    if (strcmp(pattern, "all") == 0)
        return true;
    if (strcmp(pattern, ckpt_section_name(CKPT_MODEL)) == 0)
        return !hash_is_optimizer(name);
    if (strcmp(pattern, ckpt_section_name(CKPT_OPTIMIZER)) == 0)
        return hash_is_optimizer(name);
    return fnmatch(pattern, name, 0) == 0;
}

#include "cli/commands/stage_advice.h"

const char *stage_advice(enum loader_stage stage)
{
    static const char *const advice[LOADER_STAGE_COUNT] = {
        [LOADER_STAGE_READ] =
            "use smaller samples, or enough memory to cache a local copy of all of "
            "them; `millrace bench io` measures a disk",
        [LOADER_STAGE_DECODE] = "use more workers if CPUs are idle, or tiled (`convert dataset`), "
                                "smaller (`--jpeg reencode`) or raw (`--store raw`) photos",
        [LOADER_STAGE_CONSUMER] = "none: data arrives faster than it is consumed",
    };
    return advice[stage];
}

/*
 * stage_advice — see stage_advice.h.
 */
#include "cli/commands/stage_advice.h"

const char *stage_advice(enum loader_stage stage)
{
    static const char *const advice[LOADER_STAGE_COUNT] = {
        [LOADER_STAGE_READ] =
            "`millrace bench io` tells what the disk can do; smaller samples help, and "
            "memory that holds all of them",
        [LOADER_STAGE_DECODE] =
            "more workers where CPUs are idle; else tiled (`convert dataset`), smaller "
            "(`--jpeg reencode`) or raw (`--store raw`) photos",
        [LOADER_STAGE_CONSUMER] = "nothing: data comes faster than it is used",
    };
    return advice[stage];
}

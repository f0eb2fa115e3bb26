/*
 * ops — see ops.h.
 */
#include "trainer/ops.h"

void ops_close(struct ops *ops)
{
    if (ops)
        ops->table->close(ops);
}

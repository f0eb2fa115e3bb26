/*
 * where — fuzz target: conditions on index fields (loader/parts/where.h). An accepted condition
 * matches no numbers that it negates.
 */
#include "loader/parts/where.h"
#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <stdio.h>

static char *const classes[] = {(char *)"cat", (char *)"a b"};

static void check(const struct where *where, const struct where *negated, double value)
{
    double values[SHARD_NUMBERS_MAX];
    for (uint32_t i = 0; i < where_fields(where); i++)
        values[i] = i % 2 ? value : -value;
    if (where_matches(where, values) == where_matches(negated, values))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char *text = fuzz_text(data, bytes), *negation = malloc(bytes + 8);
    struct where *where = NULL, *negated = NULL;
    struct err err;
    if (text && negation && where_parse(text, classes, 2, &where, &err) == 0) {
        snprintf(negation, bytes + 8, "!(%s)", text);
        /* the longest and the deepest conditions have no negation */
        if (where_parse(negation, classes, 2, &negated, &err) == 0) {
            check(where, negated, 0);
            check(where, negated, 1.5);
            check(where, negated, NAN);
        }
    }
    where_free(where);
    where_free(negated);
    free(negation);
    free(text);
    return 0;
}

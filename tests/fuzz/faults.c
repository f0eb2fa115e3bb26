/*
 * faults — fuzz target: fault injection rules (io/faults/fault_rules.h). Accepted rules give
 * valid verdicts; rules with kill are only parsed.
 */
#include "io/faults/fault_rules.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct fault_rules rules;
    struct err err = {0};
    char *text = fuzz_text(data, bytes);
    if (!text)
        return 0;
    int status = fault_rules_parse(text, &rules, &err);
    if (status && (err.code != status || !err.what[0] || !err.expected[0]))
        abort();
    bool kills = false;
    for (unsigned i = 0; !status && i < rules.count; i++)
        kills = kills || rules.rules[i].effect.kills;
    for (int operation = 0; !status && !kills && operation < FAULT_OPERATIONS; operation++) {
        struct fault_verdict verdict =
            fault_rules_decide(&rules, operation, "folder/shard-000003.tar", 512);
        if (verdict.error > 0 || (operation == FAULT_ABORT && verdict.error) ||
            ((verdict.cuts || verdict.flips) && operation != FAULT_READ &&
             operation != FAULT_WRITE))
            abort();
    }
    free(text);
    return 0;
}

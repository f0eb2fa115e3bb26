/*
 * fault_rules — the rules of `--fault`: the grammar, its errors, and which operations a rule
 * applies to.
 */
#include "io/faults/fault_rules.h"
#include "tests/support/test.h"

#include <errno.h>
#include <string.h>

static struct fault_rules parse_rules(const char *text)
{
    struct fault_rules rules;
    struct err err = {0};
    assert_ok(fault_rules_parse(text, &rules, &err), &err);
    return rules;
}

static struct fault_verdict decide(struct fault_rules *rules, enum fault_operation operation,
                                   const char *path, uint64_t offset)
{
    return fault_rules_decide(rules, operation, path, offset);
}

static void a_rule_has_operation_effect_condition_and_path(void **state)
{
    (void)state;
    struct fault_rules rules =
        parse_rules("read:eio@17,seed=7,depth=32,write:delay=20ms%2.5:shard-000003,commit:hold,"
                    "durable:enospc@9+,read:flip/4:a:b");
    assert_int_equal(rules.seed, 7);
    assert_int_equal(rules.depth, 32);
    assert_int_equal(rules.count, 5);
    const struct fault_rule *rule = rules.rules;
    assert_int_equal(rule->operations, 1 << FAULT_READ);
    assert_int_equal(rule->effect.error, -EIO);
    assert_int_equal(rule->first, 17);
    assert_int_equal(rule->last, 17);
    assert_string_equal(rule->path, "");
    rule++;
    assert_int_equal(rule->operations, 1 << FAULT_WRITE);
    assert_int_equal(rule->effect.delay_ns, 20000000);
    assert_true(rule->fraction == 0.025);
    assert_string_equal(rule->path, "shard-000003");
    rule++;
    assert_int_equal(rule->operations, 1 << FAULT_COMMIT);
    assert_true(rule->effect.holds);
    assert_true(rule->first == 0 && rule->last == UINT64_MAX && rule->fraction == 1);
    rule++;
    for (int i = 0; i < FAULT_OPERATIONS; i++)
        assert_int_equal(rule->operations >> i & 1, fault_operation_is_durable(i));
    assert_int_equal(rule->effect.error, -ENOSPC);
    assert_true(rule->first == 9 && rule->last == UINT64_MAX);
    rule++;
    assert_true(rule->effect.flips);
    assert_int_equal(rule->every, 4);
    assert_string_equal(rule->path, "a:b");
    assert_int_equal(parse_rules("").count, 0);
}

static void a_wrong_rule_is_refused_with_its_column_and_the_nearest_word(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int column;
        const char *what, *advice;
    } cases[] = {
        {"raed:eio@3", 1, "unknown operation", "\"read\""},
        {"read:eio@3,wirte:eio", 12, "unknown operation", "\"write\""},
        {"read:shrot", 6, "unknown effect", "\"short\""},
        {"open:flip", 6, "unknown effect", ""},     /* only bytes can be flipped */
        {"abort:eio", 7, "unknown effect", ""},     /* abort cannot fail */
        {"wait:delay=3s", 6, "unknown effect", ""}, /* would block the submitter */
        {"queue:delay=3s", 7, "unknown effect", ""},
        {"queue:hold", 7, "unknown effect", ""},
        {"durable:short", 9, "unknown effect", ""},
        {"read", 5, "missing effect", ""},
        {"read:", 6, "unknown effect", ""},
        {"read:eio@0", 10, "invalid number", ""},
        {"read:eio@", 10, "invalid number", ""},
        {"read:eio@99999999999999999999", 10, "invalid number", ""},
        {"read:eio/-1", 10, "invalid number", ""},
        {"read:eio%0", 10, "invalid percentage", ""},
        {"read:eio%101", 10, "invalid percentage", ""},
        {"read:eio%1x", 10, "invalid percentage", ""},
        {"read:delay", 11, "invalid duration", ""},
        {"read:delay=20", 12, "invalid duration", ""},
        {"read:eio@3x", 11, "unexpected text", ""},
        {"read:eio@3:", 12, "invalid part of a path", ""},
        {"queue:emfile:data", 13, "unexpected text", ""}, /* a queue has no path */
        {"wait:eio@3:data", 11, "unexpected text", ""},
        {"read:eio,", 10, "missing rule", ""},
        {"seed=", 6, "invalid number", ""},
        {"depth=0", 7, "invalid number", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fault_rules rules = {.seed = 5};
        struct err err = {0};
        char column[32];
        assert_int_equal(fault_rules_parse(cases[i].text, &rules, &err), -EINVAL);
        snprintf(column, sizeof column, " in column %d of ", cases[i].column);
        if (!strstr(err.what, column) || !strstr(err.what, cases[i].what) ||
            !strstr(err.advice, cases[i].advice))
            fail_msg("\"%s\": %s; %s", cases[i].text, err.what, err.advice);
        assert_true(err.expected[0]);
        assert_int_equal(rules.seed, 5);
    }
    char text[20 * 10] = "";
    for (int i = 0; i < 17; i++)
        strcat(text, i ? ",read:eio" : "read:eio");
    assert_int_equal(fault_rules_parse(text, &(struct fault_rules){0}, NULL), -EINVAL);
}

/* Which of the first twelve reads are hit, as a string of 0s and 1s. */
static const char *format_hits(const char *text)
{
    static char hits[13];
    struct fault_rules rules = parse_rules(text);
    for (int i = 0; i < 12; i++)
        hits[i] = decide(&rules, FAULT_READ, "a/b", (uint64_t)i).error ? '1' : '0';
    return hits;
}

static void operations_are_counted_from_one(void **state)
{
    (void)state;
    assert_string_equal(format_hits("read:eio"), "111111111111");
    assert_string_equal(format_hits("read:eio@3"), "001000000000");
    assert_string_equal(format_hits("read:eio@10+"), "000000000111");
    assert_string_equal(format_hits("read:eio/4"), "000100010001");
    assert_string_equal(format_hits("read:eio%100"), "111111111111");
    assert_string_equal(format_hits("write:eio"), "000000000000");
}

static void a_rule_counts_only_matching_operations(void **state)
{
    (void)state;
    struct fault_rules rules = parse_rules("read:eio@2:shard-000003,durable:enospc@3");
    assert_int_equal(decide(&rules, FAULT_READ, "x/shard-000001.tar", 0).error, 0);
    assert_int_equal(decide(&rules, FAULT_READ, "x/shard-000003.tar", 0).error, 0);
    assert_int_equal(decide(&rules, FAULT_OPEN, "x/shard-000003.tar", 0).error, 0);
    assert_int_equal(decide(&rules, FAULT_READ, "x/shard-000003.tar", 0).error, -EIO);
    assert_int_equal(decide(&rules, FAULT_BEGIN, "y", 0).error, 0);
    assert_int_equal(decide(&rules, FAULT_STAT, "y", 0).error, 0);
    assert_int_equal(decide(&rules, FAULT_WRITE, "y/z", 0).error, 0);
    assert_int_equal(decide(&rules, FAULT_FINALIZE, "y/z", 0).error, -ENOSPC);
}

enum { OFFSETS = 20000 };

static void probabilistic_faults_depend_on_seed_name_and_offset(void **state)
{
    (void)state;
    static bool first[OFFSETS];
    struct fault_rules rules = parse_rules("read:eio%5,seed=7"),
                       other = parse_rules("read:eio%5,seed=8");
    int hit = 0, as_other = 0, of_other_name = 0;
    for (uint64_t i = 0; i < OFFSETS; i++) {
        first[i] = decide(&rules, FAULT_READ, "one/shard.tar", i * 4096).error != 0;
        hit += first[i];
    }
    assert_in_range(hit, OFFSETS / 20 * 9 / 10, OFFSETS / 20 * 11 / 10);
    /* again, backwards and in a different folder */
    for (uint64_t i = OFFSETS; i-- > 0;) {
        bool again = decide(&rules, FAULT_READ, "an/other/shard.tar", i * 4096).error != 0;
        assert_int_equal(again, first[i]);
        as_other += first[i] && decide(&other, FAULT_READ, "one/shard.tar", i * 4096).error;
        of_other_name += first[i] && decide(&rules, FAULT_READ, "one/shard2.tar", i * 4096).error;
    }
    assert_true(as_other < hit / 4 && of_other_name < hit / 4);
}

static void effects_of_several_rules_add_up(void **state)
{
    (void)state;
    struct fault_rules rules = parse_rules(
        "read:delay=2s,read:delay=1s,read:flip,read:eio,read:enospc,read:hold,read:short");
    struct fault_verdict verdict = decide(&rules, FAULT_READ, "a", 0);
    assert_true(verdict.is_hit && verdict.flips && verdict.cuts && verdict.holds);
    assert_int_equal(verdict.delay_ns, 3000000000u);
    assert_int_equal(verdict.error, -EIO);
    assert_true(verdict.cut_random != verdict.flip_random);
    assert_false(decide(&rules, FAULT_WRITE, "a", 0).is_hit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rule_has_operation_effect_condition_and_path),
        cmocka_unit_test(a_wrong_rule_is_refused_with_its_column_and_the_nearest_word),
        cmocka_unit_test(operations_are_counted_from_one),
        cmocka_unit_test(a_rule_counts_only_matching_operations),
        cmocka_unit_test(probabilistic_faults_depend_on_seed_name_and_offset),
        cmocka_unit_test(effects_of_several_rules_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

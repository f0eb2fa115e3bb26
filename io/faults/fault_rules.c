/*
 * fault_rules — see fault_rules.h.
 */
#include "io/faults/fault_rules.h"

#include "base/hash.h"
#include "base/philox.h"
#include "base/str.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_BYTES = 32 };

#define BIT(operation) (1u << (operation))
#define REQUESTS       (BIT(FAULT_READ) | BIT(FAULT_WRITE))
#define QUEUES         (BIT(FAULT_WAIT) | BIT(FAULT_QUEUE))
#define ALL            (BIT(FAULT_OPERATIONS) - 1)
#define CAN_FAIL       (ALL & ~BIT(FAULT_ABORT))
#define CAN_WAIT       (ALL & ~QUEUES)
#define DURABLE                                                                                    \
    (BIT(FAULT_BEGIN) | BIT(FAULT_CREATE) | BIT(FAULT_WRITE) | BIT(FAULT_FINALIZE) |               \
     BIT(FAULT_COMMIT) | BIT(FAULT_REMOVE))

static const char *const operation_names[FAULT_OPERATIONS + 1] = {
    "open",  "read", "write",  "wait",     "queue",  "stat",  "list",  "folder", "remove",
    "begin", "join", "create", "finalize", "commit", "abort", "sweep", "lock",   "durable"};

struct effect {
    const char *word;
    uint32_t operations; /* those that support the effect */
    struct fault_verdict verdict;
};

static const struct effect effects[] = {
    {"eio", CAN_FAIL, {.error = -EIO}},       {"enospc", CAN_FAIL, {.error = -ENOSPC}},
    {"edquot", CAN_FAIL, {.error = -EDQUOT}}, {"erofs", CAN_FAIL, {.error = -EROFS}},
    {"enoent", CAN_FAIL, {.error = -ENOENT}}, {"eacces", CAN_FAIL, {.error = -EACCES}},
    {"enomem", CAN_FAIL, {.error = -ENOMEM}}, {"emfile", CAN_FAIL, {.error = -EMFILE}},
    {"estale", CAN_FAIL, {.error = -ESTALE}}, {"etimedout", CAN_FAIL, {.error = -ETIMEDOUT}},
    {"delay", CAN_WAIT, {.delay_ns = 1}}, /* a duration follows */
    {"hold", CAN_WAIT, {.holds = true}},      {"short", REQUESTS, {.cuts = true}},
    {"flip", REQUESTS, {.flips = true}},      {"kill", ALL, {.kills = true}},
};
enum { EFFECTS = sizeof effects / sizeof effects[0] };

const char *fault_operation_name(enum fault_operation operation)
{
    return operation_names[operation];
}

bool fault_operation_is_durable(enum fault_operation operation)
{
    return DURABLE & BIT(operation);
}

struct rule_parser {
    const char *text, *at;
    struct err *err;
};

static int syntax_error(const struct rule_parser *r, const char *at, const char *what,
                        const char *expected)
{
    err_set(r->err, -EINVAL, "%s in column %d of the fault rules \"%.120s\"", what,
            (int)(at - r->text) + 1, r->text);
    err_expected(r->err, "%s", expected);
    if (*at)
        err_found(r->err, "\"%.40s\"", at);
    else
        err_found(r->err, "the end");
    err_advise(r->err, "see `millrace help formats` for the syntax of a rule");
    return -EINVAL;
}

/* Letters, digits and dots; truncated if too long. */
static void parse_word(struct rule_parser *r, char word[WORD_BYTES])
{
    size_t bytes = 0;
    while (isalnum((unsigned char)r->at[bytes]) || r->at[bytes] == '.')
        bytes++;
    size_t kept = bytes < WORD_BYTES ? bytes : WORD_BYTES - 1;
    memcpy(word, r->at, kept);
    word[kept] = '\0';
    r->at += bytes;
}

static int parse_number(struct rule_parser *r, uint64_t least, uint64_t *ret_number)
{
    const char *begin = r->at;
    char *end;
    errno = 0;
    unsigned long long number = isdigit((unsigned char)*begin) ? strtoull(begin, &end, 10) : 0;
    if (!isdigit((unsigned char)*begin) || errno || number < least)
        return syntax_error(r, begin, "invalid number",
                            least ? "a number of at least 1" : "a number");
    r->at = end;
    *ret_number = number;
    return 0;
}

/* Sets *ret_index to the position of the next word in words. */
static int parse_keyword(struct rule_parser *r, const char *what, const char *const *words,
                         size_t count, size_t *ret_index)
{
    const char *begin = r->at;
    char word[WORD_BYTES], expected[ERR_TEXT_BYTES_MAX] = "";
    parse_word(r, word);
    for (size_t i = 0, used = 0; i < count; i++) {
        if (strcmp(word, words[i]) == 0) {
            *ret_index = i;
            return 0;
        }
        if (used < sizeof expected)
            used += (size_t)snprintf(expected + used, sizeof expected - used, "%s%s", i ? ", " : "",
                                     words[i]);
    }
    syntax_error(r, begin, what, expected);
    const char *nearest = str_nearest(word, words, count);
    if (nearest)
        err_advise(r->err, "did you mean \"%s\"?", nearest);
    return -EINVAL;
}

static int parse_operation(struct rule_parser *r, struct fault_rule *rule)
{
    size_t i;
    int status = parse_keyword(r, "unknown operation", operation_names, FAULT_OPERATIONS + 1, &i);
    if (status)
        return status;
    rule->operations = i == FAULT_OPERATIONS ? DURABLE : BIT(i);
    if (*r->at != ':')
        return syntax_error(r, r->at, "missing effect", "\":\" and an effect");
    r->at++;
    return 0;
}

static int parse_delay(struct rule_parser *r, struct fault_rule *rule)
{
    char word[WORD_BYTES];
    if (*r->at != '=')
        return syntax_error(r, r->at, "invalid duration", "\"=\" and a duration such as 20ms");
    const char *begin = ++r->at;
    parse_word(r, word);
    return str_parse_duration(word, &rule->effect.delay_ns)
               ? syntax_error(r, begin, "invalid duration", "20ms, 3s, 2min")
               : 0;
}

static int parse_effect(struct rule_parser *r, struct fault_rule *rule)
{
    const char *words[EFFECTS];
    const struct fault_verdict *verdicts[EFFECTS];
    size_t count = 0, chosen;
    for (size_t i = 0; i < EFFECTS; i++) {
        if (rule->operations & ~effects[i].operations)
            continue;
        words[count] = effects[i].word;
        verdicts[count++] = &effects[i].verdict;
    }
    int status = parse_keyword(r, "unknown effect", words, count, &chosen);
    if (status)
        return status;
    rule->effect = *verdicts[chosen];
    return rule->effect.delay_ns ? parse_delay(r, rule) : 0;
}

static int parse_percent(struct rule_parser *r, struct fault_rule *rule)
{
    const char *begin = r->at;
    char word[WORD_BYTES], *end;
    parse_word(r, word);
    double percent = isdigit((unsigned char)word[0]) ? strtod(word, &end) : 0;
    if (!isdigit((unsigned char)word[0]) || *end || !(percent > 0 && percent <= 100))
        return syntax_error(r, begin, "invalid percentage", "above 0 and up to 100");
    rule->fraction = percent / 100;
    return 0;
}

static int parse_when(struct rule_parser *r, struct fault_rule *rule)
{
    char sign = *r->at;
    if (sign != '@' && sign != '/' && sign != '%')
        return 0;
    r->at++;
    if (sign == '%')
        return parse_percent(r, rule);
    if (sign == '/')
        return parse_number(r, 1, &rule->every);
    int status = parse_number(r, 1, &rule->first);
    if (status || *r->at != '+') {
        rule->last = rule->first;
        return status;
    }
    r->at++;
    return 0;
}

static int parse_path(struct rule_parser *r, struct fault_rule *rule)
{
    if (*r->at != ':')
        return 0;
    if (rule->operations & QUEUES)
        return syntax_error(r, r->at, "unexpected text", "\",\": a queue has no path");
    const char *begin = ++r->at;
    size_t bytes = strcspn(begin, ",");
    if (bytes == 0 || bytes >= FAULT_PATH_BYTES)
        return syntax_error(r, begin, "invalid part of a path", "1 to 127 bytes of text");
    memcpy(rule->path, begin, bytes);
    r->at += bytes;
    return 0;
}

static int parse_rule(struct rule_parser *r, struct fault_rules *rules)
{
    static const char seed[] = "seed=", depth[] = "depth=";
    if (strncmp(r->at, seed, sizeof seed - 1) == 0) {
        r->at += sizeof seed - 1;
        return parse_number(r, 0, &rules->seed);
    }
    if (strncmp(r->at, depth, sizeof depth - 1) == 0) {
        r->at += sizeof depth - 1;
        return parse_number(r, 1, &rules->depth);
    }
    if (rules->count == FAULT_RULES_MAX)
        return syntax_error(r, r->at, "too many rules", "at most 16");
    struct fault_rule *rule = &rules->rules[rules->count++];
    rule->last = UINT64_MAX;
    rule->every = 1;
    rule->fraction = 1;
    int status = parse_operation(r, rule);
    if (!status)
        status = parse_effect(r, rule);
    if (!status)
        status = parse_when(r, rule);
    return status ? status : parse_path(r, rule);
}

int fault_rules_parse(const char *text, struct fault_rules *ret_rules, struct err *err)
{
    struct rule_parser r = {.text = text, .at = text, .err = err};
    struct fault_rules rules = {0};
    while (*r.at) {
        int status = parse_rule(&r, &rules);
        if (status)
            return status;
        if (*r.at && *r.at != ',')
            return syntax_error(
                &r, r.at, "unexpected text",
                "\",\", \":\" and part of a path, or \"@\", \"/\" or \"%\" and a number");
        if (*r.at && *++r.at == '\0')
            return syntax_error(&r, r.at, "missing rule", "another rule after the comma");
    }
    *ret_rules = rules;
    return 0;
}

/* Ignores the folder, so that results do not depend on its location. */
static struct philox_block draw_random(uint64_t seed, unsigned rule, enum fault_operation operation,
                                       const char *path, uint64_t offset)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    uint64_t what = hash_64(name, strlen(name)) ^ (uint64_t)rule << 32 ^ (uint64_t)operation;
    return philox(seed, what, offset);
}

static bool matches_operation_number(struct fault_rule *rule, const struct philox_block *random)
{
    uint64_t number = atomic_fetch_add_explicit(&rule->seen_count, 1, memory_order_relaxed) + 1;
    return number >= rule->first && number <= rule->last && number % rule->every == 0 &&
           philox_uniform(random->word[0]) < rule->fraction;
}

static void merge_effect(const struct fault_verdict *effect, uint64_t random,
                         struct fault_verdict *verdict)
{
    if (effect->kills)
        raise(SIGKILL);
    verdict->is_hit = true;
    verdict->error = verdict->error ? verdict->error : effect->error;
    verdict->delay_ns += effect->delay_ns;
    verdict->holds |= effect->holds;
    verdict->cuts |= effect->cuts;
    verdict->flips |= effect->flips;
    verdict->cut_random = effect->cuts ? random : verdict->cut_random;
    verdict->flip_random = effect->flips ? random : verdict->flip_random;
}

struct fault_verdict fault_rules_decide(struct fault_rules *rules, enum fault_operation operation,
                                        const char *path, uint64_t offset)
{
    struct fault_verdict verdict = {0};
    for (unsigned i = 0; i < rules->count; i++) {
        struct fault_rule *rule = &rules->rules[i];
        if (!(rule->operations & BIT(operation)) || !strstr(path, rule->path))
            continue;
        struct philox_block random = draw_random(rules->seed, i, operation, path, offset);
        if (matches_operation_number(rule, &random))
            merge_effect(&rule->effect, (uint64_t)random.word[1] << 32 | random.word[2], &verdict);
    }
    return verdict;
}

uint64_t fault_rules_read_delay_ns(const struct fault_rules *rules, const char *path)
{
    uint64_t delay_ns = 0;
    for (unsigned i = 0; i < rules->count; i++) {
        const struct fault_rule *rule = &rules->rules[i];
        bool is_always =
            rule->first <= 1 && rule->last == UINT64_MAX && rule->every == 1 && rule->fraction == 1;
        if (is_always && rule->operations & BIT(FAULT_READ) && strstr(path, rule->path))
            delay_ns += rule->effect.delay_ns;
    }
    return delay_ns;
}

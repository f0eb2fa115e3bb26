/*
 * fault_rules — see fault_rules.h.
 */
#include "io/backends/fault_rules.h"

#include "base/hash.h"
#include "base/philox.h"
#include "base/str.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_BYTES = 32, WORDS_MAX = 32 };

#define BIT(operation) (1u << (operation))
#define REQUESTS       (BIT(FAULT_READ) | BIT(FAULT_WRITE))
#define QUEUES         (BIT(FAULT_WAIT) | BIT(FAULT_QUEUE))
#define ALL            (BIT(FAULT_OPERATIONS) - 1)
#define DURABLE                                                                                    \
    (BIT(FAULT_BEGIN) | BIT(FAULT_CREATE) | BIT(FAULT_WRITE) | BIT(FAULT_FINALIZE) |               \
     BIT(FAULT_COMMIT) | BIT(FAULT_REMOVE))

static const char *const operation_names[FAULT_OPERATIONS + 1] = {
    "open",  "read", "write",  "wait",     "queue",  "stat",  "list",  "folder", "remove",
    "begin", "join", "create", "finalize", "commit", "abort", "sweep", "lock",   "durable"};

struct effect_word {
    const char *word;
    enum fault_effect effect;
    int error;
    uint32_t operations; /* that it applies to */
};

static const struct effect_word effect_words[] = {
    {"eio", FAULT_ERROR, -EIO, ALL & ~BIT(FAULT_ABORT)},
    {"enospc", FAULT_ERROR, -ENOSPC, ALL & ~BIT(FAULT_ABORT)},
    {"edquot", FAULT_ERROR, -EDQUOT, ALL & ~BIT(FAULT_ABORT)},
    {"erofs", FAULT_ERROR, -EROFS, ALL & ~BIT(FAULT_ABORT)},
    {"enoent", FAULT_ERROR, -ENOENT, ALL & ~BIT(FAULT_ABORT)},
    {"eacces", FAULT_ERROR, -EACCES, ALL & ~BIT(FAULT_ABORT)},
    {"enomem", FAULT_ERROR, -ENOMEM, ALL & ~BIT(FAULT_ABORT)},
    {"emfile", FAULT_ERROR, -EMFILE, ALL & ~BIT(FAULT_ABORT)},
    {"estale", FAULT_ERROR, -ESTALE, ALL & ~BIT(FAULT_ABORT)},
    {"etimedout", FAULT_ERROR, -ETIMEDOUT, ALL & ~BIT(FAULT_ABORT)},
    {"delay", FAULT_DELAY, 0, ALL & ~QUEUES},
    {"hold", FAULT_HOLD, 0, ALL & ~QUEUES},
    {"short", FAULT_SHORT, 0, REQUESTS},
    {"flip", FAULT_FLIP, 0, REQUESTS},
    {"kill", FAULT_KILL, 0, ALL},
};
enum { EFFECT_WORDS = sizeof effect_words / sizeof effect_words[0] };

const char *fault_operation_name(enum fault_operation operation)
{
    return operation_names[operation];
}

uint32_t fault_operations_durable(void)
{
    return DURABLE;
}

/* ---- Parsing. ---- */

struct reading {
    const char *text, *at;
    struct err *err;
};

static int wrong(const struct reading *r, const char *at, const char *what, const char *expected)
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

static int wrong_word(const struct reading *r, const char *at, const char *word, const char *what,
                      const char *const *words, size_t count)
{
    char expected[ERR_TEXT_BYTES_MAX] = "";
    size_t used = 0;
    for (size_t i = 0; i < count && used < sizeof expected; i++)
        used += (size_t)snprintf(expected + used, sizeof expected - used, "%s%s", i ? ", " : "",
                                 words[i]);
    wrong(r, at, what, expected);
    const char *nearest = str_nearest(word, words, count);
    if (nearest)
        err_advise(r->err, "did you mean \"%s\"?", nearest);
    return -EINVAL;
}

/* Letters, digits and dots; truncated if too long. */
static void take_word(struct reading *r, char word[WORD_BYTES])
{
    size_t bytes = 0;
    while (isalnum((unsigned char)r->at[bytes]) || r->at[bytes] == '.')
        bytes++;
    size_t kept = bytes < WORD_BYTES ? bytes : WORD_BYTES - 1;
    memcpy(word, r->at, kept);
    word[kept] = '\0';
    r->at += bytes;
}

static int take_number(struct reading *r, uint64_t least, uint64_t *ret_number)
{
    const char *begin = r->at;
    char *end;
    errno = 0;
    unsigned long long number = isdigit((unsigned char)*begin) ? strtoull(begin, &end, 10) : 0;
    if (!isdigit((unsigned char)*begin) || errno || number < least)
        return wrong(r, begin, "invalid number", least ? "a number of at least 1" : "a number");
    r->at = end;
    *ret_number = number;
    return 0;
}

static int take_operation(struct reading *r, struct fault_rule *rule)
{
    const char *begin = r->at;
    char word[WORD_BYTES];
    take_word(r, word);
    for (int i = 0; i <= FAULT_OPERATIONS; i++) {
        if (strcmp(word, operation_names[i]) != 0)
            continue;
        rule->operations = i == FAULT_OPERATIONS ? DURABLE : BIT(i);
        if (*r->at != ':')
            return wrong(r, r->at, "missing effect", "\":\" and an effect");
        r->at++;
        return 0;
    }
    return wrong_word(r, begin, word, "unknown operation", operation_names, FAULT_OPERATIONS + 1);
}

static int take_delay(struct reading *r, struct fault_rule *rule)
{
    char word[WORD_BYTES];
    if (*r->at != '=')
        return wrong(r, r->at, "invalid duration", "\"=\" and a duration such as 20ms");
    const char *begin = ++r->at;
    take_word(r, word);
    return str_parse_duration(word, &rule->delay_ns)
               ? wrong(r, begin, "invalid duration", "20ms, 3s, 2min")
               : 0;
}

static int take_effect(struct reading *r, struct fault_rule *rule)
{
    const char *begin = r->at, *words[EFFECT_WORDS];
    char word[WORD_BYTES];
    size_t count = 0;
    take_word(r, word);
    for (size_t i = 0; i < EFFECT_WORDS; i++) {
        const struct effect_word *known = &effect_words[i];
        if (rule->operations & ~known->operations)
            continue;
        words[count++] = known->word;
        if (strcmp(word, known->word) != 0)
            continue;
        rule->effect = known->effect;
        rule->error = known->error;
        return known->effect == FAULT_DELAY ? take_delay(r, rule) : 0;
    }
    return wrong_word(r, begin, word, "unknown effect", words, count);
}

static int take_percent(struct reading *r, struct fault_rule *rule)
{
    const char *begin = r->at;
    char word[WORD_BYTES], *end;
    take_word(r, word);
    double percent = isdigit((unsigned char)word[0]) ? strtod(word, &end) : 0;
    if (!isdigit((unsigned char)word[0]) || *end || !(percent > 0 && percent <= 100))
        return wrong(r, begin, "invalid percentage", "above 0 and up to 100");
    rule->when = FAULT_PERCENT;
    rule->fraction = percent / 100;
    return 0;
}

static int take_when(struct reading *r, struct fault_rule *rule)
{
    char sign = *r->at;
    if (sign != '@' && sign != '/' && sign != '%')
        return 0;
    r->at++;
    if (sign == '%')
        return take_percent(r, rule);
    rule->when = sign == '/' ? FAULT_EVERY : FAULT_NTH;
    int status = take_number(r, 1, &rule->n);
    if (!status && sign == '@' && *r->at == '+') {
        rule->when = FAULT_FROM;
        r->at++;
    }
    return status;
}

static int take_path(struct reading *r, struct fault_rule *rule)
{
    if (*r->at != ':')
        return 0;
    if (rule->operations & QUEUES)
        return wrong(r, r->at, "unexpected text", "\",\": a queue has no path");
    const char *begin = ++r->at;
    size_t bytes = strcspn(begin, ",");
    if (bytes == 0 || bytes >= FAULT_PATH_BYTES)
        return wrong(r, begin, "invalid part of a path", "1 to 127 bytes of text");
    memcpy(rule->path, begin, bytes);
    r->at += bytes;
    return 0;
}

static int take_rule(struct reading *r, struct fault_rules *rules)
{
    static const char seed[] = "seed=";
    if (strncmp(r->at, seed, sizeof seed - 1) == 0) {
        r->at += sizeof seed - 1;
        return take_number(r, 0, &rules->seed);
    }
    if (rules->count == FAULT_RULES_MAX)
        return wrong(r, r->at, "too many rules", "at most 16");
    struct fault_rule *rule = &rules->rules[rules->count++];
    int status = take_operation(r, rule);
    if (!status)
        status = take_effect(r, rule);
    if (!status)
        status = take_when(r, rule);
    return status ? status : take_path(r, rule);
}

int fault_rules_parse(const char *text, struct fault_rules *ret_rules, struct err *err)
{
    struct reading r = {.text = text, .at = text, .err = err};
    struct fault_rules rules = {0};
    while (*r.at) {
        int status = take_rule(&r, &rules);
        if (status)
            return status;
        if (*r.at && *r.at != ',')
            return wrong(&r, r.at, "unexpected text",
                         "\",\", \":\" and part of a path, or \"@\", \"/\" or \"%\" and a number");
        if (*r.at && *++r.at == '\0')
            return wrong(&r, r.at, "missing rule", "another rule after the comma");
    }
    *ret_rules = rules;
    return 0;
}

/* ---- Deciding. ---- */

/* Uses only the file's name, so that the folder's location does not matter. */
static struct philox_block draw(uint64_t seed, unsigned rule, enum fault_operation operation,
                                const char *path, uint64_t offset)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    uint64_t what = hash_64(name, strlen(name)) ^ (uint64_t)rule << 32 ^ (uint64_t)operation;
    return philox(seed, what, offset);
}

static bool is_its_turn(struct fault_rule *rule, const struct philox_block *random)
{
    uint64_t number = atomic_fetch_add_explicit(&rule->seen_count, 1, memory_order_relaxed) + 1;
    switch (rule->when) {
    case FAULT_NTH:
        return number == rule->n;
    case FAULT_FROM:
        return number >= rule->n;
    case FAULT_EVERY:
        return number % rule->n == 0;
    case FAULT_PERCENT:
        return philox_unit(random->word[0]) < rule->fraction;
    case FAULT_ALWAYS:
        break;
    }
    return true;
}

static void apply(const struct fault_rule *rule, const struct philox_block *random,
                  struct fault_verdict *verdict)
{
    verdict->is_hit = true;
    uint64_t place = (uint64_t)random->word[1] << 32 | random->word[2];
    switch (rule->effect) {
    case FAULT_ERROR:
        if (!verdict->error)
            verdict->error = rule->error;
        break;
    case FAULT_DELAY:
        verdict->delay_ns += rule->delay_ns;
        break;
    case FAULT_HOLD:
        verdict->holds = true;
        break;
    case FAULT_SHORT:
        verdict->cuts = true;
        verdict->cut_random = place;
        break;
    case FAULT_FLIP:
        verdict->flips = true;
        verdict->flip_random = place;
        break;
    case FAULT_KILL:
        raise(SIGKILL);
    }
}

struct fault_verdict fault_rules_decide(struct fault_rules *rules, enum fault_operation operation,
                                        const char *path, uint64_t offset)
{
    struct fault_verdict verdict = {0};
    for (unsigned i = 0; i < rules->count; i++) {
        struct fault_rule *rule = &rules->rules[i];
        if (!(rule->operations & BIT(operation)) || !strstr(path, rule->path))
            continue;
        struct philox_block random = draw(rules->seed, i, operation, path, offset);
        if (is_its_turn(rule, &random))
            apply(rule, &random, &verdict);
    }
    return verdict;
}

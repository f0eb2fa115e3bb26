/*
 * lease_record — formats and parses a lease's number file. See lease.h.
 */
#include "io/local/lease.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

size_t lease_format(const struct lease_record *record, char text[LEASE_TEXT_BYTES_MAX])
{
    int bytes = snprintf(text, LEASE_TEXT_BYTES_MAX,
                         "millrace-lease 1 state=%s period_ms=%" PRIu64 " pid=%" PRIu64
                         " pid_space=%" PRIu64 " token=%016" PRIx64 " boot=%s host=%s\n",
                         record->is_free ? "free" : "held", record->period_ms, record->pid,
                         record->pid_space, record->token, record->boot, record->host);
    return (size_t)bytes;
}

/* Advances *at past word; returns false if it is absent. */
static bool skip_word(const char **at, const char *word)
{
    size_t bytes = strlen(word);
    if (strncmp(*at, word, bytes) != 0)
        return false;
    *at += bytes;
    return true;
}

/* Parses a decimal without leading zeros, at most maximum. */
static bool parse_number(const char **at, uint64_t maximum, uint64_t *ret_number)
{
    uint64_t number = 0;
    const char *begin = *at;
    for (; **at >= '0' && **at <= '9'; ++*at) {
        uint64_t digit = (uint64_t)(**at - '0');
        if (number > (maximum - digit) / 10)
            return false;
        number = number * 10 + digit;
    }
    *ret_number = number;
    return *at > begin && (*begin != '0' || *at == begin + 1);
}

static bool parse_token(const char **at, uint64_t *ret_token)
{
    static const char digits[] = "0123456789abcdef";
    uint64_t token = 0;
    for (int i = 0; i < 16; i++, ++*at) {
        const char *digit = **at ? strchr(digits, **at) : NULL;
        if (!digit)
            return false;
        token = token << 4 | (uint64_t)(digit - digits);
    }
    *ret_token = token;
    return true;
}

/* Copies one or more printable, non-blank characters. */
static bool parse_text(const char **at, char *text, size_t bytes)
{
    size_t count = 0;
    for (; **at > ' ' && **at <= '~'; ++*at) {
        if (count + 1 >= bytes)
            return false;
        text[count++] = **at;
    }
    text[count] = '\0';
    return count > 0;
}

int lease_parse(const char *text, size_t bytes, struct lease_record *ret_record)
{
    struct lease_record record = {0};
    char line[LEASE_TEXT_BYTES_MAX];
    if (bytes >= sizeof line || memchr(text, '\0', bytes))
        return -EBADMSG;
    memcpy(line, text, bytes);
    line[bytes] = '\0';
    const char *at = line;
    if (!skip_word(&at, "millrace-lease 1 state="))
        return -EBADMSG;
    record.is_free = skip_word(&at, "free");
    bool good =
        (record.is_free || skip_word(&at, "held")) && skip_word(&at, " period_ms=") &&
        parse_number(&at, LEASE_PERIOD_MAX_MS, &record.period_ms) && record.period_ms > 0 &&
        skip_word(&at, " pid=") && parse_number(&at, INT32_MAX, &record.pid) && record.pid > 0 &&
        skip_word(&at, " pid_space=") && parse_number(&at, UINT64_MAX, &record.pid_space) &&
        skip_word(&at, " token=") && parse_token(&at, &record.token) && skip_word(&at, " boot=") &&
        parse_text(&at, record.boot, sizeof record.boot) && skip_word(&at, " host=") &&
        parse_text(&at, record.host, sizeof record.host) && skip_word(&at, "\n") && *at == '\0';
    if (!good)
        return -EBADMSG;
    *ret_record = record;
    return 0;
}

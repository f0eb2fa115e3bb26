/*
 * bpe_added — see bpe_added.h.
 */
#include "tokenizer/bpe_added.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void bpe_added_deinit(struct bpe_added *added)
{
    for (size_t i = 0; i < added->count; i++)
        free(added->tokens[i].text);
    free(added->tokens);
    *added = (struct bpe_added){0};
}

int bpe_added_add(struct bpe_added *added, const char *text, uint32_t token, bool is_special)
{
    char *copy = strdup(text);
    struct bpe_added_token *grown =
        copy ? realloc(added->tokens, (added->count + 1) * sizeof *grown) : NULL;
    if (!grown) {
        free(copy);
        return -ENOMEM;
    }
    added->tokens = grown;
    grown[added->count++] = (struct bpe_added_token){copy, strlen(copy), token, is_special};
    return 0;
}

static int compare_tokens(const void *a, const void *b)
{
    const struct bpe_added_token *one = a, *other = b;
    uint8_t first = (uint8_t)one->text[0], second = (uint8_t)other->text[0];
    if (first != second)
        return first < second ? -1 : 1;
    return one->bytes != other->bytes ? (one->bytes > other->bytes ? -1 : 1)
                                      : strcmp(one->text, other->text);
}

void bpe_added_sort(struct bpe_added *added)
{
    added->is_empty = true;
    added->only_first = added->count > 0 ? (uint8_t)added->tokens[0].text[0] : -1;
    if (added->count > 0)
        qsort(added->tokens, added->count, sizeof *added->tokens, compare_tokens);
    for (size_t i = 0; i < added->count; i++) {
        uint8_t first = (uint8_t)added->tokens[i].text[0];
        added->first[first + 1]++;
        added->only_first = first == added->only_first ? first : -1;
        added->is_empty = added->is_empty && added->tokens[i].is_special;
    }
    for (size_t byte = 1; byte < 257; byte++)
        added->first[byte] += added->first[byte - 1];
}

/* Returns the longest token at text, or NULL. */
static const struct bpe_added_token *find_at(const struct bpe_added *added, const uint8_t *text,
                                             size_t bytes)
{
    for (uint32_t i = added->first[text[0]]; i < added->first[text[0] + 1]; i++) {
        const struct bpe_added_token *token = &added->tokens[i];
        if (token->bytes <= bytes && memcmp(token->text, text, token->bytes) == 0)
            return token;
    }
    return NULL;
}

const struct bpe_added_token *bpe_added_find(const struct bpe_added *added, const uint8_t *text,
                                             size_t bytes, size_t at, size_t *ret_begin)
{
    while (at < bytes) {
        const uint8_t *next =
            added->only_first >= 0 ? memchr(text + at, added->only_first, bytes - at) : text + at;
        if (!next)
            return NULL;
        at = (size_t)(next - text);
        const struct bpe_added_token *found = find_at(added, text + at, bytes - at);
        if (found && !found->is_special) {
            *ret_begin = at;
            return found;
        }
        at += found ? found->bytes : 1;
    }
    return NULL;
}

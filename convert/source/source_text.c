/*
 * source_text — arranges documents as one stream of tokens, cut into members. See source.h.
 *
 *     stream    doc0 E doc1 E doc2 E ...              E: the document end
 *     splits    [ train ......... )[ val ... )        contiguous parts by fraction, cut anywhere
 *     members   [64 Ki + 1) of each split; a member's last token is the next one's first; the
 *               last is shorter
 */
#include "convert/source/source.h"

#include <inttypes.h>
#include <stdio.h>

/* The number of members for count tokens. The last one has at least one token beyond the overlap,
 * unless there is only one token. */
static uint64_t members_of(uint64_t count)
{
    return count <= 1 ? count : (count - 2) / SOURCE_MEMBER_TOKENS + 1;
}

/* The token where a split ends, by the fractions up to it. */
static uint64_t split_end(const struct convert_options *options, uint32_t split, uint64_t total)
{
    double fraction = 0;
    if (split + 1 >= options->splits_count)
        return total;
    for (uint32_t i = 0; i <= split; i++)
        fraction += options->splits[i].fraction;
    uint64_t end = (uint64_t)(fraction * (double)total + 0.5);
    return end < total ? end : total;
}

void source_lay_out_tokens(struct source *source)
{
    uint64_t first = 0;
    if (source->pieces_count == 0)
        return;
    uint64_t total = source->pieces[source->pieces_count - 1].tokens_end;
    uint32_t splits = source->options->splits_count ? source->options->splits_count : 1;
    for (uint32_t split = 0; split < splits; split++) {
        uint64_t end = split_end(source->options, split, total);
        struct source_tokens *tokens = &source->tokens[split];
        *tokens = (struct source_tokens){
            .first = first, .count = end - first, .first_item = source->items};
        tokens->items = members_of(tokens->count);
        source->items += tokens->items;
        first = end;
    }
}

static uint32_t split_of(const struct source *source, uint64_t item)
{
    uint32_t split = 0;
    while (item >= source->tokens[split].first_item + source->tokens[split].items)
        split++;
    return split;
}

void source_item_tokens(const struct source *source, uint64_t item, uint64_t *ret_first,
                        uint64_t *ret_count)
{
    const struct source_tokens *tokens = &source->tokens[split_of(source, item)];
    uint64_t within = (item - tokens->first_item) * SOURCE_MEMBER_TOKENS,
             rest = tokens->count - within;
    *ret_first = tokens->first + within;
    *ret_count = rest < SOURCE_MEMBER_TOKENS + 1 ? rest : SOURCE_MEMBER_TOKENS + 1;
}

void source_describe_tokens(const struct source *source, uint64_t item,
                            struct source_item *ret_item)
{
    uint64_t first, count;
    source_item_tokens(source, item, &first, &count);
    ret_item->split = split_of(source, item);
    ret_item->number = item;
    ret_item->bytes = count < SOURCE_MEMBER_TOKENS ? count : SOURCE_MEMBER_TOKENS;
    snprintf(ret_item->key, sizeof ret_item->key, "tokens-%08" PRIu64,
             item - source->tokens[ret_item->split].first_item);
}

/*
 * class_numbers — see class_numbers.h.
 */
#include "convert/source/class_numbers.h"

#include "convert/source/file_list.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLASS_DIGITS_MAX = 7 }; /* FILE_LIST_CLASSES_MAX has 7 */

/* Returns whether a name is a class number in decimal. */
static bool parse_class_number(const char *name, uint32_t *ret_number)
{
    size_t digits = strspn(name, "0123456789");
    if (digits == 0 || digits > CLASS_DIGITS_MAX || name[digits] || (name[0] == '0' && name[1]))
        return false;
    *ret_number = (uint32_t)strtoul(name, NULL, 10);
    return *ret_number < FILE_LIST_CLASSES_MAX;
}

struct class_rank {
    const char *name;
    uint32_t number; /* in the set */
};

static int compare_ranks(const void *a, const void *b)
{
    return strcmp(((const struct class_rank *)a)->name, ((const struct class_rank *)b)->name);
}

/* Sets the classes of the source, and per class name its number: itself if all names are numbers,
 * else its rank in byte order. */
static int number_classes(struct source *source, const struct name_set *names, uint32_t *numbers,
                          struct err *err)
{
    uint64_t count = name_set_count(names), classes = 0;
    bool are_numbers = true;
    for (uint64_t i = 0; i < count && are_numbers; i++) {
        are_numbers = parse_class_number(name_set_at(names, i), &numbers[i]);
        if (are_numbers && classes <= numbers[i])
            classes = (uint64_t)numbers[i] + 1;
    }
    struct class_rank *ranks = calloc(count, sizeof *ranks);
    if (!are_numbers)
        classes = count;
    source->classes = calloc(classes, sizeof *source->classes);
    bool has_memory = ranks && source->classes;
    for (uint64_t i = 0; i < count && has_memory; i++)
        ranks[i] = (struct class_rank){name_set_at(names, i), (uint32_t)i};
    if (has_memory && !are_numbers)
        qsort(ranks, count, sizeof *ranks, compare_ranks);
    for (uint64_t i = 0; i < classes && has_memory; i++) {
        char digits[24];
        snprintf(digits, sizeof digits, "%" PRIu64, i);
        source->classes[i] = strdup(are_numbers ? digits : ranks[i].name);
        has_memory = source->classes[i];
        source->classes_count += has_memory;
        if (!are_numbers)
            numbers[ranks[i].number] = (uint32_t)i;
    }
    free(ranks);
    return has_memory ? 0 : err_set(err, -ENOMEM, "out of memory for class names");
}

int class_numbers_set(struct source *source, const struct name_set *names, uint32_t *items,
                      uint64_t items_count, struct err *err)
{
    uint64_t count = name_set_count(names);
    if (count == 0)
        return 0;
    uint32_t *numbers = calloc(count, sizeof *numbers);
    int status = numbers ? number_classes(source, names, numbers, err)
                         : err_set(err, -ENOMEM, "out of memory for class names");
    for (uint64_t i = 0; i < items_count && !status; i++)
        if (items[i] != SOURCE_NO_CLASS)
            items[i] = numbers[items[i]];
    free(numbers);
    return status;
}

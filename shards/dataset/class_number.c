/*
 * class_number — see class_number.h.
 */
#include "shards/dataset/class_number.h"

#include <errno.h>

int class_number_parse(const void *data, size_t bytes, uint64_t classes_count, int32_t *ret_number)
{
    const char *text = data;
    uint64_t value = 0;
    size_t digits = 0;
    if (bytes > CLASS_NUMBER_BYTES_MAX)
        return -EBADMSG;
    while (digits < bytes && text[digits] >= '0' && text[digits] <= '9' && value <= INT32_MAX)
        value = value * 10 + (uint64_t)(text[digits++] - '0');
    size_t end = digits;
    while (end < bytes &&
           (text[end] == '\n' || text[end] == '\r' || text[end] == ' ' || text[end] == '\t'))
        end++;
    if (digits == 0 || end < bytes || value > INT32_MAX ||
        (classes_count && value >= classes_count))
        return -EBADMSG;
    *ret_number = (int32_t)value;
    return 0;
}

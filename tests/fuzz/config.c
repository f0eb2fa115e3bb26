/*
 * config — fuzz target: the YAML configuration (base/yaml/yaml.h, trainer/config/config.h). An
 * accepted configuration can be printed; the output is accepted and prints identically.
 */
#include "trainer/config/config.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct train_config config, again;
    struct str text = {0}, text_again = {0};
    struct err err;
    if (config_parse((const char *)data, bytes, "input", NULL, 0, &config, &err))
        return 0;
    config_print(&config, &text);
    if (config_parse(text.data, text.bytes, "printed", NULL, 0, &again, &err))
        abort();
    config_print(&again, &text_again);
    if (text.bytes != text_again.bytes || memcmp(text.data, text_again.data, text.bytes) != 0)
        abort();
    str_deinit(&text);
    str_deinit(&text_again);
    return 0;
}

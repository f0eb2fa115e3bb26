/*
 * nvtx_fake — a shared object that NVTX loads as a profiler (NVTX_INJECTION64_PATH). It writes one
 * line per event to the file named by NVTX_FAKE_LOG: "> step" when a span begins, "<" when it ends.
 * Spans come from one thread.
 */
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>

static FILE *spans;

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table);

static int NVTX_API push(const char *name)
{
    fprintf(spans, "> %s\n", name);
    return 0;
}

static int NVTX_API pop(void)
{
    fprintf(spans, "<\n");
    return 0;
}

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table)
{
    const char *path = getenv("NVTX_FAKE_LOG");
    const NvtxExportTableCallbacks *callbacks = get_table(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table;
    unsigned count = 0;
    spans = path ? fopen(path, "w") : NULL;
    if (!spans || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &count) ||
        count <= NVTX_CBID_CORE_RangePop)
        return 0;
    *table[NVTX_CBID_CORE_RangePushA] = (NvtxFunctionPointer)push;
    *table[NVTX_CBID_CORE_RangePop] = (NvtxFunctionPointer)pop;
    return 1;
}

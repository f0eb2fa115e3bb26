/*
 * file_names — see file_names.h.
 */
#include "convert/source/file_names.h"

#include "base/str.h"
#include "base/utf8.h"
#include "image/pipeline/check.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <string.h>
#include <strings.h>

bool name_is_one_of(const char *name, const char *const *names)
{
    for (; *names; names++)
        if (strcasecmp(name, *names) == 0)
            return true;
    return false;
}

bool name_is_hidden(const char *name)
{
    static const char *const names[] = {"Thumbs.db",
                                        "ehthumbs.db",
                                        "desktop.ini",
                                        "__MACOSX",
                                        "Icon\r",
                                        "$RECYCLE.BIN",
                                        "System Volume Information",
                                        "lost+found",
                                        "@eaDir",
                                        "__pycache__",
                                        NULL};
    return name[0] == '.' || name_is_one_of(name, names);
}

bool name_is_plain(const char *name)
{
    const unsigned char *at = (const unsigned char *)name;
    while (*at) {
        size_t bytes = utf8_sequence_bytes(at, strnlen((const char *)at, 4));
        if (bytes == 0 || *at < 0x20 || *at == 0x7f)
            return false;
        at += bytes;
    }
    return true;
}

bool name_is_reserved(const char *name)
{
    size_t bytes = strlen(name);
    return bytes >= 4 && strcmp(name + bytes - 2, "__") == 0 &&
           strstr(name, "__") <= name + bytes - 4;
}

bool name_is_readme(const char *name, bool txt_is_data)
{
    static const char *const stems[] = {"readme",  "license", "licence",   "copying", "copyright",
                                        "authors", "notice",  "changelog", "citation"};
    static const char *const ends[] = {"", ".md", ".rst", ".html", ".cff", ".txt"};
    for (size_t i = 0; i < sizeof stems / sizeof stems[0]; i++) {
        size_t bytes = strlen(stems[i]);
        if (strncasecmp(name, stems[i], bytes) != 0)
            continue;
        for (size_t end = 0; end < sizeof ends / sizeof ends[0]; end++)
            if (strcasecmp(name + bytes, ends[end]) == 0)
                return !txt_is_data || strcmp(ends[end], ".txt") != 0;
    }
    return false;
}

bool name_is_split(const char *name)
{
    static const char *const names[] = {"train", "training", "val",     "valid", "validation",
                                        "dev",   "test",     "testing", NULL};
    return name_is_one_of(name, names);
}

bool name_is_ignored(const struct convert_options *options, const char *relative)
{
    const char *slash = strrchr(relative, '/'), *base = slash ? slash + 1 : relative;
    for (size_t i = 0; i < options->ignore_globs.count; i++) {
        const char *glob = options->ignore_globs.items[i];
        if (strchr(glob, '/') ? fnmatch(glob, relative, FNM_PATHNAME) == 0
                              : fnmatch(glob, base, 0) == 0)
            return true;
    }
    return false;
}

void extension_normalize(const char *text, char extension[SHARD_EXTENSION_BYTES_MAX])
{
    size_t i = 0;
    for (; text[i] && i + 1 < SHARD_EXTENSION_BYTES_MAX; i++)
        extension[i] = text[i] == ' ' ? '_' : (char)tolower((unsigned char)text[i]);
    extension[i] = '\0';
    if (strcmp(extension, "jpeg") == 0)
        strcpy(extension, "jpg");
}

void name_write_extension(const char *name, char extension[SHARD_EXTENSION_BYTES_MAX])
{
    const char *dot = strrchr(name, '.');
    extension_normalize(dot ? dot + 1 : "", extension);
}

static bool is_listed_field(const struct convert_options *options, const char *extension)
{
    for (size_t i = 0; i < options->fields.count; i++) {
        char field[SHARD_EXTENSION_BYTES_MAX];
        const char *text = options->fields.items[i];
        extension_normalize(text + (text[0] == '.'), field);
        if (strcmp(field, extension) == 0)
            return true;
    }
    return false;
}

const char *name_find_extension(const struct convert_options *options, const char *name)
{
    char extension[SHARD_EXTENSION_BYTES_MAX];
    const char *last = strrchr(name, '.');
    for (const char *dot = strchr(name, '.'); dot && dot != last; dot = strchr(dot + 1, '.')) {
        extension_normalize(dot + 1, extension);
        if (is_listed_field(options, extension))
            return dot + 1;
    }
    return last ? last + 1 : NULL;
}

bool extension_is_field(const struct convert_options *options, const char *extension)
{
    static const char *const companions[] = {"json", "txt", "npy", "cls"};
    if (options->fields.count > 0)
        return is_listed_field(options, extension);
    for (size_t i = 0; i < sizeof companions / sizeof companions[0]; i++)
        if (strcmp(extension, companions[i]) == 0)
            return true;
    return is_image_extension(extension);
}

/* file.txt~ is part of CIFAR-100, whose other files have names that say less: train, test, meta. */
static bool is_cifar_pickle(const char *name)
{
    static const char *const names[] = {"batches.meta", "test_batch", "file.txt~"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return strncmp(name, "data_batch_", 11) == 0 && !strchr(name, '.');
}

/* Returns the part of a name before -NUMBER-of-NUMBER: its length. */
static size_t unnumbered_bytes(const char *name)
{
    static const char digits[] = "0123456789";
    const char *of = strrchr(name, '-'), *at = of;
    if (!of || of - name < 3 || memcmp(of - 3, "-of", 3) != 0 || !of[1] ||
        of[1 + strspn(of + 1, digits)])
        return strlen(name);
    for (at = of - 3; at > name && strchr(digits, at[-1]); at--)
        ;
    return at < of - 3 && at > name && at[-1] == '-' ? (size_t)(at - name - 1) : strlen(name);
}

bool name_has_tfrecord(const char *name)
{
    static const char *const ends[] = {".tfrecord", ".tfrecords", ".tfrec"};
    size_t bytes = unnumbered_bytes(name);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        size_t end_bytes = strlen(ends[i]);
        if (bytes >= end_bytes && strncasecmp(name + bytes - end_bytes, ends[i], end_bytes) == 0)
            return true;
    }
    return false;
}

bool name_is_tfrecord(const char *name)
{
    return name_has_tfrecord(name) || (name[unnumbered_bytes(name)] && !strchr(name, '.'));
}

bool name_describes_records(const char *name)
{
    return strcmp(name, "index.json") == 0 || strcmp(name, "dataset_info.json") == 0 ||
           strcmp(name, "features.json") == 0 || str_ends_with(name, ".labels.txt");
}

const char *name_unsupported_format(const struct convert_options *options, const char *name)
{
    static const struct {
        const char *end, *format;
    } formats[] = {
        {".tar", "a tar archive"},
        {".7z", "a 7z archive"},
        {".rar", "a RAR archive"},
        {".beton", "an FFCV dataset"},
        {".parquet", "Parquet"},
        {".arrow", "Arrow"},
        {".feather", "Arrow"},
        {".orc", "ORC"},
        {".avro", "Avro"},
        {".h5", "HDF5"},
        {".hdf5", "HDF5"},
        {".mdb", "LMDB"},
        {".lmdb", "LMDB"},
        {".rec", "MXNet RecordIO"},
        {".npz", "NumPy's npz"},
        {".mat", "MATLAB"},
        {".pkl", "a Python pickle"},
        {".pickle", "a Python pickle"},
        {".sqlite", "a SQL database"},
        {".sqlite3", "a SQL database"},
        {".db", "a SQL database"},
        {".sql", "a SQL database"},
        {".xlsx", "an Excel workbook"},
        {".csv", "a CSV list"},
        {".tsv", "a TSV list"},
        {".jsonl", "JSON Lines"},
        {".ndjson", "JSON Lines"},
        {"-ubyte", "MNIST's idx"},
        {"-ubyte.gz", "MNIST's idx"},
        {".safetensors", "safetensors"},
        {".pt", "a PyTorch file"},
        {".pth", "a PyTorch file"},
    };
    char extension[SHARD_EXTENSION_BYTES_MAX];
    name_write_extension(name, extension);
    if (is_listed_field(options, extension))
        return NULL;
    if (is_cifar_pickle(name))
        return "CIFAR's Python version (pickles)";
    if (strcmp(name, "dataset.json") == 0)
        return "a dataset of shards";
    if (name_is_archive(name))
        return "an archive";
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        if (str_ends_with_nocase(name, formats[i].end))
            return formats[i].format;
    return name_is_tfrecord(name)  ? "TFRecord"
           : name_is_mds(name)     ? "MDS shards"
           : name_is_litdata(name) ? "litdata chunks"
                                   : NULL;
}

static bool ends_with_any(const char *name, const char *const *ends, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (str_ends_with_nocase(name, ends[i]))
            return true;
    return false;
}

bool name_is_json_lines(const char *name)
{
    static const char *const ends[] = {".jsonl", ".ndjson"};
    return ends_with_any(name, ends, sizeof ends / sizeof ends[0]);
}

bool name_is_own_source(const char *name)
{
    static const char *const ends[] = {".csv", ".tsv", ".jsonl", ".ndjson", ".npz", ".beton"};
    return ends_with_any(name, ends, sizeof ends / sizeof ends[0]);
}

bool name_is_mds(const char *name)
{
    static const char *const ends[] = {".mds",    ".mds.zstd",   ".mds.zst", ".mds.gz",
                                       ".mds.br", ".mds.snappy", ".mds.bz2"};
    return ends_with_any(name, ends, sizeof ends / sizeof ends[0]);
}

bool name_is_litdata(const char *name)
{
    return strncmp(name, "chunk-", 6) == 0 && str_ends_with(name, ".bin");
}

bool name_is_archive(const char *name)
{
    static const char *const ends[] = {".tar.gz", ".tgz",     ".tar.bz2", ".tbz2",    ".tar.xz",
                                       ".txz",    ".tar.zst", ".tzst",    ".tar.lz4", ".zip"};
    return ends_with_any(name, ends, sizeof ends / sizeof ends[0]);
}

bool name_is_tar_or_archive(const char *name)
{
    return str_ends_with_nocase(name, ".tar") || name_is_archive(name);
}

/* Advice on a format; NULL: unpack it. */
static const char *advice_on(const char *format)
{
    static const char export[] =
        "export it to JSON Lines first, for example with Python: "
        "pandas.read_parquet(FILE).to_json(\"list.jsonl\", orient=\"records\", lines=True)",
                      list[] = "convert the list itself: it names its files; or name it metadata "
                               "(metadata.csv, metadata.jsonl), with a row for each file; or skip "
                               "it with --ignore",
                      lines[] = "add --tokenizer if each line is a document; otherwise convert the "
                                "list itself: it names its files; or name it metadata.jsonl, with "
                                "a row for each file; or skip it with --ignore",
                      itself[] = "convert the file itself: name it as the source",
                      folder[] = "convert a folder of nothing but these files: name it as the "
                                 "source";
    static const struct {
        const char *format, *advice;
    } advice[] = {
        {"Parquet", export},
        {"Arrow", export},
        {"ORC", export},
        {"Avro", export},
        {"a SQL database", "export it to CSV with a header line first, for example with `sqlite3 "
                           "-header -csv FILE QUERY`"},
        {"an Excel workbook", "save it as CSV first"},
        {"a CSV list", list},
        {"a TSV list", list},
        {"JSON Lines", lines},
        {"NumPy's npz", itself},
        {"an FFCV dataset", itself},
        {"MNIST's idx", folder},
        {"CIFAR's Python version (pickles)",
         "download the binary version instead: cifar-10-binary.tar.gz or cifar-100-binary.tar.gz"},
        {"TFRecord", "convert the records alone: a folder of them, or a pattern such as "
                     "'FOLDER/*.tfrecord*'; or skip them with --ignore"},
        {"MDS shards", "convert the folder that holds index.json and the shards, and nothing else"},
        {"litdata chunks", "convert the folder that holds index.json and the chunks, and nothing "
                           "else"},
        {"a JSON array", "write one object per line first, for example with `jq -c '.[]'`"},
    };
    for (size_t i = 0; format && i < sizeof advice / sizeof advice[0]; i++)
        if (strcmp(advice[i].format, format) == 0)
            return advice[i].advice;
    return NULL;
}

int reject_unsupported_format(const char *path, const char *format, struct err *err)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    err_set(err, -ENOTSUP, "the source format is not supported");
    err_at(err, path, ERR_NO_OFFSET);
    err_expected(
        err, "photos, in class folders or with other files; COCO, Pascal VOC or YOLO; a list (JSON "
             "Lines, CSV, TSV); arrays (NumPy, idx, CIFAR, FFCV); tars, zips, TFRecord, MDS or "
             "litdata; a dataset; text or token files");
    err_found(err, "%s", format ? format : "a file of another type");
    const char *advice = advice_on(format);
    if (advice)
        err_advise(err, "%s", advice);
    else if (dot && dot[1])
        err_advise(err, "unpack it into a folder first, or skip it with --ignore '*%s'", dot);
    else
        err_advise(err, "unpack it into a folder first");
    return -ENOTSUP;
}

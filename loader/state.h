/*
 * state — a loader: its datasets, its slots, and the stages that work on them.
 *
 *     plan -> [reader] -> ready items -> [decode pool] -> complete slots -> [consumer]
 *                 \______________________ memory budget ______________________/
 *
 * Micro-batch n of this loader uses slot n mod slots_count.
 *
 * Locks, in this order:
 *     mutex           the slots, and all fields marked G here and in the stages' headers
 *     memory.mutex    the memory budget, a leaf
 * The shard cache's mutex is never held together with either.
 */
#ifndef MILLRACE_LOADER_STATE_H
#define MILLRACE_LOADER_STATE_H

#include "loader/batch_memory.h"
#include "loader/consumer.h"
#include "loader/decode_pool.h"
#include "loader/memory_budget.h"
#include "loader/parts/name_list.h"
#include "loader/reader.h"

enum { LOADER_FROM_BYTES_MAX = 256 }; /* field names separated by `;` */

struct load_source {
    struct dataset *dataset;
    struct view *view;
    bool is_resident; /* small: what is read stays in memory (long_reads.h) */
    /* Pieces closer than this share a read: the medium's io_gap_bytes, limited by the memory for
     * gaps (budget.c). */
    uint64_t gap_bytes_max;
};

struct loader {
    /* Immutable after open. */
    struct loader_options options; /* strings point into the loader */
    char field[LOADER_FROM_BYTES_MAX];
    void *fields_memory;                  /* of options.fields and its strings */
    struct name_list *maps;               /* by number of field; NULL: none has names */
    struct field_tokens *tokens;          /* by number of field; NULL: none is tokens */
    struct io *io, *own_io, *seekable_io; /* seekable_io: NULL unless a dataset is compressed */
    struct device *device, *own_device;
    struct load_source *sources; /* by dataset number */
    uint32_t sources_count;
    struct loader_schema schema; /* of the first dataset; the others agree */
    char *label_path;            /* options.image.label.path */
    struct name_list class_list; /* options.image.label.map */
    const char **class_names;    /* its names by number */
    /* reference label for each dataset label, or NULL */
    int32_t *label_map;
    uint64_t labels_count; /* stored labels are below this; 0: unknown */
    uint64_t classes_count;
    struct shard_cache *cache;
    struct order_params order; /* for a mix: of all samples; window and run as requested */
    uint64_t steps;            /* per epoch */
    uint32_t slots_count, pieces_max;
    bool is_for_samples; /* of a sample_reader: no slots and no threads */
    uint64_t opened_ns;
    char pixels_libraries[IMAGE_LIBRARIES_BYTES]; /* "" if nothing is decoded */
    struct loader_dataset *datasets;              /* the consumer updates the counts */

    struct reader reader;
    struct decode_pool pool;
    struct consumer consumer;
    struct memory_budget memory;
    struct batch_memories memories[BATCH_MEMORY_KINDS];
    struct ragged_pool ragged;

    pthread_mutex_t mutex;
    struct load_slot *slots;
    /* G: counts of micro-batches: released <= taken <= ready (decoded) <= planned (begun);
     * released: all before the first that the consumer holds */
    uint64_t planned, ready, taken, released;
    uint64_t releases_count;          /* G: of any micro-batches */
    bool stop;                        /* G */
    bool is_closed, is_emptied;       /* G: loader_close was called; contents are freed */
    struct loader_stats stats;        /* G */
    uint64_t consumer_stall_since_ns; /* G: when all stages began to wait for the consumer, or 0 */
};

static inline struct load_slot *loader_slot(struct loader *loader, uint64_t number)
{
    return &loader->slots[number % loader->slots_count];
}

static inline uint64_t loader_pixels(const struct loader *loader)
{
    return (uint64_t)loader->options.image.width * loader->options.image.height;
}

/* As decoded, RGB. */
static inline uint64_t loader_picture_bytes(const struct loader *loader)
{
    return 3 * loader_pixels(loader);
}

/* As in the batch. */
static inline uint64_t loader_image_bytes(const struct loader *loader)
{
    const struct normalize_options *normalize = &loader->options.image.normalize;
    return loader_pixels(loader) * normalize->channels * dtype_bytes(normalize->dtype);
}

/* Whether workers decode to a picture of their own first. */
static inline bool loader_needs_picture(const struct loader *loader)
{
    return loader->options.decode == LOADER_IMAGE &&
           (mixup_is_on(&loader->options.image.mixup) ||
            normalize_is_on(&loader->options.image.normalize));
}

/* Bytes per image besides pixels: label; with mixup, also partner label and weight. */
static inline uint64_t loader_labels_bytes(const struct loader *loader)
{
    uint64_t label_bytes = dtype_bytes(loader->options.image.label_dtype);
    return mixup_is_on(&loader->options.image.mixup) ? 2 * label_bytes + sizeof(float)
                                                     : label_bytes;
}

/* Bytes per image or window of the field "valid". */
static inline uint64_t loader_valid_bytes(const struct loader *loader)
{
    return loader->options.pad_last ? 1 : 0;
}

static inline const struct load_source *loader_source_of(const struct loader *loader,
                                                         struct sample_ref ref)
{
    return &loader->sources[ref.dataset];
}

/* sources.c: fills in sources, datasets and cache; requires io and options. Call
 * loader_sources_close even after a failure. */
int loader_sources_open(struct loader *loader, const struct loader_source *list, uint32_t count,
                        struct err *err);
void loader_sources_close(struct loader *loader); /* safe on a zeroed loader */
uint64_t loader_sources_fingerprint(const struct loader *loader);
/* Returns the number of lanes if options.lanes is 0. Requires open datasets. */
uint64_t loader_default_lanes(const struct loader *loader);
/* True if the files exceed half of the available memory. */
bool loader_sources_outgrow_memory(const struct loader *loader);

/* The pieces of the slot's item. */
static inline struct load_piece *loader_pieces(const struct loader *loader,
                                               const struct load_slot *slot, uint32_t item)
{
    return &slot->pieces[(size_t)item * loader->pieces_max];
}

static inline struct ragged_place *ragged_place(const struct loader *loader,
                                                const struct load_slot *slot, uint32_t item,
                                                uint32_t field)
{
    return &slot->places[(size_t)item * loader->options.fields_count + field];
}

/* schema.c: the meaning of labels and tokens; borrows from dataset. */
struct loader_schema dataset_schema(const struct dataset *dataset);
/* Properties unknown on either side are not compared. */
bool schema_has_same_tokens(const struct loader_schema *a, const struct loader_schema *b);
/* Formats "tokenizer "gpt2", ..." for err_expected and err_found. */
enum { SCHEMA_TEXT_BYTES = 160 };
const char *schema_describe_tokens(const struct loader_schema *schema,
                                   char text[SCHEMA_TEXT_BYTES]);
/* Requires datasets that agree. Checks them against options.reference and limits. Fills in schema,
 * label_map (freed by loader_sources_close), labels_count and classes_count. */
int loader_check_schema(struct loader *loader, struct err *err);
/* For a record with tokens, once the tokenizers are open: their part of schema. -EINVAL. */
int loader_check_field_tokens(struct loader *loader, struct err *err);

/* field_options.c: options.fields. -EINVAL with advice. */
int fields_check(const struct loader_options *options, struct err *err);
/* Copies options->fields with their strings. Free *ret_memory. -ENOMEM. */
int fields_copy(const struct loader_options *options, const struct loader_field **ret_fields,
                void **ret_memory);
/* Returns the offset of a dense field's array in the small memory, and for fields_count, the end of
 * all of them. */
uint64_t fields_offset(const struct loader *loader, uint32_t field);
/* The same for a field_is_large, in the large memory. Saturates. */
uint64_t fields_large_offset(const struct loader *loader, uint32_t field);

/* field_geometry.c: the image that a field belongs to. Checks follows and image of a field. -EINVAL
 * with advice. */
int field_check_follows(const struct loader_options *options, const struct loader_field *field,
                        struct err *err);
/* Whether a field follows a field of boxes. */
bool field_follows_boxes(const struct loader_field *field);
/* Whether a field is an image that follows none. */
bool field_has_geometry(const struct loader_field *field);
/* Returns the number of such fields and "image". */
uint32_t loader_geometries(const struct loader *loader);
/* Returns the size in the batch of an image, or of what follows one. */
struct field_size {
    uint32_t width, height;
};
struct field_size field_target_size(const struct loader *loader, uint32_t field);
/* Returns the size of the largest image that workers decode to a picture of their own first, to mix
 * or normalize it; 0: none. */
uint64_t loader_picture_bytes_max(const struct loader *loader);
/* Fills in pool.field_normalizes. -ENOMEM. */
int field_normalizes_open(struct loader *loader, struct err *err);
const struct normalize *field_normalize(const struct loader *loader, uint32_t field); /* or NULL */
/* Opens the worker's pipelines of "image" and of such fields. Errors of image_pipeline_open. */
int field_pipelines_open(struct load_worker *worker, struct err *err);
void field_pipelines_close(struct load_worker *worker); /* safe on a zeroed worker */
/* Returns the pipeline that decodes an image, or the image that the field follows. */
struct image_pipeline *field_pipeline(const struct load_worker *worker, uint32_t field);

/* image_decode.c. Decodes a verified "image", and its label if pieces have one. -EBADMSG and
 * similar: item_failure_is_fatal is false. */
int image_decode(struct load_worker *worker, struct load_slot *slot, uint32_t item,
                 const struct shard *shard, struct sample_ref ref, const struct view_piece *pieces,
                 uint32_t count, struct err *err);
/* The same for LOADER_FIELD_IMAGE; after the image that it follows. The error names the field. */
int image_decode_field(struct load_worker *worker, struct load_slot *slot, uint32_t item,
                       uint32_t field, const struct shard *shard, struct sample_ref ref,
                       const struct view_piece *piece, struct err *err);
/* Puts the name of a field before an error of an image. */
void image_name_error(const char *name, struct err *err);

/* field_tokens.c. Checks the options of tokens; does nothing for other fields. -EINVAL. */
int field_check_tokens(const struct loader_field *field, struct err *err);
/* Opens the tokenizers of options.fields, each once. Errors of bpe_open_json and bpe_open_folder;
 * -EINVAL: a token of the options does not exist. */
int field_tokens_open(struct loader *loader, struct err *err);
/* Returns the tokenizer of all fields that are tokens; NULL if there is none, or several. */
const struct bpe *field_common_tokenizer(const struct loader *loader);
void field_tokens_close(struct loader *loader); /* safe on a zeroed loader */
/* Returns the name of the batch's field with the lengths of tokens; NULL: none. */
const char *field_length_name(const struct loader *loader, uint32_t field);
uint32_t field_tokenizers_count(const struct loader *loader); /* how many a worker may need */
void field_encoders_close(struct load_worker *worker);

/* field_map.c. Checks the option. -EINVAL. */
int field_check_map(const struct loader_field *field, struct err *err);
/* Reads the names of options.fields. Errors of name_list_read. */
int field_maps_open(struct loader *loader, struct err *err);
void field_maps_close(struct loader *loader); /* safe on a zeroed loader */

/* label.c. Copies the path of options.image.label and reads its class names. */
int label_open(struct loader *loader, struct err *err);
void label_close(struct loader *loader); /* safe on a zeroed loader */
/* Whether labels are the numbers of the dataset's own classes. */
bool label_is_stored_class(const struct loader_label *label);
/* Decodes a verified label to a number of the reference. -EBADMSG: not a class. */
int label_decode(struct load_worker *worker, const struct shard *shard,
                 const struct view_piece *piece, int32_t *ret_label, struct err *err);

/* field_decode.c. Finds the value at the path of the JSON document in a verified field; NULL: the
 * whole document. Values from one document parse it once per item; it lives until the item is
 * decoded. *ret_node: NULL if there is none, or null. -EBADMSG: not JSON. */
int field_find_value(struct load_worker *worker, const char *path, const struct shard *shard,
                     const struct view_piece *piece, struct json_t **ret_node, struct err *err);
/* Parses a JSON value to one of field_dtype. -EBADMSG: another type. */
int field_scalar_parse(enum loader_field_decode decode, const char *text, uint8_t *value,
                       struct err *err);
/* Decodes a verified field that is not an image; boxes with the fields that follow them, which are
 * not decoded by themselves. pieces: of all fields. -EBADMSG: it cannot be decoded; errors of
 * ragged_store. */
int field_decode(struct load_worker *worker, struct load_slot *slot, uint32_t item, uint32_t field,
                 const struct shard *shard, const struct view_piece *pieces, struct err *err);

/* loader_open.c: for a sample_reader, which has the slots. loader_next returns -EINVAL. Errors of
 * loader_open. */
int loader_open_for_samples(const struct loader_options *options, struct loader **ret_loader,
                            struct err *err);

/* loader_next.c; requires the mutex. Lets the reader use what was released. */
void loader_note_release(struct loader *loader);
/* loader_open.c; unlocks the mutex. After loader_close, frees what nobody holds any more. */
void loader_unlock_after_release(struct loader *loader);

/* stats.c; both require the mutex. Starts or ends a stall in which all stages wait for the
 * consumer. */
void stats_update_consumer_stall(struct loader *loader);
/* Adds the consumer's wait for the slot. */
void stats_add_wait(struct loader *loader, const struct load_slot *slot, uint64_t begin_ns,
                    uint64_t end_ns);

#endif

/*
 * tree — see tree.h.
 */
#include "tests/crash/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

static void fail_program(const char *what, const char *path)
{
    fprintf(stderr, "tree: %s %s: %s\n", what, path, strerror(errno));
    abort();
}

static void *xrealloc(void *memory, size_t bytes)
{
    void *result = realloc(memory, bytes > 0 ? bytes : 1);
    if (!result)
        fail_program("out of memory", "");
    return result;
}

static void join(char path[PATH_BYTES], const char *folder, const char *name)
{
    if (snprintf(path, PATH_BYTES, "%s/%s", folder, name) >= PATH_BYTES)
        fail_program("too long a path", folder);
}

/* ---- Nodes and names. ---- */

uint32_t tree_add(struct tree *tree, bool is_folder)
{
    tree->nodes = xrealloc(tree->nodes, (tree->count + 1) * sizeof *tree->nodes);
    tree->nodes[tree->count] = (struct tree_node){.is_folder = is_folder};
    return tree->count++;
}

/* The index of the name, or the index at which to insert it. */
static uint32_t find_entry_index(const struct tree_node *folder, const char *name)
{
    uint32_t at = 0;
    while (at < folder->entries_count && strcmp(folder->entries[at].name, name) < 0)
        at++;
    return at;
}

static bool entry_has_name(const struct tree_node *folder, uint32_t at, const char *name)
{
    return at < folder->entries_count && strcmp(folder->entries[at].name, name) == 0;
}

uint32_t tree_find(const struct tree *tree, uint32_t folder, const char *name)
{
    const struct tree_node *node = &tree->nodes[folder];
    uint32_t at = find_entry_index(node, name);
    return entry_has_name(node, at, name) ? node->entries[at].node : TREE_NONE;
}

void tree_link(struct tree *tree, uint32_t folder, const char *name, uint32_t node)
{
    struct tree_node *in = &tree->nodes[folder];
    uint32_t at = find_entry_index(in, name);
    if (!entry_has_name(in, at, name)) {
        in->entries = xrealloc(in->entries, (in->entries_count + 1) * sizeof *in->entries);
        memmove(in->entries + at + 1, in->entries + at,
                (in->entries_count - at) * sizeof *in->entries);
        in->entries[at].name = strdup(name);
        in->entries_count++;
    }
    in->entries[at].node = node;
}

void tree_unlink(struct tree *tree, uint32_t folder, const char *name)
{
    struct tree_node *in = &tree->nodes[folder];
    uint32_t at = find_entry_index(in, name);
    if (!entry_has_name(in, at, name))
        return;
    free(in->entries[at].name);
    in->entries_count--;
    memmove(in->entries + at, in->entries + at + 1, (in->entries_count - at) * sizeof *in->entries);
}

void tree_rename(struct tree *tree, uint32_t folder, const char *from, const char *to)
{
    uint32_t node = tree_find(tree, folder, from);
    if (node == TREE_NONE)
        return;
    tree_unlink(tree, folder, from);
    tree_link(tree, folder, to, node);
}

void tree_exchange(struct tree *tree, uint32_t folder, const char *a, const char *b)
{
    uint32_t a_node = tree_find(tree, folder, a), b_node = tree_find(tree, folder, b);
    if (a_node == TREE_NONE || b_node == TREE_NONE)
        return;
    tree_link(tree, folder, a, b_node);
    tree_link(tree, folder, b, a_node);
}

/* ---- Bytes. ---- */

void tree_set_size(struct tree *tree, uint32_t file, uint64_t bytes)
{
    struct tree_node *node = &tree->nodes[file];
    node->data = xrealloc(node->data, bytes);
    if (bytes > node->bytes)
        memset(node->data + node->bytes, 0, bytes - node->bytes);
    node->bytes = bytes;
}

void tree_write(struct tree *tree, uint32_t file, uint64_t offset, const void *data, uint64_t bytes)
{
    if (bytes == 0)
        return;
    if (tree->nodes[file].bytes < offset + bytes)
        tree_set_size(tree, file, offset + bytes);
    memcpy(tree->nodes[file].data + offset, data, bytes);
}

/* ---- Whole trees. ---- */

void tree_deinit(struct tree *tree)
{
    for (uint32_t i = 0; i < tree->count; i++) {
        for (uint32_t e = 0; e < tree->nodes[i].entries_count; e++)
            free(tree->nodes[i].entries[e].name);
        free(tree->nodes[i].entries);
        free(tree->nodes[i].data);
    }
    free(tree->nodes);
    *tree = (struct tree){0};
}

void tree_copy(struct tree *ret_tree, const struct tree *other)
{
    *ret_tree = (struct tree){.nodes = xrealloc(NULL, other->count * sizeof *other->nodes),
                              .count = other->count};
    for (uint32_t i = 0; i < other->count; i++) {
        const struct tree_node *from = &other->nodes[i];
        struct tree_node *to = &ret_tree->nodes[i];
        *to = *from;
        to->data = xrealloc(NULL, from->bytes);
        if (from->bytes > 0)
            memcpy(to->data, from->data, from->bytes);
        to->entries = xrealloc(NULL, from->entries_count * sizeof *to->entries);
        for (uint32_t e = 0; e < from->entries_count; e++)
            to->entries[e] =
                (struct tree_entry){strdup(from->entries[e].name), from->entries[e].node};
    }
}

static void read_file(struct tree *tree, uint32_t file, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat info;
    if (fd < 0 || fstat(fd, &info))
        fail_program("could not read", path);
    tree_set_size(tree, file, (uint64_t)info.st_size);
    for (uint64_t at = 0; at < tree->nodes[file].bytes;) {
        ssize_t n = read(fd, tree->nodes[file].data + at, tree->nodes[file].bytes - at);
        if (n <= 0)
            fail_program("could not read", path);
        at += (uint64_t)n;
    }
    close(fd);
}

struct scan_context {
    struct tree *tree;
    void (*seen)(void *context, uint32_t node, const char *path);
    void *context;
};

static void scan_folder(const struct scan_context *scan, uint32_t node, const char *path)
{
    DIR *listing = opendir(path);
    if (!listing)
        fail_program("could not list", path);
    for (struct dirent *entry; (entry = readdir(listing));) {
        char below[PATH_BYTES];
        struct stat info;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        join(below, path, entry->d_name);
        if (lstat(below, &info))
            fail_program("could not look at", below);
        uint32_t child = tree_add(scan->tree, S_ISDIR(info.st_mode));
        tree_link(scan->tree, node, entry->d_name, child);
        if (scan->seen)
            scan->seen(scan->context, child, below);
        if (S_ISDIR(info.st_mode))
            scan_folder(scan, child, below);
        else
            read_file(scan->tree, child, below);
    }
    closedir(listing);
}

void tree_scan(struct tree *ret_tree, const char *path,
               void (*seen)(void *context, uint32_t node, const char *path), void *context)
{
    *ret_tree = (struct tree){0};
    struct scan_context scan = {ret_tree, seen, context};
    uint32_t root = tree_add(ret_tree, true);
    if (seen)
        seen(context, root, path);
    scan_folder(&scan, root, path);
}

static void store_node(const struct tree *tree, uint32_t node, const char *path)
{
    const struct tree_node *from = &tree->nodes[node];
    if (!from->is_folder) {
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 || write(fd, from->data, from->bytes) != (ssize_t)from->bytes || close(fd))
            fail_program("could not write", path);
        return;
    }
    if (node != 0 && mkdir(path, 0777))
        fail_program("could not make", path);
    for (uint32_t e = 0; e < from->entries_count; e++) {
        char below[PATH_BYTES];
        join(below, path, from->entries[e].name);
        store_node(tree, from->entries[e].node, below);
    }
}

void tree_clear_folder(const char *path)
{
    DIR *listing = opendir(path);
    if (!listing)
        fail_program("could not list", path);
    for (struct dirent *entry; (entry = readdir(listing));) {
        char below[PATH_BYTES];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        join(below, path, entry->d_name);
        if (unlink(below) == 0)
            continue;
        tree_clear_folder(below);
        if (rmdir(below))
            fail_program("could not remove", below);
    }
    closedir(listing);
}

void tree_store(const struct tree *tree, const char *path)
{
    tree_clear_folder(path);
    store_node(tree, 0, path);
}

static void digest_node(const struct tree *tree, uint32_t node, struct hash_stream *stream)
{
    const struct tree_node *of = &tree->nodes[node];
    uint64_t head[3] = {of->is_folder, of->bytes, of->entries_count};
    hash_stream_update(stream, head, sizeof head);
    if (of->bytes > 0)
        hash_stream_update(stream, of->data, of->bytes);
    for (uint32_t e = 0; e < of->entries_count; e++) {
        hash_stream_update(stream, of->entries[e].name, strlen(of->entries[e].name) + 1);
        digest_node(tree, of->entries[e].node, stream);
    }
}

struct hash128 tree_digest(const struct tree *tree)
{
    struct hash_stream *stream = hash_stream_open();
    if (!stream)
        fail_program("out of memory", "");
    digest_node(tree, 0, stream);
    struct hash128 digest = hash_stream_128(stream);
    hash_stream_close(stream);
    return digest;
}

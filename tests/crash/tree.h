/*
 * tree — files and folders in memory: the actual or hypothetical contents of a disk.
 *
 *     tree_scan(&tree, "/some/folder");        // reads it; node 0 is the folder itself
 *     tree_rename(&tree, 0, ".tmp-a", "a");
 *     tree_store(&tree, "/another/folder");    // as real files
 *
 * Nodes have numbers. Like an open file, a node remains when its last name is removed. Errors (out
 * of memory, an unreadable file) end the program: this is for tests.
 *
 * Not thread-safe.
 */
#ifndef MILLRACE_TESTS_CRASH_TREE_H
#define MILLRACE_TESTS_CRASH_TREE_H

#include "base/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TREE_NONE UINT32_MAX

struct tree_entry {
    char *name;
    uint32_t node;
};

struct tree_node {
    bool is_folder;
    unsigned char *data; /* for a file */
    uint64_t bytes;
    struct tree_entry *entries; /* for a folder, sorted by name in byte order */
    uint32_t entries_count;
};

/* All zeros is an invalid tree. */
struct tree {
    struct tree_node *nodes;
    uint32_t count;
};

/* Reads the folder at path and everything below it. Calls seen (unless NULL) with each node and its
 * path. */
void tree_scan(struct tree *ret_tree, const char *path,
               void (*seen)(void *context, uint32_t node, const char *path), void *context);
void tree_copy(struct tree *ret_tree, const struct tree *other);
void tree_deinit(struct tree *tree);

/* Adds a node without a name. */
uint32_t tree_add(struct tree *tree, bool is_folder);
/* TREE_NONE if the folder has no such name. */
uint32_t tree_find(const struct tree *tree, uint32_t folder, const char *name);
/* Gives the node this name, replacing any node that has it. */
void tree_link(struct tree *tree, uint32_t folder, const char *name, uint32_t node);
/* Ignores a missing name. */
void tree_unlink(struct tree *tree, uint32_t folder, const char *name);
void tree_rename(struct tree *tree, uint32_t folder, const char *from, const char *to);
void tree_exchange(struct tree *tree, uint32_t folder, const char *a, const char *b);
/* Bytes added are zero. */
void tree_set_size(struct tree *tree, uint32_t file, uint64_t bytes);
void tree_write(struct tree *tree, uint32_t file, uint64_t offset, const void *data,
                uint64_t bytes);

/* Replaces the contents of the real folder with the tree. */
void tree_store(const struct tree *tree, const char *path);
/* A hash of everything reachable by names. */
struct hash128 tree_digest(const struct tree *tree);

/* Removes everything in the real folder. */
void tree_clear_folder(const char *path);

#endif

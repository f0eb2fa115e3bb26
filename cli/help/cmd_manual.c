/*
 * cmd_manual — `millrace manual [VERB | config | formats]`: prints a manual page, or writes all of
 * them to a folder.
 */
#include "cli/core/verbs.h"
#include "cli/help/manual.h"
#include "io/file_util.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct manual_args {
    struct common_args common;
    const char *out;
    bool force;
};

#define AT(member) offsetof(struct manual_args, member)
static const struct option rows[] = {
    {"out", 'o', OPTION_TEXT, AT(out), "DIR",
     .help = "write all pages, DIR/man1/millrace.1 and so on"},
    {"force", 0, OPTION_FLAG, AT(force), .help = "replace existing pages in DIR"},
};

static int out_of_memory(struct err *err)
{
    return err_set(err, -ENOMEM, "out of memory for a manual page");
}

/* DIR/man1/millrace.1 and so on. */
static int page_path(const char *folder, const struct manual_page *page,
                     char path[IO_PATH_BYTES_MAX], struct err *err)
{
    char name[MANUAL_NAME_BYTES + 16];
    snprintf(name, sizeof name, "man%u/%s.%u", page->section, page->name, page->section);
    return io_join_path(folder, name, path, err);
}

static int write_page(struct io *io, const char *folder, size_t n, const struct manual_page *page,
                      bool force, struct err *err)
{
    char path[IO_PATH_BYTES_MAX];
    struct str text = {0};
    manual_write(n, &text);
    int status = str_status(&text) ? out_of_memory(err) : 0;
    if (!status)
        status = page_path(folder, page, path, err);
    if (!status)
        status = io_write_file(io, path, text.data, text.bytes, force, err);
    str_deinit(&text);
    return status;
}

static int make_folders(struct io *io, const char *folder, struct err *err)
{
    static const char *const sections[] = {"man1", "man5"};
    int status = 0;
    for (size_t i = 0; i < 2 && !status; i++) {
        char path[IO_PATH_BYTES_MAX];
        status = io_join_path(folder, sections[i], path, err);
        if (!status)
            status = io->names->make_folder(io, path, err);
    }
    return status;
}

/* Checks before writing any page, so that an existing file does not leave half of the pages. */
static int check_free(struct io *io, const char *folder, struct err *err)
{
    struct manual_page page;
    for (size_t n = 0; manual_page_at(n, &page); n++) {
        char path[IO_PATH_BYTES_MAX];
        struct io_stat info;
        int status = page_path(folder, &page, path, err);
        if (!status)
            status = io->names->stat(io, path, &info, err);
        if (!status) {
            err_set(err, -EEXIST, "a manual page of that name already exists");
            err_at(err, path, ERR_NO_OFFSET);
            err_advise(err, "choose another folder, or add --force");
            return -EEXIST;
        }
        if (status != -ENOENT)
            return status;
    }
    err_clear(err);
    return 0;
}

static int write_all(const struct manual_args *args, struct err *err)
{
    struct manual_page page;
    struct io *io = NULL;
    int status = io_open(args->out, NULL, &io, err);
    if (!status && !args->force)
        status = check_free(io, args->out, err);
    if (!status)
        status = make_folders(io, args->out, err);
    for (size_t n = 0; !status && manual_page_at(n, &page); n++)
        status = write_page(io, args->out, n, &page, args->force, err);
    io_close(io);
    return status;
}

/* The page named by "millrace" and the words after it. */
static int find_page(const struct invocation *invocation, size_t *ret_n, struct err *err)
{
    struct str wanted = {0};
    struct manual_page page;
    str_add_text(&wanted, "millrace");
    for (size_t i = 0; i < invocation->positional_count; i++)
        str_add_format(&wanted, "-%s", invocation->positional[i]);
    int status = str_status(&wanted) ? out_of_memory(err) : -ENOENT;
    for (size_t n = 0; status == -ENOENT && manual_page_at(n, &page); n++)
        if (strcmp(page.name, str_text(&wanted)) == 0) {
            *ret_n = n;
            status = 0;
        }
    if (status == -ENOENT) {
        err_set(err, status, "there is no manual page %.80s", str_text(&wanted));
        err_advise(err, "`millrace help` lists the verbs");
    }
    str_deinit(&wanted);
    return status;
}

static int print_page(size_t n, struct err *err)
{
    struct str text = {0};
    manual_write(n, &text);
    int status = str_status(&text) ? out_of_memory(err) : 0;
    if (!status)
        fputs(str_text(&text), stdout);
    str_deinit(&text);
    return status;
}

static int run(const struct invocation *invocation, struct err *err)
{
    const struct manual_args *args = invocation->args;
    size_t n = 0;
    if (args->out && invocation->positional_count > 0) {
        err_set(err, -EINVAL, "--out writes all pages, not a single one");
        err_advise(err, "remove the name of the page, or remove --out");
        return EXIT_USAGE;
    }
    if (args->out)
        return write_all(args, err);
    int status = find_page(invocation, &n, err);
    if (status)
        return status == -ENOENT ? EXIT_USAGE : status;
    return print_page(n, err);
}

static const char *const examples[] = {
    "millrace manual convert dataset",
    "millrace manual config",
    "millrace manual --out share/man",
    NULL,
};

const struct verb verb_manual = {
    .name = "manual",
    .arguments = "[VERB | config | formats]",
    .arguments_most = 2,
    .summary = "Print a manual page in the format of man.",
    .details = "Without a name, print the page millrace(1). All pages are installed with millrace; "
               "to read one without installing it, run `millrace manual read | man -l -`.",
    .options = {rows, sizeof rows / sizeof rows[0]},
    .examples = examples,
    .args_bytes = sizeof(struct manual_args),
    .run = run,
};

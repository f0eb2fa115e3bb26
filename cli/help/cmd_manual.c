/*
 * cmd_manual — `millrace manual [VERB | config | formats]`: prints a manual page, or writes all of
 * them to a folder.
 */
#include "cli/core/storage.h"
#include "cli/help/manual.h"
#include "cli/verbs/verbs.h"
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
static const struct option option_rows[] = {
    {"out", 'o', OPTION_TEXT, AT(out), "DIR",
     .help = "write all pages, DIR/man1/millrace.1 and so on"},
    {"force", 0, OPTION_FLAG, AT(force), .help = "replace existing pages in DIR"},
};

static int page_path(const char *folder, const struct manual_page *page,
                     char path[IO_PATH_BYTES_MAX], struct err *err)
{
    char name[MANUAL_NAME_BYTES + 16];
    snprintf(name, sizeof name, "man%u/%s.%u", page->section, page->name, page->section);
    return io_join_path(folder, name, path, err);
}

static int generate_page(size_t n, struct str *ret_text, struct err *err)
{
    manual_write(n, ret_text);
    int status = str_status(ret_text);
    return status ? err_set(err, status, "out of memory for a manual page") : 0;
}

static int write_page(struct io *io, const char *path, size_t n, bool force, struct err *err)
{
    char folder[IO_PATH_BYTES_MAX];
    struct str text = {0};
    io_parent_path(path, folder);
    int status = generate_page(n, &text, err);
    if (!status)
        status = io->names->make_folder(io, folder, err);
    if (!status)
        status = io_write_file(io, path, text.data, text.bytes, force, err);
    str_deinit(&text);
    return status;
}

static int check_absent(struct io *io, const char *path, struct err *err)
{
    struct io_stat info;
    int status = io->names->stat(io, path, &info, err);
    if (status == -ENOENT) {
        err_clear(err);
        return 0;
    }
    if (status)
        return status;
    err_set(err, -EEXIST, "a manual page of that name already exists");
    err_at(err, path, ERR_NO_OFFSET);
    err_advise(err, "choose another folder, or add --force");
    return -EEXIST;
}

/* Checks all paths first, so that an existing file does not cause a partial set. */
static int write_all(const struct manual_args *args, struct err *err)
{
    struct manual_page page;
    struct io *io = NULL;
    char path[IO_PATH_BYTES_MAX];
    int status = storage_open_target(args->out, &io, err);
    for (size_t n = 0; !status && !args->force && manual_page_at(n, &page); n++) {
        status = page_path(args->out, &page, path, err);
        if (!status)
            status = check_absent(io, path, err);
    }
    for (size_t n = 0; !status && manual_page_at(n, &page); n++) {
        status = page_path(args->out, &page, path, err);
        if (!status)
            status = write_page(io, path, n, args->force, err);
    }
    io_close(io);
    return status;
}

static int print_page(const struct invocation *invocation, struct err *err)
{
    struct str name = {0}, text = {0};
    struct manual_page page;
    size_t n = 0;
    str_add_text(&name, "millrace");
    for (size_t i = 0; i < invocation->positional_count; i++)
        str_add_format(&name, "-%s", invocation->positional[i]);
    bool found;
    while ((found = manual_page_at(n, &page)) && strcmp(page.name, str_text(&name)) != 0)
        n++;
    int status = found ? generate_page(n, &text, err) : EXIT_USAGE;
    if (!status) {
        fputs(str_text(&text), stdout);
    } else if (!found) {
        err_set(err, -ENOENT, "there is no manual page %.80s", str_text(&name));
        err_advise(err, "`millrace help` lists the verbs");
    }
    str_deinit(&text);
    str_deinit(&name);
    return status;
}

static int run(const struct invocation *invocation, struct err *err)
{
    const struct manual_args *args = invocation->args;
    if (!args->out)
        return print_page(invocation, err);
    if (invocation->positional_count == 0)
        return write_all(args, err);
    err_set(err, -EINVAL, "--out writes all pages, not a single one");
    err_advise(err, "remove the name of the page, or remove --out");
    return EXIT_USAGE;
}

static const char *const examples[] = {
    "millrace manual convert dataset",
    "millrace manual config",
    "millrace manual --out share/man",
    NULL,
};

const struct verb verb_manual = {
    .name = "manual",
    .arguments = {"[VERB | config | formats]", 0, 2},
    .summary = "Print a manual page in man format.",
    .details = "Without a name, prints millrace(1). All pages are installed with millrace; "
               "to read one without installing it, run `millrace manual read | man -l -`.",
    .options = OPTION_TABLE(option_rows),
    .examples = examples,
    .args_bytes = sizeof(struct manual_args),
    .run = run,
};

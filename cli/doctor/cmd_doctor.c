/*
 * cmd_doctor — `millrace doctor [PATH]...`: reports features that this machine lacks, with advice.
 */
#include "cli/core/output.h"
#include "cli/core/signals.h"
#include "cli/doctor/doctor.h"
#include "cli/help/help.h"
#include "cli/verbs/verbs.h"

#include <errno.h>
#include <stdio.h>

enum { NAME_COLUMN = 8, TEXT_COLUMN = 24 };

struct doctor_args {
    struct common_args common;
    const char *dir;
};

struct doctor_run {
    bool as_json;
    atomic_int *stop;
    struct output output;
    size_t checks_count, notes_count, lacks_count;
    struct err *err; /* of the first missing requirement */
};

static const char *state_name(enum doctor_state state)
{
    static const char *const names[] = {
        [DOCTOR_OK] = "ok", [DOCTOR_NOTE] = "note", [DOCTOR_MISSING] = "lack"};
    return names[state];
}

static void print_finding(const char *name, const struct doctor_finding *finding)
{
    printf("  %-*s%-*s", NAME_COLUMN - 2, state_name(finding->state), TEXT_COLUMN - NAME_COLUMN,
           name);
    help_print_wrapped(str_text(&finding->found), TEXT_COLUMN, TEXT_COLUMN);
    if (finding->advice.bytes == 0)
        return;
    printf("%*s-> ", TEXT_COLUMN, "");
    help_print_wrapped(str_text(&finding->advice), TEXT_COLUMN + 3, TEXT_COLUMN + 3);
}

static void write_finding(struct jsonx_writer *json, const struct doctor_group *group,
                          const char *name, const struct doctor_finding *finding,
                          const struct str *facts)
{
    jsonx_begin_object(json, NULL);
    jsonx_write_string(json, "group", group->name);
    if (finding->folder)
        jsonx_write_string(json, "path", finding->folder->path);
    jsonx_write_string(json, "name", name);
    jsonx_write_string(json, "state", state_name(finding->state));
    jsonx_write_string(json, "found", str_text(&finding->found));
    if (finding->advice.bytes > 0)
        jsonx_write_string(json, "advice", str_text(&finding->advice));
    else
        jsonx_write_null(json, "advice");
    jsonx_write_raw(json, "facts", str_text(facts), facts->bytes);
    jsonx_end_object(json);
}

static void record_missing(struct doctor_run *run_state, const char *name,
                           const struct doctor_finding *finding)
{
    if (run_state->lacks_count++ > 0)
        return;
    err_set(run_state->err, -ENOTSUP, "a requirement of millrace is not met: %s", name);
    err_found(run_state->err, "%s", str_text(&finding->found));
    err_advise(run_state->err, "%s", str_text(&finding->advice));
}

static int run_check(struct doctor_run *run_state, const struct doctor_group *group,
                     const struct doctor_check *check, const struct doctor_folder *folder)
{
    struct str facts = {0};
    struct doctor_finding finding = {.folder = folder, .json.out = &facts};
    jsonx_begin_object(&finding.json, NULL);
    check->run(&finding);
    jsonx_end_object(&finding.json);
    run_state->checks_count++;
    run_state->notes_count += finding.state == DOCTOR_NOTE;
    if (finding.state == DOCTOR_MISSING)
        record_missing(run_state, check->name, &finding);
    int status = str_status(&facts);
    status = status ? status : str_status(&finding.found);
    status = status ? status : str_status(&finding.advice);
    if (!status && run_state->as_json)
        write_finding(&run_state->output.json, group, check->name, &finding, &facts);
    else if (!status)
        print_finding(check->name, &finding);
    str_deinit(&finding.found);
    str_deinit(&finding.advice);
    str_deinit(&facts);
    return status;
}

/* Stops only between checks, so that each check removes its temporary folder. */
static int check_stop(const struct doctor_run *run_state)
{
    return atomic_load(run_state->stop) ? -EINTR : 0;
}

static int run_group(struct doctor_run *run_state, const struct doctor_group *group,
                     const struct doctor_folder *folder)
{
    int status = check_stop(run_state);
    if (!status && !run_state->as_json)
        printf("%s%s%s%s\n", group->name, folder ? " " : "", folder ? folder->path : "",
               folder && folder->for_outputs ? " (for outputs)" : "");
    size_t count = folder ? folder->checks_count : group->count;
    for (size_t i = 0; i < count && !status; i++) {
        status = run_check(run_state, group, &group->checks[i], folder);
        if (!status)
            status = check_stop(run_state);
    }
    return status;
}

static int run_folder(struct doctor_run *run_state, const char *path, bool for_outputs)
{
    struct doctor_folder folder;
    int status = check_stop(run_state);
    if (status)
        return status;
    doctor_probe_folder(path, for_outputs, &folder);
    return run_group(run_state, &doctor_disk, &folder);
}

static int run_all(struct doctor_run *run_state, const struct invocation *invocation)
{
    const struct doctor_args *args = invocation->args;
    const struct doctor_group *const groups[] = {&doctor_machine, &doctor_software, &doctor_gpu};
    int status = 0;
    for (size_t i = 0; i < sizeof groups / sizeof groups[0] && !status; i++)
        status = run_group(run_state, groups[i], NULL);
    for (size_t i = 0; i < invocation->positional_count && !status; i++)
        status = run_folder(run_state, invocation->positional[i], false);
    if (!status && args->dir)
        status = run_folder(run_state, args->dir, true);
    if (!status && !args->dir && invocation->positional_count == 0)
        status = run_folder(run_state, ".", false);
    return status;
}

static void print_summary(const struct doctor_run *run_state)
{
    printf("\n%zu checks: ", run_state->checks_count);
    if (run_state->lacks_count > 0)
        printf("%zu lack%s, ", run_state->lacks_count, run_state->lacks_count == 1 ? "" : "s");
    else
        printf("all requirements of millrace are met, ");
    printf("%zu note%s\n", run_state->notes_count, run_state->notes_count == 1 ? "" : "s");
}

static int run(const struct invocation *invocation, struct err *err)
{
    struct doctor_run run_state = {
        .as_json = invocation->common->json, .stop = signals_install(), .err = err};
    struct jsonx_writer *json = &run_state.output.json;
    output_begin(&run_state.output);
    jsonx_begin_array(json, "checks");
    int status = run_all(&run_state, invocation);
    jsonx_end_array(json);
    jsonx_write_u64(json, "checks_count", run_state.checks_count);
    jsonx_write_u64(json, "notes_count", run_state.notes_count);
    jsonx_write_u64(json, "lacks_count", run_state.lacks_count);
    if (status == -EINTR)
        err_set(err, status, "stopped on request");
    else if (status)
        err_set(err, status, "out of memory for the result");
    if (!status && run_state.as_json)
        status = output_end(&run_state.output, true, stdout, err);
    else
        output_abort(&run_state.output);
    if (status)
        return status;
    if (!run_state.as_json)
        print_summary(&run_state);
    return run_state.lacks_count > 0 ? EXIT_FAILED : EXIT_DONE;
}

static const struct option option_rows[] = {
    {"dir", 0, OPTION_TEXT, offsetof(struct doctor_args, dir), "DIR", NULL,
     "folder for outputs and checkpoints; it need not exist; a missing requirement for writing is "
     "a lack"},
};

static const char *const examples[] = {
    "millrace doctor",
    "millrace doctor shards --dir runs",
    "millrace doctor --json",
    NULL,
};

const struct verb verb_doctor = {
    .name = "doctor",
    .arguments = {"[PATH]...", 0, SIZE_MAX},
    .summary = "Check this machine for millrace and suggest fixes.",
    .details =

        "Checks the processor, memory, limits, libraries and GPU, and the file system of each "
        "PATH (a folder or a file in it; by default the current folder): its type, space and "
        "features. The result of a check is ok, a note (works, but could be better) or a "
        "lack. Probing a file system takes a few fsyncs and leaves no files behind.\n"
        "The status is 1 if there is a lack. An unwritable PATH is only a note, because it "
        "may hold data to read; an unwritable --dir is a lack.",
    .options = OPTION_TABLE(option_rows),
    .examples = examples,
    .args_bytes = sizeof(struct doctor_args),
    .run = run,
};

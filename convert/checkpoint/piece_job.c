/*
 * piece_job — see piece_job.h.
 */
#include "convert/checkpoint/piece_job.h"

int piece_job_open(struct piece_job *job, const struct convert_checkpoint_options *options,
                   const struct ckpt_reader *reader, const char *owner_id, uint64_t pieces_count,
                   struct pieces_options *piece_options, struct err *err)
{
    unsigned workers = pieces_choose_workers(options->workers_count, pieces_count);
    struct piece_journal_options journal_options = {.io = piece_options->io,
                                                    .target = options->target,
                                                    .owner_id = owner_id,
                                                    .resume = options->resume,
                                                    .pieces_count = pieces_count};
    int status = piece_journal_open(&journal_options, &job->journal, err);
    for (unsigned w = 0; w < workers && !status; w++)
        status = reader_clone(reader, BLOCKS_AHEAD_MAX / workers, &job->readers[w], err);
    piece_options->workers_count = workers;
    piece_options->journal = job->journal;
    piece_options->progress = options->progress;
    piece_options->progress_context = options->progress_context;
    piece_options->stop = options->stop;
    return status ? status : pieces_open(piece_options, &job->pieces, err);
}

void piece_job_close_pieces(struct piece_job *job)
{
    pieces_close(job->pieces);
    job->pieces = NULL;
    for (unsigned w = 0; w < PIECES_WORKERS_MAX; w++) {
        ckpt_reader_close(job->readers[w]);
        job->readers[w] = NULL;
    }
}

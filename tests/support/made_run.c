/* SPDX-License-Identifier: MIT */
/* made_run.c - see made_run.h. */
#include "tests/support/made_run.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void clear(struct made_run *run)
{
    if (run->result != NULL)
        result_clear(run->result);
    free(run->result);
    free(run->at);
    memset(run, 0, sizeof *run);
}

struct made_run *made_run_begin(enum work_shape shape, size_t count)
{
    static struct made_run the_run;
    struct made_run *run = &the_run;
    clear(run);
    run->at = calloc(count + 1, sizeof *run->at);
    run->result = calloc(1, sizeof *run->result);
    assert(run->at != NULL && run->result != NULL);
    run->count = count;
    run->work.shape = shape;
    run->work.connection_count = (uint32_t)count;
    run->work.round_count = 1;
    run->work.duration_ms = 10000;
    for (size_t i = 0; i < count; i++)
        run->at[i] = (struct record){.due_us = MADE_BEGIN_US, .sent_us = 1, .end_us = 1000, .status = 200};
    return run;
}

void made_run_finish(struct made_run *run)
{
    struct records records = {
        .at = run->at, .count = run->count, .samples = run->samples, .sample_count = run->sample_count};
    run->source.name = "test";
    run->source.what = "by hand";
    run->source.work = &run->work;
    run->source.records = &records;
    run->source.begin_us = MADE_BEGIN_US;
    run->source.wall_s = 1700000000;
    bool made = result_make(&run->source, run->result);
    assert(made);
    (void)made;
    run->source.records = NULL; /* they were lent */
}

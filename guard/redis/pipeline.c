/* SPDX-License-Identifier: MIT */
/* redis/pipeline.c - the commands of one connection, in order: to be written, and waiting for replies. */
#include "pipeline.h"
#include <assert.h>
#include <stdlib.h>

enum { RING_FIRST_COUNT = 64 };

static struct redis_command *at(const struct redis_pipeline *pipeline, size_t index)
{
    assert(index < pipeline->count);
    return &pipeline->ring[(pipeline->first + index) & (pipeline->size - 1)];
}

static bool reserve_one(struct redis_pipeline *pipeline)
{
    size_t size = pipeline->size > 0 ? 2 * pipeline->size : RING_FIRST_COUNT;
    if (pipeline->count < pipeline->size)
        return true;
    struct redis_command *ring = calloc(size, sizeof *ring);
    if (ring == NULL)
        return false;
    for (size_t i = 0; i < pipeline->count; i++)
        ring[i] = *at(pipeline, i);
    free(pipeline->ring);
    pipeline->ring = ring;
    pipeline->first = 0;
    pipeline->size = size;
    return true;
}

static struct redis_command pop(struct redis_pipeline *pipeline)
{
    struct redis_command command = *at(pipeline, 0);
    pipeline->first = (pipeline->first + 1) & (pipeline->size - 1);
    pipeline->count--;
    pipeline->answered = command.end;
    pipeline->resent_count -= command.resent;
    return command;
}

bool redis_pipeline_fits(const struct redis_pipeline *pipeline, size_t most_bytes, size_t argc,
                         const size_t *argv_bytes)
{
    size_t room = most_bytes, pending = redis_pipeline_bytes(pipeline);
    if (pending >= room)
        return false;
    room -= pending;
    for (size_t i = 0; i < argc; i++) {
        if (argv_bytes[i] >= room)
            return false;
        room -= argv_bytes[i];
    }
    return true;
}

bool redis_pipeline_add(struct redis_pipeline *pipeline, size_t argc, const char *const *argv,
                        const size_t *argv_bytes, const struct redis_command *command)
{
    size_t before = redis_buffer_bytes(&pipeline->out);
    if (!reserve_one(pipeline) || !redis_buffer_command(&pipeline->out, argc, argv, argv_bytes))
        return false;
    pipeline->queued += redis_buffer_bytes(&pipeline->out) - before;
    pipeline->resent_count += command->resent;
    pipeline->count++;
    *at(pipeline, pipeline->count - 1) = *command;
    at(pipeline, pipeline->count - 1)->end = pipeline->queued;
    return true;
}

bool redis_pipeline_take_written(struct redis_pipeline *pipeline, struct redis_command *out)
{
    if (pipeline->count == 0 || at(pipeline, 0)->end > redis_pipeline_written(pipeline))
        return false;
    *out = pop(pipeline);
    return true;
}

bool redis_pipeline_take_back(struct redis_pipeline *pipeline, uint64_t now_ms, struct redis_command *out)
{
    uint64_t begin = pipeline->answered;
    if (pipeline->count == 0 || at(pipeline, 0)->deadline_ms > now_ms ||
        redis_pipeline_written(pipeline) != begin)
        return false;
    *out = pop(pipeline);
    redis_buffer_consume(&pipeline->out, (size_t)(out->end - begin));
    return true;
}

void redis_pipeline_reprieve(struct redis_pipeline *pipeline, uint64_t queued, uint64_t deadline_ms)
{
    for (size_t i = pipeline->count; i > 0 && at(pipeline, i - 1)->end > queued; i--)
        if (at(pipeline, i - 1)->deadline_ms < deadline_ms)
            at(pipeline, i - 1)->deadline_ms = deadline_ms;
}

/* All commands have the same limit, so the oldest is the first to be late, but for those sent again. */
uint64_t redis_pipeline_deadline(const struct redis_pipeline *pipeline)
{
    uint64_t first = pipeline->count > 0 ? at(pipeline, 0)->deadline_ms : UINT64_MAX;
    if (pipeline->resent_count == 0)
        return first;
    for (size_t i = 1; i < pipeline->count; i++)
        if (at(pipeline, i)->deadline_ms < first)
            first = at(pipeline, i)->deadline_ms;
    return first;
}

void redis_command_answer(struct redis_command *command, enum redis_outcome outcome,
                          const struct redisReply *reply)
{
    free(command->eval);
    if (command->replied != NULL)
        command->replied(command->context, outcome, reply);
}

struct redis_pipeline redis_pipeline_detach(struct redis_pipeline *pipeline)
{
    struct redis_pipeline detached = *pipeline;
    *pipeline = (struct redis_pipeline){.queued = detached.queued, .answered = detached.queued};
    return detached;
}

void redis_pipeline_abandon(struct redis_pipeline *pipeline)
{
    uint64_t written = redis_pipeline_written(pipeline);
    while (pipeline->count > 0) {
        struct redis_command command = pop(pipeline);
        redis_command_answer(&command, command.end > written ? REDIS_UNSENT : REDIS_UNKNOWN, NULL);
    }
    redis_buffer_clear(&pipeline->out);
    free(pipeline->ring);
    *pipeline = (struct redis_pipeline){.queued = pipeline->queued, .answered = pipeline->queued};
}

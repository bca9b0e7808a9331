/* SPDX-License-Identifier: MIT */
/*
 * redis/pipeline.h - the commands of one connection, in order: to be written, and waiting for replies.
 *
 * Every byte ever added has a place in one endless sequence:
 *
 *        answered                 written                 queued
 *   ---------|----------------------|-----------------------|
 *     gone      under way: UNKNOWN     still here: UNSENT
 *
 * A command whose last byte lies after `written` has not reached Redis whole and can never run there.
 *
 * Pure; the owner's thread. A zeroed struct is an empty one.
 */
#pragma once

#include "command.h"

struct redis_command {
    redis_replied *replied; /* may be NULL */
    void *context;
    uint64_t deadline_ms;
    uint64_t end;             /* its place after the last byte; set by redis_pipeline_add() */
    struct redis_words *eval; /* owned, or NULL: not an EVALSHA */
    bool resent;              /* an EVAL whose deadline began with its EVALSHA */
    bool tries_fence;         /* its reply says how the fence is */
    bool is_getex;            /* likewise; not another command in its place */
    bool asks_again;          /* for what was refused: a refusal is no news */
    bool needs_master;        /* its reply counts only behind a ROLE that says so */
};

struct redis_pipeline {
    struct redis_buffer out;    /* what is queued and not written; its owner writes and consumes it */
    struct redis_command *ring; /* owned; what is queued and not answered */
    size_t first, count, size;  /* size is 0 or a power of two */
    uint64_t queued, answered;
    size_t resent_count;
};

/* Whether with this command fewer than so many bytes of arguments are not written or not answered. */
bool redis_pipeline_fits(const struct redis_pipeline *pipeline, size_t most_bytes, size_t argc,
                         const size_t *argv_bytes);

/* Copies the command and its arguments. False, and nothing is added: no memory. */
bool redis_pipeline_add(struct redis_pipeline *pipeline, size_t argc, const char *const *argv,
                        const size_t *argv_bytes, const struct redis_command *command);

static inline uint64_t redis_pipeline_written(const struct redis_pipeline *pipeline)
{
    return pipeline->queued - redis_buffer_bytes(&pipeline->out);
}

/* Bytes not written or not answered. */
static inline size_t redis_pipeline_bytes(const struct redis_pipeline *pipeline)
{
    return (size_t)(pipeline->queued - pipeline->answered);
}

/* Takes the oldest command if it has been written whole: the next reply is its own. False: there is none. */
bool redis_pipeline_take_written(struct redis_pipeline *pipeline, struct redis_command *out);
/* Takes the oldest command back if its limit is over and neither it nor anything before it is under way. */
bool redis_pipeline_take_back(struct redis_pipeline *pipeline, uint64_t now_ms, struct redis_command *out);

/* What was added when `queued` was at least so large is not late before then. */
void redis_pipeline_reprieve(struct redis_pipeline *pipeline, uint64_t queued, uint64_t deadline_ms);

/* The earliest limit; UINT64_MAX: nothing waits. */
uint64_t redis_pipeline_deadline(const struct redis_pipeline *pipeline);

/* Frees what it keeps for the command and calls back. */
void redis_command_answer(struct redis_command *command, enum redis_outcome outcome,
                          const struct redisReply *reply);

/* Takes everything out, so that callbacks can fill it anew; answer it with redis_pipeline_abandon(). */
struct redis_pipeline redis_pipeline_detach(struct redis_pipeline *pipeline);
/* Answers everything UNSENT or UNKNOWN, oldest first, and frees. */
void redis_pipeline_abandon(struct redis_pipeline *pipeline);

/* SPDX-License-Identifier: MIT */
/*
 * witness_view.h - what a witness is asked, and what it has seen when a run is over; see witness.h.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WITNESS_WHY_BYTES = 256,
    WITNESS_COMMANDS_MAX = 48,
    WITNESS_KEY_BYTES = 64,
    WITNESS_TAIL_BYTES = 9, /* of a key that was cut: "~" and the digest of all of it */
    WITNESS_PATH_BYTES = 384,
    WITNESS_KEPT_MAX = 64
};

enum witness_way { WITNESS_NONE = 0, WITNESS_LOG, WITNESS_STATEMENTS };

/* Texts are lent until witness_close(). */
struct witness_options {
    enum witness_way way;
    const char *database_url; /* for STATEMENTS, and to be sure of the log; NULL: none */
    const char *log_path;     /* for LOG; NULL: the one that the database names */
    const char *statement;    /* LOG, STATEMENTS: a load is a statement that contains this text */
    const char *redis_url;    /* redis://..., unix://...; NULL: none */
    bool shares_redis;        /* others than the service may use it, too */
};

struct witness_load {
    uint64_t at_us;              /* when the statement began, cut to the millisecond that the log has */
    uint64_t end_us;             /* when it ended, likewise; 0: not known */
    char key[WITNESS_KEY_BYTES]; /* its values, "7" or "3, 120"; "" where it has none; see witness_log.h */
};

/*
 * The one rule by which loads of a key fall into expiries: the next begins with a load that comes when the value of
 * its first has lived out. (What else explains a load, result_expiries.c knows.)
 */
static inline bool witness_outlived(const struct witness_load *first, const struct witness_load *load,
                                    uint64_t life_us)
{
    return load->at_us - first->at_us >= life_us;
}

/*
 * The most of these that certainly ran at the same time: they are in order of at_us, their instants may lie up to
 * `cut_us` later than they say, and each that lacks an end ended at once. False: no memory.
 */
bool witness_most_at_once(const struct witness_load *loads, size_t count, uint64_t cut_us, uint32_t *most);

struct witness_command {
    char name[24];
    uint64_t calls;
};

/* The longest PTTL that was seen of it: about for how long it is kept. */
struct witness_kept {
    char key[WITNESS_KEY_BYTES];
    uint32_t most_ms;
};

/* All owned. */
struct witness_view {
    enum witness_way way; /* NONE also if the loads could not be counted after all */
    uint64_t load_count;
    struct witness_load *loads; /* LOG: load_count of them, by time, not NULL; otherwise NULL */
    uint32_t at_once;           /* LOG: the most that ran at once (see witness_log.h), if ... */
    bool has_ends; /* ... the log has the ends of loads, too (log_duration, log_min_duration_statement) */
    struct witness_command commands[WITNESS_COMMANDS_MAX]; /* of Redis, the most frequent first */
    size_t command_count;
    uint64_t command_sum;
    bool has_redis;
    struct witness_kept kept[WITNESS_KEPT_MAX]; /* keys of a Redis that others use, some at random */
    size_t kept_count;

    /* What `caveat` says in words. Nobody may take a count for less than it could be because of these. */
    uint64_t keyless_count; /* LOG: loads with parameters that the log does not have */
    bool is_coarse;         /* LOG: loads whose instants are whole seconds */
    bool misses_loads;      /* more may have begun than were counted */
    bool misses_commands;   /* Redis ran more than was counted */
    bool knows_text;        /* the text of `statement` is right: such statements were seen before this run */
    char caveat[512];       /* what this way of counting cannot see, or did not in this run; "" if nothing */
};

/* One more thing that the reader of a view should know; nothing happens when there is no room. */
void witness_note(struct witness_view *view, const char *format, ...) __attribute__((format(printf, 2, 3)));

void witness_view_clear(struct witness_view *view);

/* SPDX-License-Identifier: MIT */
/*
 * witness.c - see witness.h.
 *
 *     witness_follow.c    the log file         --+
 *     witness_postgres.c  counters             --+--> struct witness_view
 *     witness_redis.c     INFO commandstats    --+
 *
 * The log and Redis have a thread of their own between begin and end; they share nothing. At the end all are told
 * first and waited for then, so that one server that does not answer does not make the others wait.
 */
#include "load/witness/witness.h"

#include "load/witness/witness_follow.h"
#include "load/witness/witness_postgres.h"
#include "load/witness/witness_redis.h"

#include <stdio.h>
#include <stdlib.h>

struct witness {
    struct witness_options options; /* its texts are lent */
    char found_log[WITNESS_PATH_BYTES];
    struct witness_follow *follow; /* owned, these three; NULL: not asked for */
    struct witness_postgres *postgres;
    struct witness_redis *redis;
};

static bool refuse(char *why, const char *text)
{
    snprintf(why, WITNESS_WHY_BYTES, "%s", text);
    return false;
}

static bool is_empty(const char *text)
{
    return text == NULL || text[0] == '\0';
}

static bool check(const struct witness_options *options, char *why)
{
    bool is_log = options->way == WITNESS_LOG;
    bool is_statements = options->way == WITNESS_STATEMENTS;
    if (is_log && is_empty(options->log_path) && is_empty(options->database_url))
        return refuse(why,
                      "to count by the statement log, its path must be given, or the database that names it");
    if ((is_log || is_statements) && is_empty(options->statement))
        return refuse(
            why, "which statements are loads? A text must be given that is in all of them and in no other");
    if (is_statements && is_empty(options->database_url))
        return refuse(why, "to count by asking the database, its URL must be given");
    return true;
}

static bool open_all(struct witness *witness, char *why)
{
    const struct witness_options *options = &witness->options;
    char *found = witness->found_log;
    const char *path = is_empty(options->log_path) ? found : options->log_path;
    if (options->database_url != NULL && !witness_postgres_open(options, &witness->postgres, why))
        return false;
    if (options->way == WITNESS_LOG &&
        ((path == found && !witness_postgres_find_log(witness->postgres, found, why)) ||
         !witness_follow_open(path, options->statement, &witness->follow, why)))
        return false;
    return options->redis_url == NULL ||
           witness_redis_open(options->redis_url, options->shares_redis, &witness->redis, why);
}

bool witness_open(const struct witness_options *options, struct witness **out,
                  char why[static WITNESS_WHY_BYTES])
{
    if (!check(options, why))
        return false;
    struct witness *witness = calloc(1, sizeof *witness);
    if (witness == NULL)
        return refuse(why, "no memory");
    witness->options = *options;
    if (open_all(witness, why)) {
        *out = witness;
        return true;
    }
    witness_close(&witness);
    return false;
}

static void end_all(struct witness *witness)
{
    if (witness->follow != NULL)
        witness_follow_end(witness->follow);
    if (witness->redis != NULL)
        witness_redis_end(witness->redis);
}

bool witness_begin(struct witness *witness, char why[static WITNESS_WHY_BYTES])
{
    return (witness->follow == NULL || witness_follow_begin(witness->follow, witness->postgres, why)) &&
           (witness->postgres == NULL || witness_postgres_begin(witness->postgres, why)) &&
           (witness->redis == NULL || witness_redis_begin(witness->redis, why));
}

bool witness_end(struct witness *witness, struct witness_view *out, char why[static WITNESS_WHY_BYTES])
{
    bool good = true;
    *out = (struct witness_view){.way = witness->options.way};
    end_all(witness);
    if (witness->postgres != NULL)
        witness_postgres_finish(witness->postgres, out);
    if (witness->follow != NULL)
        good = witness_follow_finish(witness->follow, witness->postgres, out, why);
    if (witness->redis != NULL)
        witness_redis_finish(witness->redis, out);
    return good;
}

uint64_t witness_loads_now(struct witness *witness)
{
    return witness->follow != NULL ? witness_follow_count(witness->follow) : 0;
}

uint64_t witness_loads_of(struct witness *witness, uint64_t from, uint64_t first, uint64_t last)
{
    return witness->follow != NULL ? witness_follow_count_of(witness->follow, from, first, last) : 0;
}

void witness_close(struct witness **slot)
{
    struct witness *witness = *slot;
    *slot = NULL;
    if (witness == NULL)
        return;
    end_all(witness);
    witness_follow_close(&witness->follow);
    witness_postgres_close(&witness->postgres);
    witness_redis_close(&witness->redis);
    free(witness);
}

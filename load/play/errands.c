/* SPDX-License-Identifier: MIT */
/*
 * errands.c - see errands.h.
 *
 *     [0 .. reported)     errands_poll() has returned those that failed
 *     [reported .. done)  over
 *     [done .. count)     the first of them is under way
 *
 * Locking: `mutex` guards everything but `servers`; it is not held while an errand is run.
 */
#include "load/play/errands.h"

#include "load/base/sql.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { SQL_LIMIT_MS = 5000, POST_LIMIT_MS = 1000 };
_Static_assert((int)SCENARIO_WHY_BYTES >= SQL_WHY_BYTES, "any reason fits");

struct errand {
    const struct scenario_action *action; /* lent */
    size_t tag;
    bool failed;
    char why[SCENARIO_WHY_BYTES];
};

struct errands {
    const struct servers *servers;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_told_to_end;
    struct errand all[ERRANDS_MAX];
    size_t count, done, reported;
};

static bool run_one(const struct servers *servers, const struct scenario_action *action, char *why)
{
    if (action->verb == SCENARIO_POST)
        return servers_post(servers, action->argument, POST_LIMIT_MS, why);
    return sql_run(servers_database(servers), action->argument, SQL_LIMIT_MS, NULL, 0, why);
}

static void *run(void *context)
{
    struct errands *errands = context;
    pthread_mutex_lock(&errands->mutex);
    while (!errands->is_told_to_end) {
        if (errands->done == errands->count) {
            pthread_cond_wait(&errands->changed, &errands->mutex);
            continue;
        }
        struct errand *errand = &errands->all[errands->done];
        pthread_mutex_unlock(&errands->mutex);
        bool failed = !run_one(errands->servers, errand->action, errand->why);
        pthread_mutex_lock(&errands->mutex);
        errand->failed = failed;
        errands->done++;
    }
    pthread_mutex_unlock(&errands->mutex);
    return NULL;
}

struct errands *errands_begin(const struct servers *servers)
{
    struct errands *errands = calloc(1, sizeof *errands);
    if (errands == NULL)
        return NULL;
    errands->servers = servers;
    pthread_mutex_init(&errands->mutex, NULL);
    pthread_cond_init(&errands->changed, NULL);
    if (pthread_create(&errands->thread, NULL, run, errands) == 0)
        return errands;
    pthread_cond_destroy(&errands->changed);
    pthread_mutex_destroy(&errands->mutex);
    free(errands);
    return NULL;
}

bool errands_add(struct errands *errands, const struct scenario_action *action, size_t tag)
{
    pthread_mutex_lock(&errands->mutex);
    bool fits = errands->count < ERRANDS_MAX;
    if (fits) {
        errands->all[errands->count] = (struct errand){.action = action, .tag = tag};
        errands->count++;
        pthread_cond_signal(&errands->changed);
    }
    pthread_mutex_unlock(&errands->mutex);
    return fits;
}

bool errands_poll(struct errands *errands, size_t *tag, size_t *open, char why[static SCENARIO_WHY_BYTES])
{
    bool failed = false;
    pthread_mutex_lock(&errands->mutex);
    while (!failed && errands->reported < errands->done) {
        const struct errand *errand = &errands->all[errands->reported++];
        failed = errand->failed;
        *tag = failed ? errand->tag : *tag;
        if (failed)
            memcpy(why, errand->why, sizeof errand->why);
    }
    *open = errands->count - errands->done;
    pthread_mutex_unlock(&errands->mutex);
    return failed;
}

void errands_end(struct errands **errands)
{
    struct errands *ended = *errands;
    if (ended == NULL)
        return;
    pthread_mutex_lock(&ended->mutex);
    ended->is_told_to_end = true;
    pthread_cond_signal(&ended->changed);
    pthread_mutex_unlock(&ended->mutex);
    pthread_join(ended->thread, NULL);
    pthread_cond_destroy(&ended->changed);
    pthread_mutex_destroy(&ended->mutex);
    free(ended);
    *errands = NULL;
}

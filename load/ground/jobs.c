/* SPDX-License-Identifier: MIT */
/* jobs.c - see jobs.h. */
#include "load/ground/jobs.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { SET_LIMIT_MS = 60000, TEXT_BYTES = 160 };

static const char *const modes[JOBS_MODES] = {"off", "local", "fleet", "shadow"};

static const char *const step_names[JOB_STEPS] = {"", "off", "fleet", "hit"};

const char *jobs_mode(size_t index)
{
    return index < JOBS_MODES ? modes[index] : NULL;
}

enum job_step jobs_step(const char *name)
{
    enum job_step step = JOB_HIT;
    while (step > JOB_NO_STEP && (name == NULL || strcmp(step_names[step], name) != 0))
        step--;
    return step;
}

static bool set_mode(struct site *site, const char *mode)
{
    char why[SITE_WHY_BYTES];
    uint64_t number;
    struct site_look look;
    struct site_order order = {.what = SITE_SET};
    site_look_at(site, &look);
    if (mode[0] == '\0' || strcmp(mode, look.mode) == 0)
        return true;
    order.delay_ms = look.delay_ms;
    snprintf(order.mode, sizeof order.mode, "%s", mode);
    return site_order(site, &order, &number, why) && site_wait(site, number, SET_LIMIT_MS);
}

static void keep(struct jobs *jobs, struct rush_result *place, const struct rush_result *result)
{
    pthread_mutex_lock(&jobs->lock);
    *place = *result;
    pthread_mutex_unlock(&jobs->lock);
}

static bool run(struct jobs *jobs, const struct rush *rush, struct rush_result *result)
{
    uint64_t queries = site_queries(jobs->site);
    pthread_mutex_lock(&jobs->lock);
    jobs->queries_before = queries;
    pthread_mutex_unlock(&jobs->lock);
    return rush_run(jobs->site, rush, result);
}

static void send_crowd(struct jobs *jobs, const struct job *job)
{
    struct rush_result result;
    if (!set_mode(jobs->site, job->mode) || !run(jobs, &job->rush, &result))
        return;
    keep(jobs, &jobs->steps[job->step], &result);
    rush_tell(jobs->site, &job->rush, &result);
}

static void tell_comparison(struct jobs *jobs)
{
    char text[STORY_TEXT_BYTES] = "", count[STORY_COUNT_BYTES];
    size_t used = 0;
    for (size_t i = 0; i < JOBS_MODES; i++) {
        const struct rush_result *result = &jobs->compared[i];
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s %s", i > 0 ? ", " : "", modes[i],
                                 story_count(result->queries, count));
    }
    story_tell(jobs->site->story, STORY_RESULT, "The same %s requests in each mode, queries: %s.",
               story_count(jobs->compared[0].requests, count), text);
}

static void compare(struct jobs *jobs, const struct job *job)
{
    struct site_look before;
    struct rush_result result;
    bool good = true;
    site_look_at(jobs->site, &before);
    for (size_t i = 0; good && i < JOBS_MODES; i++) {
        pthread_mutex_lock(&jobs->lock);
        jobs->running_mode = modes[i];
        memset(&jobs->compared[i], 0, sizeof jobs->compared[i]);
        pthread_mutex_unlock(&jobs->lock);
        good = set_mode(jobs->site, modes[i]) && run(jobs, &job->rush, &result);
        if (good)
            keep(jobs, &jobs->compared[i], &result);
    }
    if (good)
        tell_comparison(jobs);
    set_mode(jobs->site, before.mode);
}

static void *work(void *context)
{
    struct jobs *jobs = context;
    pthread_mutex_lock(&jobs->lock);
    while (!jobs->is_closing) {
        if (!jobs->is_busy) {
            pthread_cond_wait(&jobs->changed, &jobs->lock);
            continue;
        }
        struct job job = jobs->job;
        pthread_mutex_unlock(&jobs->lock);
        if (job.is_comparison)
            compare(jobs, &job);
        else
            send_crowd(jobs, &job);
        pthread_mutex_lock(&jobs->lock);
        jobs->is_busy = false;
        jobs->running_mode = NULL;
    }
    pthread_mutex_unlock(&jobs->lock);
    return NULL;
}

bool jobs_open(struct jobs *jobs, struct site *site)
{
    sigset_t all, before;
    memset(jobs, 0, sizeof *jobs);
    jobs->site = site;
    pthread_mutex_init(&jobs->lock, NULL);
    pthread_cond_init(&jobs->changed, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the thread that knows what to do */
    jobs->is_open = pthread_create(&jobs->thread, NULL, work, jobs) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return jobs->is_open;
}

bool jobs_close(struct jobs *jobs)
{
    if (!jobs->is_open)
        return true;
    pthread_mutex_lock(&jobs->lock);
    jobs->is_closing = true;
    bool is_busy = jobs->is_busy;
    pthread_cond_signal(&jobs->changed);
    pthread_mutex_unlock(&jobs->lock);
    if (is_busy)
        pthread_detach(jobs->thread);
    else
        pthread_join(jobs->thread, NULL);
    jobs->is_open = false;
    return !is_busy;
}

bool jobs_begin(struct jobs *jobs, const struct job *job)
{
    uint64_t queries = site_queries(jobs->site);
    pthread_mutex_lock(&jobs->lock);
    bool is_free = !jobs->is_busy;
    if (is_free) {
        jobs->job = *job;
        jobs->queries_before = queries;
        jobs->is_busy = true;
        pthread_cond_signal(&jobs->changed);
    }
    pthread_mutex_unlock(&jobs->lock);
    return is_free;
}

bool jobs_busy(struct jobs *jobs)
{
    pthread_mutex_lock(&jobs->lock);
    bool is_busy = jobs->is_busy;
    pthread_mutex_unlock(&jobs->lock);
    return is_busy;
}

static json_t *results_json(const struct rush_result *results, const char *const *names, size_t first,
                            size_t end)
{
    json_t *all = json_object();
    for (size_t i = first; i < end; i++) {
        if (results[i].requests > 0)
            json_object_set_new(all, names[i], rush_json(&results[i]));
    }
    return all;
}

static json_t *job_json(const struct jobs *jobs)
{
    const struct job *job = &jobs->job;
    const char *mode = jobs->running_mode != NULL ? jobs->running_mode : job->mode;
    if (!jobs->is_busy)
        return json_null();
    return json_pack("{s:b,s:s,s:I,s:I,s:s}", "compares", job->is_comparison, "step", step_names[job->step],
                     "requests", (json_int_t)job->rush.requests, "queries_before",
                     (json_int_t)jobs->queries_before, "mode", mode);
}

json_t *jobs_json(struct jobs *jobs)
{
    pthread_mutex_lock(&jobs->lock);
    json_t *all = json_pack("{s:o,s:o,s:o}", "job", job_json(jobs), "steps",
                            results_json(jobs->steps, step_names, JOB_NO_STEP + 1, JOB_STEPS), "compared",
                            results_json(jobs->compared, modes, 0, JOBS_MODES));
    pthread_mutex_unlock(&jobs->lock);
    return all;
}

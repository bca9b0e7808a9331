/* SPDX-License-Identifier: MIT */
/* crowd.c - see crowd.h. */
#include "load/ground/crowd.h"

#include "load/base/clock.h"
#include "load/base/http.h"
#include "load/herd/burst.h"
#include "load/herd/cache_status.h"

#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum {
    ASK_LIMIT_MS = 2000,
    CONNECT_LIMIT_MS = 10000,
    REQUEST_LIMIT_MS = 40000,
    SETTLE_MS = 80, /* the log is read every 10 ms, and written by then */
    SETTLE_LIMIT_MS = 1500,
    WORDS_BYTES = 200,
};

/* Which process of those that are asked serves a connection, and its answers. */
struct crowd {
    struct site *site;
    const struct rush *rush;
    struct burst_target targets[DEED_PROCESSES];
    size_t target_count;
    uint32_t first_product;
    uint64_t queries_before, loads_before[DEED_PROCESSES];
    double saved_before;
};

/* ---- before ---- */

static double metric(const struct site *site, size_t process, const char *name)
{
    const struct stack_catalogd catalogd = {.ops_port = site->ops_ports[process]};
    double value = stack_catalogd_metric(&catalogd, name);
    return value > 0 ? value : 0;
}

static double saved_now(const struct site *site, const struct site_look *look)
{
    double saved = 0;
    for (size_t i = 0; i < DEED_PROCESSES && strcmp(look->mode, "shadow") == 0; i++)
        saved += metric(site, i, "guard_shadow_saved_total");
    return saved;
}

static bool invalidate(const struct site *site, size_t process)
{
    struct http_answer answer;
    const struct http_request request = {.host = "127.0.0.1",
                                         .port = site->ops_ports[process],
                                         .method = "POST",
                                         .path = "/invalidate?key=" SITE_KEY,
                                         .deadline_ms = ASK_LIMIT_MS};
    bool dropped = http_ask(&request, &answer) && answer.status == 200;
    http_answer_clear(&answer);
    return dropped;
}

/*
 * The product is to be cold, as if its time had passed. An invalidation does more: a process that hears of it late takes
 * its load for one from before, and loads again. It is what is left where the value is not in a Redis that we can see.
 */
static void drop_product(const struct site *site, const struct site_look *look)
{
    struct shelf *shelf = site->has_near ? NULL : shelf_open(site->redis_url, site->name_space);
    bool is_dropped = look->health[DEED_REDIS] != DEED_UP || shelf_drop(shelf, SITE_KEY);
    for (size_t i = 0; !is_dropped && i < DEED_PROCESSES; i++)
        is_dropped = look->health[i] == DEED_UP && invalidate(site, i);
    shelf_close(&shelf);
}

/* Products that nobody has asked for: the next ones of the database, each time. */
static uint32_t next_products(const struct site *site)
{
    static _Atomic uint32_t turn;
    uint32_t rounds = site->product_count / RUSH_PRODUCTS;
    return 1 +
           (atomic_fetch_add(&turn, 1) + 1) % (rounds > 0 ? rounds : 1) * RUSH_PRODUCTS % site->product_count;
}

static bool gather(struct crowd *crowd, const struct site_look *look)
{
    struct site *site = crowd->site;
    for (size_t i = 0; i < DEED_PROCESSES; i++) {
        if (look->health[i] == DEED_UP || look->health[i] == DEED_PAUSED)
            crowd->targets[crowd->target_count++] = (struct burst_target){"127.0.0.1", site->ports[i]};
        if (look->health[i] == DEED_UP)
            crowd->loads_before[i] = (uint64_t)metric(site, i, "guard_loads_started_total");
    }
    if (!crowd->rush->is_warm && !crowd->rush->is_many)
        drop_product(site, look);
    crowd->first_product = next_products(site);
    crowd->saved_before = saved_now(site, look);
    crowd->queries_before = site_queries(site);
    if (crowd->target_count == 0)
        story_tell(site->story, STORY_TROUBLE, "No process is up: start one, then send the crowd.");
    return crowd->target_count > 0;
}

static void path_of(void *context, uint32_t index, char *path)
{
    const struct crowd *crowd = context;
    uint32_t product = crowd->first_product + index / (uint32_t)crowd->target_count % RUSH_PRODUCTS;
    snprintf(path, BURST_PATH_BYTES, "/products/%u",
             (unsigned)((product - 1) % crowd->site->product_count + 1));
}

/* On the burst's thread, which waits for answers meanwhile. */
static void order_hit(void *context)
{
    struct crowd *crowd = context;
    char why[SITE_WHY_BYTES];
    uint64_t number;
    if (!site_order(crowd->site, &crowd->rush->hit, &number, why))
        story_tell(crowd->site->story, STORY_TROUBLE, "%s", why);
}

/* ---- afterwards ---- */

/* Until no further query has begun for a moment; beside a steady rate that would not end. */
static uint64_t settled_queries(struct site *site)
{
    struct site_look look;
    site_look_at(site, &look);
    uint64_t end_us = clock_after_ms(SETTLE_LIMIT_MS), before, now = site_queries(site);
    do {
        before = now;
        clock_pause_ms(SETTLE_MS);
        now = site_queries(site);
    } while (now != before && clock_us() < end_us && look.per_second == 0);
    return now;
}

static void count_answers(const struct burst *burst, struct rush_result *out)
{
    const struct burst_answer *answers = burst_answers(burst);
    struct burst_summary summary;
    burst_summarise(burst, &summary);
    out->requests = summary.requests;
    out->ok = summary.statuses[200];
    out->refused = summary.outcomes[RECORD_ANSWERED] - summary.statuses[200];
    out->failed = summary.requests - summary.outcomes[RECORD_ANSWERED];
    out->reset = summary.outcomes[RECORD_RESET];
    out->p50_us = summary.p50_us;
    out->max_us = summary.max_us;
    out->span_us = summary.span_us;
    for (uint32_t i = 0; i < summary.requests; i++) {
        if (answers[i].head != NULL)
            out->caches[cache_status_read(answers[i].head)]++;
    }
}

static void count_queries(const struct crowd *crowd, struct rush_result *out)
{
    struct site *site = crowd->site;
    struct site_look look;
    uint64_t queries = settled_queries(site);
    site_look_at(site, &look);
    out->queries = queries > crowd->queries_before ? queries - crowd->queries_before : 0;
    for (size_t i = 0; i < DEED_PROCESSES; i++) {
        uint64_t loads =
            look.health[i] == DEED_UP ? (uint64_t)metric(site, i, "guard_loads_started_total") : 0;
        out->loads[i] = loads > crowd->loads_before[i] ? loads - crowd->loads_before[i] : 0;
    }
    double saved = saved_now(site, &look) - crowd->saved_before;
    out->saved = saved > 0 ? (uint64_t)saved : 0;
}

/* Blocks until all are answered or their time is up. */
static bool rush_run(struct site *site, const struct rush *rush, struct rush_result *out)
{
    struct site_look look;
    struct crowd crowd = {.site = site, .rush = rush};
    struct burst *burst = NULL;
    site_look_at(site, &look);
    memset(out, 0, sizeof *out);
    memcpy(out->mode, look.mode, sizeof out->mode);
    if (!gather(&crowd, &look))
        return false;
    const struct burst_event event = {.after_ms = look.delay_ms / 3, .run = order_hit, .context = &crowd};
    const struct burst_options options = {.targets = crowd.targets,
                                          .target_count = crowd.target_count,
                                          .connection_count = rush->requests,
                                          .connect_limit_ms = CONNECT_LIMIT_MS,
                                          .request_limit_ms = REQUEST_LIMIT_MS,
                                          .path = rush->is_many ? NULL : SITE_PATH,
                                          .path_of = rush->is_many ? path_of : NULL,
                                          .path_context = &crowd,
                                          .events = &event,
                                          .event_count = rush->hits};
    if (!burst_open(&options, &burst)) {
        story_tell(site->story, STORY_TROUBLE, "The crowd could not connect; the terminal says why.");
        return false;
    }
    burst_run(burst);
    count_answers(burst, out);
    burst_close(&burst);
    count_queries(&crowd, out);
    return true;
}

/* ---- the sentence ---- */

static const char *seconds(uint64_t us, char text[static 24])
{
    snprintf(text, 24, us < 995000 ? "%.0f ms" : "%.1f s", us < 995000 ? (double)us / 1e3 : (double)us / 1e6);
    return text;
}

/* Without a guard that decides anything. */
static bool say_unguarded(const struct rush_result *result, char text[static WORDS_BYTES])
{
    bool is_off = strcmp(result->mode, "off") == 0, is_shadow = strcmp(result->mode, "shadow") == 0;
    if (is_off)
        snprintf(text, WORDS_BYTES, "every request that missed asked the database itself");
    if (is_shadow)
        snprintf(text, WORDS_BYTES, "the guard only watched, and would have saved %" PRIu64 " of them",
                 result->saved);
    return is_off || is_shadow;
}

/* Of one product: which process did what. */
static void say_who_loaded(const struct rush *rush, const struct rush_result *result,
                           char text[static WORDS_BYTES])
{
    bool a_loaded = result->loads[DEED_A] > 0, is_fleet = strcmp(result->mode, "fleet") == 0;
    const char *one = a_loaded ? "A" : "B", *other = a_loaded ? "B" : "A";
    if (rush->hits && result->queries == 2)
        snprintf(text, WORDS_BYTES, "one by the process that was %s, the other when its lease had run out",
                 rush->hit.verb == SITE_KILL ? "killed" : "stopped");
    else if (result->loads[DEED_A] == 1 && result->loads[DEED_B] == 1)
        snprintf(text, WORDS_BYTES, "each process loaded it once for its own requests");
    else if (is_fleet && result->queries == 1 && result->caches[RECORD_CACHE_STALE] > 0)
        snprintf(text, WORDS_BYTES, "everybody got the old copy at once, while process %s fetched a new one",
                 one);
    else if (is_fleet && result->queries == 1)
        snprintf(text, WORDS_BYTES, "process %s took the lease and asked, %s waited for that", one, other);
}

static void say_who(const struct rush *rush, const struct rush_result *result, char text[static WORDS_BYTES])
{
    bool is_fleet = strcmp(result->mode, "fleet") == 0;
    text[0] = '\0';
    if (say_unguarded(result, text))
        return;
    if (result->ok == 0 && result->refused > 0)
        snprintf(text, WORDS_BYTES, "%s",
                 result->queries > 0 ? "it failed, and nobody repeated it"
                                     : "the database cannot be reached");
    else if (result->queries == 0)
        snprintf(text, WORDS_BYTES, "all came from the cache");
    else if (rush->is_many)
        snprintf(text, WORDS_BYTES, "%s",
                 is_fleet ? "one for each product" : "one for each product in each process");
    else
        say_who_loaded(rush, result, text);
}

static void say_failures(const struct rush_result *result, char text[static WORDS_BYTES])
{
    char count[STORY_COUNT_BYTES];
    text[0] = '\0';
    if (result->reset > 0)
        snprintf(text, WORDS_BYTES, " %s lost their connection with the dead process.",
                 story_count(result->reset, count));
    else if (result->failed > 0)
        snprintf(text, WORDS_BYTES, " %s got no answer.", story_count(result->failed, count));
    else if (result->refused > 0)
        snprintf(text, WORDS_BYTES, " %s got an error instead of the product.",
                 story_count(result->refused, count));
}

static void rush_tell(struct site *site, const struct rush *rush, const struct rush_result *result)
{
    char who[WORDS_BYTES], failures[WORDS_BYTES], slowest[24];
    char requests[STORY_COUNT_BYTES], queries[STORY_COUNT_BYTES];
    say_who(rush, result, who);
    say_failures(result, failures);
    story_tell(site->story, STORY_RESULT, "%s request%s%s, %s quer%s%s%s. The slowest answer took %s.%s",
               story_count(result->requests, requests), result->requests == 1 ? "" : "s",
               rush->is_many ? " for 100 products" : "", story_count(result->queries, queries),
               result->queries == 1 ? "y" : "ies", who[0] != '\0' ? ": " : "", who,
               seconds(result->max_us, slowest), failures);
}

/* {"mode","requests","queries",...}. Yours. */
static json_t *rush_json(const struct rush_result *result)
{
    return json_pack("{s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "mode", result->mode, "requests",
                     (json_int_t)result->requests, "ok", (json_int_t)result->ok, "failed",
                     (json_int_t)result->failed + result->refused, "queries", (json_int_t)result->queries,
                     "saved", (json_int_t)result->saved, "p50_us", (json_int_t)result->p50_us, "max_us",
                     (json_int_t)result->max_us);
}

/* ---- jobs ---- */

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

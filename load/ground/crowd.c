/* SPDX-License-Identifier: MIT */
/* crowd.c - see crowd.h. */
#include "load/ground/crowd.h"

#include "load/base/clock.h"
#include "load/base/http.h"
#include "load/herd/burst.h"
#include "load/herd/record.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
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

/* Connections are dealt to the processes that are asked in turn. */
struct crowd {
    struct site *site;
    const struct rush *rush;
    enum deed_party parties[DEED_PROCESSES]; /* of the targets */
    struct burst_target targets[DEED_PROCESSES];
    size_t target_count;
    uint64_t queries_before;
    double saved_before;
};

/* ---- before ---- */

static uint32_t products_of(const struct rush *rush)
{
    return rush->is_many ? RUSH_PRODUCTS : 1;
}

static uint64_t queries_since(struct site *site, const struct rush *rush, uint64_t before)
{
    return site_queries_for(site, before, SITE_PRODUCT, SITE_PRODUCT + products_of(rush) - 1);
}

static double saved_now(const struct site *site, const char *mode)
{
    double saved = 0;
    for (size_t i = 0; i < DEED_PROCESSES && strcmp(mode, "shadow") == 0; i++) {
        const struct stack_catalogd catalogd = {.ops_port = site->ops_ports[i]};
        saved += fmax(0, stack_catalogd_metric(&catalogd, "guard_shadow_saved_total"));
    }
    return saved;
}

static bool invalidate(const struct site *site, size_t process, uint32_t product)
{
    char path[64];
    struct http_answer answer;
    const struct http_request request = {.host = "127.0.0.1",
                                         .port = site->ops_ports[process],
                                         .method = "POST",
                                         .path = path,
                                         .deadline_ms = ASK_LIMIT_MS};
    snprintf(path, sizeof path, "/invalidate?key=product:%u", (unsigned)product);
    bool dropped = http_ask(&request, &answer) && answer.status == 200;
    http_answer_clear(&answer);
    return dropped;
}

/*
 * The products are to be cold, as if their time had passed. An invalidation does more: a process that hears of it
 * late takes its load for one from before, and loads again. It is what is left where the value is not in a Redis that
 * we can see.
 */
static void drop_products(const struct crowd *crowd, const struct site_look *look)
{
    struct site *site = crowd->site;
    struct shelf shelf;
    shelf_open(&shelf, site);
    bool is_up = look->health[DEED_REDIS] == DEED_UP;
    for (uint32_t product = SITE_PRODUCT; is_up && product < SITE_PRODUCT + products_of(crowd->rush);
         product++) {
        char key[32];
        snprintf(key, sizeof key, "product:%u", (unsigned)product);
        bool is_dropped = !site->has_near && shelf_drop(&shelf, key);
        for (size_t i = 0; !is_dropped && i < DEED_PROCESSES; i++)
            is_dropped = look->health[i] == DEED_UP && invalidate(site, i, product);
    }
    shelf_close(&shelf);
}

static void path_of(void *context, uint32_t index, char *path)
{
    const struct crowd *crowd = context;
    uint32_t product = SITE_PRODUCT + index / (uint32_t)crowd->target_count % products_of(crowd->rush);
    snprintf(path, BURST_PATH_BYTES, "/products/%u", (unsigned)product);
}

/* Those that are paused are asked by the crowd alone: somebody would have to wait for them. */
static void choose_targets(struct crowd *crowd, const struct site_look *look, bool with_paused)
{
    crowd->target_count = 0;
    for (size_t i = 0; i < DEED_PROCESSES; i++) {
        if (look->health[i] != DEED_UP && (!with_paused || look->health[i] != DEED_PAUSED))
            continue;
        crowd->parties[crowd->target_count] = (enum deed_party)i;
        crowd->targets[crowd->target_count++] = (struct burst_target){"127.0.0.1", crowd->site->ports[i]};
    }
}

static struct burst_options options_for(struct crowd *crowd, uint32_t requests)
{
    return (struct burst_options){.targets = crowd->targets,
                                  .target_count = crowd->target_count,
                                  .connection_count = requests,
                                  .connect_limit_ms = CONNECT_LIMIT_MS,
                                  .request_limit_ms = REQUEST_LIMIT_MS,
                                  .path_of = path_of,
                                  .path_context = crowd};
}

/* Each process is asked for each product once. */
static void warm_products(struct crowd *crowd, const struct site_look *look)
{
    struct burst *burst = NULL;
    choose_targets(crowd, look, false);
    const struct burst_options options =
        options_for(crowd, products_of(crowd->rush) * (uint32_t)crowd->target_count);
    if (crowd->target_count == 0 || !burst_open(&options, &burst))
        return;
    burst_run(burst);
    burst_close(&burst);
}

static bool gather(struct crowd *crowd, const struct site_look *look)
{
    struct site *site = crowd->site;
    if (crowd->rush->is_warm)
        warm_products(crowd, look);
    else
        drop_products(crowd, look);
    choose_targets(crowd, look, true);
    crowd->saved_before = saved_now(site, look->mode);
    crowd->queries_before = site_queries(site);
    if (crowd->target_count == 0)
        story_tell(site->story, STORY_TROUBLE, "No process is up: start one, then send the crowd.");
    return crowd->target_count > 0;
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

/* Until no further query for the crowd's products has begun for a moment. */
static uint64_t settled_queries(const struct crowd *crowd)
{
    uint64_t end_us = clock_after_ms(SETTLE_LIMIT_MS), before;
    uint64_t now = queries_since(crowd->site, crowd->rush, crowd->queries_before);
    do {
        before = now;
        clock_pause_ms(SETTLE_MS);
        now = queries_since(crowd->site, crowd->rush, crowd->queries_before);
    } while (now != before && clock_us() < end_us);
    return now;
}

static enum rush_end end_of(const struct burst_answer *answer)
{
    char said[WORDS_BYTES];
    if (answer->head == NULL)
        return answer->outcome == RECORD_RESET || answer->outcome == RECORD_REFUSED ? RUSH_RESET
                                                                                    : RUSH_SILENT;
    if (answer->status != 200)
        return RUSH_REFUSED;
    switch (cache_status_read(answer->head)) {
    case RECORD_CACHE_HIT:
        return RUSH_HIT;
    case RECORD_CACHE_STALE:
        return RUSH_STALE;
    case RECORD_CACHE_COLLAPSED:
        burst_header(answer, "Cache-Status", said, sizeof said);
        return strstr(said, "detail=fleet") != NULL ? RUSH_FLEET : RUSH_WAITED;
    default:
        return RUSH_ASKED;
    }
}

static void count_answers(const struct crowd *crowd, const struct burst *burst, struct rush_result *out)
{
    const struct burst_answer *answers = burst_answers(burst);
    struct burst_summary summary;
    burst_summarise(burst, &summary);
    out->requests = summary.requests;
    out->ok = summary.statuses[200];
    out->max_us = summary.max_us;
    for (uint32_t i = 0; i < summary.requests; i++)
        out->ends[crowd->parties[i % crowd->target_count]][end_of(&answers[i])]++;
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
    struct burst_options options = options_for(&crowd, rush->requests);
    options.events = &event;
    options.event_count = rush->hits;
    if (!burst_open(&options, &burst)) {
        story_tell(site->story, STORY_TROUBLE, "The crowd could not connect; the terminal says why.");
        return false;
    }
    site_show_burst(site, burst);
    burst_run(burst);
    site_show_burst(site, NULL);
    count_answers(&crowd, burst, out);
    burst_close(&burst);
    out->queries = settled_queries(&crowd);
    out->saved = (uint64_t)fmax(0, saved_now(site, out->mode) - crowd.saved_before);
    return true;
}

/* ---- the sentence: what was seen of each process, and no reason for it ---- */

static const char *seconds(uint64_t us, char text[static 24])
{
    snprintf(text, 24, us < 995000 ? "%.0f ms" : "%.1f s", us < 995000 ? (double)us / 1e3 : (double)us / 1e6);
    return text;
}

/* " A: 1 asked the database, 499 waited for it." */
static void say_process(const uint32_t ends[static RUSH_ENDS], const char *name,
                        char text[static WORDS_BYTES])
{
    static const char *const did[RUSH_ENDS] = {
        "asked the database",      "waited for it", "waited for another process", "came from the cache",
        "got an old copy at once", "got an error",  "lost their connection",      "got no answer in time"};
    char count[STORY_COUNT_BYTES];
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < RUSH_ENDS; i++) {
        if (ends[i] > 0)
            used += (size_t)snprintf(text + used, WORDS_BYTES - used, "%s%s%s %s %s", used > 0 ? "," : " ",
                                     used > 0 ? "" : name, used > 0 ? "" : ":", story_count(ends[i], count),
                                     did[i]);
    }
    if (used > 0 && used + 2 <= WORDS_BYTES)
        memcpy(text + used, ".", 2);
}

static void rush_tell(struct site *site, const struct rush *rush, const struct rush_result *result)
{
    char did[DEED_PROCESSES][WORDS_BYTES], saved[WORDS_BYTES] = "", slowest[64] = "", took[24];
    char requests[STORY_COUNT_BYTES], queries[STORY_COUNT_BYTES];
    for (size_t i = 0; i < DEED_PROCESSES; i++)
        say_process(result->ends[i], deed_party_name((enum deed_party)i), did[i]);
    if (strcmp(result->mode, "shadow") == 0)
        snprintf(saved, sizeof saved, " (the guard, which only watched, would have saved %s)",
                 story_count(result->saved, queries));
    if (result->max_us > 0)
        snprintf(slowest, sizeof slowest, " The slowest answer took %s.", seconds(result->max_us, took));
    uint32_t asked = result->ends[DEED_A][RUSH_ASKED] + result->ends[DEED_B][RUSH_ASKED];
    story_tell(site->story, STORY_RESULT, "%s request%s%s, %s quer%s%s%s.%s%s%s",
               story_count(result->requests, requests), result->requests == 1 ? "" : "s",
               rush->is_many ? " for 100 products" : "", story_count(result->queries, queries),
               result->queries == 1 ? "y" : "ies",
               rush->is_many && result->queries < asked ? ", several products each" : "", saved, did[DEED_A],
               did[DEED_B], slowest);
}

/* {"requests","queries",...}. Yours. */
static json_t *rush_json(const struct rush_result *result)
{
    return json_pack("{s:I,s:I,s:I,s:I}", "requests", (json_int_t)result->requests, "failed",
                     (json_int_t)result->requests - result->ok, "queries", (json_int_t)result->queries,
                     "max_us", (json_int_t)result->max_us);
}

/* ---- jobs ---- */

enum { SET_LIMIT_MS = 60000, TEXT_BYTES = 160 };

static const char *const step_names[JOB_STEPS] = {"", "off", "fleet", "hit"};

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
    struct site_order order = {.what = SITE_SET, .is_quiet = true};
    site_look_at(site, &look);
    if (mode[0] == '\0' || strcmp(mode, look.mode) == 0)
        return true;
    order.delay_ms = look.delay_ms;
    snprintf(order.mode, sizeof order.mode, "%s", mode);
    if (!site_order(site, &order, &number, why))
        story_tell(site->story, STORY_TROUBLE, "%s", why);
    else if (site_wait(site, number, SET_LIMIT_MS))
        return true;
    else
        story_tell(site->story, STORY_TROUBLE, "The processes did not come back in mode %s in time.", mode);
    return false;
}

static void send_crowd(struct jobs *jobs, const struct job *job)
{
    struct rush_result result;
    if (!set_mode(jobs->site, job->mode))
        return;
    uint64_t queries = site_queries(jobs->site);
    pthread_mutex_lock(&jobs->lock);
    jobs->queries_before = queries;
    pthread_mutex_unlock(&jobs->lock);
    if (!rush_run(jobs->site, &job->rush, &result))
        return;
    pthread_mutex_lock(&jobs->lock);
    jobs->steps[job->step] = result;
    pthread_mutex_unlock(&jobs->lock);
    rush_tell(jobs->site, &job->rush, &result);
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
        send_crowd(jobs, &job);
        pthread_mutex_lock(&jobs->lock);
        jobs->is_busy = false;
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

static json_t *steps_json(const struct rush_result *results)
{
    json_t *all = json_object();
    for (size_t i = JOB_NO_STEP + 1; i < JOB_STEPS; i++) {
        if (results[i].requests > 0)
            json_object_set_new(all, step_names[i], rush_json(&results[i]));
    }
    return all;
}

static json_t *job_json(struct site *site, const struct job *job, uint64_t before)
{
    return json_pack("{s:s,s:I,s:I}", "step", step_names[job->step], "requests",
                     (json_int_t)job->rush.requests, "queries",
                     (json_int_t)queries_since(site, &job->rush, before));
}

json_t *jobs_json(struct jobs *jobs)
{
    pthread_mutex_lock(&jobs->lock);
    json_t *all = json_pack("{s:o}", "steps", steps_json(jobs->steps));
    bool is_busy = jobs->is_busy;
    struct job job = jobs->job;
    uint64_t before = jobs->queries_before;
    pthread_mutex_unlock(&jobs->lock);
    json_object_set_new(all, "job", is_busy ? job_json(jobs->site, &job, before) : json_null());
    return all;
}

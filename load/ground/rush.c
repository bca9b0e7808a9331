/* SPDX-License-Identifier: MIT */
/* rush.c - see rush.h. */
#include "load/ground/rush.h"

#include "load/base/clock.h"
#include "load/base/http.h"
#include "load/herd/burst.h"
#include "load/herd/cache_status.h"

#include <inttypes.h>
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

bool rush_run(struct site *site, const struct rush *rush, struct rush_result *out)
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

void rush_tell(struct site *site, const struct rush *rush, const struct rush_result *result)
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

json_t *rush_json(const struct rush_result *result)
{
    return json_pack("{s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "mode", result->mode, "requests",
                     (json_int_t)result->requests, "ok", (json_int_t)result->ok, "failed",
                     (json_int_t)result->failed + result->refused, "queries", (json_int_t)result->queries,
                     "saved", (json_int_t)result->saved, "p50_us", (json_int_t)result->p50_us, "max_us",
                     (json_int_t)result->max_us);
}

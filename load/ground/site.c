/* SPDX-License-Identifier: MIT */
/*
 * site.c - see site.h.
 *
 * Locking: `lock` guards the orders and the look; it is not held while something is done.
 */
#include "load/ground/site.h"

#include "load/base/clock.h"
#include "load/stack/stack.h"
#include "load/witness/witness.h"

#include <hiredis/hiredis.h>

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the story ---- */

void story_init(struct story *story)
{
    memset(story, 0, sizeof *story);
    pthread_mutex_init(&story->lock, NULL);
}

void story_tell(struct story *story, enum story_kind kind, const char *format, ...)
{
    va_list arguments;
    pthread_mutex_lock(&story->lock);
    size_t at = story->count++ % STORY_KEPT;
    story->told[at].at_ms = clock_wall_us() / 1000;
    story->told[at].kind = kind;
    va_start(arguments, format);
    vsnprintf(story->told[at].text, sizeof story->told[at].text, format, arguments);
    va_end(arguments);
    pthread_mutex_unlock(&story->lock);
}

json_t *story_json(struct story *story)
{
    static const char *const kinds[] = {"deed", "result", "trouble"};
    json_t *all = json_array();
    pthread_mutex_lock(&story->lock);
    uint64_t first = story->count > STORY_KEPT ? story->count - STORY_KEPT : 0;
    for (uint64_t n = first; n < story->count; n++) {
        size_t at = n % STORY_KEPT;
        json_array_append_new(all, json_pack("{s:I,s:I,s:s,s:s}", "n", (json_int_t)n, "at_ms",
                                             (json_int_t)story->told[at].at_ms, "kind",
                                             kinds[story->told[at].kind], "text", story->told[at].text));
    }
    pthread_mutex_unlock(&story->lock);
    return all;
}

const char *story_count(uint64_t count, char text[static STORY_COUNT_BYTES])
{
    char digits[STORY_COUNT_BYTES];
    size_t length = (size_t)snprintf(digits, sizeof digits, "%" PRIu64, count), out = 0;
    for (size_t i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            text[out++] = ' ';
        text[out++] = digits[i];
    }
    text[out] = '\0';
    return text;
}

enum {
    CONNECTIONS = 4096, /* of clients: descriptors for them */
    HIT_LIMIT_MS = 3000,
    AGAIN_MS = 1000,
    RATE_PRODUCTS = 1000,
    RATE_CONNECTIONS = 400,
    RATE_RUN_MS = 600000,
    RATE_LIMIT_MS = 20000,
    GAUGE_LIMIT_MS = 5000,
    STATEMENT_LIMIT_MS = 6000,
};

/* ---- settings ---- */

/* What makes a stampede visible, and lets a page look at it for minutes; the environment has precedence. */
static const struct {
    const char *name, *value;
} defaults[] = {
    {"GUARD_MODE", "fleet"}, {"LOAD_DELAY_MS", "500"},    {"MAX_LOADS", "48"},
    {"LOAD_QUEUE", "5000"},  {"LOAD_PERMITS", "64"},      {"LEASE_MS", "2000"},
    {"STALE_MS", "60000"},   {"DEADLINE_MS", "30000"},    {"LOAD_LIMIT_MS", "20000"},
    {"DRAIN_MS", "500"},     {"NAMESPACE", "playground"}, {"WRITE_LIMIT_MS", "8000"},
};

static const char *given(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

static const char *setting(const char *name)
{
    const char *value = given(name);
    for (size_t i = 0; value == NULL && i < sizeof defaults / sizeof *defaults; i++) {
        if (strcmp(defaults[i].name, name) == 0)
            value = defaults[i].value;
    }
    return value != NULL ? value : "";
}

static bool choose_settings(struct site *site)
{
    struct scenario *scenario = site->scenario;
    bool fits = true;
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++)
        fits = fits && scenario_set_setting(scenario, defaults[i].name, setting(defaults[i].name));
    snprintf(site->name_space, sizeof site->name_space, "%s", setting("NAMESPACE"));
    snprintf(site->look.mode, sizeof site->look.mode, "%s", setting("GUARD_MODE"));
    site->look.delay_ms = (uint32_t)strtoul(setting("LOAD_DELAY_MS"), NULL, 10);
    return fits &&
           scenario_set_setting(scenario, "OPS_TOKEN_FILE", ""); /* the page asks there, on loopback */
}

/* ---- usable ---- */

static void wait_gauge(const struct site *site, size_t process, const char *gauge, double wanted)
{
    uint64_t end_us = clock_after_ms(GAUGE_LIMIT_MS);
    while (stack_catalogd_metric(&site->servers.catalogd[process], gauge) != wanted && clock_us() < end_us)
        clock_pause_ms(2);
}

/* Writes are on: what is loaded before the cache is registered is answered and not stored: a second load would
 * follow. */
static void wait_registered(const struct site *site, size_t process)
{
    wait_gauge(site, process, "catalogd_cache_in_use", 1);
}

/* Servers that a deed has broken are not waited for. */
static void wait_usable(const struct site *site, size_t process)
{
    if (site->look.health[DEED_REDIS] == DEED_UP)
        stack_catalogd_wait_joined(&site->servers.catalogd[process], SERVERS_JOIN_LIMIT_MS);
    if (site->look.health[DEED_POSTGRES] == DEED_UP)
        wait_registered(site, process);
}

/* A Redis is back when the processes have noticed; one that is not up notices nothing. */
static void wait_joined_again(const struct site *site)
{
    for (size_t i = 0; i < DEED_PROCESSES; i++) {
        if (site->look.health[i] == DEED_UP &&
            stack_catalogd_wait_joined(&site->servers.catalogd[i], SERVERS_JOIN_LIMIT_MS))
            wait_gauge(site, i, "guard_breaker_open", 0);
    }
}

/* ---- the steady rate ---- */

static bool rate_work(const struct site *site, struct work *work, char why[static WORK_WHY_BYTES])
{
    uint32_t products = site->product_count < RATE_PRODUCTS ? site->product_count : RATE_PRODUCTS;
    char target[32], url[48];
    bool good = true;
    work_init(work);
    work->shape = WORK_RATE;
    work->per_second = site->look.per_second;
    work->duration_ms = RATE_RUN_MS;
    work->request_limit_ms = RATE_LIMIT_MS;
    work->connection_count = RATE_CONNECTIONS;
    work->generator_count = 1;
    snprintf(url, sizeof url, "/products/{zipf:1-%u}", (unsigned)products);
    for (size_t i = 0; good && i < DEED_PROCESSES; i++) {
        snprintf(target, sizeof target, "127.0.0.1:%u", (unsigned)site->ports[i]);
        good = work_target_parse(target, &work->targets[work->target_count++], why);
    }
    return good && work_url_add(work, url, why);
}

static void stop_rate(struct site *site)
{
    char why[WORK_WHY_BYTES];
    struct records records;
    struct herd_strain strain;
    struct herd *herd = site->herd;
    if (herd == NULL)
        return;
    herd_abort(herd);
    site->herd = NULL;
    pthread_mutex_lock(&site->lock);
    site->rate_waiting = 0;
    pthread_mutex_unlock(&site->lock);
    herd_end(&herd, &records, &strain, why);
    records_clear(&records);
}

/* It asks both processes first: while one of them is not up it would wait for that. */
static void start_rate(struct site *site)
{
    char why[WORK_WHY_BYTES];
    struct herd *herd = NULL;
    struct work work;
    uint64_t begin_us;
    if (site->look.health[DEED_A] != DEED_UP || site->look.health[DEED_B] != DEED_UP)
        return;
    site->rate_again_us = clock_after_ms(AGAIN_MS);
    if (!rate_work(site, &work, why) || !herd_start(&work, &herd, why))
        return;
    site->herd = herd;
    if (!herd_release(herd, &begin_us, why))
        stop_rate(site);
}

static void keep_rate(struct site *site)
{
    struct herd_progress progress = {.finished = false};
    if (site->herd != NULL) {
        herd_watch(site->herd, &progress);
        pthread_mutex_lock(&site->lock);
        site->rate_waiting = progress.due - progress.answered - progress.failed;
        pthread_mutex_unlock(&site->lock);
    }
    if (progress.finished)
        stop_rate(site);
    if (site->herd == NULL && site->look.per_second > 0 && clock_us() >= site->rate_again_us)
        start_rate(site);
}

static void do_rate(struct site *site, uint32_t per_second)
{
    stop_rate(site);
    site->rate_again_us = 0;
    pthread_mutex_lock(&site->lock);
    site->look.per_second = per_second;
    pthread_mutex_unlock(&site->lock);
    story_tell(site->story, STORY_DEED, "Steady traffic: %u requests a second are due from now on.",
               (unsigned)per_second);
}

/* ---- open ---- */

static bool plan(struct site *site)
{
    if (given("REDIS_URL") != NULL || given("DATABASE_URL") != NULL) {
        fprintf(stderr,
                "stampede: the playground breaks its servers, so they are its own: unset REDIS_URL and "
                "DATABASE_URL. For yours: stampede --url, stampede --help\n");
        return false;
    }
    struct scenario *scenario = scenario_new();
    site->scenario = scenario;
    if (scenario == NULL)
        return false;
    site->has_near = strtoul(setting("NEAR_MS"), NULL, 10) > 0;
    snprintf(scenario->path, sizeof scenario->path, "stampede serve");
    scenario->process_count = DEED_PROCESSES;
    scenario->product_count = site->product_count;
    scenario->proxies_redis = true;
    scenario->work.connection_count = CONNECTIONS;
    return choose_settings(site);
}

static bool begin_to_count(struct site *site)
{
    struct witness_options options;
    char why[WITNESS_WHY_BYTES];
    servers_witness(&site->servers, &options);
    options.redis_url = NULL;
    if (witness_open(&options, &site->witness, why) && witness_begin(site->witness, why))
        return true;
    fprintf(stderr, "stampede: the queries cannot be counted: %s\n", why);
    return false;
}

static void keep_addresses(struct site *site)
{
    for (size_t i = 0; i < DEED_PROCESSES; i++) {
        site->ports[i] = site->servers.catalogd[i].port;
        site->ops_ports[i] = site->servers.catalogd[i].ops_port;
    }
}

static void publish(struct site *site)
{
    pthread_mutex_lock(&site->lock);
    for (size_t i = 0; i < DEED_PROCESSES; i++) {
        site->look.pids[i] = site->servers.catalogd[i].pid;
        if (site->look.pids[i] > 0)
            site->look.last_pids[i] = site->look.pids[i];
    }
    pthread_cond_broadcast(&site->changed);
    pthread_mutex_unlock(&site->lock);
}

bool site_open(struct site *site, uint32_t product_count, struct story *story)
{
    memset(site, 0, sizeof *site);
    pthread_mutex_init(&site->lock, NULL);
    pthread_cond_init(&site->changed, NULL);
    site->story = story;
    site->product_count = product_count;
    if (!plan(site) || !servers_open(&site->servers, site->scenario) ||
        !scenario_set_setting(site->scenario, "WRITE_DATABASE_URL", site->servers.postgres.url) ||
        !servers_start_variant(&site->servers, "") || !begin_to_count(site))
        return false;
    site->act.servers = &site->servers;
    keep_addresses(site);
    for (size_t i = 0; i < DEED_PROCESSES; i++)
        wait_registered(site, i);
    shelf_open(&site->shelf, site);
    publish(site);
    return true;
}

void site_close(struct site *site)
{
    if (site->scenario == NULL)
        return;
    stop_rate(site);
    act_end(&site->act);
    if (site->witness != NULL)
        witness_close(&site->witness);
    shelf_close(&site->shelf);
    servers_close(&site->servers);
    scenario_free(&site->scenario);
}

/* ---- deeds ---- */

static void set_health(struct site *site, enum deed_party party, enum deed_health health, uint32_t back_ms)
{
    pthread_mutex_lock(&site->lock);
    site->look.health[party] = health;
    site->look.back_us[party] = back_ms > 0 ? clock_after_ms(back_ms) : 0;
    pthread_mutex_unlock(&site->lock);
    publish(site);
}

/* ---- statements ---- */

/* Statements end later: a lock is gone, or one of them has failed. */
static void look_after_statements(struct site *site)
{
    char why[SCENARIO_WHY_BYTES];
    size_t tag, running;
    if (site->act.errands == NULL)
        return;
    while (act_poll(&site->act, &tag, &running, why)) {
        if (why[0] == '\0')
            continue;
        site->refused++;
        story_tell(site->story, STORY_TROUBLE, "PostgreSQL refused: %.300s.", why);
        set_health(site, DEED_POSTGRES, DEED_UP, 0);
    }
    if (running > 0)
        return;
    act_end(&site->act);
    if (site->look.health[DEED_POSTGRES] == DEED_LOCKED) {
        set_health(site, DEED_POSTGRES, DEED_UP, 0);
        story_tell(site->story, STORY_DEED, "The lock on the table of products is gone.");
    }
}

/* A table is broken when the statement is over; one that is locked holds its statement up. False: it was refused. */
static bool wait_for_statement(struct site *site, const struct deed *deed)
{
    uint64_t end_us = clock_after_ms(STATEMENT_LIMIT_MS), refused = site->refused;
    bool waits = deed->action.verb == SCENARIO_SQL && deed->after != DEED_LOCKED;
    while (waits && site->act.errands != NULL && clock_us() < end_us) {
        look_after_statements(site);
        clock_pause_ms(2);
    }
    return site->refused == refused;
}

/* ---- doing it ---- */

static bool is_start(const struct deed *deed)
{
    return deed->action.verb == SCENARIO_START;
}

static void do_deed(struct site *site, const struct deed *deed)
{
    char why[SCENARIO_WHY_BYTES] = "";
    enum deed_health before = site->look.health[deed->party]; /* only this thread changes it */
    if ((deed->when & (1U << before)) == 0) {
        story_tell(site->story, STORY_TROUBLE, "%s is %s: that cannot be done to it now.",
                   deed_party_name(deed->party), deed_health_name(before));
        return;
    }
    if (is_start(deed))
        set_health(site, deed->party, DEED_STARTING, 0);
    if (act_do(&site->act, &deed->action, 0, why) != ACT_DONE) {
        set_health(site, deed->party, before, 0);
        story_tell(site->story, STORY_TROUBLE, "%s: %.300s.", deed->name, why);
        return;
    }
    if (deed->party < DEED_PROCESSES && is_start(deed))
        wait_usable(site, deed->party);
    if (deed->party == DEED_REDIS && deed->after == DEED_UP)
        wait_joined_again(site);
    if (!wait_for_statement(site, deed))
        return;
    set_health(site, deed->party, deed->after, deed->back_ms);
    story_tell(site->story, STORY_DEED, "%s", deed->said);
}

/* What the deeds have broken, and the time is up; `all`: whatever the time. */
static void mend(struct site *site, bool all)
{
    for (size_t i = 0; i < DEED_PARTIES; i++) {
        const struct deed *cure = deed_cure((enum deed_party)i, site->look.health[i]);
        uint64_t back_us = site->look.back_us[i];
        if (cure != NULL && (all || (back_us > 0 && clock_us() >= back_us)))
            do_deed(site, cure);
    }
}

/* ---- the process that loads ---- */

static const struct deed *deed_to(size_t process, bool is_kill)
{
    static const char *const names[DEED_PROCESSES][2] = {{"a-pause", "a-kill"}, {"b-pause", "b-kill"}};
    return deed_find(names[process][is_kill]);
}

/* Without leases both processes load: the first one that is up. */
static bool find_loading(struct site *site, size_t *process)
{
    struct shelf_lease lease;
    bool has_leases = strcmp(site->look.mode, "fleet") == 0;
    bool is_seen = has_leases && shelf_look(&site->shelf, SITE_KEY, &lease);
    for (size_t i = 0; i < DEED_PROCESSES; i++) {
        bool is_it =
            has_leases ? is_seen && site->look.pids[i] == lease.pid : site->look.health[i] == DEED_UP;
        if (is_it) {
            *process = i;
            return true;
        }
    }
    return false;
}

static void try_hit(struct site *site)
{
    size_t process;
    if (site->hit_until_us == 0)
        return;
    if (find_loading(site, &process)) {
        site->hit_until_us = 0;
        do_deed(site, deed_to(process, site->hit.verb == SITE_KILL));
    } else if (clock_us() >= site->hit_until_us) {
        site->hit_until_us = 0;
        story_tell(site->story, STORY_TROUBLE,
                   "No process was seen to load product %d: there was none to %s.", SITE_PRODUCT,
                   site->hit.verb == SITE_KILL ? "kill" : "stop");
    }
}

/* ---- mode and delay ---- */

static bool start_again(struct site *site)
{
    bool good = true;
    for (size_t i = 0; i < DEED_PROCESSES; i++)
        set_health(site, (enum deed_party)i, DEED_STARTING, 0);
    for (size_t i = 0; good && i < DEED_PROCESSES; i++)
        proc_resume(site->servers.catalogd[i].pid);
    for (size_t i = 0; good && i < DEED_PROCESSES; i++)
        good = stack_catalogd_restart(&site->servers.catalogd[i], site->servers.settings);
    for (size_t i = 0; good && i < DEED_PROCESSES; i++) {
        wait_usable(site, i);
        set_health(site, (enum deed_party)i, DEED_UP, 0);
    }
    return good;
}

static bool do_set(struct site *site, const struct site_order *order)
{
    char delay[16];
    snprintf(delay, sizeof delay, "%u", (unsigned)order->delay_ms);
    bool is_same = strcmp(order->mode, site->look.mode) == 0 && order->delay_ms == site->look.delay_ms;
    if (is_same)
        return true;
    if (!servers_set(&site->servers, "GUARD_MODE", order->mode) ||
        !servers_set(&site->servers, "LOAD_DELAY_MS", delay) || !start_again(site))
        return false;
    pthread_mutex_lock(&site->lock);
    memcpy(site->look.mode, order->mode, sizeof site->look.mode);
    site->look.delay_ms = order->delay_ms;
    pthread_mutex_unlock(&site->lock);
    if (!order->is_quiet)
        story_tell(site->story, STORY_DEED,
                   "Both processes were started again: the guard is %s, and a query takes %u ms.",
                   order->mode, (unsigned)order->delay_ms);
    return true;
}

/* ---- a turn ---- */

static bool take_order(struct site *site, struct site_order *order, uint32_t limit_ms)
{
    const uint64_t end_us = clock_after_ms(limit_ms);
    pthread_mutex_lock(&site->lock);
    while (site->ordered == site->done && clock_wait(&site->changed, &site->lock, end_us))
        ;
    bool any = site->ordered > site->done;
    if (any)
        *order = site->orders[site->done % SITE_ORDERS_MAX];
    pthread_mutex_unlock(&site->lock);
    return any;
}

static bool carry_out(struct site *site, const struct site_order *order)
{
    switch (order->what) {
    case SITE_DEED:
        do_deed(site, order->deed);
        return true;
    case SITE_HIT:
        site->hit = *order;
        site->hit_until_us = clock_after_ms(HIT_LIMIT_MS);
        return true;
    case SITE_SET:
        return do_set(site, order);
    case SITE_RATE:
        do_rate(site, order->per_second);
        return true;
    case SITE_MEND:
        mend(site, true);
        return true;
    }
    return true;
}

static void order_is_done(struct site *site)
{
    pthread_mutex_lock(&site->lock);
    site->done++;
    pthread_cond_broadcast(&site->changed);
    pthread_mutex_unlock(&site->lock);
}

/* One that ended by itself is a bug worth seeing: its log goes to stderr, and it is started again. */
static void look_after_processes(struct site *site)
{
    for (size_t i = 0; i < DEED_PROCESSES; i++) {
        struct stack_catalogd *catalogd = &site->servers.catalogd[i];
        if (catalogd->pid <= 0 || !proc_wait(catalogd->pid, 0, NULL))
            continue;
        catalogd->pid = 0;
        fprintf(stderr, "stampede: catalogd %s ended by itself; its log ends:\n",
                deed_party_name((enum deed_party)i));
        proc_show_tail(catalogd->log_path);
        story_tell(site->story, STORY_TROUBLE, "Process %s ended by itself; its log is on the terminal.",
                   deed_party_name((enum deed_party)i));
        set_health(site, (enum deed_party)i, DEED_DEAD, AGAIN_MS);
    }
}

bool site_turn(struct site *site, uint32_t limit_ms)
{
    struct site_order order;
    bool good = true;
    if (take_order(site, &order, site->hit_until_us > 0 ? 2 : limit_ms)) {
        good = carry_out(site, &order);
        order_is_done(site);
    }
    try_hit(site);
    look_after_statements(site);
    look_after_processes(site);
    mend(site, false);
    keep_rate(site);
    return good;
}

/* ---- from other threads ---- */

static bool is_allowed(const struct site *site, const struct site_order *order, char *why)
{
    enum deed_party party = order->what == SITE_DEED ? order->deed->party : DEED_A;
    enum deed_health health = site->look.health[party];
    if (order->what == SITE_DEED && (order->deed->when & (1U << health)) == 0) {
        snprintf(why, SITE_WHY_BYTES, "%s is %s: that cannot be done to it now.", deed_party_name(party),
                 deed_health_name(health));
        return false;
    }
    return true;
}

bool site_order(struct site *site, const struct site_order *order, uint64_t *number,
                char why[static SITE_WHY_BYTES])
{
    pthread_mutex_lock(&site->lock);
    bool allowed = is_allowed(site, order, why), fits = site->ordered - site->done < SITE_ORDERS_MAX;
    if (allowed && fits) {
        site->orders[site->ordered++ % SITE_ORDERS_MAX] = *order;
        *number = site->ordered;
        pthread_cond_broadcast(&site->changed);
    } else if (allowed) {
        snprintf(why, SITE_WHY_BYTES, "Too much at once: try again in a moment.");
    }
    pthread_mutex_unlock(&site->lock);
    return allowed && fits;
}

bool site_wait(struct site *site, uint64_t number, uint32_t limit_ms)
{
    const uint64_t end_us = clock_after_ms(limit_ms);
    pthread_mutex_lock(&site->lock);
    while (site->done < number && clock_wait(&site->changed, &site->lock, end_us))
        ;
    const bool is_done = site->done >= number;
    pthread_mutex_unlock(&site->lock);
    return is_done;
}

void site_look_at(struct site *site, struct site_look *out)
{
    pthread_mutex_lock(&site->lock);
    *out = site->look;
    pthread_mutex_unlock(&site->lock);
}

void site_show_burst(struct site *site, const struct burst *burst)
{
    pthread_mutex_lock(&site->lock);
    site->burst = burst;
    pthread_mutex_unlock(&site->lock);
}

uint64_t site_waiting(struct site *site)
{
    pthread_mutex_lock(&site->lock);
    uint64_t waiting = site->rate_waiting + (site->burst != NULL ? burst_waiting(site->burst) : 0);
    pthread_mutex_unlock(&site->lock);
    return waiting;
}

uint64_t site_queries_for(struct site *site, uint64_t from, uint32_t first, uint32_t last)
{
    return witness_loads_of(site->witness, from, first, last);
}

uint64_t site_queries(struct site *site)
{
    return witness_loads_now(site->witness);
}

/* ---- what stands in Redis ---- */

void shelf_open(struct shelf *shelf, const struct site *site)
{
    *shelf = (struct shelf){.name_space = site->name_space};
    memcpy(shelf->redis.socket_path, site->servers.redis.socket_path, sizeof shelf->redis.socket_path);
}

bool shelf_look(struct shelf *shelf, const char *key, struct shelf_lease *out)
{
    redisReply *left = NULL;
    redisReply *lease = stack_redis_command(&shelf->redis, "GET csg1:{%s:%s}:l", shelf->name_space, key);
    if (lease != NULL && lease->type == REDIS_REPLY_STRING)
        left = stack_redis_command(&shelf->redis, "PTTL csg1:{%s:%s}:l", shelf->name_space, key);
    bool is_seen = left != NULL && left->type == REDIS_REPLY_INTEGER && left->integer > 0 &&
                   (out->pid = servers_lease_holder(lease->str, &out->lease_ms)) > 0;
    if (is_seen)
        out->left_ms = (uint32_t)left->integer;
    freeReplyObject(lease);
    freeReplyObject(left);
    return is_seen;
}

bool shelf_drop(struct shelf *shelf, const char *key)
{
    redisReply *reply = stack_redis_command(&shelf->redis, "DEL csg1:{%s:%s}:v csg1:{%s:%s}:e",
                                            shelf->name_space, key, shelf->name_space, key);
    bool dropped = reply != NULL && reply->type != REDIS_REPLY_ERROR;
    freeReplyObject(reply);
    return dropped;
}

void shelf_close(struct shelf *shelf)
{
    redisFree(shelf->redis.context);
    shelf->redis.context = NULL;
}

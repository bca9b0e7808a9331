/* SPDX-License-Identifier: MIT */
/*
 * check_redis.c - does the guard work over this Redis? One is opened and does with probe keys what it does in the
 * service: a lookup, a load under a lease, a value stored and read, an expiry, an invalidation by key and by tag, and
 * the messages between processes. That takes every right and reaches every master, whatever the URL names. What the
 * server's settings are is asked of one server that the URL names itself, without TLS: which masters Sentinels and a
 * Cluster have is the guard's knowledge, and of those it says that nobody looked. Which server it is, and whether
 * that will do, the guard says.
 */
#include "app/base/clock.h"
#include "app/check/check.h"
#include "app/common/redis_link.h"
#include "guard/guard.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TEXT_BYTES = 400, KEY_BYTES = 64, PROBES = 16, PROBES_OF_CLUSTER = 128, LOOK_MS = 5, PROBE_MS = 3000 };

static const char TAG[] = "catalogd-check";
static const char ACL_ADVICE[] =
    "give the user of REDIS_URL what guard/README.md lists (ACL SETUSER), and see ACL LOG on the server";
static const char DENIED_ADVICE[] = "do what it says; the rights of its user are listed in guard/README.md, "
                                    "and ACL LOG names what was refused";

/* The guard's latest words about its connections. */
struct said {
    pthread_mutex_t lock;
    char text[TEXT_BYTES];
    bool of_commands;    /* text is, and they are not up: wake-ups tell the same of the same server */
    char up[TEXT_BYTES]; /* the first good ones: which server it is up to */
};

struct probe {
    struct findings *findings;
    struct guard *guard;
    struct guard_kind *kind;
    struct said said;
};

/* On any thread. */
static void listen_to(void *context, const char *text, bool good)
{
    struct said *said = context;

    pthread_mutex_lock(&said->lock);
    const bool of_commands = strncmp(text, "redis ", 6) == 0;
    if (!good && (of_commands || !said->of_commands))
        snprintf(said->text, sizeof(said->text), "%s", text);
    if (good && of_commands && said->up[0] == '\0')
        snprintf(said->up, sizeof(said->up), "%s", text + 6);
    said->of_commands = of_commands ? !good : said->of_commands;
    pthread_mutex_unlock(&said->lock);
}

static void last_words(struct said *said, char out[static TEXT_BYTES])
{
    pthread_mutex_lock(&said->lock);
    memcpy(out, said->text, TEXT_BYTES);
    pthread_mutex_unlock(&said->lock);
}

static void load(struct guard_load *load, void *context)
{
    (void)context;
    guard_load_tag(load, TAG);
    guard_load_done(load, "1", 1, NULL);
}

/* ---- connecting ---- */

/* Behind the last "; " of the guard's line; whatever the URL names, TLS or not. */
static void tell_version(struct probe *probe)
{
    char up[TEXT_BYTES];

    pthread_mutex_lock(&probe->said.lock);
    memcpy(up, probe->said.up, TEXT_BYTES);
    pthread_mutex_unlock(&probe->said.lock);
    const char *server = strrchr(up, ';');
    if (server != NULL)
        findings_ok(probe->findings, "redis version", "%s", server + 2);
}

static bool is_settled(const struct guard_stats *stats)
{
    const bool up = stats->redis_state == GUARD_REDIS_UP && stats->wake_state == GUARD_REDIS_UP;
    const bool refused = stats->redis_state != GUARD_REDIS_UP && stats->redis_state != GUARD_REDIS_DOWN;

    return up || refused;
}

static bool check_connected(struct probe *probe)
{
    static const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000};
    const uint64_t end_ms = clock_ms() + CHECK_LIMIT_MS;
    struct guard_stats stats;
    char words[TEXT_BYTES];

    guard_stats(probe->guard, &stats);
    while (!is_settled(&stats) && clock_ms() < end_ms) {
        nanosleep(&pause, NULL);
        guard_stats(probe->guard, &stats);
    }
    last_words(&probe->said, words);
    if (stats.redis_state == GUARD_REDIS_UP && stats.wake_state == GUARD_REDIS_UP) {
        if (words[0] != '\0')
            findings_add(probe->findings, VERDICT_WARNING, "redis", ACL_ADVICE, "%s", words);
        else
            findings_ok(probe->findings, "redis",
                        "every master is reached and takes commands, and so is the channel");
        tell_version(probe);
        return true;
    }
    const bool denied = stats.redis_state == GUARD_REDIS_DENIED || stats.wake_state == GUARD_REDIS_DENIED;
    findings_add(
        probe->findings, VERDICT_WRONG, "redis",
        denied ? DENIED_ADVICE
        : stats.redis_state == GUARD_REDIS_REPLICA
            ? "name the master in REDIS_URL, or its Sentinels (redis+sentinel://)"
            : "is it running, not stopped, and reached from here? The service answers without it, uncached",
        "%s", words[0] != '\0' ? words : "no answer");
    return false;
}

/* ---- doing ---- */

static bool get(struct probe *probe, const char *key, enum guard_source wanted)
{
    const struct guard_request request = {.kind = probe->kind, .key = key, .deadline_ms = PROBE_MS};
    struct guard_result result;
    const bool good = guard_get_wait(probe->guard, &request, &result) == GUARD_OK && result.stored &&
                      result.source == wanted;

    guard_value_unref(&result.value);
    return good;
}

/* The step that fails; NULL: none does. */
static const char *try_key(struct probe *probe, const char *key)
{
    const struct guard_change change = {.key = key, .deadline_ms = PROBE_MS};
    const struct guard_change tag = {.tag = TAG, .deadline_ms = PROBE_MS};
    struct guard_invalidated done;

    if (!get(probe, key, GUARD_FROM_LOAD))
        return "a load under a lease, and storing its value";
    if (!get(probe, key, GUARD_FROM_CACHE))
        return "reading what was stored";
    if (guard_expire_wait(probe->guard, &change, &done) != GUARD_OK)
        return "an expiry";
    if (guard_invalidate_wait(probe->guard, &tag, &done) != GUARD_OK)
        return "an invalidation by tag";
    if (guard_invalidate_wait(probe->guard, &change, &done) != GUARD_OK)
        return "an invalidation";
    return NULL;
}

static void check_rights(struct probe *probe, unsigned count)
{
    const char *failed = NULL;
    char key[KEY_BYTES], words[TEXT_BYTES];

    for (unsigned i = 0; i < count && failed == NULL; i++) {
        snprintf(key, sizeof(key), "catalogd-check:%ld:%u", (long)getpid(), i);
        failed = try_key(probe, key);
    }
    last_words(&probe->said, words);
    if (failed == NULL)
        findings_ok(probe->findings, "rights in Redis", "a guard could do all it does with %u probe keys",
                    count);
    else
        findings_add(probe->findings, VERDICT_WRONG, "rights in Redis", ACL_ADVICE, "%s failed%s%s", failed,
                     words[0] != '\0' ? ": " : "", words);
}

static bool probe_open(struct probe *probe, const struct settings *settings)
{
    struct guard_config config = settings->guard;
    struct guard_policy policy = settings->policy;
    struct guard_error error = {.text = ""};

    config.mode = GUARD_MODE_FLEET;
    config.near_bytes = 0;
    config.log = listen_to;
    config.log_context = &probe->said;
    policy.loader = load;
    policy.tagged = true;
    policy.stale_ms = policy.soft_ms = policy.near_ms = policy.outage_ms = 0;
    policy.name = "check";
    if (guard_open(&config, &probe->guard, &error) == GUARD_OK &&
        guard_kind_add(probe->guard, &policy, &probe->kind, &error) == GUARD_OK)
        return true;
    findings_add(probe->findings, VERDICT_WRONG, "redis", "mend that setting", "%s", error.text);
    return false;
}

/* ---- the server's settings ---- */

enum { PART_BYTES = 512 };

static const char WHAT[] = "redis settings";

/* ---- asking ---- */

static struct redisReply *ask(struct redisContext *context, const char *command)
{
    struct redisReply *reply = redisCommand(context, command);

    if (reply != NULL && reply->type == REDIS_REPLY_ERROR) {
        freeReplyObject(reply);
        return NULL;
    }
    return reply;
}

/* False: the login may not look, or the server has no such setting. */
static bool setting(struct redisContext *context, const char *name, char value[static PART_BYTES])
{
    char command[PART_BYTES];
    snprintf(command, sizeof(command), "CONFIG GET %s", name);
    struct redisReply *reply = ask(context, command);
    const bool told = reply != NULL && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2;

    value[0] = '\0';
    if (told)
        snprintf(value, PART_BYTES, "%s", reply->element[1]->str);
    freeReplyObject(reply);
    return told;
}

/* A field of INFO; 0: not told. */
static long info(struct redisContext *context, const char *section, const char *field, char text[static 32])
{
    char command[64], line[64];
    snprintf(command, sizeof(command), "INFO %s", section);
    snprintf(line, sizeof(line), "\n%s:", field);
    struct redisReply *reply = ask(context, command);
    const char *found = reply != NULL && reply->str != NULL ? strstr(reply->str, line) : NULL;

    text[0] = '\0';
    if (found != NULL)
        snprintf(text, 32, "%.*s", (int)strcspn(found + strlen(line), "\r\n"), found + strlen(line));
    freeReplyObject(reply);
    return strtol(text, NULL, 10);
}

/* ---- judging ---- */

static void check_persistence(struct redisContext *context, struct findings *findings)
{
    static const char advice[] = "CONFIG SET save \"\" and appendonly no, in redis.conf too: a restart must "
                                 "not bring back what was invalidated";
    char save[PART_BYTES], append[PART_BYTES];

    setting(context, "save", save);
    setting(context, "appendonly", append);
    if (strcmp(append, "yes") == 0)
        findings_add(findings, VERDICT_WRONG, WHAT, advice, "appendonly is yes");
    if (save[0] != '\0')
        findings_add(findings, VERDICT_WRONG, WHAT, advice, "save is \"%s\"", save);
    if (strcmp(append, "yes") != 0 && save[0] == '\0')
        findings_ok(findings, WHAT, "nothing is kept over a restart");
}

static void check_eviction(struct redisContext *context, struct findings *findings)
{
    char policy[PART_BYTES], most[PART_BYTES];

    if (!setting(context, "maxmemory-policy", policy) || !setting(context, "maxmemory", most))
        return;
    const bool bounded = strtoull(most, NULL, 10) > 0;
    if (strcmp(policy, "volatile-ttl") == 0)
        findings_add(findings, VERDICT_WRONG, WHAT, "CONFIG SET maxmemory-policy allkeys-lfu",
                     "maxmemory-policy is volatile-ttl, which evicts leases first");
    else if (bounded && strcmp(policy, "noeviction") == 0)
        findings_add(findings, VERDICT_WARNING, WHAT, "CONFIG SET maxmemory-policy allkeys-lfu",
                     "maxmemory-policy is noeviction: when it is full nothing more is cached");
    else if (!bounded)
        findings_add(findings, VERDICT_WARNING, WHAT, "CONFIG SET maxmemory, below what the machine has",
                     "maxmemory is 0: it may grow until the kernel ends it");
    else
        findings_ok(findings, WHAT, "maxmemory %s, %s", most, policy);
}

static void check_replicas(struct redisContext *context, struct findings *findings)
{
    char text[32], least[PART_BYTES];

    const long replicas = info(context, "replication", "connected_slaves", text);
    if (replicas == 0 || !setting(context, "min-replicas-to-write", least))
        return;
    if (strcmp(least, "0") != 0)
        findings_ok(findings, WHAT, "%ld replicas, min-replicas-to-write %s", replicas, least);
    else
        findings_add(findings, VERDICT_WARNING, WHAT,
                     "CONFIG SET min-replicas-to-write 1: a master that was cut off answers no hits then",
                     "%ld replicas, but min-replicas-to-write is 0", replicas);
}

static void check_time(struct redisContext *context, struct findings *findings)
{
    const int64_t before_ms = (int64_t)clock_wall_ms();
    struct redisReply *reply = ask(context, "TIME");

    if (reply != NULL && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2)
        check_clock(findings, "clock of redis",
                    strtoll(reply->element[0]->str, NULL, 10) * 1000 +
                        strtoll(reply->element[1]->str, NULL, 10) / 1000,
                    before_ms);
    freeReplyObject(reply);
}

static void check_server(const char *redis_url, struct findings *findings)
{
    static const char advice[] =
        "compare CONFIG GET save, appendonly, maxmemory-policy of each master with guard/README.md";
    struct redis_url url;
    char ignored[PART_BYTES], why[REDIS_URL_WHY_BYTES];

    if (!redis_url_parse(redis_url, &url, why)) {
        findings_add(findings, VERDICT_WARNING, WHAT, advice, "nobody looked: Sentinel, Cluster or TLS");
        return;
    }
    struct redisContext *context = redis_link_open(&url, CHECK_LIMIT_MS);
    explicit_bzero(&url, sizeof(url));
    if (context == NULL) {
        findings_add(findings, VERDICT_WARNING, WHAT, advice, "nobody looked: it could not be asked");
        return;
    }
    check_time(context, findings);
    check_replicas(context, findings);
    if (setting(context, "save", ignored)) {
        check_persistence(context, findings);
        check_eviction(context, findings);
    } else {
        findings_add(findings, VERDICT_WARNING, WHAT, advice, "nobody looked: the user may not CONFIG GET");
    }
    redisFree(context);
}

/* ---- all ---- */

void check_redis(const struct settings *settings, struct findings *findings)
{
    struct probe probe = {.findings = findings, .said = {.lock = PTHREAD_MUTEX_INITIALIZER}};
    const bool is_cluster = strstr(settings->guard.redis_url, "+cluster://") != NULL;

    const bool works = probe_open(&probe, settings) && check_connected(&probe);
    if (works)
        check_rights(&probe, is_cluster ? PROBES_OF_CLUSTER : PROBES);
    if (probe.guard != NULL)
        guard_close(&probe.guard, 0);
    if (works)
        check_server(settings->guard.redis_url, findings);
}

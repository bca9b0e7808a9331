/* SPDX-License-Identifier: MIT */
/*
 * settings.c - one table of settings, one of rules between them; reading, checking and --help walk both.
 *
 * The flow: collect_flags() and collect_environment() find each setting's text (flag, else environment, else default)
 * and complain about arguments that are not settings; each text is parsed by its kind; rules are checked between
 * settings that are right by themselves, so that one mistake is one message.
 */
#include "app/base/settings.h"

#include "app/base/address.h"
#include "app/base/number.h"
#include "app/common/spelling.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <libpq-fe.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    NAME_BYTES = 32,     /* longest name, flag or environment */
    ALLOWED_BYTES = 160, /* longest "what is allowed" */
    DIGITS_MAX = 10,
    DAY_MS = 86400000,
    NEAR_LEAST_BYTES = 65536,
    SHELF_LEAST_BYTES = 65536, /* room for a value of the largest share, and its head */
    HOUR_MS = 3600000,
    LEASE_MAX_MS = 60000, /* the same in the whole namespace: the guard's default */
    NAME_SPACE_BYTES = 32,
    PATH_BYTES = 1024,
    FLAG_NEAR = 3, /* an unknown flag this few edits from a known one is taken for a slip */
};

/* ---- kinds: how a text becomes a field ---- */

struct setting;

struct kind {
    /* False: wrong. Writes the field only when right. NULL: the text itself is the value. */
    bool (*parse)(const struct setting *setting, const char *text, void *field);
    bool (*text_is_right)(const char *text);
    const char *allowed;      /* NULL: min to max */
    const char *also;         /* one more text that is right; NULL: none */
    const char *const *words; /* of parse_word(), by their number; NULL ends them */
    bool secret;
};

struct setting {
    const char *name; /* in the environment; the flag is made from it */
    const struct kind *kind;
    size_t offset;
    const char *fallback;
    uint32_t min, max;
    const char *unit;
    const char *help;
    bool may_change; /* while the process runs: no lease and no statement limit was made from it */
};

static bool parse_number(const struct setting *setting, const char *text, void *field)
{
    uint64_t number;

    if (!number_parse(text, strlen(text), DIGITS_MAX, &number) || number < setting->min ||
        number > setting->max)
        return false;
    *(uint32_t *)field = (uint32_t)number;
    return true;
}

static bool parse_switch(const struct setting *setting, const char *text, void *field)
{
    const bool on = strcmp(text, "on") == 0;

    (void)setting;
    if (!on && strcmp(text, "off") != 0)
        return false;
    *(bool *)field = on;
    return true;
}

static const char *const MODES[] = {[GUARD_MODE_FLEET] = "fleet",
                                    [GUARD_MODE_LOCAL] = "local",
                                    [GUARD_MODE_OFF] = "off",
                                    [GUARD_MODE_SHADOW] = "shadow",
                                    NULL};
static const char *const LOGS[] = {[SETTINGS_LOG_OFF] = "off", [SETTINGS_LOG_COMBINED] = "combined", NULL};
_Static_assert(sizeof(enum guard_mode) == sizeof(unsigned) && sizeof(enum settings_log) == sizeof(unsigned),
               "as parse_word() writes them");

static bool parse_word(const struct setting *setting, const char *text, void *field)
{
    for (unsigned i = 0; setting->kind->words[i] != NULL; i++) {
        if (strcmp(text, setting->kind->words[i]) == 0) {
            *(unsigned *)field = i;
            return true;
        }
    }
    return false;
}

const char *settings_mode_name(enum guard_mode mode)
{
    return MODES[mode];
}

static bool is_address(const char *text)
{
    struct address ignored;

    return address_parse(text, &ignored);
}

static bool is_name_space(const char *text)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    const size_t bytes = strlen(text);

    return bytes > 0 && bytes <= NAME_SPACE_BYTES && strspn(text, allowed) == bytes;
}

/* The guard reads the parts when it opens; only what certainly is not such a URL is refused here. */
static bool is_redis_url(const char *text)
{
    static const char *const schemes[] = {"redis://",          "rediss://",          "unix://",
                                          "redis+sentinel://", "rediss+sentinel://", "redis+cluster://",
                                          "rediss+cluster://"};
    bool is_right = false;

    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        const size_t bytes = strlen(schemes[i]);

        is_right = is_right || (strncmp(text, schemes[i], bytes) == 0 && text[bytes] != '\0');
    }
    for (const char *byte = text; *byte != '\0'; byte++)
        is_right = is_right && (unsigned char)*byte > ' ' && *byte != 0x7f;
    return is_right;
}

/* libpq's own message is not passed on: it quotes the text, password and all. */
static bool is_database_url(const char *text)
{
    PQconninfoOption *options = *text != '\0' ? PQconninfoParse(text, NULL) : NULL;
    const bool is_right = options != NULL;

    PQconninfoFree(options);
    return is_right;
}

static bool is_readable_file(const char *text)
{
    return access(text, R_OK) == 0;
}

/* Its folder is there and may be written to. */
static bool is_new_file(const char *text)
{
    const char *slash = strrchr(text, '/');
    const size_t bytes = slash == text ? 1 : slash != NULL ? (size_t)(slash - text) : 0;
    char folder[PATH_BYTES] = ".";

    if (strlen(text) >= sizeof(folder) || (slash != NULL ? slash[1] : text[0]) == '\0')
        return false;
    if (bytes > 0)
        snprintf(folder, sizeof(folder), "%.*s", (int)bytes, text);
    return access(folder, W_OK | X_OK) == 0;
}

/* What is there may be appended to, or the file may be made. */
static bool is_log_file(const char *text)
{
    struct stat status;

    if (stat(text, &status) != 0)
        return is_new_file(text);
    return !S_ISDIR(status.st_mode) && access(text, W_OK) == 0;
}

static const struct kind number = {.parse = parse_number};
static const struct kind on_off = {.parse = parse_switch, .allowed = "on or off"};
static const struct kind mode = {
    .parse = parse_word, .words = MODES, .allowed = "fleet, local, off or shadow"};
static const struct kind listen_at = {.text_is_right = is_address,
                                      .allowed = "host:port, [v6 address]:port or unix:PATH"};
static const struct kind listen_at_or_off = {
    .text_is_right = is_address, .also = "off", .allowed = "host:port, [v6 address]:port, unix:PATH or off"};
static const struct kind name_space = {.text_is_right = is_name_space,
                                       .allowed = "1 to 32 of the characters A-Z a-z 0-9 . _ -"};
static const struct kind redis_url = {
    .secret = true,
    .text_is_right = is_redis_url,
    .allowed = "redis[s]://[user[:password]@]host[:port][/db], redis[s]+sentinel://host,.../name[/db], "
               "redis[s]+cluster://host,... or unix://[user[:password]@]/path[?db=n]"};
static const struct kind database_url = {
    .secret = true,
    .text_is_right = is_database_url,
    .allowed = "a postgresql://... URL or a list of keyword=value that libpq can read"};
static const struct kind database_url_or_none = {
    .secret = true,
    .text_is_right = is_database_url,
    .also = "",
    .allowed = "a postgresql://... URL or a list of keyword=value that libpq can read, or nothing"};
static const struct kind file = {
    .text_is_right = is_readable_file, .also = "", .allowed = "the path of a readable file, or nothing"};
static const struct kind log_format = {.parse = parse_word, .words = LOGS, .allowed = "off or combined"};
static const struct kind log_file = {
    .text_is_right = is_log_file,
    .also = "",
    .allowed = "a file, FIFO or device that may be written to, a new file in such a folder, or nothing"};

static bool parse(const struct setting *setting, const char *text, void *field)
{
    const struct kind *kind = setting->kind;

    if (kind->parse != NULL)
        return kind->parse(setting, text, field);
    if ((kind->also == NULL || strcmp(text, kind->also) != 0) && !kind->text_is_right(text))
        return false;
    *(const char **)field = text;
    return true;
}

/* ---- the table ---- */

#define NUMBER(name, field, fallback, least, most, unit, help)                                               \
    {                                                                                                        \
        name, &number, offsetof(struct settings, field), fallback, least, most, unit, help, false            \
    }
/* POST /policy changes it. */
#define LIVE(name, field, fallback, least, most, unit, help)                                                 \
    {                                                                                                        \
        name, &number, offsetof(struct settings, field), fallback, least, most, unit, help, true             \
    }
#define TEXT(name, kind, field, fallback, help)                                                              \
    {                                                                                                        \
        name, &(kind), offsetof(struct settings, field), fallback, 0, 0, NULL, help, false                   \
    }

/* In the order of --help. */
static const struct setting table[] = {
    TEXT("LISTEN", listen_at, listen, "127.0.0.1:8080", "where the catalog is served; port 0: any free one"),
    TEXT("OPS_LISTEN", listen_at_or_off, ops_listen, "127.0.0.1:8081",
         "where /healthz, /readyz, /metrics and what changes the cache are served"),
    TEXT("OPS_TOKEN_FILE", file, ops_token_file, "",
         "file with the bearer token that all but /, /healthz and /readyz ask for there"),
    TEXT("REVALIDATE_TOKEN_FILE", file, revalidate_token_file, "",
         "file with the token of clients whose Cache-Control: no-cache counts; nothing: it never does"),
    TEXT("REDIS_URL", redis_url, guard.redis_url, "redis://127.0.0.1:6379/0",
         "the cache all processes share"),
    TEXT("DATABASE_URL", database_url, database_url, "postgresql:///catalog",
         "the database; name hosts by hostaddr=, because libpq's DNS lookup has no time limit"),
    TEXT("WRITE_DATABASE_URL", database_url_or_none, write_database_url, "",
         "the same database with the right to write (catalog_writer), past any pooler; nothing: writes are "
         "off"),
    TEXT("DATABASE_STANDBY", on_off, database_standby, "off",
         "loads may be of a standby: what it has not replayed yet is cached as new, even behind a write that "
         "said visible"),
    NUMBER("DATABASE_SESSION_MS", database_session_ms, "60000", 1000, DAY_MS, "ms",
           "a session is replaced when it is this old, so that a name that has moved to another primary is "
           "followed"),
    TEXT("PREPARE", on_off, prepare, "on", "prepared statements; off behind a pooler that cannot keep them"),

    TEXT("GUARD_MODE", mode, guard.mode, "fleet",
         "how misses share a load: one per fleet, one per process (local), one per request (off); shadow: as "
         "off, counting what fleet would save"),
    TEXT("NAMESPACE", name_space, guard.name_space, "catalog", "separates applications that share a Redis"),
    LIVE("FRESH_MS", policy.fresh_ms, "60000", 1, DAY_MS, "ms",
         "an entry is served without question for this long"),
    LIVE("STALE_MS", policy.stale_ms, "0", 0, DAY_MS, "ms", "and for this much longer while it is refreshed"),
    LIVE("SOFT_MS", policy.soft_ms, "0", 0, HOUR_MS, "ms",
         "a request that finds a stale entry waits this long for a fresh one before it gets the stale one; "
         "0: not at all"),
    LIVE("EARLY_PERCENT", policy.early_percent, "0", 0, 10000, "%",
         "XFetch's beta: by chance, a fresh entry is refreshed before it expires; 100: as in the paper; 0: "
         "never"),
    LIVE("ABSENT_MS", policy.absent_ms, "10000", 1, DAY_MS, "ms",
         "\"no such row\" is remembered for this long"),
    LIVE("FAILURE_MS", policy.failure_ms, "1000", 1, LEASE_MAX_MS, "ms",
         "a failed load is not tried again for this long"),
    LIVE("JITTER_PERCENT", policy.jitter_percent, "10", 0, 90, "%",
         "FRESH_MS, ABSENT_MS and FAILURE_MS are shortened at random, by up to this much"),
    NUMBER("LEASE_MS", policy.lease_ms, "3000", 30, LEASE_MAX_MS, "ms",
           "a dead process blocks a key for at most this long"),
    NUMBER("MAX_HOLD_MS", policy.max_hold_ms, "30000", 30, HOUR_MS, "ms",
           "a lease is given up after this long, even if its load hangs"),
    NUMBER("LOAD_LIMIT_MS", policy.load_limit_ms, "10000", 1, HOUR_MS, "ms",
           "a load is cancelled after this long, in PostgreSQL too"),
    LIVE("DEADLINE_MS", policy.deadline_ms, "15000", 1, HOUR_MS, "ms",
         "every request is answered within this"),
    NUMBER("REDIS_LIMIT_MS", guard.redis_limit_ms, "250", 1, 20000, "ms", "limit of one Redis command"),
    NUMBER("MAX_LOADS", guard.max_loads, "8", 1, 1024, "loads", "loads at a time in this process"),
    NUMBER("LOAD_THREADS", guard.load_threads, "0", 0, 1024, "threads",
           "threads that run them, each with a database connection; 0: MAX_LOADS of them"),
    NUMBER("LOAD_QUEUE", guard.load_queue, "1000", 0, 1000000, "loads",
           "loads that may wait for their turn, and as many again for /products?ids=; beyond that requests "
           "are shed (503)"),
    TEXT("MERGE_LOADS", on_off, merge_loads, "on",
         "products that have to wait for their load are loaded with one query, up to 100; off: each with its "
         "own"),
    NUMBER("LOAD_PERMITS", guard.load_permits, "0", 0, 100000, "loads",
           "loads at a time in all processes of the namespace together; 0: no limit but MAX_LOADS in "
           "each; must be the same in all of them"),
    NUMBER("PERMIT_MS", guard.permit_ms, "3000", 30, LEASE_MAX_MS, "ms",
           "a dead process keeps the permits of its loads for this long; must be the same in all processes"),
    NUMBER("WRITE_WORKERS", write_workers, "4", 1, 256, "threads",
           "writes at a time in this process, each with a database connection"),
    NUMBER("WRITE_QUEUE", write_queue, "1000", 0, 1000000, "writes",
           "writes that may wait for a worker; beyond that they are shed (503)"),
    NUMBER("WRITE_LIMIT_MS", write_limit_ms, "5000", 1, HOUR_MS, "ms",
           "limit of one write, waiting for a worker included"),
    NUMBER("WRITE_LOCK_MS", write_lock_ms, "2000", 1, HOUR_MS, "ms",
           "limit of a write's wait for a row that another transaction holds"),
    NUMBER("OUTBOX_POLL_MS", outbox_poll_ms, "1000", 1, HOUR_MS, "ms",
           "how often to look for invalidations that no notification announced"),
    NUMBER("MAX_WAITERS", guard.max_waiters, "20000", 1, 1000000, "requests",
           "requests that may wait at a time, and as many products of /products?ids=; beyond that they are "
           "shed (503)"),
    NUMBER("MAX_CONNECTIONS", max_connections, "16000", 1, 1000000, "sockets",
           "client connections at a time"),
    NUMBER("MAX_VALUE_BYTES", guard.max_value_bytes, "1048576", 1, 64 << 20, "bytes",
           "larger documents are answered but not cached"),
    NUMBER("NEAR_BYTES", guard.near_bytes, "8388608", 0, UINT32_MAX, "bytes",
           "values also kept in this process's memory, for NEAR_MS and OUTAGE_MS; 0: none, otherwise at "
           "least 65536"),
    LIVE("NEAR_MS", policy.near_ms, "0", 0, 60000, "ms",
         "such a value is answered without asking Redis for this long; a change by another process may be "
         "seen this late; 0: never"),
    LIVE(
        "OUTAGE_MS", policy.outage_ms, "5000", 0, HOUR_MS, "ms",
        "while Redis cannot be asked, such a value is answered for this long after it was known to be right; "
        "a change that another process confirmed meanwhile may be seen this late; 0: never"),
    NUMBER("PUSH_BYTES", guard.push_bytes, "16384", 0, 1 << 20, "bytes",
           "cache entries up to this size travel with the message that wakes other processes' requests; 0: "
           "none"),
    TEXT("ACCESS_LOG", log_format, access_log, "off",
         "a line for each request, as Apache and nginx write it, and more behind"),
    TEXT("ACCESS_LOG_FILE", log_file, access_log_file, "",
         "where they are written, opened anew on SIGHUP; nothing: stdout"),
    NUMBER("SERVER_LOOPS", server_loops, "0", 0, 256, "threads",
           "event loops that serve HTTP; 0: one per core"),
    NUMBER("SHELF_BYTES", shelf_bytes, "33554432", 0, UINT32_MAX, "bytes",
           "answers that each server loop keeps prepared; 0: none, otherwise at least 65536"),
    NUMBER("DRAIN_MS", drain_ms, "5000", 0, HOUR_MS, "ms",
           "on SIGTERM running requests get this long to finish, and kept-alive connections a fifth of it "
           "for one more request"),
    TEXT("CORES", on_off, cores, "off",
         "a crash may leave a core file, with values and passwords in it, within ulimit -c (LimitCORE=)"),
    NUMBER("LOAD_DELAY_MS", load_delay_ms, "0", 0, HOUR_MS, "ms",
           "PostgreSQL sleeps this long inside every load, to make a stampede visible"),
};

enum { SETTING_COUNT = sizeof(table) / sizeof(table[0]), SETTING_NONE = SETTING_COUNT };

/* What --help calls those from this one on. */
static const struct {
    const char *first, *title;
} groups[] = {
    {"LISTEN", "Addresses and tokens"}, {"REDIS_URL", "Redis and PostgreSQL"},
    {"GUARD_MODE", "Sharing"},          {"FRESH_MS", "How long entries live"},
    {"LEASE_MS", "Limits of a load"},   {"MAX_LOADS", "How many loads"},
    {"WRITE_WORKERS", "Writes"},        {"MAX_WAITERS", "Clients and memory"},
    {"ACCESS_LOG", "Access log"},       {"SERVER_LOOPS", "The process"},
};

/* ---- the rules between settings ---- */

struct rule {
    const char *left, *right; /* checked only if both are right by themselves */
    uint32_t times;           /* left times this is at most right; 0: `holds` says */
    bool (*holds)(const struct settings *settings);
    const char *text;
    bool if_given; /* and only if `left` was given: its default steps aside */
};

static bool value_fits_day(const struct settings *s)
{
    return s->policy.fresh_ms + s->policy.stale_ms <= DAY_MS;
}

static bool soft_limit_has_stale(const struct settings *s)
{
    return s->policy.soft_ms == 0 || s->policy.stale_ms > 0;
}

static bool redis_limit_fits_permit(const struct settings *s)
{
    return s->guard.load_permits == 0 || (uint64_t)s->guard.redis_limit_ms * 3 <= s->guard.permit_ms;
}

static bool near_is_useful(const struct settings *s)
{
    return s->guard.near_bytes == 0 || s->guard.near_bytes >= NEAR_LEAST_BYTES;
}

static bool shelf_is_useful(const struct settings *s)
{
    return s->shelf_bytes == 0 || s->shelf_bytes >= SHELF_LEAST_BYTES;
}

static bool host_is_any(const struct address *address)
{
    return strcmp(address->host, "0.0.0.0") == 0 || strcmp(address->host, "::") == 0;
}

static bool listeners_differ(const struct settings *s)
{
    struct address main, ops;

    if (!address_parse(s->ops_listen, &ops) || !address_parse(s->listen, &main))
        return true; /* off */
    if (main.is_unix != ops.is_unix || main.port != ops.port || (!main.is_unix && main.port == 0))
        return true;
    return strcmp(main.host, ops.host) != 0 && !host_is_any(&main) && !host_is_any(&ops);
}

static bool host_is_loopback(const char *host)
{
    struct in6_addr v6;
    struct in_addr v4;

    if (inet_pton(AF_INET, host, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
    return strcmp(host, "localhost") == 0 ||
           (inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6));
}

static bool operations_are_guarded(const struct settings *s)
{
    struct address ops;

    return *s->ops_token_file != '\0' || !address_parse(s->ops_listen, &ops) || ops.is_unix ||
           host_is_loopback(ops.host);
}

static const struct rule rules[] = {
    {"REDIS_LIMIT_MS", "LEASE_MS", 3, NULL,
     "at most a third of LEASE_MS, or a lease runs out during one slow renewal", false},
    {"LOAD_LIMIT_MS", "MAX_HOLD_MS", 1, NULL, "at most MAX_HOLD_MS, or loads outlive their leases", false},
    {"LEASE_MS", "MAX_HOLD_MS", 1, NULL, "at most MAX_HOLD_MS, which ends every lease", false},
    {"LOAD_THREADS", "MAX_LOADS", 1, NULL, "at most MAX_LOADS, or some of them would never run a load",
     false},
    {"FRESH_MS", "STALE_MS", 0, value_fits_day, "at most 86400000 together with STALE_MS (24 h)", false},
    {"SOFT_MS", "STALE_MS", 0, soft_limit_has_stale,
     "0 unless STALE_MS is above 0, or there is nothing to serve afterwards", false},
    {"SOFT_MS", "DEADLINE_MS", 1, NULL, "at most DEADLINE_MS, which ends every request", false},
    {"REDIS_LIMIT_MS", "DEADLINE_MS", 1, NULL,
     "at most DEADLINE_MS, or a slow Redis alone uses up a request's time", false},
    {"PERMIT_MS", "REDIS_LIMIT_MS", 0, redis_limit_fits_permit,
     "at least three times REDIS_LIMIT_MS, or a permit runs out during one slow renewal", false},
    {"MAX_WAITERS", "MAX_CONNECTIONS", 1, NULL,
     "at most MAX_CONNECTIONS, because a waiting request holds a connection", true},
    {"NEAR_BYTES", "NEAR_MS", 0, near_is_useful, "0 (nothing is kept) or at least 65536", false},
    {"SHELF_BYTES", "SERVER_LOOPS", 0, shelf_is_useful, "0 (no prepared answers) or at least 65536", false},
    {"WRITE_LOCK_MS", "WRITE_LIMIT_MS", 1, NULL, "at most WRITE_LIMIT_MS, which ends every write", true},
    {"OPS_LISTEN", "OPS_TOKEN_FILE", 0, operations_are_guarded,
     "off, unix:PATH or on 127.0.0.0/8, [::1] or localhost unless OPS_TOKEN_FILE names a token", false},
    {"OPS_LISTEN", "LISTEN", 0, listeners_differ, "an address of its own, not the one of LISTEN", false},
};

/* ---- collecting ---- */

enum origin { ORIGIN_DEFAULT = 0, ORIGIN_ENVIRONMENT, ORIGIN_FLAG, ORIGIN_REQUEST };

struct collected {
    FILE *messages;
    const char *text[SETTING_COUNT];
    enum origin origin[SETTING_COUNT];
    bool wrong[SETTING_COUNT];
    size_t wrong_count; /* wrong values, broken rules and arguments that are no setting */
    bool is_running;    /* what is not given is as it is, not its default */
};

/* FRESH_MS -> fresh-ms */
static const char *flag_name(const struct setting *setting, char out[NAME_BYTES])
{
    size_t i = 0;

    for (; i < NAME_BYTES - 1 && setting->name[i] != '\0'; i++) {
        char letter = setting->name[i];

        out[i] = letter == '_' ? '-' : (char)(letter >= 'A' && letter <= 'Z' ? letter + ('a' - 'A') : letter);
    }
    out[i] = '\0';
    return out;
}

static size_t setting_named(const char *text, size_t bytes, bool is_flag)
{
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        const char *name = table[i].name;
        char flag[NAME_BYTES];

        if (is_flag)
            name = flag_name(&table[i], flag);
        if (strlen(name) == bytes && memcmp(name, text, bytes) == 0)
            return i;
    }
    return SETTING_NONE;
}

/* False: there is no flag like it. */
static bool nearest_flag(const char *flag, size_t flag_bytes, char out[NAME_BYTES])
{
    size_t best = FLAG_NEAR + 1;

    for (size_t i = 0; i < SETTING_COUNT && flag_bytes < NAME_BYTES; i++) {
        char name[NAME_BYTES];

        flag_name(&table[i], name);
        size_t distance = spelling_distance(flag, flag_bytes, name);
        if (distance < best) {
            best = distance;
            memcpy(out, name, sizeof(name));
        }
    }
    return best <= FLAG_NEAR;
}

/* Only the name of an unknown flag is printed: its value may be a password that was meant for a known one. */
static void complain_unknown(struct collected *collected, const char *flag, size_t flag_bytes)
{
    char near[NAME_BYTES];

    collected->wrong_count++;
    if (nearest_flag(flag, flag_bytes, near))
        fprintf(collected->messages, "--%.*s: unknown; did you mean --%s?\n", (int)flag_bytes, flag, near);
    else
        fprintf(collected->messages, "--%.*s: unknown; --help lists all\n", (int)flag_bytes, flag);
}

/* Takes argv[at], and the value after it if it has none of its own; returns how many it took. */
static int collect_flag(struct collected *collected, char **argv, int at)
{
    const char *flag = argv[at] + 2;
    const char *equals = strchr(flag, '=');
    size_t flag_bytes = equals != NULL ? (size_t)(equals - flag) : strlen(flag);
    const char *next = argv[at + 1];
    bool next_is_value = equals == NULL && next != NULL && strncmp(next, "--", 2) != 0;
    int taken = next_is_value ? 2 : 1;

    size_t setting = setting_named(flag, flag_bytes, true);
    if (setting == SETTING_NONE) {
        complain_unknown(collected, flag, flag_bytes);
    } else if (equals == NULL && !next_is_value) {
        collected->wrong_count++;
        fprintf(collected->messages, "--%s: needs a value\n", flag);
    } else {
        collected->text[setting] = equals != NULL ? equals + 1 : next;
        collected->origin[setting] = ORIGIN_FLAG;
    }
    return taken;
}

static void collect_flags(struct collected *collected, int argc, char **argv)
{
    for (int at = 1; at < argc;) {
        if (strncmp(argv[at], "--", 2) == 0 && argv[at][2] != '\0') {
            at += collect_flag(collected, argv, at);
            continue;
        }
        /* Not printed: a URL that lost its flag has a password in it. */
        collected->wrong_count++;
        fprintf(
            collected->messages,
            "argument %d: neither a flag (--name value or --name=value) nor \"check\" in the first place\n",
            at);
        at++;
    }
}

static void collect_environment(struct collected *collected, char **env)
{
    for (; *env != NULL; env++) {
        const size_t bytes = strcspn(*env, "=");
        const size_t at = (*env)[bytes] == '=' ? setting_named(*env, bytes, false) : SETTING_NONE;

        if (at == SETTING_NONE)
            continue;
        collected->text[at] = *env + bytes + 1;
        collected->origin[at] = ORIGIN_ENVIRONMENT;
    }
}

/* ---- checking ---- */

static void allowed_text(const struct setting *setting, char out[ALLOWED_BYTES])
{
    if (setting->kind->allowed != NULL) {
        snprintf(out, ALLOWED_BYTES, "%s", setting->kind->allowed);
    } else {
        snprintf(out, ALLOWED_BYTES, "%" PRIu32 " to %" PRIu32 " (%s)", setting->min, setting->max,
                 setting->unit);
    }
}

/* In quotes and cut; for terminals and for JSON, whatever bytes it has. */
static void print_text(FILE *messages, const char *text)
{
    fputc('"', messages);
    for (const char *byte = text; *byte != '\0' && byte - text < ALLOWED_BYTES; byte++) {
        if (*byte >= ' ' && *byte <= '~')
            fputc(*byte, messages);
        else
            fprintf(messages, "\\x%02x", (unsigned char)*byte);
    }
    fputc('"', messages);
}

/* A value as it may be shown. */
static void print_value(FILE *messages, const struct setting *setting, const char *text)
{
    if (setting->kind->secret)
        fputs("(not shown)", messages);
    else
        print_text(messages, text);
}

static void complain(struct collected *collected, size_t at, const char *must_be)
{
    const struct setting *setting = &table[at];
    char flag[NAME_BYTES];

    flag_name(setting, flag);

    collected->wrong_count++;
    fprintf(collected->messages, "%s", setting->name);
    switch (collected->origin[at]) {
    case ORIGIN_FLAG:
        fprintf(collected->messages, " (flag --%s)", flag);
        break;
    case ORIGIN_ENVIRONMENT:
        fputs(" (environment)", collected->messages);
        break;
    case ORIGIN_REQUEST:
        break;
    case ORIGIN_DEFAULT:
        fputs(collected->is_running ? " (as it is)" : " (default)", collected->messages);
        break;
    }
    fputs(": ", collected->messages);
    print_value(collected->messages, setting, collected->text[at]);
    fprintf(collected->messages, " is wrong; must be %s\n", must_be);
}

static void parse_one(struct collected *collected, size_t at, struct settings *out)
{
    const struct setting *setting = &table[at];
    char allowed[ALLOWED_BYTES];

    if (parse(setting, collected->text[at], (char *)out + setting->offset))
        return;
    allowed_text(setting, allowed);
    collected->wrong[at] = true;
    complain(collected, at, allowed);
}

static uint32_t number_at(const struct settings *settings, size_t at)
{
    return *(const uint32_t *)(const void *)((const char *)settings + table[at].offset);
}

static bool rule_holds(const struct rule *rule, const struct settings *settings, size_t left, size_t right)
{
    if (rule->holds != NULL)
        return rule->holds(settings);
    return (uint64_t)number_at(settings, left) * rule->times <= number_at(settings, right);
}

static void check_rules(struct collected *collected, const struct settings *settings)
{
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        const struct rule *rule = &rules[i];
        size_t left = setting_named(rule->left, strlen(rule->left), false);
        size_t right = setting_named(rule->right, strlen(rule->right), false);
        bool applies = !collected->wrong[left] && !collected->wrong[right] &&
                       (!rule->if_given || collected->origin[left] != ORIGIN_DEFAULT) &&
                       (!collected->is_running || collected->origin[left] == ORIGIN_REQUEST ||
                        collected->origin[right] == ORIGIN_REQUEST);

        if (applies && !rule_holds(rule, settings, left, right)) {
            char must_be[ALLOWED_BYTES];
            const char *text = *collected->text[right] != '\0' ? collected->text[right] : "nothing";
            const char *value = table[right].kind->secret ? "(not shown)" : text;

            snprintf(must_be, sizeof(must_be), "%s; %s is %s", rule->text, rule->right, value);
            complain(collected, left, must_be);
        }
    }
}

/* ---- the manual ---- */

void settings_print_help(FILE *out)
{
    fputs("catalogd - a product catalog out of PostgreSQL through a guarded Redis cache\n\n"
          "Usage: catalogd [--SETTING VALUE]...\n  or:  catalogd check [--SETTING VALUE]...\n\n"
          "Every setting is a flag (--fresh-ms 5 or --fresh-ms=5) or an environment "
          "variable (FRESH_MS=5);\nflags win. All are checked at start, by themselves and against each "
          "other. --help prints this,\n--version the version.\n\n",
          out);
    for (size_t i = 0, group = 0; i < SETTING_COUNT; i++) {
        const struct setting *setting = &table[i];
        char flag[NAME_BYTES], allowed[ALLOWED_BYTES];

        if (group < sizeof(groups) / sizeof(groups[0]) && strcmp(groups[group].first, setting->name) == 0)
            fprintf(out, "%s%s:\n", i > 0 ? "\n" : "", groups[group++].title);
        flag_name(setting, flag);
        allowed_text(setting, allowed);
        fprintf(out, "  --%s, %s\n      %s\n      default %s; %s\n", flag, setting->name, setting->help,
                *setting->fallback != '\0' ? setting->fallback : "nothing", allowed);
    }
    fputs("\nBetween settings:\n", out);
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        fprintf(out, "  %s: %s\n", rules[i].left, rules[i].text);
    fputs("\nWhile it runs POST /policy changes:\n ", out);
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        if (table[i].may_change)
            fprintf(out, " %s", table[i].name);
    }
    fputs("\n\ncatalogd check looks at what the service stands on; catalogd check --help says how.\n", out);
}

static bool is_said(int argc, char **argv, const char *word, const char *short_word)
{
    for (int at = 1; at < argc; at++) {
        if (strcmp(argv[at], word) == 0 || strcmp(argv[at], short_word) == 0)
            return true;
    }
    return false;
}

enum settings_verdict settings_read(int argc, char **argv, char **env, struct settings *out, FILE *messages)
{
    if (is_said(argc, argv, "--help", "-h"))
        return SETTINGS_HELP;
    if (is_said(argc, argv, "--version", "-V"))
        return SETTINGS_VERSION;

    struct collected collected = {.messages = messages};
    struct settings settings = {.guard = GUARD_CONFIG_DEFAULTS,
                                .policy = {.struct_size = sizeof(settings.policy)}};
    for (size_t i = 0; i < SETTING_COUNT; i++)
        collected.text[i] = table[i].fallback;
    collect_environment(&collected, env);
    collect_flags(&collected, argc, argv);
    for (size_t i = 0; i < SETTING_COUNT; i++)
        parse_one(&collected, i, &settings);
    check_rules(&collected, &settings);
    if (collected.wrong_count > 0)
        return SETTINGS_WRONG;
    *out = settings;
    return SETTINGS_OK;
}

/* ---- changes while the process runs ---- */

size_t settings_changeable(const struct settings *settings, size_t i, const char **name, uint32_t *value)
{
    size_t count = 0;

    for (size_t at = 0; at < SETTING_COUNT; at++) {
        if (!table[at].may_change || count++ != i)
            continue;
        *name = table[at].name;
        *value = number_at(settings, at);
    }
    return count;
}

/* Printed in full: a name is no secret, and may come from anywhere. */
static void take_change(struct collected *collected, const struct settings_change *change)
{
    const size_t at = setting_named(change->name, strlen(change->name), false);

    if (at != SETTING_NONE && table[at].may_change && collected->origin[at] == ORIGIN_DEFAULT) {
        collected->text[at] = change->value;
        collected->origin[at] = ORIGIN_REQUEST;
        return;
    }
    collected->wrong_count++;
    print_text(collected->messages, change->name);
    if (at == SETTING_NONE)
        fputs(": no such setting\n", collected->messages);
    else if (collected->origin[at] == ORIGIN_REQUEST)
        fputs(": given twice\n", collected->messages);
    else
        fputs(": does not change while the process runs\n", collected->messages);
}

bool settings_change(const struct settings *now, const struct settings_change *changes, size_t count,
                     struct settings *out, FILE *messages)
{
    struct collected collected = {.messages = messages, .is_running = true};
    char numbers[SETTING_COUNT][NUMBER_SIZE];
    struct settings changed = *now;

    for (size_t i = 0; i < SETTING_COUNT; i++)
        collected.text[i] = table[i].kind == &number ? number_print(number_at(now, i), numbers[i]) : "";
    for (size_t i = 0; i < count; i++)
        take_change(&collected, &changes[i]);
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        if (collected.origin[i] == ORIGIN_REQUEST)
            parse_one(&collected, i, &changed);
    }
    check_rules(&collected, &changed);
    if (collected.wrong_count == 0)
        *out = changed;
    return collected.wrong_count == 0;
}

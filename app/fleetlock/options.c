/* SPDX-License-Identifier: MIT */
/* options.c - see options.h. */
#include "app/fleetlock/options.h"

#include "app/base/number.h"

#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sysexits.h>

enum {
    LEASE_MOST_MS = 3600000,
    MAX_LEASE_MOST_MS = 86400000,
    MAX_LEASE_USUAL_MS = 60000,
    GRACE_USUAL_MS = 2000,
    DIGITS_MAX = 9
};

static const char help[] =
    "fleetlock - run a command under a lock that a whole fleet shares\n"
    "\n"
    "Usage: fleetlock NAME... [OPTIONS] -- COMMAND [ARGUMENT...]\n"
    "   or: fleetlock --status NAME [OPTIONS]\n"
    "\n"
    "Kinds (several NAMEs: all of them or none):\n"
    "    --fair            alone; first come, first served (the default)\n"
    "    --mutex           alone; a newcomer may overtake those that wait\n"
    "    --write, --read   alone; beside other readers, but behind a writer that waits\n"
    "    --permits N --of M   N of M permits\n"
    "\n"
    "Options:\n"
    "    --wait TIME       gives up after TIME; without --wait it waits for ever, also for a provider that "
    "is not reachable\n"
    "                      0: asks once, which takes a connection, up to 5s, and one answer\n"
    "    --lease TIME      a dead holder blocks the others for this long, 1s to 1h (10s)\n"
    "    --max-lease TIME  redlock: no lease of the namespace is longer (1m); a master that restarts gives "
    "no vote for this long\n"
    "    --on-lost ACTION  what COMMAND gets when the lock is lost: term (the default), kill, another "
    "signal's name, or go-on\n"
    "    --grace TIME      between that signal and SIGKILL; 2s, but no more than a third of the lease\n"
    "    --close           the lock is given back when COMMAND is over, whatever it has left running\n"
    "    --provider NAME   redis (the default), redlock, postgres or zookeeper\n"
    "    --url URL         of the provider; redis: redis://127.0.0.1:6379 if none is named; redlock takes 3, "
    "5, 7 or 9.\n"
    "                      $FLEETLOCK_URL keeps a password off the command line\n"
    "    --namespace NAME  separates applications that share a provider (\"default\")\n"
    "    --status NAME     prints what holds it and since when, the last fence and the queue\n"
    "    --version         prints the version; --help prints this\n"
    "\n"
    "TIME is 500ms, 30s, 5m or 1h. COMMAND finds FLEETLOCK_NAME and FLEETLOCK_FENCE in its environment.\n"
    "\n"
    "Exit status: COMMAND's, 128 + n if signal n ended it; 64 usage, 69 provider not reachable (with "
    "--wait or --status),\n"
    "71 no memory or process, 74 the lock was lost, 75 not acquired in time, 126 COMMAND cannot be run, 127 "
    "it was not found.\n"
    "\n"
    "Examples:\n"
    "    # every host's timer runs it at the same time: one host works, the others exit with 75\n"
    "    fleetlock warm --wait 0 -- build/warm\n"
    "    # at most two exports at a time\n"
    "    fleetlock export --permits 1 --of 2 -- ./export.sh\n"
    "    # an import that does no harm when it comes late: its first statement refuses a lower fence\n"
    "    fleetlock catalog --write -- sh -c 'psql -v fence=$FLEETLOCK_FENCE -f import.sql'\n"
    "    # overlapping moves cannot deadlock\n"
    "    fleetlock category:3 category:8 -- ./move.sh 3 8\n";

int options_print(enum options_task task)
{
    const char *text = task == OPTIONS_HELP ? help : "fleetlock " GUARD_VERSION "\n";
    return fputs(text, stdout) >= 0 && fflush(stdout) == 0 ? EX_OK : EX_OSERR;
}

/* ---- words ---- */

__attribute__((format(printf, 2, 3))) static void mistake(bool *good, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("fleetlock: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    *good = false;
}

static bool read_time(const char *word, uint32_t *out_ms)
{
    static const struct {
        const char *unit;
        uint32_t ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};
    const size_t digits = number_span(word);
    uint64_t number;
    if (strcmp(word, "0") == 0) {
        *out_ms = 0;
        return true;
    }
    if (!number_parse(word, digits, DIGITS_MAX, &number))
        return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(word + digits, units[i].unit) != 0 || number * units[i].ms >= UINT32_MAX)
            continue;
        *out_ms = (uint32_t)number * units[i].ms;
        return true;
    }
    return false;
}

static void take_time(const char *flag, const char *word, uint32_t *out_ms, bool *good)
{
    if (!read_time(word, out_ms))
        mistake(good, "--%s %s: a time is digits and ms, s, m or h, as in 30s", flag, word);
}

static void take_count(const char *flag, const char *word, uint32_t *out, bool *good)
{
    uint64_t number;
    if (number_parse(word, strlen(word), DIGITS_MAX, &number) && number >= 1 &&
        number <= GUARD_LOCK_UNITS_MAX)
        *out = (uint32_t)number;
    else
        mistake(good, "--%s %s: a count is 1..%d", flag, word, GUARD_LOCK_UNITS_MAX);
}

static void take_on_lost(const char *word, int *out, bool *good)
{
    const char *name = strncasecmp(word, "sig", 3) == 0 ? word + 3 : word;
    if (strcmp(word, "go-on") == 0) {
        *out = 0;
        return;
    }
    for (int number = 1; number < NSIG; number++) {
        const char *known = sigabbrev_np(number);
        if (known != NULL && strcasecmp(name, known) == 0) {
            *out = number;
            return;
        }
    }
    mistake(good, "--on-lost %s: it is term, kill, another signal's name, or go-on", word);
}

static void take_provider(const char *word, enum guard_lock_provider *out, bool *good)
{
    static const char *const names[] = {"redis", "redlock", "postgres", "zookeeper"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(word, names[i]) != 0)
            continue;
        *out = (enum guard_lock_provider)i;
        return;
    }
    mistake(good, "--provider %s: it is redis, redlock, postgres or zookeeper", word);
}

static void take_url(struct options *options, const char *url, bool *good)
{
    if (options->url_count < OPTIONS_URLS_MAX)
        options->urls[options->url_count++] = url;
    else
        mistake(good, "--url: at most %d may be given", OPTIONS_URLS_MAX);
}

static void take_urls_of_environment(struct options *options, bool *good)
{
    const char *text = getenv("FLEETLOCK_URL");
    char *rest = NULL;
    if (options->url_count > 0 || text == NULL)
        return;
    if (text[0] == '\0') {
        mistake(good, "FLEETLOCK_URL is empty, as a COMMAND finds it whose own fleetlock had a password in "
                      "it; set it again, or say --url");
        return;
    }
    options->urls_text = strdup(text);
    if (options->urls_text == NULL) {
        mistake(good, "no memory");
        return;
    }
    const char *gap = options->provider == GUARD_LOCKS_REDLOCK ? " \t\n" : "";
    for (char *url = strtok_r(options->urls_text, gap, &rest); url != NULL; url = strtok_r(NULL, gap, &rest))
        take_url(options, url, good);
}

/* ---- the line ---- */

enum flag {
    FLAG_NAME = 1, /* getopt_long()'s for a word that is no option */
    FLAG_KIND = 256,
    FLAG_LAST_KIND = FLAG_KIND + GUARD_LOCK_LATCH,
    FLAG_PERMITS,
    FLAG_OF,
    FLAG_WAIT,
    FLAG_LEASE,
    FLAG_MAX_LEASE,
    FLAG_ON_LOST,
    FLAG_GRACE,
    FLAG_CLOSE,
    FLAG_PROVIDER,
    FLAG_URL,
    FLAG_NAMESPACE,
    FLAG_STATUS
};

static const struct option flags[] = {
    {"fair", no_argument, NULL, FLAG_KIND + (int)GUARD_LOCK_FAIR},
    {"mutex", no_argument, NULL, FLAG_KIND + (int)GUARD_LOCK_MUTEX},
    {"write", no_argument, NULL, FLAG_KIND + (int)GUARD_LOCK_WRITE},
    {"read", no_argument, NULL, FLAG_KIND + (int)GUARD_LOCK_READ},
    {"permits", required_argument, NULL, FLAG_PERMITS},
    {"of", required_argument, NULL, FLAG_OF},
    {"wait", required_argument, NULL, FLAG_WAIT},
    {"lease", required_argument, NULL, FLAG_LEASE},
    {"max-lease", required_argument, NULL, FLAG_MAX_LEASE},
    {"on-lost", required_argument, NULL, FLAG_ON_LOST},
    {"grace", required_argument, NULL, FLAG_GRACE},
    {"close", no_argument, NULL, FLAG_CLOSE},
    {"provider", required_argument, NULL, FLAG_PROVIDER},
    {"url", required_argument, NULL, FLAG_URL},
    {"namespace", required_argument, NULL, FLAG_NAMESPACE},
    {"status", no_argument, NULL, FLAG_STATUS},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {NULL, 0, NULL, 0},
};

/* What was said of the kind, to refuse two. */
struct kinds_said {
    unsigned count;
    bool of;
};

static void take_kind(struct options *options, struct kinds_said *said, enum guard_lock_kind kind)
{
    options->kind = kind;
    said->count++;
}

/* Those beyond the last place are only counted; check() refuses them. */
static void take_name(struct options *options, const char *name)
{
    if (options->name_count < GUARD_LOCK_NAMES_MAX)
        options->names[options->name_count] = name;
    options->name_count++;
}

static void take_flag(struct options *options, int flag, struct kinds_said *said, bool *good)
{
    if (flag >= FLAG_KIND && flag <= FLAG_LAST_KIND) {
        take_kind(options, said, (enum guard_lock_kind)(flag - FLAG_KIND));
        return;
    }
    switch (flag) {
    case FLAG_NAME:
        take_name(options, optarg);
        break;
    case FLAG_PERMITS:
        take_kind(options, said, GUARD_LOCK_PERMITS);
        take_count("permits", optarg, &options->units, good);
        break;
    case FLAG_OF:
        said->of = true;
        take_count("of", optarg, &options->limit, good);
        break;
    case FLAG_WAIT:
        take_time("wait", optarg, &options->wait_ms, good);
        break;
    case FLAG_LEASE:
        take_time("lease", optarg, &options->lease_ms, good);
        break;
    case FLAG_MAX_LEASE:
        take_time("max-lease", optarg, &options->max_lease_ms, good);
        break;
    case FLAG_ON_LOST:
        take_on_lost(optarg, &options->on_lost, good);
        break;
    case FLAG_GRACE:
        take_time("grace", optarg, &options->grace_ms, good);
        break;
    case FLAG_CLOSE:
        options->closes = true;
        break;
    case FLAG_PROVIDER:
        take_provider(optarg, &options->provider, good);
        break;
    case FLAG_URL:
        take_url(options, optarg, good);
        break;
    case FLAG_NAMESPACE:
        options->name_space = optarg;
        break;
    case FLAG_STATUS:
        options->task = OPTIONS_STATUS;
        break;
    case 'h':
        options->task = OPTIONS_HELP;
        break;
    case 'V':
        options->task = OPTIONS_VERSION;
        break;
    default:
        *good = false; /* getopt_long() has said it */
    }
}

/* Everything up to "--"; what follows it is COMMAND. */
static int split(int argc, char **argv, struct options *options)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--") != 0)
            continue;
        options->command = argv + i + 1;
        argv[i] = NULL;
        return i;
    }
    return argc;
}

static void check(const struct options *options, const struct kinds_said *said, bool *good)
{
    const bool permits = options->kind == GUARD_LOCK_PERMITS;
    const bool runs = options->command != NULL && options->command[0] != NULL;
    if (options->name_count == 0)
        mistake(good, "which lock? fleetlock NAME -- COMMAND");
    if (options->name_count > GUARD_LOCK_NAMES_MAX)
        mistake(good, "%zu NAMEs are too many; at most %d", options->name_count, GUARD_LOCK_NAMES_MAX);
    if (options->task == OPTIONS_STATUS && (options->name_count > 1 || options->command != NULL))
        mistake(good, "--status is about one NAME and runs no COMMAND");
    if (options->task == OPTIONS_RUN && !runs)
        mistake(good, "what is to run? it stands behind --, as in: fleetlock %s -- COMMAND",
                options->name_count > 0 ? options->names[0] : "NAME");
    if (said->count > 1)
        mistake(good, "only one of --fair, --mutex, --write, --read and --permits");
    if (permits != said->of || (permits && options->units > options->limit))
        mistake(good, "--permits N and --of M belong together, and N is at most M");
    if (options->lease_ms < 1000 || options->lease_ms > LEASE_MOST_MS)
        mistake(good, "--lease must be 1s..1h");
    else if (options->max_lease_ms > MAX_LEASE_MOST_MS)
        mistake(good, "--max-lease must be at most 24h");
    else if (options->lease_ms > options->max_lease_ms)
        mistake(good, "--lease is more than --max-lease, %gs", options->max_lease_ms / 1e3);
    if (options->grace_ms > options->lease_ms / 3)
        mistake(good, "--grace is more than a third of --lease: too little time would be left for renewals");
    if (options->provider != GUARD_LOCKS_REDIS && options->url_count == 0)
        mistake(good, "where is the provider? --url, or FLEETLOCK_URL in the environment");
}

/* What was not said. */
static void choose_rest(struct options *options)
{
    const uint32_t lease_ms = options->lease_ms;
    if (options->grace_ms == UINT32_MAX)
        options->grace_ms = lease_ms / 3 < GRACE_USUAL_MS ? lease_ms / 3 : GRACE_USUAL_MS;
    if (options->max_lease_ms != 0)
        return;
    options->max_lease_ms = MAX_LEASE_USUAL_MS;
    const bool is_session = options->provider == GUARD_LOCKS_ZOOKEEPER; /* it has no other lease */
    const bool is_agreed = options->provider == GUARD_LOCKS_REDLOCK;
    if (is_session || (!is_agreed && lease_ms > MAX_LEASE_USUAL_MS))
        options->max_lease_ms = lease_ms;
}

bool options_read(int argc, char **argv, struct options *options)
{
    struct kinds_said said = {0};
    bool good = true;
    *options = (struct options){.units = 1,
                                .limit = 1,
                                .wait_ms = UINT32_MAX,
                                .lease_ms = 10000,
                                .grace_ms = UINT32_MAX,
                                .on_lost = SIGTERM,
                                .name_space = "default"};
    argc = split(argc, argv, options);
    for (int flag; (flag = getopt_long(argc, argv, "-hV", flags, NULL)) != -1;)
        take_flag(options, flag, &said, &good);
    if (options->task == OPTIONS_HELP || options->task == OPTIONS_VERSION)
        return true;
    take_urls_of_environment(options, &good);
    choose_rest(options);
    check(options, &said, &good);
    if (!good)
        fputs("fleetlock: see --help\n", stderr);
    return good;
}

void options_clear(struct options *options)
{
    free(options->urls_text);
    options->urls_text = NULL;
}

/* SPDX-License-Identifier: MIT */
/*
 * fleetlock.c - flock(1) for a fleet: runs a command under a lock of guard/locks.h.
 *
 *     options -> lock -> COMMAND and what it starts .............. over -> unlock
 *                   \       \  `lost`: --on-lost, then SIGKILL     /
 *                    \       `-- TERM, INT, HUP, QUIT: passed on -'
 *                     `-- the same before it is granted: gives up
 *
 * `lost` comes --grace before the validity ends, and validity is counted from the sending of the last renewal that
 * was confirmed. So COMMAND has its grace and is killed before the lease can end; after a loss that the provider
 * tells (it has forgotten the lock), no later than that either. A fleetlock that is itself stopped cannot act: that
 * is what the fencing number is for.
 *
 * One thread of ours, which sleeps in poll(): signals come through a signalfd, the answer through an eventfd.
 */
#include "app/base/clock.h"
#include "app/common/standard.h"
#include "app/fleetlock/command.h"
#include "app/fleetlock/options.h"
#include "guard/locks.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

enum {
    EXIT_BY_SIGNAL = 128,
    CONNECT_LIMIT_MS = 5000,
    DRAIN_MS = 1000,
    LOOKS_PER_LEASE = 12,
    YOUNG_BYTES = 128
};

struct fleetlock {
    struct options options;
    struct guard_locks *locks;
    int signals, answered; /* descriptors */
    struct guard_lock_result result;
    char why[256];
};

/* What the library refuses, in the words of the command line. */
static const struct {
    const char *said, *meant;
} words[] = {
    {"guard_lock_request.names[0]", "NAME"}, /* if it is the only one */
    {"guard_locks_config.url_count", "the number of --url"},
    {"guard_locks_config.urls", "--url"},
    {"guard_locks_config.name_space", "--namespace"},
    {"guard_locks_config.", ""},
    {"guard_locks_open: ", ""},
    {"redis_url", "--url"},
    {"guard_lock_request.names", "NAME"},
    {"guard_lock_request.count", "the number of NAMEs"},
    {"guard_lock_request.kind", "--provider"},
    {"guard_lock_request.", ""},
    {"REDIS", "redis"},
    {"REDLOCK", "redlock"},
    {"POSTGRES", "postgres"},
    {"ZOOKEEPER", "zookeeper"},
    {"FAIR", "--fair"},
    {"MUTEX", "--mutex"},
    {"WRITE", "--write"},
    {"READ", "--read"},
    {"PERMITS", "--permits"},
    {" LATCH", ""},
};

static void complain_of_refusal(const struct options *options, const char *text)
{
    enum { WORDS = sizeof words / sizeof *words };
    const size_t first = options->name_count == 1 ? 0 : 1;
    char said[1024];
    size_t bytes = 0;
    while (*text != '\0' && bytes + 64 < sizeof said) {
        size_t i = first;
        while (i < WORDS && strncmp(text, words[i].said, strlen(words[i].said)) != 0)
            i++;
        if (i < WORDS) {
            bytes = (size_t)(stpcpy(said + bytes, words[i].meant) - said);
            text += strlen(words[i].said);
        } else {
            said[bytes++] = *text++;
        }
    }
    said[bytes] = '\0';
    complain("%s", said);
}

/* ---- signals ---- */

/* A signal that is ignored stays so, as under nohup: one that is blocked as well would be heard. */
static void want(sigset_t *set, int signal_number)
{
    struct sigaction present;
    if (sigaction(signal_number, NULL, &present) == 0 && present.sa_handler != SIG_IGN)
        sigaddset(set, signal_number);
}

/* Blocked before any thread is made, so that all of them come here. SIGPIPE: the reader of our complaints may be
 * gone. */
static bool take_signals(struct fleetlock *fleetlock)
{
    static const int wanted[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD};
    sigset_t set;
    sigemptyset(&set);
    signal(SIGCHLD, SIG_DFL); /* else nobody tells us that COMMAND is over */
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        want(&set, wanted[i]);
    fleetlock->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    sigaddset(&set, SIGPIPE);
    sigaddset(&set, SIGTTOU);
    sigprocmask(SIG_BLOCK, &set, NULL);
    fleetlock->answered = eventfd(0, EFD_CLOEXEC);
    return fleetlock->signals >= 0 && fleetlock->answered >= 0;
}

/* The next signal; 0: none is there. */
static int next_signal(const struct fleetlock *fleetlock)
{
    struct signalfd_siginfo info;
    return read(fleetlock->signals, &info, sizeof info) == (ssize_t)sizeof info ? (int)info.ssi_signo : 0;
}

/* ---- taking it ---- */

/* No lease runs out meanwhile: an answer may take as long as a connection, as far as the other spans allow. */
static void let_look_wait(struct guard_locks_config *config)
{
    const uint32_t most_ms = config->max_lease_ms / 4;
    config->limit_ms = most_ms < CONNECT_LIMIT_MS ? most_ms : CONNECT_LIMIT_MS;
    config->place_ms = config->max_lease_ms;
}

/* 0: open; else the exit status. */
static int open_locks(struct fleetlock *fleetlock)
{
    const struct options *options = &fleetlock->options;
    struct guard_locks_config config = GUARD_LOCKS_CONFIG_DEFAULTS;
    struct guard_error error;
    config.provider = options->provider;
    config.name_space = options->name_space;
    config.connect_limit_ms = CONNECT_LIMIT_MS;
    if (options->url_count > 0) {
        config.urls = options->urls;
        config.url_count = options->url_count;
    }
    config.max_lease_ms = options->max_lease_ms;
    if (config.fence_ms < config.max_lease_ms)
        config.fence_ms = config.max_lease_ms;
    if (options->task == OPTIONS_STATUS)
        let_look_wait(&config);
    config.warn_ms = options->grace_ms + options->lease_ms / 20; /* to send the signal, and to be scheduled */
    if (guard_locks_open(&config, &fleetlock->locks, &error) == GUARD_OK)
        return 0;
    complain_of_refusal(options, error.text);
    return error.status == GUARD_INVALID ? EX_USAGE : EX_OSERR;
}

/* The descriptor wakes the main thread; this says why. */
static void on_lost(void *context, struct guard_hold *hold, const char *why)
{
    (void)context;
    (void)hold;
    complain("the lock is lost: %s", why);
}

static void on_answered(void *context, const struct guard_lock_result *result)
{
    struct fleetlock *fleetlock = context;
    fleetlock->result = *result;
    snprintf(fleetlock->why, sizeof fleetlock->why, "%s", result->why != NULL ? result->why : "");
    eventfd_write(fleetlock->answered, 1);
}

static void say_what_is_awaited(const struct fleetlock *fleetlock)
{
    struct guard_locks_stats stats;
    guard_locks_stats(fleetlock->locks, &stats);
    if (!stats.is_up)
        complain("waiting for the provider, which is not reachable; --wait TIME limits this");
}

/* The signal that ended the wait; 0: it was answered. */
static int await_answer(const struct fleetlock *fleetlock)
{
    struct pollfd polled[] = {{.fd = fleetlock->answered, .events = POLLIN},
                              {.fd = fleetlock->signals, .events = POLLIN}};
    int quiet_ms = fleetlock->options.wait_ms == UINT32_MAX ? CONNECT_LIMIT_MS : -1;
    for (;;) {
        const int ready = poll(polled, 2, quiet_ms);
        if (ready < 0 && errno != EINTR)
            return SIGTERM;
        if (ready == 0) {
            say_what_is_awaited(fleetlock);
            quiet_ms = -1;
        }
        if (polled[0].revents != 0)
            return 0;
        const int signal_number = next_signal(fleetlock);
        if (signal_number != 0 && signal_number != SIGCHLD)
            return signal_number;
    }
}

/* A master that may have forgotten a holder. */
static void say_young(const struct guard_lock_view *view, char out[static YOUNG_BYTES])
{
    snprintf(out, YOUNG_BYTES, "the masters grant nothing for %" PRIu32 " s: they must be up for --max-lease",
             (view->young_ms + 999) / 1000);
}

/* Who has it. Several names: the first of them that is held. False: the provider does not say; no further name is
 * asked then, for each would take its time. */
static bool find_holder(const struct fleetlock *fleetlock, const char **name, struct guard_lock_view *view)
{
    const struct options *options = &fleetlock->options;
    for (size_t i = 0; i < options->name_count; i++) {
        *name = options->names[i];
        if (guard_lock_look(fleetlock->locks, *name, view, NULL) != GUARD_LOCK_OK)
            return false;
        if (view->holder_count > 0 || view->young_ms > 0)
            return true;
    }
    *name = options->names[0];
    return true;
}

static void complain_of_busy(const struct fleetlock *fleetlock)
{
    const uint32_t before = fleetlock->result.before;
    struct guard_lock_view view;
    const char *name;
    char held[YOUNG_BYTES] = "nobody holds it any more", front[64] = "nobody waits in front";
    if (!find_holder(fleetlock, &name, &view))
        snprintf(held, sizeof held, "the provider does not say who holds it");
    else if (view.young_ms > 0)
        say_young(&view, held);
    else if (view.holder_count > 0)
        snprintf(held, sizeof held, "held by %s%s", view.seen[0].who,
                 view.holder_count > 1 ? " and others" : "");
    if (before > 0)
        snprintf(front, sizeof front, "%" PRIu32 " %s in front", before, before == 1 ? "waits" : "wait");
    complain("%s: not acquired in time; %s; %s", name, held, front);
}

static int status_of_refusal(const struct fleetlock *fleetlock, enum guard_lock_status status)
{
    switch (status) {
    case GUARD_LOCK_BUSY:
        complain_of_busy(fleetlock);
        return EX_TEMPFAIL;
    case GUARD_LOCK_UNREACHABLE:
        complain("provider not reachable: %s", fleetlock->why);
        return EX_UNAVAILABLE;
    case GUARD_LOCK_INVALID:
        complain("%s", fleetlock->why);
        return EX_USAGE;
    case GUARD_LOCK_OK:
    case GUARD_LOCK_LOST:
    case GUARD_LOCK_UNKNOWN:
    case GUARD_LOCK_CANCELLED:
    case GUARD_LOCK_CLOSING:
    case GUARD_LOCK_SHED:
    case GUARD_LOCK_NO_MEMORY:
        break;
    }
    complain("%s", guard_lock_status_name(status));
    return EX_OSERR;
}

/* 0: it is ours; else the exit status. */
static int acquire(struct fleetlock *fleetlock)
{
    const struct options *options = &fleetlock->options;
    struct guard_lock_request request = GUARD_LOCK_REQUEST_DEFAULTS;
    struct guard_error error = {.text = ""};
    request.kind = options->kind;
    request.names = options->names;
    request.count = options->name_count;
    request.units = options->units;
    request.limit = options->limit;
    request.wait_ms = options->wait_ms;
    request.lease_ms = options->lease_ms;
    request.answered = on_answered;
    request.lost = on_lost;
    request.context = fleetlock;
    const enum guard_lock_status status = guard_lock(fleetlock->locks, &request, NULL, &error);
    if (status == GUARD_LOCK_INVALID) {
        complain_of_refusal(options, error.text);
        return EX_USAGE;
    }
    if (status != GUARD_LOCK_OK) {
        snprintf(fleetlock->why, sizeof fleetlock->why, "%s", error.text);
        return status_of_refusal(fleetlock, status);
    }
    const int signal_number = await_answer(fleetlock);
    if (signal_number != 0)
        return EXIT_BY_SIGNAL + signal_number; /* closing the locks withdraws the request */
    return fleetlock->result.status == GUARD_LOCK_OK ? 0
                                                     : status_of_refusal(fleetlock, fleetlock->result.status);
}

/* ---- holding it ---- */

/* So that a space separates names, and is in none: " " is %20, "%" is %25. */
static char *append_name(char *end, const char *name)
{
    for (; *name != '\0'; name++) {
        const bool is_plain = (unsigned char)*name > ' ' && *name != '%';
        end += sprintf(end, is_plain ? "%c" : "%%%02X", (unsigned char)*name);
    }
    return end;
}

/* COMMAND is not told a password, nor whom else it may be sent to. Empty, because a fleetlock in there that fell back
 * on its default would lock elsewhere. */
static bool hide_password(void)
{
    const char *url = getenv("FLEETLOCK_URL");
    const bool may_hold_one =
        url != NULL && (strchr(url, '@') != NULL || strcasestr(url, "password") != NULL);
    return !may_hold_one || setenv("FLEETLOCK_URL", "", 1) == 0;
}

static bool set_environment(const struct fleetlock *fleetlock)
{
    enum { FENCE_SIZE = 21 };
    const struct options *options = &fleetlock->options;
    char fences[GUARD_LOCK_NAMES_MAX * FENCE_SIZE] = "";
    char names[GUARD_LOCK_NAMES_MAX * (3 * GUARD_LOCK_NAME_BYTES_MAX + 1)] = "", *end = names;
    size_t fences_bytes = 0;
    for (size_t i = 0; i < options->name_count; i++) {
        const char *gap = i > 0 ? " " : "";
        end = append_name(stpcpy(end, gap), options->names[i]);
        fences_bytes += (size_t)snprintf(fences + fences_bytes, sizeof fences - fences_bytes, "%s%" PRIu64,
                                         gap, fleetlock->result.fence[i]);
    }
    return setenv("FLEETLOCK_NAME", names, 1) == 0 && setenv("FLEETLOCK_FENCE", fences, 1) == 0 &&
           hide_password();
}

/* A hold, while COMMAND runs. */
struct watch {
    struct guard_hold *hold;
    int lost_fd;        /* -1: it has been heard of */
    bool lost, goes_on; /* --on-lost go-on */
};

/* Until when the hold is safe, by the last renewal that was confirmed. */
static void look_at_validity(const struct watch *watch, struct command *command)
{
    const uint64_t now_ms = clock_boot_ms();
    const uint32_t left_ms = guard_hold_left_ms(watch->hold);
    if (left_ms > 0)
        command_is_safe(command, now_ms + left_ms);
}

static void begin_end(struct command *command, struct watch *watch)
{
    watch->lost = true;
    watch->lost_fd = -1;
    look_at_validity(watch, command);
    complain("%s", watch->goes_on ? "COMMAND goes on without the lock" : "COMMAND is told to end");
    if (!watch->goes_on)
        command_lost(command);
}

static void pass_signals(const struct fleetlock *fleetlock, struct command *command)
{
    for (int number; (number = next_signal(fleetlock)) != 0;) {
        if (number == SIGCHLD)
            command_reap(command);
        else
            command_signal(command, number);
    }
}

static void watch_command(const struct fleetlock *fleetlock, struct command *command, struct watch *watch)
{
    const int look_ms = (int)(fleetlock->options.lease_ms / LOOKS_PER_LEASE);
    while (!command->is_over) {
        struct pollfd polled[] = {{.fd = fleetlock->signals, .events = POLLIN},
                                  {.fd = watch->lost_fd, .events = POLLIN}};
        poll(polled, 2, look_ms);
        pass_signals(fleetlock, command);
        if (!watch->lost)
            look_at_validity(watch, command);
        if (watch->lost_fd >= 0 && polled[1].revents != 0 && !command->is_over)
            begin_end(command, watch);
    }
}

static int give_back(struct watch *watch, int status)
{
    const enum guard_lock_status given = guard_unlock_wait(&watch->hold);
    if (given == GUARD_LOCK_UNKNOWN)
        complain("giving the lock back was not confirmed; it ends with its lease");
    if (given == GUARD_LOCK_LOST && !watch->lost)
        complain("the lock was lost while COMMAND ran");
    return (watch->lost || given == GUARD_LOCK_LOST) && !watch->goes_on ? EX_IOERR : status;
}

static int hold(struct fleetlock *fleetlock)
{
    const struct options *options = &fleetlock->options;
    const struct keeper_plan plan = {.argv = options->command,
                                     .on_lost = options->on_lost,
                                     .grace_ms = options->grace_ms,
                                     .closes = options->closes};
    struct command command;
    struct watch watch = {.hold = fleetlock->result.hold,
                          .lost_fd = guard_hold_lost_fd(fleetlock->result.hold),
                          .goes_on = options->on_lost == 0};
    const bool started = watch.lost_fd >= 0 && set_environment(fleetlock);
    if (!started)
        complain("no descriptor or no memory for COMMAND");
    const uint64_t safe_ms = clock_boot_ms() + guard_hold_left_ms(watch.hold);
    if (!started || !command_start(&command, &plan, safe_ms)) {
        guard_unlock_wait(&watch.hold);
        return EX_OSERR;
    }
    watch_command(fleetlock, &command, &watch);
    command_finish(&command);
    return give_back(&watch, command.status);
}

/* ---- --status ---- */

static void print_seen(const struct guard_lock_seen *seen)
{
    const time_t now_s = time(NULL);
    printf("%-7s %-*s", seen->holds ? "holds" : "waits", GUARD_LOCK_WHO_BYTES / 2, seen->who);
    if (seen->limit <= GUARD_LOCK_UNITS_MAX)
        printf(" %" PRIu32 " of %" PRIu32, seen->units, seen->limit);
    else
        printf(" %s", seen->units == 1 ? "reader" : "alone");
    if (seen->since_s != 0 && (uint64_t)now_s >= seen->since_s)
        printf(", asked %" PRIu64 " s ago", (uint64_t)now_s - seen->since_s);
    if (seen->left_ms != 0)
        printf(", lease ends in %.1f s", seen->left_ms / 1e3);
    putchar('\n');
}

static int print_status(struct fleetlock *fleetlock)
{
    struct guard_lock_view view;
    struct guard_error error = {.text = ""};
    char young[YOUNG_BYTES];
    const enum guard_lock_status status =
        guard_lock_look(fleetlock->locks, fleetlock->options.names[0], &view, &error);
    if (status != GUARD_LOCK_OK) {
        snprintf(fleetlock->why, sizeof fleetlock->why, "%s", error.text);
        return status_of_refusal(fleetlock, status);
    }
    printf("%s: %" PRIu32 " %s, %" PRIu32 " waiting, fence %" PRIu64 "\n", fleetlock->options.names[0],
           view.holder_count, view.holder_count == 1 ? "holder" : "holders", view.waiter_count, view.fence);
    for (uint32_t i = 0; i < view.seen_count; i++)
        print_seen(&view.seen[i]);
    if (view.seen_count < view.holder_count + view.waiter_count)
        printf("and %" PRIu32 " more\n", view.holder_count + view.waiter_count - view.seen_count);
    if (view.young_ms > 0) {
        say_young(&view, young);
        printf("%s\n", young);
    }
    if (fflush(stdout) == 0)
        return EX_OK;
    complain("standard output cannot be written: %s", strerror(errno));
    return EX_OSERR;
}

/* ---- all of it ---- */

static int run(struct fleetlock *fleetlock)
{
    const bool only_looks = fleetlock->options.task == OPTIONS_STATUS;
    if (only_looks) {
        signal(SIGPIPE, SIG_IGN); /* all other signals end it at once: it holds nothing */
    } else if (!take_signals(fleetlock)) {
        complain("%s", strerror(errno));
        return EX_OSERR;
    }
    int status = open_locks(fleetlock);
    if (status != 0)
        return status;
    if (only_looks)
        status = print_status(fleetlock);
    else if ((status = acquire(fleetlock)) == 0)
        status = hold(fleetlock);
    guard_locks_close(&fleetlock->locks, DRAIN_MS);
    return status;
}

int main(int argc, char **argv)
{
    struct fleetlock fleetlock = {.signals = -1, .answered = -1};
    int status = EX_USAGE;
    standard_open();
    command_keep_descriptors();
    if (options_read(argc, argv, &fleetlock.options))
        status =
            fleetlock.options.task >= OPTIONS_HELP ? options_print(fleetlock.options.task) : run(&fleetlock);
    options_clear(&fleetlock.options);
    return status;
}

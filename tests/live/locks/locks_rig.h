/* SPDX-License-Identifier: MIT */
/*
 * locks_rig.h - locks of several processes, one private Redis, and children that hold one.
 *
 * Each of the rig's locks stands for a process: they share nothing but Redis. Where a process has to die or stand
 * still it is a real one, this program again in the role of a holder (holder_start()); its main() is
 * locks_rig_main().
 */
#pragma once

#include "guard/locks.h"
#include "load/base/proc.h"
#include "tests/live/guard/guard_rig.h"

#include <signal.h>

enum { LOCKS_MAX = 6, HOLDER_LIMIT_MS = 20000 };

static struct locks_rig {
    struct guard_locks_config config;
    uint32_t holder_limit_ms, holder_wait_ms; /* of the children */
    const char *url;
    char name_space[16];
    size_t count;
    struct guard_locks *locks[LOCKS_MAX];
} locks_rig;

/* So long that a machine that stands still for seconds ends no lease: where that is what a test is about, it sets its
 * own. */
static inline bool locks_before(void)
{
    memset(&locks_rig, 0, sizeof locks_rig);
    locks_rig.config = (struct guard_locks_config)GUARD_LOCKS_CONFIG_DEFAULTS;
    snprintf(locks_rig.name_space, sizeof locks_rig.name_space, "l%u", ++rig_tests);
    locks_rig.url = rig_redis.url;
    locks_rig.config.urls = &locks_rig.url;
    locks_rig.config.name_space = locks_rig.name_space;
    locks_rig.config.limit_ms = 5000;
    locks_rig.config.connect_limit_ms = 5000;
    locks_rig.config.place_ms = 20000;
    locks_rig.holder_limit_ms = 250;
    locks_rig.holder_wait_ms = UINT32_MAX;
    return true;
}

static inline bool locks_are_up(struct guard_locks *locks)
{
    struct guard_locks_stats stats;
    guard_locks_stats(locks, &stats);
    return stats.is_up;
}

static inline struct guard_locks *locks_open(void)
{
    struct guard_error error = {.text = ""};
    struct guard_locks **locks = &locks_rig.locks[locks_rig.count++];
    assert_true(locks_rig.count <= LOCKS_MAX);
    if (guard_locks_open(&locks_rig.config, locks, &error) != GUARD_OK)
        fail_msg("guard_locks_open: %s", error.text);
    WAIT_UNTIL(locks_are_up(*locks));
    return *locks;
}

static inline bool locks_after(void)
{
    for (size_t i = 0; i < locks_rig.count; i++)
        if (locks_rig.locks[i] != NULL)
            guard_locks_close(&locks_rig.locks[i], 10000);
    return true;
}

static inline struct guard_locks_stats lock_stats_of(struct guard_locks *locks)
{
    struct guard_locks_stats stats;
    guard_locks_stats(locks, &stats);
    return stats;
}

/* ---- asking ---- */

static inline struct guard_lock_request lock_request(enum guard_lock_kind kind, const char *const *name)
{
    struct guard_lock_request request = GUARD_LOCK_REQUEST_DEFAULTS;
    request.kind = kind;
    request.names = name;
    request.lease_ms = 20000;
    request.wait_ms = RIG_LIMIT_MS;
    return request;
}

/* The blocking form. */
static inline struct guard_lock_result lock_of(struct guard_locks *locks,
                                               const struct guard_lock_request *request)
{
    struct guard_lock_result result;
    struct guard_error error = {.text = ""};
    enum guard_lock_status status = guard_lock_wait(locks, request, &result, &error);
    assert_int_equal(status, result.status);
    if (status == GUARD_LOCK_INVALID)
        fail_msg("guard_lock_wait: %s", error.text);
    return result;
}

static inline struct guard_hold *hold_of(struct guard_locks *locks, const struct guard_lock_request *request)
{
    struct guard_lock_result result = lock_of(locks, request);
    assert_string_equal(guard_lock_status_name(result.status), "ok");
    assert_non_null(result.hold);
    return result.hold;
}

/* The exclusive lock of a name, fair. */
static inline struct guard_hold *hold_name(struct guard_locks *locks, const char *name)
{
    struct guard_lock_request request = lock_request(GUARD_LOCK_FAIR, &name);
    return hold_of(locks, &request);
}

static inline void assert_given(struct guard_hold **hold)
{
    assert_string_equal(guard_lock_status_name(guard_unlock_wait(hold)), "ok");
    assert_null(*hold);
}

/* One request by callback, and what becomes of it. */
struct taking {
    struct guard_lock_result result;
    atomic_uint answers, losses, givens;
    _Atomic(enum guard_lock_status) given;
    atomic_uint order; /* among all that were answered */
    _Atomic uint64_t answered_us, lost_us;
    uint32_t left_when_lost_ms;
    guard_ticket ticket;
    atomic_bool starting; /* the caller is still inside its call */
    pthread_t caller;
};

static atomic_uint takings_answered;

static inline void on_taken(void *context, const struct guard_lock_result *result)
{
    struct taking *taking = context;
    assert_false(atomic_load(&taking->starting) && pthread_equal(pthread_self(), taking->caller));
    taking->result = *result;
    taking->result.why = NULL;
    atomic_store(&taking->answered_us, clock_us());
    atomic_store(&taking->order, atomic_fetch_add(&takings_answered, 1));
    atomic_fetch_add(&taking->answers, 1);
}

static inline void on_taken_lost(void *context, struct guard_hold *hold, const char *why)
{
    struct taking *taking = context;
    assert_non_null(why);
    taking->left_when_lost_ms = guard_hold_left_ms(hold);
    atomic_store(&taking->lost_us, clock_us());
    atomic_fetch_add(&taking->losses, 1);
}

static inline void on_taken_given(void *context, enum guard_lock_status status)
{
    struct taking *taking = context;
    atomic_store(&taking->given, status);
    atomic_fetch_add(&taking->givens, 1);
}

static inline void take_start(struct guard_locks *locks, struct taking *taking,
                              struct guard_lock_request request)
{
    struct guard_error error = {.text = ""};
    memset(taking, 0, sizeof *taking);
    request.answered = on_taken;
    request.lost = on_taken_lost;
    request.context = taking;
    taking->caller = pthread_self();
    atomic_store(&taking->starting, true);
    if (guard_lock(locks, &request, &taking->ticket, &error) != GUARD_LOCK_OK)
        fail_msg("guard_lock: %s", error.text);
    atomic_store(&taking->starting, false);
}

static inline void take_expect(struct taking *taking, enum guard_lock_status status)
{
    WAIT_UNTIL(atomic_load(&taking->answers) > 0);
    assert_int_equal(atomic_load(&taking->answers), 1);
    assert_string_equal(guard_lock_status_name(taking->result.status), guard_lock_status_name(status));
    assert_true((taking->result.hold != NULL) == (status == GUARD_LOCK_OK) || taking->result.hold == NULL);
}

/* ---- looking ---- */

static inline struct guard_lock_view view_of(struct guard_locks *locks, const char *name)
{
    struct guard_lock_view view;
    struct guard_error error = {.text = ""};
    if (guard_lock_look(locks, name, &view, &error) != GUARD_LOCK_OK)
        fail_msg("guard_lock_look: %s", error.text);
    return view;
}

static inline bool waits(struct guard_locks *locks, const char *name, uint32_t waiters)
{
    return view_of(locks, name).waiter_count == waiters;
}

/* ---- children ---- */

struct holder {
    pid_t pid;
    char output[PROC_PATH_BYTES + 16];
};

/* "NAME=value" of what a holder is told, and its value there. */
static inline const char *holder_setting(const char *name)
{
    const char *value = getenv(name);
    return value != NULL ? value : "";
}

static inline void holder_lost(void *context, struct guard_hold *hold, const char *why)
{
    (void)context;
    (void)hold;
    printf("lost: %s\n", why);
    fflush(stdout);
}

/* Takes the lock, says so and holds it until it is ended. */
static inline int hold_until_ended(void)
{
    struct guard_locks_config config = GUARD_LOCKS_CONFIG_DEFAULTS;
    const char *url = holder_setting("HOLDER_URL"), *name = holder_setting("HOLDER_LOCK");
    struct guard_lock_request request =
        lock_request((enum guard_lock_kind)strtoul(holder_setting("HOLDER_KIND"), NULL, 10), &name);
    struct guard_locks *locks = NULL;
    struct guard_lock_result result;
    config.urls = &url;
    config.name_space = holder_setting("HOLDER_SPACE");
    config.limit_ms = (uint32_t)strtoul(holder_setting("HOLDER_LIMIT_MS"), NULL, 10);
    config.place_ms = (uint32_t)strtoul(holder_setting("HOLDER_PLACE_MS"), NULL, 10);
    request.lease_ms = (uint32_t)strtoul(holder_setting("HOLDER_LEASE_MS"), NULL, 10);
    request.lost = holder_lost;
    request.wait_ms = (uint32_t)strtoul(holder_setting("HOLDER_WAIT_MS"), NULL, 10);
    if (guard_locks_open(&config, &locks, NULL) != GUARD_OK ||
        guard_lock_wait(locks, &request, &result, NULL) != GUARD_LOCK_OK) {
        printf("not held\n");
        return 1;
    }
    printf("held %llu\n", (unsigned long long)result.fence[0]);
    fflush(stdout);
    for (;;)
        pause();
}

/* Of a process that takes that lock; it does not wait for it to be held. */
static inline void holder_start(struct holder *holder, const char *name, enum guard_lock_kind kind,
                                uint32_t lease_ms)
{
    static unsigned count;
    static char folder[PROC_PATH_BYTES];
    char settings[8][128];
    const char *lines[9] = {NULL};
    if (folder[0] == '\0')
        assert_true(proc_folder("locks_rig", NULL, folder));
    snprintf(holder->output, sizeof holder->output, "%s/%u", folder, ++count);
    snprintf(settings[0], sizeof settings[0], "HOLDER_URL=%s", locks_rig.url);
    snprintf(settings[1], sizeof settings[1], "HOLDER_SPACE=%s", locks_rig.name_space);
    snprintf(settings[2], sizeof settings[2], "HOLDER_LOCK=%s", name);
    snprintf(settings[3], sizeof settings[3], "HOLDER_KIND=%d", (int)kind);
    snprintf(settings[4], sizeof settings[4], "HOLDER_LEASE_MS=%u", lease_ms);
    snprintf(settings[5], sizeof settings[5], "HOLDER_PLACE_MS=%u", locks_rig.config.place_ms);
    snprintf(settings[6], sizeof settings[6], "HOLDER_LIMIT_MS=%u", locks_rig.holder_limit_ms);
    snprintf(settings[7], sizeof settings[7], "HOLDER_WAIT_MS=%u", locks_rig.holder_wait_ms);
    for (size_t i = 0; i < 8; i++)
        lines[i] = settings[i];
    const char *const argv[] = {"/proc/self/exe", "--hold", NULL};
    holder->pid =
        proc_start(&(struct proc_options){.argv = argv, .settings = lines, .output_path = holder->output});
    assert_true(holder->pid > 0);
}

/* What it has said begins with this; *number is what follows. */
static inline bool holder_said(const struct holder *holder, const char *text, unsigned long long *number)
{
    char line[256];
    bool said = false;
    FILE *file = fopen(holder->output, "re");
    while (file != NULL && !said && fgets(line, sizeof line, file) != NULL) {
        said = strncmp(line, text, strlen(text)) == 0 && strchr(line, '\n') != NULL;
        if (said && number != NULL)
            *number = strtoull(line + strlen(text), NULL, 10);
    }
    if (file != NULL)
        fclose(file);
    return said;
}

static inline void holder_kill(struct holder *holder)
{
    if (holder->pid > 0)
        proc_stop(&holder->pid, SIGKILL, HOLDER_LIMIT_MS);
}

static inline int locks_rig_main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--hold") == 0)
        return hold_until_ended();
    return test_main(argc, argv);
}

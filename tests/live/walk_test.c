/* SPDX-License-Identifier: MIT */
/*
 * walk_test.c - the way of one key, and of one lock, through guard/: how many files a key enters, and whether the READMEs
 * are right about it.
 *
 * The guard of this program is compiled with -finstrument-functions (see the Makefile), so that every function reports
 * when it is entered. Background work (heartbeats, the canary) may fall into a walk: a file counts if it is entered
 * in every one of several walks.
 *
 * A row of a README's walk begins with a file of guard/ and a function in backquotes. Where the row is about a miss or a
 * hit, a lock that is granted at once or one that waits, it must be entered there, in the order of the rows.
 */
#include "guard/locks.h"
#include "guard_rig.h"
#include <uv.h>

enum {
    WALKS = 5,
    ENTERED_MAX = 65536,
    STEPS_MAX = 1024,
    NAME_SIZE = 96,
    MISS_FILES_MAX = 21,
    HIT_FILES_MAX = 8
};

/* ---- what is entered ---- */

static atomic_bool recording;
static atomic_uint entered_count;
static void *entered[ENTERED_MAX];

void __cyg_profile_func_enter(void *function, void *caller);
void __cyg_profile_func_exit(void *function, void *caller);

void __cyg_profile_func_enter(void *function, void *caller)
{
    (void)caller;
    if (!atomic_load(&recording))
        return;
    unsigned at = atomic_fetch_add(&entered_count, 1);
    if (at < ENTERED_MAX)
        entered[at] = function;
}

void __cyg_profile_func_exit(void *function, void *caller)
{
    (void)function;
    (void)caller;
}

/* ---- where that is ---- */

struct step {
    void *function; /* as it was entered */
    char file[NAME_SIZE], name[NAME_SIZE];
};

/* Each function once, in the order in which they were first entered. */
struct walk {
    size_t count;
    struct step steps[STEPS_MAX];
};

static void add_step(struct walk *walk, void *function)
{
    size_t at = 0;
    while (at < walk->count && walk->steps[at].function != function)
        at++;
    if (at < walk->count)
        return;
    assert_true(walk->count < STEPS_MAX);
    walk->steps[walk->count++].function = function;
}

extern const char __executable_start; /* by the linker */

/* "FUNCTION\n/.../guard/ROOM/FILE.c:LINE\n" */
static void read_step(FILE *out, struct step *step)
{
    char path[1024];
    assert_non_null(fgets(step->name, sizeof step->name, out));
    assert_non_null(fgets(path, sizeof path, out));
    step->name[strcspn(step->name, "\n")] = '\0';
    path[strcspn(path, ":")] = '\0';
    const char *guard = strstr(path, "guard/");
    for (const char *next = guard; next != NULL; next = strstr(next + 1, "/guard/"))
        guard = next[0] == '/' ? next + 1 : next;
    snprintf(step->file, sizeof step->file, "%.*s", NAME_SIZE - 1, guard != NULL ? guard : "");
}

static void name_steps(struct walk *walk)
{
    char *command = NULL;
    size_t bytes = 0;
    FILE *text = open_memstream(&command, &bytes);
    fprintf(text, "addr2line -f -e /proc/%d/exe", (int)getpid());
    for (size_t i = 0; i < walk->count; i++)
        fprintf(text, " 0x%zx", (size_t)((const char *)walk->steps[i].function - &__executable_start));
    fclose(text);
    FILE *out = popen(command, "re");
    assert_non_null(out);
    for (size_t i = 0; i < walk->count; i++)
        read_step(out, &walk->steps[i]);
    assert_int_equal(pclose(out), 0);
    free(command);
}

/* ---- the way of one key ---- */

static void on_answer(void *context, const struct guard_result *result)
{
    struct guard_result *out = context;
    atomic_store(&recording, false);
    *out = *result;
    if (result->value != NULL)
        guard_value_ref(result->value);
}

static struct guard_result get_on(struct guard_loop *attached, uv_loop_t *loop, const char *key)
{
    struct guard_result result = {.status = GUARD_UNKNOWN};
    const struct guard_request request = {
        .kind = fleet.kinds[0], .key = key, .loop = attached, .answered = on_answer, .context = &result};
    atomic_fetch_add(&fleet.accepted[0], 1);
    assert_int_equal(guard_get(fleet.guards[0], &request, NULL, NULL), GUARD_OK);
    while (result.status == GUARD_UNKNOWN)
        uv_run(loop, UV_RUN_ONCE);
    atomic_fetch_add(&fleet.answered, 1);
    guard_value_unref(&result.value);
    assert_int_equal(result.status, GUARD_OK);
    return result;
}

static void begin_recording(void)
{
    atomic_store(&entered_count, 0);
    atomic_store(&recording, true);
}

static void read_recording(struct walk *walk)
{
    unsigned count = atomic_load(&entered_count);
    assert_true(count > 0 && count < ENTERED_MAX);
    walk->count = 0;
    for (unsigned i = 0; i < count; i++)
        add_step(walk, entered[i]);
    name_steps(walk);
}

static void record(struct walk *walk, struct guard_loop *attached, uv_loop_t *loop, const char *key,
                   enum guard_source source)
{
    begin_recording();
    assert_int_equal(get_on(attached, loop, key).source, source);
    read_recording(walk);
}

static bool enters(const struct walk *walk, const char *file)
{
    size_t at = 0;
    while (at < walk->count && strcmp(walk->steps[at].file, file) != 0)
        at++;
    return at < walk->count;
}

static bool counts(const char *file)
{
    return strncmp(file, "guard/", 6) == 0 && strncmp(file, "guard/base/", 11) != 0 &&
           strncmp(file, "guard/redis/", 12) != 0 && strstr(file, ".c") != NULL;
}

/* How many files every walk enters; they are printed, each with the function by which it is entered first. */
static size_t files_of(const char *what, const struct walk walks[WALKS])
{
    char seen[STEPS_MAX][NAME_SIZE];
    size_t count = 0;
    for (size_t i = 0; i < walks[0].count; i++) {
        const struct step *step = &walks[0].steps[i];
        size_t at = 0, in = 1;
        while (at < count && strcmp(seen[at], step->file) != 0)
            at++;
        while (in < WALKS && enters(&walks[in], step->file))
            in++;
        if (at < count || in < WALKS || !counts(step->file))
            continue;
        snprintf(seen[count++], NAME_SIZE, "%s", step->file);
        print_message("%s %2zu  %-26s %s\n", what, count, step->file, step->name);
    }
    return count;
}

/* ---- as the README tells it ---- */

static size_t place_of(const struct walk *walk, const char *file, const char *name)
{
    size_t at = 0;
    while (at < walk->count &&
           (strcmp(walk->steps[at].file, file) != 0 || strcmp(walk->steps[at].name, name) != 0))
        at++;
    return at;
}

/* "| miss | `guard/run/loop.c` `loop_accept()` | ..." */
static void check_row(const char *readme, const char *row, const char *what, const struct walk *walk,
                      size_t *at, size_t *rows)
{
    char kind[16] = "", file[NAME_SIZE], name[NAME_SIZE];
    int read = sscanf(row, "| %15[a-z] | `%95[a-z0-9_/.]` `%95[a-z0-9_]()`", kind, file, name);
    if (strcmp(kind, what) != 0)
        return;
    if (read != 3)
        fail_msg("%s: neither file nor function: %s", readme, row);
    size_t found = place_of(walk, file, name);
    if (found == walk->count)
        fail_msg("%s: a %s does not enter %s() in %s", readme, what, name, file);
    if (found < *at)
        fail_msg("%s: a %s enters %s() in %s earlier than the row before", readme, what, name, file);
    *at = found;
    (*rows)++;
}

/* What the thread of the walk before was still at may come first: the walk that begins with the call is meant. */
static const struct walk *clean(const char *what, const char *call, const struct walk walks[WALKS])
{
    size_t at = 0;
    while (at < WALKS && strcmp(walks[at].steps[0].name, call) != 0)
        at++;
    if (at == WALKS)
        fail_msg("no walk of a %s begins with %s()", what, call);
    return &walks[at];
}

static void check_readme(const char *readme, const char *what, const struct walk *walk)
{
    char row[1024];
    size_t at = 0, rows = 0;
    FILE *file = fopen(readme, "re");
    assert_non_null(file);
    while (fgets(row, sizeof row, file) != NULL)
        check_row(readme, row, what, walk, &at, &rows);
    fclose(file);
    if (rows < 3)
        fail_msg("%s: the walk of a %s has %zu rows", readme, what, rows);
}

TEST(a_miss_and_a_hit_enter_few_files_and_the_readme_tells_their_way)
{
    static struct walk misses[WALKS], hits[WALKS];
    struct guard_loop *attached = NULL;
    uv_loop_t loop;
    fleet_open(1);
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(guard_loop_attach(fleet.guards[0], &loop, &attached, NULL), GUARD_OK);
    get_on(attached, &loop, "warm");
    for (size_t i = 0; i < WALKS; i++) {
        char key[16];
        snprintf(key, sizeof key, "cold%zu", i);
        /* the wake-up of the load before is no part of this walk */
        WAIT_UNTIL(stats_of(fleet.guards[0]).wake_messages > i);
        record(&misses[i], attached, &loop, key, GUARD_FROM_LOAD);
        record(&hits[i], attached, &loop, key, GUARD_FROM_CACHE);
    }
    guard_loop_detach(&attached, NULL, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    fleet_close();
    assert_in_range(files_of("miss", misses), 1, MISS_FILES_MAX);
    assert_in_range(files_of("hit", hits), 1, HIT_FILES_MAX);
    check_readme("README.md", "miss", clean("miss", "guard_get", misses));
    check_readme("README.md", "hit", clean("hit", "guard_get", hits));
}

/* ---- the way of one lock ---- */

struct locking {
    struct guard_hold *hold;
    atomic_bool granted;
};

static void on_locked(void *context, const struct guard_lock_result *result)
{
    struct locking *locking = context;
    atomic_store(&recording, false);
    locking->hold = result->hold;
    atomic_store(&locking->granted, result->status == GUARD_LOCK_OK);
}

static struct guard_locks *open_some_locks(void)
{
    struct guard_locks_config config = GUARD_LOCKS_CONFIG_DEFAULTS;
    const char *url = rig_redis.url;
    struct guard_locks *locks = NULL;
    config.urls = &url;
    assert_int_equal(guard_locks_open(&config, &locks, NULL), GUARD_OK);
    return locks;
}

static void begin_lock(struct guard_locks *locks, struct locking *locking)
{
    struct guard_lock_request request = GUARD_LOCK_REQUEST_DEFAULTS;
    request.names = (const char *const[]){"walked"};
    request.answered = on_locked;
    request.context = locking;
    *locking = (struct locking){.hold = NULL};
    assert_int_equal(guard_lock(locks, &request, NULL, NULL), GUARD_LOCK_OK);
}

static void end_lock(struct locking *locking)
{
    WAIT_UNTIL(atomic_load(&locking->granted));
    assert_int_equal(guard_unlock_wait(&locking->hold), GUARD_LOCK_OK);
}

static uint64_t polls_of(struct guard_locks *locks)
{
    struct guard_locks_stats stats;
    guard_locks_stats(locks, &stats);
    return stats.polls;
}

/* By other locks, so that what is recorded is the way of the one that waits. */
static void record_wait(struct walk *walk, struct guard_locks *other, struct guard_locks *locks)
{
    struct locking first, second;
    begin_lock(other, &first);
    WAIT_UNTIL(atomic_load(&first.granted));
    uint64_t polls = polls_of(locks);
    begin_recording();
    begin_lock(locks, &second);
    WAIT_UNTIL(polls_of(locks) > polls);
    atomic_store(&recording, false);
    read_recording(walk);
    end_lock(&first);
    end_lock(&second);
}

TEST(a_lock_goes_the_way_that_the_readme_tells)
{
    static struct walk grants[WALKS], waits[WALKS];
    struct guard_locks *locks = open_some_locks(), *other = open_some_locks();
    struct locking locking;
    begin_lock(locks, &locking);
    end_lock(&locking);
    for (size_t i = 0; i < WALKS; i++) {
        begin_recording();
        begin_lock(locks, &locking);
        WAIT_UNTIL(atomic_load(&locking.granted));
        read_recording(&grants[i]);
        end_lock(&locking);
        record_wait(&waits[i], other, locks);
    }
    assert_int_equal(guard_locks_close(&locks, 1000), GUARD_LOCK_OK);
    assert_int_equal(guard_locks_close(&other, 1000), GUARD_LOCK_OK);
    check_readme("guard/README.md", "lock", clean("lock", "guard_lock", grants));
    check_readme("guard/README.md", "wait", clean("wait", "guard_lock", waits));
}

TEST_GROUP(.up = rig_start, .down = rig_stop, .before = fleet_before);

/* SPDX-License-Identifier: MIT */
/*
 * said_test.c - the lines of a guard: to stderr by default, of loaders that break their contract, of calls with a
 * wrong argument, and in the child of a fork.
 */
#include "guard/adapters/libuv.h"
#include "guard_rig.h"
#include "load/base/net.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

enum { HEARD_BYTES = 65536, CHILD_LIMIT_S = 60, FORKS = 40, CONNECTIONS = 3 };

/* ---- the log of a test ---- */

struct ear {
    pthread_mutex_t mutex;
    size_t bytes;
    unsigned lines;
    char text[HEARD_BYTES]; /* lines that end with \n */
};

static void hear(void *context, const char *text, bool good)
{
    (void)good;
    struct ear *ear = context;
    pthread_mutex_lock(&ear->mutex);
    ear->lines++;
    ear->bytes += (size_t)snprintf(ear->text + ear->bytes, sizeof ear->text - ear->bytes, "%s\n", text);
    pthread_mutex_unlock(&ear->mutex);
}

static void listen_to(struct ear *ear)
{
    memset(ear, 0, sizeof *ear);
    pthread_mutex_init(&ear->mutex, NULL);
    fleet.config.log = hear;
    fleet.config.log_context = ear;
}

static bool heard(struct ear *ear, const char *text)
{
    pthread_mutex_lock(&ear->mutex);
    bool found = strstr(ear->text, text) != NULL;
    pthread_mutex_unlock(&ear->mutex);
    return found;
}

static void assert_heard(struct ear *ear, const char *text)
{
    if (!heard(ear, text))
        fail_msg("\"%s\" was not said, but:\n%s", text, ear->text);
}

/* ---- stderr ---- */

static int stderr_before = -1;
static char stderr_text[HEARD_BYTES];

/* To a file, until the test is over. */
static void catch_stderr(FILE **file)
{
    *file = tmpfile();
    assert_non_null(*file);
    stderr_before = dup(STDERR_FILENO);
    assert_true(dup2(fileno(*file), STDERR_FILENO) >= 0);
}

static const char *caught(FILE *file)
{
    ssize_t bytes = pread(fileno(file), stderr_text, sizeof stderr_text - 1, 0);
    assert_true(bytes >= 0);
    stderr_text[bytes] = '\0';
    return stderr_text;
}

static bool release_stderr(void)
{
    if (stderr_before >= 0) {
        dup2(stderr_before, STDERR_FILENO);
        close(stderr_before);
    }
    stderr_before = -1;
    return true;
}

/* A guard of this URL: until stderr has `said`. */
static void stderr_comes_to_say(FILE *file, const char *url, const char *said)
{
    char head[64];
    fleet_init();
    fleet.config.redis_url = url;
    fleet_add();
    snprintf(head, sizeof head, "stampede-guard %s: redis 127.0.0.1:", fleet.name_space);
    WAIT_UNTIL(strstr(caught(file), said) != NULL && strstr(caught(file), head) != NULL);
    assert_null(strstr(caught(file), "hunter2"));
    fleet_close();
}

TEST_WITH(without_a_log_stderr_hears_what_is_wrong_with_redis, fleet_before, release_stderr, P96)
{
    FILE *file = NULL;
    char url[RIG_URL_BYTES];
    catch_stderr(&file);
    snprintf(url, sizeof url, "redis://127.0.0.1:%u", (unsigned)net_free_port());
    stderr_comes_to_say(file, url, "connection refused");
    snprintf(url, sizeof url, "redis://:hunter2@127.0.0.1:%u", (unsigned)rig_redis.port);
    stderr_comes_to_say(file, url, "this Redis has no password: remove it from the URL");
    snprintf(url, sizeof url, "redis://nobody:hunter2@127.0.0.1:%u", (unsigned)rig_redis.port);
    stderr_comes_to_say(file, url, "AUTH refused: WRONGPASS; correct user and password in the URL");
    snprintf(url, sizeof url, "redis://127.0.0.1:%u/99", (unsigned)rig_redis.port);
    stderr_comes_to_say(file, url, "SELECT 99 refused: ERR DB index is out of range; put another number");
    rig_permit("poor", "on >PASSWORD ~* &* +@all -select");
    rig_url_of("poor", 1, url);
    stderr_comes_to_say(file, url, "'select' command; the user of the URL may do too little");
    rig_forget("poor");
    fclose(file);
}

/* It works, at a price. */
TEST_WITH(without_a_log_stderr_hears_what_the_login_lacks, fleet_before, release_stderr, P96)
{
    FILE *file = NULL;
    char url[RIG_URL_BYTES];
    catch_stderr(&file);
    rig_permit("poor", "on >PASSWORD ~* &* +@all -getex");
    rig_url_of("poor", 0, url);
    stderr_comes_to_say(file, url,
                        "up; GETEX is refused: each value that is read costs a ROLE (allow +getex)");
    rig_forget("poor");
    fclose(file);
}

TEST_WITH(nothing_is_said_where_all_is_well_or_it_is_switched_off, fleet_before, release_stderr, P96)
{
    FILE *file = NULL;
    char url[RIG_URL_BYTES];
    catch_stderr(&file);
    fleet_init();
    fleet_open(1);
    expect_row(0, "k", "k v1");
    fleet_close();
    fleet_init();
    fleet.config.log = guard_log_none;
    snprintf(url, sizeof url, "redis://:hunter2@127.0.0.1:%u", (unsigned)rig_redis.port);
    fleet.config.redis_url = url;
    fleet_add();
    WAIT_UNTIL(stats_of(fleet.guards[0]).redis_state == GUARD_REDIS_DENIED);
    expect(0, "k", GUARD_OK);
    fleet_close();
    assert_string_equal(caught(file), "");
    fclose(file);
}

/* ---- loaders ---- */

static void load_tags(struct guard_load *load, void *context)
{
    (void)context;
    guard_load_tag(load, "");
    guard_load_done(load, "row", 3, NULL);
}

static void load_long_meta(struct guard_load *load, void *context)
{
    static const char meta[GUARD_META_MAX + 1];
    (void)context;
    assert_int_equal(guard_load_meta(load, meta, GUARD_META_MAX), GUARD_OK);
    assert_int_equal(guard_load_meta(load, meta, sizeof meta), GUARD_INVALID);
    guard_load_done(load, "row", 3, NULL);
}

static void load_late_meta(struct guard_load *load, void *context)
{
    (void)context;
    guard_load_done(load, "row", 3, NULL);
    assert_int_equal(guard_load_meta(load, "m", 1), GUARD_INVALID);
}

static void load_no_meta(struct guard_load *load, void *context)
{
    (void)context;
    assert_int_equal(guard_load_meta(load, NULL, 1), GUARD_INVALID);
    guard_load_done(load, "row", 3, NULL);
}

static void load_without_meta(struct guard_load *load, void *context)
{
    (void)context;
    assert_int_equal(guard_load_meta(load, NULL, 0), GUARD_OK);
    guard_load_done(load, "row", 3, NULL);
}

static void load_unchanged(struct guard_load *load, void *context)
{
    (void)context;
    guard_load_unchanged(load);
}

static void load_nameless_failure(struct guard_load *load, void *context)
{
    (void)context;
    guard_load_fail(load, (enum guard_failure)77);
}

struct breach {
    enum source_verdict verdict;
    guard_loader *loader; /* NULL: the source's */
    const char *validator, *said;
    enum guard_status status;
};

TEST(a_loader_that_breaks_its_contract_is_named_with_its_key, P97)
{
    static const struct breach breaches[] = {
        {SOURCE_NOTHING, NULL, NULL, "returned without finishing", GUARD_FAILED},
        {SOURCE_EXIT, NULL, NULL, "ended its thread without finishing", GUARD_FAILED},
        {SOURCE_TWICE, NULL, NULL, "finished the load a second time", GUARD_OK},
        {SOURCE_ROW, NULL, "line\n", "passed a validator", GUARD_FAILED},
        {SOURCE_ROW, load_tags, NULL, "named a tag that is not", GUARD_FAILED},
        {SOURCE_ROW, load_long_meta, NULL, "passed meta of more than 4096 bytes", GUARD_FAILED},
        {SOURCE_ROW, load_late_meta, NULL, "passed its meta after it had finished", GUARD_FAILED},
        {SOURCE_ROW, load_no_meta, NULL, "passed NULL for meta", GUARD_FAILED},
        {SOURCE_ROW, load_without_meta, NULL, "finished the load without meta", GUARD_FAILED},
        {SOURCE_ROW, load_unchanged, NULL, "found unchanged", GUARD_FAILED},
        {SOURCE_ROW, load_nameless_failure, NULL, "failed the load with a number", GUARD_FAILED},
    };
    static struct ear ear;
    char line[160];
    for (size_t i = 0; i < sizeof breaches / sizeof *breaches; i++) {
        fleet_init();
        listen_to(&ear);
        fleet.source.verdict = breaches[i].verdict;
        fleet.source.validator = breaches[i].validator;
        fleet.policy.tagged = true;
        fleet.policy.needs_meta = breaches[i].loader == load_without_meta;
        if (breaches[i].loader != NULL)
            fleet.policy.loader = breaches[i].loader;
        fleet_open(1);
        expect(0, "a\nkey:7", breaches[i].status);
        snprintf(line, sizeof line, "the loader of \"a\\x0akey:7\" %s", breaches[i].said);
        assert_heard(&ear, line);
        fleet_close();
    }
}

static void finish_the_first(struct guard_load *const *loads, size_t count, void *context)
{
    (void)context;
    assert_true(count > 1);
    guard_load_done(loads[0], "row", 3, NULL);
}

TEST(a_batch_loader_is_named_with_the_keys_it_left, P97)
{
    static struct ear ear;
    static const char *const keys[] = {"one", "two", "three"};
    struct guard_result results[3];
    listen_to(&ear);
    fleet.policy.batch_loader = finish_the_first;
    fleet_open(1);
    struct guard_request request = {.kind = fleet.kinds[0], .keys = keys, .count = 3};
    atomic_fetch_add(&fleet.accepted[0], 3);
    assert_int_equal(guard_get_wait(fleet.guards[0], &request, results), GUARD_OK);
    atomic_fetch_add(&fleet.answered, 3);
    for (size_t i = 0; i < 3; i++)
        guard_value_unref(&results[i].value);
    assert_false(heard(&ear, "\"one\""));
    assert_heard(&ear, "the loader of \"two\" returned without finishing");
    assert_heard(&ear, "the loader of \"three\" returned without finishing");
}

TEST(a_loader_that_is_always_wrong_fills_no_log, P97)
{
    static struct ear ear;
    char key[16];
    listen_to(&ear);
    fleet.source.verdict = SOURCE_NOTHING;
    fleet_open(1);
    unsigned before = ear.lines;
    uint64_t begun_ms = rig_now_ms();
    for (int i = 0; i < 300; i++) {
        snprintf(key, sizeof key, "w%d", i);
        expect(0, key, GUARD_FAILED);
    }
    fleet_close(); /* says what was withheld */
    assert_heard(&ear, "lines withheld)");
    assert_true(ear.lines - before <= 6 * (2 + (rig_now_ms() - begun_ms) / 10000));
}

/* ---- loaders that ignore their cancellation ---- */

#define TEN "0123456789"
enum { STUCK_NESTED = 3, STUCK_LOADERS = 5 };

static void defer_and_stay(struct guard_load *load, void *context)
{
    assert_int_equal(guard_load_defer(load, NULL, NULL, NULL), GUARD_OK);
    source_load(load, context);
}

static void load_outer_or_inner(struct guard_load *load, void *context)
{
    const struct guard_request request = {.kind = fleet.kinds[STUCK_NESTED], .key = "inner"};
    struct guard_result result;
    if (strcmp(guard_load_key(load), "outer") == 0)
        assert_int_equal(guard_load_get(load, &request, &result), GUARD_CLOSING);
    source_load(load, context);
}

/* Each has a guard of its own, and all are closed at a time, which takes them 5 s. */
static struct stuck {
    const char *key;
    guard_loader *loader;
    enum guard_loads_on loads_on;
    const char *said;
    struct guard *guard; /* so that its memory is reachable, as a leak checker sees it */
    pthread_t asker, closer;
    struct ear ear;
} stuck[] = {
    {.key = "slow:1", .loader = source_load, .said = "\"slow:1\" still runs "},
    {.key = "caller", .loader = source_load, .loads_on = GUARD_ON_CALLER, .said = "\"caller\" still runs "},
    {.key = TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN "x",
     .loader = defer_and_stay,
     .said = "\"" TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN "...\" still runs "},
    [STUCK_NESTED] = {.key = "outer",
                      .loader = load_outer_or_inner,
                      .said = "\"inner\" and 1 more still run "},
};
enum { STUCK_COUNT = sizeof stuck / sizeof *stuck };

static void *ask_for_stuck(void *context)
{
    struct stuck *row = context;
    assert_int_equal(get_of((size_t)(row - stuck), row->key).status, GUARD_CLOSING);
    return NULL;
}

static void *close_stuck(void *context)
{
    struct guard *guard = ((struct stuck *)context)->guard;
    assert_int_equal(guard_close(&guard, 0), GUARD_TIMEOUT);
    return NULL;
}

static void begin_stuck(size_t i)
{
    struct stuck *row = &stuck[i];
    listen_to(&row->ear);
    fleet.policy.loader = row->loader;
    fleet.policy.loads_on = row->loads_on;
    fleet_open(i + 1);
    row->guard = fleet.guards[i];
    assert_int_equal(pthread_create(&row->asker, NULL, ask_for_stuck, row), 0);
    WAIT_UNTIL(atomic_load(&fleet.source.begun) == i + 1);
}

static void assert_stuck_is_told_once(struct stuck *row)
{
    char line[200];
    snprintf(line, sizeof line, "guard_close: the loader of %s", row->said);
    assert_heard(&row->ear, line);
    assert_heard(&row->ear, " ms after cancellation: the guard's memory stays; a long loader looks at "
                            "guard_load_cancelled() or polls guard_load_cancel_fd()\n");
    assert_null(strstr(strstr(row->ear.text, "guard_close:") + 1, "guard_close:"));
}

TEST(a_loader_that_ignores_its_cancellation_is_named_when_closing_gives_up, P97)
{
    atomic_store(&fleet.source.stubborn, true);
    source_shut(&fleet.source);
    for (size_t i = 0; i < STUCK_COUNT; i++)
        begin_stuck(i);
    for (size_t i = 0; i < STUCK_COUNT; i++)
        assert_int_equal(pthread_create(&stuck[i].closer, NULL, close_stuck, &stuck[i]), 0);
    for (size_t i = 0; i < STUCK_COUNT; i++) {
        pthread_join(stuck[i].closer, NULL);
        fleet.guards[i] = NULL;
        assert_stuck_is_told_once(&stuck[i]);
    }
    source_open(&fleet.source);
    for (size_t i = 0; i < STUCK_COUNT; i++)
        pthread_join(stuck[i].asker, NULL);
    WAIT_UNTIL(atomic_load(&fleet.source.over) == STUCK_LOADERS);
}

/* ---- wrong calls ---- */

static struct wrong_calls {
    struct ear ear;
    struct guard *guard;
} calls;

static void never_answered(void *context, const struct guard_result *result)
{
    (void)context;
    (void)result;
    fail_msg("an answer to what was refused");
}

static void wrong_calls_begin(void)
{
    fleet_init();
    listen_to(&calls.ear);
    fleet_open(1);
    calls.guard = fleet.guards[0];
}

static void get_wrongly(const struct guard_request *request, const char *said)
{
    char line[160];
    assert_int_equal(guard_get(calls.guard, request, NULL, NULL), GUARD_INVALID);
    snprintf(line, sizeof line, "guard_get: %s", said);
    assert_heard(&calls.ear, line);
}

static void get_wrongly_and_wait(struct guard_request request, const char *said)
{
    char line[160];
    struct guard_result result;
    request.answered = NULL;
    assert_int_equal(guard_get_wait(calls.guard, &request, &result), GUARD_INVALID);
    assert_string_equal(result.wrong, said);
    snprintf(line, sizeof line, "guard_get_wait: %s", said);
    assert_heard(&calls.ear, line);
}

TEST(what_is_wrong_with_a_get_is_told, P98, P180)
{
    static char longest[4098];
    memset(longest, 'k', sizeof longest - 1);
    static const char nul[] =
        "the key has a NUL byte within key_bytes: nothing behind it would reach the loader";
    const struct {
        const char *key;
        size_t key_bytes;
        const char *said;
    } keys[] = {{NULL, 0, "the key is NULL"},
                {NULL, 3, "the key is NULL"},
                {"", 0, "the key is empty"},
                {"a\0b", 3, nul},
                {longest, 0, "the key is longer than 4096 bytes"},
                {"never read as far as this", 4097, "the key is longer than 4096 bytes"},
                {"k", 0, "the kind is another guard's"}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        wrong_calls_begin();
        bool foreign = strstr(keys[i].said, "another") != NULL;
        fleet_open(foreign ? 2 : 1);
        struct guard_request request = {.kind = fleet.kinds[foreign],
                                        .key = keys[i].key,
                                        .key_bytes = keys[i].key_bytes,
                                        .answered = never_answered};
        get_wrongly(&request, keys[i].said);
        get_wrongly_and_wait(request, keys[i].said);
        fleet_close();
    }
    wrong_calls_begin();
    get_wrongly(NULL, "request is NULL");
    get_wrongly(&(struct guard_request){.kind = fleet.kinds[0], .key = "k"}, "request->answered is NULL");
    get_wrongly(&(struct guard_request){.key = "k", .answered = never_answered}, "the kind is NULL");
}

/* ---- of the fields that few requests use ---- */

static void no_reference(void *asker)
{
    (void)asker;
    fail_msg("a reference for what was refused");
}

static void get_wrongly_by_field(struct guard_request request, const char *said)
{
    wrong_calls_begin();
    request.kind = fleet.kinds[0];
    request.answered = never_answered;
    if (request.keys == NULL && request.count == 0)
        request.key = "k";
    get_wrongly(&request, said);
    fleet_close();
}

TEST(what_is_wrong_with_a_field_of_a_request_is_told, P144)
{
    static const char *const keys[] = {"one", "two"};
    get_wrongly_by_field((struct guard_request){.flags = GUARD_PEEK | GUARD_REVALIDATE},
                         "request->flags says both GUARD_PEEK and GUARD_REVALIDATE");
    get_wrongly_by_field((struct guard_request){.flags = 4}, "request->flags has an unknown bit");
    get_wrongly_by_field((struct guard_request){.asker_ref = no_reference},
                         "request->asker_ref and request->asker_unref must both be set, or neither");
    get_wrongly_by_field((struct guard_request){.asker_unref = no_reference},
                         "request->asker_ref and request->asker_unref must both be set, or neither");
    get_wrongly_by_field((struct guard_request){.key = "k", .keys = keys, .count = 2},
                         "request->key and request->keys are both set");
    get_wrongly_by_field((struct guard_request){.count = 2}, "request->keys is NULL");
}

static void wait_wrongly(struct guard_request request, const char *said)
{
    struct guard_result result = {.status = GUARD_OK};
    request.kind = fleet.kinds[0];
    request.key = "k";
    assert_int_equal(guard_get_wait(fleet.guards[0], &request, &result), GUARD_INVALID);
    assert_int_equal(result.status, GUARD_INVALID);
    assert_string_equal(result.wrong, said);
}

TEST(a_blocking_get_is_for_no_loop_and_no_deferred_load, P144)
{
    struct guard_loop *loop = NULL;
    uv_loop_t uv;
    wrong_calls_begin();
    assert_int_equal(uv_loop_init(&uv), 0);
    assert_int_equal(guard_loop_attach(fleet.guards[0], &uv, &loop, NULL), GUARD_OK);
    wait_wrongly((struct guard_request){.loop = loop},
                 "request->loop is not NULL, but the call would block that loop");
    wait_wrongly((struct guard_request){.within = (struct guard_load *)(void *)&uv},
                 "request->within is not NULL, but a deferred load is not waited for in a blocking call");
    assert_int_equal(
        guard_get_wait(fleet.guards[0], &(struct guard_request){.kind = fleet.kinds[0], .key = "k"}, NULL),
        GUARD_INVALID);
    assert_heard(&calls.ear, "guard_get_wait: results is NULL");
    fleet_open(2);
    struct guard_request foreign = {
        .kind = fleet.kinds[1], .key = "k", .loop = loop, .answered = never_answered};
    assert_int_equal(guard_get(fleet.guards[1], &foreign, NULL, NULL), GUARD_INVALID);
    guard_loop_detach(&loop, NULL, NULL);
    uv_run(&uv, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&uv), 0);
}

TEST(what_is_wrong_with_many_or_an_invalidation_is_told, P98)
{
    static const char *keys[3] = {"one", "two", ""};
    static struct guard_result results[GUARD_MANY_MAX + 1];
    wrong_calls_begin();
    struct guard_request request = {
        .kind = fleet.kinds[0], .keys = keys, .count = 3, .answered = never_answered};
    assert_int_equal(guard_get(calls.guard, &request, NULL, NULL), GUARD_INVALID);
    assert_heard(&calls.ear, "guard_get: keys[2]: the key is empty");
    request.count = 0;
    assert_int_equal(guard_get(calls.guard, &request, NULL, NULL), GUARD_INVALID);
    assert_heard(&calls.ear, "guard_get: request->count is 0");
    request.count = GUARD_MANY_MAX + 1;
    assert_int_equal(guard_get_wait(calls.guard, &request, results), GUARD_INVALID);
    assert_heard(&calls.ear, "guard_get_wait: request->count is above GUARD_MANY_MAX");
    assert_int_equal(guard_invalidate(calls.guard, KEY_CHANGE("", 0)), GUARD_INVALID);
    assert_heard(&calls.ear, "guard_invalidate: the key is empty");
    assert_int_equal(guard_invalidate(calls.guard, TAG_CHANGE(NULL, 0)), GUARD_INVALID);
    assert_heard(&calls.ear, "guard_invalidate: change->key and change->tag are both NULL");
    fleet_close();
    wrong_calls_begin();
    request = (struct guard_request){.kind = fleet.kinds[0],
                                     .keys = keys,
                                     .keys_bytes = (const size_t[]){3, 0, 1},
                                     .count = 3,
                                     .answered = never_answered};
    assert_int_equal(guard_get(calls.guard, &request, NULL, NULL), GUARD_INVALID);
    assert_heard(&calls.ear, "guard_get: keys[1]: the key is empty");
    const struct guard_change nul = {.tag = "t\0g", .tag_bytes = 3};
    assert_int_equal(guard_invalidate(calls.guard, &nul), GUARD_INVALID);
    assert_heard(&calls.ear, "guard_invalidate: the tag has a NUL byte within tag_bytes");
    const struct guard_change both = {.key = "k", .tag = "t"};
    assert_int_equal(guard_invalidate(calls.guard, &both), GUARD_INVALID);
    assert_heard(&calls.ear, "guard_invalidate: change->key and change->tag are both set");
    assert_int_equal(guard_invalidate(calls.guard, NULL), GUARD_INVALID);
    assert_heard(&calls.ear, "guard_invalidate: change is NULL");
}

TEST(a_wrong_change_of_several_is_named, P97)
{
    static const char *const names[GUARD_CHANGE_MAX + 1] = {"k", "t\0g"};
    static const size_t lengths[] = {1, 3};
    static const struct {
        struct guard_change change;
        const char *said;
    } rows[] = {
        {{.key = "k", .keys = names, .keys_count = 1}, "change->key or change->tag is set beside"},
        {{.tag = "t", .tags_count = 1}, "change->key or change->tag is set beside"},
        {{.keys = names}, "change->keys_count and change->tags_count are 0"},
        {{.keys = names, .keys_count = GUARD_CHANGE_MAX, .tags = names, .tags_count = 1},
         "change->keys_count and change->tags_count together"},
        {{.keys = names, .keys_count = SIZE_MAX, .tags = names, .tags_count = 2},
         "change->keys_count and change->tags_count together"},
        {{.keys_count = 1}, "change->keys is NULL, and"},
        {{.tags_count = 1}, "change->tags is NULL, and"},
        {{.keys = names, .keys_count = 2, .keys_bytes = lengths}, "keys[1]: the key has a NUL byte"},
        {{.tags = names, .tags_count = 2, .tags_bytes = lengths}, "tags[1]: the tag has a NUL byte"},
        {{.keys = names, .keys_count = 3}, "keys[2]: the key is NULL"},
    };
    char line[160];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        wrong_calls_begin();
        assert_int_equal(guard_expire(calls.guard, &rows[i].change), GUARD_INVALID);
        snprintf(line, sizeof line, "guard_expire: %s", rows[i].said);
        assert_heard(&calls.ear, line);
        fleet_close();
    }
}

/* ---- after fork() ---- */

/* In the child: a test that fails there must not run on as a second test program. */
#define CHILD_CHECK(condition)                                                                               \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            dprintf(STDERR_FILENO, "in the child: not %s (line %d)\n", #condition, __LINE__);                \
            _exit(1);                                                                                        \
        }                                                                                                    \
    } while (0)

static struct scene {
    uv_loop_t loop;
    struct guard_loop *attached;
    const struct guard_value *value;
} scene;

static void count_call(void *context)
{
    ++*(unsigned *)context;
}

static void child_asks(void)
{
    static const char *const keys[] = {"k", "other"};
    struct guard *guard = fleet.guards[0];
    struct guard_kind *kind = fleet.kinds[0];
    struct guard_result result, results[2];
    struct guard_request request = {.kind = kind, .key = "k", .answered = never_answered};
    struct guard_request many = {.kind = kind, .keys = keys, .count = 2, .answered = never_answered};
    CHILD_CHECK(guard_get(guard, &request, NULL, NULL) == GUARD_INVALID);
    CHILD_CHECK(guard_get_wait(guard, &request, &result) == GUARD_INVALID);
    CHILD_CHECK(result.status == GUARD_INVALID && strstr(result.wrong, "fork()") != NULL);
    CHILD_CHECK(guard_get(guard, &many, NULL, NULL) == GUARD_INVALID);
    CHILD_CHECK(guard_get_wait(guard, &many, results) == GUARD_INVALID);
    request.loop = many.loop = scene.attached;
    CHILD_CHECK(guard_get(guard, &request, &result, NULL) == GUARD_INVALID);
    CHILD_CHECK(guard_get(guard, &many, results, NULL) == GUARD_INVALID);
    CHILD_CHECK(guard_forget(guard, scene.attached, 0) == GUARD_OK);
}

static void child_does_the_rest(void)
{
    struct guard *guard = fleet.guards[0];
    struct guard_kind *kind = NULL;
    struct guard_loop *loop = NULL;
    struct guard_invalidated invalidated;
    struct guard_error error = {.text = ""};
    struct guard_stats stats;
    struct guard_hot_key hot[1];
    char cache[GUARD_CACHE_ID_BYTES + 1];
    CHILD_CHECK(guard_invalidate(guard, KEY_CHANGE("k", 0)) == GUARD_INVALID);
    CHILD_CHECK(guard_invalidate_wait(guard, KEY_CHANGE("k", 0), &invalidated) == GUARD_INVALID);
    CHILD_CHECK(guard_invalidate(guard, TAG_CHANGE("t", 0)) == GUARD_INVALID);
    CHILD_CHECK(guard_invalidate_wait(guard, TAG_CHANGE("t", 0), &invalidated) == GUARD_INVALID);
    CHILD_CHECK(guard_kind_add(guard, &fleet.policy, &kind, &error) == GUARD_INVALID);
    CHILD_CHECK(strstr(error.text, "fork()") != NULL);
    CHILD_CHECK(guard_loop_attach(guard, &scene.loop, &loop, &error) == GUARD_INVALID);
    guard_cancel(guard, NULL, 1);
    guard_cancel(guard, scene.attached, 1);
    guard_stats(guard, &stats);
    CHILD_CHECK(stats.hit == 0 && guard_hot(guard, GUARD_HOT_WAIT, hot, 1) == 0);
    CHILD_CHECK(!guard_cache(guard, cache) && cache[0] == '\0');
    guard_drain(guard);
}

static void child_closes(void)
{
    unsigned detached = 0;
    guard_loop_detach(&scene.attached, count_call, &detached);
    CHILD_CHECK(scene.attached == NULL && detached == 1);
    CHILD_CHECK(guard_close(&fleet.guards[0], 10000) == GUARD_OK);
    CHILD_CHECK(fleet.guards[0] == NULL);
    CHILD_CHECK(strcmp(scene.value->body, "k v1") == 0);
    guard_value_unref(&scene.value);
}

#if defined(__SANITIZE_THREAD__)
enum { MAY_START_THREADS = false }; /* the thread sanitizer ends a child that does */
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
enum { MAY_START_THREADS = false };
#else
enum { MAY_START_THREADS = true };
#endif
#else
enum { MAY_START_THREADS = true };
#endif

/* A guard of the child's own, which finds what the parent has stored. */
static void child_opens_its_own(void)
{
    struct guard *guard = NULL;
    struct guard_kind *kind = NULL;
    struct guard_result result;
    CHILD_CHECK(guard_open(&fleet.config, &guard, NULL) == GUARD_OK);
    CHILD_CHECK(guard_kind_add(guard, &fleet.policy, &kind, NULL) == GUARD_OK);
    uint64_t end_ms = rig_now_ms() + RIG_LIMIT_MS;
    while (!is_up(guard) && rig_now_ms() < end_ms)
        test_pause();
    struct guard_request request = {.kind = kind, .key = "k"};
    CHILD_CHECK(guard_get_wait(guard, &request, &result) == GUARD_OK);
    CHILD_CHECK(result.source == GUARD_FROM_CACHE && strcmp(result.value->body, "k v1") == 0);
    guard_value_unref(&result.value);
    CHILD_CHECK(guard_close(&guard, 10000) == GUARD_OK);
}

/* Ends by itself: by its alarm if it hangs. */
static pid_t fork_child(void)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        signal(SIGALRM, SIG_DFL);
        alarm(CHILD_LIMIT_S);
    }
    return pid;
}

static void assert_child_is_well(pid_t pid)
{
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("the child ended with status %#x", (unsigned)status);
}

/* ---- a host that has closed 0, 1 and 2 ---- */

/* What anybody prints would go into it. */
static void none_is_ours(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        CHILD_CHECK(fcntl(fd, F_GETFD) == -1);
}

static void child_without_standard_descriptors(void)
{
    struct guard *guard = NULL;
    struct guard_kind *kind = NULL;
    struct guard_result result;
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        close(fd);
    CHILD_CHECK(guard_open(&fleet.config, &guard, NULL) == GUARD_OK);
    CHILD_CHECK(guard_kind_add(guard, &fleet.policy, &kind, NULL) == GUARD_OK);
    CHILD_CHECK(guard_connected_wait(guard) == GUARD_OK);
    struct guard_request request = {.kind = kind, .key = "closed"};
    CHILD_CHECK(guard_get_wait(guard, &request, &result) == GUARD_OK);
    guard_value_unref(&result.value);
    none_is_ours();
    CHILD_CHECK(guard_close(&guard, 10000) == GUARD_OK);
    none_is_ours();
}

TEST(a_host_may_have_closed_what_others_print_to)
{
    if (!MAY_START_THREADS)
        test_skip("this sanitizer forbids threads in a forked child");
    fleet_init();
    fleet.config.log = guard_log_none;
    pid_t pid = fork_child();
    if (pid == 0) {
        child_without_standard_descriptors();
        _exit(0);
    }
    assert_child_is_well(pid);
    fleet_close();
}

static void asked(void *context, const struct guard_result *result)
{
    *(enum guard_status *)context = result->status;
}

static void expect_on_loop(const char *key)
{
    enum guard_status status = GUARD_UNKNOWN;
    struct guard_request request = {
        .kind = fleet.kinds[0], .key = key, .loop = scene.attached, .answered = asked, .context = &status};
    atomic_fetch_add(&fleet.accepted[0], 1);
    assert_int_equal(guard_get(fleet.guards[0], &request, NULL, NULL), GUARD_OK);
    while (status == GUARD_UNKNOWN)
        uv_run(&scene.loop, UV_RUN_ONCE);
    atomic_fetch_add(&fleet.answered, 1);
    assert_int_equal(status, GUARD_OK);
}

static void scene_begin(void)
{
    struct guard_result result;
    fleet_init();
    fleet.config.log = guard_log_none;
    fleet_keep_near();
    fleet_open(1);
    assert_int_equal(uv_loop_init(&scene.loop), 0);
    assert_int_equal(guard_loop_attach(fleet.guards[0], &scene.loop, &scene.attached, NULL), GUARD_OK);
    result = get_of(0, "k");
    assert_row(&result, "k v1");
    scene.value = result.value;
    bring_near(0, "k", "k v1");
    WAIT_UNTIL((uv_run(&scene.loop, UV_RUN_NOWAIT), stats_of(fleet.guards[0]).redis_connects == CONNECTIONS));
    expect_on_loop("k");
}

static void scene_end(void)
{
    unsigned detached = 0;
    guard_value_unref(&scene.value);
    guard_loop_detach(&scene.attached, count_call, &detached);
    while (detached == 0)
        uv_run(&scene.loop, UV_RUN_ONCE);
    while (uv_loop_close(&scene.loop) != 0)
        uv_run(&scene.loop, UV_RUN_ONCE);
    fleet_close();
}

TEST(a_child_is_refused_at_once_and_its_parent_does_not_notice, P99)
{
    static struct ask waiting;
    scene_begin();
    struct guard *guard = fleet.guards[0];
    source_shut(&fleet.source);
    ask_start(0, &waiting, "slow");
    WAIT_UNTIL(atomic_load(&fleet.source.running) == 1);
    pid_t pid = fork_child();
    if (pid == 0) {
        child_asks();
        child_does_the_rest();
        child_closes();
        if (MAY_START_THREADS)
            child_opens_its_own();
        _exit(0);
    }
    assert_child_is_well(pid);
    source_open(&fleet.source);
    expect_answer(&waiting, "slow v1");
    expect_on_loop("k");
    expect_on_loop("new");
    expect_row(0, "newer", "newer v1");
    assert_true(is_near(0, "k"));
    assert_int_equal(stats_of(guard).redis_connects, CONNECTIONS);
    scene_end();
}

TEST_WITH(a_child_is_told_once_on_stderr_why, fleet_before, release_stderr, P99)
{
    FILE *file = NULL;
    static struct ear ear;
    catch_stderr(&file);
    listen_to(&ear);
    fleet_open(1);
    unsigned before = ear.lines;
    pid_t pid = fork_child();
    if (pid == 0) {
        struct guard_invalidated invalidated;
        for (int i = 0; i < 3; i++)
            CHILD_CHECK(guard_invalidate_wait(fleet.guards[0], KEY_CHANGE("k", 0), &invalidated) ==
                        GUARD_INVALID);
        _exit(ear.lines == before ? 0 : 2); /* a lock of the host's may be held for ever */
    }
    assert_child_is_well(pid);
    const char *text = caught(file),
               *line = strstr(text, ": guard_invalidate_wait: this guard was opened before fork()");
    assert_true(strncmp(text, "stampede-guard ", 15) == 0);
    assert_non_null(line);
    assert_null(strchr(strchr(line, '\n') + 1, '\n'));
    fleet_close();
    fclose(file);
}

struct busy {
    atomic_bool over;
    pthread_t threads[2];
};

static void *be_busy(void *context)
{
    struct busy *busy = context;
    struct guard *guard = fleet.guards[0];
    struct guard_stats stats;
    while (!atomic_load(&busy->over)) {
        guard_stats(guard, &stats);
        expect_row(0, "k", "k v1");
        guard_invalidate(guard, KEY_CHANGE("other", 0));
    }
    return NULL;
}

/* Forked while the parent's threads hold its locks. */
TEST(no_lock_of_the_parents_holds_a_child_up, P99)
{
    scene_begin();
    struct busy busy = {.over = false};
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&busy.threads[i], NULL, be_busy, &busy), 0);
    for (int i = 0; i < FORKS; i++) {
        pid_t pid = fork_child();
        if (pid == 0) {
            child_asks();
            child_does_the_rest();
            child_closes();
            _exit(0);
        }
        assert_child_is_well(pid);
    }
    atomic_store(&busy.over, true);
    for (size_t i = 0; i < 2; i++)
        pthread_join(busy.threads[i], NULL);
    scene_end();
}

TEST_GROUP(.up = rig_start, .down = rig_stop, .before = fleet_before, .end = fleet_close);

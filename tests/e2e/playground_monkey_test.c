/* SPDX-License-Identifier: MIT */
/*
 * playground_monkey_test.c - a monkey at the playground: every button after every other, and what is said each time.
 *
 * It walks a circuit in which each ordered pair of buttons comes once, drawn by SEED, for MONKEY_SECONDS, and presses
 * as the page does, some of it while a crowd is under way. After each press the playground lives, tells a state that
 * is whole, and says nothing that did not happen. What did, the monkey sees for itself: /proc has the processes,
 * PostgreSQL's log the queries.
 */
#include "load/base/clock.h"
#include "load/base/dice.h"
#include "load/base/http_parse.h"
#include "load/base/net.h"
#include "load/base/text.h"
#include "tests/support/playground.h"
#include "tests/support/test.h"

#include <jansson.h>

#include <glob.h>
#include <inttypes.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    STATE_LIMIT_MS = 20000,
    CALM_LIMIT_MS = 90000,
    FAMILY_MAX = 256,
    PARTIES = 4,
    PRODUCT = 7,
    MANY = 100,
    LINE_MAX_BYTES = 262144
};

#define DEED(name) "{\"do\":\"deed\",\"name\":\"" name "\"}"
#define RUSH(more) "{\"do\":\"rush\",\"requests\":60" more "}"

static const char *const buttons[] = {
    RUSH(""),
    RUSH(",\"warm\":true"),
    RUSH(",\"many\":true"),
    RUSH(",\"many\":true,\"warm\":true"),
    RUSH(",\"step\":\"off\",\"mode\":\"off\""),
    RUSH(",\"step\":\"fleet\",\"mode\":\"fleet\""),
    RUSH(",\"step\":\"hit\",\"mode\":\"fleet\",\"hit\":\"kill\""),
    RUSH(",\"hit\":\"kill\""),
    RUSH(",\"hit\":\"pause\""),
    "{\"do\":\"hit\",\"verb\":\"kill\"}",
    "{\"do\":\"hit\",\"verb\":\"pause\"}",
    DEED("a-kill"),
    DEED("a-pause"),
    DEED("a-resume"),
    DEED("a-start"),
    DEED("b-kill"),
    DEED("b-pause"),
    DEED("b-resume"),
    DEED("b-start"),
    DEED("redis-kill"),
    DEED("redis-hang"),
    DEED("redis-heal"),
    DEED("redis-start"),
    DEED("redis-flush"),
    DEED("postgres-kill"),
    DEED("postgres-start"),
    DEED("postgres-pause"),
    DEED("postgres-resume"),
    DEED("postgres-lock"),
    DEED("postgres-break"),
    DEED("postgres-repair"),
    "{\"do\":\"set\",\"mode\":\"off\"}",
    "{\"do\":\"set\",\"mode\":\"local\"}",
    "{\"do\":\"set\",\"mode\":\"fleet\"}",
    "{\"do\":\"set\",\"mode\":\"shadow\"}",
    "{\"do\":\"set\",\"delay_ms\":20}",
    "{\"do\":\"set\",\"delay_ms\":100}",
    "{\"do\":\"rate\",\"per_second\":50}",
    "{\"do\":\"rate\",\"per_second\":0}",
    "{\"do\":\"expire\"}",
    "{\"do\":\"invalidate\"}",
    "{\"do\":\"change\"}",
    "{\"do\":\"buy\"}",
    "{\"do\":\"mend\"}",
};
enum { BUTTONS = sizeof buttons / sizeof *buttons, PAIRS = BUTTONS * BUTTONS };

static const char *const names[PARTIES] = {"A", "B", "Redis", "PostgreSQL"};

static uint64_t chance, seed;
static const char *trail[12]; /* what was pressed last, the ring */
static size_t pressed;

static void fail_here(const char *what, const char *text)
{
    fprintf(stderr, "SEED=%" PRIu64 ", press %zu; the last presses:\n", seed, pressed);
    for (size_t i = pressed > 12 ? pressed - 12 : 0; i < pressed; i++)
        fprintf(stderr, "  %s\n", trail[i % 12]);
    fail_msg("%s: %s", what, text);
}

/* ---- the state, as its page reads it ---- */

struct stream {
    int fd; /* -1: none */
    struct http_parse parse;
    struct text line;
    json_t *state; /* owned: the last one */
};

static struct stream stream = {.fd = -1};

static void take_bytes(void *context, const char *bytes, size_t count)
{
    (void)context;
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] != '\n') {
            text_add(&stream.line, bytes + i, 1);
            continue;
        }
        if (stream.line.count > 0) { /* an empty one only says that it lives */
            json_decref(stream.state);
            stream.state = json_loadb(stream.line.bytes, stream.line.count, 0, NULL);
            if (stream.state == NULL)
                fail_here("a line that is no JSON", stream.line.bytes);
        }
        text_empty(&stream.line);
    }
    assert_true(stream.line.count < LINE_MAX_BYTES);
}

static void open_stream(void)
{
    char request[256];
    struct net_address address;
    net_address_init(&address, "127.0.0.1", playground.port);
    stream.fd = net_connect_start(&address);
    assert_true(stream.fd != -1 && net_wait(stream.fd, POLLOUT, clock_after_ms(STATE_LIMIT_MS)));
    int count = snprintf(request, sizeof request,
                         "GET /stream HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n",
                         playground.host, playground.token);
    assert_int_equal(send(stream.fd, request, (size_t)count, MSG_NOSIGNAL), count);
    http_parse_init(&stream.parse, take_bytes, NULL);
}

static json_int_t number(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    if (!json_is_integer(value))
        fail_here("the state has no number", name);
    return json_integer_value(value);
}

/* A state that was made after this instant. */
static const json_t *next_state(void)
{
    char bytes[65536];
    uint64_t end_us = clock_after_ms(STATE_LIMIT_MS);
    json_int_t from_ms = (json_int_t)(clock_wall_us() / 1000);
    while (stream.state == NULL || number(stream.state, "at_ms") <= from_ms) {
        if (proc_wait(playground.pid, 0, NULL)) {
            playground.pid = 0;
            fail_here("the playground is dead", "");
        }
        if (clock_us() >= end_us)
            fail_here("the playground is silent", "");
        if (!net_wait(stream.fd, POLLIN, clock_after_ms(100)))
            continue;
        ssize_t got = recv(stream.fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (got <= 0)
            fail_here("the stream has ended", "");
        http_parse_feed(&stream.parse, bytes, (size_t)got);
    }
    return stream.state;
}

/* Of a process or a server: "up", "paused", ... */
static const char *health(const json_t *state, size_t party)
{
    static const char *const servers[] = {"redis", "postgres"};
    const json_t *it = party < 2 ? json_array_get(json_object_get(state, "processes"), party)
                                 : json_object_get(state, servers[party - 2]);
    const char *text = json_string_value(json_object_get(it, "health"));
    if (text == NULL)
        fail_here("the state has no health of", names[party]);
    return text;
}

/* ---- what the monkey sees for itself ---- */

struct seen {
    pid_t pids[PARTIES]; /* 0: there is none */
    bool stopped[PARTIES];
    char mode[16];
};

static bool listens_on(pid_t pid, uint16_t port)
{
    char path[64], text[65536], wanted[64];
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    snprintf(wanted, sizeof wanted, "LISTEN=127.0.0.1:%u", (unsigned)port);
    FILE *file = fopen(path, "re");
    size_t count = file != NULL ? fread(text, 1, sizeof text, file) : 0;
    if (file != NULL)
        fclose(file);
    return memmem(text, count, wanted, strlen(wanted) + 1) != NULL;
}

static size_t party_of(pid_t pid, const char *name, const json_t *state)
{
    for (size_t i = 0; i < 2 && strcmp(name, "catalogd") == 0; i++) {
        const char *address = json_string_value(
            json_object_get(json_array_get(json_object_get(state, "processes"), i), "address"));
        if (address != NULL && listens_on(pid, (uint16_t)atoi(strrchr(address, ':') + 1)))
            return i;
    }
    return strcmp(name, "redis-server") == 0 ? 2 : strcmp(name, "postgres") == 0 ? 3 : PARTIES;
}

/* Children of the playground itself: those of PostgreSQL have its name. */
static struct seen look(const json_t *state)
{
    struct seen seen = {.pids = {0}};
    pid_t family[FAMILY_MAX];
    size_t count = proc_family(playground.pid, family, FAMILY_MAX);
    snprintf(seen.mode, sizeof seen.mode, "%s", json_string_value(json_object_get(state, "mode")));
    for (size_t i = 1; i < count; i++) {
        struct proc_look process;
        if (!proc_look(family[i], &process) || process.parent != playground.pid)
            continue;
        size_t party = party_of(family[i], process.name, state);
        if (party < PARTIES) {
            seen.pids[party] = family[i];
            seen.stopped[party] = process.state == 'T';
        }
    }
    return seen;
}

/* Loads that began so far, of the product and of the many. */
struct counted {
    uint64_t one, many;
};

static FILE *query_log;

static void open_log(void)
{
    char pattern[PROC_PATH_BYTES + 32];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/postgres-*/log", playground.folder);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    query_log = fopen(found.gl_pathv[0], "re");
    assert_non_null(query_log);
    globfree(&found);
}

/* The parameters of a statement follow it, in one write with it. A line that is torn is read when it is whole. */
static struct counted count_queries(void)
{
    static struct counted counted;
    static bool is_load;
    static char line[65536];
    for (long at = ftell(query_log); fgets(line, sizeof line, query_log) != NULL; at = ftell(query_log)) {
        if (strchr(line, '\n') == NULL) {
            fseek(query_log, at, SEEK_SET);
            break;
        }
        const char *key = strstr(line, "parameters: $1 = '");
        is_load = is_load || strstr(line, "/* load product") != NULL;
        if (key == NULL || !is_load)
            continue;
        key += strlen("parameters: $1 = '");
        unsigned long product = strtoul(key + (*key == '{'), NULL, 10);
        counted.one += product == PRODUCT;
        counted.many += product >= PRODUCT && product < PRODUCT + MANY;
        is_load = false;
    }
    clearerr(query_log);
    return counted;
}

/* ---- what is said ---- */

/* Before the crowd under way, or the last one. */
static struct crowd {
    struct seen seen;
    struct counted counted;
} before;

static json_int_t told = -1;

/* "1 234 requests" as 1234; *text behind it. */
static uint64_t read_count(const char **text)
{
    uint64_t count = 0;
    for (; (**text >= '0' && **text <= '9') || (**text == ' ' && (*text)[1] >= '0' && (*text)[1] <= '9');
         (*text)++)
        count = **text == ' ' ? count : 10 * count + (uint64_t)(**text - '0');
    return count;
}

/* Of one process: " A: 1 asked the database, 29 waited for it."; how many in all, and of these `what`. */
static uint64_t clause(const char *text, const char *name, const char *what, uint64_t *of_it)
{
    char begin[8];
    uint64_t sum = 0;
    snprintf(begin, sizeof begin, ". %s: ", name);
    const char *at = strstr(text, begin);
    *of_it = 0;
    if (at == NULL)
        return 0;
    for (at += strlen(begin); *at != '.' && *at != '\0';) {
        uint64_t count = read_count(&at);
        sum += count;
        *of_it += strncmp(at + 1, what, strlen(what)) == 0 ? count : 0;
        at += strcspn(at, ",.");
        at += *at == ',' ? 2 : 0;
    }
    return sum;
}

/* Each request is accounted for; queries are those of the log; no process that was gone all the time did anything:
 * before a crowd in another mode both are started again. */
static void judge_crowd(const char *text, const struct seen *now)
{
    const char *at = text;
    uint64_t requests = read_count(&at), sum = 0, asked = 0, lost;
    const bool is_many = strstr(text, " for 100 products") != NULL;
    struct counted counted = count_queries();
    at = strstr(text, ", ") + 2;
    uint64_t queries = read_count(&at);
    uint64_t logged = is_many ? counted.many - before.counted.many : counted.one - before.counted.one;
    for (size_t i = 0; i < 2; i++) {
        uint64_t its, its_asked;
        its = clause(text, names[i], "asked the database", &its_asked);
        clause(text, names[i], "lost their connection", &lost);
        sum += its;
        asked += its_asked;
        if (its > 0 && before.seen.pids[i] == 0 && now->pids[i] == 0 &&
            strcmp(before.seen.mode, now->mode) == 0)
            fail_here("it was dead", text);
        if (lost > 0 && before.seen.pids[i] != 0 && before.seen.pids[i] == now->pids[i])
            fail_here("it did not die", text);
    }
    if (sum != requests)
        fail_here("not every request is accounted for", text);
    if (queries > logged || (!is_many && asked > queries))
        fail_here("PostgreSQL's log has other queries", text);
}

/* What a deed says of a process is so, unless the next deed has changed it already. */
static void judge_deed(const char *text, const json_t *state, const struct seen *was, const struct seen *now)
{
    static const struct {
        const char *said, *health;
        bool is_gone, is_stopped;
    } deeds[] = {{" was killed (SIGKILL)", "dead", true, false},
                 {" was stopped ", "paused", false, true},
                 {" stands still ", "paused", false, true},
                 {" goes on", "up", false, false},
                 {" is back", "up", false, false}};
    for (size_t i = 0; i < PARTIES; i++) {
        char begin[32];
        snprintf(begin, sizeof begin, "%s%s", i < 2 ? "Process " : "", names[i]);
        for (size_t j = 0; strncmp(text, begin, strlen(begin)) == 0 && j < sizeof deeds / sizeof *deeds;
             j++) {
            if (strncmp(text + strlen(begin), deeds[j].said, strlen(deeds[j].said)) != 0)
                continue;
            if (deeds[j].is_gone && was->pids[i] != 0 && was->pids[i] == now->pids[i])
                fail_here("it lives", text);
            if (strcmp(health(state, i), deeds[j].health) == 0 &&
                ((now->pids[i] == 0) != deeds[j].is_gone || now->stopped[i] != deeds[j].is_stopped))
                fail_here("it is not so", text);
        }
    }
}

/* NULL: each is as the state has it; else one that is not, which may be on its way. */
static const char *differs(const json_t *state, const struct seen *now)
{
    for (size_t i = 0; i < PARTIES; i++) {
        const char *said = health(state, i);
        const bool is_dead = strcmp(said, "dead") == 0, is_paused = strcmp(said, "paused") == 0;
        if (strcmp(said, "starting") != 0 && ((now->pids[i] == 0) != is_dead || now->stopped[i] != is_paused))
            return names[i];
    }
    return NULL;
}

/* Whether nothing has changed between two states, so that a look in between is of both. */
static bool is_same(const json_t *one, const json_t *two)
{
    bool same = json_equal(json_object_get(one, "story"), json_object_get(two, "story"));
    for (size_t i = 0; i < PARTIES; i++)
        same = same && strcmp(health(one, i), health(two, i)) == 0;
    return same;
}

static void judge_story(const json_t *state, const struct seen *was, const struct seen *now)
{
    size_t index;
    const json_t *entry;
    json_array_foreach(json_object_get(state, "story"), index, entry)
    {
        const char *text = json_string_value(json_object_get(entry, "text"));
        if (number(entry, "n") <= told)
            continue;
        told = number(entry, "n");
        if (text[strspn(text, "0123456789 ")] == 'r' && strstr(text, " quer") != NULL)
            judge_crowd(text, now);
        judge_deed(text, state, was, now);
    }
}

static struct seen observe(struct seen was)
{
    uint64_t end_us = clock_after_ms(STATE_LIMIT_MS);
    json_t *one = json_deep_copy(next_state());
    for (;;) {
        struct seen now = look(one);
        const json_t *two = next_state();
        const char *differing = differs(one, &now);
        const bool is_settled = differing == NULL && is_same(one, two);
        if (is_settled)
            judge_story(one, &was, &now);
        else if (clock_us() >= end_us)
            fail_here(differing != NULL ? differing : "all", "for long another than the state has it");
        json_decref(one);
        if (is_settled)
            return now;
        one = json_deep_copy(two);
    }
}

/* ---- the walk ---- */

/* Every ordered pair, the same one twice too: an Eulerian circuit with each button's ways on in a drawn order. */
static void draw_walk(uint8_t walk[static PAIRS + 1])
{
    static uint8_t ways[BUTTONS][BUTTONS], stack[PAIRS + 1];
    size_t left[BUTTONS], depth = 1, count = 0;
    for (size_t i = 0; i < BUTTONS; i++) {
        left[i] = BUTTONS;
        for (size_t j = 0; j < BUTTONS; j++) {
            size_t at = (size_t)dice_below(&chance, j + 1);
            ways[i][j] = ways[i][at];
            ways[i][at] = (uint8_t)j;
        }
    }
    stack[0] = 0;
    while (depth > 0) {
        size_t from = stack[depth - 1];
        if (left[from] > 0)
            stack[depth++] = ways[from][--left[from]];
        else
            walk[count++] = stack[--depth];
    }
    assert_int_equal(count, PAIRS + 1);
}

static bool is_busy(void)
{
    return !json_is_null(json_object_get(next_state(), "job"));
}

static struct seen wait_idle(struct seen seen)
{
    uint64_t end_us = clock_after_ms(CALM_LIMIT_MS);
    while (is_busy()) {
        seen = observe(seen);
        if (clock_us() >= end_us)
            fail_here("a crowd never ends", "");
    }
    return observe(seen);
}

/* One that is refused has changed nothing: of a crowd that is, the beginning of the one under way counts. */
static struct seen press(size_t button, struct seen seen)
{
    const struct crowd now = {.seen = seen, .counted = count_queries()};
    const bool is_crowd = strncmp(buttons[button], "{\"do\":\"rush\"", 12) == 0;
    trail[pressed++ % 12] = buttons[button];
    unsigned status = playground_press(buttons[button]);
    if (status != 200 && status != 409)
        fail_here("it was answered otherwise", buttons[button]);
    if (status != 200)
        return seen;
    if (is_crowd)
        before = now;
    return is_crowd && dice_below(&chance, 2) == 0 ? wait_idle(seen) : observe(seen);
}

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL && text[0] != '\0' ? strtoull(text, NULL, 10) : otherwise;
}

static bool up(void)
{
    static const char *const settings[] = {"LOAD_DELAY_MS=100", "LEASE_MS=1000", NULL};
    return playground_start(settings);
}

TEST(every_button_after_every_other_and_nothing_is_said_that_is_not_so)
{
    static uint8_t walk[PAIRS + 1];
    test_needs_long();
    chance = seed = setting("SEED", clock_wall_us() % 100000);
    uint64_t end_us = clock_after_ms((uint32_t)(1000 * setting("MONKEY_SECONDS", 40)));
    printf("SEED=%" PRIu64 "\n", seed);
    open_stream();
    open_log();
    struct seen seen = look(next_state());
    draw_walk(walk);
    for (size_t i = 0; clock_us() < end_us; i++)
        seen = press(walk[i % PAIRS], seen);
    printf("%zu of %d ordered pairs of %d buttons\n", pressed > PAIRS ? (size_t)PAIRS : pressed, (int)PAIRS,
           (int)BUTTONS);
    seen = wait_idle(seen);
    assert_int_equal(playground_press("{\"do\":\"rate\",\"per_second\":0}"), 200);
    assert_int_equal(playground_press("{\"do\":\"mend\"}"), 200);
    for (uint64_t limit_us = clock_after_ms(CALM_LIMIT_MS);
         strcmp(health(next_state(), 0), "up") != 0 || strcmp(health(stream.state, 1), "up") != 0 ||
         strcmp(health(stream.state, 2), "up") != 0 || strcmp(health(stream.state, 3), "up") != 0;)
        assert_true(clock_us() < limit_us);
    wait_idle(observe(seen));
    close(stream.fd);
    http_parse_clear(&stream.parse);
    text_clear(&stream.line);
    json_decref(stream.state);
    fclose(query_log);
}

TEST_GROUP(.up = up, .down = playground_stop);

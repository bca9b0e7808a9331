/* SPDX-License-Identifier: MIT */
/*
 * figures_test.c - what the tester says of broken services, against a count of PostgreSQL's log that shares nothing
 * with its own.
 *
 * The service is in this program: GET /k/N answers from a map that keeps a value for ttl_ms, and loads what is not
 * there by a real query. It is broken as `flaw` says. The program under test is `stampede` beside $CATALOGD.
 */
#include "load/base/clock.h"
#include "load/base/proc.h"
#include "load/report/result.h"
#include "load/stack/stack.h"
#include "tests/support/files.h"
#include "tests/support/test.h"

#include <libpq-fe.h>
#include <microhttpd.h>

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

enum {
    CONNECTIONS = 40,
    KEYS = 6000,
    HOT = 6000,
    LIMIT_MS = 120000,
    OUTPUT_BYTES = 65536,
    ARGUMENTS_MAX = 40,
    LOADS_MAX = 20000
};
enum { HELD = 0, DID_NOT_HOLD = 1 };

static struct stack_postgres postgres;
static char folder[PROC_PATH_BYTES], program[256], output[OUTPUT_BYTES];
static char json_path[PROC_PATH_BYTES + 16];

/* ---- the service ---- */

static struct MHD_Daemon *service;
static uint16_t service_port;
static pthread_mutex_t idle_lock = PTHREAD_MUTEX_INITIALIZER;
static PGconn *idle[CONNECTIONS];
static size_t idle_count;
static uint64_t ttl_us;
/* HOT_STAMPEDES: nobody waits for a load of the hot key; NOW_AND_THEN: each fourth expiry is loaded twice. */
static enum { NOTHING_WRONG, HOT_STAMPEDES, NOW_AND_THEN } flaw;

static struct value {
    pthread_mutex_t loading;
    _Atomic uint64_t until_us;
    unsigned expiries;
} values[KEYS + 1];

static PGconn *take_connection(void)
{
    pthread_mutex_lock(&idle_lock);
    PGconn *connection = idle_count > 0 ? idle[--idle_count] : NULL;
    pthread_mutex_unlock(&idle_lock);
    return connection != NULL ? connection : PQconnectdb(postgres.url);
}

static void give_connection(PGconn *connection)
{
    pthread_mutex_lock(&idle_lock);
    if (idle_count < CONNECTIONS) {
        idle[idle_count++] = connection;
        connection = NULL;
    }
    pthread_mutex_unlock(&idle_lock);
    PQfinish(connection);
}

static void load(unsigned key)
{
    char text[16];
    const char *const parameters[] = {text};
    PGconn *connection = take_connection();
    snprintf(text, sizeof text, "%u", key);
    PQclear(PQexecParams(connection, "SELECT /* load it */ $1::int, pg_sleep(0.03)", 1, NULL, parameters,
                         NULL, NULL, 0));
    give_connection(connection);
}

static void refresh(unsigned key)
{
    struct value *value = &values[key];
    bool waits = flaw != HOT_STAMPEDES || key != HOT;
    if (clock_us() < atomic_load(&value->until_us))
        return;
    if (waits)
        pthread_mutex_lock(&value->loading);
    if (clock_us() >= atomic_load(&value->until_us)) {
        load(key);
        if (flaw == NOW_AND_THEN && value->expiries % 4 == 1)
            load(key);
        value->expiries += waits;
        atomic_store(&value->until_us, clock_us() + ttl_us);
    }
    if (waits)
        pthread_mutex_unlock(&value->loading);
}

static enum MHD_Result answer(void *context, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *body, size_t *body_bytes,
                              void **state)
{
    (void)context, (void)version, (void)body, (void)body_bytes, (void)state;
    unsigned key = strncmp(url, "/k/", 3) == 0 ? (unsigned)strtoul(url + 3, NULL, 10) : 0;
    bool is_key = strcmp(method, "GET") == 0 && key > 0 && key <= KEYS;
    if (is_key)
        refresh(key);
    struct MHD_Response *response =
        MHD_create_response_from_buffer(2, (void *)(uintptr_t) "ok", MHD_RESPMEM_PERSISTENT);
    enum MHD_Result result =
        MHD_queue_response(connection, is_key || strcmp(method, "OPTIONS") == 0 ? 200 : 404, response);
    MHD_destroy_response(response);
    return result;
}

static void start_service(uint32_t ttl_ms)
{
    const struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    ttl_us = (uint64_t)ttl_ms * 1000;
    for (size_t i = 0; i <= KEYS; i++)
        values[i] = (struct value){.loading = PTHREAD_MUTEX_INITIALIZER};
    service = MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION, 0, NULL, NULL,
                               &answer, NULL, MHD_OPTION_SOCK_ADDR, &address, MHD_OPTION_END);
    assert_non_null(service);
    service_port = MHD_get_daemon_info(service, MHD_DAEMON_INFO_BIND_PORT)->port;
}

static bool stop_service(void)
{
    if (service != NULL)
        MHD_stop_daemon(service);
    service = NULL;
    flaw = NOTHING_WRONG;
    return true;
}

/* ---- the count: of lines of the log, with nothing of the tester's ---- */

static struct {
    uint64_t mark;
    struct seen {
        unsigned key, process;
        uint64_t at_ms;
    } loads[LOADS_MAX];
    size_t count, at_once; /* loads; the most between their line and the next one of their process */
    unsigned running[256]; /* their processes */
    size_t running_count;
} counted;

static void take_line(const char *line)
{
    unsigned process, key;
    double at_s;
    if (sscanf(line, "%u %lf ", &process, &at_s) != 2)
        return;
    const char *values_of = strstr(line, "DETAIL:  parameters: $1 = '");
    if (values_of != NULL && sscanf(values_of, "DETAIL:  parameters: $1 = '%u'", &key) == 1) {
        for (size_t i = counted.count; i-- > 0;) {
            if (counted.loads[i].process == process) {
                counted.loads[i].key = key;
                return;
            }
        }
        return;
    }
    for (size_t i = 0; i < counted.running_count; i++) {
        if (counted.running[i] == process)
            counted.running[i] = counted.running[--counted.running_count];
    }
    if (strstr(line, "LOG:  execute ") == NULL || strstr(line, "/* load it */") == NULL)
        return;
    assert_true(counted.count < LOADS_MAX && counted.running_count < 256);
    counted.loads[counted.count++] =
        (struct seen){.process = process, .at_ms = (uint64_t)(at_s * 1000 + 0.5)};
    counted.running[counted.running_count++] = process;
    if (counted.running_count > counted.at_once)
        counted.at_once = counted.running_count;
}

static void count_log(void)
{
    char *log = file_read(postgres.log_path, NULL), *rest = NULL;
    counted.count = counted.at_once = counted.running_count = 0;
    for (char *line = strtok_r(log + counted.mark, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest))
        take_line(line);
    free(log);
}

/* The first load of a key begins an expiry, and so does each that comes a whole life after the first of the last one.
 * Returns how many there are. */
static size_t count_expiries(unsigned *most, unsigned *most_key)
{
    static uint64_t first_ms[KEYS + 1];
    static unsigned size[KEYS + 1];
    size_t expiries = 0;
    memset(size, 0, sizeof size);
    *most = *most_key = 0;
    for (size_t i = 0; i < counted.count; i++) {
        const struct seen *load = &counted.loads[i];
        if (size[load->key] == 0 || load->at_ms - first_ms[load->key] >= ttl_us / 1000) {
            first_ms[load->key] = load->at_ms;
            size[load->key] = 0;
            expiries++;
        }
        if (++size[load->key] > *most) {
            *most = size[load->key];
            *most_key = load->key;
        }
    }
    return expiries;
}

/* ---- the tester ---- */

/* Lines that were broken are whole again. */
static void join_output(void)
{
    char *to = output;
    for (const char *from = output; *from != '\0'; from += *from != '\0') {
        bool is_blank = *from == '\n';
        *to++ = is_blank ? ' ' : *from;
        from += is_blank ? strspn(from + 1, " \n") : 0;
    }
    *to = '\0';
}

static int run(const char *const *arguments)
{
    char count[sizeof postgres.log_path + 8], output_path[PROC_PATH_BYTES + 16], target[32];
    const char *argv[ARGUMENTS_MAX] = {program,   "--target", target,      "--database",    postgres.url,
                                       "--count", count,      "--queries", "/* load it */", "--connections",
                                       "16",      "--json",   json_path};
    size_t used = 13;
    snprintf(target, sizeof target, "127.0.0.1:%u", service_port);
    snprintf(count, sizeof count, "log:%s", postgres.log_path);
    snprintf(output_path, sizeof output_path, "%s/output", folder);
    snprintf(json_path, sizeof json_path, "%s/report.json", folder);
    while (*arguments != NULL && used + 1 < ARGUMENTS_MAX)
        argv[used++] = *arguments++;
    counted.mark = stack_postgres_mark(&postgres);
    int status = program_run(&(struct proc_options){.argv = argv, .output_path = output_path}, LIMIT_MS,
                             output, sizeof output);
    count_log();
    join_output();
    return status;
}

#define RUN(...) run((const char *const[]){__VA_ARGS__, NULL})

static void expect_said(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void expect_said(const char *format, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (strstr(output, text) != NULL)
        return;
    fputs(output, stderr); /* whole: a message of cmocka's is cut */
    fail_msg("\"%s\" is not in that", text);
}

/* How many ran at once, and the life that was seen. */
static void expect_in_file(size_t at_once, uint32_t least_ms, uint32_t most_ms)
{
    static struct report report;
    char why[RESULT_WHY_BYTES];
    if (!report_read(&report, json_path, why))
        fail_msg("%s", why);
    const struct result result = *report.results[0];
    report_clear(&report);
    assert_true(result.has_peak);
    assert_int_equal(result.peak_running, at_once);
    assert_in_range(result.ttl_seen_ms, least_ms, most_ms);
}

static bool up(void)
{
    const char *catalogd = getenv("CATALOGD");
    snprintf(program, sizeof program, "%s", catalogd != NULL ? catalogd : "build/catalogd");
    char *slash = strrchr(program, '/');
    strcpy(slash != NULL ? slash : program, slash != NULL ? "/stampede" : "stampede");
    unsetenv("GITHUB_STEP_SUMMARY"); /* of the job that these tests are a part of */
    return proc_folder("figures", NULL, folder) && stack_postgres_start(&postgres, 100) &&
           stack_postgres_log_ends(&postgres, true);
}

static bool down(void)
{
    while (idle_count > 0)
        PQfinish(idle[--idle_count]);
    stack_postgres_stop(&postgres);
    return true;
}

/* ---- tests ---- */

TEST(a_stampede_of_one_key_among_thousands_of_quiet_ones_is_condemned)
{
    unsigned most, key;
    flaw = HOT_STAMPEDES;
    start_service(1000);
    int status = RUN("--url", "/k/{each:1-5000}", "--url", "/k/6000", "--rate", "300", "--for", "4s", "--ttl",
                     "1s", "--expect", "most loads per expiry <= 1");
    size_t expiries = count_expiries(&most, &key);
    assert_int_equal(status, DID_NOT_HOLD);
    assert_int_equal(key, HOT);
    assert_in_range(most, 2, 40);
    expect_said("asked %zu times for %zu expiries: up to %u times for one (key 6000)", counted.count,
                expiries, most);
    expect_said("NOT HELD  most loads per expiry <= 1: %u (key 6000 at ", most);
    expect_in_file(counted.at_once, 0, 0);
}

/* It is perfect, whatever was said of it. */
TEST(a_life_that_was_not_said_or_is_another_one_condemns_nobody)
{
    unsigned most, key;
    start_service(1000);
    assert_int_equal(RUN("--url", "/k/7", "--rate", "100", "--for", "5s"), HELD);
    assert_int_equal(count_expiries(&most, &key), counted.count);
    expect_said("asked %zu times for %zu expiries, which is as few as can be", counted.count, counted.count);
    expect_said(
        "! Loads per expiry: how long a value lives was not said (--ttl): expiries are judged by the ");
    expect_in_file(1, 1000, 2000); /* a busy machine takes its time to load */
    assert_int_equal(RUN("--url", "/k/7", "--rate", "100", "--for", "5s", "--ttl", "5s", "--expect",
                         "loads per expiry <= 1"),
                     DID_NOT_HOLD);
    expect_said("! Loads per expiry: a value lives 5 s by what was said (--ttl), and ");
    expect_said("NOT HELD  loads per expiry <= 1: not known: a value lives 5 s by what was said");
    assert_int_equal(RUN("--url", "/k/7", "--rate", "100", "--for", "5s", "--ttl", "1s", "--expect",
                         "loads per expiry <= 1"),
                     HELD);
}

TEST(two_loads_in_few_expiries_are_told_in_digits_that_decide)
{
    unsigned most, key;
    flaw = NOW_AND_THEN;
    start_service(300);
    assert_int_equal(RUN("--url", "/k/{1-5}", "--rate", "300", "--for", "4s", "--ttl", "300ms", "--expect",
                         "loads per expiry <= 1"),
                     DID_NOT_HOLD);
    size_t expiries = count_expiries(&most, &key);
    assert_int_equal(most, 2);
    expect_said(": %zu loads of %zu expiries, at most 2 of one", counted.count, expiries);
    expect_in_file(counted.at_once, 0, 0);
}

TEST_GROUP(.up = up, .down = down, .after = stop_service);

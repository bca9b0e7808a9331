/* SPDX-License-Identifier: MIT */
/*
 * bench.c - what the guard costs and what it is good for, in numbers of this machine.
 *
 *     bench [MEASUREMENT ...]     hits, loads, waiters, growth, gate; all without any
 *
 * Private Redis and PostgreSQL, catalogd as it is shipped, nginx and Varnish from the distribution beside it on
 * the same body. One table at the end: the median of every number, its spread, the goal and whether it was met. Exits
 * with 0 also when a goal is missed: it reports. Only the gate refuses: 1. Anything else: something did not work.
 */
#include "load/bench/bench.h"
#include "load/base/http.h"
#include "load/base/net.h"
#include "load/base/proc.h"
#include "load/stack/rival.h"
#include "load/stack/stack.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum {
    PRODUCT_COUNT = 6000, /* for all but those that say how many they need on top */
    DATABASE_CONNECTIONS = 1200,
    ASK_LIMIT_MS = 10000,
    SETTINGS_MAX = 24,
    FILES_NEEDED = 12000,
};

static struct bench bench = {.next_product = 1};
static double load_before; /* of the minute before we began: what others did with these cores */

static const struct {
    const char *name;
    bool (*run)(struct bench *bench);
    uint32_t products; /* on top of PRODUCT_COUNT */
} measurements[] = {
    {"hits", measure_hits, BENCH_MANY_PRODUCTS},
    {"loads", measure_loads, 0},
    {"waiters", measure_waiters, 0},
    {"growth", measure_growth, 0},
    {"gate", measure_gate, BENCH_GATE_PRODUCTS},
};
enum { MEASUREMENT_COUNT = sizeof measurements / sizeof *measurements };

/* ---- servers ---- */

bool bench_service_start(const struct bench *servers, struct stack_catalogd *catalogd,
                         const char *const *settings)
{
    const char *all[SETTINGS_MAX + 1] = {"NAMESPACE=bench", "FRESH_MS=3600000"};
    for (size_t i = 0, count = 2; settings[i] != NULL && count < SETTINGS_MAX; i++)
        all[count++] = settings[i];
    return stack_catalogd_start_over(catalogd, &servers->redis, &servers->postgres, all);
}

void bench_cold_path(struct bench *servers, char path[static BURST_PATH_BYTES])
{
    snprintf(path, BURST_PATH_BYTES, "/products/%" PRIu32, bench_cold_products(servers, 1));
}

uint32_t bench_cold_products(struct bench *servers, uint32_t count)
{
    servers->next_product += count;
    return servers->next_product - count;
}

bool bench_ask(uint16_t port, const char *path)
{
    struct http_answer answer;
    const struct http_request request = {
        .host = "127.0.0.1", .port = port, .path = path, .deadline_ms = ASK_LIMIT_MS};
    bool good = http_ask(&request, &answer) && answer.status == 200;
    if (!good)
        fprintf(stderr, "bench: GET %s: status %u\n", path, (unsigned)answer.status);
    http_answer_clear(&answer);
    return good;
}

bool bench_ask_each(uint16_t port, uint32_t first, uint32_t count)
{
    char path[BURST_PATH_BYTES];
    bool good = true;
    for (uint32_t i = 0; good && i < count; i++) {
        snprintf(path, sizeof path, "/products/%" PRIu32, first + i);
        good = bench_ask(port, path);
    }
    return good;
}

bool bench_apart(struct bench *servers, bench_part *part, const void *of, void *outcome, size_t outcome_bytes,
                 uint32_t limit_ms)
{
    int ends[2];
    if (pipe(ends) != 0)
        return false;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(limit_ms / 1000);
        _exit(part(servers, of, outcome) && write(ends[1], outcome, outcome_bytes) == (ssize_t)outcome_bytes
                  ? 0
                  : 1);
    }
    close(ends[1]);
    bool good = child > 0 && read(ends[0], outcome, outcome_bytes) == (ssize_t)outcome_bytes;
    close(ends[0]);
    return child > 0 && proc_wait(child, limit_ms, NULL) && good;
}

static bool start_servers(uint32_t product_count)
{
    progress_begin("private Redis and PostgreSQL");
    return progress_end(stack_redis_start(&bench.redis, NULL) &&
                        stack_postgres_start(&bench.postgres, DATABASE_CONNECTIONS) &&
                        stack_postgres_load(bench.postgres.url, product_count));
}

/* ---- the machine ---- */

/* ", NAME VERSION": of the first line a command prints, what begins with the first digit. "": it is not here. */
static void version_of(const char *name, const char *command, char *version, size_t version_bytes)
{
    char line[256];
    bool is_here = rival_first_line(command, line, sizeof line);
    const char *number = line + strcspn(line, "0123456789");
    version[0] = '\0';
    if (is_here)
        snprintf(version, version_bytes, ", %s %.*s", name, (int)strcspn(number, " )\n"), number);
}

static void print_machine(void)
{
    char machine[MACHINE_BYTES], nginx[32], varnish[32], wrk[32];
    machine_describe(&bench.redis, bench.postgres.socket_url, machine);
    version_of("nginx", "PATH=$PATH:/usr/sbin nginx -v", nginx, sizeof nginx);
    version_of("Varnish", "PATH=$PATH:/usr/sbin varnishd -V", varnish, sizeof varnish);
    version_of("wrk", "wrk --version || [ $? = 1 ]", wrk, sizeof wrk); /* it says so and exits with 1 */
    printf("\n%s%s%s%s\n", machine, nginx, varnish, wrk);
    printf("Clients, services, Redis and PostgreSQL share these cores; the load average was %.1f before.\n",
           load_before);
}

/* ---- choice ---- */

static bool is_wanted(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], name) == 0)
            return true;
    }
    return argc == 1;
}

static uint32_t products_wanted(int argc, char **argv)
{
    uint32_t count = PRODUCT_COUNT;
    for (size_t i = 0; i < MEASUREMENT_COUNT; i++)
        count += is_wanted(measurements[i].name, argc, argv) ? measurements[i].products : 0;
    return count;
}

static bool is_measurement(const char *name)
{
    for (size_t i = 0; i < MEASUREMENT_COUNT; i++) {
        if (strcmp(measurements[i].name, name) == 0)
            return true;
    }
    return false;
}

static bool all_are_known(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (is_measurement(argv[i]))
            continue;
        fprintf(stderr, "bench: %s is not one of", argv[i]);
        for (size_t k = 0; k < MEASUREMENT_COUNT; k++)
            fprintf(stderr, " %s", measurements[k].name);
        fprintf(stderr, "\n");
        return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    proc_begin();
    if (!all_are_known(argc, argv))
        return 2;
    if (!net_raise_file_limit(FILES_NEEDED)) {
        fprintf(stderr, "bench: the limit of open files (ulimit -n) is below %d\n", FILES_NEEDED);
        return 1;
    }
    if (getloadavg(&load_before, 1) != 1)
        load_before = 0;
    proc_clean_on_signals();
    bool good = start_servers(products_wanted(argc, argv));
    for (size_t i = 0; good && i < MEASUREMENT_COUNT; i++) {
        if (is_wanted(measurements[i].name, argc, argv))
            good = measurements[i].run(&bench);
    }
    if (good) {
        print_machine();
        report_print();
    }
    stack_postgres_stop(&bench.postgres);
    stack_redis_stop(&bench.redis);
    return good && !bench.gate_closed ? 0 : 1;
}

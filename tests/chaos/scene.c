/* SPDX-License-Identifier: MIT */
/*
 * scene.c - see scene.h.
 *
 * Redis gets its steppable clock through a `redis-server` of ours that comes first in PATH, preloads
 * clock_shim.so and becomes the real one: so however it is started, and again after a kill, it has it.
 */
#include "tests/chaos/scene.h"

#include "load/base/clock.h"
#include "load/base/http.h"
#include "load/base/net.h"
#include "load/herd/burst.h"
#include "tests/chaos/check.h"
#include "tests/support/fleet.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    WAIT_STEP_MS = 10,
    END_LIMIT_MS = 20000,
    START_LIMIT_MS = 20000,
    SETTING_BYTES = 768,
    LISTED_PRODUCTS = 50,
    LISTS_EACH = 8,
};
_Static_assert(SCENE_PRODUCTS % LISTED_PRODUCTS == 0, "whole lists");

const struct check_rules scene_rules = {
    .process_count = SCENE_PROCESSES,
    .workers = SCENE_WORKERS,
    .deadline_ms = SCENE_DEADLINE_MS,
    .slack_ms = 1500, /* two cores do all of this */
    .load_limit_ms = SCENE_LOAD_LIMIT_MS,
    /* A grant that took longer than a command may is not used. A load that queues renews its lease at a third of its
     * time, and hears only then that it is void. */
    .memory_ms = SCENE_LEASE_MS / 3 + SCENE_REDIS_LIMIT_MS,
    .kept_ms = SCENE_OUTAGE_MS,
    .redis_late_ms = SCENE_REDIS_LIMIT_MS / 2,
    .tail_ms = SCENE_LOAD_LIMIT_MS + 2000, /* loads begun in it, and the longest pause of the breaker */
};

/* ---- Redis with a clock of ours ---- */

static bool map_clock(struct scene *scene, const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd == -1) {
        perror("scene: clock");
        return false;
    }
    void *map = mmap(NULL, sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    scene->redis_offset_s = map != MAP_FAILED ? map : NULL;
    return map != MAP_FAILED;
}

static bool go_first_in_path(const char *folder)
{
    char path[4096];
    snprintf(path, sizeof path, "%s:%s", folder, getenv("PATH") != NULL ? getenv("PATH") : "/usr/bin");
    return setenv("PATH", path, 1) == 0;
}

/* Before any thread exists: it changes our environment. The folder is that of whoever Redis is run as. */
static bool prepare_clock(struct scene *scene)
{
    static const char script[] =
        "real=$(command -v redis-server)\n"
        "cp \"${CHAOS_SHIM:-build/gcc/tests/chaos/clock_shim.so}\" $0/clock_shim.so\n"
        "head -c 8 /dev/zero >$0/clock\n"
        "cat >$0/redis-server <<END\n"
        "#!/bin/sh\n"
        "CHAOS_CLOCK_FILE=$0/clock LD_PRELOAD=$0/clock_shim.so exec $real \"\\$@\"\n"
        "END\n"
        "chmod 755 $0/*\n";
    char folder[PROC_PATH_BYTES], path[PROC_PATH_BYTES + 16];
    const char *const argv[] = {"sh", "-ec", script, folder, NULL};
    if (!proc_folder("clock", proc_plain_user(), folder) ||
        !proc_run(&(struct proc_options){.argv = argv}, END_LIMIT_MS))
        return false;
    snprintf(path, sizeof path, "%s/clock", folder);
    return map_clock(scene, path) && go_first_in_path(folder);
}

/* ---- catalogd ---- */

static void describe_redis(const struct scene *scene, size_t process, char text[static SETTING_BYTES])
{
    if (scene->options.topology == FAULT_ONE_REDIS) {
        snprintf(text, SETTING_BYTES, "REDIS_URL=redis://127.0.0.1:%u/0",
                 (unsigned)proxy_port(scene->proxy, scene->redis_route[process]));
        return;
    }
    const bool sentinels = scene->options.topology == FAULT_SENTINELS;
    int bytes = snprintf(text, SETTING_BYTES, "REDIS_URL=%s?wait_replicas=%" PRIu32,
                         sentinels ? scene->sentinel.url : scene->cluster.url, scene->options.wait_replicas);
    if (scene->options.over_tls)
        snprintf(text + bytes, SETTING_BYTES - (size_t)bytes, "&ssl_ca_certs=%s", scene->certificates.ca);
}

static void describe(const struct scene *scene, size_t process, char texts[][SETTING_BYTES],
                     const char **settings)
{
    const uint16_t postgres_port = proxy_port(scene->proxy, scene->postgres_route[process]);
    const struct {
        const char *name;
        uint32_t value;
    } numbers[] = {
        {"STALE_MS", scene->options.stale_ms},
        {"FRESH_MS", scene->options.fresh_ms},
        {"OUTAGE_MS", SCENE_OUTAGE_MS},
        {"FAILURE_MS", SCENE_FAILURE_MS},
        {"LEASE_MS", SCENE_LEASE_MS},
        {"MAX_HOLD_MS", SCENE_LOAD_LIMIT_MS * 2},
        {"LOAD_LIMIT_MS", SCENE_LOAD_LIMIT_MS},
        {"DEADLINE_MS", SCENE_DEADLINE_MS},
        {"REDIS_LIMIT_MS", SCENE_REDIS_LIMIT_MS},
        {"MAX_LOADS", SCENE_WORKERS},
        {"LOAD_DELAY_MS", SCENE_LOAD_DELAY_MS},
        {"SERVER_LOOPS", 2},
        {"SHELF_BYTES", SCENE_SHELF_BYTES},
    };
    size_t count = sizeof numbers / sizeof *numbers;
    for (size_t i = 0; i < count; i++) {
        snprintf(texts[i], sizeof texts[i], "%s=%" PRIu32, numbers[i].name, numbers[i].value);
        settings[i] = texts[i];
    }
    describe_redis(scene, process, texts[count]);
    settings[count] = texts[count];
    count++;
    if (scene->network.count > 0) /* over which a Unix socket reaches */
        snprintf(texts[count], sizeof texts[count], "DATABASE_URL=%s", scene->postgres.socket_url);
    else
        snprintf(texts[count], sizeof texts[count],
                 "DATABASE_URL=postgresql://postgres@127.0.0.1:%u,127.0.0.1:%u/postgres",
                 (unsigned)proxy_port(scene->proxy, scene->silent_route), (unsigned)postgres_port);
    settings[count] = texts[count];
    count++;
    settings[count++] = "NAMESPACE=chaos";
    settings[count] = NULL;
}

/* ---- who reads what it says ---- */

/* catalogd, whose stderr is a pipe that its child reads. */
static bool write_script(struct scene *scene)
{
    char script[PROC_PATH_BYTES + 16];
    if (!proc_folder("scene", NULL, scene->folder))
        return false;
    snprintf(script, sizeof script, "%s/catalogd", scene->folder);
    snprintf(scene->program, sizeof scene->program, "%s", stack_catalogd_program());
    FILE *file = fopen(script, "we");
    if (file == NULL || fprintf(file, "#!/bin/bash\nexec '%s' 2> >(exec cat)\n", scene->program) < 0 ||
        fclose(file) != 0)
        return false;
    return chmod(script, 0700) == 0 && setenv("CATALOGD", script, 1) == 0;
}

static void leave_script(const struct scene *scene)
{
    if (scene->folder[0] == '\0')
        return;
    proc_remove(scene->folder);
    setenv("CATALOGD", scene->program, 1);
}

static bool find_reader(struct scene *scene, size_t process)
{
    enum { FAMILY_MAX = 8 };
    pid_t pids[FAMILY_MAX];
    struct proc_look look;
    for (size_t i = proc_family(scene->catalogd[process].pid, pids, FAMILY_MAX); i-- > 0;) {
        if (!proc_look(pids[i], &look) || strcmp(look.name, "cat") != 0)
            continue;
        scene->reader[process] = pids[i];
        return true;
    }
    fprintf(stderr, "scene: nobody reads what catalogd %zu says\n", process);
    return false;
}

/* It has written all to the log. */
static void wait_for_reader(const struct scene *scene, size_t process)
{
    const uint64_t end_us = clock_after_ms(END_LIMIT_MS);
    struct proc_look look;
    while (proc_look(scene->reader[process], &look) && clock_us() < end_us)
        clock_pause_ms(WAIT_STEP_MS);
}

/* Each server loop complains of a head, if it is asked by one of these. */
static void make_it_speak(const struct scene *scene, size_t process)
{
    enum { HEADS = 8, HEAD_LIMIT_MS = 100 };
    for (int i = 0; i < HEADS; i++) {
        struct http_answer answer;
        http_ask(&(struct http_request){.host = "127.0.0.1",
                                        .port = scene->catalogd[process].port,
                                        .path = "/ping",
                                        .headers = "Content-Length: x\r\n",
                                        .deadline_ms = HEAD_LIMIT_MS},
                 &answer);
        http_answer_clear(&answer);
    }
}

/* For longer than any request may take: who waited for it would be late. */
bool scene_reader_stop(struct scene *scene, size_t process)
{
    static const char lines[4096];
    char pipe[64];
    const pid_t reader = scene->reader[process];
    if (reader <= 0 || kill(reader, SIGSTOP) != 0 || !proc_wait_stopped(reader))
        return false;
    snprintf(pipe, sizeof pipe, "/proc/%d/fd/0", (int)reader);
    const int fd = open(pipe, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    while (fd >= 0 && write(fd, lines, sizeof lines) > 0)
        continue;
    if (fd >= 0)
        close(fd);
    scene_go_to(scene, process);
    make_it_speak(scene, process);
    scene_go_home(scene);
    return fd >= 0;
}

void scene_show_logs(const struct scene *scene)
{
    for (size_t i = 0; i < SCENE_PROCESSES; i++) {
        if (scene->catalogd[i].pid <= 0)
            continue;
        fprintf(stderr, "scene: the log of catalogd %zu ends:\n", i);
        proc_show_tail(scene->catalogd[i].log_path);
    }
}

bool scene_catalogd_start(struct scene *scene, size_t process)
{
    char texts[16][SETTING_BYTES];
    const char *settings[17];
    describe(scene, process, texts, settings);
    scene_go_to(scene, process);
    bool started = stack_catalogd_start(&scene->catalogd[process], settings);
    scene_go_home(scene);
    if (!started || !find_reader(scene, process))
        return false;
    scene->paused[process] = false;
    atomic_store(&scene->ops_port[process], scene->catalogd[process].ops_port);
    atomic_store(&scene->port[process], scene->catalogd[process].port);
    return true;
}

/* Its log shows why if it has not. */
static bool ended_well(const struct stack_catalogd *catalogd, bool in_order)
{
    if (in_order && fleet_log_is_clean(catalogd))
        return true;
    fprintf(stderr, "scene: catalogd did not end well; its log ends:\n");
    proc_show_tail(catalogd->log_path);
    return false;
}

bool scene_catalogd_kill(struct scene *scene, size_t process)
{
    struct stack_catalogd *catalogd = &scene->catalogd[process];
    atomic_store(&scene->port[process], 0);
    atomic_store(&scene->ops_port[process], 0);
    proc_kill_tree(&catalogd->pid);
    bool clean = ended_well(catalogd, true);
    stack_catalogd_stop(catalogd); /* its folder */
    return clean;
}

bool scene_all_alive(struct scene *scene)
{
    bool alive = true;
    for (size_t i = 0; i < SCENE_PROCESSES; i++) {
        int status = 0;
        if (scene->catalogd[i].pid <= 0 || !proc_wait(scene->catalogd[i].pid, 0, &status))
            continue;
        fprintf(stderr, "scene: catalogd %zu died by itself, status %#x; its log ends:\n", i,
                (unsigned)status);
        proc_show_tail(scene->catalogd[i].log_path);
        scene->catalogd[i].pid = 0;
        alive = false;
    }
    return alive;
}

/* ---- where they are ---- */

void scene_go_to(const struct scene *scene, size_t process)
{
    if (scene->network.count > 0)
        network_enter(&scene->network, process < SCENE_PROCESSES / 2 ? 1 : 0);
}

void scene_go_home(const struct scene *scene)
{
    if (scene->network.count > 0)
        network_leave(&scene->network);
}

double scene_metric(const struct scene *scene, size_t process, const char *sample)
{
    scene_go_to(scene, process);
    double value = stack_catalogd_metric(&scene->catalogd[process], sample);
    scene_go_home(scene);
    return value;
}

/* ---- waiting ---- */

static bool metric_is(struct scene *scene, size_t process, const char *sample, double wanted)
{
    double value = scene_metric(scene, process, sample);
    return value >= wanted && value <= wanted;
}

struct wanted {
    const char *sample;
    double value;
};

static bool wait_for(struct scene *scene, const struct wanted *wanted, size_t count, uint32_t limit_ms)
{
    uint64_t end_us = clock_after_ms(limit_ms);
    for (size_t i = 0; i < SCENE_PROCESSES * count; i++) {
        size_t process = i / count;
        while (!metric_is(scene, process, wanted[i % count].sample, wanted[i % count].value)) {
            if (clock_us() >= end_us || !scene_all_alive(scene)) {
                fprintf(stderr, "scene: catalogd %zu: %s is not %g after %" PRIu32 " ms; its log ends:\n",
                        process, wanted[i % count].sample, wanted[i % count].value, limit_ms);
                proc_show_tail(scene->catalogd[process].log_path);
                return false;
            }
            clock_pause_ms(WAIT_STEP_MS);
        }
    }
    return true;
}

bool scene_wait_healthy(struct scene *scene, uint32_t limit_ms)
{
    static const struct wanted wanted[] = {
        {"catalogd_database_ready", 1},
        {"guard_redis_state{connection=\"commands\",state=\"up\"}", 1},
        {"guard_redis_state{connection=\"wake\",state=\"up\"}", 1},
        {"guard_breaker_open", 0},
    };
    return wait_for(scene, wanted, sizeof wanted / sizeof *wanted, limit_ms);
}

bool scene_wait_quiet(struct scene *scene, uint32_t limit_ms)
{
    static const struct wanted wanted[] = {
        {"guard_waiters", 0},
        {"guard_flights", 0},
        {"guard_loads_running", 0},
        {"guard_loads_queued", 0},
    };
    return wait_for(scene, wanted, sizeof wanted / sizeof *wanted, limit_ms);
}

/* ---- bursts ---- */

static bool ask_at_once(struct scene *scene, const char *path, uint32_t request_count)
{
    struct burst_target targets[SCENE_PROCESSES];
    struct burst_summary summary;
    struct burst *burst = NULL;
    for (size_t i = 0; i < SCENE_PROCESSES; i++)
        targets[i] = (struct burst_target){.host = "127.0.0.1", .port = scene->catalogd[i].port};
    const struct burst_options options = {.targets = targets,
                                          .target_count = SCENE_PROCESSES,
                                          .connection_count = request_count,
                                          .connect_limit_ms = SCENE_DEADLINE_MS,
                                          .request_limit_ms = SCENE_DEADLINE_MS * 2,
                                          .path = path};
    if (!burst_open(&options, &burst))
        return false;
    bool good = burst_run(burst);
    burst_summarise(burst, &summary);
    burst_close(&burst);
    if (good && summary.statuses[200] == request_count)
        return true;
    fprintf(stderr, "scene: %s: %" PRIu32 " of %" PRIu32 " answered with 200\n", path, summary.statuses[200],
            request_count);
    return false;
}

int scene_burst(struct scene *scene, uint32_t product, uint32_t request_count)
{
    uint64_t mark = stack_postgres_mark(&scene->postgres);
    char path[48];
    snprintf(path, sizeof path, "/products/%" PRIu32, product);
    if (!ask_at_once(scene, path, request_count))
        return -1;
    return (int)stack_postgres_count(&scene->postgres, mark, "/* load product */");
}

/* Over several connections, so that each loop of each process has some. */
bool scene_ask_for_all(struct scene *scene)
{
    for (uint32_t id = 1; id <= SCENE_PRODUCTS; id += LISTED_PRODUCTS) {
        char path[BURST_PATH_BYTES] = "/products?ids=";
        size_t bytes = strlen(path);
        for (uint32_t i = 0; i < LISTED_PRODUCTS; i++)
            bytes +=
                (size_t)snprintf(path + bytes, sizeof path - bytes, "%s%" PRIu32, i > 0 ? "," : "", id + i);
        if (!ask_at_once(scene, path, SCENE_PROCESSES * LISTS_EACH))
            return false;
    }
    return true;
}

/* ---- all of it ---- */

/*
 * Durations end loads in the log. The cluster commits without waiting for its own
 * log, so a SIGKILL can take back what was committed last: the checkpoint keeps it from taking this. Writers see
 * to their own commits.
 */
static bool prepare_postgres(struct scene *scene)
{
    static const char *const statements[] = {
        "ALTER DATABASE postgres SET log_duration = on",
        "CHECKPOINT",
    };
    if (!stack_postgres_start_seeded(&scene->postgres, SCENE_CONNECTIONS, SCENE_PRODUCTS))
        return false;
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        if (!stack_postgres_query(scene->postgres.url, statements[i], NULL, 0))
            return false;
    }
    return true;
}

/* A page of each of so many categories; its first product is the one that is edited. */
static bool choose_pages(struct scene *scene)
{
    for (uint32_t i = 0; i < SCENE_PAGES; i++) {
        char statement[256], value[64];
        struct scene_page *page = &scene->page[i];
        snprintf(statement, sizeof statement,
                 "SELECT c || ' ' || id || ' ' || stock FROM (SELECT category_id c, min(id) m FROM products "
                 "WHERE id > 12 GROUP BY 1 ORDER BY 1 OFFSET %" PRIu32 " LIMIT 1) x JOIN products ON id = m",
                 i);
        if (!stack_postgres_query(scene->postgres.url, statement, value, sizeof value) ||
            sscanf(value, "%" SCNu32 " %" SCNu32 " %ld", &page->category, &page->product, &page->stock) != 3)
            return false;
    }
    return true;
}

uint32_t scene_key_count(const struct scene *scene)
{
    return SCENE_KEYS + (scene->page[0].product != 0 ? SCENE_PAGES : 0);
}

uint64_t scene_version(const struct scene *scene, uint32_t key)
{
    char statement[96], value[32];
    if (key <= SCENE_KEYS)
        snprintf(statement, sizeof statement, "SELECT edition FROM products WHERE id = %" PRIu32, key);
    else
        snprintf(statement, sizeof statement, "SELECT stock + 1 - %ld FROM products WHERE id = %" PRIu32,
                 scene->page[key - SCENE_KEYS - 1].stock, scene->page[key - SCENE_KEYS - 1].product);
    return stack_postgres_query(scene->postgres.url, statement, value, sizeof value)
               ? strtoull(value, NULL, 10)
               : 0;
}

/* ---- Redis, as it is deployed ---- */

/* The first of each kind is beyond the cable. */
static const char *host_of(void *context, bool is_sentinel, size_t at)
{
    const struct scene *scene = context;
    const size_t place = at == 0 ? 1 : 0;
    (void)is_sentinel;
    return network_enter(&scene->network, place) ? scene->network.place[place].address : NULL;
}

static bool start_in_two_networks(struct scene *scene, struct stack_sentinel_options *options)
{
    options->host_of = host_of;
    options->host_context = scene;
    bool good = network_open(&scene->network, 2) && stack_sentinel_start(&scene->sentinel, options);
    scene_go_home(scene);
    return good;
}

static bool issue_certificates(struct scene *scene)
{
    const struct stack_certificates *certificates = &scene->certificates;
    if (!stack_certificates_start(&scene->certificates) ||
        !stack_certificates_issue(certificates, "redis", "IP:127.0.0.1", -1, 30))
        return false;
    const char *const tls[] = {"--tls-cert-file",
                               stack_certificates_path(certificates, "redis.pem", scene->certificate),
                               "--tls-key-file",
                               stack_certificates_path(certificates, "redis.key", scene->key),
                               "--tls-ca-cert-file",
                               certificates->ca,
                               "--tls-auth-clients",
                               "no",
                               NULL};
    _Static_assert(sizeof tls == sizeof scene->tls, "as many");
    memcpy(scene->tls, tls, sizeof tls);
    return true;
}

/* No failover of the Sentinels begins within twice the limit after another. */
static bool start_sentinels(struct scene *scene)
{
    static const char *const guarded[] = {"--min-replicas-to-write", "1", "--min-replicas-max-lag", "3",
                                          NULL};
    struct stack_sentinel_options options = {
        .replica_count = 2, .arguments = guarded, .failover_limit_ms = 1500, .hurried = true};
    if (scene->options.sentinel != NULL)
        options = *scene->options.sentinel;
    options.tls = scene->options.over_tls ? scene->tls : NULL;
    return scene->options.in_two_networks ? start_in_two_networks(scene, &options)
                                          : stack_sentinel_start(&scene->sentinel, &options);
}

static bool start_cluster(struct scene *scene)
{
    const struct stack_cluster_options options = {
        .replicas_per_master = 1, .serves_in_part = true, .tls = scene->options.over_tls ? scene->tls : NULL};
    return stack_cluster_start(&scene->cluster, &options);
}

static bool start_masters(struct scene *scene)
{
    if (scene->options.over_tls && !issue_certificates(scene))
        return false;
    if (scene->options.topology == FAULT_SENTINELS)
        return start_sentinels(scene);
    if (scene->options.topology == FAULT_CLUSTER)
        return start_cluster(scene);
    return prepare_clock(scene) && stack_redis_start(&scene->redis, NULL);
}

static bool add_silent_route(struct scene *scene)
{
    if (!proxy_add(scene->proxy, scene->postgres.port, &scene->silent_route))
        return false;
    proxy_set(scene->proxy, scene->silent_route, PROXY_SILENT, 0);
    return true;
}

/* From now on it falls behind. */
static bool start_standby(struct scene *scene)
{
    return stack_postgres_start_standby(&scene->standby, &scene->postgres) &&
           stack_postgres_hold_replay(&scene->standby, true);
}

static bool add_routes(struct scene *scene, size_t process)
{
    return (scene->options.topology != FAULT_ONE_REDIS ||
            proxy_add(scene->proxy, scene->redis.port, &scene->redis_route[process])) &&
           proxy_add(scene->proxy, scene->postgres.port, &scene->postgres_route[process]);
}

bool scene_open(struct scene *scene, const struct scene_options *options)
{
    *scene = (struct scene){.options = *options, .epoch_us = clock_wall_ahead_us()};
    if (scene->options.topology == 0)
        scene->options.topology = FAULT_ONE_REDIS;
    if (scene->options.fresh_ms == 0) {
        scene->options.fresh_ms = SCENE_FRESH_MS;
        scene->options.stale_ms = options->seed % 2 == 0 ? 1000 : 0;
    }
    bool good = net_raise_file_limit(4096) && write_script(scene) && start_masters(scene) &&
                prepare_postgres(scene) &&
                (scene->options.topology == FAULT_ONE_REDIS ? start_standby(scene) : choose_pages(scene)) &&
                proxy_open(options->seed, &scene->proxy) && add_silent_route(scene);
    for (size_t i = 0; good && i < SCENE_PROCESSES; i++)
        good = add_routes(scene, i) && scene_catalogd_start(scene, i);
    return good && scene_wait_healthy(scene, START_LIMIT_MS);
}

bool scene_close(struct scene *scene)
{
    bool good = true;
    for (size_t i = 0; i < SCENE_PROCESSES; i++) {
        const bool in_order = scene->catalogd[i].pid > 0 && fleet_ended_in_order(&scene->catalogd[i]);
        wait_for_reader(scene, i);
        good = ended_well(&scene->catalogd[i], in_order) && good;
        stack_catalogd_stop(&scene->catalogd[i]);
    }
    leave_script(scene);
    proxy_close(&scene->proxy);
    stack_postgres_stop(&scene->standby);
    stack_postgres_stop(&scene->postgres);
    stack_redis_stop(&scene->redis);
    stack_sentinel_stop(&scene->sentinel);
    stack_cluster_stop(&scene->cluster);
    network_close(&scene->network);
    stack_certificates_stop(&scene->certificates);
    if (scene->redis_offset_s != NULL)
        munmap((void *)scene->redis_offset_s, sizeof(int64_t));
    return good;
}

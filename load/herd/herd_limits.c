/* SPDX-License-Identifier: MIT */
/* herd_limits.c - see herd.h. */
#include "load/herd/herd.h"

#include "load/base/clock.h"
#include "load/base/net.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    AUTO_GENERATORS_MAX = 4,
    SPARE_FILES = 64,         /* epoll, bell, standard streams, and whatever the caller has open */
    BYTES_PER_LINK = 2048,    /* a link and the head of a response */
    BYTES_PER_REQUEST = 88,   /* its record twice while they are merged, its lateness, its place */
    PORT_REST_S = 60,         /* a port that closed first cannot be used again for so long (TIME_WAIT) */
    PORT_FIRST_USUAL = 32768, /* where the range cannot be read */
    PORT_LAST_USUAL = 60999,
    CONNECT_LIMIT_MS = 5000, /* the probe's, like the two below */
    SILENCE_LIMIT_MS = 500,
    SHOWN_BYTES = 24,
};

static bool is_loopback(const struct work_target *target)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&target->address.storage;
    return v4->sin_family == AF_INET && (ntohl(v4->sin_addr.s_addr) >> 24) == 127;
}

struct port_range {
    unsigned first, last;
};

static struct port_range port_range(void)
{
    struct port_range range = {PORT_FIRST_USUAL, PORT_LAST_USUAL};
    struct port_range read;
    FILE *file = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
    if (file == NULL)
        return range;
    if (fscanf(file, "%u %u", &read.first, &read.last) == 2 && read.first < read.last)
        range = read;
    fclose(file);
    return range;
}

/* Connections to this target that are open at the same time. */
static uint64_t connections_to(const struct work *work, size_t target)
{
    return (uint64_t)ceil(work->connection_count * work_target_share(work, target));
}

/* ... and those whose ports may still rest. */
static uint64_t ports_to(const struct work *work, size_t target)
{
    double all = (double)work_request_count(work);
    if (work->keeps_alive)
        return connections_to(work, target);
    if (work->shape == WORK_RATE)
        all = fmin(all, (double)work->per_second * PORT_REST_S);
    return (uint64_t)ceil(all * work_target_share(work, target));
}

/* Half of the ports of a pair of addresses: the last free ones take long to find. */
static uint32_t sources_needed(const struct work *work)
{
    struct port_range range = port_range();
    uint64_t half = (range.last - range.first + 2) / 2, most = 1;
    for (size_t i = 0; i < work->target_count; i++) {
        uint64_t needed = is_loopback(&work->targets[i]) ? (ports_to(work, i) + half - 1) / half : 1;
        most = needed > most ? needed : most;
    }
    return most < WORK_SOURCES_MAX ? (uint32_t)most : WORK_SOURCES_MAX;
}

void herd_limits_choose(struct work *work)
{
    cpu_set_t allowed;
    uint32_t cores = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? (uint32_t)CPU_COUNT(&allowed) : 1;
    if (work->generator_count == 0)
        work->generator_count = cores < AUTO_GENERATORS_MAX ? cores : AUTO_GENERATORS_MAX;
    if (work->generator_count > work->connection_count)
        work->generator_count = work->connection_count;
    if (work->source_count == 0)
        work->source_count = sources_needed(work);
}

static bool check_files(const struct work *work, char *why)
{
    struct rlimit limit = {0, 0};
    uint32_t links = (uint32_t)work_part(work->connection_count, 0, work->generator_count);
    uint32_t needed = links + SPARE_FILES;
    if (net_raise_file_limit(needed))
        return true;
    getrlimit(RLIMIT_NOFILE, &limit);
    snprintf(
        why, WORK_WHY_BYTES,
        "%u connections in %u processes need %u open files in each, %llu are allowed: raise the limit with\n"
        "    sudo prlimit --pid $$ --nofile=%u:%u\nand start again in this shell, or ask for fewer",
        work->connection_count, work->generator_count, needed, (unsigned long long)limit.rlim_max, needed,
        needed);
    return false;
}

static bool check_ports(const struct work *work, char *why)
{
    struct port_range range = port_range();
    uint64_t ports = range.last - range.first + 1;
    for (size_t i = 0; i < work->target_count; i++) {
        bool spreads = is_loopback(&work->targets[i]);
        uint64_t needed = connections_to(work, i), sources = spreads ? work->source_count : 1;
        if (work->targets[i].address.storage.ss_family == AF_UNIX || needed <= ports * sources)
            continue;
        snprintf(why, WORK_WHY_BYTES,
                 "%" PRIu64 " connections to %.60s need as many local ports, %u-%u has %" PRIu64 "%s: %s",
                 needed, work->targets[i].name, range.first, range.last, ports,
                 sources > 1 ? " for each source address" : "",
                 spreads ? "use more source addresses"
                         : "widen it with\n    sudo sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\"");
        return false;
    }
    return true;
}

/* Free memory in bytes; UINT64_MAX where it cannot be read. */
static uint64_t free_memory(void)
{
    char line[128];
    uint64_t free_kib = UINT64_MAX / 1024;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "MemAvailable: %" SCNu64, &free_kib) == 1)
            break;
    }
    if (file != NULL)
        fclose(file);
    return free_kib * 1024;
}

static bool check_memory(const struct work *work, char *why)
{
    uint64_t requests = work_request_count(work), there = free_memory();
    uint64_t needed = requests * BYTES_PER_REQUEST + (uint64_t)work->connection_count * BYTES_PER_LINK;
    if (needed <= there)
        return true;
    snprintf(why, WORK_WHY_BYTES,
             "the records of %" PRIu64 " requests need %" PRIu64 " MiB of memory, %" PRIu64
             " are free: ask for fewer requests or a shorter run",
             requests, needed >> 20, there >> 20);
    return false;
}

bool herd_limits_check(const struct work *work, char why[static WORK_WHY_BYTES])
{
    return check_files(work, why) && check_ports(work, why) && check_memory(work, why);
}

/*
 * ---- the probe: one question to each target before the run ----
 *
 *     OPTIONS * --> an answer, or none in time --> the run may begin
 *        |
 *        +--> hung up on, as some servers do with OPTIONS --> a request of the run --> likewise
 *                                                                |
 *                                                                +--> hung up on: refused
 *
 * OPTIONS * loads nothing; a request of the run leaves a value in the cache that a cold burst would have missed, so
 * it is sent only where nothing else shows whether the target serves, and the report says so. One that changes
 * something is not sent. All targets are asked at the same time. One that says nothing is not refused: it may be the
 * very thing to test.
 */

struct probe_call {
    const struct work *work;
    size_t target;
    int fd; /* owned; -1: none */
    int error;
    bool hung_up, asks_itself; /* a request of the run is sent */
};

static bool refuse(const struct probe_call *call, const char *what, const char *more, char *why)
{
    const struct work_target *target = &call->work->targets[call->target];
    char host[INET6_ADDRSTRLEN + 16] = "?";
    getnameinfo((const struct sockaddr *)&target->address.storage, target->address.bytes, host, sizeof host,
                NULL, 0, NI_NUMERICHOST);
    snprintf(why, WORK_WHY_BYTES, "target %.80s (%.50s): %s%s", target->name, host, what, more);
    return false;
}

static void call_start(struct probe_call *call)
{
    call->hung_up = false;
    call->fd = net_connect_start(&call->work->targets[call->target].address);
    call->error = call->fd == -1 ? errno : 0;
}

static bool call_connect(struct probe_call *call, uint64_t end_us, char *why)
{
    if (call->error == 0)
        call->error = net_wait(call->fd, POLLOUT, end_us) ? net_connect_error(call->fd) : ETIMEDOUT;
    if (call->error == 0)
        return true;
    return refuse(call, "no connection: ", strerror(call->error), why);
}

/* The first that goes to this target, with the first of its keys; NULL: none does. */
static const struct work_url *url_for(const struct work *work, size_t target)
{
    for (size_t i = 0; i < work->url_count; i++) {
        if (work->urls[i].target == -1 || (size_t)work->urls[i].target == target)
            return &work->urls[i];
    }
    return NULL;
}

static bool can_ask_itself(const struct probe_call *call)
{
    const char *method = call->work->method;
    return (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0) &&
           url_for(call->work, call->target) != NULL;
}

static void call_ask(const struct probe_call *call)
{
    const struct work *work = call->work;
    const struct work_url *url = url_for(work, call->target);
    bool names_host = !work_names_host(work);
    char text[WORK_PATH_BYTES + WORK_HEADERS_BYTES + 512], path[WORK_PATH_BYTES] = "*";
    if (call->asks_itself)
        work_path(url, url->first, path);
    int count =
        snprintf(text, sizeof text, "%s %s HTTP/1.1\r\n%s%.128s%sConnection: close\r\n%s\r\n",
                 call->asks_itself ? work->method : "OPTIONS", path, names_host ? "Host: " : "",
                 names_host ? work->targets[call->target].name : "", names_host ? "\r\n" : "", work->headers);
    ssize_t sent = send(call->fd, text, (size_t)count, MSG_NOSIGNAL);
    (void)sent; /* what is wrong shows when the answer is read */
}

static bool refuse_bytes(const struct probe_call *call, const char *bytes, size_t count, char *why)
{
    char shown[SHOWN_BYTES * 4 + 48] = "";
    size_t used = 0;
    for (size_t i = 0; i < count && i < SHOWN_BYTES; i++)
        used += (size_t)snprintf(shown + used, 5, isprint((unsigned char)bytes[i]) ? "%c" : "\\x%02x",
                                 (unsigned)(unsigned char)bytes[i]);
    if (bytes[0] == 0x15 && count > 1 && bytes[1] == 0x03)
        snprintf(shown + used, sizeof shown - used, " (it speaks TLS: write https://)");
    return refuse(call, "answers, but not in HTTP: ", shown, why);
}

static bool call_hear(struct probe_call *call, uint64_t end_us, char *why)
{
    char bytes[64];
    static const char begin[] = "HTTP/";
    if (!net_wait(call->fd, POLLIN, end_us))
        return true;
    ssize_t count = recv(call->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    call->hung_up = count <= 0;
    if (call->hung_up)
        return true;
    size_t compared = (size_t)count < sizeof begin - 1 ? (size_t)count : sizeof begin - 1;
    return memcmp(bytes, begin, compared) == 0 || refuse_bytes(call, bytes, (size_t)count, why);
}

/* All that have a connection begun. */
static bool ask_all(struct probe_call *calls, const struct work *work, char *why)
{
    uint32_t limit_ms = work->connect_limit_ms < CONNECT_LIMIT_MS ? work->connect_limit_ms : CONNECT_LIMIT_MS;
    uint64_t connect_end_us = clock_after_ms(limit_ms);
    for (size_t i = 0; i < work->target_count; i++) {
        if (calls[i].fd == -1 && calls[i].error == 0)
            continue;
        if (!call_connect(&calls[i], connect_end_us, why))
            return false;
        if (work->targets[i].is_tls) /* its handshake was looked at, and shows a server */
            net_shut(&calls[i].fd);
        else
            call_ask(&calls[i]);
    }
    uint64_t hear_end_us = clock_after_ms(SILENCE_LIMIT_MS);
    for (size_t i = 0; i < work->target_count; i++) {
        if (calls[i].fd != -1 && !call_hear(&calls[i], hear_end_us, why))
            return false;
    }
    return true;
}

/* Those that hung up on OPTIONS, once more. */
static bool ask_again(struct probe_call *calls, const struct work *work, char *why)
{
    for (size_t i = 0; i < work->target_count; i++) {
        net_shut(&calls[i].fd);
        if (!calls[i].hung_up || !can_ask_itself(&calls[i]))
            continue;
        calls[i].asks_itself = true;
        call_start(&calls[i]);
    }
    if (!ask_all(calls, work, why))
        return false;
    for (size_t i = 0; i < work->target_count; i++) {
        if (calls[i].asks_itself && calls[i].hung_up)
            return refuse(&calls[i], "accepts connections and closes them without an answer", "", why);
    }
    return true;
}

static void describe(const struct probe_call *calls, const struct work *work, char *note)
{
    size_t asked = 0;
    note[0] = '\0';
    for (size_t i = 0; i < work->target_count; i++) {
        if (calls[i].asks_itself && asked++ == 0)
            snprintf(note, WORK_WHY_BYTES,
                     "%.40s hung up on OPTIONS *: one request of the run was sent before it, so a value may "
                     "have been warm",
                     work->targets[i].name);
    }
}

bool herd_probe(const struct work *work, char note[static WORK_WHY_BYTES], char why[static WORK_WHY_BYTES])
{
    struct probe_call calls[WORK_TARGETS_MAX];
    for (size_t i = 0; i < work->target_count; i++) {
        calls[i] = (struct probe_call){.work = work, .target = i, .fd = -1};
        call_start(&calls[i]);
    }
    bool good = ask_all(calls, work, why) && ask_again(calls, work, why);
    for (size_t i = 0; i < work->target_count; i++)
        net_shut(&calls[i].fd);
    describe(calls, work, note);
    return good;
}

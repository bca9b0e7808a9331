/* SPDX-License-Identifier: MIT */
/* check_machine.c - the machine and the files: nothing here needs a server. */
#include "app/base/address.h"
#include "app/base/clock.h"
#include "app/base/token.h"
#include "app/check/check.h"
#include "app/http/client.h"
#include "app/http/listener.h"

#include <inttypes.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timex.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    POOL_BYTES = 8192, /* of a connection, see loop.c */
    ASK_MS = 1000,
    LINE_BYTES = 512,
    MIB = 1 << 20,
};

/* ---- limits ---- */

static void check_descriptors(const struct settings *settings, struct findings *findings)
{
    const uint64_t needed = limits_descriptors_needed(settings);
    struct rlimit limit = {0};
    char advice[96];

    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max >= needed) {
        findings_ok(findings, "file descriptors",
                    "%" PRIu64 " needed for MAX_CONNECTIONS=%" PRIu32 ", %" PRIu64 " allowed", needed,
                    settings->max_connections, (uint64_t)limit.rlim_max);
        return;
    }
    snprintf(advice, sizeof(advice), "LimitNOFILE=%" PRIu64 " (or ulimit -Hn), or lower MAX_CONNECTIONS",
             needed);
    findings_add(findings, VERDICT_WRONG, "file descriptors", advice,
                 "%" PRIu64 " needed for MAX_CONNECTIONS=%" PRIu32 ", but only %" PRIu64 " allowed", needed,
                 settings->max_connections, (uint64_t)limit.rlim_max);
}

static void check_cores(const struct settings *settings, struct findings *findings)
{
    struct rlimit limit = {0};

    getrlimit(RLIMIT_CORE, &limit);
    if (!settings->cores)
        findings_ok(findings, "core files", "none (CORES=off)");
    else if (limit.rlim_max == 0)
        findings_add(findings, VERDICT_WARNING, "core files", "LimitCORE=infinity (or ulimit -Hc unlimited)",
                     "CORES=on, but the limit is 0: there will be none");
    else
        findings_add(findings, VERDICT_WARNING, "core files", "CORES=off once the crash was found",
                     "CORES=on: one holds values and passwords");
}

/* "": it cannot be read, or is hidden from us. */
static void read_line(const char *path, char line[static LINE_BYTES])
{
    FILE *file = fopen(path, "re");

    line[0] = '\0';
    if (file == NULL)
        return;
    if (fgets(line, LINE_BYTES, file) == NULL)
        line[0] = '\0';
    fclose(file);
    line[strcspn(line, "\n")] = '\0';
}

/* Of a control group (version 2) whose memory is limited; 0: it is not. */
static uint64_t group_limit_bytes(void)
{
    char line[LINE_BYTES], path[LINE_BYTES + 64];

    read_line("/proc/self/cgroup", line);
    if (strncmp(line, "0::/", 4) != 0)
        return 0;
    snprintf(path, sizeof(path), "/sys/fs/cgroup%s/memory.max", line + 3);
    read_line(path, line);
    return strtoull(line, NULL, 10);
}

static void check_memory(const struct settings *settings, struct findings *findings)
{
    const uint64_t of_group = group_limit_bytes();
    const uint64_t of_machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t there = of_group != 0 && of_group < of_machine ? of_group : of_machine;
    const uint64_t of_loop =
        (uint64_t)CLIENT_UPLOADS_BYTES_MAX + CLIENT_ANSWERS_BYTES_MAX + settings->shelf_bytes;
    const uint64_t needed = settings->guard.near_bytes + limits_loops(settings) * of_loop +
                            (uint64_t)settings->max_connections * POOL_BYTES +
                            (uint64_t)settings->guard.max_loads * settings->guard.max_value_bytes;

    if (needed <= there / 2)
        findings_ok(findings, "memory", "%" PRIu64 " MiB at the most, of %" PRIu64, needed / MIB,
                    there / MIB);
    else
        findings_add(findings, needed > there ? VERDICT_WRONG : VERDICT_WARNING, "memory",
                     "lower NEAR_BYTES, SHELF_BYTES, MAX_CONNECTIONS or SERVER_LOOPS, or raise MemoryMax",
                     "up to %" PRIu64 " MiB are needed, of %" PRIu64, needed / MIB, there / MIB);
}

static void check_queue(struct findings *findings)
{
    char most[LINE_BYTES];

    read_line("/proc/sys/net/core/somaxconn", most);
    if (most[0] == '\0')
        return;
    if (strtoul(most, NULL, 10) >= LISTENER_BACKLOG)
        findings_ok(findings, "queue of connections", "net.core.somaxconn is %s", most);
    else
        findings_add(
            findings, VERDICT_WARNING, "queue of connections",
            "sysctl net.core.somaxconn=4096 (60-catalogd.conf): beyond it clients wait a second and more",
            "net.core.somaxconn is %s", most);
}

static void check_own_clock(struct findings *findings)
{
    struct timex state = {.modes = 0};
    const int told = adjtimex(&state);

    if (told < 0)
        return; /* we may not ask */
    if (told == TIME_ERROR || (state.status & STA_UNSYNC) != 0)
        findings_add(findings, VERDICT_WARNING, "clock",
                     "run chrony or systemd-timesyncd (on the host, where this is a container)",
                     "the kernel says that nothing keeps it in step");
    else
        findings_ok(findings, "clock", "kept in step");
}

/* ---- files ---- */

static void check_token(struct findings *findings, const char *setting, const char *path)
{
    struct stat status;
    struct token token;

    if (path[0] == '\0')
        return;
    if (stat(path, &status) == 0 && (status.st_mode & (S_IRWXO | S_IWGRP)) != 0)
        findings_add(findings, VERDICT_WRONG, setting, "chmod 600", "others may read or write %s", path);
    else if (!token_read(setting, path, &token))
        findings_add(findings, VERDICT_WRONG, setting,
                     "its first line must be 16 to 256 printable ASCII characters without a space",
                     "%s holds no token", path);
    else
        findings_ok(findings, setting, "%s holds a token that others cannot read", path);
    token_clear(&token);
}

/* That its folder may be written to, the settings have been checked for. */
static void check_file(struct findings *findings, const char *setting, const char *path)
{
    if (path[0] == '\0')
        return;
    if (access(path, F_OK) == 0 && access(path, W_OK) != 0)
        findings_add(findings, VERDICT_WRONG, setting, "chown it to the user of the service",
                     "%s is there and may not be written to", path);
    else
        findings_ok(findings, setting, "%s may be written to", path);
}

/* ---- addresses ---- */

/* Connected; given up after ASK_MS. -1: nothing accepts there. */
static int connect_to(const struct address *address)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    const struct timeval limit = {.tv_sec = ASK_MS / 1000};
    struct sockaddr_un path = {.sun_family = AF_UNIX};
    struct addrinfo *info = NULL;
    char port[8];

    snprintf(port, sizeof(port), "%u", (unsigned)address->port);
    snprintf(path.sun_path, sizeof(path.sun_path), "%s", address->is_unix ? address->host : "");
    if (!address->is_unix &&
        getaddrinfo(address->host[0] != '\0' ? address->host : NULL, port, &hints, &info) != 0)
        return -1;
    int fd = socket(info != NULL ? info->ai_family : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) != 0 ||
                    connect(fd, info != NULL ? info->ai_addr : (const struct sockaddr *)&path,
                            info != NULL ? info->ai_addrlen : sizeof(path)) != 0)) {
        close(fd);
        fd = -1;
    }
    if (info != NULL)
        freeaddrinfo(info);
    return fd;
}

static void check_listen(struct findings *findings, const char *setting, const char *text)
{
    const struct listener_options options = {
        .setting = text, .use = GIVEN_HTTP, .fd_count = 1, .path_mode = 0600};
    struct listener listener;
    struct address address;

    if (strcmp(text, "off") == 0 || !address_parse(text, &address))
        return;
    const int fd = address.is_unix || address.port != 0 ? connect_to(&address) : -1;
    if (fd >= 0) {
        close(fd);
        findings_add(findings, VERDICT_WARNING, setting,
                     "if it is neither the service nor catalogd.socket, something else has the address",
                     "%s is listened on", text);
    } else if (listener_open(&options, &listener)) {
        findings_ok(findings, setting, "%s is free", text);
        listener_unlink(&listener);
        listener_clear(&listener);
    } else {
        findings_add(
            findings, VERDICT_WRONG, setting,
            "name an address of this machine, a free port above 1023, or a folder that may be written to",
            "%s cannot be listened on", text);
    }
}

void check_machine(const struct settings *settings, struct findings *findings)
{
    check_descriptors(settings, findings);
    check_memory(settings, findings);
    check_cores(settings, findings);
    check_queue(findings);
    check_own_clock(findings);
    check_token(findings, "OPS_TOKEN_FILE", settings->ops_token_file);
    check_token(findings, "REVALIDATE_TOKEN_FILE", settings->revalidate_token_file);
    check_file(findings, "ACCESS_LOG_FILE", settings->access_log_file);
    check_listen(findings, "LISTEN", settings->listen);
    check_listen(findings, "OPS_LISTEN", settings->ops_listen);
}

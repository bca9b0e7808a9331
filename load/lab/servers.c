/* SPDX-License-Identifier: MIT */
/* servers.c - see trial.h. */
#include "load/lab/trial.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PROXY_SEED = 1, SHIM_MODE = 0755, CLOCK_MODE = 0644 };

/* ---- the clock ---- */

/* For the user that Redis runs as. */
static bool copy_shim(const char *to)
{
    char bytes[65536];
    const char *from = getenv("CHAOS_SHIM");
    FILE *in = from != NULL ? fopen(from, "re") : NULL, *out = in != NULL ? fopen(to, "we") : NULL;
    bool good = out != NULL;
    for (size_t got = sizeof bytes; good && got == sizeof bytes;) {
        got = fread(bytes, 1, sizeof bytes, in);
        good = fwrite(bytes, 1, got, out) == got;
    }
    if (in != NULL)
        fclose(in);
    if (out != NULL)
        good = fclose(out) == 0 && good;
    return good && chmod(to, SHIM_MODE) == 0;
}

static bool map_clock(struct servers *servers, const char *path)
{
    const int64_t none = 0;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, CLOCK_MODE);
    if (fd == -1)
        return false;
    void *map = write(fd, &none, sizeof none) == sizeof none
                    ? mmap(NULL, sizeof none, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                    : MAP_FAILED;
    close(fd);
    servers->offset_s = map != MAP_FAILED ? map : NULL;
    return servers->offset_s != NULL;
}

/* Without the library it has the machine's clock, and only the failure that steps it cannot be run. */
static bool start_clocked(struct servers *servers, struct stack_redis *master)
{
    char shim[PROC_PATH_BYTES + 16], clock[PROC_PATH_BYTES + 16];
    if (!proc_folder("clock", proc_plain_user(), servers->clock_folder))
        return false;
    snprintf(shim, sizeof shim, "%s/shim.so", servers->clock_folder);
    snprintf(clock, sizeof clock, "%s/clock", servers->clock_folder);
    if (!copy_shim(shim) || !map_clock(servers, clock))
        return stack_redis_start(master, NULL);
    setenv("CHAOS_CLOCK_FILE", clock, 1);
    setenv("LD_PRELOAD", shim, 1);
    const bool good = stack_redis_start(master, NULL);
    unsetenv("LD_PRELOAD");
    unsetenv("CHAOS_CLOCK_FILE");
    return good;
}

bool servers_step_clock(struct servers *servers, int64_t ahead_s)
{
    if (servers->offset_s != NULL)
        atomic_store(servers->offset_s, ahead_s);
    else
        fprintf(stderr, "lab: no clock to step: CHAOS_SHIM names no library (make lab sets it)\n");
    return servers->offset_s != NULL;
}

/* ---- the masters ---- */

static bool start_masters(struct servers *servers)
{
    if (!proxy_open(PROXY_SEED, &servers->proxy))
        return false;
    for (size_t i = 0; i < SERVERS_MASTERS; i++) {
        struct stack_redis *master = &servers->masters[i];
        const bool good =
            i == SERVERS_CLOCKED ? start_clocked(servers, master) : stack_redis_start(master, NULL);
        if (!good || !proxy_add(servers->proxy, master->port, &servers->routes[i]))
            return false;
    }
    return true;
}

bool servers_masters(struct servers *servers, bool is_first, char urls[static LAB_URLS_BYTES])
{
    size_t used = 0;
    if (servers->proxy == NULL && !start_masters(servers))
        return false;
    for (size_t i = 0; i < SERVERS_MASTERS; i++) {
        const uint16_t port =
            is_first ? proxy_port(servers->proxy, servers->routes[i]) : servers->masters[i].port;
        used += (size_t)snprintf(urls + used, LAB_URLS_BYTES - used, "%sredis://127.0.0.1:%u/0",
                                 i > 0 ? " " : "", (unsigned)port);
    }
    return true;
}

void servers_fault(struct servers *servers, size_t master, enum proxy_fault fault)
{
    proxy_set(servers->proxy, servers->routes[master], fault, 0);
}

void servers_mend(struct servers *servers)
{
    for (size_t i = 0; servers->proxy != NULL && i < SERVERS_MASTERS; i++)
        servers_fault(servers, i, PROXY_NONE);
    if (servers->zookeeper_proxy != NULL)
        proxy_set(servers->zookeeper_proxy, 0, PROXY_NONE, 0);
    if (servers->offset_s != NULL)
        atomic_store(servers->offset_s, 0);
}

/* ---- the others ---- */

bool servers_pooler(struct servers *servers, const struct stack_postgres *postgres,
                    char url[static LAB_URLS_BYTES])
{
    if (servers->pooler.server.pid == 0 && !stack_pgbouncer_start(&servers->pooler, postgres, "transaction"))
        return false;
    snprintf(url, LAB_URLS_BYTES, "%s", servers->pooler.url);
    return true;
}

bool servers_zookeeper(struct servers *servers, bool is_first, char url[static LAB_URLS_BYTES])
{
    if (servers->zookeeper.count == 0 &&
        (!stack_zookeeper_start(&servers->zookeeper, 1) ||
         !proxy_open_to(servers->zookeeper.servers[0].port, &servers->zookeeper_proxy)))
        return false;
    const uint16_t port =
        is_first ? proxy_port(servers->zookeeper_proxy, 0) : servers->zookeeper.servers[0].port;
    snprintf(url, LAB_URLS_BYTES, "127.0.0.1:%u", (unsigned)port);
    return true;
}

void servers_stop(struct servers *servers)
{
    proxy_close(&servers->proxy);
    for (size_t i = 0; i < SERVERS_MASTERS; i++) {
        if (servers->masters[i].pid > 0)
            stack_redis_stop(&servers->masters[i]);
    }
    if (servers->offset_s != NULL)
        munmap((void *)servers->offset_s, sizeof *servers->offset_s);
    if (servers->clock_folder[0] != '\0')
        proc_remove(servers->clock_folder);
    stack_pgbouncer_stop(&servers->pooler);
    proxy_close(&servers->zookeeper_proxy);
    stack_zookeeper_stop(&servers->zookeeper);
    *servers = (struct servers){.proxy = NULL};
}

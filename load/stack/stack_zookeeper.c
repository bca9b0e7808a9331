/* SPDX-License-Identifier: MIT */
/*
 * stack_zookeeper.c - a private ZooKeeper; see stack.h.
 *
 * What Debian's libzookeeper-java has of the server is one archive; it names the others it needs, except where its
 * log goes. Nothing but the folder of that server is written.
 */
#include "load/base/clock.h"
#include "load/base/http.h"
#include "load/base/net.h"
#include "load/stack/stack.h"

#include <assert.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    START_LIMIT_MS = 60000,
    STOP_LIMIT_MS = 5000,
    ASK_LIMIT_MS = 5000,
    LOOK_EVERY_MS = 5,
    START_TRIES = 5
};

/* A small machine that starts fast: no second compiler, no collector of many threads. */
static const char *const java[] = {
    "java",
    "-Xmx96m",
    "-Xshare:auto",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dzookeeper.forceSync=no",
    "-Dznode.container.checkIntervalMs=500",
    "-cp",
    "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar",
    "org.apache.zookeeper.server.quorum.QuorumPeerMain",
};
enum { JAVA_ARGUMENTS = sizeof java / sizeof *java };
enum { FOLDER_BYTES = PROC_PATH_BYTES + 24, SETTINGS_BYTES = FOLDER_BYTES + 16 };

/* ---- asking ---- */

bool stack_zookeeper_ask(const struct stack_zookeeper *zookeeper, size_t at, const char *word, char *text,
                         size_t text_bytes)
{
    struct http_raw raw;
    http_raw_ask("127.0.0.1", zookeeper->servers[at].port, word, strlen(word), ASK_LIMIT_MS, &raw);
    bool answered = raw.count > 0;
    snprintf(text, text_bytes, "%s", raw.bytes);
    http_raw_clear(&raw);
    return answered;
}

/* One that has no majority says that it does not serve. */
static bool serves(const struct stack_zookeeper *zookeeper, size_t at)
{
    char text[1024];
    return stack_zookeeper_ask(zookeeper, at, "srvr", text, sizeof text) && strstr(text, "Mode: ") != NULL;
}

/* ---- one server ---- */

static void server_folder(const struct stack_zookeeper *zookeeper, size_t at, char path[static FOLDER_BYTES])
{
    snprintf(path, FOLDER_BYTES, "%s/%zu", zookeeper->folder, at + 1);
}

static void write_ensemble(FILE *file, const struct stack_zookeeper *zookeeper)
{
    for (size_t i = 0; i < zookeeper->count; i++)
        fprintf(file, "server.%zu=127.0.0.1:%u:%u\n", i + 1, (unsigned)zookeeper->servers[i].follow_port,
                (unsigned)zookeeper->servers[i].election_port);
}

/* The server counts its limits in ticks: ten seconds, so that a machine that stands still is no reason to part. */
static bool write_settings(const struct stack_zookeeper *zookeeper, size_t at, const char *folder)
{
    char path[SETTINGS_BYTES];
    snprintf(path, sizeof path, "%s/settings", folder);
    FILE *file = fopen(path, "we");
    if (file == NULL)
        return false;
    fprintf(
        file,
        "clientPort=%u\nclientPortAddress=127.0.0.1\ndataDir=%s\ntickTime=%d\ninitLimit=%d\nsyncLimit=%d\n"
        "minSessionTimeout=100\nmaxSessionTimeout=60000\nmaxClientCnxns=0\nadmin.enableServer=false\n"
        "4lw.commands.whitelist=*\n",
        (unsigned)zookeeper->servers[at].port, folder, STACK_ZOOKEEPER_TICK_MS,
        10000 / STACK_ZOOKEEPER_TICK_MS, 10000 / STACK_ZOOKEEPER_TICK_MS);
    if (zookeeper->count > 1)
        write_ensemble(file, zookeeper);
    return fclose(file) == 0;
}

static bool write_number(size_t at, const char *folder)
{
    char path[SETTINGS_BYTES];
    snprintf(path, sizeof path, "%s/myid", folder);
    FILE *file = fopen(path, "we");
    if (file == NULL)
        return false;
    fprintf(file, "%zu\n", at + 1);
    return fclose(file) == 0;
}

static bool launch(struct stack_zookeeper *zookeeper, size_t at)
{
    struct stack_zookeeper_server *server = &zookeeper->servers[at];
    char folder[FOLDER_BYTES], settings[SETTINGS_BYTES];
    const char *argv[JAVA_ARGUMENTS + 2] = {NULL};
    server_folder(zookeeper, at, folder);
    snprintf(settings, sizeof settings, "%s/settings", folder);
    memcpy(argv, java, sizeof java);
    argv[JAVA_ARGUMENTS] = settings;
    server->pid = proc_start(
        &(struct proc_options){.argv = argv, .output_path = server->log_path, .user = proc_plain_user()});
    return server->pid > 0;
}

/* False: it ended, or does not serve in time. */
static bool wait_until_serves(struct stack_zookeeper *zookeeper, size_t at, uint64_t end_us)
{
    struct stack_zookeeper_server *server = &zookeeper->servers[at];
    while (!serves(zookeeper, at)) {
        if (proc_wait(server->pid, LOOK_EVERY_MS, NULL))
            server->pid = 0;
        if (server->pid == 0 || clock_us() >= end_us)
            return false;
    }
    return true;
}

static bool complain(const struct stack_zookeeper *zookeeper, size_t at)
{
    return private_complain("ZooKeeper", "did not start (sh load/deps.sh zookeeper installs it)",
                            zookeeper->servers[at].log_path);
}

/* ---- all of them ---- */

static void choose_ports(struct stack_zookeeper *zookeeper)
{
    size_t length = 0;
    for (size_t i = 0; i < zookeeper->count; i++) {
        struct stack_zookeeper_server *server = &zookeeper->servers[i];
        server->port = net_free_port();
        server->follow_port = net_free_port();
        server->election_port = net_free_port();
        length += (size_t)snprintf(zookeeper->url + length, sizeof zookeeper->url - length, "%s127.0.0.1:%u",
                                   i > 0 ? "," : "", (unsigned)server->port);
    }
}

static bool make_server(struct stack_zookeeper *zookeeper, size_t at)
{
    char folder[FOLDER_BYTES];
    server_folder(zookeeper, at, folder);
    return write_settings(zookeeper, at, folder) && write_number(at, folder) && launch(zookeeper, at);
}

static void kill_all(struct stack_zookeeper *zookeeper)
{
    for (size_t i = 0; i < zookeeper->count; i++)
        proc_kill_tree(&zookeeper->servers[i].pid);
}

/* The number of the first that does not serve, `count` if all do. */
static size_t start_all(struct stack_zookeeper *zookeeper)
{
    uint64_t end_us = clock_after_ms(START_LIMIT_MS);
    for (size_t i = 0; i < zookeeper->count; i++) {
        if (!make_server(zookeeper, i))
            return i;
    }
    for (size_t i = 0; i < zookeeper->count; i++) {
        if (!wait_until_serves(zookeeper, i, end_us))
            return i;
    }
    return zookeeper->count;
}

/* Theirs, for they write into it. */
static bool make_folders(struct stack_zookeeper *zookeeper)
{
    char folder[FOLDER_BYTES];
    struct stat parent;
    if (!proc_folder("zookeeper", proc_plain_user(), zookeeper->folder) ||
        stat(zookeeper->folder, &parent) != 0)
        return false;
    for (size_t i = 0; i < zookeeper->count; i++) {
        server_folder(zookeeper, i, folder);
        snprintf(zookeeper->servers[i].log_path, sizeof zookeeper->servers[i].log_path, "%s/log%zu",
                 zookeeper->folder, i + 1);
        if (mkdir(folder, 0755) != 0 || chown(folder, parent.st_uid, parent.st_gid) != 0)
            return false;
    }
    return true;
}

bool stack_zookeeper_start(struct stack_zookeeper *zookeeper, size_t count)
{
    assert(count == 1 || count == STACK_ZOOKEEPER_MOST);
    *zookeeper = (struct stack_zookeeper){.count = count};
    size_t wrong = 0;
    if (!make_folders(zookeeper))
        return false;
    for (int i = 0; i < START_TRIES; i++) { /* somebody may take a port first */
        choose_ports(zookeeper);
        wrong = start_all(zookeeper);
        if (wrong == count)
            return true;
        kill_all(zookeeper);
    }
    return complain(zookeeper, wrong);
}

bool stack_zookeeper_restart(struct stack_zookeeper *zookeeper, size_t at)
{
    proc_resume(zookeeper->servers[at].pid);
    if (zookeeper->servers[at].pid > 0)
        proc_stop(&zookeeper->servers[at].pid, SIGTERM, STOP_LIMIT_MS);
    return (launch(zookeeper, at) && wait_until_serves(zookeeper, at, clock_after_ms(START_LIMIT_MS))) ||
           complain(zookeeper, at);
}

/* They have nothing to save, and one without the others would take its time to end. */
void stack_zookeeper_stop(struct stack_zookeeper *zookeeper)
{
    kill_all(zookeeper);
    if (zookeeper->folder[0] != '\0')
        proc_remove(zookeeper->folder);
    *zookeeper = (struct stack_zookeeper){.count = 0};
}

/* SPDX-License-Identifier: MIT */
/*
 * peer_scripts.c - peers that are libraries: two processes of a small HTTP server of ours around each.
 *
 * The server is told by its environment: PORT, ORIGIN (http://127.0.0.1:port), REDIS_PORT, TTL_S, STALE_S and PEER
 * (its name). It answers GET /ping itself and everything else with the origin's document through its cache.
 *
 * Node.js (bentocache, async-cache-dedupe): packages are in a folder made by install.sh, beside copies of node/ (a
 * module finds its packages from where it lies): $PEERS_NODE, build/peers_node without it. How each is set up stands
 * in node/.
 *
 * Python (dogpile.cache, and the pattern of Redis's own guide): waitress, a thread for each request of a burst, see
 * python/serve.py. Debian's Python, for its packages are not seen by others.
 */
#include "load/peers/peers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where it stands, and what it needs. */
struct peer_script {
    const char *file;     /* node: in folder() */
    const char *package;  /* node: npm's */
    const char *modules;  /* python: separated by commas */
    const char *packages; /* python: Debian's */
    const char *versions; /* python: an expression for the words that name them */
};

static bool start(struct peer *peer, size_t index, const char *program, const char *file,
                  const struct stage *stage, const struct terms *terms)
{
    char name[48], origin[64], redis[32], ttl[32], stale[32];
    const char *const arguments[] = {program, file, NULL};
    const char *const settings[] = {"PORT={port}", name, origin, redis, ttl, stale, NULL};
    const struct rival_plan plan = {.name = peer->name, .arguments = arguments, .settings = settings};
    snprintf(name, sizeof name, "PEER=%s", peer->name);
    snprintf(origin, sizeof origin, "ORIGIN=http://127.0.0.1:%u", (unsigned)stage->origin_port);
    snprintf(redis, sizeof redis, "REDIS_PORT=%u", (unsigned)stage->redis.port);
    snprintf(ttl, sizeof ttl, "TTL_S=%" PRIu32, terms->ttl_ms / 1000);
    snprintf(stale, sizeof stale, "STALE_S=%" PRIu32, terms->stale_ms / 1000);
    return rival_start(&peer->rivals[index], &plan) ||
           peer_fail(peer, "%.60s with %.80s did not start", program, file);
}

/* ---- Node.js ---- */

static const char *folder(void)
{
    const char *given = getenv("PEERS_NODE");
    return given != NULL && given[0] != '\0' ? given : "build/peers_node";
}

/* install.sh leaves the reason there when npm fails. */
static bool why_not(struct peer *peer, const char *package)
{
    char path[PEER_TEXT_BYTES], line[PEER_TEXT_BYTES] = "";
    snprintf(path, sizeof path, "%.150s/failure", folder());
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        if (fgets(line, sizeof line, file) == NULL)
            line[0] = '\0';
        fclose(file);
    }
    return peer_fail(peer, "npm's %s is not in %.60s; make peers installs it%s%.60s", package, folder(),
                     line[0] != '\0' ? ": " : "", line);
}

static bool node_look(struct peer *peer)
{
    char command[512], line[PEER_TEXT_BYTES];
    const char *package = peer->script->package;
    if (!rival_first_line("node --version", line, sizeof line))
        return peer_fail(peer, "no Node.js (Debian: nodejs, npm): %.100s", line);
    snprintf(command, sizeof command,
             "cd '%.150s' && node -p \"'Node ' + process.version + ', %s ' + "
             "require('./node_modules/%s/package.json').version\"",
             folder(), package, package);
    if (rival_first_line(command, peer->version, sizeof peer->version))
        return true;
    peer->version[0] = '\0';
    return why_not(peer, package);
}

static bool node_start(struct peer *peer, size_t index, const struct stage *stage, const struct terms *terms)
{
    char file[PEER_TEXT_BYTES];
    snprintf(file, sizeof file, "%.150s/%s", folder(), peer->script->file);
    return start(peer, index, "node", file, stage, terms);
}

/* ---- Python ---- */

static const char *python(void)
{
    static const char debian[] = "/usr/bin/python3";
    return access(debian, X_OK) == 0 ? debian : "python3";
}

/* The last line of a traceback says what is missing. */
static bool python_look(struct peer *peer)
{
    char command[512], line[PEER_TEXT_BYTES];
    snprintf(command, sizeof command,
             "%s -c 'import platform, %s\nfrom importlib.metadata import version as v\n"
             "print(\"Python\", platform.python_version() + \", \" + %s)' 2>&1 | tail -n 1 | "
             "{ read -r line; echo \"$line\"; case $line in Python*) ;; *) false ;; esac; }",
             python(), peer->script->modules, peer->script->versions);
    if (!rival_first_line(command, line, sizeof line))
        return peer_fail(peer, "not installed (Debian: %s): %.80s", peer->script->packages, line);
    snprintf(peer->version, sizeof peer->version, "%s", line);
    return true;
}

static bool python_start(struct peer *peer, size_t index, const struct stage *stage,
                         const struct terms *terms)
{
    return start(peer, index, python(), peer->script->file, stage, terms);
}

/* ---- the four ---- */

static const struct peer_script bentocache = {.file = "bentocache.mjs", .package = "bentocache"},
                                dedupe = {.file = "dedupe.mjs", .package = "async-cache-dedupe"};

static const struct peer_script dogpile = {
    .file = "load/peers/python/dogpile_peer.py",
    .modules = "dogpile.cache, redis, waitress",
    .packages = "python3-dogpile.cache, python3-redis, python3-waitress",
    .versions = "\"dogpile.cache \" + v(\"dogpile.cache\") + \", redis-py \" + v(\"redis\") + "
                "\", waitress \" + v(\"waitress\")",
};

static const struct peer_script guide = {
    .file = "load/peers/python/guide_peer.py",
    .modules = "redis, waitress",
    .packages = "python3-redis, python3-waitress",
    .versions = "\"redis-py \" + v(\"redis\") + \", waitress \" + v(\"waitress\")",
};

struct peer peer_bentocache = {
    .name = "bentocache",
    .what = "Node, two processes: memory before one Redis, a bus between them, grace",
    .uses_redis = true,
    .look = node_look,
    .start = node_start,
    .script = &bentocache,
};

struct peer peer_dedupe = {
    .name = "dedupe",
    .what = "Node, two processes with async-cache-dedupe on one Redis, stale",
    .uses_redis = true,
    .look = node_look,
    .start = node_start,
    .script = &dedupe,
};

struct peer peer_dogpile = {
    .name = "dogpile",
    .what = "Python, two processes with dogpile.cache on one Redis, distributed_lock",
    .uses_redis = true,
    .look = python_look,
    .start = python_start,
    .script = &dogpile,
};

struct peer peer_guide = {
    .name = "guide",
    .what = "Python, two processes with the pattern of Redis's guide: SET NX PX, poll, release by Lua",
    .uses_redis = true,
    .look = python_look,
    .start = python_start,
    .script = &guide,
};

/* SPDX-License-Identifier: MIT */
/*
 * peer_node.c - two libraries of Node.js on Redis: bentocache and async-cache-dedupe.
 *
 * Their packages are in a folder made by install.sh, beside copies of node/ (a module finds its packages from
 * where it lies): $PEERS_NODE, build/peers_node without it. How each is set up stands in node/.
 */
#include "load/peers/script.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct rival bentocache[PEER_INSTANCES], dedupe[PEER_INSTANCES];

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

static bool look_for(struct peer *peer, const char *package)
{
    char command[512], line[PEER_TEXT_BYTES];
    if (!rival_first_line("node --version", line, sizeof line))
        return peer_fail(peer, "no Node.js (Debian: nodejs, npm): %.100s", line);
    snprintf(command, sizeof command,
             "cd '%.150s' && node -p \"'Node ' + process.version + ', %s ' + "
             "require('./node_modules/%s/package.json').version\"",
             folder(), package, package);
    if (!rival_first_line(command, peer->version, sizeof peer->version)) {
        peer->version[0] = '\0';
        return why_not(peer, package);
    }
    return true;
}

static bool start_script(struct peer *peer, struct rival servers[static PEER_INSTANCES], const char *name,
                         const struct stage *stage, const struct terms *terms)
{
    char script[PEER_TEXT_BYTES];
    snprintf(script, sizeof script, "%.150s/%s", folder(), name);
    return script_start(peer, servers, "node", script, stage, terms);
}

static bool bentocache_look(struct peer *peer)
{
    return look_for(peer, "bentocache");
}

static bool bentocache_start(struct peer *peer, const struct stage *stage, const struct terms *terms)
{
    return start_script(peer, bentocache, "bentocache.mjs", stage, terms);
}

static void bentocache_stop(struct peer *peer)
{
    (void)peer;
    script_stop(bentocache);
}

static bool dedupe_look(struct peer *peer)
{
    return look_for(peer, "async-cache-dedupe");
}

static bool dedupe_start(struct peer *peer, const struct stage *stage, const struct terms *terms)
{
    return start_script(peer, dedupe, "dedupe.mjs", stage, terms);
}

static void dedupe_stop(struct peer *peer)
{
    (void)peer;
    script_stop(dedupe);
}

struct peer peer_bentocache = {
    .name = "bentocache",
    .what = "Node, two processes: memory before one Redis, a bus between them, grace",
    .uses_redis = true,
    .look = bentocache_look,
    .start = bentocache_start,
    .stop = bentocache_stop,
};

struct peer peer_dedupe = {
    .name = "dedupe",
    .what = "Node, two processes with async-cache-dedupe on one Redis, stale",
    .uses_redis = true,
    .look = dedupe_look,
    .start = dedupe_start,
    .stop = dedupe_stop,
};

/* SPDX-License-Identifier: MIT */
/*
 * peer_python.c - two ways of Python on Redis: dogpile.cache, and the pattern of Redis's own guide.
 *
 * Two processes of waitress, a thread for each request of a burst, see python/serve.py. Debian's Python, for its
 * packages are not seen by others.
 */
#include "load/peers/script.h"

#include <stdio.h>
#include <unistd.h>

static struct rival dogpile[PEER_INSTANCES], guide[PEER_INSTANCES];

static const char *python(void)
{
    static const char debian[] = "/usr/bin/python3";
    return access(debian, X_OK) == 0 ? debian : "python3";
}

/* `modules` separated by commas; the last line of a traceback says what is missing. */
static bool look_for(struct peer *peer, const char *modules, const char *packages, const char *versions)
{
    char command[512], line[PEER_TEXT_BYTES];
    snprintf(command, sizeof command,
             "%s -c 'import platform, %s\nfrom importlib.metadata import version as v\n"
             "print(\"Python\", platform.python_version() + \", \" + %s)' 2>&1 | tail -n 1 | "
             "{ read -r line; echo \"$line\"; case $line in Python*) ;; *) false ;; esac; }",
             python(), modules, versions);
    if (!rival_first_line(command, line, sizeof line))
        return peer_fail(peer, "not installed (Debian: %s): %.80s", packages, line);
    snprintf(peer->version, sizeof peer->version, "%s", line);
    return true;
}

static bool dogpile_look(struct peer *peer)
{
    return look_for(peer, "dogpile.cache, redis, waitress",
                    "python3-dogpile.cache, python3-redis, python3-waitress",
                    "\"dogpile.cache \" + v(\"dogpile.cache\") + \", redis-py \" + v(\"redis\") + "
                    "\", waitress \" + v(\"waitress\")");
}

static bool dogpile_start(struct peer *peer, const struct stage *stage, const struct terms *terms)
{
    return script_start(peer, dogpile, python(), "load/peers/python/dogpile_peer.py", stage, terms);
}

static void dogpile_stop(struct peer *peer)
{
    (void)peer;
    script_stop(dogpile);
}

static bool guide_look(struct peer *peer)
{
    return look_for(peer, "redis, waitress", "python3-redis, python3-waitress",
                    "\"redis-py \" + v(\"redis\") + \", waitress \" + v(\"waitress\")");
}

static bool guide_start(struct peer *peer, const struct stage *stage, const struct terms *terms)
{
    return script_start(peer, guide, python(), "load/peers/python/guide_peer.py", stage, terms);
}

static void guide_stop(struct peer *peer)
{
    (void)peer;
    script_stop(guide);
}

struct peer peer_dogpile = {
    .name = "dogpile",
    .what = "Python, two processes with dogpile.cache on one Redis, distributed_lock",
    .uses_redis = true,
    .look = dogpile_look,
    .start = dogpile_start,
    .stop = dogpile_stop,
};

struct peer peer_guide = {
    .name = "guide",
    .what = "Python, two processes with the pattern of Redis's guide: SET NX PX, poll, release by Lua",
    .uses_redis = true,
    .look = guide_look,
    .start = guide_start,
    .stop = guide_stop,
};

/* SPDX-License-Identifier: MIT */
/*
 * rival.h - what all private servers share, those of stack.h too; and one process of a server that is not ours, an
 * nginx or a Varnish, say: a free port, a folder that goes with the program, started when it answers; and wrk, which
 * asks them.
 *
 * Threads: as proc.h has it. Errors: false, and the reason with the end of the log on stderr.
 */
#pragma once

#include "load/base/proc.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- a private server ---- */

/* A folder of the user's, and the path of its log there. */
bool private_begin(const char *name, const char *user, char folder[static PROC_PATH_BYTES],
                   char log_path[static PROC_PATH_BYTES + 16]);
/* Launches it, again where that fails: each time it takes new ports, of which another program may have one. */
bool private_launch(bool (*launch)(void *server), void *server, const char *name, const char *log_path);
/* Shows the end of the log and what is wrong: "did not start". Returns false. */
bool private_complain(const char *name, const char *what, const char *log_path);
/* Stops it, if it runs, and removes the folder. False: it had to be killed. */
bool private_end(pid_t *pid, int signal, uint32_t limit_ms, const char *folder);

/* ---- a rival ---- */

enum { RIVAL_ARGUMENTS_MAX = 24, RIVAL_TEXT_BYTES = 512, RIVAL_FILE_BYTES = 8192 };

struct rival {
    pid_t pid;
    uint16_t port; /* on 127.0.0.1 */
    char folder[PROC_PATH_BYTES];
    char log_path[PROC_PATH_BYTES + 16];
};

/* How to start it. In `arguments`, `settings` and `file_text`, {port} and {folder} stand for the server's own. */
struct rival_plan {
    const char *name;             /* of the folder, and of the file in it */
    const char *const *arguments; /* the program first; ends with NULL */
    const char *const *settings;  /* "NAME=value"; ends with NULL; NULL: none */
    const char *file_text;        /* its configuration, {folder}/name; NULL: none */
    const char *user;             /* NULL: ourselves */
    bool (*is_up)(void *rival);   /* NULL: GET /ping is answered with 200 */
};

/* Returns when it is up. */
bool rival_start(struct rival *rival, const struct rival_plan *plan);
/* Accepts a struct that is all zeros. */
void rival_stop(struct rival *rival);

/* The first line that a shell command prints, stderr included; false: it failed, the line says why. */
bool rival_first_line(const char *command, char *line, size_t line_bytes);

/* ---- nginx ---- */

/*
 * A cache before one server: proxy_cache, which is what most people would put there, with proxy_cache_lock on; or
 * with a Redis our module in its place, with a near cache, and purges at /purge?key=. Kept-alive connections on both
 * sides, nothing logged, everything in a temporary folder that goes with this program (proc.h). What came with 200 is
 * cached as long as the options say, whatever its Cache-Control says. The server is told X-Worker, the pid of the
 * worker that asks.
 */

struct nginx_options {
    uint16_t origin_port;
    uint32_t valid_s; /* for how long what came with 200 is cached */
    uint32_t stale_s; /* and then served while one request renews it; 0: not. proxy_cache knows no limit */
    uint32_t workers; /* 0: one */
    const char *module_path; /* ours, as nginx_module() has it; NULL: proxy_cache */
    uint16_t redis_port;     /* of the module */
};

/* A copy of $NGINX_MODULE that whoever nginx runs as can read. False: it is not built. */
bool nginx_module(char path[static RIVAL_TEXT_BYTES]);
/* Returns when it answers; its pid is the master's, the workers are its children. rival_stop() stops it. */
bool nginx_start(struct rival *nginx, const struct nginx_options *options);
/* Another configuration, in which {port} and {folder} stand for its own; `is_up` as in a plan. */
bool nginx_start_as(struct rival *nginx, const char *configuration, bool (*is_up)(void *nginx));

/* ---- Varnish ---- */

/*
 * Before one server: documents in memory. Requests for a document that is being fetched wait for it without being
 * told to, and within beresp.grace an expired one is served while one fetch renews it:
 * varnish-cache.org/docs/trunk/users-guide/vcl-grace.html. Two thread pools of a hundred threads, the defaults. It
 * runs in a private folder as an ordinary user, without jail and without management port. Documents go by their path
 * alone: by Varnish's own rule a document has a copy for each Host.
 */

struct varnish_options {
    uint16_t origin_port;
    uint32_t ttl_ms;   /* whatever the origin says for how long a client may keep its answer */
    uint32_t grace_ms; /* an expired document is served so much longer while one fetch renews it */
};

/* Returns when it answers; rival_stop() stops it. */
bool varnish_start(struct rival *varnish, const struct varnish_options *options);

/* ---- wrk ---- */

/* One run of the HTTP load generator: one thread, connections that stay open, as fast as the server answers. */

/* How the numbers are taken, and so what a request costs wrk: with any of them a script hands it each request. */
enum wrk_order {
    WRK_PLAIN = 0, /* no numbers, no script: the path as it is */
    WRK_IN_TURN,
    WRK_BY_ZIPF, /* the lower the oftener, see dice.h; the exponent is 0.99 */
};

struct wrk_options {
    uint16_t port;    /* on 127.0.0.1 */
    const char *path; /* begins with '/'; a number goes where it has a '*', if it has one */
    enum wrk_order order;
    uint32_t first, last;
    uint32_t connection_count;
    uint32_t seconds;
};

struct wrk_result {
    uint64_t requests;
    double requests_per_s;
};

/* False also if a single answer was not 2xx or a connection failed: then nothing was measured. */
bool wrk_run(const struct wrk_options *options, struct wrk_result *out);

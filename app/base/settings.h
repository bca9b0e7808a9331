/* SPDX-License-Identifier: MIT */
/*
 * settings.h - what catalogd is told: by flags, by the environment, by defaults, in this order.
 *
 * One table in settings.c holds every setting's name, kind, default, range and meaning; flags (--fresh-ms 5,
 * --fresh-ms=5), environment (FRESH_MS=5), --help and the error messages follow it. 0 means 0.
 *
 * Every wrong setting is reported, not only the first, with its name, where it came from, its value and what is
 * allowed. The value of a setting that may hold a password is never printed.
 *
 * The room base/ owns what every other room uses and no state but the log's: settings and address (what the process
 * is told), document (the names of what is cached), number, clock, thread, log.
 */
#pragma once

#include "guard/guard.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* What is written of each request. */
enum settings_log { SETTINGS_LOG_OFF = 0, SETTINGS_LOG_COMBINED };

/* Texts are lent from argv, env or the table; none is NULL. */
struct settings {
    struct guard_config guard;  /* complete, except for its log */
    struct guard_policy policy; /* of every kind, without its loader; near_ms counts only with near_bytes */
    const char *listen;         /* host:port, [v6]:port or unix:PATH */
    const char *ops_listen;     /* the same, or "off" */
    const char *ops_token_file; /* "": the operations listener asks for no token */
    const char *revalidate_token_file; /* "": no client may ask past the cache */
    enum settings_log access_log;
    const char *access_log_file;    /* "": stdout */
    const char *database_url;       /* postgresql://... or libpq's keyword=value form */
    const char *write_database_url; /* the same; "": this process only reads */
    bool database_standby;          /* the loads may be of one */
    uint32_t database_session_ms;
    bool prepare;     /* off: behind a pooler that cannot keep prepared statements */
    bool merge_loads; /* products that wait for their load are one query */
    uint32_t write_workers, write_queue;
    uint32_t write_limit_ms, write_lock_ms; /* of one write; of its wait for a row */
    uint32_t outbox_poll_ms;
    uint32_t max_connections;
    uint32_t server_loops; /* as configured; 0: one per core */
    uint32_t shelf_bytes;  /* of each; 0: none */
    uint32_t drain_ms;
    bool cores;             /* a crash may leave a core file */
    uint32_t load_delay_ms; /* PostgreSQL sleeps this long inside every load */
};

enum settings_verdict {
    SETTINGS_OK = 0,  /* *out is set */
    SETTINGS_HELP,    /* --help was said, whatever else: settings_print_help() */
    SETTINGS_VERSION, /* --version was said */
    SETTINGS_WRONG,   /* every reason was written to `messages`, one line each */
};

/* argv[0] is not looked at; argv and env end with NULL. *out is set only on SETTINGS_OK. */
enum settings_verdict settings_read(int argc, char **argv, char **env, struct settings *out, FILE *messages);
void settings_print_help(FILE *out);

struct settings_change {
    const char *name, *value;
};
/*
 * The same settings with these numbers changed, checked as at the start. False: *out is as it was, and each reason
 * was written to `messages`, one line each: a number out of its range, a broken rule, a setting that does not change
 * while the process runs.
 */
bool settings_change(const struct settings *now, const struct settings_change *changes, size_t count,
                     struct settings *out, FILE *messages);
/* The i-th setting that may change; *name is static. Returns how many there are. */
size_t settings_changeable(const struct settings *settings, size_t i, const char **name, uint32_t *value);

/* "fleet", "local", ... */
const char *settings_mode_name(enum guard_mode mode);

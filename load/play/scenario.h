/* SPDX-License-Identifier: MIT */
/*
 * scenario.h - a stampede written down: what is started, what happens when, and what must hold.
 *
 *     scenario_read.c   a file: lines, ${NAMES}; each mistake with its file and line
 *     scenario_take.c   one line, or an option of a run, by one table for both
 *     scenario_event.c  one "at" or "on load" line, by a table of what can happen
 *     scenario_check.c  does it make sense as a whole?
 *     scenario_run.c    runs it
 *
 * `stampede scenario --help` has the language; it is printed from those tables.
 *
 * What happens is done one after the other, so a server that takes a while to start delays what comes next; the
 * report says when everything really began and ended.
 * An action that fails, or never comes to happen, is a check that did not hold.
 *
 * Threads: one, that of proc.h. Errors: scenario_read() checks everything that can be checked without starting
 * anything and reports all mistakes, not only the first.
 */
#pragma once

#include "load/herd/work.h"
#include "load/play/expect.h"
#include "load/play/words.h"
#include "load/report/result.h"
#include "load/stack/proxy.h"
#include "load/witness/witness.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
    SCENARIO_PROCESSES_MAX = 8,
    SCENARIO_SETTINGS_MAX = 40,
    SCENARIO_SETTING_BYTES = 96,
    SCENARIO_VARIANTS_MAX = 8,
    SCENARIO_EVENTS_MAX = 48,
    SCENARIO_WRITES_MAX = 4,
    SCENARIO_COLDS_MAX = 8,
    SCENARIO_EXPECTS_MAX = RESULT_CHECKS_MAX - 2, /* the default one, and one about writes */
    SCENARIO_LETS_MAX = 16,
    SCENARIO_NAME_BYTES = EXPECT_VARIANT_BYTES,
    SCENARIO_TEXT_BYTES = 1024, /* a statement, a command, a URL */
    SCENARIO_WHY_BYTES = EXPECT_WHY_BYTES,
};

/* ---- what happens when ---- */

enum scenario_party {
    SCENARIO_NOBODY = 0, /* sql, run, post, note */
    SCENARIO_REDIS,
    SCENARIO_POSTGRES,
    SCENARIO_CATALOGD,
    SCENARIO_LEADER,
    SCENARIO_LINK_REDIS,
    SCENARIO_LINK_POSTGRES,
};

enum scenario_verb {
    SCENARIO_KILL = 0,
    SCENARIO_START,
    SCENARIO_RESTART,
    SCENARIO_STOP,
    SCENARIO_PAUSE,
    SCENARIO_RESUME,
    SCENARIO_FLUSH,
    SCENARIO_FAILOVER,
    SCENARIO_FAULT, /* of a link */
    SCENARIO_HEAL,
    SCENARIO_SQL,
    SCENARIO_RUN,
    SCENARIO_POST,
    SCENARIO_NOTE,
    SCENARIO_VERBS
};

enum { SCENARIO_ALL = 0 }; /* as `process` */

struct scenario_action {
    enum scenario_party party;
    enum scenario_verb verb;
    uint32_t process; /* of catalogd, from 1; SCENARIO_ALL */
    enum proxy_fault fault;
    uint32_t amount_ms;
    char argument[SCENARIO_TEXT_BYTES];
};

struct scenario_event {
    char text[RESULT_TEXT_BYTES]; /* "leader pause for 2s": as it was written, without its trigger */
    bool is_on_load;
    uint32_t load;  /* on load: after so many have begun */
    uint32_t at_ms; /* since the barrier; on load: since that load */
    struct scenario_action action;
    uint32_t for_ms; /* then the opposite; 0: not by itself */
    unsigned line;   /* where it stands; 0: on the command line */
};

/* The verb that ends it; SCENARIO_VERBS: nothing does. */
enum scenario_verb scenario_opposite(enum scenario_verb verb);

/* ---- the whole ---- */

struct scenario_write {
    uint32_t every_ms, first_key, last_key;
    struct work_words *words;       /* owned; NULL: the keys are numbers */
    char sql[SCENARIO_TEXT_BYTES];  /* with {key}; returns the new version */
    char then[SCENARIO_TEXT_BYTES]; /* with {key}; posted after it; "": nothing */
};

struct scenario_let {
    char name[SCENARIO_NAME_BYTES];
    char value[SCENARIO_TEXT_BYTES];
};

/* Lives on the heap: it is large, and `work` points into it, so it is not copied. */
struct scenario {
    char path[256]; /* of the file; "": from the command line */
    char name[SCENARIO_NAME_BYTES];
    char title[RESULT_TEXT_BYTES];
    char about[1024];

    uint64_t seen;   /* which words, a bit each; scenario_take.c's own */
    unsigned shapes; /* of which of them the work is to be; its own, too */

    uint32_t process_count; /* of the stack; 0: a service of the user's */
    char settings[SCENARIO_SETTINGS_MAX][SCENARIO_SETTING_BYTES]; /* "NAME=value" */
    size_t setting_count;
    uint32_t product_count;
    char vary[SCENARIO_NAME_BYTES]; /* a setting's name; "": one variant */
    char variants[SCENARIO_VARIANTS_MAX][SCENARIO_NAME_BYTES];
    size_t variant_count;
    bool proxies_redis, proxies_postgres, has_replica;

    char database_url[SCENARIO_TEXT_BYTES], redis_url[SCENARIO_TEXT_BYTES];
    bool has_count;
    enum witness_way way;
    char log_path[SCENARIO_TEXT_BYTES], statement[256];
    bool has_ttl;
    uint32_t ttl_ms, jitter_percent;

    struct work work;
    struct work warm; /* only its URLs */
    uint32_t span_ms; /* of a rate or a replay; 0: the default, all of it */
    char replay_path[SCENARIO_TEXT_BYTES];
    double replay_speed;
    unsigned replay_line;
    struct work_script *script; /* owned; of a replay, `work` follows it; NULL: none */
    char replay_note[WORK_WHY_BYTES];
    char method[16], headers[2048], version_after[64], ca_file[SCENARIO_TEXT_BYTES];

    struct scenario_event events[SCENARIO_EVENTS_MAX];
    size_t event_count;
    struct scenario_write writes[SCENARIO_WRITES_MAX];
    size_t write_count;
    char colds[SCENARIO_COLDS_MAX][SCENARIO_TEXT_BYTES]; /* before each round: "redis del k", "GET /path" */
    size_t cold_count;
    char expiry_key[256]; /* in Redis: rounds begin when it expires; "": none */
    struct expect expects[RESULT_CHECKS_MAX];
    unsigned expect_lines[RESULT_CHECKS_MAX];
    size_t expect_count;

    struct scenario_let lets[SCENARIO_LETS_MAX];
    size_t let_count;
};

/* Nothing but defaults. NULL: no memory. scenario_free() leaves NULL and accepts it. */
struct scenario *scenario_new(void);
void scenario_free(struct scenario **scenario);

/* A value of --set: overrides a `let` of that name, or a setting of the stack's line. */
struct scenario_set {
    const char *name, *value; /* lent until scenario_read() returns */
};

/*
 * Reads the file. Mistakes are written to `complaints`, one "FILE:LINE: text" each; after twenty the rest is counted.
 * *out only when there are none; it is yours.
 */
bool scenario_read(const char *path, const struct scenario_set *sets, size_t set_count, FILE *complaints,
                   struct scenario **out);

/* One directive; `line` is where it stands. */
bool scenario_take(struct scenario *scenario, struct words *words, unsigned line,
                   char why[static SCENARIO_WHY_BYTES]);
/* One option of a run, by a name of scenario_option()'s. */
bool scenario_take_option(struct scenario *scenario, const char *name, const char *value,
                          char why[static SCENARIO_WHY_BYTES]);

/* Something in it is wrong; line 0: no line to name. */
typedef void scenario_complain(void *context, unsigned line, const char *text);

/* After the last line or option: reads the log of a replay, and adds "failed = 0" unless a line is about failed. */
void scenario_complete(struct scenario *scenario, scenario_complain *complain, void *context);
void scenario_settle(struct scenario *scenario, scenario_complain *complain,
                     void *context); /* a part of that */
/* Every contradiction between directives is a call. */
void scenario_check(const struct scenario *scenario, scenario_complain *complain, void *context);

/* The scenario itself expects something about failed in this variant. */
bool scenario_says_failed(const struct scenario *scenario, const char *variant);

/* The index-th word a line can begin with, and what can happen: how they are written; NULL: there are no more. */
const struct words_help *scenario_word(size_t index);
const struct words_help *scenario_action_word(size_t index);
/* The index-th option of a run; false: there are no more. */
bool scenario_option(size_t index, struct words_help *out);

/* "at ..." and "on load ...", after their first word. */
bool scenario_take_event(struct scenario *scenario, struct words *words, bool is_on_load, unsigned line,
                         char why[static SCENARIO_WHY_BYTES]);

/* NULL: there is no line "let NAME ...". */
const struct scenario_let *scenario_find_let(const struct scenario *scenario, const char *name, size_t bytes);

/* A setting of the stack's line, "NAME" without "="; NULL: not set. */
const char *scenario_setting(const struct scenario *scenario, const char *name);
bool scenario_set_setting(struct scenario *scenario, const char *name, const char *value);

/* The same of a number, with what varies in this variant; `fallback` where it is not set. */
uint32_t scenario_number(const struct scenario *scenario, const char *variant, const char *name,
                         uint32_t fallback);

/* ---- what a run was set to, in words: runs are compared if these are the same: settings.c ---- */

/* "100 requests a second for 6 s, 2 targets" */
void settings_describe(const struct work *work, char text[static RESULT_TEXT_BYTES]);

/* `work`: the scenario's, with its targets. What varies is not among them. How many there are. */
size_t settings_list(const struct scenario *scenario, const struct work *work,
                     struct result_setting out[static RESULT_SETTINGS_MAX]);

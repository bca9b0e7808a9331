/* SPDX-License-Identifier: MIT */
/*
 * options.h - the command line of the tester.
 *
 *     stampede [OPTIONS]                     one run against a service
 *     stampede scenario FILE... [OPTIONS]
 *     stampede report FILE.json [OPTIONS]
 *     stampede compare EARLIER.json NOW.json [OPTIONS]
 *     stampede demo [OPTIONS]
 *     stampede serve [OPTIONS]
 *     stampede proxy PROTOCOL LISTEN=ORIGIN --log FILE
 *
 * Options of a run become directives of a scenario (see scenario.h), so both are read, checked and refused alike.
 *
 * Errors: false, and every mistake as a line on stderr.
 */
#pragma once

#include "load/play/scenario.h"
#include "load/report/format.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { OPTIONS_SETS_MAX = 32 };

enum options_command {
    OPTIONS_RUN = 0,
    OPTIONS_SCENARIO,
    OPTIONS_REPORT,
    OPTIONS_COMPARE,
    OPTIONS_DEMO,
    OPTIONS_SERVE,
    OPTIONS_PROXY,
    OPTIONS_HELP, /* was printed */
    OPTIONS_VERSION
};

struct options {
    enum options_command command;
    struct scenario *scenario; /* owned; of a run */
    char **files;              /* into argv: what is no option */
    size_t file_count;
    struct scenario_set sets[OPTIONS_SETS_MAX]; /* into argv */
    size_t set_count;
    const char *outputs[FORMATS]; /* into argv; of `scenario` folders; NULL: not wanted */
    const char *out;              /* a folder for all of them; NULL: none */
    const char *baseline;
    bool allows_different;              /* compares runs of other settings, too */
    bool shows_table;                   /* of demo */
    bool is_quiet;                      /* nothing on stderr but what went wrong */
    uint32_t scale, requests, delay_ms; /* of demo and serve */
    uint32_t port;                      /* of serve's page; 0: a free one */
    const char *log;                    /* of proxy; into argv */
};

/* Changes the order of argv. *out needs options_clear() in any case. */
bool options_read(int argc, char **argv, struct options *out);
void options_clear(struct options *options);

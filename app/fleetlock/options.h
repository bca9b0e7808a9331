/* SPDX-License-Identifier: MIT */
/*
 * options.h - the command line of fleetlock.
 *
 *     fleetlock NAME... [OPTIONS] -- COMMAND [ARGUMENT...]
 *     fleetlock --status NAME [OPTIONS]
 *
 * FLEETLOCK_URL (several for redlock: separated by spaces) stands in for --url, so that a password need not be on a
 * command line that everybody may read. COMMAND finds it empty if there may be one in it.
 */
#pragma once

#include "guard/locks.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { OPTIONS_URLS_MAX = 9 };

enum options_task { OPTIONS_RUN, OPTIONS_STATUS, OPTIONS_HELP, OPTIONS_VERSION };

struct options {
    enum options_task task;
    const char *names[GUARD_LOCK_NAMES_MAX]; /* into argv, as are the other texts */
    size_t name_count;
    char **command; /* ends with NULL */
    enum guard_lock_kind kind;
    uint32_t units, limit; /* PERMITS */
    uint32_t wait_ms;      /* UINT32_MAX: for ever */
    uint32_t lease_ms, grace_ms;
    uint32_t max_lease_ms; /* of the namespace */
    int on_lost;           /* the signal that COMMAND is sent; 0: none, it goes on */
    bool closes;           /* what COMMAND leaves behind does not keep the lock */
    enum guard_lock_provider provider;
    const char *urls[OPTIONS_URLS_MAX];
    size_t url_count;
    const char *name_space;
    char *urls_text; /* owned: what urls point into if they came from the environment */
};

/* False: every mistake is a line on stderr. Changes the order of argv. options_clear() is due in any case. */
bool options_read(int argc, char **argv, struct options *options);
void options_clear(struct options *options);
/* The help or the version, to stdout; the exit status. */
int options_print(enum options_task task);

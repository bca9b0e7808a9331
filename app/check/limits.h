/* SPDX-License-Identifier: MIT */
/*
 * limits.h - what the settings need of the machine, and the limits that the process sets itself.
 *
 * Threads: the main thread, before there are others.
 */
#ifndef APP_LIMITS_H
#define APP_LIMITS_H

#include "app/base/settings.h"

#include <stdbool.h>
#include <stdint.h>

/* SERVER_LOOPS, or one per core. */
uint32_t limits_loops(const struct settings *settings);
/* Of what is open at the most. */
uint64_t limits_descriptors_needed(const struct settings *settings);
/* Of the database: loads and writes, what listens for changes, what other caches are waited for with. */
uint32_t limits_database_connections(const struct settings *settings);

/* As many descriptors as the hard limit allows, and no core file unless the settings want one: values and passwords would
 * be in it. False: not enough descriptors; the reason was logged. */
bool limits_raise(const struct settings *settings);

#endif

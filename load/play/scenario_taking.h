/* SPDX-License-Identifier: MIT */
/*
 * scenario_taking.h - what the functions of directives share: scenario_take.c has them all in a table, those about
 * the clients are in scenario_take_work.c.
 *
 * Pure. Errors: false, and why; "" if nothing better is known than how the directive is written.
 */
#ifndef LOAD_PLAY_SCENARIO_TAKING_H
#define LOAD_PLAY_SCENARIO_TAKING_H

#include "load/play/scenario.h"

struct taking {
    struct scenario *scenario;
    struct words *words;
    unsigned line;
    char *why; /* SCENARIO_WHY_BYTES */
};

typedef bool take(struct taking *taking);

/* Returns false. `word` is shown in quotes; NULL: none. */
bool taking_refuse(struct taking *taking, const char *reason, const char *word);

/* The next word as what it must be. */
bool taking_number(struct taking *taking, uint32_t least, uint32_t most, uint32_t *out);
bool taking_time(struct taking *taking, uint32_t *out_ms);
bool taking_percent(struct taking *taking, uint32_t *out);
bool taking_text(struct taking *taking, char *out, size_t out_bytes);

take take_warm, take_ask, take_burst, take_rate, take_leave, take_limit, take_connections, take_method,
    take_header, take_version, take_generators, take_sources, take_seed;

#endif

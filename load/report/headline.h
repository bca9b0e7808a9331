/* SPDX-License-Identifier: MIT */
/*
 * headline.h - what a reader came for, in words: how often the database was asked, how often it had to be, and what
 * became of the requests; and whatever changes that, to stand beside it: interrupted, "at least", keys that are not
 * known, nothing served, a generator that was the bottleneck.
 *
 * Pure. Texts are clean: foreign ones went through text_clean().
 */
#pragma once

#include "load/report/result.h"

enum { HEADLINE_BYTES = 768, HEADLINE_CAVEATS_MAX = 12, HEADLINE_CAVEAT_BYTES = 1200 };

struct headline {
    char text[HEADLINE_BYTES]; /* "": there is no request */
    char caveats[HEADLINE_CAVEATS_MAX][HEADLINE_CAVEAT_BYTES];
    size_t caveat_count;
};

void headline_make(const struct report *report, struct headline *out);

/* What a result says of its counting, or of its generator, is among the caveats; otherwise it can stand further down. */
bool headline_doubts_loads(const struct result *result);
bool headline_doubts_times(const struct result *result);

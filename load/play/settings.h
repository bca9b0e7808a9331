/* SPDX-License-Identifier: MIT */
/* settings.h - what a run was set to, in words: runs are compared if these are the same. Pure. */
#pragma once

#include "load/play/scenario.h"

/* "100 requests a second for 6 s, 2 targets" */
void settings_describe(const struct work *work, char text[static RESULT_TEXT_BYTES]);

/* `work`: the scenario's, with its targets. What varies is not among them. How many there are. */
size_t settings_list(const struct scenario *scenario, const struct work *work,
                     struct result_setting out[static RESULT_SETTINGS_MAX]);

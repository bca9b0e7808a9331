/* SPDX-License-Identifier: MIT */
/*
 * options_flags.h - which options a command has, and its --help, which is made from the same table.
 *
 * Pure but for the printing.
 */
#ifndef LOAD_PLAY_OPTIONS_FLAGS_H
#define LOAD_PLAY_OPTIONS_FLAGS_H

#include "load/play/options.h"

enum { FLAGS_MAX = 48 };

enum flag_takes {
    FLAG_WORD = 0, /* its value is one word of the directive, whatever is in it */
    FLAG_LINE,     /* its value is cut into words */
    FLAG_SWITCH    /* no value; `directive` is the whole line */
};

struct flag {
    const char *name, *value; /* "--rate", "N" */
    const char *directive;    /* of scenario.h; NULL: options.c knows it by its name */
    enum flag_takes takes;
    const char *help;     /* with unit and default; "" : not shown */
    uint32_t least, most; /* of a number that is no directive's */
};

const struct flag *flags_of(enum options_command command, size_t *count);
/* OPTIONS_RUN and OPTIONS_HELP print all commands. */
void flags_help(enum options_command command, FILE *out);

#endif

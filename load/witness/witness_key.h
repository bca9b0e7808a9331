/* SPDX-License-Identifier: MIT */
/*
 * witness_key.h - which row a statement is about: its values, be they parameters or literals.
 *
 *     SELECT n FROM t WHERE id = 7 AND k = 'it''s'     key "7, it's"   form "SELECT n FROM t WHERE id = ? AND k = ?"
 *     EXECUTE p1(7, NULL)                              key "7, NULL"
 *     $1 = '7', $2 = NULL                              key "7, NULL"   what DETAIL has of parameters
 *
 * Values are numbers and strings of every kind ('..', E'..', U&'..', B'..', X'..', $$..$$, $tag$..$tag$), and TRUE,
 * FALSE and NULL where a value can stand ("= NULL", not "IS NULL"). No values are comments, names ("x7", "\"id 7\"")
 * and the numbers of parameters ("$1").
 *
 * All values count, since nobody knows which of them is the key: those that are the same in each statement do no harm,
 * and one that is another each time (an instant) makes each statement a key of its own, which result.h notices.
 *
 * Pure; bytes of any kind are taken.
 */
#ifndef LOAD_WITNESS_WITNESS_KEY_H
#define LOAD_WITNESS_WITNESS_KEY_H

#include "load/witness/witness_view.h"

#include <stdbool.h>
#include <stddef.h>

enum { WITNESS_FORM_BYTES = 96 };

struct witness_key {
    char text[WITNESS_KEY_BYTES];  /* one that does not fit ends with "~" and a digest of all of it */
    char form[WITNESS_FORM_BYTES]; /* "?" for each value, without comments, one blank for many; cut */
    bool has_parameters;           /* values stand elsewhere: "$1" */
};

void witness_key_read(const char *text, size_t bytes, struct witness_key *out);

#endif

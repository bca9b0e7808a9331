/* SPDX-License-Identifier: MIT */
/*
 * load_id.h - what a load is called in every process: the first 64 bits of the UUID in the token that it was loaded
 * under. The filler of an entry begins with that UUID, so each entry says which load made it.
 *
 * Pure.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { LOAD_ID_DIGITS = 16 };

/* Of its first 18 bytes; never 0, because a random UUID has a 4 among them. Whether it is one is not looked at. */
uint64_t load_id_of_uuid(const char *uuid);
/* Of 16 hex digits, as it is printed; 0: they are not. */
uint64_t load_id_read(const char *text);

/* Of the 16 hex digits of a lease's tag, whatever stands behind them. */
uint64_t load_id_of_tag(const char *tag);

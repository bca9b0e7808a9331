/* SPDX-License-Identifier: MIT */
/*
 * table.h - uthash as this module uses it: a table that cannot grow refuses the newcomer, which has a field
 * `unlisted` for that, instead of ending the host's process.
 */
#pragma once

#define HASH_NONFATAL_OOM 1
#define uthash_nonfatal_oom(newcomer) ((newcomer)->unlisted = true)
#include <uthash.h>

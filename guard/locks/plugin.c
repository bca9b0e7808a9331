/* SPDX-License-Identifier: MIT */
/* plugin.c - the table of a plug-in, see provider.h: compiled once for each with LOCK_PLUGIN_OPEN (guard.mk), else
 * empty. */
#include "provider.h"

#ifdef LOCK_PLUGIN_OPEN
extern const struct lock_plugin guard_lock_plugin;
__attribute__((visibility("default")))
const struct lock_plugin guard_lock_plugin = {GUARD_VERSION, LOCK_PLUGIN_OPEN};
#endif

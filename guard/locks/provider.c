/* SPDX-License-Identifier: MIT */
/*
 * provider.c - what opens a provider: a function that is linked in or, in a shared library, one of a plug-in. See
 * provider.h.
 */
#include "provider.h"
#include "../base/check.h"

static const struct {
    const char *name;
    const char *plugin; /* NULL: it needs no library of its own, so there is none */
    lock_provider_open *open;
} PROVIDERS[] = {
    [GUARD_LOCKS_REDIS] = {.name = "REDIS", .open = lock_redis_open},
    [GUARD_LOCKS_REDLOCK] =
        {
            .name = "REDLOCK",
#ifdef GUARD_LOCKS_WITH_REDLOCK
            .open = lock_redlock_open,
#endif
        },
    [GUARD_LOCKS_POSTGRES] =
        {
            .name = "POSTGRES",
            .plugin = "postgres",
#ifdef GUARD_LOCKS_WITH_POSTGRES
            .open = lock_postgres_open,
#endif
        },
    [GUARD_LOCKS_ZOOKEEPER] =
        {
            .name = "ZOOKEEPER",
            .plugin = "zookeeper",
#ifdef GUARD_LOCKS_WITH_ZOOKEEPER
            .open = lock_zookeeper_open,
#endif
        },
};

#define REFUSED "guard_locks_config.provider: %s "

#ifdef GUARD_LOCKS_PLUGINS /* the folder of this version: "0.3" */

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* "/usr/lib/stampede-guard/0.3/postgres.so" beside /usr/lib/libstampede-guard.so.0.3. False: it was loaded by a path
 * that depends on the current folder, and code of whoever chose that folder is not run. */
static bool find_plugin_path(const char *plugin, char path[PATH_MAX])
{
    static const char here;
    char library[PATH_MAX];
    Dl_info info;
    if (dladdr(&here, &info) == 0 || info.dli_fname[0] != '/' || realpath(info.dli_fname, library) == NULL)
        return false;
    *strrchr(library, '/') = '\0';
    int length = snprintf(path, PATH_MAX, "%s/stampede-guard/" GUARD_LOCKS_PLUGINS "/%s.so", library, plugin);
    return length > 0 && length < PATH_MAX;
}

/* Never closed: a client library has threads and handlers of its own. */
static lock_provider_open *load_plugin(const char *name, const char *path, struct guard_error *error)
{
    void *loaded = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (loaded == NULL) {
        check_failed(error, GUARD_INVALID, REFUSED "cannot be loaded: %s", name, dlerror());
        return NULL;
    }
    const struct lock_plugin *plugin = dlsym(loaded, LOCK_PLUGIN_SYMBOL);
    if (plugin != NULL && strcmp(plugin->version, GUARD_VERSION) == 0)
        return plugin->open;
    check_failed(error, GUARD_INVALID,
                 REFUSED "is of version %s, and this library of %s: install both of one version (%s)", name,
                 plugin != NULL ? plugin->version : "none", GUARD_VERSION, path);
    return NULL;
}

static lock_provider_open *find_plugin(const char *name, const char *plugin, struct guard_error *error)
{
    char path[PATH_MAX];
    if (!find_plugin_path(plugin, path)) {
        check_failed(error, GUARD_INVALID,
                     REFUSED
                     "is a plug-in, which is looked for beside this library: load that by an absolute path",
                     name);
        return NULL;
    }
    if (access(path, F_OK) == 0)
        return load_plugin(name, path, error);
    check_failed(error, GUARD_INVALID,
                 REFUSED "is not installed: package libstampede-guard" GUARD_LOCKS_PLUGINS
                         "-%s (there is no %s)",
                 name, plugin, path);
    return NULL;
}

#else

static lock_provider_open *find_plugin(const char *name, const char *plugin, struct guard_error *error)
{
    (void)plugin;
    check_failed(error, GUARD_INVALID,
                 REFUSED "is not built in: its folder of guard/locks/ or its client library was missing, see "
                         "GUARD_LOCKS_WITH in guard.mk",
                 name);
    return NULL;
}

#endif

const char *lock_provider_name(enum guard_lock_provider provider)
{
    return (size_t)provider < sizeof PROVIDERS / sizeof *PROVIDERS ? PROVIDERS[provider].name : NULL;
}

lock_provider_open *lock_provider_find(enum guard_lock_provider provider, struct guard_error *error)
{
    if (lock_provider_name(provider) == NULL) {
        check_failed(error, GUARD_INVALID, "guard_locks_config.provider %d is none of the four",
                     (int)provider);
        return NULL;
    }
    if (PROVIDERS[provider].open != NULL)
        return PROVIDERS[provider].open;
    return find_plugin(PROVIDERS[provider].name, PROVIDERS[provider].plugin, error);
}

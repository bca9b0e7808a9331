/* SPDX-License-Identifier: MIT */
/* fuzz_app.c - what the service is asked for and told: request targets, keys, settings. */
#include "tests/fuzz/fuzz.h"

#include "app/base/address.h"
#include "app/base/settings.h"
#include "app/http/route.h"
#include "guard/base/key.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- targets and keys ---- */

static const char *path_behind_id(enum route_target target)
{
    return target == ROUTE_PURCHASE ? "/purchase" : target == ROUTE_OFFERS ? "/offers" : "";
}

static void print_target(const struct route *route, char out[128])
{
    const unsigned long long id = route->id, after = route->after;
    if (route->target == ROUTE_CATEGORY && after != 0)
        snprintf(out, 128, "/categories/%llu?after=%llu", id, after);
    else if (route->target == ROUTE_CATEGORY)
        snprintf(out, 128, "/categories/%llu", id);
    else if (route->target == ROUTE_CATALOG || route->target == ROUTE_PING)
        snprintf(out, 128, route->target == ROUTE_CATALOG ? "/catalog" : "/ping");
    else
        snprintf(out, 128, "/products/%llu%s", id, path_behind_id(route->target));
}

/* One spelling, one key: whatever is accepted is what we would have printed, but for the authority. */
static void check_route(const char *uri, const struct route *route)
{
    char target[128], key[DOCUMENT_KEY_SIZE];
    struct route again;
    print_target(route, target);
    assert(strlen(uri) >= strlen(target) && strcmp(uri + strlen(uri) - strlen(target), target) == 0);
    assert(uri[0] == '/' ? strcmp(uri, target) == 0 : true);
    assert(route_parse(target, &again) == ROUTE_OK);
    assert(again.target == route->target && again.id == route->id && again.after == route->after);
    size_t bytes = route_key(route, key);
    bool is_document = route->target != ROUTE_PING && route->target != ROUTE_PURCHASE;
    assert(strlen(key) == bytes && (bytes > 0) == is_document);
    assert(bytes == 0 || (document_key_valid(key) && key_valid(key, bytes)));
}

/* A key that is accepted from an operator is one that some target has. */
static void check_key(const char *key)
{
    struct route route = {.target = ROUTE_CATALOG};
    char again[DOCUMENT_KEY_SIZE];
    unsigned long long id = 0, after = 0;
    if (!document_key_valid(key))
        return;
    if (sscanf(key, "category:%llu:after:%llu", &id, &after) > 0)
        route = (struct route){ROUTE_CATEGORY, id, after};
    else if (sscanf(key, "product:%llu", &id) == 1)
        route = (struct route){ROUTE_PRODUCT, id, 0};
    else if (sscanf(key, "offers:%llu", &id) == 1)
        route = (struct route){ROUTE_OFFERS, id, 0};
    route_key(&route, again);
    assert(strcmp(key, again) == 0);
}

void fuzz_route(const uint8_t *data, size_t bytes)
{
    char *text = fuzz_text(data, bytes);
    struct route route;
    enum route_verdict verdict = route_parse(text, &route);
    assert(route_target_name(route.target) != NULL);
    if (verdict == ROUTE_OK && route.target != ROUTE_PRODUCTS)
        check_route(text, &route);
    check_key(text);
    free(text);
}

/* ---- settings ---- */

enum { WORDS_MAX = 12, MESSAGE_BYTES = 1 << 16 };

/* A line that begins with "-" or stands behind such a line is a word of the command line; the others are
 * environment. */
struct words {
    char *flags[WORDS_MAX + 2], *env[WORDS_MAX + 1];
    int flag_count, env_count;
};

static void split(char *text, struct words *words)
{
    bool value_follows = false;
    words->flags[words->flag_count++] = (char *)(uintptr_t) "catalogd";
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        bool flag = line[0] == '-';
        if ((flag || value_follows) && words->flag_count <= WORDS_MAX)
            words->flags[words->flag_count++] = line;
        else if (words->env_count < WORDS_MAX)
            words->env[words->env_count++] = line;
        value_follows = flag && strchr(line, '=') == NULL;
    }
}

static void check_settings(const struct settings *settings)
{
    struct address address;
    assert(address_parse(settings->listen, &address));
    assert(strcmp(settings->ops_listen, "off") == 0 || address_parse(settings->ops_listen, &address));
    assert(settings->guard.redis_limit_ms <= settings->policy.lease_ms / 3);
    assert(settings->policy.lease_ms <= settings->policy.max_hold_ms &&
           settings->policy.load_limit_ms <= settings->policy.max_hold_ms);
    assert(settings->policy.jitter_percent <= 90 && settings->guard.max_loads >= 1);
    assert(key_namespace_valid(settings->guard.name_space));
}

void fuzz_settings(const uint8_t *data, size_t bytes)
{
    static char messages[MESSAGE_BYTES];
    struct words words = {.flag_count = 0};
    struct settings settings;
    char *text = fuzz_text(data, bytes);
    FILE *file = fmemopen(messages, sizeof messages, "w");
    assert(file != NULL);
    split(text, &words);
    enum settings_verdict verdict = settings_read(words.flag_count, words.flags, words.env, &settings, file);
    fflush(file);
    long told = ftell(file);
    fclose(file);
    assert((verdict == SETTINGS_WRONG) == (told != 0));
    if (verdict == SETTINGS_OK)
        check_settings(&settings);
    free(text);
}

/* SPDX-License-Identifier: MIT */
/*
 * conf.c - directives, and the module itself. What is wrong is said by nginx -t, with file and line. URL and
 * namespace are judged by the guard: one is opened and closed with them, and with all settings before workers begin.
 */
#include "module.h"

/* Loads of an origin are requests, not queries of a database: 64 at a time. */
enum { LOADS = 64, HOLD_MS = 30000, WAIT_BEYOND_LOAD_MS = 5000, NEAR_MS = 1000 };
enum { DAY_MS = 86400000, URL_BYTES = 1024 };

static char NOT_ALONE[] =
    "stampede_purge or stampede_metrics stands beside another handler: give it a location of its own";

static void *settings_new(ngx_conf_t *cf)
{
    struct settings *settings = ngx_pcalloc(cf->pool, sizeof *settings);
    if (settings == NULL || ngx_array_init(&settings->locations, cf->pool, 8, sizeof(void *)) != NGX_OK)
        return NULL;
    settings->near_bytes = settings->max_value = NGX_CONF_UNSET_SIZE;
    settings->near_ms = NGX_CONF_UNSET_MSEC;
    settings->loads = settings->permits = NGX_CONF_UNSET;
    return settings;
}

static char *settings_init(ngx_conf_t *cf, void *conf)
{
    struct settings *settings = conf;
    (void)cf;
    ngx_conf_init_size_value(settings->near_bytes, 8388608);
    ngx_conf_init_size_value(settings->max_value, 1048576);
    ngx_conf_init_msec_value(settings->near_ms, NEAR_MS);
    ngx_conf_init_value(settings->loads, LOADS);
    ngx_conf_init_value(settings->permits, 0);
    return NGX_CONF_OK;
}

static void *location_new(ngx_conf_t *cf)
{
    struct location *location = ngx_pcalloc(cf->pool, sizeof *location);
    if (location == NULL)
        return NULL;
    location->is_off = NGX_CONF_UNSET;
    location->tags = location->bypass = location->purge = NGX_CONF_UNSET_PTR;
    location->fresh_ms = location->stale_ms = location->absent_ms = NGX_CONF_UNSET_MSEC;
    location->failure_ms = location->outage_ms = location->load_limit_ms = NGX_CONF_UNSET_MSEC;
    return location;
}

/* What follows in the location, as proxy_pass, would take the place of our handler. */
static bool is_alone(ngx_conf_t *cf, const struct location *location)
{
    ngx_http_core_loc_conf_t *core = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);
    if (location->handler == NULL || location->handler == core->handler)
        return true;
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "location \"%V\": %s", &core->name, NOT_ALONE);
    return false;
}

static char *location_merge(ngx_conf_t *cf, void *parent, void *child)
{
    struct location *outer = parent, *inner = child;
    struct settings *settings = ngx_http_conf_get_module_main_conf(cf, ngx_http_stampede_module);
    if (!is_alone(cf, inner))
        return NGX_CONF_ERROR;
    if (inner->key == NULL && inner->is_off == NGX_CONF_UNSET && inner->handler == NULL)
        inner->key = outer->key;
    inner->is_heir = inner->key == outer->key;
    ngx_conf_merge_value(inner->is_off, outer->is_off, 0);
    ngx_conf_merge_ptr_value(inner->tags, outer->tags, NULL);
    ngx_conf_merge_ptr_value(inner->bypass, outer->bypass, NULL);
    ngx_conf_merge_msec_value(inner->fresh_ms, outer->fresh_ms, 60000);
    ngx_conf_merge_msec_value(inner->stale_ms, outer->stale_ms, 0);
    ngx_conf_merge_msec_value(inner->absent_ms, outer->absent_ms, 10000);
    ngx_conf_merge_msec_value(inner->failure_ms, outer->failure_ms, 1000);
    ngx_conf_merge_msec_value(inner->outage_ms, outer->outage_ms, 5000);
    ngx_conf_merge_msec_value(inner->load_limit_ms, outer->load_limit_ms, 10000);
    if (inner->key == NULL)
        return NGX_CONF_OK;
    struct location **slot = ngx_array_push(&settings->locations);
    if (slot == NULL)
        return NGX_CONF_ERROR;
    *slot = inner;
    settings->is_used = true;
    return NGX_CONF_OK;
}

/* ---- the guard that follows from them ---- */

static bool is_alike(const struct location *a, const struct location *b)
{
    return a->fresh_ms == b->fresh_ms && a->stale_ms == b->stale_ms && a->absent_ms == b->absent_ms &&
           a->failure_ms == b->failure_ms && a->outage_ms == b->outage_ms &&
           a->load_limit_ms == b->load_limit_ms;
}

static uint32_t least(ngx_msec_t a, ngx_msec_t b)
{
    return (uint32_t)(a < b ? a : b);
}

/* Locations with the same limits are of one kind: how long a page lives is said with each load. */
static enum guard_status add_kind(struct settings *settings, struct guard *guard, ngx_uint_t i,
                                  struct guard_error *error)
{
    struct location **all = settings->locations.elts, *location = all[i];
    for (ngx_uint_t before = 0; before < i; before++) {
        if (is_alike(all[before], location)) {
            location->kind = all[before]->kind;
            return GUARD_OK;
        }
    }
    struct guard_policy policy = GUARD_POLICY_DEFAULTS;
    policy.loader = load_page;
    policy.fresh_ms = least(location->fresh_ms != 0 ? location->fresh_ms : 1, UINT32_MAX);
    policy.stale_ms = least(location->stale_ms, UINT32_MAX);
    policy.absent_ms = least(location->absent_ms != 0 ? location->absent_ms : 1, UINT32_MAX);
    policy.failure_ms = least(location->failure_ms != 0 ? location->failure_ms : 1, UINT32_MAX);
    policy.outage_ms = least(location->outage_ms, UINT32_MAX);
    policy.load_limit_ms = least(location->load_limit_ms, UINT32_MAX);
    policy.max_hold_ms = policy.load_limit_ms > HOLD_MS ? policy.load_limit_ms : HOLD_MS;
    policy.deadline_ms = least(location->load_limit_ms + WAIT_BEYOND_LOAD_MS, UINT32_MAX);
    policy.near_ms = settings->near_bytes != 0 ? least(settings->near_ms, UINT32_MAX) : 0;
    policy.tagged = policy.needs_meta = true;
    policy.loads_on = GUARD_ON_LOOP;
    return guard_kind_add(guard, &policy, &location->kind, error);
}

/* In `room`, for as long as guard_open() reads it. */
static const char *c_string(ngx_str_t string, char *room, size_t bytes, const char *otherwise)
{
    if (string.len == 0)
        return otherwise;
    snprintf(room, bytes, "%.*s", (int)string.len, string.data);
    return room;
}

enum guard_status settings_open(struct settings *settings, guard_log *log, struct guard **guard,
                                struct guard_error *error)
{
    char redis[URL_BYTES], name_space[64];
    struct guard_config config = GUARD_CONFIG_DEFAULTS;
    config.redis_url = c_string(settings->redis, redis, sizeof redis, config.redis_url);
    config.name_space = c_string(settings->name_space, name_space, sizeof name_space, config.name_space);
    config.near_bytes = (uint32_t)settings->near_bytes;
    config.max_value_bytes = (uint32_t)settings->max_value;
    config.max_loads = (uint32_t)settings->loads;
    config.load_permits = (uint32_t)settings->permits;
    config.max_value_ms = 2 * DAY_MS;
    config.log = log;
    enum guard_status status = guard_open(&config, guard, error);
    for (ngx_uint_t i = 0; i < settings->locations.nelts && status == GUARD_OK; i++)
        status = add_kind(settings, *guard, i, error);
    return status;
}

static ngx_int_t try_settings(ngx_conf_t *cf, struct settings *settings)
{
    struct guard *guard = NULL;
    struct guard_error error;
    enum guard_status status = settings_open(settings, guard_log_none, &guard, &error);
    if (guard != NULL)
        guard_close(&guard, 0);
    /* Each worker opens its own. None does after a reload with `master_process off`: there requests pass. */
    struct location **all = settings->locations.elts;
    for (ngx_uint_t i = 0; i < settings->locations.nelts; i++)
        all[i]->kind = NULL;
    if (status == GUARD_OK)
        return NGX_OK;
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "stampede: %s", error.text);
    return NGX_ERROR;
}

static ngx_int_t after_settings(ngx_conf_t *cf)
{
    struct settings *settings = ngx_http_conf_get_module_main_conf(cf, ngx_http_stampede_module);
    ngx_http_core_main_conf_t *core = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);
    if (!settings->is_used)
        return NGX_OK;
    ngx_http_handler_pt *handler = ngx_array_push(&core->phases[NGX_HTTP_PRECONTENT_PHASE].handlers);
    if (handler == NULL)
        return NGX_ERROR;
    *handler = serve_handler;
    load_filters();
    return numbers_add(cf, settings) == NGX_OK ? try_settings(cf, settings) : NGX_ERROR;
}

/* ---- directives ---- */

static char *set_key(ngx_conf_t *cf, ngx_command_t *command, void *conf)
{
    struct location *location = conf;
    ngx_str_t *words = cf->args->elts;
    if (location->is_off != NGX_CONF_UNSET)
        return "is duplicate";
    location->is_off = ngx_strcmp(words[1].data, "off") == 0;
    if (words[1].len == 0)
        return "needs a key, as $request_uri, or off";
    return location->is_off ? NGX_CONF_OK : ngx_http_set_complex_value_slot(cf, command, conf);
}

static char *set_redis(ngx_conf_t *cf, ngx_command_t *command, void *conf)
{
    static struct settings alone;
    char *wrong = ngx_conf_set_str_slot(cf, command, conf);
    if (wrong != NGX_CONF_OK)
        return wrong;
    alone = (struct settings){.redis = ((struct settings *)conf)->redis,
                              .name_space = ((struct settings *)conf)->name_space,
                              .max_value = 1,
                              .loads = 1};
    if (alone.redis.len >= URL_BYTES)
        return "is longer than a URL of Redis may be, 1023 bytes";
    return try_settings(cf, &alone) == NGX_OK ? NGX_CONF_OK : NGX_CONF_ERROR;
}

struct bounds {
    ngx_conf_post_handler_pt check; /* first, as nginx has it */
    ngx_uint_t least, most;         /* bytes, ms, or as many */
    bool or_none;                   /* 0, too */
    char *words;
};

static char *is_within(ngx_conf_t *cf, void *post, void *data)
{
    const struct bounds *bounds = post;
    const ngx_uint_t value = *(ngx_uint_t *)data;
    (void)cf;
    return (value >= bounds->least && value <= bounds->most) || (value == 0 && bounds->or_none)
               ? NGX_CONF_OK
               : bounds->words;
}

static struct bounds some_loads = {is_within, 1, 4096, false, "takes 1 to 4096"},
                     some_permits = {is_within, 1, 100000, true, "takes 1 to 100000, or 0: no limit"},
                     some_bytes = {is_within, 1, 67108864, false, "takes 1 to 64m"},
                     near_bytes = {is_within, 65536, 4095u << 20, true, "takes 64k to 4095m, or 0: none"},
                     life = {is_within, 0, DAY_MS, true, "takes 0 to 1d"},
                     rest = {is_within, 0, 60000, true, "takes 0 to 1m"},
                     outage = {is_within, 0, 3600000, true, "takes 0 to 1h"},
                     limit = {is_within, 1, 3540000, false, "takes 1ms to 59m"};

static char *set_near(ngx_conf_t *cf, ngx_command_t *command, void *conf)
{
    ngx_str_t *words = cf->args->elts;
    ngx_int_t ms = cf->args->nelts > 2 ? ngx_parse_time(&words[2], 0) : NEAR_MS;
    if (ms == NGX_ERROR || ms > 60000)
        return "takes a time up to 1m behind its size: stampede_near 64m 1s";
    ((struct settings *)conf)->near_ms = (ngx_msec_t)ms;
    return ngx_conf_set_size_slot(cf, command, conf);
}

static char *set_content(ngx_conf_t *cf, struct location *location, ngx_http_handler_pt handler)
{
    struct settings *settings = ngx_http_conf_get_module_main_conf(cf, ngx_http_stampede_module);
    ngx_http_core_loc_conf_t *core = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);
    if (core->handler != NULL)
        return NOT_ALONE;
    core->handler = location->handler = handler;
    settings->is_used = true;
    return NGX_CONF_OK;
}

static char *set_purge(ngx_conf_t *cf, ngx_command_t *command, void *conf)
{
    char *wrong = set_content(cf, conf, purge_handler);
    return wrong == NGX_CONF_OK ? ngx_http_set_predicate_slot(cf, command, conf) : wrong;
}

static char *set_metrics(ngx_conf_t *cf, ngx_command_t *command, void *conf)
{
    (void)command;
    return set_content(cf, conf, metrics_handler);
}

#define ANYWHERE (NGX_HTTP_MAIN_CONF | NGX_HTTP_SRV_CONF | NGX_HTTP_LOC_CONF)
#define LOCAL(name, where, set, field, bounds)                                                               \
    {                                                                                                        \
        ngx_string(name), where, set, NGX_HTTP_LOC_CONF_OFFSET, offsetof(struct location, field), bounds     \
    }
#define TIME(name, field, bounds)                                                                            \
    LOCAL(name, ANYWHERE | NGX_CONF_TAKE1, ngx_conf_set_msec_slot, field, bounds)
#define GLOBAL(name, arguments, set, field, bounds)                                                          \
    {                                                                                                        \
        ngx_string(name), NGX_HTTP_MAIN_CONF | (arguments), set, NGX_HTTP_MAIN_CONF_OFFSET,                  \
            offsetof(struct settings, field), bounds                                                         \
    }

static ngx_command_t commands[] = {
    GLOBAL("stampede_redis", NGX_CONF_TAKE1, set_redis, redis, NULL),
    GLOBAL("stampede_namespace", NGX_CONF_TAKE1, set_redis, name_space, NULL),
    GLOBAL("stampede_near", NGX_CONF_TAKE12, set_near, near_bytes, &near_bytes),
    GLOBAL("stampede_max_value", NGX_CONF_TAKE1, ngx_conf_set_size_slot, max_value, &some_bytes),
    GLOBAL("stampede_loads", NGX_CONF_TAKE1, ngx_conf_set_num_slot, loads, &some_loads),
    GLOBAL("stampede_permits", NGX_CONF_TAKE1, ngx_conf_set_num_slot, permits, &some_permits),
    LOCAL("stampede", ANYWHERE | NGX_CONF_TAKE1, set_key, key, NULL),
    LOCAL("stampede_tags", ANYWHERE | NGX_CONF_1MORE, ngx_http_set_predicate_slot, tags, NULL),
    LOCAL("stampede_bypass", ANYWHERE | NGX_CONF_1MORE, ngx_http_set_predicate_slot, bypass, NULL),
    TIME("stampede_fresh", fresh_ms, &life),
    TIME("stampede_stale", stale_ms, &life),
    TIME("stampede_absent", absent_ms, &life),
    TIME("stampede_failure", failure_ms, &rest),
    TIME("stampede_outage", outage_ms, &outage),
    TIME("stampede_load_limit", load_limit_ms, &limit),
    LOCAL("stampede_purge", NGX_HTTP_LOC_CONF | NGX_CONF_TAKE12, set_purge, purge, NULL),
    LOCAL("stampede_metrics", NGX_HTTP_LOC_CONF | NGX_CONF_NOARGS, set_metrics, handler, NULL),
    ngx_null_command};

static ngx_http_module_t context = {.preconfiguration = serve_variables,
                                    .postconfiguration = after_settings,
                                    .create_main_conf = settings_new,
                                    .init_main_conf = settings_init,
                                    .create_loc_conf = location_new,
                                    .merge_loc_conf = location_merge};

ngx_module_t ngx_http_stampede_module = {NGX_MODULE_V1, &context,   commands,     NGX_HTTP_MODULE,
                                         NULL,          NULL,       worker_begin, NULL,
                                         NULL,          worker_end, NULL,         NGX_MODULE_V1_PADDING};

/* SPDX-License-Identifier: MIT */
/*
 * ops.c - a purge by key and by tag, and the numbers of all workers on one page.
 *
 * Purge     Of a key go its entry and, by a tag, its variants. The client is answered once Redis has confirmed all.
 * Numbers   Each worker has a guard and a place in shared memory, which it writes each second, and before it answers.
 */
#include "module.h"

#include "adapters/prometheus.h"

enum { SLOTS = 256, PUBLISH_MS = 1000, SLOT_LIFE_MS = 10000, ZONE_BYTES = 1048576, KEY_BYTES = 4096 };
_Static_assert(SLOTS * sizeof(struct guard_stats) < ZONE_BYTES / 2, "the zone has room for nginx's own");

static ngx_int_t send_text(ngx_http_request_t *r, ngx_uint_t status, const char *type, ngx_buf_t *text)
{
    r->headers_out.status = status;
    r->headers_out.content_length_n = text->last - text->pos;
    r->headers_out.content_type = (ngx_str_t){strlen(type), (u_char *)type};
    r->headers_out.content_type_len = r->headers_out.content_type.len;
    ngx_int_t sent = ngx_http_send_header(r);
    if (sent == NGX_ERROR || sent > NGX_OK || r->header_only)
        return sent;
    text->last_buf = r == r->main;
    text->last_in_chain = 1;
    ngx_chain_t out = {.buf = text, .next = NULL};
    return ngx_http_output_filter(r, &out);
}

/* ---- purge ---- */

struct purge {                   /* outlives a request whose client leaves */
    ngx_http_request_t *request; /* NULL: it has ended */
};

static ngx_int_t send_outcome(ngx_http_request_t *r, bool is_done, bool is_dropped)
{
    ngx_buf_t *text = ngx_create_temp_buf(r->pool, 96);
    if (text == NULL)
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    text->last = ngx_sprintf(text->pos, "{\"status\":\"%s\",\"dropped\":%s}\n", is_done ? "ok" : "unknown",
                             is_dropped ? "true" : "false");
    return send_text(r, is_done ? NGX_HTTP_OK : NGX_HTTP_SERVICE_UNAVAILABLE, "application/json", text);
}

static void on_purged(void *context, const struct guard_invalidated *result)
{
    struct purge *purge = context;
    ngx_http_request_t *r = purge->request;
    worker_waits(-1);
    purge->request = NULL;
    if (r == NULL)
        free(purge); /* else its request does, which ends below */
    if (r == NULL || worker.is_ending)
        return;
    ngx_connection_t *c = r->connection;
    ngx_http_finalize_request(r, send_outcome(r, result->status == GUARD_OK, result->value_dropped));
    ngx_http_run_posted_requests(c);
}

static void leave_purge(void *context)
{
    struct purge *purge = context;
    if (purge->request == NULL)
        free(purge);
    else
        purge->request = NULL;
}

/* $arg_key is as it stands in the request: nginx decodes paths and captures alone. */
static bool is_encoded(const ngx_http_complex_value_t *value)
{
    char *text = (char *)value->value.data; /* a word of the configuration, which ends in NUL */
    return strstr(text, "$arg_") != NULL || strstr(text, "{arg_") != NULL;
}

static ngx_int_t argument(ngx_http_request_t *r, const ngx_array_t *from, ngx_uint_t i, ngx_str_t *out)
{
    ngx_str_t raw = ngx_null_string;
    if (i < from->nelts &&
        ngx_http_complex_value(r, (ngx_http_complex_value_t *)from->elts + i, &raw) != NGX_OK)
        return NGX_ERROR;
    out->data = ngx_pnalloc(r->pool, raw.len + 1);
    if (out->data == NULL)
        return NGX_ERROR;
    u_char *to = out->data, *source = raw.data;
    if (raw.len > 0 && !is_encoded((ngx_http_complex_value_t *)from->elts + i))
        to = ngx_cpymem(to, source, raw.len);
    else
        ngx_unescape_uri(&to, &source, raw.len, 0);
    out->len = (size_t)(to - out->data);
    return NGX_OK;
}

/* Of a key its variants, too. */
static enum guard_status change(struct purge *purge, const ngx_str_t *key, const ngx_str_t *tag)
{
    char variants[VARIANTS_TAG_BYTES];
    const char *keys[] = {(const char *)key->data}, *tags[2];
    size_t tags_bytes[2], count = 0;
    if (key->len > 0) {
        variants_tag(variants_of(key), variants);
        tags[count] = variants;
        tags_bytes[count++] = sizeof variants;
    }
    if (tag->len > 0) {
        tags[count] = (const char *)tag->data;
        tags_bytes[count++] = tag->len;
    }
    return guard_invalidate(worker.guard, &(struct guard_change){.keys = keys,
                                                                 .keys_count = key->len > 0,
                                                                 .keys_bytes = &key->len,
                                                                 .tags = tags,
                                                                 .tags_count = count,
                                                                 .tags_bytes = tags_bytes,
                                                                 .done = on_purged,
                                                                 .context = purge,
                                                                 .loop = worker.loop});
}

ngx_int_t purge_handler(ngx_http_request_t *r)
{
    const struct location *location = ngx_http_get_module_loc_conf(r, ngx_http_stampede_module);
    ngx_str_t key, tag;
    const ngx_int_t discarded = ngx_http_discard_request_body(r);
    if (discarded != NGX_OK)
        return discarded;
    if (argument(r, location->purge, 0, &key) != NGX_OK || argument(r, location->purge, 1, &tag) != NGX_OK)
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    if ((key.len == 0 && tag.len == 0) || key.len > KEY_BYTES || tag.len > GUARD_TAG_BYTES_MAX ||
        memchr(key.data, 0, key.len) != NULL)
        return NGX_HTTP_BAD_REQUEST;
    struct purge *purge = calloc(1, sizeof *purge);
    ngx_http_cleanup_t *cleanup = purge != NULL ? ngx_http_cleanup_add(r, 0) : NULL;
    if (cleanup == NULL) {
        free(purge);
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    cleanup->data = purge;
    if (worker.guard == NULL || change(purge, &key, &tag) != GUARD_OK) {
        free(purge);
        return send_outcome(r, false, false);
    }
    cleanup->handler = leave_purge;
    purge->request = r;
    worker_waits(1);
    r->main->count++;
    return NGX_DONE;
}

/* ---- numbers ---- */

struct slot {
    ngx_atomic_t written_ms; /* 0: never */
    struct guard_stats stats;
};

static struct slot *slots;                          /* in shared memory, SLOTS of them; NULL: none */
static ngx_event_t publishing;                      /* cancelable */
static ngx_connection_t no_connection = {.fd = -1}; /* of the event, for nginx's debug log */

static void publish(ngx_event_t *event)
{
    if (slots == NULL || ngx_worker >= SLOTS || worker.guard == NULL ||
        ngx_exiting) /* its successor has the place */
        return;
    guard_stats(worker.guard, &slots[ngx_worker].stats);
    slots[ngx_worker].written_ms = ngx_current_msec | 1;
    if (event != NULL)
        ngx_add_timer(event, PUBLISH_MS);
}

static ngx_int_t zone_init(ngx_shm_zone_t *zone, void *old)
{
    ngx_slab_pool_t *pool = (ngx_slab_pool_t *)zone->shm.addr;
    zone->data = old;
    if (zone->data == NULL && zone->shm.exists)
        zone->data = pool->data;
    if (zone->data == NULL)
        zone->data = pool->data = ngx_slab_calloc(pool, SLOTS * sizeof(struct slot));
    return zone->data != NULL ? NGX_OK : NGX_ERROR;
}

ngx_int_t numbers_add(ngx_conf_t *cf, struct settings *settings)
{
    ngx_str_t name = ngx_string("stampede");
    settings->numbers = ngx_shared_memory_add(cf, &name, ZONE_BYTES, &ngx_http_stampede_module);
    if (settings->numbers == NULL)
        return NGX_ERROR;
    settings->numbers->init = zone_init;
    return NGX_OK;
}

void numbers_begin(struct settings *settings, ngx_log_t *log)
{
    slots = settings->numbers != NULL ? settings->numbers->data : NULL;
    publishing = (ngx_event_t){.handler = publish, .data = &no_connection, .log = log, .cancelable = 1};
    publish(&publishing);
}

void numbers_end(void)
{
    if (publishing.timer_set)
        ngx_del_timer(&publishing);
}

static void write_page(FILE *out)
{
    struct guard_sample samples[SLOTS];
    char labels[SLOTS][24];
    size_t count = 0;
    for (unsigned i = 0; i < SLOTS; i++) {
        /* Signed: each worker's clock is as old as its turn, and another's may be ahead. */
        const ngx_msec_int_t age_ms = (ngx_msec_int_t)(ngx_current_msec - slots[i].written_ms);
        if (slots[i].written_ms == 0 || age_ms >= SLOT_LIFE_MS)
            continue;
        snprintf(labels[count], sizeof labels[count], "worker=\"%u\"", i);
        samples[count] = (struct guard_sample){labels[count], &slots[i].stats};
        count++;
    }
    guard_prometheus(out, samples, count, NULL, 0);
}

static void drop_page(void *page)
{
    free(page);
}

ngx_int_t metrics_handler(ngx_http_request_t *r)
{
    char *page = NULL;
    size_t bytes = 0;
    const ngx_int_t discarded = ngx_http_discard_request_body(r);
    if (discarded != NGX_OK)
        return discarded;
    if (slots == NULL)
        return NGX_HTTP_SERVICE_UNAVAILABLE;
    publish(NULL);
    ngx_pool_cleanup_t *cleanup = ngx_pool_cleanup_add(r->pool, 0);
    ngx_buf_t *text = ngx_calloc_buf(r->pool);
    FILE *out = open_memstream(&page, &bytes);
    if (out != NULL)
        write_page(out);
    bool is_good = out != NULL && fclose(out) == 0 && cleanup != NULL && text != NULL;
    if (!is_good) {
        free(page);
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    cleanup->handler = drop_page;
    cleanup->data = page;
    text->pos = text->start = (u_char *)page;
    text->last = text->end = text->pos + bytes;
    text->memory = 1;
    return send_text(r, NGX_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", text);
}

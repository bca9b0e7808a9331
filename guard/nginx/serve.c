/* SPDX-License-Identifier: MIT */
/*
 * serve.c - a request asks the guard, and is answered.
 *
 *     serve_handler() --> guard_get() --NOW--> answer() --> the page, by nginx's own filters (304, Range, HEAD, gzip)
 *                             |                  |-------> another variant: asked for under its own key
 *                             '--> answered() ---'-------> the origin itself: what is too large to be kept
 *
 * A page has one entry under its key. It names the headers that its origin varies by, and what the request that
 * loaded it had in them; a request with other values asks again, with those in the key. A request that ends while it
 * waits is forgotten: no callback comes. It runs after all access rules, in the last phase before the handler of the
 * location.
 */
#include "module.h"

#include <inttypes.h>

enum { KEY_BYTES_MAX = 4096, RETRY_CLOSING_MS = 1000 };

struct visit { /* of a request, in its memory */
    ngx_http_request_t *request;
    struct origin *origin; /* while it asks */
    struct location *location;
    ngx_str_t key;
    uint32_t variants;
    bool only_looks;  /* it has Authorization: what it gets is for no other, so it leads no load */
    const char *word; /* $stampede_status; NULL: it asks */
    struct guard_result result;
    uint32_t age_s, fresh_s;
};

static ngx_int_t ask(struct visit *visit, ngx_str_t *key);

static ngx_table_elt_t *add_header(ngx_http_request_t *r, struct text name, struct text value)
{
    ngx_table_elt_t *header = ngx_list_push(&r->headers_out.headers);
    if (header == NULL)
        return NULL;
    ngx_memzero(header, sizeof *header);
    header->hash = 1;
    header->key = (ngx_str_t){name.bytes, (u_char *)name.data};
    header->value = (ngx_str_t){value.bytes, (u_char *)value.data};
    return header;
}

static bool add_text(ngx_http_request_t *r, const char *name, const char *value)
{
    ngx_str_t text = {strlen(value), (u_char *)value};
    u_char *copy = ngx_pstrdup(r->pool, &text);
    const struct text as_text = {(const char *)copy, text.len};
    return copy != NULL && add_header(r, (struct text){name, strlen(name)}, as_text) != NULL;
}

/* ---- Cache-Status (RFC 9211), as catalogd says it ---- */

static bool is_stale(const struct guard_result *result)
{
    return result->source == GUARD_FROM_STALE || (result->source == GUARD_FROM_KEPT && result->left_ms == 0);
}

static bool is_collapsed(const struct guard_result *result)
{
    return result->source == GUARD_FROM_FLIGHT || result->source == GUARD_FROM_FLEET;
}

static const char *detail_of(const struct guard_result *result)
{
    if (result->status == GUARD_FAILED)
        return guard_failure_name(result->failure);
    if (result->status != GUARD_OK)
        return guard_status_name(result->status);
    return result->source == GUARD_FROM_NEAR    ? "near"
           : result->source == GUARD_FROM_KEPT  ? "outage"
           : result->source == GUARD_FROM_FLEET ? "fleet"
                                                : NULL;
}

static bool say_status(ngx_http_request_t *r, const struct visit *visit)
{
    static const char *const sources[] = {
        [GUARD_FROM_NOWHERE] = "",          [GUARD_FROM_CACHE] = "; hit",
        [GUARD_FROM_STALE] = "; fwd=stale", [GUARD_FROM_LOAD] = "; fwd=miss",
        [GUARD_FROM_FLIGHT] = "; fwd=miss", [GUARD_FROM_FLEET] = "; fwd=miss",
        [GUARD_FROM_NEAR] = "; hit",        [GUARD_FROM_KEPT] = "; hit"};
    const struct guard_result *result = &visit->result;
    const bool is_forwarded = is_collapsed(result) || result->source == GUARD_FROM_LOAD;
    const uint32_t own_s = result->age_ms / 1000,
                   over_s = own_s > visit->fresh_s ? own_s - visit->fresh_s : 0;
    char text[160], ttl[24] = "", load[32] = "";
    const char *detail = detail_of(result);
    if (result->status == GUARD_OK && is_stale(result))
        snprintf(ttl, sizeof ttl, "; ttl=-%" PRIu32, over_s);
    else if (result->status == GUARD_OK && (result->stored || !is_forwarded))
        snprintf(ttl, sizeof ttl, "; ttl=%" PRIu32, result->left_ms / 1000);
    if (result->load != 0)
        snprintf(load, sizeof load, "; load=\"%016" PRIx64 "\"", result->load);
    snprintf(text, sizeof text, "stampede%s%s%s%s%s%s%s", sources[result->source],
             is_forwarded && result->status == GUARD_OK && result->stored ? "; stored" : "",
             is_collapsed(result) ? "; collapsed" : "", ttl, detail != NULL ? "; detail=" : "",
             detail != NULL ? detail : "", load);
    return add_text(r, "Cache-Status", text);
}

/* ---- answers ---- */

static ngx_int_t refuse(ngx_http_request_t *r, struct visit *visit)
{
    const struct guard_result *result = &visit->result;
    char seconds[16];
    uint32_t retry_ms = result->status == GUARD_CLOSING ? RETRY_CLOSING_MS : result->retry_ms;
    visit->word = guard_status_name(result->status);
    snprintf(seconds, sizeof seconds, "%" PRIu32, retry_ms / 1000 + (retry_ms % 1000 != 0 || retry_ms == 0));
    say_status(r, visit);
    switch (result->status) {
    case GUARD_FAILED:
        add_text(r, "Retry-After", seconds);
        return result->failure == GUARD_FAILURE_TIMEOUT ? NGX_HTTP_GATEWAY_TIME_OUT : NGX_HTTP_BAD_GATEWAY;
    case GUARD_TIMEOUT:
        return NGX_HTTP_GATEWAY_TIME_OUT;
    case GUARD_ABSENT:
        return NGX_HTTP_NOT_FOUND;
    case GUARD_SHED:
    case GUARD_CLOSING:
    case GUARD_NO_MEMORY:
        add_text(r, "Retry-After", seconds);
        return NGX_HTTP_SERVICE_UNAVAILABLE;
    case GUARD_OK:
    case GUARD_CANCELLED:
    case GUARD_UNKNOWN:
    case GUARD_INVALID:
    case GUARD_MISS:
    case GUARD_NOW:
        break;
    }
    return NGX_HTTP_INTERNAL_SERVER_ERROR;
}

static void drop_value(void *context)
{
    const struct guard_value *value = context;
    guard_value_unref(&value);
}

/* `expires` replaces what stands there. */
static bool link_cache_control(ngx_http_request_t *r, ngx_table_elt_t *header)
{
#if nginx_version < 1023000
    ngx_array_t *all = &r->headers_out.cache_control;
    if (all->elts == NULL && ngx_array_init(all, r->pool, 1, sizeof header) != NGX_OK)
        return false;
    ngx_table_elt_t **last = ngx_array_push(all);
    if (last == NULL)
        return false;
#else
    ngx_table_elt_t **last = &r->headers_out.cache_control;
    while (*last != NULL)
        last = &(*last)->next;
#endif
    *last = header;
    return true;
}

/* nginx's filters look for some of them elsewhere. */
static bool put_header(ngx_http_request_t *r, struct text name, struct text value)
{
    static const struct {
        const char *name;
        size_t at;
    } known[] = {{"last-modified", offsetof(ngx_http_headers_out_t, last_modified)},
                 {"etag", offsetof(ngx_http_headers_out_t, etag)},
                 {"content-encoding", offsetof(ngx_http_headers_out_t, content_encoding)},
                 {"location", offsetof(ngx_http_headers_out_t, location)},
                 {"expires", offsetof(ngx_http_headers_out_t, expires)},
                 {"www-authenticate", offsetof(ngx_http_headers_out_t, www_authenticate)}};
    ngx_http_headers_out_t *out = &r->headers_out;
    if (text_is(name, "content-type")) {
        const char *more = memchr(value.data, ';', value.bytes);
        out->content_type = (ngx_str_t){value.bytes, (u_char *)value.data};
        out->content_type_len = more != NULL ? (size_t)(more - value.data) : value.bytes;
        out->content_type_lowcase = NULL;
        return true;
    }
    ngx_table_elt_t *header = add_header(r, name, value);
    if (header == NULL)
        return false;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (text_is(name, known[i].name))
            *(ngx_table_elt_t **)(void *)((char *)out + known[i].at) = header;
    if (out->last_modified == header)
        out->last_modified_time = ngx_parse_http_time(header->value.data, header->value.len);
    return !text_is(name, "cache-control") || link_cache_control(r, header);
}

static bool put_head(ngx_http_request_t *r, struct visit *visit, const struct entry *entry)
{
    struct text name, value;
    char age[16];
    for (struct text headers = entry->headers; entry_header(&headers, &name, &value);)
        if (!put_header(r, name, value))
            return false;
    snprintf(age, sizeof age, "%" PRIu32, visit->age_s);
    return say_status(r, visit) && add_text(r, "Age", age);
}

static ngx_int_t send_page(ngx_http_request_t *r, struct visit *visit, const struct entry *entry,
                           const struct guard_value *value)
{
    ngx_pool_cleanup_t *cleanup = ngx_pool_cleanup_add(r->pool, 0);
    ngx_buf_t *page = ngx_calloc_buf(r->pool);
    if (cleanup == NULL || page == NULL)
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    cleanup->handler = drop_value;
    cleanup->data = (void *)guard_value_ref(value);
    visit->word = guard_source_name(visit->result.source);
    visit->age_s = entry->age_s + visit->result.age_ms / 1000;
    visit->fresh_s = entry->fresh_s;
    r->headers_out.status = entry->status;
    r->headers_out.content_length_n = (off_t)value->body_bytes;
    r->allow_ranges = 1;
    if (!put_head(r, visit, entry))
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    ngx_int_t sent = ngx_http_send_header(r);
    if (sent == NGX_ERROR || sent > NGX_OK || r->header_only)
        return sent;
    page->pos = page->start = (u_char *)value->body;
    page->last = page->end = page->pos + value->body_bytes;
    page->memory = value->body_bytes > 0;
    page->last_buf = r == r->main;
    page->last_in_chain = 1;
    page->sync = !page->memory && !page->last_buf;
    ngx_chain_t out = {.buf = page, .next = NULL};
    return ngx_http_output_filter(r, &out);
}

static ngx_int_t pass(struct visit *visit, const char *why)
{
    visit->word = why;
    return NGX_DECLINED;
}

static ngx_int_t ask_variant(struct visit *visit, const struct entry *entry, ngx_str_t variant)
{
    ngx_http_request_t *r = visit->request;
    ngx_str_t key = {visit->key.len + 1 + entry->names.bytes + 1 + variant.len, NULL};
    if (key.len > KEY_BYTES_MAX || variant.len > VARIANT_BYTES_MAX)
        return pass(visit, "varies");
    key.data = ngx_pnalloc(r->pool, key.len);
    if (key.data == NULL)
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    u_char *last = ngx_cpymem(key.data, visit->key.data, visit->key.len);
    *last++ = '\n';
    last = ngx_cpymem(last, entry->names.data, entry->names.bytes);
    *last++ = '\n';
    ngx_memcpy(last, variant.data, variant.len);
    visit->variants = variants_of(&visit->key);
    return ask(visit, &key);
}

/* DECLINED: to the origin itself. AGAIN: it waits. Others: what the request ends with. */
static ngx_int_t answer(struct visit *visit, const struct guard_result *result)
{
    ngx_http_request_t *r = visit->request;
    struct entry entry;
    ngx_str_t variant;
    visit->result = *result;
    visit->result.value = NULL;
    if (visit->only_looks && (result->status != GUARD_OK || is_stale(result)))
        return pass(visit, "authorized");
    if (result->status != GUARD_OK)
        return refuse(r, visit);
    const struct text meta = {result->value->meta, result->value->meta_bytes};
    if (!entry_read(meta, &entry))
        return pass(visit, "unreadable");
    if (entry.status == 0)
        return pass(visit, "large");
    if (request_variant(r, entry.names, r->pool, &variant) != NGX_OK)
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    if (variant.len != entry.variant.bytes || ngx_memcmp(variant.data, entry.variant.data, variant.len) != 0)
        return visit->variants == 0 ? ask_variant(visit, &entry, variant) : pass(visit, "varies");
    const ngx_int_t sent = send_page(r, visit, &entry, result->value);
    return sent == NGX_AGAIN ? NGX_OK : sent; /* a client that reads slowly: nginx sends the rest */
}

/* ---- asking ---- */

/* After these answers a load may begin, or go on: in the background it has the asker of the stale one. */
static void leave_answered(struct origin *origin, const struct guard_result *result)
{
    const bool is_old = result->status == GUARD_OK &&
                        (result->source == GUARD_FROM_STALE || result->source == GUARD_FROM_KEPT);
    origin_leave(origin, is_old || result->status != GUARD_OK);
}

static void answered(void *context, const struct guard_result *result)
{
    struct visit *visit = context;
    struct origin *origin = visit->origin;
    ngx_http_request_t *r = visit->request;
    visit->origin = NULL;
    worker_waits(-1);
    if (worker.is_ending) { /* nginx ends its requests by itself */
        origin_unref(origin);
        return;
    }
    leave_answered(origin, result);
    ngx_connection_t *c = r->connection;
    ngx_int_t rc = answer(visit, result);
    if (rc == NGX_AGAIN)
        return;
    if (rc == NGX_DECLINED) {
        r->read_event_handler = ngx_http_block_reading;
        r->write_event_handler = ngx_http_core_run_phases;
        ngx_http_core_run_phases(r);
    } else {
        ngx_http_finalize_request(r, rc);
    }
    ngx_http_run_posted_requests(c);
}

/* The request ends while it waits: its client has left. A load that it began goes on. */
static void leave(void *context)
{
    struct visit *visit = context;
    struct origin *origin = visit->origin;
    visit->origin = NULL;
    if (origin == NULL || worker.is_ending)
        return;
    guard_forget(worker.guard, worker.loop, origin->ticket);
    worker_waits(-1);
    origin_leave(origin, true);
}

static ngx_int_t ask(struct visit *visit, ngx_str_t *key)
{
    ngx_http_request_t *r = visit->request;
    struct origin *origin = origin_new(r, visit->location, visit->variants);
    struct guard_result result = {.status = GUARD_NO_MEMORY};
    if (origin == NULL)
        return answer(visit, &result);
    const struct guard_request request = {.kind = visit->location->kind,
                                          .key = (const char *)key->data,
                                          .key_bytes = key->len,
                                          .loop = worker.loop,
                                          .answered = answered,
                                          .context = visit,
                                          .flags = visit->only_looks ? GUARD_PEEK : 0,
                                          .asker = origin,
                                          .asker_ref = origin_ref,
                                          .asker_unref = origin_unref};
    enum guard_status status = guard_get(worker.guard, &request, &result, &origin->ticket);
    if (status == GUARD_OK) {
        visit->origin = origin;
        worker_waits(1);
        r->read_event_handler = ngx_http_test_reading;
        r->write_event_handler = ngx_http_request_empty_handler;
        return NGX_AGAIN;
    }
    if (status != GUARD_NOW)
        result = (struct guard_result){.status = status};
    leave_answered(origin, &result);
    ngx_int_t rc = answer(visit, &result);
    guard_value_unref(&result.value);
    return rc;
}

/* With a line feed, which a client can have decoded into $uri, it could be that of a variant: see ask_variant(). */
static bool is_key(ngx_str_t key)
{
    return key.len > 0 && key.len <= KEY_BYTES_MAX && memchr(key.data, 0, key.len) == NULL &&
           memchr(key.data, '\n', key.len) == NULL;
}

static ngx_int_t begin(ngx_http_request_t *r, struct visit *visit)
{
    ngx_http_cleanup_t *cleanup = ngx_http_cleanup_add(r, 0);
    if (cleanup == NULL || ngx_http_complex_value(r, visit->location->key, &visit->key) != NGX_OK)
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    cleanup->handler = leave;
    cleanup->data = visit;
    if (ngx_http_test_predicates(r, visit->location->bypass) == NGX_DECLINED)
        return pass(visit, "bypass");
    if (is_key(visit->key))
        return ask(visit, &visit->key);
    ngx_log_error(NGX_LOG_INFO, r->connection->log, 0, /* as nginx does what clients do wrong */
                  "stampede: a key of %uz bytes: give it 1 to %d, no NUL, no line feed; the request passes",
                  visit->key.len, KEY_BYTES_MAX);
    return pass(visit, "bypass");
}

static void visit_over(void *visit)
{
    (void)visit; /* its memory goes with the request's */
}

/* A redirect inside nginx, as to an error page, clears contexts; the log is written after leave(). */
static struct visit *visit_of(ngx_http_request_t *r)
{
    struct visit *visit = ngx_http_get_module_ctx(r, ngx_http_stampede_module);
    for (ngx_pool_cleanup_t *each = r->pool->cleanup; visit == NULL && each != NULL; each = each->next)
        if (each->handler == visit_over && ((struct visit *)each->data)->request == r)
            visit = each->data;
    return visit;
}

static bool asks_for_page(const ngx_http_request_t *r)
{
    return (r->method & (NGX_HTTP_GET | NGX_HTTP_HEAD)) != 0 && r->headers_in.content_length_n <= 0 &&
           !r->headers_in.chunked && r->headers_in.upgrade == NULL;
}

/* auth_request and mirror want the status of their request alone: it says what one client may do, or tells another
 * server of it. The key of the page around it is none of theirs. */
static bool is_aside(const ngx_http_request_t *r, const struct location *location)
{
    return r != r->main && r->header_only && location->is_heir;
}

/* Once for each request: what it is redirected to belongs to its answer. */
ngx_int_t serve_handler(ngx_http_request_t *r)
{
    struct location *location = ngx_http_get_module_loc_conf(r, ngx_http_stampede_module);
    struct visit *visit = visit_of(r);
    if (visit != NULL)
        return visit->word == NULL ? NGX_DONE : NGX_DECLINED;
    if (location->key == NULL || location->kind == NULL || worker.guard == NULL || load_is(r) ||
        !asks_for_page(r) || is_aside(r, location))
        return NGX_DECLINED;
    ngx_pool_cleanup_t *cleanup = ngx_pool_cleanup_add(r->pool, sizeof *visit);
    if (cleanup == NULL)
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    cleanup->handler = visit_over;
    visit = cleanup->data;
    ngx_memzero(visit, sizeof *visit);
    visit->request = r;
    visit->location = location;
    visit->only_looks = r->headers_in.authorization != NULL;
    ngx_http_set_ctx(r, visit, ngx_http_stampede_module);
    ngx_int_t rc = begin(r, visit);
    if (rc == NGX_DECLINED)
        return NGX_DECLINED;
    if (rc != NGX_AGAIN)
        ngx_http_finalize_request(r, rc);
    return NGX_DONE;
}

/* ---- variables ---- */

enum variable { STATUS, AGE, LOAD };

static ngx_int_t variable(ngx_http_request_t *r, ngx_http_variable_value_t *value, uintptr_t which)
{
    const struct visit *visit = visit_of(r);
    char text[32] = "";
    if (visit != NULL && visit->word != NULL && which == STATUS)
        snprintf(text, sizeof text, "%s", visit->word);
    else if (visit != NULL && visit->result.status == GUARD_OK && visit->result.source != 0 && which == AGE)
        snprintf(text, sizeof text, "%" PRIu32, visit->age_s);
    else if (visit != NULL && visit->result.load != 0 && which == LOAD)
        snprintf(text, sizeof text, "%016" PRIx64, visit->result.load);
    ngx_str_t copy = {strlen(text), (u_char *)text};
    value->data = copy.len > 0 ? ngx_pstrdup(r->pool, &copy) : NULL;
    value->len = (unsigned)(value->data != NULL ? copy.len : 0) & 0xfffffffu;
    value->valid = value->data != NULL;
    value->not_found = value->data == NULL;
    value->no_cacheable = 1;
    return NGX_OK;
}

ngx_int_t serve_variables(ngx_conf_t *cf)
{
    static ngx_str_t names[] = {[STATUS] = ngx_string("stampede_status"),
                                [AGE] = ngx_string("stampede_age"),
                                [LOAD] = ngx_string("stampede_load")};
    for (uintptr_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        ngx_http_variable_t *added = ngx_http_add_variable(cf, &names[i], NGX_HTTP_VAR_NOCACHEABLE);
        if (added == NULL)
            return NGX_ERROR;
        added->get_handler = variable;
        added->data = i;
    }
    return NGX_OK;
}

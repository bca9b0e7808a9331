/* SPDX-License-Identifier: MIT */
/*
 * load.c - a load is an internal request of its own.
 *
 *     load_page()  -->  request of nobody  -->  the location's handler (proxy_pass, ...)
 *                              |
 *      guard_load_done() <-- filters take status, headers and body; nothing is sent
 *
 * Nobody     It is a main request on a connection that nobody is at the other end of: its descriptor is an eventfd,
 *            which is never watched. So no client ends it, and all of nginx (error pages, redirects, timeouts,
 *            worker_shutdown_timeout) works on it as on any other. It begins in the phase after ours: access and
 *            rewrites were the client's.
 * Copy       It has what origin.c has copied of the client's request, and keeps that until it ends.
 * Complete   Only with its last buffer, and as long as Content-Length says: an origin that dies half way ends the
 *            request in order, but without one.
 */
#include "module.h"

#include <sys/eventfd.h>

enum { LARGE_MS = 10000 };

struct load {
    struct guard_load *handle; /* NULL: finished */
    struct origin *origin;     /* a reference */
    struct location *location;
    ngx_http_request_t *request; /* NULL: not begun, or over */
    struct verdict verdict;
    bool is_large, is_judged;
    off_t length; /* that the origin says; -1: it does not */
    char *body;   /* owned */
    size_t bytes, room;
    size_t meta_bytes;
    char meta[ENTRY_META_MAX];
};

struct load_log { /* first as nginx has it */
    ngx_http_log_ctx_t context;
    struct load *load; /* NULL: over */
};

static ngx_http_output_header_filter_pt next_header_filter;
static ngx_http_output_body_filter_pt next_body_filter;

/* ---- the end of a load ---- */

static void fail_load(struct load *load, enum guard_failure failure)
{
    if (load->handle != NULL)
        guard_load_fail(load->handle, failure);
    load->handle = NULL;
}

/* This worker lacks connections or memory, which says nothing about the origin: the request that began it asks the
 * origin itself, the others anew. */
static void decline_load(struct guard_load *handle)
{
    char meta[64];
    struct entry_writer writer;
    entry_begin(&writer, meta, sizeof meta, &(struct entry){.status = 0});
    guard_load_keep(handle, &(struct guard_keep){.how = GUARD_PASS});
    guard_load_meta(handle, meta, entry_end(&writer));
    guard_load_done(handle, "", 0, NULL);
}

static void free_load(struct load *load)
{
    fail_load(load, GUARD_FAILURE_UNAVAILABLE);
    origin_unref(load->origin);
    free(load->body);
    free(load);
}

static void decline(struct load *load)
{
    decline_load(load->handle);
    load->handle = NULL;
    free_load(load);
}

/* Its request's memory goes. If worker_shutdown_timeout ended it that says nothing about the origin: the load is open
 * until this worker's loop ends, which cancels it for others to load. */
static void on_request_over(void *context)
{
    struct load *load = context;
    const bool is_worker_closing = load->request->connection->close;
    ((struct load_log *)load->request->connection->log->data)->load = NULL;
    load->request = NULL;
    if (load->handle == NULL || !is_worker_closing)
        free_load(load);
}

/* Of a page's own; the last is for its variants, so that none of them lacks a tag that the page has. */
enum { PAGE_TAGS_MAX = GUARD_TAGS_MAX - 1 };

/* False: a tag that an invalidation would miss. */
static bool add_tags(struct load *load, ngx_str_t tags, unsigned *count)
{
    const char *at = (const char *)tags.data, *end = at + tags.len;
    while (at < end) {
        const char *start = at;
        while (at < end && *at != ' ' && *at != ',')
            at++;
        const size_t bytes = (size_t)(at - start);
        at++;
        if (bytes == 0)
            continue;
        if (bytes > GUARD_TAG_BYTES_MAX || ++*count > PAGE_TAGS_MAX)
            return false;
        guard_load_tag_of(load->handle, start, bytes);
    }
    return true;
}

static bool tag_load(struct load *load)
{
    char variants[VARIANTS_TAG_BYTES];
    ngx_array_t *tags = load->location->tags;
    ngx_http_complex_value_t *values = tags != NULL ? tags->elts : NULL;
    unsigned count = 0;
    if (load->origin->variants != 0) {
        variants_tag(load->origin->variants, variants);
        guard_load_tag_of(load->handle, variants, VARIANTS_TAG_BYTES);
    }
    for (ngx_uint_t i = 0; tags != NULL && i < tags->nelts; i++) {
        ngx_str_t text;
        if (ngx_http_complex_value(load->request, &values[i], &text) != NGX_OK ||
            !add_tags(load, text, &count))
            return false;
    }
    return true;
}

/* A page that is too large for the guard: what it gets says that, and whoever gets it asks the origin itself. One
 * that passes says so for no longer than it would part the others. */
static void finish_large(struct load *load)
{
    struct entry_writer writer;
    const ngx_msec_t page_ms = load->location->fresh_ms;
    const bool passes = load->verdict.how == VERDICT_PASS;
    const uint32_t large_ms = page_ms > LARGE_MS ? (uint32_t)page_ms : LARGE_MS;
    const uint32_t fresh_ms = passes ? load->verdict.pass_ms : large_ms;
    entry_begin(&writer, load->meta, sizeof load->meta,
                &(struct entry){.status = 0, .fresh_s = fresh_ms / 1000});
    load->meta_bytes = entry_end(&writer);
    load->verdict = (struct verdict){fresh_ms > 0 ? VERDICT_STORE : VERDICT_PASS, fresh_ms, 0, 0};
    load->bytes = 0;
}

static void finish(struct load *load)
{
    static const enum guard_how hows[] = {
        [VERDICT_STORE] = GUARD_STORE, [VERDICT_SHARE] = GUARD_SHARE, [VERDICT_PASS] = GUARD_PASS};
    if (load->handle == NULL)
        return;
    if (!load->is_judged || load->verdict.how == VERDICT_FAIL ||
        (load->length != -1 && !load->is_large && (off_t)load->bytes != load->length)) {
        fail_load(load, GUARD_FAILURE_UNAVAILABLE);
        return;
    }
    if (load->is_large)
        finish_large(load);
    const struct guard_keep how = {.how = hows[load->verdict.how],
                                   .fresh_ms = load->verdict.fresh_ms,
                                   .stale_ms = load->verdict.stale_ms,
                                   .pass_ms = load->verdict.pass_ms};
    guard_load_keep(load->handle, &how);
    guard_load_meta(load->handle, load->meta, load->meta_bytes);
    guard_load_done(load->handle, load->body, load->bytes, NULL);
    load->handle = NULL;
}

/* ---- filters ---- */

static ngx_chain_t *send_nothing(ngx_connection_t *connection, ngx_chain_t *in, off_t limit)
{
    (void)connection;
    (void)in;
    (void)limit;
    return NGX_CHAIN_ERROR;
}

bool load_is(ngx_http_request_t *r)
{
    return r->connection->send_chain == send_nothing;
}

/* NULL: over. */
static struct load *load_of(ngx_http_request_t *r)
{
    return ((struct load_log *)r->connection->log->data)->load;
}

static void hear(ngx_list_part_t *part, struct says *says, struct vary *vary)
{
    ngx_uint_t i = 0;
    for (ngx_table_elt_t *header; (header = next_header(&part, &i)) != NULL;) {
        const struct text name = text_of(header->key), value = text_of(header->value);
        if (text_is(name, "cache-control"))
            says_cache_control(says, value);
        else if (text_is(name, "vary"))
            vary_add(vary, value);
        else if (text_is(name, "set-cookie"))
            says->sets_cookie = true;
        else if (text_is(name, "age"))
            says_age(says, value);
        else if (text_is(name, "expires")) {
            const time_t left_s = ngx_parse_http_time(header->value.data, header->value.len) - ngx_time();
            says->expires_s = left_s < 0 ? 0 : left_s;
        }
    }
}

/* nginx does not pass all on (proxy_hide_header, `expires`, X-Accel-Redirect): who may have it counts all the same,
 * as for its own cache, but for what proxy_ignore_headers names. */
static void hear_origin(ngx_http_request_t *r, struct says *says, struct vary *vary)
{
    struct says origin;
    struct vary varies = {.bytes = 0};
    if (r->upstream == NULL || r->upstream->conf == NULL)
        return;
    const ngx_uint_t ignored = r->upstream->conf->ignore_headers;
    const bool obeys = (ignored & NGX_HTTP_UPSTREAM_IGN_CACHE_CONTROL) == 0;
    says_init(&origin, says->status);
    hear(&r->upstream->headers_in.headers.part, &origin, &varies);
    says->no_store |= origin.no_store && obeys;
    says->no_cache |= origin.no_cache && obeys;
    says->is_private |= origin.is_private && obeys;
    says->must_revalidate |= origin.must_revalidate && obeys;
    says->sets_cookie |= origin.sets_cookie && (ignored & NGX_HTTP_UPSTREAM_IGN_SET_COOKIE) == 0;
    says->is_handed_on = r->upstream->headers_in.x_accel_redirect != NULL &&
                         (ignored & NGX_HTTP_UPSTREAM_IGN_XA_REDIRECT) == 0;
    if ((ignored & NGX_HTTP_UPSTREAM_IGN_VARY) != 0)
        return;
    vary->is_all |= varies.is_all;
    vary_add(vary, (struct text){varies.names, varies.bytes});
}

static struct text type_of(ngx_http_request_t *r)
{
    const ngx_http_headers_out_t *out = &r->headers_out;
    const bool is_apart = out->charset.len > 0 && out->content_type_len == out->content_type.len;
    const size_t most = out->content_type.len + sizeof "; charset=" + out->charset.len;
    u_char *both = is_apart ? ngx_pnalloc(r->pool, most) : NULL;
    if (both == NULL)
        return text_of(out->content_type);
    u_char *end = ngx_snprintf(both, most, "%V; charset=%V", &out->content_type, &out->charset);
    return (struct text){(const char *)both, (size_t)(end - both)};
}

/* Some that nginx's own handlers leave to its last filter are in no list. */
static void add_headers(ngx_http_request_t *r, struct entry_writer *writer, bool is_for_one)
{
    ngx_list_part_t *part = &r->headers_out.headers.part;
    ngx_uint_t i = 0;
    u_char date[sizeof "Mon, 28 Sep 1970 06:00:00 GMT"];
    if (r->headers_out.content_type.len > 0)
        entry_add(writer, TEXT("Content-Type"), type_of(r));
    if (r->headers_out.last_modified == NULL && r->headers_out.last_modified_time != -1) {
        const u_char *end = ngx_http_time(date, r->headers_out.last_modified_time);
        entry_add(writer, TEXT("Last-Modified"), (struct text){(const char *)date, (size_t)(end - date)});
    }
    for (ngx_table_elt_t *header; (header = next_header(&part, &i)) != NULL;)
        if (!header_is_left_out(text_of(header->key), is_for_one))
            entry_add(writer, text_of(header->key), text_of(header->value));
}

/* Was it redirected to what error_page says? r->error_page alone says only that the location has some. */
static bool is_error_page(const ngx_http_request_t *r)
{
    const ngx_table_elt_t *location = r->headers_out.location;
    const bool is_elsewhere = location != NULL && location->value.len > 0 && location->value.data[0] != '/';
    return r->error_page && (r->uri_changes != NGX_HTTP_MAX_URI_CHANGES + 1 || is_elsewhere);
}

static void write_meta(struct load *load, ngx_http_request_t *r, const struct entry *entry)
{
    struct entry_writer writer;
    entry_begin(&writer, load->meta, sizeof load->meta, entry);
    add_headers(r, &writer, load->verdict.how == VERDICT_PASS);
    load->meta_bytes = entry_end(&writer);
}

static ngx_int_t judge(struct load *load, ngx_http_request_t *r)
{
    struct says says;
    struct vary vary = {.bytes = 0};
    struct entry entry = {.status = (unsigned)(r->err_status != 0 ? r->err_status : r->headers_out.status)};
    const struct rules rules = {.fresh_ms = (uint32_t)load->location->fresh_ms,
                                .stale_ms = (uint32_t)load->location->stale_ms,
                                .absent_ms = (uint32_t)load->location->absent_ms};
    ngx_str_t variant;
    says_init(&says, entry.status);
    says.is_error_page = entry.status < 400 && is_error_page(r);
    hear(&r->headers_out.headers.part, &says, &vary);
    hear_origin(r, &says, &vary);
    entry.age_s = says.age_s;
    load->verdict = verdict_of(&says, &rules);
    load->is_judged = true;
    if (load->verdict.how == VERDICT_FAIL)
        return NGX_OK;
    if (vary.is_all)
        load->verdict.how = VERDICT_PASS;
    entry.names = (struct text){vary.names, vary.is_all ? 0 : vary.bytes};
    if (request_variant(r, entry.names, r->pool, &variant) != NGX_OK)
        return NGX_ERROR;
    entry.variant = text_of(variant);
    entry.fresh_s = load->verdict.fresh_ms / 1000;
    write_meta(load, r, &entry);
    if (variant.len > VARIANT_BYTES_MAX || (load->meta_bytes == 0 && variant.len > 0)) {
        /* no key has room for it: for this client, and it leaves no mark for others */
        load->verdict = (struct verdict){.how = VERDICT_PASS};
        entry.names.bytes = entry.variant.bytes = 0;
        write_meta(load, r, &entry);
    }
    load->is_large = load->meta_bytes == 0;
    if (load->handle != NULL && load->verdict.how != VERDICT_PASS && !tag_load(load)) {
        ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                      "stampede: more than %d tags, or one beyond %d bytes: \"%V\" is not stored",
                      PAGE_TAGS_MAX, GUARD_TAG_BYTES_MAX, &r->uri);
        load->verdict.how = VERDICT_PASS;
    }
    return NGX_OK;
}

static size_t max_value(ngx_http_request_t *r)
{
    return ((struct settings *)ngx_http_get_module_main_conf(r, ngx_http_stampede_module))->max_value;
}

static ngx_int_t header_filter(ngx_http_request_t *r)
{
    if (!load_is(r))
        return next_header_filter(r);
    struct load *load = load_of(r);
    r->header_sent = 1;
    r->filter_need_in_memory = 1;
    if (load == NULL || load->is_judged || r != r->main)
        return NGX_OK;
    if (judge(load, r) != NGX_OK)
        return NGX_ERROR;
    load->length = r->headers_out.content_length_n;
    load->is_large |= load->length > (off_t)max_value(r);
    r->header_only = r->headers_out.status == NGX_HTTP_NO_CONTENT;
    if (r->header_only || load->is_large) {
        load->length = -1;
        finish(load);
    }
    return load->is_large ? NGX_ERROR : NGX_OK; /* the origin need not go on */
}

static bool has_room(struct load *load, size_t bytes)
{
    if (load->bytes + bytes <= load->room)
        return true;
    size_t room = load->length > 0 ? (size_t)load->length : 2 * load->room + 4096;
    room = room < load->bytes + bytes ? load->bytes + bytes : room;
    char *body = realloc(load->body, room);
    if (body == NULL)
        return false;
    load->body = body;
    load->room = room;
    return true;
}

/* What stands in a file only would be lost: nginx's copy filter, which comes first, reads it. */
static bool take(struct load *load, ngx_http_request_t *r, const ngx_buf_t *buf)
{
    const size_t bytes = ngx_buf_in_memory(buf) ? (size_t)(buf->last - buf->pos) : 0;
    if (load == NULL || load->handle == NULL || load->verdict.how == VERDICT_FAIL)
        return true;
    load->is_large = load->bytes + bytes > max_value(r);
    if (load->is_large)
        finish(load);
    if (load->is_large || (buf->in_file && !ngx_buf_in_memory(buf)) || !has_room(load, bytes))
        return false;
    if (bytes > 0)
        ngx_memcpy(load->body + load->bytes, buf->pos, bytes);
    load->bytes += bytes;
    return true;
}

static ngx_int_t body_filter(ngx_http_request_t *r, ngx_chain_t *in)
{
    if (!load_is(r))
        return next_body_filter(r, in);
    struct load *load = r == r->main ? load_of(r) : NULL; /* nobody reads what its subrequests say */
    bool is_last = false;
    for (; in != NULL; in = in->next) {
        if (!take(load, r, in->buf))
            return NGX_ERROR;
        is_last |= in->buf->last_buf;
        in->buf->pos = in->buf->last;
        in->buf->file_pos = in->buf->file_last;
    }
    if (is_last && load != NULL)
        finish(load);
    return NGX_OK;
}

void load_filters(void)
{
    next_header_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = header_filter;
    next_body_filter = ngx_http_top_body_filter;
    ngx_http_top_body_filter = body_filter;
}

/* ---- the request of nobody ---- */

static u_char *log_load(ngx_log_t *log, u_char *text, size_t bytes)
{
    struct load_log *mine = log->data;
    u_char *last = text;
    if (log->action != NULL)
        last = ngx_snprintf(last, bytes, " while %s", log->action);
    if (mine->load != NULL && mine->load->request != NULL)
        last =
            ngx_snprintf(last, bytes - (size_t)(last - text), ", load of \"%V\"", &mine->load->request->uri);
    return last;
}

/* Counted once more, as in ngx_http_request_handler(): its upstream's cleanup gives back the one that is there. */
static void end_request(struct load *load)
{
    ngx_connection_t *c = load->request->connection;
    load->request->count++;
    ngx_http_finalize_request(load->request, NGX_HTTP_CLIENT_CLOSED_REQUEST);
    ngx_http_run_posted_requests(c);
}

/* Nothing is ever ready here: worker_shutdown_timeout has passed, or a delay (limit_req, auth_delay). */
static void on_event(ngx_event_t *event)
{
    ngx_connection_t *c = event->data;
    struct load *load = ((struct load_log *)c->log->data)->load;
    if (c->close && load != NULL) {
        end_request(load);
        return;
    }
    if (load == NULL || !event->delayed || !event->timedout)
        return;
    event->delayed = event->timedout = 0;
    ngx_http_request_t *r = c->data;
    r->write_event_handler(r);
    ngx_http_run_posted_requests(c);
}

/* As ngx_event_accept() and HTTP/2 make theirs. It never becomes ready, and ends as soon as it is answered: eof. */
static bool fill_connection(ngx_connection_t *c, struct load *load)
{
    struct copy *copy = load->origin->copy;
    c->pool = ngx_create_pool(512, ngx_cycle->log);
    struct load_log *context = c->pool != NULL ? ngx_pcalloc(c->pool, sizeof *context) : NULL;
    ngx_log_t *log = context != NULL ? ngx_palloc(c->pool, sizeof *log) : NULL;
    c->buffer = log != NULL ? ngx_create_temp_buf(c->pool, 1) : NULL;
    if (c->buffer == NULL)
        return false;
    *log = *ngx_cycle->log;
    log->handler = log_load;
    log->data = context;
    context->load = load;
    context->context.connection = c;
    c->log = c->pool->log = c->read->log = c->write->log = log;
    c->number = ngx_atomic_fetch_add(ngx_connection_counter, 1);
    log->connection = c->number;
    c->send_chain = send_nothing;
    c->sockaddr = copy->c.sockaddr;
    c->socklen = copy->c.socklen;
    c->addr_text = copy->c.addr_text;
    c->local_sockaddr = copy->c.local_sockaddr;
    c->local_socklen = copy->c.local_socklen;
    c->listening = copy->c.listening;
    c->tcp_nodelay = NGX_TCP_NODELAY_DISABLED;
    c->tcp_nopush = NGX_TCP_NOPUSH_DISABLED;
    c->log_error = NGX_ERROR_INFO;
    c->read->active = c->write->active = c->write->ready = c->read->eof = 1;
    c->read->handler = c->write->handler = on_event;
    c->data = &copy->http;
    return true;
}

static void fill_request(ngx_http_request_t *r, struct copy *copy)
{
    ngx_http_core_main_conf_t *core = ngx_http_get_module_main_conf(r, ngx_http_core_module);
    const ngx_http_request_t *from = &copy->r;
    r->method = NGX_HTTP_GET;
    ngx_str_set(&r->method_name, "GET");
    r->http_version = from->http_version > NGX_HTTP_VERSION_11 ? NGX_HTTP_VERSION_11 : from->http_version;
    r->http_protocol = from->http_protocol;
    r->request_line = from->request_line;
    r->uri = from->uri;
    r->args = from->args;
    r->exten = from->exten;
    r->unparsed_uri = from->unparsed_uri;
    r->srv_conf = from->srv_conf;
    r->loc_conf = from->loc_conf;
    r->complex_uri = from->complex_uri;
    r->quoted_uri = from->quoted_uri;
    r->plus_in_uri = from->plus_in_uri;
    r->empty_path_in_uri = from->empty_path_in_uri;
    r->add_uri_to_alias = from->add_uri_to_alias;
    r->valid_unparsed_uri = from->valid_unparsed_uri;
    r->internal = from->internal;
    /* "Passed" in both modules: the client has been counted, and what a redirect leads to would count it twice. */
    r->limit_req_status = r->limit_conn_status = 1;
    r->valid_location = r->logged = 1;
#if (NGX_PCRE)
    r->ncaptures = from->ncaptures;
    r->captures = from->captures;
    r->captures_data = from->captures_data;
    r->realloc_captures = 1;
#endif
    r->http_state = NGX_HTTP_PROCESS_REQUEST_STATE;
    ngx_memcpy(r->variables, from->variables, core->variables.nelts * sizeof *r->variables);
    r->headers_in = from->headers_in;
    r->headers_in.headers.last = &r->headers_in.headers.part;
}

static ngx_http_request_t *new_request(struct load *load)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    ngx_connection_t *c = fd != -1 ? ngx_get_connection(fd, ngx_cycle->log) : NULL;
    if (c == NULL) {
        if (fd != -1)
            close(fd);
        return NULL;
    }
    bool is_filled = fill_connection(c, load);
    ngx_http_request_t *r = is_filled ? ngx_http_create_request(c) : NULL;
    if (r == NULL) {
        ngx_pool_t *pool = c->pool;
        ngx_close_connection(c);
        if (pool != NULL)
            ngx_destroy_pool(pool);
        return NULL;
    }
#if (NGX_STAT_STUB)
    (void)ngx_atomic_fetch_add(ngx_stat_active, 1); /* ngx_http_close_connection() takes it back */
#endif
    c->data = r;
    return r;
}

static void begin(struct load *load)
{
    ngx_http_request_t *r = new_request(load);
    ngx_pool_cleanup_t *cleanup = r != NULL ? ngx_pool_cleanup_add(r->pool, 0) : NULL;
    if (cleanup == NULL) {
        if (r != NULL)
            ngx_http_finalize_request(r, NGX_ERROR);
        decline(load);
        return;
    }
    cleanup->handler = on_request_over;
    cleanup->data = load;
    load->request = r;
    ngx_connection_t *c = r->connection;
    fill_request(r, load->origin->copy);
    ngx_http_update_location_config(r);
    r->phase_handler = load->origin->phase;
    r->write_event_handler = ngx_http_core_run_phases;
    ngx_http_core_run_phases(r);
    ngx_http_run_posted_requests(c);
}

/* The limit has passed, or the guard closes: so does the origin's request. */
static void cancelled(void *context)
{
    struct load *load = context;
    fail_load(load, GUARD_FAILURE_TIMEOUT);
    if (load->request == NULL)
        free_load(load);
    else if (!worker.is_ending)
        end_request(load);
}

void load_page(struct guard_load *handle, void *unused)
{
    struct origin *origin = guard_load_asker(handle);
    struct load *load = origin != NULL ? calloc(1, sizeof *load) : NULL;
    (void)unused;
    if (load == NULL) {
        decline_load(handle);
        return;
    }
    origin_ref(origin);
    *load = (struct load){.handle = handle, .origin = origin, .location = origin->location, .length = -1};
    if (!worker.is_ending && origin_copy(origin) &&
        guard_load_defer(handle, worker.loop, cancelled, load) == GUARD_OK)
        begin(load);
    else
        decline(load);
}

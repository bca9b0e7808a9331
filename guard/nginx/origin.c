/* SPDX-License-Identifier: MIT */
/*
 * origin.c - what outlives the request that asked: a copy for the load, and which variant of the page it wants.
 *
 * URI, headers, variables and captures are copied into memory of their own. Conditions and Range are left out: the
 * whole page is what is stored.
 */
#include "module.h"

#include <inttypes.h>

static ngx_log_t silence; /* of a pool that goes on any thread: nginx's log is for its own */

struct origin *origin_new(ngx_http_request_t *r, struct location *location, uint32_t variants)
{
    struct origin *origin = calloc(1, sizeof *origin);
    if (origin == NULL)
        return NULL;
    atomic_init(&origin->refs, 1);
    origin->request = r;
    origin->location = location;
    origin->phase = r->phase_handler + 1;
    origin->variants = variants;
    return origin;
}

void origin_ref(void *origin)
{
    atomic_fetch_add(&((struct origin *)origin)->refs, 1);
}

void origin_unref(void *context)
{
    struct origin *origin = context;
    if (atomic_fetch_sub(&origin->refs, 1) != 1)
        return;
    if (origin->pool != NULL)
        ngx_destroy_pool(origin->pool);
    free(origin);
}

/* With a NUL behind it, as nginx's parser leaves header values. */
static bool keep(ngx_pool_t *pool, ngx_str_t *text)
{
    u_char *data = ngx_pnalloc(pool, text->len + 1);
    if (data == NULL)
        return false;
    if (text->len > 0)
        ngx_memcpy(data, text->data, text->len);
    data[text->len] = '\0';
    text->data = data;
    return true;
}

static bool keep_texts(struct copy *copy)
{
    ngx_pool_t *pool = copy->r.pool;
    ngx_str_t *texts[] = {
        &copy->r.request_line, &copy->r.uri,           &copy->r.args,      &copy->r.exten,
        &copy->r.unparsed_uri, &copy->r.http_protocol, &copy->c.addr_text, &copy->r.headers_in.server};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (!keep(pool, texts[i]))
            return false;
    ngx_str_t remote = {copy->c.socklen, (u_char *)copy->c.sockaddr};
    ngx_str_t local = {copy->c.local_socklen, (u_char *)copy->c.local_sockaddr};
    if (!keep(pool, &remote) || !keep(pool, &local))
        return false;
    copy->c.sockaddr = (struct sockaddr *)(void *)remote.data;
    copy->c.local_sockaddr = local.len != 0 ? (struct sockaddr *)(void *)local.data : NULL;
    return true;
}

/* Of a body that is not sent on, of this connection, or what asks for less than the whole page. */
static bool is_left_out(struct text name)
{
    static const char names[] = "range,if-range,if-modified-since,if-unmodified-since,if-none-match,if-match,"
                                "content-length,transfer-encoding,expect,connection,keep-alive,upgrade,te,";
    return text_is_in(name, TEXT(names));
}

ngx_table_elt_t *next_header(ngx_list_part_t **part, ngx_uint_t *i)
{
    for (; *part != NULL; *part = (*part)->next, *i = 0) {
        while (*i < (*part)->nelts) {
            ngx_table_elt_t *header = (ngx_table_elt_t *)(*part)->elts + (*i)++;
            if (header->hash != 0)
                return header;
        }
    }
    return NULL;
}

/* nginx knows some of them by name, and looks for them elsewhere. */
static bool keep_header(struct copy *copy, const ngx_table_elt_t *from, ngx_hash_t *known)
{
    ngx_table_elt_t *kept = ngx_list_push(&copy->r.headers_in.headers);
    ngx_str_t lower = {from->key.len, from->lowcase_key};
    if (kept == NULL)
        return false;
    *kept = (ngx_table_elt_t){.hash = from->hash, .key = from->key, .value = from->value};
    if (!keep(copy->r.pool, &kept->key) || !keep(copy->r.pool, &kept->value) || !keep(copy->r.pool, &lower))
        return false;
    kept->lowcase_key = lower.data;
    const ngx_http_header_t *header = ngx_hash_find(known, kept->hash, kept->lowcase_key, kept->key.len);
    return header == NULL || header->handler(&copy->r, kept, header->offset) == NGX_OK;
}

static bool keep_headers(struct copy *copy, ngx_http_request_t *r)
{
    ngx_http_core_main_conf_t *core = ngx_http_get_module_main_conf(r, ngx_http_core_module);
    ngx_list_part_t *part = &r->headers_in.headers.part;
    ngx_uint_t count = 1, i = 0;
    for (const ngx_list_part_t *each = part; each != NULL; each = each->next)
        count += each->nelts; /* one part: fill_request() copies the list by value */
    copy->r.headers_in = (ngx_http_headers_in_t){
        .server = copy->r.headers_in.server, .content_length_n = -1, .keep_alive_n = -1};
    if (ngx_list_init(&copy->r.headers_in.headers, copy->r.pool, count, sizeof(ngx_table_elt_t)) != NGX_OK)
        return false;
    for (const ngx_table_elt_t *header; (header = next_header(&part, &i)) != NULL;)
        if (!is_left_out(text_of(header->key)) && !keep_header(copy, header, &core->headers_in_hash))
            return false;
    return true;
}

static bool begins(ngx_str_t name, const char *start)
{
    return name.len >= strlen(start) && ngx_strncmp(name.data, start, strlen(start)) == 0;
}

/* Hangs on the client's connection: in the load's own it would be empty. */
static bool is_of_connection(ngx_str_t name)
{
    return begins(name, "ssl_") || begins(name, "scheme") || begins(name, "https") ||
           begins(name, "proxy_protocol_") || begins(name, "realip_");
}

/* Of the client's headers, some of which are left out, or of an answer. */
static bool is_looked_up_anew(ngx_str_t name)
{
    return begins(name, "http_") || begins(name, "content_") || begins(name, "sent_") ||
           begins(name, "upstream_") || begins(name, "stampede_");
}

/* What was set or looked up; what hangs on the client's connection is looked up here. */
static bool keep_variables(struct copy *copy, ngx_http_request_t *r)
{
    ngx_pool_t *pool = copy->r.pool;
    ngx_http_core_main_conf_t *core = ngx_http_get_module_main_conf(r, ngx_http_core_module);
    ngx_http_variable_t *names = core->variables.elts;
    copy->r.variables = ngx_pcalloc(pool, (core->variables.nelts + 1) * sizeof *copy->r.variables);
    if (copy->r.variables == NULL)
        return false;
    for (ngx_uint_t i = 0; i < core->variables.nelts; i++) {
        if (is_of_connection(names[i].name))
            ngx_http_get_indexed_variable(r, i);
        ngx_http_variable_value_t value = r->variables[i];
        ngx_str_t text = {value.len, value.data};
        if (!value.valid || value.no_cacheable || is_looked_up_anew(names[i].name))
            continue;
        if (!keep(pool, &text))
            return false;
        value.data = text.data;
        copy->r.variables[i] = value;
    }
    return true;
}

/* The first two are the whole match: no name asks for them, and an expression without groups leaves them unset. */
static bool keep_captures(struct copy *copy, ngx_http_request_t *r)
{
#if (NGX_PCRE)
    ngx_pool_t *pool = copy->r.pool;
    ngx_http_core_main_conf_t *core = ngx_http_get_module_main_conf(r, ngx_http_core_module);
    ngx_str_t subject = {0, r->captures_data};
    if (r->captures == NULL || r->captures_data == NULL || r->ncaptures <= 2) {
        copy->r.captures = NULL;
        copy->r.ncaptures = 0;
        return true;
    }
    for (ngx_uint_t i = 2; i < r->ncaptures; i++)
        subject.len = r->captures[i] > (int)subject.len ? (size_t)r->captures[i] : subject.len;
    copy->r.captures = ngx_pcalloc(pool, (core->ncaptures + 3) * sizeof *copy->r.captures);
    if (copy->r.captures == NULL || !keep(pool, &subject))
        return false;
    ngx_memcpy(copy->r.captures, r->captures, r->ncaptures * sizeof *copy->r.captures);
    copy->r.captures_data = subject.data;
#endif
    return true;
}

bool origin_copy(struct origin *origin)
{
    ngx_http_request_t *r = origin->request;
    if (origin->copy != NULL)
        return true;
    if (r == NULL || origin->pool != NULL)
        return false;
    origin->pool = ngx_create_pool(4096, &silence);
    struct copy *copy = origin->pool != NULL ? ngx_pcalloc(origin->pool, sizeof *copy) : NULL;
    if (copy == NULL)
        return false;
    /* Where nginx listens on all addresses only the client's socket knows which it is. */
    ngx_connection_local_sockaddr(r->connection, NULL, 0);
    copy->r = *r;
    copy->r.pool = origin->pool;
    copy->c = *r->connection;
    copy->http = *r->main->http_connection; /* a subrequest has none */
    copy->http.busy = copy->http.free = NULL;
    copy->http.nbusy = 0;
    copy->http.ssl_servername = NULL;
    if (!keep_texts(copy) || !keep_headers(copy, r) || !keep_variables(copy, r) || !keep_captures(copy, r))
        return false;
    origin->copy = copy;
    return true;
}

void origin_leave(struct origin *origin, bool is_wanted)
{
    if (is_wanted && atomic_load(&origin->refs) > 1)
        origin_copy(origin);
    origin->request = NULL;
    origin_unref(origin);
}

/* ---- variants ---- */

/* One whose hash is alike is purged along, and no more. */
uint32_t variants_of(const ngx_str_t *key)
{
    const uint32_t hash = ngx_murmur_hash2(key->data, key->len);
    return hash != 0 ? hash : 1;
}

void variants_tag(uint32_t variants, char tag[VARIANTS_TAG_BYTES])
{
    char text[VARIANTS_TAG_BYTES + 1];
    snprintf(text, sizeof text, "\001v%08" PRIx32, variants);
    ngx_memcpy(tag, text, VARIANTS_TAG_BYTES);
}

static size_t put_values(ngx_http_request_t *r, struct text name, u_char *out)
{
    ngx_list_part_t *part = &r->headers_in.headers.part;
    ngx_uint_t i = 0;
    size_t bytes = 0;
    for (const ngx_table_elt_t *header; (header = next_header(&part, &i)) != NULL;) {
        if (header->key.len != name.bytes ||
            ngx_strncasecmp(header->key.data, (u_char *)name.data, name.bytes) != 0)
            continue;
        if (out != NULL)
            *ngx_cpymem(out + bytes, header->value.data, header->value.len) = ',';
        bytes += header->value.len + 1;
    }
    return bytes;
}

ngx_int_t request_variant(ngx_http_request_t *r, struct text names, ngx_pool_t *pool, ngx_str_t *out)
{
    struct text name;
    size_t bytes = 0;
    for (size_t at = 0; vary_next(names, &at, &name);)
        bytes += name.bytes + 1 + put_values(r, name, NULL) + 1;
    out->data = ngx_pnalloc(pool, bytes + 1);
    u_char *last = out->data;
    for (size_t at = 0; last != NULL && vary_next(names, &at, &name);) {
        last = ngx_cpymem(last, name.data, name.bytes);
        *last++ = ':';
        last += put_values(r, name, last);
        *last++ = '\n';
    }
    out->len = bytes;
    return last != NULL ? NGX_OK : NGX_ERROR;
}

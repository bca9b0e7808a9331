/* SPDX-License-Identifier: MIT */
/*
 * module.h - the module for nginx: what its files share.
 *
 *     conf.c ---> serve.c ---> load.c ---> origin.c      who calls whom; all call worker.c,
 *        `------> ops.c                                  and verdict.c decides and calls nobody
 *
 *     a request         serve.c asks the guard; the answer is sent, or the request goes to the origin by itself
 *     a load            load.c: an internal request of its own, which no client can end; a filter takes its body
 *     what it asks for  origin.c: copied of the request whose load it is
 *     purge, metrics    ops.c
 *     the guard         worker.c: one for each worker, on nginx's loop
 *
 * Threads    nginx's one, but for what says otherwise.
 */
#pragma once

#include <ngx_config.h> /* first: it says what the system's headers declare */
#include <ngx_core.h>
#include <ngx_http.h>

#include "guard.h"
#include "verdict.h"

#include <stdatomic.h>

extern ngx_module_t ngx_http_stampede_module;

/* ---- settings ---- */

struct location {
    ngx_http_complex_value_t *key;      /* NULL: off */
    ngx_array_t *tags, *bypass, *purge; /* of ngx_http_complex_value_t; a key and perhaps a tag */
    ngx_msec_t fresh_ms, stale_ms, absent_ms, failure_ms, outage_ms, load_limit_ms;
    ngx_flag_t is_off;
    bool is_heir;                /* the key stands further out */
    ngx_http_handler_pt handler; /* of ours, for a purge or the numbers; NULL: others' */
    struct guard_kind *kind;     /* of this process */
};

struct settings { /* of http{} */
    ngx_str_t redis, name_space;
    size_t near_bytes, max_value;
    ngx_msec_t near_ms;
    ngx_int_t loads, permits;
    ngx_array_t locations; /* of struct location *: with a key */
    ngx_shm_zone_t *numbers;
    bool is_used; /* any of ours stands in a location */
};

/* Opens a guard with these settings and a kind for each set of limits. */
enum guard_status settings_open(struct settings *settings, guard_log *log, struct guard **guard,
                                struct guard_error *error);

/* ---- the worker ---- */

struct worker {
    struct guard *guard; /* NULL: none; requests go to the origin */
    struct guard_loop *loop;
    ngx_uint_t waiting; /* see worker_waits() */
    bool is_ending;
};
extern struct worker worker;

ngx_int_t worker_begin(ngx_cycle_t *cycle);
void worker_end(ngx_cycle_t *cycle);

/* One request or purge more (1) or less (-1) waits for the guard: a worker that quits ends only after the last. */
void worker_waits(int more);

/* ---- what a load asks for ---- */

struct copy {
    ngx_http_request_t r; /* by value: flags and what was copied; its other pointers are dead */
    ngx_connection_t c;   /* likewise: addresses */
    ngx_http_connection_t http;
};

/*
 * What a load needs to know of the request that asked. It reaches the loader as its asker, and outlives the request:
 * what of it is still wanted is copied when the request ends.
 */
struct origin {
    atomic_uint refs;
    ngx_http_request_t *request; /* NULL: it has ended */
    ngx_pool_t *pool;            /* of the copy; NULL: there is none */
    struct copy *copy;           /* NULL: not copied, see origin_copy() */
    struct location *location;
    guard_ticket ticket;
    ngx_int_t phase;   /* the one after ours: there a load goes on */
    uint32_t variants; /* names the tag of all variants of the page; 0: this is the page itself */
};
struct origin *origin_new(ngx_http_request_t *r, struct location *location, uint32_t variants);
void origin_ref(void *origin);
void origin_unref(void *origin);         /* any thread */
bool origin_copy(struct origin *origin); /* false: no memory, or its request has ended */
/* The request ends; `is_wanted`: a load may yet begin for it. */
void origin_leave(struct origin *origin, bool is_wanted);

/* The tag of the variants of a page; not NUL-terminated. */
enum { VARIANTS_TAG_BYTES = 10, VARIANT_BYTES_MAX = 2048 };
void variants_tag(uint32_t variants, char tag[VARIANTS_TAG_BYTES]);
uint32_t variants_of(const ngx_str_t *key);

/* What the request has in the headers that Vary names: "name: value\n" for each. */
ngx_int_t request_variant(ngx_http_request_t *r, struct text names, ngx_pool_t *pool, ngx_str_t *out);

/* The next one of a list, from part and index on; NULL: there is none. */
ngx_table_elt_t *next_header(ngx_list_part_t **part, ngx_uint_t *i);

/* ---- a load ---- */

void load_page(struct guard_load *load, void *unused); /* the loader; on nginx's loop */
bool load_is(ngx_http_request_t *r);                   /* this is a load's own request */
void load_filters(void);

/* ---- answers, purges, numbers ---- */

ngx_int_t serve_handler(ngx_http_request_t *r);
ngx_int_t serve_variables(ngx_conf_t *cf);
ngx_int_t purge_handler(ngx_http_request_t *r);
ngx_int_t metrics_handler(ngx_http_request_t *r);
ngx_int_t numbers_add(ngx_conf_t *cf, struct settings *settings);
void numbers_begin(struct settings *settings, ngx_log_t *log);
void numbers_end(void);

static inline struct text text_of(ngx_str_t string)
{
    return (struct text){(const char *)string.data, string.len};
}

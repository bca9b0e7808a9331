/* SPDX-License-Identifier: MIT */
/*
 * catalog.c - the loader: key -> plan -> rows -> document; and the watcher that knows whether we are ready.
 *
 * Readiness: the watcher looks at the schema until it is right, and again whenever the last query left doubt (no
 * answer in time, connection lost, a table or column missing); so a process that gets no requests because it is not
 * ready still finds out that it is ready again.
 *
 * Lifetime: `stop_fd` becomes readable once, in catalog_close(), and ends the watcher and its query.
 */
#include "app/catalog/catalog.h"

#include "app/base/clock.h"
#include "app/base/log.h"
#include "app/catalog/asker.h"
#include "app/catalog/catalog_json.h"
#include "app/pg/pg.h"
#include "app/pg/rows.h"
#include "app_statements.h"

#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    PLAN_PARAMS_MAX = 3,
    ROWS_BYTES_MAX = 16 << 20, /* a tree of some 100 000 categories; more is a mistake */
    CHECK_INTERVAL_MS = 1000,
    CHECK_LIMIT_MS = 2000,
    MISSING_BYTES = 512,
};

enum statement {
    LOAD_CATALOG,
    LOAD_CATEGORY,
    LOAD_PRODUCT,
    LOAD_PRODUCTS,
    LOAD_OFFERS,
    CHECK_SCHEMA,
    STATEMENT_COUNT
};

static const struct pg_statement statements[STATEMENT_COUNT] = {
    [LOAD_CATALOG] = {"load_catalog", SQL_LOAD_CATALOG, 1},
    [LOAD_CATEGORY] = {"load_category", SQL_LOAD_CATEGORY, 3},
    [LOAD_PRODUCT] = {"load_product", SQL_LOAD_PRODUCT, 3},
    [LOAD_PRODUCTS] = {"load_products", SQL_LOAD_PRODUCTS, 2},
    [LOAD_OFFERS] = {"load_offers", SQL_LOAD_OFFERS, 3},
    [CHECK_SCHEMA] = {"check_schema", SQL_CHECK_SCHEMA, 0},
};

struct catalog {
    struct guard_kind *kinds[DOCUMENT_KIND_COUNT]; /* the guard's */
    struct pg_pool *pool;                          /* owned */
    struct cache_gate *gate;                       /* lent; NULL: none */
    char delay_ms[NUMBER_SIZE];                    /* the parameter every load passes */
    _Atomic uint32_t fresh_ms, absent_ms;          /* of the policy */
    atomic_bool schema_right;
    int stop_fd; /* owned; -1: none */
    bool watching;
    pthread_t watcher;
};

/* ---- from a key to a plan ---- */

struct plan {
    enum statement statement;
    catalog_json_build *build;
    char id[NUMBER_SIZE], after[NUMBER_SIZE];
    char validator[CATALOG_VALIDATOR_SIZE]; /* of the product we have; "": none */
    char comment[TRACE_COMMENT_SIZE];
    const char *params[PLAN_PARAMS_MAX]; /* point into the plan, the catalog and the asker */
    uint64_t begun_ms;
    bool may_store;
};

static const struct {
    enum statement statement;
    catalog_json_build *build;
} kinds[DOCUMENT_KIND_COUNT] = {
    [DOCUMENT_TREE] = {LOAD_CATALOG, catalog_json_tree},
    [DOCUMENT_CATEGORY] = {LOAD_CATEGORY, catalog_json_category},
    [DOCUMENT_PRODUCT] = {LOAD_PRODUCT, catalog_json_product},
    [DOCUMENT_OFFERS] = {LOAD_OFFERS, catalog_json_offers},
};

/* False: the key is none of ours. */
static bool make_plan(const struct catalog *catalog, const struct guard_load *load, struct plan *plan)
{
    struct document_key key;

    if (!document_key_parse(guard_load_key(load), &key))
        return false;
    plan->statement = kinds[key.kind].statement;
    plan->build = kinds[key.kind].build;
    const char *id = number_print((int64_t)key.id, plan->id), *delay_ms = catalog->delay_ms;
    const char *const params[DOCUMENT_KIND_COUNT][PLAN_PARAMS_MAX] = {
        [DOCUMENT_TREE] = {delay_ms},
        [DOCUMENT_CATEGORY] = {id, number_print((int64_t)key.after, plan->after), delay_ms},
        [DOCUMENT_PRODUCT] = {id, plan->validator, delay_ms},
        [DOCUMENT_OFFERS] = {id, asker_token(guard_load_asker(load)), delay_ms},
    };
    memcpy(plan->params, params[key.kind], sizeof(plan->params));
    return true;
}

/* ---- loading ---- */

static const enum guard_failure failures[] = {
    [PG_OK] = GUARD_FAILURE_NONE,           [PG_UNAVAILABLE] = GUARD_FAILURE_UNAVAILABLE,
    [PG_TIMEOUT] = GUARD_FAILURE_TIMEOUT,   [PG_REJECTED] = GUARD_FAILURE_REJECTED,
    [PG_CANCELLED] = GUARD_FAILURE_TIMEOUT, /* no request waits for it any more */
};

/* Of the request that started it. */
static const struct trace *trace_of(const struct guard_load *load)
{
    return asker_trace(guard_load_asker(load));
}

/* Undefined table or column, or no right to read it: the schema is not what it was. */
static bool schema_is_doubtful(const struct pg_fault *fault)
{
    static const char *const states[] = {"42P01", "42703", "42501", "3F000"};

    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        if (strcmp(fault->sqlstate, states[i]) == 0)
            return true;
    }
    return false;
}

static void fail(struct catalog *catalog, struct guard_load *load, enum pg_outcome outcome,
                 const struct pg_fault *fault)
{
    if (schema_is_doubtful(fault))
        atomic_store(&catalog->schema_right, false);
    if (outcome != PG_CANCELLED) {
        char pairs[TRACE_PAIRS_SIZE];

        log_event(LOG_LEVEL_WARNING, "load_failed",
                  "key=%s load=%016" PRIx64 " %soutcome=%s sqlstate=%s reason=\"%s\"", guard_load_key(load),
                  guard_load_id(load), trace_pairs(trace_of(load), pairs), pg_outcome_name(outcome),
                  fault->sqlstate, fault->text);
    }
    guard_load_fail(load, failures[outcome]);
}

/* If the validator is still the same, the statement sends nothing else. */
static void note_validator(const struct guard_load *load, struct plan *plan)
{
    const char *previous = guard_load_previous_validator(load);

    if (previous != NULL && catalog_json_is_validator(previous, strlen(previous)))
        snprintf(plan->validator, sizeof(plan->validator), "%s", previous);
}

static void fail_broken(struct guard_load *load)
{
    char pairs[TRACE_PAIRS_SIZE];

    log_event(
        LOG_LEVEL_ERROR, "load_failed", "key=%s load=%016" PRIx64 " %soutcome=broken reason=\"%s\"",
        guard_load_key(load), guard_load_id(load), trace_pairs(trace_of(load), pairs),
        "the row makes no document: a NULL, or a text that is not UTF-8; or no memory: look at the row");
    guard_load_fail(load, GUARD_FAILURE_REJECTED);
}

static void name_category(struct guard_load *load, const char *id)
{
    char tag[TAG_SIZE];

    tag_category(id, tag);
    guard_load_tag(load, tag);
}

/* Every category in the path of the document: a rename need not know what lies below it. */
static void name_path(struct guard_load *load, const struct rows *rows, size_t row)
{
    const char *ids[CATALOG_PATH_MAX];
    const size_t count = catalog_json_path(rows, row, ids);

    for (size_t i = 0; i < count; i++)
        name_category(load, ids[i]);
}

static void name_tags(struct guard_load *load, const struct plan *plan, const struct rows *rows)
{
    char tag[TAG_SIZE];

    name_path(load, rows, 0); /* none of offers */
    if (plan->statement == LOAD_CATEGORY) {
        name_category(load, plan->id); /* even if it is absent */
        tag_listing(plan->id, tag);
        guard_load_tag(load, tag);
    }
}

/* Before the load is finished: how its answer is kept, if the row decides. False: the rows are broken. */
static bool keep(const struct catalog *catalog, struct guard_load *load, const struct plan *plan,
                 const struct rows *rows)
{
    struct guard_keep keep;

    if (plan->statement != LOAD_OFFERS)
        return true;
    const struct offers_rules rules = {.fresh_ms = atomic_load(&catalog->fresh_ms),
                                       .absent_ms = atomic_load(&catalog->absent_ms),
                                       .elapsed_ms = clock_ms() + 1 - plan->begun_ms,
                                       .may_store = plan->may_store};
    return offers_keep(rows, &rules, &keep) && guard_load_keep(load, &keep) == GUARD_OK;
}

static void answer(const struct catalog *catalog, struct guard_load *load, const struct plan *plan,
                   const struct rows *rows)
{
    struct catalog_document document;

    if (!keep(catalog, load, plan, rows)) {
        fail_broken(load);
        return;
    }
    name_tags(load, plan, rows);
    if (plan->statement == LOAD_PRODUCT && catalog_json_product_unchanged(rows, plan->validator)) {
        guard_load_unchanged(load);
        return;
    }
    switch (plan->build(rows, &document)) {
    case CATALOG_JSON_OK:
        guard_load_done(load, document.body, document.body_bytes, document.validator);
        catalog_document_clear(&document);
        return;
    case CATALOG_JSON_ABSENT:
        guard_load_absent(load);
        return;
    case CATALOG_JSON_BROKEN:
        fail_broken(load);
        return;
    }
}

static bool pass_gate(struct catalog *catalog, struct guard_load *load)
{
    return catalog->gate == NULL || cache_gate_pass(catalog->gate, load);
}

static void load_document(struct guard_load *load, void *context)
{
    struct catalog *catalog = context;
    struct plan plan = {0};

    if (!make_plan(catalog, load, &plan)) {
        log_event(LOG_LEVEL_ERROR, "load_failed",
                  "key=%s reason=\"no such kind of key\" hint=\"a bug: report it\"", guard_load_key(load));
        guard_load_fail(load, GUARD_FAILURE_INTERNAL);
        return;
    }
    struct rows rows;
    struct pg_fault fault;
    note_validator(load, &plan);
    plan.may_store = pass_gate(catalog, load);
    plan.begun_ms = clock_ms();
    const struct pg_request request = {
        .statement = plan.statement,
        .params = plan.params,
        .left_ms = guard_load_left_ms(load),
        .cancel_fd = guard_load_cancel_fd(load),
        .comment = trace_comment(trace_of(load), guard_load_id(load), plan.comment),
    };
    rows_init(&rows, ROWS_BYTES_MAX);
    enum pg_outcome outcome = pg_query(catalog->pool, &request, &rows, &fault);
    if (outcome == PG_OK)
        answer(catalog, load, &plan, &rows);
    else
        fail(catalog, load, outcome, &fault);
    rows_clear(&rows);
}

/* ---- loading several products with one statement ---- */

enum { PRODUCT_BATCH_MAX = 100 };

/* 0: the key is no product's. */
static uint64_t product_of(const struct guard_load *load)
{
    struct document_key key;

    return document_key_parse(guard_load_key(load), &key) && key.kind == DOCUMENT_PRODUCT ? key.id : 0;
}

/* row_count: it is not among them. */
static size_t row_of(const struct rows *rows, const struct guard_load *load)
{
    char id[NUMBER_SIZE];
    size_t row = 0;

    number_print((int64_t)product_of(load), id);
    for (; row < rows->row_count; row++) {
        const char *found = catalog_json_product_id(rows, row);

        if (found != NULL && strcmp(found, id) == 0)
            break;
    }
    return row;
}

static void answer_one_of_many(struct guard_load *load, const struct rows *rows)
{
    struct catalog_document document;
    const char *previous = guard_load_previous_validator(load);
    size_t row = row_of(rows, load);

    if (row == rows->row_count) {
        guard_load_absent(load);
        return;
    }
    if (catalog_json_product_at(rows, row, &document) != CATALOG_JSON_OK) {
        fail_broken(load);
        return;
    }
    name_path(load, rows, row);
    if (previous != NULL && strcmp(previous, document.validator) == 0)
        guard_load_unchanged(load);
    else
        guard_load_done(load, document.body, document.body_bytes, document.validator);
    catalog_document_clear(&document);
}

/* One statement, one comment: of the first load whose request is of a sampled trace; else of none. */
static const char *comment_of_many(struct guard_load *const *loads, size_t count,
                                   char out[TRACE_COMMENT_SIZE])
{
    const char *comment = NULL;

    for (size_t i = 0; i < count && comment == NULL; i++)
        comment = trace_comment(trace_of(loads[i]), guard_load_id(loads[i]), out);
    return comment;
}

static void load_products(struct guard_load *const *loads, size_t count, void *context)
{
    struct catalog *catalog = context;
    char text[PG_ARRAY_NUMBERS_SIZE(GUARD_MANY_MAX)], comment[TRACE_COMMENT_SIZE];
    struct pg_array ids;
    struct rows rows;
    struct pg_fault fault;
    const char *const params[] = {text, catalog->delay_ms};
    const struct pg_request request = {
        .statement = LOAD_PRODUCTS,
        .params = params,
        .left_ms = guard_load_left_ms(loads[0]),
        .cancel_fd = guard_load_cancel_fd(loads[0]),
        .comment = comment_of_many(loads, count, comment),
    };

    pg_array_init(&ids, text, sizeof(text));
    for (size_t i = 0; i < count; i++) {
        if (product_of(loads[i]) != 0) /* otherwise it is found absent */
            pg_array_add_number(&ids, (int64_t)product_of(loads[i]));
        pass_gate(catalog, loads[i]);
    }
    rows_init(&rows, ROWS_BYTES_MAX);
    enum pg_outcome outcome = pg_query(catalog->pool, &request, &rows, &fault);
    for (size_t i = 0; i < count; i++) {
        if (outcome == PG_OK)
            answer_one_of_many(loads[i], &rows);
        else
            fail(catalog, loads[i], outcome, &fault);
    }
    rows_clear(&rows);
}

/* ---- watching ---- */

static void report_missing(const struct rows *rows)
{
    char missing[MISSING_BYTES] = "";
    size_t length = 0;

    for (size_t row = 0; row < rows->row_count && length < sizeof(missing); row++) {
        const char *what = rows_text(rows, row, 0);
        int added = snprintf(missing + length, sizeof(missing) - length, "%s%s", row > 0 ? ", " : "",
                             what != NULL ? what : "?");

        length += (size_t)added;
    }
    log_event(LOG_LEVEL_ERROR, "schema_wrong", "missing=\"%s\" hint=\"make db DATABASE_URL=...\"", missing);
}

static void check_schema(struct catalog *catalog)
{
    struct rows rows;
    struct pg_fault fault;
    const struct pg_request request = {
        .statement = CHECK_SCHEMA, .params = NULL, .left_ms = CHECK_LIMIT_MS, .cancel_fd = catalog->stop_fd};

    rows_init(&rows, ROWS_BYTES_MAX);
    enum pg_outcome outcome = pg_query(catalog->pool, &request, &rows, &fault);
    bool right = outcome == PG_OK && rows.row_count == 0;
    if (outcome == PG_OK && !right)
        report_missing(&rows);
    if (outcome != PG_OK && outcome != PG_CANCELLED) {
        log_event(LOG_LEVEL_WARNING, "schema_unseen", "outcome=%s sqlstate=%s reason=\"%s\"",
                  pg_outcome_name(outcome), fault.sqlstate, fault.text);
    }
    atomic_store(&catalog->schema_right, right);
    rows_clear(&rows);
}

static void *watch(void *context)
{
    struct catalog *catalog = context;
    struct pollfd stop = {.fd = catalog->stop_fd, .events = POLLIN};

    do {
        if (!atomic_load(&catalog->schema_right) || pg_pool_state(catalog->pool) != PG_STATE_UP)
            check_schema(catalog);
    } while (poll(&stop, 1, CHECK_INTERVAL_MS) <= 0);
    return NULL;
}

bool catalog_ready(const struct catalog *catalog)
{
    return atomic_load(&catalog->schema_right) && pg_pool_state(catalog->pool) != PG_STATE_DOWN;
}

/* ---- opening and closing ---- */

static bool open_pool(struct catalog *catalog, const struct settings *settings)
{
    uint32_t limit_ms = settings->policy.load_limit_ms;
    const struct pg_config config = {
        .conninfo = settings->database_url,
        .connection_count = (size_t)settings->guard.max_loads + 1, /* the watcher's */
        .prepare = settings->prepare,
        .standby_will_do = settings->database_standby,
        .session_ms = settings->database_session_ms,
        .statement_limit_ms = limit_ms > CHECK_LIMIT_MS ? limit_ms : CHECK_LIMIT_MS,
        .statements = statements,
        .statement_count = STATEMENT_COUNT,
    };

    return pg_pool_open(&config, &catalog->pool);
}

/* What all kinds have in common, and what this one has of its own. */
static struct guard_policy policy_of(struct catalog *catalog, const struct settings *settings,
                                     enum document_kind kind)
{
    struct guard_policy policy = settings->policy;

    policy.loader = load_document;
    policy.context = catalog;
    policy.near_ms = settings->guard.near_bytes > 0 ? policy.near_ms : 0;
    policy.batch_loader = kind == DOCUMENT_PRODUCT ? load_products : NULL;
    policy.batch_max = PRODUCT_BATCH_MAX;
    policy.apart = !settings->merge_loads;
    policy.tagged = kind == DOCUMENT_CATEGORY || kind == DOCUMENT_PRODUCT;
    policy.name = document_kind_name(kind);
    return policy;
}

static void note_times(struct catalog *catalog, const struct settings *settings)
{
    atomic_store(&catalog->fresh_ms, settings->policy.fresh_ms);
    atomic_store(&catalog->absent_ms, settings->policy.absent_ms);
}

static bool add_kinds(struct catalog *catalog, const struct settings *settings, struct guard *guard,
                      struct guard_error *error)
{
    note_times(catalog, settings);
    for (enum document_kind kind = 0; kind < DOCUMENT_KIND_COUNT; kind++) {
        const struct guard_policy policy = policy_of(catalog, settings, kind);

        if (guard_kind_add(guard, &policy, &catalog->kinds[kind], error) != GUARD_OK)
            return false;
    }
    return true;
}

/* The first ones that were set are set back: they were accepted once. */
bool catalog_set_policy(struct catalog *catalog, const struct settings *now, const struct settings *changed,
                        struct guard_error *error)
{
    enum document_kind kind = 0;

    for (; kind < DOCUMENT_KIND_COUNT; kind++) {
        const struct guard_policy policy = policy_of(catalog, changed, kind);

        if (guard_kind_set(catalog->kinds[kind], &policy, error) != GUARD_OK)
            break;
    }
    if (kind == DOCUMENT_KIND_COUNT) {
        note_times(catalog, changed);
        return true;
    }
    while (kind-- > 0) {
        const struct guard_policy policy = policy_of(catalog, now, kind);

        guard_kind_set(catalog->kinds[kind], &policy, NULL);
    }
    return false;
}

static bool no_memory(struct guard_error *error)
{
    if (error != NULL) {
        error->status = GUARD_NO_MEMORY;
        snprintf(error->text, sizeof(error->text),
                 "the catalog has no memory, descriptor or thread: raise MemoryMax, ulimit -n or TasksMax");
    }
    return false;
}

bool catalog_open(const struct settings *settings, struct guard *guard, struct catalog **out,
                  struct guard_error *error)
{
    struct catalog *catalog = calloc(1, sizeof(*catalog));

    if (catalog == NULL)
        return no_memory(error);
    json_object_seed(0); /* before there are threads that would race for it */
    number_print(settings->load_delay_ms, catalog->delay_ms);
    catalog->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    bool opened = catalog->stop_fd >= 0 && open_pool(catalog, settings);
    if (!opened)
        no_memory(error);
    opened = opened && add_kinds(catalog, settings, guard, error);
    catalog->watching = opened && thread_start(&catalog->watcher, watch, catalog);
    if (opened && !catalog->watching)
        opened = no_memory(error);
    if (!opened) {
        catalog_close(&catalog);
        return false;
    }
    *out = catalog;
    return true;
}

void catalog_close(struct catalog **catalog)
{
    struct catalog *closing = *catalog;

    *catalog = NULL;
    if (closing == NULL)
        return;
    if (closing->watching) {
        eventfd_write(closing->stop_fd, 1);
        pthread_join(closing->watcher, NULL);
    }
    pg_pool_close(&closing->pool);
    if (closing->stop_fd >= 0)
        close(closing->stop_fd);
    free(closing);
}

void catalog_set_gate(struct catalog *catalog, struct cache_gate *gate)
{
    catalog->gate = gate;
}

struct guard_kind *catalog_kind(const struct catalog *catalog, enum document_kind kind)
{
    return catalog->kinds[kind];
}

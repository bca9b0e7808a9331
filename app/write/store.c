/* SPDX-License-Identifier: MIT */
/* store.c - see store.h. */
#include "app/write/store.h"

#include "app/base/clock.h"
#include "app/base/log.h"
#include "app/base/number.h"
#include "app_statements.h"

#include <stdio.h>
#include <string.h>

enum {
    ROWS_BYTES_MAX = 4 << 20,
    OUTBOX_LIMIT_MS = 2000, /* of one statement on the outbox */
};

enum statement {
    CHANGE_PRODUCT,
    PURCHASE_PRODUCT,
    RECALL_PURCHASE,
    FORGET_PURCHASES,
    OWED_INVALIDATIONS,
    CLAIM_INVALIDATIONS,
    SETTLE_INVALIDATIONS,
    RETURN_INVALIDATIONS,
    MEASURE_OUTBOX,
    UNPAID_TRANSACTIONS,
    BEAT_CACHE,
    DROP_CACHES,
    STATEMENT_COUNT
};

static const struct pg_statement statements[STATEMENT_COUNT] = {
    [CHANGE_PRODUCT] = {"change_product", SQL_CHANGE_PRODUCT, 7},
    [PURCHASE_PRODUCT] = {"purchase_product", SQL_PURCHASE_PRODUCT, 3},
    [RECALL_PURCHASE] = {"recall_purchase", SQL_RECALL_PURCHASE, 1},
    [FORGET_PURCHASES] = {"forget_purchases", SQL_FORGET_PURCHASES, 1},
    [OWED_INVALIDATIONS] = {"owed_invalidations", SQL_OWED_INVALIDATIONS, 2},
    [CLAIM_INVALIDATIONS] = {"claim_invalidations", SQL_CLAIM_INVALIDATIONS, 3},
    [SETTLE_INVALIDATIONS] = {"settle_invalidations", SQL_SETTLE_INVALIDATIONS, 3},
    [RETURN_INVALIDATIONS] = {"return_invalidations", SQL_RETURN_INVALIDATIONS, 2},
    [MEASURE_OUTBOX] = {"measure_outbox", SQL_MEASURE_OUTBOX, 1},
    [UNPAID_TRANSACTIONS] = {"unpaid_transactions", SQL_UNPAID_TRANSACTIONS, 1},
    [BEAT_CACHE] = {"beat_cache", SQL_BEAT_CACHE, 4},
    [DROP_CACHES] = {"drop_caches", SQL_DROP_CACHES, 0},
};

/* ---- calling ---- */

struct call {
    enum statement statement;
    const char *const *params;
    uint64_t deadline_ms;
    int cancel_fd;
    const struct trace *trace; /* NULL: of no request */
};

static enum pg_outcome run(struct pg_pool *store, const struct call *call, struct rows *rows,
                           struct pg_fault *fault)
{
    static const struct trace none;
    const struct trace *trace = call->trace != NULL ? call->trace : &none;
    char comment[TRACE_COMMENT_SIZE], pairs[TRACE_PAIRS_SIZE];
    const struct pg_request request = {
        .statement = call->statement,
        .params = call->params,
        .left_ms = clock_left_ms(call->deadline_ms),
        .cancel_fd = call->cancel_fd,
        .comment = trace_comment(trace, 0, comment),
    };
    enum pg_outcome outcome = pg_query(store, &request, rows, fault);

    if (outcome != PG_OK && outcome != PG_CANCELLED && strcmp(fault->sqlstate, "23505") != 0)
        log_event(LOG_LEVEL_WARNING, "write_failed",
                  "statement=%s %soutcome=%s in_doubt=%s sqlstate=%s reason=\"%s\"",
                  statements[call->statement].name, trace_pairs(trace, pairs), pg_outcome_name(outcome),
                  fault->in_doubt ? "yes" : "no", fault->sqlstate, fault->text);
    return outcome;
}

/* A number of the first row; `absent` if it is NULL. */
static int64_t number_of(const struct rows *rows, size_t column, int64_t absent)
{
    const char *text = rows->row_count > 0 ? rows_text(rows, 0, column) : NULL;
    int64_t number;

    return text != NULL && number_parse_signed(text, &number) ? number : absent;
}

/* ---- writing ---- */

static enum write_outcome outcome_of(enum pg_outcome outcome, const struct pg_fault *fault)
{
    if (fault->in_doubt)
        return WRITE_UNKNOWN;
    switch (outcome) {
    case PG_OK:
        return WRITE_DONE;
    case PG_UNAVAILABLE:
        return WRITE_FAILED;
    case PG_TIMEOUT:
    case PG_CANCELLED:
        return WRITE_TIMEOUT;
    case PG_REJECTED:
        break;
    }
    return WRITE_REFUSED;
}

static enum write_outcome change(struct pg_pool *store, const struct store_write *write, struct rows *rows,
                                 struct write_result *result)
{
    char id[NUMBER_SIZE], price[NUMBER_SIZE], stock[NUMBER_SIZE], category[NUMBER_SIZE];
    const struct write_fields *fields = write->fields;
    const char *const params[] = {number_print((int64_t)write->id, id),
                                  write->versions,
                                  fields->name,
                                  fields->description,
                                  number_print(fields->price_cents, price),
                                  number_print(fields->stock, stock),
                                  fields->category_id != 0 ? number_print(fields->category_id, category)
                                                           : NULL};
    const struct call call = {CHANGE_PRODUCT, params, write->deadline_ms, -1, write->trace};
    struct pg_fault fault;
    const enum pg_outcome outcome = run(store, &call, rows, &fault);

    if (outcome == PG_REJECTED && strcmp(fault.sqlstate, "23503") == 0) {
        write_error_add(result->errors, "category_id", "no category of the third level");
        return WRITE_BAD_FIELDS;
    }
    if (outcome != PG_OK)
        return outcome_of(outcome, &fault);
    result->version = number_of(rows, 0, 0);
    if (result->version != 0) {
        const char *validator = rows_text(rows, 0, 3);

        snprintf(result->validator, sizeof(result->validator), "%s", validator != NULL ? validator : "");
        return WRITE_DONE;
    }
    return strcmp(rows_text(rows, 0, 2), "t") == 0 ? WRITE_CONFLICT : WRITE_ABSENT;
}

/* WRITE_ABSENT: nothing was bought under this key. */
static enum write_outcome recall(struct pg_pool *store, const struct store_write *write, struct rows *rows,
                                 struct write_result *result)
{
    const char *const params[] = {write->key};
    const struct call call = {RECALL_PURCHASE, params, write->deadline_ms, -1, write->trace};
    struct pg_fault fault;
    const enum pg_outcome outcome = run(store, &call, rows, &fault);

    if (outcome != PG_OK) /* it only reads: nothing can be in doubt */
        return outcome == PG_TIMEOUT ? WRITE_TIMEOUT : WRITE_FAILED;
    if (rows->row_count == 0)
        return WRITE_ABSENT;
    if (number_of(rows, 0, 0) != (int64_t)write->id || number_of(rows, 1, 0) != write->fields->quantity)
        return WRITE_KEY_REUSED;
    result->stock = number_of(rows, 2, 0);
    result->version = number_of(rows, 3, 0);
    return WRITE_REPEATED;
}

static enum write_outcome buy(struct pg_pool *store, const struct store_write *write, struct rows *rows,
                              struct write_result *result, bool *key_was_used)
{
    char id[NUMBER_SIZE], quantity[NUMBER_SIZE];
    const char *const params[] = {number_print((int64_t)write->id, id),
                                  number_print(write->fields->quantity, quantity), write->key};
    const struct call call = {PURCHASE_PRODUCT, params, write->deadline_ms, -1, write->trace};
    struct pg_fault fault;
    const enum pg_outcome outcome = run(store, &call, rows, &fault);

    *key_was_used = strcmp(fault.sqlstate, "23505") == 0;
    if (outcome != PG_OK)
        return outcome_of(outcome, &fault);
    if (rows_text(rows, 0, 0) == NULL)
        return WRITE_ABSENT;
    result->version = number_of(rows, 2, 0);
    result->stock = number_of(rows, result->version != 0 ? 1 : 0, 0);
    return result->version != 0 ? WRITE_DONE : WRITE_SOLD_OUT;
}

/* A purchase that is repeated while the first one still runs waits for the row behind it. By then the first one is
 * committed and may have taken the last piece: so "sold out" needs another look at the key. */
static enum write_outcome purchase(struct pg_pool *store, const struct store_write *write, struct rows *rows,
                                   struct write_result *result)
{
    bool key_was_used;
    enum write_outcome outcome = write->key != NULL ? recall(store, write, rows, result) : WRITE_ABSENT;

    if (outcome != WRITE_ABSENT)
        return outcome;
    outcome = buy(store, write, rows, result, &key_was_used);
    if (write->key == NULL || (!key_was_used && outcome != WRITE_SOLD_OUT))
        return outcome;
    rows_reset(rows, 0);
    const int64_t found = result->stock;
    const enum write_outcome earlier = recall(store, write, rows, result);
    result->stock = earlier == WRITE_REPEATED ? result->stock : found;
    if (earlier != WRITE_ABSENT)
        return earlier;
    return key_was_used ? WRITE_FAILED : outcome; /* it was used, and has been forgotten since */
}

void store_write(struct pg_pool *store, const struct store_write *write, struct write_result *result,
                 int64_t *transaction_id)
{
    enum { TRANSACTION_OF_CHANGE = 1, TRANSACTION_OF_PURCHASE = 3, TRANSACTION_OF_RECALL = 4 };
    struct rows rows;

    *transaction_id = 0;
    rows_init(&rows, ROWS_BYTES_MAX);
    switch (write->kind) {
    case WRITE_PRODUCT:
        result->outcome = change(store, write, &rows, result);
        break;
    case WRITE_PURCHASE:
        result->outcome = purchase(store, write, &rows, result);
        break;
    }
    if (result->outcome == WRITE_DONE)
        *transaction_id = number_of(
            &rows, write->kind == WRITE_PRODUCT ? TRANSACTION_OF_CHANGE : TRANSACTION_OF_PURCHASE, 0);
    else if (result->outcome == WRITE_REPEATED)
        *transaction_id = number_of(&rows, TRANSACTION_OF_RECALL, 0);
    rows_clear(&rows);
}

/* ---- the outbox ---- */

static bool run_outbox(struct pg_pool *store, enum statement statement, const char *const *params,
                       int cancel_fd, struct rows *rows)
{
    const struct call call = {statement, params, clock_ms() + OUTBOX_LIMIT_MS, cancel_fd, NULL};
    struct pg_fault fault;

    return run(store, &call, rows, &fault) == PG_OK;
}

static bool run_without_rows(struct pg_pool *store, enum statement statement, const char *const *params)
{
    struct rows rows;

    rows_init(&rows, ROWS_BYTES_MAX);
    const bool ran = run_outbox(store, statement, params, -1, &rows);
    rows_clear(&rows);
    return ran;
}

bool store_owed(struct pg_pool *store, int64_t transaction_id, const char *cache, uint64_t deadline_ms,
                struct rows *rows)
{
    char id[NUMBER_SIZE];
    const char *const params[] = {number_print(transaction_id, id), cache};
    const struct call call = {OWED_INVALIDATIONS, params, deadline_ms, -1, NULL};
    struct pg_fault fault;

    return run(store, &call, rows, &fault) == PG_OK;
}

bool store_claim(struct pg_pool *store, const char *cache, uint32_t count_max, uint32_t lease_ms,
                 int cancel_fd, struct rows *rows)
{
    char count[NUMBER_SIZE], lease[NUMBER_SIZE];
    const char *const params[] = {number_print(count_max, count), number_print(lease_ms, lease), cache};

    return run_outbox(store, CLAIM_INVALIDATIONS, params, cancel_fd, rows);
}

bool store_settle(struct pg_pool *store, const char *ids, const char *transactions, const char *cache)
{
    const char *const params[] = {ids, transactions, cache};

    return run_without_rows(store, SETTLE_INVALIDATIONS, params);
}

bool store_return(struct pg_pool *store, const char *ids, const char *cache)
{
    const char *const params[] = {ids, cache};

    return run_without_rows(store, RETURN_INVALIDATIONS, params);
}

bool store_unpaid(struct pg_pool *store, const char *transactions, uint64_t deadline_ms, struct rows *rows)
{
    const char *const params[] = {transactions};
    const struct call call = {UNPAID_TRANSACTIONS, params, deadline_ms, -1, NULL};
    struct pg_fault fault;

    return run(store, &call, rows, &fault) == PG_OK;
}

bool store_forget(struct pg_pool *store, uint32_t count_max, int cancel_fd, uint32_t *count)
{
    char most[NUMBER_SIZE];
    const char *const params[] = {number_print(count_max, most)};
    struct rows rows;

    rows_init(&rows, ROWS_BYTES_MAX);
    const bool ran = run_outbox(store, FORGET_PURCHASES, params, cancel_fd, &rows);
    *count = ran ? (uint32_t)number_of(&rows, 0, 0) : 0;
    rows_clear(&rows);
    return ran;
}

bool store_measure(struct pg_pool *store, const char *cache, int cancel_fd, struct store_owing *out)
{
    const char *const params[] = {cache};
    struct rows rows;

    rows_init(&rows, ROWS_BYTES_MAX);
    const bool ran = run_outbox(store, MEASURE_OUTBOX, params, cancel_fd, &rows);
    if (ran) {
        const int64_t next_ms = number_of(&rows, 2, UINT32_MAX);

        out->row_count = (uint64_t)number_of(&rows, 0, 0);
        out->oldest_ms = (uint64_t)number_of(&rows, 1, 0);
        out->next_ms = next_ms < UINT32_MAX ? (uint32_t)next_ms : UINT32_MAX;
    }
    rows_clear(&rows);
    return ran;
}

/* ---- the caches ---- */

bool store_beat(struct pg_pool *store, const struct store_beat *beat, int cancel_fd, bool *is_new,
                uint32_t *cache_count)
{
    char beat_ms[NUMBER_SIZE], silence_ms[NUMBER_SIZE];
    const char *const params[] = {beat->cache, beat->label, number_print((int64_t)beat->beat_ms, beat_ms),
                                  number_print((int64_t)beat->silence_ms, silence_ms)};
    struct rows rows;

    rows_init(&rows, ROWS_BYTES_MAX);
    const bool ran = run_outbox(store, BEAT_CACHE, params, cancel_fd, &rows) && rows.row_count > 0;
    *is_new = ran && strcmp(rows_text(&rows, 0, 0), "t") == 0;
    *cache_count = ran ? (uint32_t)number_of(&rows, 1, 0) + *is_new : 0;
    rows_clear(&rows);
    return ran;
}

bool store_drop_caches(struct pg_pool *store, int cancel_fd, struct rows *rows)
{
    return run_outbox(store, DROP_CACHES, NULL, cancel_fd, rows);
}

/* ---- opening ---- */

bool store_open(const struct settings *settings, uint32_t pays_ms, struct pg_pool **out)
{
    const uint32_t limit_ms = settings->write_limit_ms;
    const struct pg_config config = {
        .conninfo = settings->write_database_url,
        .connection_count = (size_t)settings->write_workers + 2, /* the outbox's, and other_caches.c's */
        .prepare = settings->prepare,
        .session_ms = settings->database_session_ms,
        .statement_limit_ms = limit_ms > OUTBOX_LIMIT_MS ? limit_ms : OUTBOX_LIMIT_MS,
        .writes = true,
        .lock_limit_ms = settings->write_lock_ms,
        .pays_ms = pays_ms,
        .statements = statements,
        .statement_count = STATEMENT_COUNT,
    };

    return pg_pool_open(&config, out);
}

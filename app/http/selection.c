/* SPDX-License-Identifier: MIT */
/* selection.c - see selection.h. */
#include "app/http/selection.h"

#include "app/catalog/catalog_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ID_TEXT_SIZE = 20 }; /* 18 digits, a comma, a NUL */

struct selection {
    struct route_ids ids;
    struct guard_result results[ROUTE_IDS_MAX]; /* by id; their values are ours */
};

struct selection *selection_new(const char *uri)
{
    struct selection *selection = calloc(1, sizeof(*selection));

    if (selection != NULL)
        route_ids(uri, &selection->ids);
    return selection;
}

void selection_free(struct selection **selection)
{
    struct selection *freed = *selection;

    *selection = NULL;
    for (size_t i = 0; freed != NULL && i < freed->ids.count; i++)
        guard_value_unref(&freed->results[i].value);
    free(freed);
}

/* ---- asking ---- */

void selection_list(const struct selection *selection, struct selection_keys *keys)
{
    keys->count = selection->ids.count;
    for (uint32_t i = 0; i < selection->ids.count; i++) {
        const struct route route = {.target = ROUTE_PRODUCT, .id = selection->ids.ids[i]};

        route_key(&route, keys->text[i]);
        keys->list[i] = keys->text[i];
    }
}

struct guard_result *selection_results(struct selection *selection)
{
    return selection->results;
}

void selection_take(struct selection *selection, const struct guard_result *results)
{
    for (size_t i = 0; i < selection->ids.count; i++) {
        selection->results[i] = results[i];
        if (results[i].value != NULL)
            guard_value_ref(results[i].value);
    }
}

bool selection_is_hit(const struct selection *selection)
{
    bool is_hit = true;

    for (uint32_t i = 0; i < selection->ids.count; i++)
        is_hit = is_hit && (selection->results[i].source == GUARD_FROM_CACHE ||
                            selection->results[i].source == GUARD_FROM_NEAR ||
                            selection->results[i].source == GUARD_FROM_KEPT);
    return is_hit;
}

/* ---- answering ---- */

/* NULL: none. */
static const struct guard_result *first_problem(const struct selection *selection)
{
    for (uint32_t i = 0; i < selection->ids.count; i++) {
        const struct guard_result *result = &selection->results[i];

        if (result->status != GUARD_OK && result->status != GUARD_ABSENT)
            return result;
    }
    return NULL;
}

/* From the shortest way to the longest. */
static unsigned way_of(enum guard_source source)
{
    static const unsigned WAYS[] = {
        [GUARD_FROM_NOWHERE] = 0, [GUARD_FROM_NEAR] = 1,   [GUARD_FROM_CACHE] = 2, [GUARD_FROM_STALE] = 3,
        [GUARD_FROM_KEPT] = 4,    [GUARD_FROM_FLIGHT] = 5, [GUARD_FROM_FLEET] = 6, [GUARD_FROM_LOAD] = 7};

    return WAYS[source];
}

/* What can be said of all. */
static struct guard_result sum_up(const struct selection *selection)
{
    struct guard_result sum = selection->results[0];

    for (uint32_t i = 1; i < selection->ids.count; i++) {
        const struct guard_result *result = &selection->results[i];

        if (way_of(result->source) > way_of(sum.source))
            sum.source = result->source;
        sum.age_ms = result->age_ms > sum.age_ms ? result->age_ms : sum.age_ms;
        sum.left_ms = result->left_ms < sum.left_ms ? result->left_ms : sum.left_ms;
        sum.stored = sum.stored && result->stored;
    }
    sum.status = GUARD_OK;
    sum.value = NULL;
    return sum;
}

size_t selection_bytes(const struct selection *selection)
{
    size_t size = 64;

    if (first_problem(selection) != NULL)
        return 0;
    for (uint32_t i = 0; i < selection->ids.count; i++) {
        const struct guard_value *value = selection->results[i].value;

        size += ID_TEXT_SIZE + (value != NULL ? value->body_bytes + 1 : 0);
    }
    return size;
}

/* Into a text that is known to be large enough; returns where it ends. */
static char *put(char *at, const char *text, size_t bytes)
{
    memcpy(at, text, bytes);
    return at + bytes;
}

static char *put_products(char *at, const struct selection *selection)
{
    bool first = true;

    for (uint32_t i = 0; i < selection->ids.count; i++) {
        const struct guard_value *value = selection->results[i].value;

        if (value == NULL)
            continue;
        at = put(at, ",", first ? 0 : 1);
        at = put(at, value->body, value->body_bytes);
        first = false;
    }
    return at;
}

static char *put_absent(char *at, const struct selection *selection)
{
    bool first = true;

    for (uint32_t i = 0; i < selection->ids.count; i++) {
        if (selection->results[i].value != NULL)
            continue;
        at += snprintf(at, ID_TEXT_SIZE, "%s%" PRIu64, first ? "" : ",", selection->ids.ids[i]);
        first = false;
    }
    return at;
}

/* NULL: no memory. */
static char *document_of(const struct selection *selection, size_t *bytes)
{
    static const char HEAD[] = "{\"products\":[", MIDDLE[] = "],\"absent\":[", TAIL[] = "]}";
    char *document = malloc(selection_bytes(selection));

    if (document == NULL)
        return NULL;
    char *at = put(document, HEAD, sizeof(HEAD) - 1);
    at = put_products(at, selection);
    at = put(at, MIDDLE, sizeof(MIDDLE) - 1);
    at = put_absent(at, selection);
    at = put(at, TAIL, sizeof(TAIL) - 1);
    *bytes = (size_t)(at - document);
    return document;
}

void selection_answer(const struct selection *selection, const char *path, uint32_t fresh_ms,
                      struct answer *out)
{
    const struct guard_result *problem = first_problem(selection);
    char validator[CATALOG_VALIDATOR_SIZE];
    size_t bytes = 0;

    if (problem != NULL) {
        answer_from_result(problem, path, fresh_ms, out);
        return;
    }
    const struct guard_result sum = sum_up(selection);
    char *document = document_of(selection, &bytes);
    if (document == NULL) {
        answer_from_result(&(struct guard_result){.status = GUARD_NO_MEMORY}, path, fresh_ms, out);
        return;
    }
    catalog_json_hash(document, bytes, validator);
    answer_from_body(&sum, validator, document, bytes, fresh_ms, out);
}

struct guard_result selection_result(const struct selection *selection)
{
    const struct guard_result *problem = first_problem(selection);

    return problem != NULL ? *problem : sum_up(selection);
}

void selection_answer_bad(const struct selection *selection, const char *path, struct answer *out)
{
    answer_bad_id(selection->ids.bad_place, selection->ids.bad, path, out);
}

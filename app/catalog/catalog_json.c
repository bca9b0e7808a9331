/* SPDX-License-Identifier: MIT */
/*
 * catalog_json.c - see catalog_json.h. The enums of columns follow the SELECT lists of sql/load_*.sql.
 *
 * Every put function takes what it is given, even if it fails, and a failure anywhere makes the whole document
 * BROKEN; so a builder is one chain of puts.
 */
#include "app/catalog/catalog_json.h"

#include "app/base/number.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TREE_ID, TREE_LEVEL, TREE_NAME, TREE_PRODUCT_COUNT, TREE_COLUMNS, TREE_LEVELS = 3 };

enum {
    CATEGORY_ID,
    CATEGORY_NAME,
    CATEGORY_LEVEL,
    CATEGORY_PARENT_ID,
    CATEGORY_PARENT_NAME,
    CATEGORY_GRANDPARENT_ID,
    CATEGORY_GRANDPARENT_NAME,
    PART_ROLE,
    PART_ID,
    PART_NAME,
    PART_SKU,
    PART_PRICE_CENTS,
    PART_STOCK,
    CATEGORY_COLUMNS
};

enum {
    PRODUCT_ID,
    PRODUCT_SKU,
    PRODUCT_NAME,
    PRODUCT_DESCRIPTION,
    PRODUCT_PRICE_CENTS,
    PRODUCT_STOCK,
    PRODUCT_VERSION,
    PRODUCT_UPDATED_AT,
    PRODUCT_CATEGORY_ID,
    PRODUCT_CATEGORY_NAME,
    PRODUCT_PARENT_ID,
    PRODUCT_PARENT_NAME,
    PRODUCT_GRANDPARENT_ID,
    PRODUCT_GRANDPARENT_NAME,
    PRODUCT_VALIDATOR,
    PRODUCT_COLUMNS
};

enum {
    OFFERS_IS_PERSONAL,
    OFFERS_LEFT_MS,
    OFFERS_CLIENT,
    OFFER_ID,
    OFFER_PRICE_CENTS,
    OFFER_VALID_UNTIL,
    OFFER_IS_OWN,
    OFFERS_COLUMNS
};

/* From the root down; each id is followed by its name. */
static const size_t category_path[CATALOG_PATH_MAX] = {CATEGORY_GRANDPARENT_ID, CATEGORY_PARENT_ID,
                                                       CATEGORY_ID};
static const size_t product_path[CATALOG_PATH_MAX] = {PRODUCT_GRANDPARENT_ID, PRODUCT_PARENT_ID,
                                                      PRODUCT_CATEGORY_ID};

/* ---- values ---- */

/* NULL: not a whole decimal number of 64 bits. */
static json_t *number(const char *text)
{
    int64_t value;

    return text != NULL && number_parse_signed(text, &value) ? json_integer(value) : NULL;
}

/* NULL: NULL or not UTF-8. */
static json_t *string(const char *text)
{
    return text != NULL ? json_string(text) : NULL;
}

/* NULL: none; else as string(). */
static json_t *string_or_null(const char *text)
{
    return text != NULL ? json_string(text) : json_null();
}

static bool is_true(const char *text)
{
    return strcmp(text, "t") == 0;
}

/* NULL: not SQL's true or false. */
static json_t *boolean(const char *text)
{
    return text != NULL && (is_true(text) || strcmp(text, "f") == 0) ? json_boolean(is_true(text)) : NULL;
}

struct field {
    const char *key;
    json_t *(*make)(const char *text);
    size_t column;
};

static bool put_fields(json_t *object, const struct rows *rows, size_t row, const struct field *fields,
                       size_t count)
{
    bool put = object != NULL;

    for (size_t i = 0; i < count && put; i++) {
        json_t *value = fields[i].make(rows_text(rows, row, fields[i].column));

        put = json_object_set_new(object, fields[i].key, value) == 0;
    }
    return put;
}

/* NULL if a field cannot be made. */
static json_t *object_of(const struct rows *rows, size_t row, const struct field *fields, size_t count)
{
    json_t *object = json_object();

    if (!put_fields(object, rows, row, fields, count)) {
        json_decref(object);
        return NULL;
    }
    return object;
}

/* Puts an empty array and lends it; NULL if it cannot. */
static json_t *put_array(json_t *object, const char *key)
{
    json_t *array = json_array();

    return json_object_set_new(object, key, array) == 0 ? array : NULL;
}

/* NULL ids are levels that are not there. */
static bool put_path(json_t *object, const struct rows *rows, size_t row,
                     const size_t columns[CATALOG_PATH_MAX])
{
    json_t *path = put_array(object, "path");
    bool put = path != NULL;

    for (size_t i = 0; i < CATALOG_PATH_MAX && put; i++) {
        if (rows_text(rows, row, columns[i]) == NULL)
            continue;
        const struct field step[] = {{"id", number, columns[i]}, {"name", string, columns[i] + 1}};
        put = json_array_append_new(path, object_of(rows, row, step, 2)) == 0;
    }
    return put;
}

/* ---- documents ---- */

/* FNV-1a, 64 bits: the same on every machine and in every process. It has to tell one edition of a document from the
 * next, not to withstand an attacker who may edit the catalog. */
void catalog_json_hash(const char *body, size_t body_bytes, char out[CATALOG_VALIDATOR_SIZE])
{
    uint64_t hash = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < body_bytes; i++)
        hash = (hash ^ (unsigned char)body[i]) * UINT64_C(1099511628211);
    snprintf(out, CATALOG_VALIDATOR_SIZE, "%016" PRIx64, hash);
}

/* Takes the root. `validator`: NULL: a hash of the body. */
static enum catalog_json_verdict finish(json_t *root, bool whole, const char *validator,
                                        struct catalog_document *out)
{
    char *body = whole ? json_dumps(root, JSON_COMPACT) : NULL;

    json_decref(root);
    if (body == NULL)
        return CATALOG_JSON_BROKEN;
    *out = (struct catalog_document){.body = body, .body_bytes = strlen(body)};
    if (validator != NULL)
        snprintf(out->validator, sizeof(out->validator), "%s", validator);
    else
        catalog_json_hash(body, out->body_bytes, out->validator);
    return CATALOG_JSON_OK;
}

void catalog_document_clear(struct catalog_document *document)
{
    free(document->body); /* jansson's allocator is malloc unless told otherwise */
    *document = (struct catalog_document){0};
}

/* ---- the tree ---- */

/* The node of each level that is open; rows come parents first. All lent by the root. */
struct branch {
    json_t *children[TREE_LEVELS + 1]; /* [level]: where nodes of level + 1 go */
    json_t *product_counts[TREE_LEVELS + 1];
};

static json_t *tree_node(const struct rows *rows, size_t row)
{
    static const struct field fields[] = {
        {"id", number, TREE_ID}, {"name", string, TREE_NAME}, {"product_count", number, TREE_PRODUCT_COUNT}};

    return object_of(rows, row, fields, sizeof(fields) / sizeof(fields[0]));
}

static void count_upwards(const struct branch *branch, size_t level, json_int_t product_count)
{
    for (size_t above = 1; above < level; above++) {
        json_t *total = branch->product_counts[above];

        json_integer_set(total, json_integer_value(total) + product_count);
    }
}

static bool put_node(struct branch *branch, const struct rows *rows, size_t row)
{
    const char *level_text = rows_text(rows, row, TREE_LEVEL);

    if (level_text == NULL || level_text[0] < '1' || level_text[0] > '0' + TREE_LEVELS ||
        level_text[1] != '\0')
        return false;
    size_t level = (size_t)(level_text[0] - '0');
    json_t *siblings = branch->children[level - 1];
    json_t *node = siblings != NULL ? tree_node(rows, row) : NULL;
    if (node == NULL || json_array_append_new(siblings, node) != 0)
        return false;
    branch->product_counts[level] = json_object_get(node, "product_count");
    count_upwards(branch, level, json_integer_value(branch->product_counts[level]));
    for (size_t below = level; below <= TREE_LEVELS; below++)
        branch->children[below] = NULL; /* closed: what hung there belongs to the node before */
    if (level < TREE_LEVELS) {
        branch->children[level] = put_array(node, "children");
        return branch->children[level] != NULL;
    }
    return true;
}

enum catalog_json_verdict catalog_json_tree(const struct rows *rows, struct catalog_document *out)
{
    if (rows->row_count == 0 || rows->column_count != TREE_COLUMNS)
        return CATALOG_JSON_BROKEN;
    json_t *root = json_object();
    struct branch branch = {.children = {[0] = put_array(root, "categories")}};
    bool whole = branch.children[0] != NULL;
    bool empty = rows->row_count == 1 && rows_text(rows, 0, TREE_ID) == NULL;
    for (size_t row = 0; row < rows->row_count && whole && !empty; row++)
        whole = put_node(&branch, rows, row);
    return finish(root, whole, NULL, out);
}

/* ---- a category ---- */

static const struct field child_fields[] = {{"id", number, PART_ID}, {"name", string, PART_NAME}};

static const struct field listed_fields[] = {
    {"id", number, PART_ID},       {"sku", string, PART_SKU},
    {"name", string, PART_NAME},   {"price_cents", number, PART_PRICE_CENTS},
    {"stock", number, PART_STOCK},
};

static bool put_part(json_t *children, json_t *products, const struct rows *rows, size_t row)
{
    const char *role = rows_text(rows, row, PART_ROLE);

    if (role == NULL)
        return true; /* neither children nor products */
    if (strcmp(role, "child") == 0) {
        json_t *child = object_of(rows, row, child_fields, sizeof(child_fields) / sizeof(child_fields[0]));

        return json_array_append_new(children, child) == 0;
    }
    json_t *product = object_of(rows, row, listed_fields, sizeof(listed_fields) / sizeof(listed_fields[0]));
    return json_array_append_new(products, product) == 0;
}

/* The statement asks for one product more than a page holds; its presence says that there is a next page. */
static bool put_next(json_t *root, json_t *products)
{
    if (json_array_size(products) <= CATALOG_PAGE_PRODUCTS)
        return json_object_set_new(root, "next", json_null()) == 0;
    json_t *last = json_array_get(products, CATALOG_PAGE_PRODUCTS - 1);
    json_t *next = json_sprintf("/categories/%" JSON_INTEGER_FORMAT "?after=%" JSON_INTEGER_FORMAT,
                                json_integer_value(json_object_get(root, "id")),
                                json_integer_value(json_object_get(last, "id")));
    return json_array_remove(products, CATALOG_PAGE_PRODUCTS) == 0 &&
           json_object_set_new(root, "next", next) == 0;
}

static bool put_category(json_t *root, const struct rows *rows)
{
    static const struct field fields[] = {
        {"id", number, CATEGORY_ID}, {"level", number, CATEGORY_LEVEL}, {"name", string, CATEGORY_NAME}};

    if (!put_fields(root, rows, 0, fields, sizeof(fields) / sizeof(fields[0])) ||
        !put_path(root, rows, 0, category_path))
        return false;
    json_t *children = put_array(root, "children");
    json_t *products = put_array(root, "products");
    bool put = children != NULL && products != NULL;
    for (size_t row = 0; row < rows->row_count && put; row++)
        put = put_part(children, products, rows, row);
    return put && put_next(root, products);
}

enum catalog_json_verdict catalog_json_category(const struct rows *rows, struct catalog_document *out)
{
    if (rows->row_count == 0 || rows->column_count != CATEGORY_COLUMNS)
        return CATALOG_JSON_BROKEN;
    if (rows_text(rows, 0, CATEGORY_ID) == NULL)
        return CATALOG_JSON_ABSENT;
    json_t *root = json_object();
    return finish(root, put_category(root, rows), NULL, out);
}

/* ---- a product ---- */

static bool put_product(json_t *root, const struct rows *rows, size_t row)
{
    static const struct field head[] = {{"id", number, PRODUCT_ID},
                                        {"category_id", number, PRODUCT_CATEGORY_ID}};
    static const struct field rest[] = {
        {"sku", string, PRODUCT_SKU},
        {"name", string, PRODUCT_NAME},
        {"description", string, PRODUCT_DESCRIPTION},
        {"price_cents", number, PRODUCT_PRICE_CENTS},
        {"stock", number, PRODUCT_STOCK},
        {"version", number, PRODUCT_VERSION},
        {"updated_at", string, PRODUCT_UPDATED_AT},
    };

    return put_fields(root, rows, row, head, sizeof(head) / sizeof(head[0])) &&
           put_path(root, rows, row, product_path) &&
           put_fields(root, rows, row, rest, sizeof(rest) / sizeof(rest[0]));
}

enum catalog_json_verdict catalog_json_product_at(const struct rows *rows, size_t row,
                                                  struct catalog_document *out)
{
    if (row >= rows->row_count || rows->column_count != PRODUCT_COLUMNS)
        return CATALOG_JSON_BROKEN;
    if (rows_text(rows, row, PRODUCT_ID) == NULL)
        return CATALOG_JSON_ABSENT;
    const char *validator = rows_text(rows, row, PRODUCT_VALIDATOR);
    if (validator == NULL || !catalog_json_is_validator(validator, strlen(validator)))
        return CATALOG_JSON_BROKEN;
    json_t *root = json_object();
    return finish(root, put_product(root, rows, row), validator, out);
}

const char *catalog_json_product_id(const struct rows *rows, size_t row)
{
    return rows->column_count == PRODUCT_COLUMNS ? rows_text(rows, row, PRODUCT_ID) : NULL;
}

size_t catalog_json_path(const struct rows *rows, size_t row, const char *ids[CATALOG_PATH_MAX])
{
    const size_t *columns = rows->column_count == PRODUCT_COLUMNS    ? product_path
                            : rows->column_count == CATEGORY_COLUMNS ? category_path
                                                                     : NULL;
    size_t count = 0;

    for (size_t i = 0; columns != NULL && row < rows->row_count && i < CATALOG_PATH_MAX; i++) {
        ids[count] = rows_text(rows, row, columns[i]);
        count += ids[count] != NULL;
    }
    return count;
}

enum catalog_json_verdict catalog_json_product(const struct rows *rows, struct catalog_document *out)
{
    return rows->row_count == 1 ? catalog_json_product_at(rows, 0, out) : CATALOG_JSON_BROKEN;
}

bool catalog_json_product_unchanged(const struct rows *rows, const char *validator)
{
    if (rows->row_count != 1 || rows->column_count != PRODUCT_COLUMNS ||
        rows_text(rows, 0, PRODUCT_ID) == NULL)
        return false;
    for (size_t column = 0; column < PRODUCT_COLUMNS; column++) {
        bool is_sent = column == PRODUCT_ID || column == PRODUCT_VALIDATOR;

        if (!is_sent && rows_text(rows, 0, column) != NULL)
            return false;
    }
    const char *found = rows_text(rows, 0, PRODUCT_VALIDATOR);
    return found != NULL && strcmp(found, validator) == 0;
}

bool catalog_json_is_validator(const char *text, size_t bytes)
{
    return bytes > 0 && bytes < CATALOG_VALIDATOR_SIZE && strspn(text, "0123456789abcdef.-") >= bytes;
}

/* ---- offers ---- */

struct offers_about {
    bool is_personal; /* for the client that asked alone */
    bool is_absent;   /* there is none, for anybody */
    int64_t left_ms;  /* it stands for so long after its query began */
};

/* False: the rows are not these. */
static bool offers_about(const struct rows *rows, struct offers_about *out)
{
    if (rows->row_count == 0 || rows->column_count != OFFERS_COLUMNS)
        return false;
    const char *is_personal = rows_text(rows, 0, OFFERS_IS_PERSONAL);
    const char *left_ms = rows_text(rows, 0, OFFERS_LEFT_MS);

    if (is_personal == NULL || left_ms == NULL)
        return false;
    *out = (struct offers_about){.is_personal = is_true(is_personal)};
    out->is_absent = !out->is_personal && rows_text(rows, 0, OFFER_ID) == NULL;
    return number_parse_signed(left_ms, &out->left_ms) && out->left_ms >= 0;
}

static bool put_offers(json_t *root, const struct rows *rows)
{
    static const struct field head[] = {{"client", string_or_null, OFFERS_CLIENT}};
    static const struct field fields[] = {{"id", number, OFFER_ID},
                                          {"price_cents", number, OFFER_PRICE_CENTS},
                                          {"valid_until", string, OFFER_VALID_UNTIL},
                                          {"own", boolean, OFFER_IS_OWN}};
    bool put = put_fields(root, rows, 0, head, 1);
    json_t *offers = put ? put_array(root, "offers") : NULL;

    put = offers != NULL;
    for (size_t row = 0; row < rows->row_count && put && rows_text(rows, row, OFFER_ID) != NULL; row++)
        put = json_array_append_new(offers, object_of(rows, row, fields, 4)) == 0;
    return put;
}

enum catalog_json_verdict catalog_json_offers(const struct rows *rows, struct catalog_document *out)
{
    struct offers_about about;

    if (!offers_about(rows, &about))
        return CATALOG_JSON_BROKEN;
    if (about.is_absent)
        return CATALOG_JSON_ABSENT;
    json_t *root = json_object();
    return finish(root, put_offers(root, rows), about.is_personal ? "" : NULL, out);
}

/* ---- offers ---- */

static uint32_t least(uint32_t most_ms, int64_t left_ms)
{
    return left_ms < most_ms ? (uint32_t)left_ms : most_ms;
}

bool offers_keep(const struct rows *rows, const struct offers_rules *rules, struct guard_keep *out)
{
    struct offers_about about;

    if (!offers_about(rows, &about))
        return false;
    const int64_t left_ms = about.left_ms - (int64_t)rules->elapsed_ms;
    const uint32_t most_ms = about.is_absent ? rules->absent_ms : rules->fresh_ms;

    if (about.is_personal)
        *out = (struct guard_keep){.how = GUARD_PASS,
                                   .pass_ms = left_ms > 0 ? least(rules->fresh_ms, left_ms) : 1};
    else /* 0: stored nowhere */
        *out = (struct guard_keep){.how = GUARD_STORE,
                                   .fresh_ms = rules->may_store && left_ms > 0 ? least(most_ms, left_ms) : 0};
    return true;
}

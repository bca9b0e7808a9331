/* SPDX-License-Identifier: MIT */
/*
 * write_answer.c - what becomes of a write in HTTP: one table.
 */
#include "app/write/write.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { RETRY_MS = 1000, EXTRA_BYTES = WRITE_ERRORS_BYTES + 32 };

static const struct answer_refusal REFUSALS[WRITE_OUTCOME_COUNT] = {
    [WRITE_ABSENT] = {404, false, "absent", "No such row", "The catalog has no product with this id."},
    [WRITE_CONFLICT] =
        {412, false, "version-conflict", "The product has changed",
         "It, or a category in its path, is not as If-Match says any more; GET it, look, and try again."},
    [WRITE_SOLD_OUT] = {409, false, "sold-out", "Not enough in stock", "Nothing was bought."},
    [WRITE_KEY_REUSED] = {422, false, "key-reused", "Idempotency-Key of another purchase",
                          "Under this key another product or quantity was bought; nothing was bought now."},
    [WRITE_BAD_BODY] = {400, false, "bad-body", "The body cannot be read",
                        "A JSON object in UTF-8 is wanted."},
    [WRITE_BAD_FIELDS] = {422, false, "bad-fields", "Fields are wrong", "Nothing was changed."},
    [WRITE_SHED] = {503, false, "shed", "Too many writes are waiting",
                    "Nothing was changed; ask again after Retry-After."},
    [WRITE_FAILED] = {503, false, "write-failed", "The catalog cannot be changed right now",
                      "The database did not take it and nothing was changed; ask again after Retry-After."},
    [WRITE_TIMEOUT] = {503, false, "write-timeout", "The change took too long",
                       "It was rolled back, nothing was changed; ask again after Retry-After."},
    [WRITE_REFUSED] = {500, false, "write-refused", "The database refuses this change",
                       "Nothing was changed; the server's log says more."},
    [WRITE_UNKNOWN] = {502, false, "outcome-unknown", "It is not known whether the change was made",
                       "The database was lost before it answered. GET the product to see; a purchase with an "
                       "Idempotency-Key can be repeated."},
    [WRITE_CLOSING] = {503, true, "closing", "This server is shutting down",
                       "Nothing was changed; ask again, another one will answer."},
};

static void refuse(const struct write_result *result, const char *path, struct answer *out)
{
    char extra[EXTRA_BYTES] = "";

    if (result->outcome == WRITE_SOLD_OUT)
        snprintf(extra, sizeof(extra), ",\"stock\":%" PRId64, result->stock);
    if (result->errors[0] != '\0')
        snprintf(extra, sizeof(extra), ",\"errors\":[%s]", result->errors);
    answer_refuse(&REFUSALS[result->outcome], path, extra, out);
    if (out->status == 503)
        answer_retry_after(RETRY_MS, out);
}

void write_answer(const struct write_result *result, enum write_kind kind, uint64_t id, const char *path,
                  struct answer *out)
{
    char stock[40] = "";

    if (result->outcome != WRITE_DONE && result->outcome != WRITE_REPEATED) {
        refuse(result, path, out);
        return;
    }
    if (kind == WRITE_PURCHASE)
        snprintf(stock, sizeof(stock), ",\"stock\":%" PRId64, result->stock);
    *out = (struct answer){.status = 200, .content_type = ANSWER_JSON_TYPE, .cache_control = "no-store"};
    snprintf(out->text, sizeof(out->text),
             "{\"id\":%" PRIu64 ",\"version\":%" PRId64 "%s,\"repeated\":%s,\"visible\":%s}\n", id,
             result->version, stock, result->outcome == WRITE_REPEATED ? "true" : "false",
             result->visible ? "true" : "false");
    out->text_bytes = strlen(out->text);
    if (result->validator[0] != '\0') /* of the product as GET shows it now */
        snprintf(out->etag, sizeof(out->etag), "\"%s\"", result->validator);
}

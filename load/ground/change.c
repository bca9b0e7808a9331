/* SPDX-License-Identifier: MIT */
/* change.c - see change.h. */
#include "load/ground/change.h"

#include "load/base/clock.h"
#include "load/base/http.h"

#include <jansson.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIMIT_MS = 12000, HEADERS_BYTES = 256 };

/* The first process that is up, but not this one; DEED_PROCESSES: none is. */
static size_t process_but(const struct site_look *look, size_t process)
{
    size_t found = 0;
    while (found < DEED_PROCESSES && (found == process || look->health[found] != DEED_UP))
        found++;
    return found;
}

static size_t any_process(struct site *site, struct site_look *look)
{
    site_look_at(site, look);
    size_t process = process_but(look, DEED_PROCESSES);
    if (process == DEED_PROCESSES)
        story_tell(site->story, STORY_TROUBLE, "No process is up: start one first.");
    return process;
}

static bool ask(const struct http_request *request, struct http_answer *answer, json_t **body)
{
    bool answered = http_ask(request, answer);
    *body = answered ? json_loadb(answer->body, answer->body_bytes, 0, NULL) : NULL;
    return answered;
}

/* What an error says, or that there was none. */
static void tell_refusal(struct site *site, const char *what, bool answered, const struct http_answer *answer,
                         const json_t *body)
{
    const char *detail = json_string_value(json_object_get(body, "detail"));
    if (!answered)
        story_tell(site->story, STORY_TROUBLE, "%s: no answer.", what);
    else
        story_tell(site->story, STORY_TROUBLE, "%s: %u %.200s", what, (unsigned)answer->status,
                   detail != NULL ? detail : "");
}

static json_int_t number_of(const json_t *body, const char *name)
{
    return json_integer_value(json_object_get(body, name));
}

/* ---- the price ---- */

static bool read_product(struct site *site, size_t process, char etag[static HEADERS_BYTES / 2],
                         json_t **body)
{
    struct http_answer answer;
    const struct http_request request = {
        .host = "127.0.0.1", .port = site->ports[process], .path = SITE_PATH, .deadline_ms = LIMIT_MS};
    bool answered = ask(&request, &answer, body), good = answered && answer.status == 200;
    http_header(&answer, "ETag", etag, HEADERS_BYTES / 2);
    if (!good)
        tell_refusal(site, "The product could not be read", answered, &answer, *body);
    http_answer_clear(&answer);
    return good;
}

/* The whole of what can be edited, with another price. From malloc(). */
static char *edited(const json_t *product, json_int_t price)
{
    json_t *edit = json_pack("{s:O,s:O,s:I,s:O}", "name", json_object_get(product, "name"), "description",
                             json_object_get(product, "description"), "price_cents", price, "stock",
                             json_object_get(product, "stock"));
    char *text = edit != NULL ? json_dumps(edit, JSON_COMPACT) : NULL;
    json_decref(edit);
    return text;
}

static void tell_price(struct site *site, size_t process, json_int_t price, uint64_t took_us, bool visible)
{
    struct site_look look;
    char etag[HEADERS_BYTES / 2];
    json_t *product = NULL;
    site_look_at(site, &look);
    size_t other = process_but(&look, process), reads = other < DEED_PROCESSES ? other : process;
    if (!read_product(site, reads, etag, &product)) {
        json_decref(product);
        return;
    }
    bool is_new = number_of(product, "price_cents") == price;
    story_tell(site->story, STORY_RESULT,
               "The price is %d.%02d (PUT with If-Match to %s, %.0f ms)%s. %s shows %s price.",
               (int)(price / 100), (int)(price % 100), deed_party_name((enum deed_party)process),
               (double)took_us / 1e3,
               visible ? ": the cached copy was gone before the PUT was answered"
                       : "; a cache has not confirmed it yet",
               deed_party_name((enum deed_party)reads), is_new ? "the new" : "still the old");
    json_decref(product);
}

static void put_price(struct site *site, size_t process, const char *etag, const json_t *product)
{
    char headers[HEADERS_BYTES];
    struct http_answer answer;
    json_t *said = NULL;
    json_int_t price = number_of(product, "price_cents") + 1;
    char *text = edited(product, price);
    snprintf(headers, sizeof headers, "If-Match: %.150s\r\nContent-Type: application/json\r\n", etag);
    const struct http_request request = {.host = "127.0.0.1",
                                         .port = site->ports[process],
                                         .method = "PUT",
                                         .path = SITE_PATH,
                                         .headers = headers,
                                         .body = text,
                                         .body_bytes = text != NULL ? strlen(text) : 0,
                                         .deadline_ms = LIMIT_MS};
    bool answered = ask(&request, &answer, &said);
    if (answered && answer.status == 200)
        tell_price(site, process, price, answer.total_us, json_is_true(json_object_get(said, "visible")));
    else
        tell_refusal(site, "The PUT was refused", answered, &answer, said);
    http_answer_clear(&answer);
    json_decref(said);
    free(text);
}

void change_price(struct site *site)
{
    struct site_look look;
    char etag[HEADERS_BYTES / 2];
    json_t *product = NULL;
    size_t process = any_process(site, &look);
    if (process < DEED_PROCESSES && read_product(site, process, etag, &product))
        put_price(site, process, etag, product);
    json_decref(product);
}

/* ---- a purchase ---- */

void change_buy(struct site *site)
{
    struct site_look look;
    struct http_answer answer;
    json_t *said = NULL;
    char headers[HEADERS_BYTES];
    size_t process = any_process(site, &look);
    if (process == DEED_PROCESSES)
        return;
    snprintf(headers, sizeof headers,
             "Idempotency-Key: playground-%" PRIu64 "\r\nContent-Type: application/json\r\n",
             clock_wall_us());
    const struct http_request request = {.host = "127.0.0.1",
                                         .port = site->ports[process],
                                         .method = "POST",
                                         .path = SITE_PATH "/purchase",
                                         .headers = headers,
                                         .body = "{\"quantity\":1}",
                                         .body_bytes = strlen("{\"quantity\":1}"),
                                         .deadline_ms = LIMIT_MS};
    bool answered = ask(&request, &answer, &said);
    if (answered && answer.status == 200)
        story_tell(site->story, STORY_RESULT,
                   "One was bought from %s: %d are left, and no process shows the old stock any more.",
                   deed_party_name((enum deed_party)process), (int)number_of(said, "stock"));
    else
        tell_refusal(site, "The purchase was refused", answered, &answer, said);
    http_answer_clear(&answer);
    json_decref(said);
}

/* ---- the operator ---- */

static void drop(struct site *site, const char *path, const char *dropped, const char *nothing)
{
    struct site_look look;
    struct http_answer answer;
    json_t *said = NULL;
    size_t process = any_process(site, &look);
    if (process == DEED_PROCESSES)
        return;
    const struct http_request request = {.host = "127.0.0.1",
                                         .port = site->ops_ports[process],
                                         .method = "POST",
                                         .path = path,
                                         .deadline_ms = LIMIT_MS};
    bool answered = ask(&request, &answer, &said);
    if (!answered || answer.status != 200)
        tell_refusal(site, "It could not be dropped", answered, &answer, said);
    else if (json_is_true(json_object_get(said, "load_voided")))
        story_tell(site->story, STORY_RESULT,
                   "A load was running: what it brings is not stored, for it may have read the row before.");
    else
        story_tell(site->story, STORY_RESULT, "%s",
                   json_is_true(json_object_get(said, "value_dropped")) ? dropped : nothing);
    http_answer_clear(&answer);
    json_decref(said);
}

void change_expire(struct site *site)
{
    drop(site, "/expire?key=" SITE_KEY,
         "Product 7 has expired: the next requests get the old copy at once, while one process fetches a new "
         "one.",
         "Product 7 was not in the cache: there was nothing to expire.");
}

void change_invalidate(struct site *site)
{
    drop(site, "/invalidate?key=" SITE_KEY,
         "Product 7 was dropped from the cache: the next requests have to wait for it.",
         "Product 7 was not in the cache: there was nothing to drop.");
}

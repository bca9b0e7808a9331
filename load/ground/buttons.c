/* SPDX-License-Identifier: MIT */
/*
 * buttons.c - see buttons.h. First what one client does that changes the product, as a shop would: by PUT with
 * If-Match, by a purchase with Idempotency-Key; and the operator that expires or drops it. Each tells what came of
 * it.
 */
#include "load/ground/buttons.h"

#include "load/base/clock.h"
#include "load/base/http.h"

#include <jansson.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHANGE_LIMIT_MS = 12000, HEADERS_BYTES = 256 };

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
        .host = "127.0.0.1", .port = site->ports[process], .path = SITE_PATH, .deadline_ms = CHANGE_LIMIT_MS};
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
                                         .deadline_ms = CHANGE_LIMIT_MS};
    bool answered = ask(&request, &answer, &said);
    if (answered && answer.status == 200)
        tell_price(site, process, price, answer.total_us, json_is_true(json_object_get(said, "visible")));
    else
        tell_refusal(site, "The PUT was refused", answered, &answer, said);
    http_answer_clear(&answer);
    json_decref(said);
    free(text);
}

static void change_price(struct site *site)
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

static void change_buy(struct site *site)
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
                                         .deadline_ms = CHANGE_LIMIT_MS};
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
                                         .deadline_ms = CHANGE_LIMIT_MS};
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

static void change_expire(struct site *site)
{
    drop(site, "/expire?key=" SITE_KEY,
         "Product 7 has expired: the next requests get the old copy at once, while one process fetches a new "
         "one.",
         "Product 7 was not in the cache: there was nothing to expire.");
}

static void change_invalidate(struct site *site)
{
    drop(site, "/invalidate?key=" SITE_KEY,
         "Product 7 was dropped from the cache: the next requests have to wait for it.",
         "Product 7 was not in the cache: there was nothing to drop.");
}

/* ---- what was pressed ---- */

enum { OK = 200, BAD = 400, BUSY = 409, PER_SECOND_MAX = 2000, DELAY_MS_MAX = 5000 };

static unsigned refuse(char *why, unsigned status, const char *text)
{
    snprintf(why, BUTTONS_WHY_BYTES, "%s", text);
    return status;
}

/* A whole number of the wish within limits; `otherwise` where it is not named. */
static bool read_number(const json_t *wish, const char *name, json_int_t least, json_int_t most,
                        json_int_t otherwise, uint32_t *out, char *why)
{
    const json_t *value = json_object_get(wish, name);
    json_int_t number = value != NULL ? json_integer_value(value) : otherwise;
    bool good = (value == NULL || json_is_integer(value)) && number >= least && number <= most;
    if (good)
        *out = (uint32_t)number;
    else
        snprintf(why, BUTTONS_WHY_BYTES, "\"%s\" must be a whole number from %d to %d.", name, (int)least,
                 (int)most);
    return good;
}

static bool read_mode(const json_t *wish, char mode[static SITE_MODE_BYTES], char *why)
{
    const json_t *value = json_object_get(wish, "mode");
    mode[0] = '\0';
    if (value == NULL)
        return true;
    for (size_t i = 0; json_is_string(value) && jobs_mode(i) != NULL; i++) {
        if (strcmp(jobs_mode(i), json_string_value(value)) == 0) {
            snprintf(mode, SITE_MODE_BYTES, "%s", jobs_mode(i));
            return true;
        }
    }
    snprintf(why, BUTTONS_WHY_BYTES, "\"mode\" must be off, local, fleet or shadow.");
    return false;
}

/* False also where none is named; `any`: whether one is. */
static bool read_hit(const json_t *wish, const char *name, struct site_order *hit, bool *any, char *why)
{
    const json_t *value = json_object_get(wish, name);
    const char *text = json_string_value(value);
    *any = value != NULL;
    hit->what = SITE_HIT;
    hit->verb = text != NULL && strcmp(text, "pause") == 0 ? SITE_PAUSE : SITE_KILL;
    if (value == NULL || (text != NULL && (strcmp(text, "kill") == 0 || strcmp(text, "pause") == 0)))
        return true;
    snprintf(why, BUTTONS_WHY_BYTES, "\"%s\" must be kill or pause.", name);
    return false;
}

static unsigned order(struct ground *ground, const struct site_order *wanted, char *why)
{
    uint64_t number;
    return site_order(&ground->site, wanted, &number, why) ? OK : BUSY;
}

static unsigned begin(struct ground *ground, const struct job *job, char *why)
{
    return jobs_begin(&ground->jobs, job)
               ? OK
               : refuse(why, BUSY, "A crowd is under way: wait until it is answered.");
}

/* ---- the buttons ---- */

static unsigned press_rush(struct ground *ground, const json_t *wish, char *why)
{
    struct job job = {.step = jobs_step(json_string_value(json_object_get(wish, "step"))),
                      .rush = {.is_many = json_is_true(json_object_get(wish, "many")),
                               .is_warm = json_is_true(json_object_get(wish, "warm"))}};
    if (!read_number(wish, "requests", 1, RUSH_REQUESTS_MAX, 1000, &job.rush.requests, why) ||
        !read_mode(wish, job.mode, why) || !read_hit(wish, "hit", &job.rush.hit, &job.rush.hits, why))
        return BAD;
    return begin(ground, &job, why);
}

static unsigned press_compare(struct ground *ground, const json_t *wish, char *why)
{
    struct job job = {.is_comparison = true};
    if (!read_number(wish, "requests", 1, RUSH_REQUESTS_MAX, 300, &job.rush.requests, why))
        return BAD;
    return begin(ground, &job, why);
}

static unsigned press_deed(struct ground *ground, const json_t *wish, char *why)
{
    const struct site_order wanted = {.what = SITE_DEED,
                                      .deed = deed_find(json_string_value(json_object_get(wish, "name")))};
    return wanted.deed != NULL ? order(ground, &wanted, why)
                               : refuse(why, BAD, "\"name\" is no deed of the playground.");
}

static unsigned press_hit(struct ground *ground, const json_t *wish, char *why)
{
    struct site_order wanted = {.what = SITE_HIT};
    bool any;
    if (!read_hit(wish, "verb", &wanted, &any, why))
        return BAD;
    return order(ground, &wanted, why);
}

static unsigned press_set(struct ground *ground, const json_t *wish, char *why)
{
    struct site_look look;
    struct site_order wanted = {.what = SITE_SET};
    site_look_at(&ground->site, &look);
    if (!read_mode(wish, wanted.mode, why) ||
        !read_number(wish, "delay_ms", 0, DELAY_MS_MAX, look.delay_ms, &wanted.delay_ms, why))
        return BAD;
    if (wanted.mode[0] == '\0')
        memcpy(wanted.mode, look.mode, sizeof wanted.mode);
    if (jobs_busy(&ground->jobs))
        return refuse(why, BUSY, "A crowd is under way: wait until it is answered.");
    return order(ground, &wanted, why);
}

static unsigned press_rate(struct ground *ground, const json_t *wish, char *why)
{
    struct site_order wanted = {.what = SITE_RATE};
    if (!read_number(wish, "per_second", 0, PER_SECOND_MAX, 0, &wanted.per_second, why))
        return BAD;
    return order(ground, &wanted, why);
}

static unsigned press_mend(struct ground *ground, const json_t *wish, char *why)
{
    const struct site_order wanted = {.what = SITE_MEND};
    (void)wish;
    return order(ground, &wanted, why);
}

static unsigned write_by(struct ground *ground, void (*change)(struct site *), char *why)
{
    if (!ground->site.has_writes)
        return refuse(why, BUSY, "Writes are off: WRITE_DATABASE_URL names no login for your database.");
    change(&ground->site);
    return OK;
}

static unsigned press_change(struct ground *ground, const json_t *wish, char *why)
{
    (void)wish;
    return write_by(ground, change_price, why);
}

static unsigned press_buy(struct ground *ground, const json_t *wish, char *why)
{
    (void)wish;
    return write_by(ground, change_buy, why);
}

static unsigned press_expire(struct ground *ground, const json_t *wish, char *why)
{
    (void)wish;
    (void)why;
    change_expire(&ground->site);
    return OK;
}

static unsigned press_invalidate(struct ground *ground, const json_t *wish, char *why)
{
    (void)wish;
    (void)why;
    change_invalidate(&ground->site);
    return OK;
}

static const struct {
    const char *word;
    unsigned (*press)(struct ground *ground, const json_t *wish, char *why);
} buttons[] = {
    {"rush", press_rush},
    {"compare", press_compare},
    {"deed", press_deed},
    {"hit", press_hit},
    {"set", press_set},
    {"rate", press_rate},
    {"mend", press_mend},
    {"change", press_change},
    {"buy", press_buy},
    {"expire", press_expire},
    {"invalidate", press_invalidate},
};

unsigned buttons_press(struct ground *ground, const char *body, size_t body_bytes,
                       char why[static BUTTONS_WHY_BYTES])
{
    json_t *wish = json_loadb(body, body_bytes, JSON_REJECT_DUPLICATES, NULL);
    const char *word = json_string_value(json_object_get(wish, "do"));
    unsigned status = BAD;
    snprintf(why, BUTTONS_WHY_BYTES,
             "Send a JSON object with \"do\" and a button's word; load/ground/buttons.h has them.");
    for (size_t i = 0; word != NULL && i < sizeof buttons / sizeof *buttons; i++) {
        if (strcmp(buttons[i].word, word) == 0)
            status = buttons[i].press(ground, wish, why);
    }
    json_decref(wish);
    return status;
}

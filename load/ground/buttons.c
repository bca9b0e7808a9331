/* SPDX-License-Identifier: MIT */
/*
 * buttons.c - see buttons.h. First who may press; then what one client does that changes the product, as a shop
 * would: by PUT with If-Match, by a purchase with Idempotency-Key; and the operator that expires or drops it. Each
 * tells what came of it.
 */
#include "load/ground/buttons.h"

#include "load/base/clock.h"
#include "load/base/http.h"

#include <jansson.h>

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- who may press ---- */

enum { FORBIDDEN = 403, UNAUTHORIZED = 401, UNSUPPORTED = 415 };

static const char *const names[] = {"127.0.0.1", "localhost", "[::1]"};

static bool is_our_host(const char *host, uint16_t port)
{
    char ours[32];
    for (size_t i = 0; host != NULL && i < sizeof names / sizeof *names; i++) {
        snprintf(ours, sizeof ours, "%s:%u", names[i], (unsigned)port);
        if (strcasecmp(host, ours) == 0)
            return true;
    }
    return false;
}

static bool is_our_origin(const char *origin, uint16_t port)
{
    static const char scheme[] = "http://";
    return strncmp(origin, scheme, strlen(scheme)) == 0 && is_our_host(origin + strlen(scheme), port);
}

/* Takes as long for every text of the right length. */
static bool is_token(const char *authorization, const char *token)
{
    static const char scheme[] = "Bearer ";
    unsigned char wrong = 0;
    if (authorization == NULL || strncmp(authorization, scheme, strlen(scheme)) != 0)
        return false;
    const char *said = authorization + strlen(scheme);
    size_t count = strlen(token);
    if (strlen(said) != count)
        return false;
    for (size_t i = 0; i < count; i++)
        wrong |= (unsigned char)(said[i] ^ token[i]);
    return wrong == 0;
}

static bool is_json(const char *content_type)
{
    static const char json[] = "application/json";
    size_t count = strlen(json);
    return content_type != NULL && strncasecmp(content_type, json, count) == 0 &&
           (content_type[count] == '\0' || content_type[count] == ';' || content_type[count] == ' ');
}

unsigned gate_judge(enum gate_wish wish, const struct gate_request *request, uint16_t port, const char *token,
                    const char **why)
{
    const char *origin = request->origin;
    if (!is_our_host(request->host, port)) {
        *why = "This Host is not the playground's: open the address that was printed.";
        return FORBIDDEN;
    }
    if (wish == GATE_PAGE)
        return 0;
    if (origin != NULL ? !is_our_origin(origin, port) : wish == GATE_BUTTON) {
        *why = "Another page sent this: only the playground's own may press its buttons.";
        return FORBIDDEN;
    }
    if (!is_token(request->authorization, token)) {
        *why = "The token is missing or wrong: open the address that was printed, with all that stands "
               "behind its #.";
        return UNAUTHORIZED;
    }
    if (wish == GATE_BUTTON && !is_json(request->content_type)) {
        *why = "Content-Type must be application/json.";
        return UNSUPPORTED;
    }
    return 0;
}

enum { CHANGE_LIMIT_MS = 12000, HEADERS_BYTES = 256 };

/* The first process that is up, but not this one; DEED_PROCESSES: none is. */
static size_t process_but(const struct site_look *look, size_t process)
{
    size_t found = 0;
    while (found < DEED_PROCESSES && (found == process || look->health[found] != DEED_UP))
        found++;
    return found;
}

static size_t any_process(struct site *site)
{
    struct site_look look;
    site_look_at(site, &look);
    size_t process = process_but(&look, DEED_PROCESSES);
    if (process == DEED_PROCESSES)
        story_tell(site->story, STORY_TROUBLE, "No process is up: start one first.");
    return process;
}

/* What a process said to a request. */
struct said {
    struct http_answer answer;
    bool is_answered, is_good; /* good: with 200 */
    json_t *body;              /* owned; NULL: none, or no JSON */
};

/* Yours to clear, whatever comes. `headers` and `body` may be NULL. */
static void ask(uint16_t port, const char *method, const char *path, const char *headers, const char *body,
                struct said *said)
{
    const struct http_request request = {.host = "127.0.0.1",
                                         .port = port,
                                         .method = method,
                                         .path = path,
                                         .headers = headers,
                                         .body = body,
                                         .body_bytes = body != NULL ? strlen(body) : 0,
                                         .deadline_ms = CHANGE_LIMIT_MS};
    said->is_answered = http_ask(&request, &said->answer);
    said->is_good = said->is_answered && said->answer.status == 200;
    said->body = said->is_answered ? json_loadb(said->answer.body, said->answer.body_bytes, 0, NULL) : NULL;
}

static void said_clear(struct said *said)
{
    http_answer_clear(&said->answer);
    json_decref(said->body);
}

/* What an error says, or that there was none. */
static void tell_refusal(struct site *site, const char *what, const struct said *said)
{
    const char *detail = json_string_value(json_object_get(said->body, "detail"));
    if (!said->is_answered)
        story_tell(site->story, STORY_TROUBLE, "%s: no answer.", what);
    else
        story_tell(site->story, STORY_TROUBLE, "%s: %u %.200s", what, (unsigned)said->answer.status,
                   detail != NULL ? detail : "");
}

static json_int_t number_of(const json_t *body, const char *name)
{
    return json_integer_value(json_object_get(body, name));
}

/* ---- the price ---- */

/* The product is said.body. Yours to clear, whatever comes. */
static bool read_product(struct site *site, size_t process, struct said *said)
{
    ask(site->ports[process], NULL, SITE_PATH, NULL, NULL, said);
    if (!said->is_good)
        tell_refusal(site, "The product could not be read", said);
    return said->is_good;
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

/* What the answer to a write says of the caches. */
static const char *visibility(const json_t *body)
{
    return json_is_true(json_object_get(body, "visible"))
               ? ": the cached copy was gone before that was answered"
               : "; a cache has not confirmed it yet";
}

static void tell_price(struct site *site, size_t process, json_int_t price, const struct said *said)
{
    struct site_look look;
    struct said read;
    site_look_at(site, &look);
    size_t other = process_but(&look, process), reads = other < DEED_PROCESSES ? other : process;
    if (read_product(site, reads, &read))
        story_tell(site->story, STORY_RESULT,
                   "The price is %d.%02d (PUT with If-Match to %s, %.0f ms)%s. %s shows %s price.",
                   (int)(price / 100), (int)(price % 100), deed_party_name((enum deed_party)process),
                   (double)said->answer.total_us / 1e3, visibility(said->body),
                   deed_party_name((enum deed_party)reads),
                   number_of(read.body, "price_cents") == price ? "the new" : "still the old");
    said_clear(&read);
}

static void put_price(struct site *site, size_t process, const struct said *read)
{
    char headers[HEADERS_BYTES], etag[HEADERS_BYTES / 2];
    struct said said;
    json_int_t price = number_of(read->body, "price_cents") + 1;
    char *text = edited(read->body, price);
    http_header(&read->answer, "ETag", etag, sizeof etag);
    snprintf(headers, sizeof headers, "If-Match: %s\r\nContent-Type: application/json\r\n", etag);
    ask(site->ports[process], "PUT", SITE_PATH, headers, text, &said);
    if (said.is_good)
        tell_price(site, process, price, &said);
    else
        tell_refusal(site, "The PUT was refused", &said);
    said_clear(&said);
    free(text);
}

static void change_price(struct site *site, size_t process)
{
    struct said read;
    if (read_product(site, process, &read))
        put_price(site, process, &read);
    said_clear(&read);
}

/* ---- a purchase ---- */

static void change_buy(struct site *site, size_t process)
{
    struct said said;
    char headers[HEADERS_BYTES];
    snprintf(headers, sizeof headers,
             "Idempotency-Key: playground-%" PRIu64 "\r\nContent-Type: application/json\r\n",
             clock_wall_us());
    ask(site->ports[process], "POST", SITE_PATH "/purchase", headers, "{\"quantity\":1}", &said);
    if (said.is_good)
        story_tell(site->story, STORY_RESULT, "One was bought from %s, %d are left%s.",
                   deed_party_name((enum deed_party)process), (int)number_of(said.body, "stock"),
                   visibility(said.body));
    else
        tell_refusal(site, "The purchase was refused", &said);
    said_clear(&said);
}

/* ---- the operator ---- */

static void drop(struct site *site, size_t process, const char *path, const char *dropped,
                 const char *nothing)
{
    struct said said;
    ask(site->ops_ports[process], "POST", path, NULL, NULL, &said);
    if (!said.is_good)
        tell_refusal(site, "It could not be dropped", &said);
    else if (json_is_true(json_object_get(said.body, "load_voided")))
        story_tell(site->story, STORY_RESULT,
                   "A load was running: what it brings is not stored, for it may have read the row before.");
    else
        story_tell(site->story, STORY_RESULT, "%s",
                   json_is_true(json_object_get(said.body, "value_dropped")) ? dropped : nothing);
    said_clear(&said);
}

static void change_expire(struct site *site, size_t process)
{
    drop(site, process, "/expire?key=" SITE_KEY,
         "Product 7 has expired: what is in the cache is an old copy from now on.",
         "Product 7 was not in the cache: there was nothing to expire.");
}

static void change_invalidate(struct site *site, size_t process)
{
    drop(site, process, "/invalidate?key=" SITE_KEY, "Product 7 was dropped from the cache.",
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
    static const char *const modes[] = {"off", "local", "fleet", "shadow"};
    const json_t *value = json_object_get(wish, "mode");
    mode[0] = '\0';
    if (value == NULL)
        return true;
    for (size_t i = 0; json_is_string(value) && i < sizeof modes / sizeof *modes; i++) {
        if (strcmp(modes[i], json_string_value(value)) == 0) {
            snprintf(mode, SITE_MODE_BYTES, "%s", modes[i]);
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

/* ---- the buttons ---- */

static unsigned press_rush(struct ground *ground, const json_t *wish, char *why)
{
    struct job job = {.step = jobs_step(json_string_value(json_object_get(wish, "step"))),
                      .rush = {.is_many = json_is_true(json_object_get(wish, "many")),
                               .is_warm = json_is_true(json_object_get(wish, "warm"))}};
    if (!read_number(wish, "requests", 1, RUSH_REQUESTS_MAX, 1000, &job.rush.requests, why) ||
        !read_mode(wish, job.mode, why) || !read_hit(wish, "hit", &job.rush.hit, &job.rush.hits, why))
        return BAD;
    return jobs_begin(&ground->jobs, &job)
               ? OK
               : refuse(why, BUSY, "A crowd is under way: wait until it is answered.");
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

/* `press` reads what is wished; `change` is asked of a process that is up. */
static const struct button {
    const char *word;
    unsigned (*press)(struct ground *ground, const json_t *wish, char *why);
    void (*change)(struct site *site, size_t process);
} buttons[] = {
    {.word = "rush", .press = press_rush},       {.word = "deed", .press = press_deed},
    {.word = "hit", .press = press_hit},         {.word = "set", .press = press_set},
    {.word = "rate", .press = press_rate},       {.word = "mend", .press = press_mend},
    {.word = "change", .change = change_price},  {.word = "buy", .change = change_buy},
    {.word = "expire", .change = change_expire}, {.word = "invalidate", .change = change_invalidate},
};

static unsigned press(struct ground *ground, const struct button *button, const json_t *wish, char *why)
{
    if (button->press != NULL)
        return button->press(ground, wish, why);
    size_t process = any_process(&ground->site);
    if (process < DEED_PROCESSES)
        button->change(&ground->site, process);
    return OK;
}

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
            status = press(ground, &buttons[i], wish, why);
    }
    json_decref(wish);
    return status;
}

/* SPDX-License-Identifier: MIT */
/*
 * answer.c - two tables (problems, sources) and the few headers that are computed.
 */
#include "app/http/answer.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { INSTANCE_BYTES_MAX = 120, RETRY_DRAIN_MS = 1000 };

const char ANSWER_JSON_TYPE[] = "application/json; charset=utf-8";
static const char PROBLEM_TYPE[] = "application/problem+json";
/* A browser may keep what it got but asks before it shows it again. */
static const char REVALIDATE[] = "no-cache";
static const char NO_STORE[] = "no-store";

static const struct answer_refusal PROBLEMS[PROBLEM_COUNT] = {
    [PROBLEM_UNKNOWN_PATH] = {404, false, "unknown-path", "No such path",
                              "Ask for /catalog, /categories/{id}, /products/{id}, /products?ids=, "
                              "/products/{id}/offers, /products/{id}/purchase or /ping."},
    [PROBLEM_ENCODED_PATH] = {400, false, "encoded-path", "Percent-encoding is not accepted",
                              "Write it without percent signs: no path or query of this service needs one."},
    [PROBLEM_BAD_ID] = {400, false, "bad-id", "Not an id",
                        "Give one of 1 to 18 decimal digits that does not start with 0."},
    [PROBLEM_BAD_QUERY] = {400, false, "bad-query", "Query not accepted",
                           "Ask without one; only two are taken: /categories/{id}?after={product id} and "
                           "/products?ids={id},{id},..."},
    [PROBLEM_BAD_IDS] = {400, false, "bad-ids", "Not a list of ids",
                         "Give ids= 1 to 100 ids, comma separated, each once; an id is 1 to 18 decimal "
                         "digits and does not start with 0."},
    [PROBLEM_METHOD] = {405, false, "method", "Method not allowed", "Use one of those in the Allow header."},
    [PROBLEM_BODY] = {413, true, "body", "Request body not accepted", "Send this request without a body."},
    [PROBLEM_FRAMING] =
        {400, true, "framing", "Ambiguous message framing",
         "Send one plain Content-Length or none, no Transfer-Encoding, no control characters, no "
         "bare CR or LF, no folded lines, and no name that is not a token."},
    [PROBLEM_HOST] = {400, true, "host", "One Host header is required",
                      "Send exactly one, as HTTP/1.1 wants it."},
    [PROBLEM_ABSENT] = {404, false, "absent", "No such row",
                        "The catalog has nothing with this id; see /catalog for what it has."},
    [PROBLEM_FAILED] = {503, false, "load-failed", "The catalog cannot be read right now",
                        "The database did not answer this request; ask again after Retry-After."},
    [PROBLEM_SHED] = {503, false, "shed", "Too many requests are waiting",
                      "Refused to protect the database; ask again after Retry-After."},
    [PROBLEM_UNREAD] = {503, false, "unread", "Too many large answers are being read",
                        "Others have not read theirs yet; ask again after Retry-After, or for fewer ids."},
    [PROBLEM_TIMEOUT] =
        {504, false, "timeout", "The catalog took too long",
         "The deadline of this request passed. Ask again: the answer will be cached when it comes."},
    [PROBLEM_CLOSING] = {503, true, "closing", "This server is shutting down",
                         "Ask again; another one will answer."},
    [PROBLEM_INTERNAL] = {500, true, "internal", "Internal error",
                          "Ask again; if this stays, see the server's log."},
    [PROBLEM_WRITES_OFF] = {403, false, "writes-off", "Writes are off",
                            "This process only reads: ask one that has WRITE_DATABASE_URL set."},
    [PROBLEM_TOO_LARGE] = {413, true, "too-large", "Request body too large", "Send at most 131072 bytes."},
    [PROBLEM_MEDIA_TYPE] = {415, true, "type", "Not JSON", "Send Content-Type: application/json."},
    [PROBLEM_CONDITION] = {428, true, "condition-required", "If-Match is required",
                           "Send the ETag that GET gave, so that nobody else's change is lost."},
    [PROBLEM_BAD_CONDITION] = {400, true, "bad-condition", "If-Match cannot be read",
                               "Send \\\"*\\\" or up to 16 entity tags."},
    [PROBLEM_BAD_KEY] = {400, true, "bad-key", "Idempotency-Key not accepted",
                         "Send one of 1 to 64 characters A-Z a-z 0-9 . _ : -"},
};

/* Cache-Status after "catalogd". A stale answer says what it made us do (RFC 9211, 2.2: a response could be
 * selected, but it was stale); that nothing was waited for shows in the negative ttl. */
static const char *const SOURCES[] = {
    [GUARD_FROM_NOWHERE] = "",        [GUARD_FROM_CACHE] = "; hit",       [GUARD_FROM_STALE] = "; fwd=stale",
    [GUARD_FROM_LOAD] = "; fwd=miss", [GUARD_FROM_FLIGHT] = "; fwd=miss", [GUARD_FROM_FLEET] = "; fwd=miss",
    [GUARD_FROM_NEAR] = "; hit",      [GUARD_FROM_KEPT] = "; hit",
};

static bool was_collapsed(enum guard_source source)
{
    return source == GUARD_FROM_FLIGHT || source == GUARD_FROM_FLEET;
}

static bool path_is_innocent(const char *path)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/-._~:+";
    const size_t bytes = strlen(path);

    return bytes <= INSTANCE_BYTES_MAX && strspn(path, allowed) == bytes;
}

/* Appends to a text that is known to fit. */
__attribute__((format(printf, 3, 4))) static void append(char *text, size_t size, const char *format, ...)
{
    const size_t used = strlen(text);
    va_list arguments;

    va_start(arguments, format);
    const int more = vsnprintf(text + used, size - used, format, arguments);
    va_end(arguments);
    assert(more >= 0 && (size_t)more < size - used);
}

static void set_cache_control(const char *text, struct answer *out)
{
    snprintf(out->cache_control, sizeof(out->cache_control), "%s", text);
}

void answer_refuse(const struct answer_refusal *refusal, const char *path, const char *extra,
                   struct answer *out)
{
    *out = (struct answer){.status = refusal->status, .content_type = PROBLEM_TYPE, .close = refusal->close};
    set_cache_control(refusal->status == 404 ? REVALIDATE : NO_STORE, out);
    append(out->text, sizeof(out->text),
           "{\"type\":\"/problems/%s\",\"title\":\"%s\",\"status\":%u,\"detail\":\"%s\"", refusal->type,
           refusal->title, out->status, refusal->detail);
    if (path != NULL && path_is_innocent(path))
        append(out->text, sizeof(out->text), ",\"instance\":\"%s\"", path);
    append(out->text, sizeof(out->text), "%s}\n", extra);
    out->text_bytes = strlen(out->text);
}

/* The document ends with the brace and the newline of answer_refuse(). */
void answer_name_request(const char *request, struct answer *answer)
{
    if (request[0] == '\0')
        return;
    snprintf(answer->request, sizeof(answer->request), "%s", request);
    if (answer->content_type != PROBLEM_TYPE)
        return;
    answer->text[answer->text_bytes - 2] = '\0';
    append(answer->text, sizeof(answer->text), ",\"request_id\":\"%s\"}\n", request);
    answer->text_bytes = strlen(answer->text);
}

void answer_bad_id(uint32_t place, const char *text, const char *path, struct answer *out)
{
    char extra[128];

    snprintf(extra, sizeof(extra), ",\"place\":%" PRIu32, place);
    if (path_is_innocent(text))
        append(extra, sizeof(extra), ",\"id\":\"%.32s\"", text);
    answer_refuse(&PROBLEMS[PROBLEM_BAD_IDS], path, extra, out);
}

void answer_problem(enum problem problem, const char *path, struct answer *out)
{
    assert(problem < PROBLEM_COUNT);
    answer_refuse(&PROBLEMS[problem], path, "", out);
    if (problem != PROBLEM_ABSENT)
        set_cache_control(NO_STORE, out);
    out->allow = problem == PROBLEM_METHOD ? "GET, HEAD" : NULL;
}

/* RFC 9110, 8.8.3: any printable ASCII but the quote. A validator that cannot be an ETag is none: it came out of
 * Redis, and with a line break in it the client would read another head. */
void answer_etag(const char *validator, char out[ANSWER_ETAG_SIZE])
{
    const size_t bytes = strlen(validator);
    size_t good = 0;

    while (validator[good] > ' ' && validator[good] < 0x7f && validator[good] != '"')
        good++;
    out[0] = '\0';
    if (bytes == 0 || bytes > ANSWER_ETAG_SIZE - 3 || good < bytes)
        return;
    out[0] = '"';
    memcpy(out + 1, validator, bytes);
    memcpy(out + 1 + bytes, "\"", 2);
}

void answer_retry_after(uint32_t retry_ms, struct answer *out)
{
    const uint32_t seconds = retry_ms / 1000 + (retry_ms % 1000 != 0);

    snprintf(out->retry_after, sizeof(out->retry_after), "%" PRIu32, seconds != 0 ? seconds : 1);
}

/* The sf-token that says what a source or a status does not. */
static const char *cache_detail(const struct guard_result *result)
{
    switch (result->status) {
    case GUARD_FAILED:
        return guard_failure_name(result->failure);
    case GUARD_OK:
    case GUARD_ABSENT:
        if (result->source == GUARD_FROM_NEAR)
            return "near";
        if (result->source == GUARD_FROM_KEPT)
            return "outage";
        return result->source == GUARD_FROM_FLEET ? "fleet" : NULL;
    case GUARD_SHED:
    case GUARD_TIMEOUT:
    case GUARD_CANCELLED:
    case GUARD_CLOSING:
    case GUARD_UNKNOWN:
    case GUARD_INVALID:
    case GUARD_NO_MEMORY:
    case GUARD_MISS:
    case GUARD_NOW:
        return guard_status_name(result->status);
    }
    return NULL;
}

/* Kept for an outage it may be, too. */
static bool is_stale(const struct guard_result *result)
{
    return result->source == GUARD_FROM_STALE || (result->source == GUARD_FROM_KEPT && result->left_ms == 0);
}

struct answer_seconds answer_seconds(const struct guard_result *result, uint32_t fresh_ms)
{
    const uint32_t over_ms = result->age_ms > fresh_ms ? result->age_ms - fresh_ms : 0;

    return (struct answer_seconds){
        .age = result->age_ms / 1000,
        .ttl = (is_stale(result) ? over_ms : result->left_ms) / 1000,
    };
}

static void set_cache_status(const struct guard_result *result, uint32_t fresh_ms, struct answer *out)
{
    const uint32_t ttl = answer_seconds(result, fresh_ms).ttl;
    const bool is_entry = result->status == GUARD_OK || result->status == GUARD_ABSENT;
    const char *detail = cache_detail(result);
    const size_t size = sizeof(out->cache_status);
    char *text = out->cache_status;

    snprintf(text, size, "catalogd%s", SOURCES[result->source]);
    if ((result->source == GUARD_FROM_LOAD || was_collapsed(result->source)) && is_entry && result->stored)
        append(text, size, "; stored");
    if (was_collapsed(result->source))
        append(text, size, "; collapsed");
    const bool is_cached = result->source == GUARD_FROM_CACHE || result->source == GUARD_FROM_KEPT;

    if (is_entry && is_stale(result))
        append(text, size, ANSWER_TTL "-%" PRIu32, ttl);
    else if (is_entry && (result->stored || is_cached))
        append(text, size, ANSWER_TTL "%" PRIu32, ttl);
    if (detail != NULL)
        append(text, size, "; detail=%s", detail);
    if (result->load != 0)
        append(text, size, "; load=\"%016" PRIx64 "\"", result->load);
}

static enum problem problem_of(enum guard_status status)
{
    switch (status) {
    case GUARD_ABSENT:
        return PROBLEM_ABSENT;
    case GUARD_FAILED:
        return PROBLEM_FAILED;
    case GUARD_SHED:
    case GUARD_NO_MEMORY:
    case GUARD_MISS:
    case GUARD_NOW:
        return PROBLEM_SHED;
    case GUARD_TIMEOUT:
        return PROBLEM_TIMEOUT;
    case GUARD_CLOSING:
        return PROBLEM_CLOSING;
    case GUARD_OK:
    case GUARD_CANCELLED:
    case GUARD_UNKNOWN:
    case GUARD_INVALID:
        break;
    }
    return PROBLEM_INTERNAL;
}

static void set_found(const char *validator, struct answer *out)
{
    out->status = 200;
    out->content_type = ANSWER_JSON_TYPE;
    set_cache_control(REVALIDATE, out);
    out->vary = out->allow = NULL;
    out->value = NULL;
    out->body = NULL;
    out->body_bytes = out->text_bytes = 0;
    out->close = false;
    out->retry_after[0] = out->text[0] = out->request[0] = '\0';
    answer_etag(validator, out->etag);
}

static void set_age(const struct guard_result *result, struct answer *out)
{
    snprintf(out->age, sizeof(out->age), "%" PRIu32, answer_seconds(result, 0).age);
}

void answer_from_body(const struct guard_result *result, const char *validator, char *body, size_t body_bytes,
                      uint32_t fresh_ms, struct answer *out)
{
    set_found(validator, out);
    out->body = body;
    out->body_bytes = body_bytes;
    set_age(result, out);
    set_cache_status(result, fresh_ms, out);
}

void answer_from_result(const struct guard_result *result, const char *path, uint32_t fresh_ms,
                        struct answer *out)
{
    if (result->status == GUARD_OK) {
        set_found(result->value->validator, out);
        out->value = result->value;
    } else {
        answer_problem(problem_of(result->status), path, out);
    }
    if (result->status == GUARD_OK || result->status == GUARD_ABSENT)
        set_age(result, out);
    if (out->status == 503)
        answer_retry_after(result->status == GUARD_CLOSING ? RETRY_DRAIN_MS : result->retry_ms, out);
    set_cache_status(result, fresh_ms, out);
}

/* Of the document's whole life, for a cache on the way subtracts Age. */
void answer_own_life(const struct guard_result *result, struct answer *answer)
{
    const uint64_t life_ms = (uint64_t)result->age_ms + result->left_ms;

    answer->vary = "Authorization";
    if (result->status != GUARD_OK)
        return;
    if (result->value->validator[0] == '\0') {
        set_cache_control("private, no-store", answer);
        answer->age[0] = '\0';
    } else if (result->left_ms >= 1000) {
        snprintf(answer->cache_control, sizeof(answer->cache_control), "max-age=%" PRIu64, life_ms / 1000);
    }
}

void answer_revalidated(struct answer *answer)
{
    static const char was[] = "fwd=miss", is[] = "fwd=request";
    const size_t longer = sizeof(is) - sizeof(was), bytes = strlen(answer->cache_status);
    char *at = strstr(answer->cache_status, was);

    if (at == NULL || bytes + longer >= sizeof(answer->cache_status))
        return;
    memmove(at + longer, at, strlen(at) + 1);
    memcpy(at, is, sizeof(is) - 1);
}

size_t answer_body_bytes(const struct answer *answer)
{
    if (answer->body != NULL)
        return answer->body_bytes;
    return answer->value != NULL ? answer->value->body_bytes : answer->text_bytes;
}

size_t answer_lines(const struct answer *answer, struct answer_line lines[ANSWER_LINES_MAX])
{
    const struct answer_line all[ANSWER_LINES_MAX] = {
        {"Content-Type", answer->content_type},
        {"X-Content-Type-Options", answer->content_type != NULL ? "nosniff" : NULL},
        {"Cache-Control", answer->cache_control},
        {ANSWER_REQUEST_ID, answer->request},
        {"Vary", answer->vary},
        {"ETag", answer->etag},
        {"Retry-After", answer->retry_after},
        {"Allow", answer->allow},
        {ANSWER_CACHE_STATUS, answer->cache_status},
        {ANSWER_AGE, answer->age},
    };
    size_t count = 0;

    for (size_t i = 0; i < ANSWER_LINES_MAX; i++) {
        if (all[i].value != NULL && all[i].value[0] != '\0')
            lines[count++] = all[i];
    }
    return count;
}

bool answer_etag_matches(const char *etag, const char *if_none_match)
{
    const char *at = if_none_match + strspn(if_none_match, " \t");
    const size_t etag_bytes = strlen(etag);

    if (at[0] == '*' && at[1 + strspn(at + 1, " \t")] == '\0')
        return true;
    if (etag_bytes == 0)
        return false;
    while (*(at += strspn(at, ", \t")) != '\0') {
        at += strncmp(at, "W/", 2) == 0 ? 2 : 0;
        const char *close = at[0] == '"' ? strchr(at + 1, '"') : NULL;
        if (close == NULL)
            return false; /* not a list of entity tags; the rest means nothing */
        if ((size_t)(close + 1 - at) == etag_bytes && memcmp(at, etag, etag_bytes) == 0)
            return true;
        at = close + 1;
    }
    return false;
}

void answer_not_modified(struct answer *answer)
{
    assert(answer->status == 200);
    answer->status = 304;
    answer->content_type = NULL;
}

/* SPDX-License-Identifier: MIT */
/* shelf.c - see shelf.h. */
#include "app/http/shelf.h"

#include "app/base/number.h"
#include "app/http/answer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum {
    PLACES = 16384, /* a power of two */
    NOTES = 4,
    HEAD_SIZE = 1024,
    /* What malloc() is asked for besides the texts: a prepared one, its response and its header; a value and its tags. */
    RESPONSE_BYTES = 512,
    VALUE_BYTES = 160,
    CACHE_LINE = 64,
    FETCHED_ITEM = 128,
    FETCHED_RESPONSE = 192,
    FETCHED_BODY = 1024, /* from there the processor goes on by itself */
};
_Static_assert(sizeof(struct answer) - sizeof(((struct answer *)0)->text) + 256 <= HEAD_SIZE, "a head fits");

/* Text in a head that is written over. */
struct span {
    uint16_t at, bytes; /* 0 bytes: there is none */
};

/* In the order in which a hit needs them: with ten thousand of these most of it comes from memory. */
struct prepared {
    struct prepared *neighbour; /* in the same place */
    uint64_t hash;
    struct route route;
    struct MHD_Response *response;   /* ours */
    const struct guard_value *value; /* the response holds it */
    uint64_t load;
    uint8_t source; /* enum guard_source */
    bool held, stored;
    bool missed;  /* the last answer of the key was another one */
    bool visited; /* since the hand last came by */
    struct span age, ttl, request;
    char *head;       /* in the response */
    const char *body; /* the value's */
    uint32_t body_bytes;
    uint16_t head_bytes;
    struct answer_seconds seconds; /* as they stand in the head */
    struct prepared *prev, *next;  /* in the queue */
    size_t bytes;                  /* charged */
};

struct shelf_place {
    struct prepared *first;
    uint16_t notes[NOTES]; /* of answers that were not found here, the latest first */
};

/* ---- a head in one piece ---- */

static void drop_value(void *value)
{
    const struct guard_value *held = value;

    guard_value_unref(&held);
}

struct MHD_Response *shelf_hold(const struct guard_value *value)
{
    const struct guard_value *held = guard_value_ref(value);
    struct MHD_Response *response = MHD_create_response_from_buffer_with_free_callback_cls(
        held->body_bytes, (void *)(uintptr_t)held->body, drop_value, (void *)(uintptr_t)held);

    if (response == NULL)
        guard_value_unref(&held);
    return response;
}

struct head_text {
    char text[HEAD_SIZE];
    size_t bytes;
};

static struct span append(struct head_text *head, const char *text)
{
    const size_t at = head->bytes, bytes = strlen(text);

    assert(bytes < sizeof(head->text) - at);
    memcpy(head->text + at, text, bytes + 1);
    head->bytes += bytes;
    return (struct span){.at = (uint16_t)at, .bytes = (uint16_t)bytes};
}

/* Of the digits behind "ttl=" and its sign. */
static struct span find_ttl(const char *text, struct span line)
{
    const char *ttl = strstr(text + line.at, ANSWER_TTL);

    if (ttl == NULL)
        return (struct span){.bytes = 0};
    ttl += sizeof(ANSWER_TTL) - 1;
    ttl += *ttl == '-';
    return (struct span){.at = (uint16_t)(ttl - text), .bytes = (uint16_t)number_span(ttl)};
}

/* The lines as one, but for the name of the first. */
static void join(const struct answer_line *lines, size_t count, struct head_text *head, struct prepared *item)
{
    for (size_t i = 0; i < count; i++) {
        if (i > 0) {
            append(head, "\r\n");
            append(head, lines[i].name);
            append(head, ": ");
        }
        const struct span value = append(head, lines[i].value);
        if (strcmp(lines[i].name, ANSWER_AGE) == 0)
            item->age = value;
        else if (strcmp(lines[i].name, ANSWER_REQUEST_ID) == 0)
            item->request = value;
        else if (strcmp(lines[i].name, ANSWER_CACHE_STATUS) == 0)
            item->ttl = find_ttl(head->text, value);
    }
}

/* libmicrohttpd takes single lines only, but what is written over a line that it has taken is not its concern. It keeps
 * each header in three pieces of memory of its own: ten thousand responses of one are half as large as of seven, and faster,
 * because less has to come from memory. */
static bool set_head(struct prepared *item, const struct answer *answer)
{
    struct answer_line lines[ANSWER_LINES_MAX];
    struct head_text head = {.bytes = 0};
    char one_line[HEAD_SIZE];

    join(lines, answer_lines(answer, lines), &head, item);
    for (size_t i = 0; i <= head.bytes; i++)
        one_line[i] = head.text[i] == '\r' || head.text[i] == '\n' ? '.' : head.text[i];
    if (MHD_add_response_header(item->response, lines[0].name, one_line) != MHD_YES)
        return false;
    item->head = (char *)(uintptr_t)MHD_get_response_header(item->response, lines[0].name);
    memcpy(item->head, head.text, head.bytes);
    item->head_bytes = (uint16_t)head.bytes;
    item->bytes += head.bytes;
    return true;
}

/* False: it has not as many digits, and this one was not written. */
static bool write_number(const struct prepared *item, struct span span, uint32_t number)
{
    char digits[NUMBER_DIGITS];
    const size_t count = number_digits(number, digits);

    if (span.bytes == 0 || count != span.bytes)
        return span.bytes == 0;
    memcpy(item->head + span.at, digits, count);
    return true;
}

/* False: it takes another head. */
static bool write_over(struct prepared *item, const struct shelf_wish *wish)
{
    const struct answer_seconds seconds = answer_seconds(wish->result, wish->fresh_ms);

    if (seconds.age != item->seconds.age || seconds.ttl != item->seconds.ttl) {
        if (!write_number(item, item->age, seconds.age) || !write_number(item, item->ttl, seconds.ttl))
            return false;
        item->seconds = seconds;
    }
    memcpy(item->head + item->request.at, wish->request, item->request.bytes);
    return true;
}

/* ---- whether it is the same ---- */

static bool is_same_value(const struct prepared *item, const struct guard_value *value)
{
    const struct guard_value *ours = item->value;

    if (value == ours)
        return true;
    return value->body_bytes <= SHELF_COMPARED_MAX && value->body_bytes == ours->body_bytes &&
           strcmp(value->validator, ours->validator) == 0 &&
           memcmp(value->body, ours->body, value->body_bytes) == 0;
}

static bool says_the_same(const struct prepared *item, const struct shelf_wish *wish)
{
    const struct guard_result *result = wish->result;

    return item->load == result->load && item->source == result->source && item->stored == result->stored &&
           strlen(wish->request) == item->request.bytes && is_same_value(item, result->value);
}

/* ---- places ---- */

static uint64_t mix(uint64_t bits)
{
    bits *= UINT64_C(0x9e3779b97f4a7c15);
    return bits ^ bits >> 32;
}

static uint64_t hash_of(const struct shelf *shelf, const struct route *route, bool held)
{
    return mix(mix(mix(shelf->seed ^ route->id) ^ route->after) ^ ((uint64_t)route->target << 1 | held));
}

static struct shelf_place *place_of(const struct shelf *shelf, uint64_t hash)
{
    return &shelf->places[hash % PLACES];
}

static struct prepared *look(const struct shelf_place *place, uint64_t hash, const struct route *route,
                             bool held)
{
    struct prepared *item = place->first;

    while (item != NULL &&
           (item->hash != hash || item->route.target != route->target || item->route.id != route->id ||
            item->route.after != route->after || item->held != held))
        item = item->neighbour;
    return item;
}

/* Whether it was noted; from now on it is. By chance, once in some ten thousand times, another answer was. */
static bool note(struct shelf_place *place, uint64_t hash, const struct guard_result *result)
{
    const uint16_t mark = (uint16_t)(mix(hash ^ result->load ^ result->source) >> 48 | 1);

    for (size_t i = 0; i < NOTES; i++) {
        if (place->notes[i] == mark)
            return true;
    }
    memmove(&place->notes[1], &place->notes[0], (NOTES - 1) * sizeof(place->notes[0]));
    place->notes[0] = mark;
    return false;
}

/* ---- coming and going ---- */

static void prepared_free(struct prepared *item)
{
    if (item->response != NULL)
        MHD_destroy_response(item->response);
    free(item);
}

/* Only the loop's thread writes it. */
static void charge(struct shelf *shelf, size_t bytes)
{
    atomic_store_explicit(&shelf->bytes, atomic_load_explicit(&shelf->bytes, memory_order_relaxed) + bytes,
                          memory_order_relaxed);
}

static void take_out(struct shelf *shelf, struct prepared *item)
{
    struct prepared **at = &place_of(shelf, item->hash)->first;

    while (*at != item)
        at = &(*at)->neighbour;
    *at = item->neighbour;
    if (shelf->hand == item)
        shelf->hand = item->next;
    DL_DELETE(shelf->queue, item);
    charge(shelf, 0 - item->bytes);
    prepared_free(item);
}

/* The hand spares the visited; it ends, for each that it spares is not visited any more. */
static void evict(struct shelf *shelf)
{
    struct prepared *hand = shelf->hand != NULL ? shelf->hand : shelf->queue;

    while (hand->visited) {
        hand->visited = false;
        hand = hand->next != NULL ? hand->next : shelf->queue;
    }
    shelf->hand = hand;
    take_out(shelf, hand);
}

static void put_in(struct shelf *shelf, struct prepared *item)
{
    struct shelf_place *place = place_of(shelf, item->hash);

    while (shelf->queue != NULL && shelf->bytes + item->bytes > shelf->bytes_max)
        evict(shelf);
    item->neighbour = place->first;
    place->first = item;
    DL_APPEND(shelf->queue, item);
    charge(shelf, item->bytes);
}

static bool put_into_words(struct prepared *item, const struct shelf_wish *wish)
{
    struct answer answer;

    answer_from_result(wish->result, NULL, wish->fresh_ms, &answer);
    if (wish->held)
        answer_not_modified(&answer);
    answer_name_request(wish->request, &answer);
    item->response = shelf_hold(wish->result->value);
    return item->response != NULL && set_head(item, &answer);
}

/* NULL: no memory. */
static struct prepared *prepare(struct shelf *shelf, uint64_t hash, const struct shelf_wish *wish)
{
    const struct guard_result *result = wish->result;
    struct prepared *item = malloc(sizeof(*item));

    if (item == NULL)
        return NULL;
    *item = (struct prepared){.hash = hash,
                              .route = *wish->route,
                              .held = wish->held,
                              .stored = result->stored,
                              .source = (uint8_t)result->source,
                              .load = result->load,
                              .value = result->value,
                              .body = result->value->body,
                              .body_bytes = (uint32_t)result->value->body_bytes,
                              .seconds = answer_seconds(result, wish->fresh_ms),
                              .bytes = RESPONSE_BYTES + VALUE_BYTES + result->value->body_bytes};
    if (put_into_words(item, wish)) {
        put_in(shelf, item);
        return item;
    }
    prepared_free(item);
    return NULL;
}

static struct prepared *prepare_anew(struct shelf *shelf, struct prepared *item,
                                     const struct shelf_wish *wish)
{
    const uint64_t hash = item->hash;

    take_out(shelf, item);
    return prepare(shelf, hash, wish);
}

/* ---- the shelf ---- */

static bool is_open(struct shelf *shelf)
{
    if (shelf->places == NULL)
        shelf->places = calloc(PLACES, sizeof(*shelf->places));
    return shelf->places != NULL;
}

/* Seen before: a near value was, when it came from Redis. */
static bool was_seen(struct shelf_place *place, uint64_t hash, const struct guard_result *result)
{
    return result->source == GUARD_FROM_NEAR || note(place, hash, result);
}

/* A hit in Redis between near hits, say, says something else once: what was prepared stays. */
static struct prepared *find(struct shelf *shelf, const struct shelf_wish *wish)
{
    const uint64_t hash = hash_of(shelf, wish->route, wish->held);
    struct shelf_place *place = place_of(shelf, hash);
    struct prepared *item = look(place, hash, wish->route, wish->held);

    if (item == NULL)
        return was_seen(place, hash, wish->result) ? prepare(shelf, hash, wish) : NULL;
    if (says_the_same(item, wish)) {
        item->visited = true;
        item->missed = false;
        return write_over(item, wish) ? item : prepare_anew(shelf, item, wish);
    }
    if (item->missed)
        return prepare_anew(shelf, item, wish);
    item->missed = true;
    return NULL;
}

static void fetch(const void *from, size_t bytes)
{
    for (size_t at = 0; from != NULL && at < bytes; at += CACHE_LINE)
        __builtin_prefetch((const char *)from + at);
}

void shelf_seek(const struct shelf *shelf, const struct route *route)
{
    if (shelf->places != NULL)
        fetch(place_of(shelf, hash_of(shelf, route, false))->first, FETCHED_ITEM);
}

void shelf_expect(const struct shelf *shelf, const struct route *route)
{
    const uint64_t hash = hash_of(shelf, route, false);
    const struct prepared *item =
        shelf->places != NULL ? look(place_of(shelf, hash), hash, route, false) : NULL;

    if (item == NULL)
        return;
    fetch(item->response, FETCHED_RESPONSE);
    fetch(item->head, item->head_bytes);
    fetch(item->value, CACHE_LINE);
    fetch(item->body, item->body_bytes < FETCHED_BODY ? item->body_bytes : FETCHED_BODY);
}

struct MHD_Response *shelf_find(struct shelf *shelf, const struct shelf_wish *wish)
{
    if (shelf->bytes_max == 0 || wish->result->value->body_bytes > shelf->bytes_max / SHELF_VALUE_SHARE ||
        !is_open(shelf))
        return NULL;
    const struct prepared *item = find(shelf, wish);
    return item != NULL ? item->response : NULL;
}

void shelf_clear(struct shelf *shelf)
{
    while (shelf->queue != NULL)
        take_out(shelf, shelf->queue);
    free(shelf->places);
    shelf->places = NULL;
}

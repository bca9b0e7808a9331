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
    /* What malloc() is asked for besides the texts: a prepared one, its response and its headers; a value and its
     * tags. */
    RESPONSE_BYTES = 1280,
    VALUE_BYTES = 160,
    CACHE_LINE = 64,
    FETCHED_ITEM = 128,
    FETCHED_RESPONSE = 192,
    LINE_BYTES = sizeof(((struct answer *)0)->cache_status),
    FETCHED_BODY = 1024, /* from there the processor goes on by itself */
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
    bool missed;      /* the last answer of the key was another one */
    bool visited;     /* since the hand last came by */
    bool is_out;      /* of the shelf: freed once it is sent */
    uint32_t sending; /* connections that are being sent it */
    const char *body; /* the value's */
    uint32_t body_bytes;
    struct answer_seconds seconds; /* as they stand in the head */
    struct prepared *prev, *next;  /* in the queue */
    size_t bytes;                  /* charged */
};

struct shelf_place {
    struct prepared *first;
    uint16_t notes[NOTES]; /* of answers that were not found here, the latest first */
};

/* ---- responses ---- */

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

static bool set_head(struct MHD_Response *response, const struct answer *answer)
{
    struct answer_line lines[ANSWER_LINES_MAX];
    const size_t count = answer_lines(answer, lines);
    bool added = true;

    for (size_t i = 0; i < count && added; i++)
        added = MHD_add_response_header(response, lines[i].name, lines[i].value) == MHD_YES;
    return added;
}

/* NULL: no memory. */
static struct MHD_Response *put_into_words(const struct shelf_wish *wish)
{
    struct answer answer;

    answer_from_result(wish->result, NULL, wish->fresh_ms, &answer);
    if (wish->held)
        answer_not_modified(&answer);
    struct MHD_Response *response = shelf_hold(wish->result->value);
    if (response == NULL || set_head(response, &answer))
        return response;
    MHD_destroy_response(response);
    return NULL;
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
           is_same_value(item, result->value);
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
    item->is_out = true;
    if (item->sending > 0)
        return;
    if (item->response != NULL)
        MHD_destroy_response(item->response);
    free(item);
}

void shelf_sent(struct prepared **item)
{
    struct prepared *sent = *item;

    *item = NULL;
    if (sent == NULL)
        return;
    sent->sending--;
    if (sent->is_out)
        prepared_free(sent);
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
    item->response = put_into_words(wish);
    if (item->response != NULL) {
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

/* The lines of the time are the last ones, in this order, so that they stand where they stood. With these digits in
 * place of those behind `mark`; what lacks the mark stays. */
static bool replace_number(struct MHD_Response *response, const char *name, const char *mark, uint32_t number)
{
    char old[LINE_BYTES], line[LINE_BYTES + NUMBER_DIGITS], digits[NUMBER_DIGITS];
    const char *value = MHD_get_response_header(response, name);
    const size_t bytes = value != NULL ? strlen(value) : sizeof(old);

    if (bytes >= sizeof(old))
        return value == NULL;
    memcpy(old, value, bytes + 1);
    const char *at = strstr(old, mark), *from = at != NULL ? at + strlen(mark) : old + bytes;
    from += *from == '-';
    const size_t before = (size_t)(from - old), count = at != NULL ? number_digits(number, digits) : 0;
    memcpy(line, old, before);
    memcpy(line + before, digits, count);
    strcpy(line + before + count, from + number_span(from));
    return MHD_del_response_header(response, name, old) == MHD_YES &&
           MHD_add_response_header(response, name, line) == MHD_YES;
}

/* Once a second, unless it is asked for less often. NULL: no memory. */
static struct prepared *tell_time(struct shelf *shelf, struct prepared *item, const struct shelf_wish *wish)
{
    const struct answer_seconds seconds = answer_seconds(wish->result, wish->fresh_ms);

    if (seconds.age == item->seconds.age && seconds.ttl == item->seconds.ttl)
        return item;
    if (item->sending > 0)
        return prepare_anew(shelf, item, wish);
    const bool keeps_ttl = seconds.ttl == item->seconds.ttl;
    item->seconds = seconds;
    if ((keeps_ttl || replace_number(item->response, ANSWER_CACHE_STATUS, ANSWER_TTL, seconds.ttl)) &&
        replace_number(item->response, ANSWER_AGE, "", seconds.age))
        return item;
    take_out(shelf, item);
    return NULL;
}

/* ---- the shelf ---- */

static bool is_open(struct shelf *shelf)
{
    if (shelf->places == NULL)
        shelf->places = calloc(PLACES, sizeof(*shelf->places));
    return shelf->places != NULL;
}

/* A hit in Redis between near hits, say, says something else once: what was prepared stays. */
static struct prepared *find(struct shelf *shelf, const struct shelf_wish *wish)
{
    const uint64_t hash = hash_of(shelf, wish->route, wish->held);
    struct shelf_place *place = place_of(shelf, hash);
    struct prepared *item = look(place, hash, wish->route, wish->held);

    if (item == NULL) { /* a near value was seen when it came from Redis */
        const bool was_seen = wish->result->source == GUARD_FROM_NEAR || note(place, hash, wish->result);

        return was_seen ? prepare(shelf, hash, wish) : NULL;
    }
    if (says_the_same(item, wish)) {
        item->visited = true;
        item->missed = false;
        return tell_time(shelf, item, wish);
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
    fetch(item->value, CACHE_LINE);
    fetch(item->body, item->body_bytes < FETCHED_BODY ? item->body_bytes : FETCHED_BODY);
}

struct prepared *shelf_find(struct shelf *shelf, const struct shelf_wish *wish)
{
    /* What is kept for an outage turns stale while it stands. */
    if (shelf->bytes_max == 0 || wish->result->source == GUARD_FROM_KEPT ||
        wish->result->value->body_bytes > shelf->bytes_max / SHELF_VALUE_SHARE || !is_open(shelf))
        return NULL;
    struct prepared *item = find(shelf, wish);
    if (item != NULL)
        item->sending++;
    return item;
}

struct MHD_Response *shelf_response(const struct prepared *item)
{
    return item->response;
}

void shelf_clear(struct shelf *shelf)
{
    while (shelf->queue != NULL)
        take_out(shelf, shelf->queue);
    free(shelf->places);
    shelf->places = NULL;
}

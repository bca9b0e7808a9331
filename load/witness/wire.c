/* SPDX-License-Identifier: MIT */
/* wire.c - see wire.h. */
#include "load/witness/wire.h"

#include <stdlib.h>
#include <string.h>

void wire_init(struct wire *wire, enum wire_protocol protocol, wire_tell *tell, void *context)
{
    *wire = (struct wire){.protocol = protocol, .tell = tell, .context = context};
    http_parse_init(&wire->request, NULL, NULL);
    http_parse_init(&wire->answer, NULL, NULL);
}

static char *copy(const char *text, size_t count)
{
    char *made = malloc(count + 1);
    if (made == NULL)
        abort();
    if (count > 0)
        memcpy(made, text, count);
    made[count] = '\0';
    return made;
}

/* ---- what is open ---- */

void wire_begin(struct wire *wire, const char *text, size_t count, const char *parameters,
                enum wire_kind kind, uint64_t now_us)
{
    if (wire->count == WIRE_OPEN_MAX) {
        wire->opaque = "more statements at once than a connection may have";
        return;
    }
    struct wire_statement *statement = &wire->open[(wire->first + wire->count++) % WIRE_OPEN_MAX];
    *statement = (struct wire_statement){.text = copy(text, count),
                                         .parameters = copy(parameters, strlen(parameters)),
                                         .begun_us = now_us,
                                         .kind = kind};
}

bool wire_end(struct wire *wire, bool is_told, uint64_t now_us)
{
    struct wire_statement *statement = &wire->open[wire->first];
    if (wire->count == 0)
        return false;
    wire->first = (wire->first + 1) % WIRE_OPEN_MAX;
    wire->count--;
    statement->ended_us = now_us;
    if (is_told && statement->kind <= WIRE_SIMPLE)
        wire->tell(wire->context, statement);
    if (is_told && statement->kind == WIRE_UNSEEN)
        wire->opaque = "a statement is executed whose text was not seen";
    free(statement->text);
    free(statement->parameters);
    *statement = (struct wire_statement){.text = NULL};
    return true;
}

/* ---- what has a name ---- */

void wire_forget(struct wire_named *named)
{
    if (named == NULL)
        return;
    free(named->name);
    free(named->text);
    free(named->parameters);
    *named = (struct wire_named){.name = NULL};
}

struct wire_named *wire_find(struct wire *wire, const char *name, bool is_portal, bool makes)
{
    struct wire_named *found = NULL, *spare = NULL;
    for (size_t i = 0; found == NULL && i < WIRE_NAMED_MAX; i++) {
        struct wire_named *named = &wire->named[i];
        if (named->name == NULL)
            spare = named;
        else if (named->is_portal == is_portal && strcmp(named->name, name) == 0)
            found = named;
    }
    if (!makes)
        return found;
    if (found == NULL)
        found = spare != NULL ? spare : &wire->named[wire->next_named++ % WIRE_NAMED_MAX];
    wire_forget(found);
    *found = (struct wire_named){.name = copy(name, strlen(name)),
                                 .text = copy("", 0),
                                 .parameters = copy("", 0),
                                 .is_portal = is_portal};
    return found;
}

void wire_name_text(struct wire_named *named, const char *text, size_t count)
{
    free(named->text);
    named->text = copy(text, count);
}

/* ---- messages ---- */

/* Of the bytes at hand, which begin with a message. */
static size_t take_one(struct wire *wire, struct wire_side *side, wire_measure *measure, wire_message *take,
                       uint64_t now_us)
{
    bool is_wanted = true;
    const unsigned char *bytes = (const unsigned char *)side->part.bytes;
    size_t whole = measure(wire, bytes, side->part.count, &is_wanted);
    size_t wanted = whole < WIRE_TEXT_MAX ? whole : WIRE_TEXT_MAX;
    if (whole == 0 || wire->opaque != NULL || (is_wanted && side->part.count < wanted))
        return 0;
    if (is_wanted)
        take(wire, bytes, wanted, now_us);
    side->skip = whole > side->part.count ? whole - side->part.count : 0;
    return whole - side->skip;
}

void wire_cut(struct wire *wire, struct wire_side *side, const char *bytes, size_t count,
              wire_measure *measure, wire_message *take, uint64_t now_us)
{
    size_t skipped = side->skip < count ? (size_t)side->skip : count, used;
    side->skip -= skipped;
    if (skipped == count)
        return;
    text_add(&side->part, bytes + skipped, count - skipped);
    size_t at = 0;
    do {
        struct wire_side rest = {.part = {.bytes = side->part.bytes + at, .count = side->part.count - at}};
        used = rest.part.count > 0 ? take_one(wire, &rest, measure, take, now_us) : 0;
        at += used;
        side->skip += rest.skip;
    } while (used > 0 && wire->opaque == NULL);
    memmove(side->part.bytes, side->part.bytes + at, side->part.count - at);
    side->part.count -= at;
}

typedef void feed(struct wire *wire, const char *bytes, size_t count, uint64_t now_us);

static const struct {
    feed *client, *server;
} protocols[WIRE_PROTOCOLS] = {
    [WIRE_POSTGRES] = {wire_postgres_client, wire_postgres_server},
    [WIRE_MYSQL] = {wire_mysql_client, wire_mysql_server},
    [WIRE_HTTP] = {wire_http_client, wire_http_server},
};

void wire_client(struct wire *wire, const char *bytes, size_t count, uint64_t now_us)
{
    if (wire->opaque == NULL && count > 0)
        protocols[wire->protocol].client(wire, bytes, count, now_us);
}

void wire_server(struct wire *wire, const char *bytes, size_t count, uint64_t now_us)
{
    if (wire->opaque == NULL && count > 0)
        protocols[wire->protocol].server(wire, bytes, count, now_us);
}

void wire_clear(struct wire *wire, uint64_t now_us)
{
    while (wire_end(wire, !wire->skips, now_us))
        ;
    for (size_t i = 0; i < WIRE_NAMED_MAX; i++)
        wire_forget(&wire->named[i]);
    text_clear(&wire->client.part);
    text_clear(&wire->server.part);
    http_parse_clear(&wire->request);
    http_parse_clear(&wire->answer);
}

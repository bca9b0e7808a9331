/* SPDX-License-Identifier: MIT */
/* worker.c - see note.h. */

#include "load/base/clock.h"
#include "load/lab/note.h"
#include "load/lab/scheme.h"
#include "load/lab/source.h"

#include <hiredis/hiredis.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct scheme *scheme_of(const char *name)
{
    for (size_t i = 0; scheme_at(i) != NULL; i++) {
        if (strcmp(scheme_at(i)->name, name) == 0)
            return scheme_at(i);
    }
    fprintf(stderr, "lab: no scheme %s\n", name);
    return NULL;
}

static bool client_init(struct lab_client *client, char **argv)
{
    *client = (struct lab_client){
        .scheme = scheme_of(argv[3]),
        .key = argv[4],
        .index = (uint32_t)strtoul(argv[2], NULL, 10),
        .redis_port = (uint16_t)strtoul(argv[5], NULL, 10),
        .link = WORKER_LINK,
        .lease_s = (uint32_t)strtoul(argv[7], NULL, 10),
        .lock_urls = argv[8],
    };
    if (client->scheme == NULL)
        return false;
    lab_names(client->scheme, client->key, client->value_name, client->lock_name);
    client->postgres = source_open(argv[6]);
    return client->postgres != NULL;
}

static void client_clear(struct lab_client *client)
{
    source_close(&client->postgres);
    redisFree(client->redis);
    close(client->link);
}

static bool invalidate(struct lab_client *client)
{
    if (client->scheme->invalidate != NULL)
        return client->scheme->invalidate(client);
    lab_integer(client, "DEL %s", client->value_name);
    return true;
}

static void ask(struct lab_client *client, const struct order *order)
{
    const uint64_t end_us = order->rounds_ms > 0 ? clock_after_ms(order->rounds_ms) : UINT64_MAX;
    client->stop_at = (enum lab_step)order->stop_at;
    client->mode = (enum lab_mode)order->mode;
    client->fixed_lease_ms = order->fixed_lease_ms;
    note_send(client->link, NOTE_ASKED, 0);
    if (order->crowd > 0) {
        note_send(client->link, NOTE_ANSWERED, client->scheme->crowd(client, order->crowd));
        return;
    }
    int32_t version = client->scheme->get(client);
    for (uint32_t i = 1; i < order->rounds && version > LAB_FAILED && clock_us() < end_us; i++)
        version = client->scheme->get(client);
    client->stop_at = STEP_NONE;
    note_send(client->link, NOTE_ANSWERED, version);
}

static void obey(struct lab_client *client, const struct order *order)
{
    switch (order->kind) {
    case ORDER_ASK:
        ask(client, order);
        break;
    case ORDER_INVALIDATE:
        note_send(client->link, NOTE_INVALIDATED, invalidate(client));
        break;
    }
}

/* The first command makes the connection, and tells its address. */
static bool serve(struct lab_client *client)
{
    struct order order;
    freeReplyObject(lab_command(client, "PING"));
    if (client->scheme->open != NULL && !client->scheme->open(client))
        return false;
    note_send(client->link, NOTE_READY, 0);
    while (order_receive(client->link, &order))
        obey(client, &order);
    if (client->scheme->close != NULL)
        client->scheme->close(client);
    return true;
}

int worker_main(char **argv)
{
    struct lab_client client;
    bool good = client_init(&client, argv) && serve(&client);
    client_clear(&client);
    return good ? 0 : 1;
}

/* SPDX-License-Identifier: MIT */
/* fuzz_cluster.c - what nodes of a Cluster say about its slots, and where their redirections lead. */
#include "tests/fuzz/fuzz.h"

#include "guard/redis/reader.h"
#include "guard/redis/slots.h"

#include <assert.h>
#include <string.h>

enum { VIEW_LIMIT_BYTES = 1 << 20 };

static struct redis_slots slots;
static struct redis_view view;

/* What the map says is true of itself: each slot's owner is there, is named and counts it. */
static void check_map(void)
{
    unsigned owned[REDIS_NODES_MAX] = {0};
    for (unsigned slot = 0; slot < REDIS_SLOTS; slot++) {
        unsigned owner = redis_slots_owner(&slots, slot);
        assert(owner < REDIS_NODES_MAX || owner == REDIS_NO_NODE);
        if (owner != REDIS_NO_NODE)
            owned[owner]++;
    }
    for (unsigned i = 0; i < REDIS_NODES_MAX; i++) {
        const struct redis_node *node = &slots.nodes[i];
        assert(node->slots == owned[i]);
        assert(owned[i] == 0 || (node->named && node->at.port != 0 && node->at.host[0] != '\0'));
        assert(memchr(node->at.host, '\0', sizeof node->at.host) != NULL);
    }
}

static void take_redirect(const struct redisReply *reply)
{
    struct redis_redirect redirect;
    if (!redis_redirect_read(reply->str, reply->len, "asked", &redirect))
        return;
    assert(redirect.slot < REDIS_SLOTS && redirect.to.port != 0);
    if (!redirect.ask)
        redis_slots_moved(&slots, redis_slots_owner(&slots, redirect.slot), redirect.slot, &redirect.to);
    else
        redis_slots_find(&slots, &redirect.to);
}

static void take_view(const struct redisReply *one, const struct redisReply *other)
{
    char why[REDIS_WHY_SIZE] = "";
    bool sound = redis_view_read_slots(&view, one, "asked", why) && redis_view_read_epochs(&view, other, why);
    assert(sound == (why[0] == '\0'));
    if (sound)
        redis_slots_take(&slots, &view);
}

/* A stream of replies: an error is a redirection, any other one is a view together with the reply before it. */
void fuzz_cluster(const uint8_t *data, size_t bytes)
{
    struct redis_reader reader = {.parser = NULL};
    struct redisReply *before = NULL, *reply = NULL;
    bool sound = redis_reader_open(&reader, VIEW_LIMIT_BYTES, REDIS_VIEW_ELEMENTS_MAX);
    assert(sound);
    redis_slots_init(&slots);
    sound = bytes <= REDIS_FEED_BYTES && redis_reader_feed(&reader, (const char *)data, bytes);
    while (sound && (sound = redis_reader_next(&reader, &reply)) && reply != NULL) {
        if (reply->type == REDIS_REPLY_ERROR)
            take_redirect(reply);
        else if (before != NULL)
            take_view(before, reply);
        redis_reader_free(&reader, before);
        before = reply;
    }
    check_map();
    redis_reader_free(&reader, before);
    redis_reader_close(&reader);
}

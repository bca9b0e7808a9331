/* SPDX-License-Identifier: MIT */
/* redis/view.c - see redis/view.h. */
#include "view.h"
#include <stdio.h>
#include <string.h>

/* ---- endpoints ---- */

/* False: it cannot be a host. */
static bool set_endpoint_host(struct redis_endpoint *to, const char *host, size_t bytes, const char *asked)
{
    if (bytes == 0) {
        host = asked;
        bytes = strlen(asked);
    } else if (bytes == 1 && host[0] == '?') {
        bytes = 0;
    }
    if (bytes >= sizeof to->host)
        return false;
    for (size_t i = 0; i < bytes; i++)
        if (host[i] <= ' ' || host[i] > '~')
            return false;
    memcpy(to->host, host, bytes);
    to->host[bytes] = '\0';
    to->is_unix = false;
    return true;
}

static bool set_endpoint_port(struct redis_endpoint *to, long long port)
{
    to->port = port > 0 && port <= UINT16_MAX ? (uint16_t)port : 0;
    return to->port != 0;
}

/* ---- CLUSTER SLOTS ---- */

static bool is_cluster_node(const struct redisReply *node)
{
    return node->type == REDIS_REPLY_ARRAY && node->elements >= 3 &&
           (node->element[0]->type == REDIS_REPLY_STRING || node->element[0]->type == REDIS_REPLY_NIL) &&
           node->element[1]->type == REDIS_REPLY_INTEGER && node->element[2]->type == REDIS_REPLY_STRING &&
           node->element[2]->len == REDIS_NODE_ID_BYTES;
}

static bool read_node_endpoint(const struct redisReply *node, const char *asked, struct redis_endpoint *out)
{
    const struct redisReply *host = node->element[0];
    bool null = host->type == REDIS_REPLY_NIL;
    return set_endpoint_host(out, null ? "" : host->str, null ? 0 : host->len, asked) &&
           set_endpoint_port(out, node->element[1]->integer);
}

static size_t find_view_master(const struct redis_view *view, const char *id)
{
    size_t i = 0;
    while (i < view->master_count && memcmp(view->masters[i].id, id, REDIS_NODE_ID_BYTES) != 0)
        i++;
    return i;
}

/* Its index; REDIS_NO_NODE, with *why. */
static uint16_t take_view_master(struct redis_view *view, const struct redisReply *node, const char *asked,
                                 char why[REDIS_WHY_SIZE])
{
    struct redis_view_master master = {.epoch = 0};
    size_t index;
    if (!is_cluster_node(node) || !read_node_endpoint(node, asked, &master.at)) {
        snprintf(why, REDIS_WHY_SIZE, "CLUSTER SLOTS: a node without address or id");
        return REDIS_NO_NODE;
    }
    memcpy(master.id, node->element[2]->str, REDIS_NODE_ID_BYTES);
    index = find_view_master(view, master.id);
    if (index == REDIS_NODES_MAX) {
        snprintf(why, REDIS_WHY_SIZE, "CLUSTER SLOTS: more than %d masters", REDIS_NODES_MAX);
        return REDIS_NO_NODE;
    }
    if (index == view->master_count)
        view->masters[view->master_count++] = master;
    return (uint16_t)index;
}

static void take_view_replica(struct redis_view *view, const struct redisReply *node, const char *asked)
{
    struct redis_endpoint at = {.port = 0};
    if (!is_cluster_node(node) || !read_node_endpoint(node, asked, &at) || at.host[0] == '\0')
        return;
    for (size_t i = 0; i < view->replica_count; i++)
        if (redis_endpoint_equal(&view->replicas[i], &at))
            return;
    if (view->replica_count < REDIS_REPLICAS_MAX)
        view->replicas[view->replica_count++] = at;
}

/* Each once: so a nonsense of many ranges takes no longer than a view of all slots. */
static bool take_slots(struct redis_view *view, size_t first, size_t last, uint16_t master,
                       char why[REDIS_WHY_SIZE])
{
    for (size_t slot = first; slot <= last; slot++) {
        if (view->owner[slot] != REDIS_NO_NODE) {
            snprintf(why, REDIS_WHY_SIZE, "CLUSTER SLOTS: slot %zu twice", slot);
            return false;
        }
        view->owner[slot] = master;
    }
    return true;
}

/* [first slot, last slot, master, replica ...], each node [host, port, id ...]. */
static bool take_range(struct redis_view *view, const struct redisReply *range, const char *asked,
                       char why[REDIS_WHY_SIZE])
{
    if (range->type != REDIS_REPLY_ARRAY || range->elements < 3 ||
        range->element[0]->type != REDIS_REPLY_INTEGER || range->element[1]->type != REDIS_REPLY_INTEGER) {
        snprintf(why, REDIS_WHY_SIZE, "CLUSTER SLOTS: not an answer of Redis");
        return false;
    }
    long long first = range->element[0]->integer, last = range->element[1]->integer;
    if (first < 0 || last < first || last >= REDIS_SLOTS) {
        snprintf(why, REDIS_WHY_SIZE, "CLUSTER SLOTS: no such slots");
        return false;
    }
    uint16_t master = take_view_master(view, range->element[2], asked, why);
    if (master == REDIS_NO_NODE || !take_slots(view, (size_t)first, (size_t)last, master, why))
        return false;
    for (size_t i = 3; i < range->elements; i++)
        take_view_replica(view, range->element[i], asked);
    return true;
}

/* ---- CLUSTER NODES ---- */

static const char *skip_fields(const char *at, const char *end, unsigned count)
{
    for (; count > 0; count--) {
        const char *space = memchr(at, ' ', (size_t)(end - at));
        if (space == NULL)
            return end;
        at = space + 1;
    }
    return at;
}

static uint64_t read_epoch(const char *at, const char *end)
{
    uint64_t epoch = 0;
    for (; at < end && *at >= '0' && *at <= '9'; at++)
        if (__builtin_mul_overflow(epoch, 10, &epoch) || __builtin_add_overflow(epoch, *at - '0', &epoch))
            return 0;
    return epoch;
}

/* "<id> <address> <flags> <master> <ping sent> <pong received> <config epoch> <link> <slots>" */
static void take_line(struct redis_view *view, const char *line, const char *end)
{
    if (end - line <= REDIS_NODE_ID_BYTES || line[REDIS_NODE_ID_BYTES] != ' ')
        return;
    if (view->named_count++ < REDIS_NAMED_MAX)
        memcpy(view->named[view->named_count - 1], line, REDIS_NODE_ID_BYTES);
    size_t index = find_view_master(view, line);
    if (index < view->master_count)
        view->masters[index].epoch = read_epoch(skip_fields(line, end, 6), end);
}

static void take_lines(struct redis_view *view, const struct redisReply *nodes)
{
    const char *line = nodes->str, *end = nodes->str + nodes->len;
    while (line < end) {
        const char *feed = memchr(line, '\n', (size_t)(end - line));
        const char *line_end = feed != NULL ? feed : end;
        take_line(view, line, line_end);
        line = line_end + (feed != NULL);
    }
}

/* ---- both ---- */

static bool is_cluster_answer(const struct redisReply *reply, int type, const char *what,
                              char why[REDIS_WHY_SIZE])
{
    char refused[32];
    if (reply->type == type)
        return true;
    snprintf(refused, sizeof refused, "%s refused: ", what);
    if (reply->type == REDIS_REPLY_ERROR)
        redis_explain(reply, refused, false, why);
    else
        snprintf(why, REDIS_WHY_SIZE, "%s: not an answer of Redis", what);
    return false;
}

bool redis_view_read_slots(struct redis_view *view, const struct redisReply *slots, const char *asked,
                           char why[REDIS_WHY_SIZE])
{
    if (!is_cluster_answer(slots, REDIS_REPLY_ARRAY, "CLUSTER SLOTS", why))
        return false;
    view->master_count = view->replica_count = view->named_count = 0;
    for (size_t slot = 0; slot < REDIS_SLOTS; slot++)
        view->owner[slot] = REDIS_NO_NODE;
    for (size_t i = 0; i < slots->elements; i++)
        if (!take_range(view, slots->element[i], asked, why))
            return false;
    if (view->master_count == 0)
        snprintf(why, REDIS_WHY_SIZE, "CLUSTER SLOTS: this node knows no owner of any slot");
    return view->master_count > 0;
}

bool redis_view_read_epochs(struct redis_view *view, const struct redisReply *nodes, char why[REDIS_WHY_SIZE])
{
    if (!is_cluster_answer(nodes, REDIS_REPLY_STRING, "CLUSTER NODES", why))
        return false;
    take_lines(view, nodes);
    return true;
}

/* An answer that names nobody at all says nothing of one. */
bool redis_view_forgets(const struct redis_view *view, const char *id)
{
    for (size_t i = 0; i < view->named_count && i < REDIS_NAMED_MAX; i++)
        if (memcmp(view->named[i], id, REDIS_NODE_ID_BYTES) == 0)
            return false;
    return view->named_count > 0 && view->named_count <= REDIS_NAMED_MAX;
}

/* ---- redirections ---- */

/* Digits and `end` behind them. False: none, or more than `most`. */
static bool take_number(const char **at, const char *text_end, char end, unsigned most, unsigned *out)
{
    const char *first = *at;
    *out = 0;
    while (*at < text_end && **at >= '0' && **at <= '9' && *out <= most)
        *out = *out * 10 + (unsigned)(*(*at)++ - '0');
    if (*at == first || *out > most)
        return false;
    if (end == '\0')
        return *at == text_end;
    return *at < text_end && *(*at)++ == end;
}

bool redis_redirect_read(const char *text, size_t bytes, const char *asked, struct redis_redirect *out)
{
    const char *at = text, *end = text + bytes;
    struct redis_redirect redirect = {.ask = false};
    unsigned slot, port;
    if (bytes >= 6 && memcmp(text, "MOVED ", 6) == 0) {
        at += 6;
    } else if (bytes >= 4 && memcmp(text, "ASK ", 4) == 0) {
        redirect.ask = true;
        at += 4;
    } else {
        return false;
    }
    if (!take_number(&at, end, ' ', REDIS_SLOTS - 1, &slot))
        return false;
    const char *colon = memrchr(at, ':', (size_t)(end - at));
    if (colon == NULL || !set_endpoint_host(&redirect.to, at, (size_t)(colon - at), asked))
        return false;
    at = colon + 1;
    if (!take_number(&at, end, '\0', UINT16_MAX, &port) || !set_endpoint_port(&redirect.to, port))
        return false;
    redirect.slot = (uint16_t)slot;
    *out = redirect;
    return true;
}

/* SPDX-License-Identifier: MIT */
/* redis/slots.c - see redis/slots.h. */
#include "slots.h"
#include <assert.h>
#include <string.h>

enum { GRACE_VIEWS = 3 }; /* for whom a redirection has named: it may be about to receive its first slot */

/* ---- the slot of a name ---- */

/* CRC-16/XMODEM, four bits at a time. */
static uint16_t crc16(const char *data, size_t bytes)
{
    static const uint16_t table[16] = {0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5, 0x60c6, 0x70e7,
                                       0x8108, 0x9129, 0xa14a, 0xb16b, 0xc18c, 0xd1ad, 0xe1ce, 0xf1ef};
    uint16_t crc = 0;
    for (size_t i = 0; i < bytes; i++) {
        uint8_t byte = (uint8_t)data[i];
        crc = (uint16_t)(crc << 4) ^ table[(crc >> 12) ^ (byte >> 4)];
        crc = (uint16_t)(crc << 4) ^ table[(crc >> 12) ^ (byte & 15)];
    }
    return crc;
}

unsigned redis_slot(const char *name, size_t bytes)
{
    const char *open = memchr(name, '{', bytes);
    if (open != NULL) {
        const char *tag = open + 1;
        const char *close = memchr(tag, '}', (size_t)(name + bytes - tag));
        if (close != NULL && close > tag)
            return crc16(tag, (size_t)(close - tag)) % REDIS_SLOTS;
    }
    return crc16(name, bytes) % REDIS_SLOTS;
}

/* ---- nodes ---- */

static bool is_free(const struct redis_node *node)
{
    return node->at.host[0] == '\0';
}

static unsigned find_node_by_id(const struct redis_slots *slots, const char *id,
                                const struct redis_endpoint *at)
{
    for (unsigned i = 0; i < REDIS_NODES_MAX; i++) {
        const struct redis_node *node = &slots->nodes[i];
        if (!is_free(node) && strcmp(node->id, id) == 0 &&
            (at == NULL || redis_endpoint_equal(&node->at, at)))
            return i;
    }
    return REDIS_NO_NODE;
}

/* One that is named before one that is not. */
static unsigned find_node_at(const struct redis_slots *slots, const struct redis_endpoint *at)
{
    unsigned found = REDIS_NO_NODE;
    for (unsigned i = 0; i < REDIS_NODES_MAX; i++) {
        const struct redis_node *node = &slots->nodes[i];
        if (is_free(node) || !redis_endpoint_equal(&node->at, at))
            continue;
        if (node->named)
            return i;
        found = i;
    }
    return found;
}

static unsigned add_node(struct redis_slots *slots, const char *id, const struct redis_endpoint *at)
{
    for (unsigned i = 0; i < REDIS_NODES_MAX; i++) {
        struct redis_node *node = &slots->nodes[i];
        if (!is_free(node))
            continue;
        *node = (struct redis_node){.at = *at};
        memcpy(node->id, id, strlen(id) + 1);
        return i;
    }
    return REDIS_NO_NODE;
}

static void free_if_unused(struct redis_node *node)
{
    if (!node->named && node->holders == 0)
        *node = (struct redis_node){.named = false};
}

unsigned redis_slots_find(struct redis_slots *slots, const struct redis_endpoint *at)
{
    if (at->host[0] == '\0')
        return REDIS_NO_NODE;
    unsigned index = find_node_at(slots, at);
    if (index == REDIS_NO_NODE)
        index = add_node(slots, "", at);
    if (index == REDIS_NO_NODE)
        return REDIS_NO_NODE;
    slots->nodes[index].named = true;
    slots->nodes[index].grace = GRACE_VIEWS;
    return index;
}

void redis_slots_hold(struct redis_slots *slots, unsigned node)
{
    assert(node < REDIS_NODES_MAX && !is_free(&slots->nodes[node]));
    slots->nodes[node].holders++;
}

void redis_slots_release(struct redis_slots *slots, unsigned node)
{
    assert(slots->nodes[node].holders > 0);
    slots->nodes[node].holders--;
    free_if_unused(&slots->nodes[node]);
}

void redis_slots_lost(struct redis_slots *slots, unsigned node, bool is_lost)
{
    assert(is_lost ? slots->nodes[node].lost < slots->nodes[node].holders : slots->nodes[node].lost > 0);
    slots->nodes[node].lost += is_lost ? 1u : -1u;
}

/* ---- slots ---- */

void redis_slots_init(struct redis_slots *slots)
{
    memset(slots, 0, sizeof *slots);
    for (unsigned slot = 0; slot < REDIS_SLOTS; slot++)
        atomic_init(&slots->owner[slot], REDIS_NO_NODE);
}

static void give_slot(struct redis_slots *slots, unsigned slot, unsigned to, uint64_t epoch)
{
    unsigned from = redis_slots_owner(slots, slot);
    assert(from != to);
    slots->epoch[slot] = epoch;
    slots->nodes[to].slots++;
    atomic_store_explicit(&slots->owner[slot], (uint16_t)to, memory_order_release);
    if (from == REDIS_NO_NODE)
        return;
    if (--slots->nodes[from].slots == 0)
        slots->takeovers++, slots->nodes[to].takeovers++;
}

/* The epoch of the claim that is given up stays: what claims the slot by it is older than the redirection. */
bool redis_slots_moved(struct redis_slots *slots, unsigned from, unsigned slot,
                       const struct redis_endpoint *to)
{
    if (redis_slots_owner(slots, slot) != from)
        return false;
    unsigned node = redis_slots_find(slots, to);
    if (node == REDIS_NO_NODE || node == from)
        return false;
    give_slot(slots, slot, node, slots->epoch[slot]);
    if (from == REDIS_NO_NODE)
        return true;
    slots->nodes[from].redirects = true;
    slots->nodes[from].redirected = slot;
    return true;
}

/* ---- a view ---- */

/* Its number here; REDIS_NO_NODE: its address is not known, or there is no room. */
static unsigned place_master(struct redis_slots *slots, const struct redis_view_master *master)
{
    if (master->at.host[0] == '\0')
        return find_node_by_id(slots, master->id, NULL);
    unsigned index = find_node_by_id(slots, master->id, &master->at);
    if (index == REDIS_NO_NODE) {
        index = find_node_by_id(slots, "", &master->at);
        if (index != REDIS_NO_NODE)
            memcpy(slots->nodes[index].id, master->id, sizeof master->id);
    }
    return index != REDIS_NO_NODE ? index : add_node(slots, master->id, &master->at);
}

bool redis_slots_knows(const struct redis_slots *slots, const struct redis_view *view)
{
    bool empty = true;
    for (size_t i = 0; i < view->master_count; i++)
        if (find_node_by_id(slots, view->masters[i].id, NULL) != REDIS_NO_NODE)
            return true;
    for (unsigned i = 0; i < REDIS_NODES_MAX; i++)
        empty = empty && slots->nodes[i].id[0] == '\0';
    return empty;
}

/* Whether the claim is newer than the one that the map goes by, or the same node's from another address. */
static bool claim_wins(const struct redis_slots *slots, unsigned slot, unsigned node, uint64_t epoch)
{
    unsigned owner = redis_slots_owner(slots, slot);
    return owner == REDIS_NO_NODE || epoch > slots->epoch[slot] ||
           (epoch == slots->epoch[slot] && slots->nodes[owner].id[0] != '\0' &&
            strcmp(slots->nodes[owner].id, slots->nodes[node].id) == 0);
}

static bool has_master_at(const struct redis_view *view, const struct redis_endpoint *at)
{
    size_t i = 0;
    while (i < view->master_count && !redis_endpoint_equal(&view->masters[i].at, at))
        i++;
    return i < view->master_count;
}

/* A view that has never heard of the node leads elsewhere, as a rule; if not, redirections put its slots back. */
static bool agrees_with_redirection(const struct redis_slots *slots, const struct redis_node *node,
                                    const struct redis_view *view)
{
    unsigned owner = redis_slots_owner(slots, node->redirected);
    uint16_t master = view->owner[node->redirected];
    return node->redirects && owner != REDIS_NO_NODE && master != REDIS_NO_NODE &&
           redis_endpoint_equal(&slots->nodes[owner].at, &view->masters[master].at);
}

/* What nobody here has tried to reach may well be there. What redirects may be another node, which has come to the
 * address. A node that only redirections have named has no id to be forgotten by: its address stands for it. */
static bool is_given_up(const struct redis_slots *slots, const struct redis_node *node,
                        const struct redis_view *view)
{
    const bool is_lost = node->lost > 0 && node->lost == node->holders;
    if (node->id[0] == '\0')
        return is_lost && redis_view_forgets(view, node->id) && !has_master_at(view, &node->at);
    return (is_lost || agrees_with_redirection(slots, node, view)) && redis_view_forgets(view, node->id);
}

static bool take_claim(struct redis_slots *slots, unsigned slot, unsigned node, uint64_t epoch, bool any_wins)
{
    if (node == redis_slots_owner(slots, slot)) {
        slots->epoch[slot] = any_wins || epoch > slots->epoch[slot] ? epoch : slots->epoch[slot];
        return false;
    }
    if (!any_wins && !claim_wins(slots, slot, node, epoch))
        return false;
    give_slot(slots, slot, node, epoch);
    return true;
}

/* Those that own nothing are let go. */
static bool forget_idle(struct redis_slots *slots)
{
    bool changed = false;
    for (unsigned i = 0; i < REDIS_NODES_MAX; i++) {
        struct redis_node *node = &slots->nodes[i];
        bool was_named = node->named;
        node->named = node->slots > 0 || (was_named && node->grace > 0);
        node->grace -= node->grace > 0;
        changed = changed || node->named != was_named;
        free_if_unused(node);
    }
    return changed;
}

bool redis_slots_take(struct redis_slots *slots, const struct redis_view *view)
{
    unsigned node_of[REDIS_NODES_MAX];
    bool anew = !redis_slots_knows(slots, view), changed = false;
    bool given_up[REDIS_NODES_MAX];
    for (unsigned i = 0; i < REDIS_NODES_MAX; i++) {
        given_up[i] = is_given_up(slots, &slots->nodes[i], view);
        slots->nodes[i].redirects = slots->nodes[i].redirects && given_up[i];
    }
    for (size_t i = 0; i < view->master_count; i++)
        node_of[i] = place_master(slots, &view->masters[i]);
    for (unsigned slot = 0; slot < REDIS_SLOTS; slot++) {
        uint16_t master = view->owner[slot];
        unsigned owner = redis_slots_owner(slots, slot);
        bool any_wins = anew || (owner != REDIS_NO_NODE && given_up[owner]);
        if (master != REDIS_NO_NODE && node_of[master] != REDIS_NO_NODE)
            changed =
                take_claim(slots, slot, node_of[master], view->masters[master].epoch, any_wins) || changed;
    }
    changed = forget_idle(slots) || changed;
    if (view->replica_count > 0) {
        memcpy(slots->replicas, view->replicas, sizeof slots->replicas);
        slots->replica_count = view->replica_count;
    }
    return changed;
}

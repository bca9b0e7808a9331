/* SPDX-License-Identifier: MIT */
/* keeper_look.c - what holds a name, what waits: see keeper_session.h. */
#include "../../locks.h"
#include "keeper_session.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LOOK_PATH_SIZE = 512,
    LOOK_READS_MAX = GUARD_LOCK_SEEN_MAX + 1 /* the last that holds, for its number */
};

struct keeper_look_read {
    struct keeper_look *look;
    struct guard_lock_seen *seen; /* NULL: only its number is wanted */
    bool holds;
};

struct keeper_look {
    struct keeper_session *session; /* lent */
    keeper_looked *looked;          /* NULL: abandoned */
    void *context;
    const char *why; /* it failed; static */
    unsigned under_way;
    char path[LOOK_PATH_SIZE];
    struct keeper_look_read reads[LOOK_READS_MAX];
    struct guard_lock_view view;
};

static void finish_look(struct keeper_look *look)
{
    if (look->under_way > 0)
        return;
    if (look->looked != NULL)
        look->looked(look->context, look->why == NULL ? &look->view : NULL, look->why);
    free(look);
}

/* "host:port since", as it was made; what is not so is shown as far as it can be. */
static void see_people(struct guard_lock_seen *seen, const char *data, size_t bytes)
{
    char text[GUARD_LOCK_WHO_BYTES + 32] = "";
    memcpy(text, data, bytes < sizeof text - 1 ? bytes : sizeof text - 1);
    const char *who = text + strspn(text, " ");
    size_t length = strcspn(who, " ");
    snprintf(seen->who, sizeof seen->who, "%.*s", (int)length, who);
    seen->since_s = strtoull(who + length, NULL, 10);
}

/* One that has left meanwhile stays in the view. */
static void on_node_read(void *context, const struct keeper_result *result)
{
    struct keeper_look_read *read = context;
    struct keeper_look *look = read->look;
    look->under_way--;
    if (result->outcome == KEEPER_DONE && read->seen != NULL && result->data != NULL)
        see_people(read->seen, result->data, result->data_bytes);
    if (result->outcome == KEEPER_DONE && read->holds && result->czxid > look->view.fence)
        look->view.fence = result->czxid;
    if (result->outcome == KEEPER_UNSURE)
        look->why = result->why;
    finish_look(look);
}

static void read_node(struct keeper_look *look, const struct keeper_node *node, size_t at)
{
    char name[KEEPER_NODE_SIZE], path[LOOK_PATH_SIZE + KEEPER_NODE_SIZE];
    keeper_node_name(node, name);
    snprintf(path, sizeof path, "%s/%s", look->path, name);
    look->reads[at].look = look;
    if (keeper_read(look->session, path, false, on_node_read, &look->reads[at]))
        look->under_way++;
    else
        look->why = "zookeeper: no memory, or no connection";
}

static void see_nodes(struct keeper_look *look, const struct keeper_result *listing)
{
    struct guard_lock_view *view = &look->view;
    size_t served = keeper_line_served(listing->nodes, listing->count);
    size_t count = listing->count < GUARD_LOCK_SEEN_MAX ? listing->count : GUARD_LOCK_SEEN_MAX;
    view->holder_count = (uint32_t)served;
    view->waiter_count = (uint32_t)(listing->count - served);
    view->seen_count = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        const struct keeper_node *node = &listing->nodes[i];
        view->seen[i] =
            (struct guard_lock_seen){.units = node->units, .limit = node->limit, .holds = i < served};
        look->reads[i].seen = &view->seen[i];
        look->reads[i].holds = i < served;
        read_node(look, node, i);
    }
    if (served > count) {
        look->reads[count].holds = true;
        read_node(look, &listing->nodes[served - 1], count);
    }
}

static void on_line_listed(void *context, const struct keeper_result *result)
{
    struct keeper_look *look = context;
    look->under_way--;
    if (result->outcome == KEEPER_DONE && look->looked != NULL)
        see_nodes(look, result);
    else if (result->outcome != KEEPER_DONE && result->outcome != KEEPER_NO_NODE)
        look->why = result->why;
    finish_look(look);
}

struct keeper_look *keeper_look_start(struct keeper_session *session, const char *path, keeper_looked *looked,
                                      void *context)
{
    struct keeper_look *look = calloc(1, sizeof *look);
    if (look == NULL)
        return NULL;
    look->session = session;
    look->looked = looked;
    look->context = context;
    look->under_way = 1;
    snprintf(look->path, sizeof look->path, "%s", path);
    if (keeper_list(session, path, true, false, on_line_listed, look))
        return look;
    free(look);
    return NULL;
}

void keeper_look_abandon(struct keeper_look *look)
{
    look->looked = NULL;
}

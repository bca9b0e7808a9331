/* SPDX-License-Identifier: MIT */
/*
 * lock_zookeeper.c - locks on ZooKeeper: the recipe of protected, ephemeral, sequential nodes; see provider.h.
 *
 *     /csg1:<namespace>/lock:<encoded name>/_c_<uuid>-<units>-<limit>-<number>
 *           container         container         a place in line (keeper_line.h)
 *
 * What the core calls a token has a place: its node, from before it is created until it is certainly gone.
 *
 *               created                 its turn               TAKE, proved
 *     MAKING ------------> WAITING ------------------> SERVED ---------------> HELD
 *      |  ^ the reply was      |                         |                       |
 *      |  | lost: looked for   | GIVE                    | GIVE                  | GIVE
 *      +--+                    +--------------------> LEAVING <------------------+
 *                                                        | deleted, or no longer there
 *                                                        v
 *                                                      LEFT, until the core has heard of it
 *
 * Creating     The uuid in its name makes a lost reply harmless: the node is looked for in a listing as of now, and only
 *              what is not there is created again. So a token never has two nodes of one session.
 * Turn         From a listing, for all places of this process on the name (a line) at once. The line is listed again when
 *              the node that the first of its waiting places has to wait for is gone (or, if any node may make room, when
 *              there is another set of nodes), after a reconnection, and every 5 s.
 * Fence        czxid, the transaction that made the node: nodes of a name have rising ones, in their order.
 * Validity     A lock is granted or renewed by a transaction that is as good as written: the creation itself, or a proof
 *              (keeper_session.h). It is valid from its sending for two thirds of the session's timeout, which is when the
 *              library gives a silent server up, and never for longer than the lease.
 * The session  is one for all places. Once it is over all their nodes are gone, or about to go: what was held is dropped,
 *              everything else is forgotten, and the core asks for it again when the next session is up.
 *
 * Lifetime     A place or a line is freed when nothing under way names it; closing a session answers all that was.
 * Outbox       Nothing is told from inside perform(): answers and news leave together, at the end of the loop's turn.
 */
#include "../base/chance.h"
#include "../base/check.h"
#include "../base/clock.h"
#include "../base/table.h"
#include "keeper_look.h"
#include "provider.h"
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#ifdef GUARD_LOCKS_WITH_ZOOKEEPER

enum {
    TICK_MS = 1000,
    LIST_EVERY_MS = 5000,
    LEFT_KEPT_MS = 60000,
    CREATE_TRIES = 8, /* a container may be removed between its creation and its first child's */
    REOPEN_FIRST_MS = 50,
    REOPEN_MOST_MS = 5000,
    LINE_PATH_SIZE = 16 + KEY_NAMESPACE_MAX + KEY_ENCODED_MAX,
    NODE_PATH_SIZE = LINE_PATH_SIZE + KEEPER_NODE_SIZE,
};

static const char no_answer[] = "zookeeper: no answer in time";

enum place_stage { PLACE_MAKING, PLACE_WAITING, PLACE_SERVED, PLACE_HELD, PLACE_LEAVING, PLACE_LEFT };
enum place_news { NO_NEWS, NEWS_TOLD, NEWS_DROPPED };

struct zookeeper;

/* An action, or looking, until it is answered. */
struct zoo_ask {
    struct zookeeper *self;
    uint64_t op;
    enum lock_action_kind kind;
    bool wants_place; /* TAKE: in line, if it is not its turn */
    uint64_t at_us, until_us;
    struct zoo_place *place; /* it waits for; NULL: none */
    struct lock_reply reply;
    /* looking */
    lock_looked *looked; /* NULL: it is an action */
    void *context;
    struct keeper_look *look; /* under way */
    char path[LINE_PATH_SIZE];
    struct zoo_ask *prev, *next; /* among the pending, then among the answered */
};

struct zoo_place {
    struct zoo_line *line;
    char token[LOCK_TOKEN_SIZE];
    char uuid[KEEPER_UUID_BYTES];
    struct keeper_node node;
    uint32_t lease_ms, before;
    enum place_stage stage;
    bool is_leaving; /* MAKING: it is to be deleted once it is known */
    bool is_unsure;  /* MAKING: the reply was lost */
    bool was_held;
    unsigned tries; /* to create it */
    uint64_t czxid;
    uint64_t confirmed_us;     /* sending of the last transaction that proves it */
    uint64_t since_us;         /* unsure, or LEFT */
    enum lock_reply_kind left; /* what GIVE hears */
    unsigned under_way;        /* commands */
    struct zoo_ask *ask;       /* pending; NULL: none */
    enum place_news news;      /* in the outbox */
    const char *why;           /* DROPPED */
    bool is_over;              /* nobody finds it */
    struct zoo_place *next_news;
    struct zoo_place *prev, *next; /* of the line */
    bool unlisted;
    UT_hash_handle by_uuid;
};

/* The places of this process on one name. */
struct zoo_line {
    struct zookeeper *self;
    struct zoo_place *places;
    unsigned under_way;        /* commands, but the listing */
    bool is_listing, is_fresh; /* the listing under way is as of now */
    bool again;                /* to be listed once more */
    bool by_children;          /* any node may make room */
    bool is_watched;
    enum keeper_outcome parents; /* of their last creation */
    uint64_t listed_us;
    bool unlisted;
    UT_hash_handle by_name;
    size_t bytes;
    char encoded[KEY_ENCODED_MAX + 1];
};

struct zookeeper {
    struct lock_provider provider; /* first */
    struct lock_provider_config config;
    struct keeper_session *session; /* NULL: to be opened anew */
    bool is_up;
    const char *why; /* it is not; static */
    unsigned closing_sessions, failures;
    struct chance chance;
    struct zoo_line *lines;
    struct zoo_place *places; /* by UUID */
    struct zoo_ask *asks, *answers;
    struct zoo_place *news, **news_end;
    bool link_news;
    struct host_timer limit, tick, reopen;
    struct host_soon soon;
    bool is_closing;
    void (*closed)(void *context);
    void *closed_context;
};

/* ---- paths ---- */

static int parent_path(const struct zookeeper *self, char out[LINE_PATH_SIZE])
{
    return snprintf(out, LINE_PATH_SIZE, "/csg1:%s", self->config.locks->name_space);
}

static void line_path(const struct zookeeper *self, const char *encoded, char out[LINE_PATH_SIZE])
{
    int length = parent_path(self, out);
    snprintf(out + length, LINE_PATH_SIZE - (size_t)length, "/lock:%s", encoded);
}

static void node_path(const struct zoo_line *line, const struct keeper_node *node, char out[NODE_PATH_SIZE])
{
    char path[LINE_PATH_SIZE], name[KEEPER_NODE_SIZE];
    line_path(line->self, line->encoded, path);
    keeper_node_name(node, name);
    snprintf(out, NODE_PATH_SIZE, "%s/%s", path, name);
}

/* ---- the outbox ---- */

static void free_when_unused(struct zoo_place *place);
static void end_zookeeper(struct zookeeper *self);

static void leave_soon(struct zookeeper *self)
{
    host_soon(self->config.host, &self->soon);
}

static void ring_for_limit(struct zookeeper *self)
{
    if (self->asks != NULL)
        host_timer_set(self->config.host, &self->limit, self->asks->until_us);
    else
        host_timer_stop(self->config.host, &self->limit);
}

/* It is pending, and not any more. */
static void answer_ask(struct zookeeper *self, struct zoo_ask *ask, const struct lock_reply *reply)
{
    bool was_first = ask == self->asks;
    if (ask->place != NULL)
        ask->place->ask = NULL;
    ask->place = NULL;
    ask->reply = *reply;
    DL_DELETE(self->asks, ask);
    DL_APPEND(self->answers, ask);
    if (was_first)
        ring_for_limit(self);
    leave_soon(self);
}

static void answer_place(struct zoo_place *place, enum lock_reply_kind kind, const char *why)
{
    if (place->ask != NULL)
        answer_ask(place->line->self, place->ask, &(struct lock_reply){.kind = kind, .why = why});
}

static void tell_news(struct zoo_place *place, enum place_news news, const char *why)
{
    struct zookeeper *self = place->line->self;
    if (place->news == NO_NEWS) {
        place->next_news = NULL;
        *self->news_end = place;
        self->news_end = &place->next_news;
    }
    place->news = news;
    place->why = why;
    leave_soon(self);
}

static void deliver_answer(struct zookeeper *self, struct zoo_ask *ask)
{
    DL_DELETE(self->answers, ask);
    if (ask->looked != NULL)
        ask->looked(ask->context, NULL, ask->reply.why);
    else
        self->config.hooks.replied(self->config.hooks.context, ask->op, &ask->reply);
    free(ask);
}

static void deliver_news(struct zookeeper *self, struct zoo_place *place)
{
    const struct lock_provider_hooks *hooks = &self->config.hooks;
    enum place_news news = place->news;
    char uuid[KEEPER_UUID_BYTES + 1] = "";
    memcpy(uuid, place->uuid, KEEPER_UUID_BYTES);
    self->news = place->next_news;
    if (self->news == NULL)
        self->news_end = &self->news;
    place->news = NO_NEWS;
    place->line->under_way++; /* so that both are there until it is told */
    place->under_way++;
    if (news == NEWS_TOLD)
        hooks->told(hooks->context, uuid, place->line->encoded, place->line->bytes);
    else
        hooks->dropped(hooks->context, place->token, place->why);
    place->under_way--;
    place->line->under_way--;
    free_when_unused(place);
}

/* What is told may perform, or close: then nothing more leaves. */
static void empty_outbox(void *context)
{
    struct zookeeper *self = context;
    if (self->is_closing && self->closing_sessions == 0) {
        end_zookeeper(self);
        return;
    }
    while (!self->is_closing && self->answers != NULL)
        deliver_answer(self, self->answers);
    while (!self->is_closing && self->news != NULL)
        deliver_news(self, self->news);
    if (!self->is_closing && self->link_news) {
        self->link_news = false;
        self->config.hooks.link(self->config.hooks.context, self->is_up, self->why);
    }
}

static void tell_link(struct zookeeper *self, bool is_up, const char *why)
{
    self->link_news = self->link_news || is_up || self->is_up || why != self->why;
    self->is_up = is_up;
    self->why = why;
    leave_soon(self);
}

/* All wait equally long, but who looks: a few at a time. */
static void keep_ask(struct zookeeper *self, struct zoo_ask *ask)
{
    struct zoo_ask *after = self->asks != NULL ? self->asks->prev : NULL;
    while (after != NULL && after->until_us > ask->until_us)
        after = after != self->asks ? after->prev : NULL;
    if (after == NULL)
        DL_PREPEND(self->asks, ask);
    else
        DL_APPEND_ELEM(self->asks, after, ask);
    if (ask == self->asks)
        ring_for_limit(self);
}

static void on_ask_limit(void *context)
{
    struct zookeeper *self = context;
    uint64_t now_us = clock_now_us();
    while (self->asks != NULL && self->asks->until_us <= now_us) {
        struct zoo_ask *ask = self->asks;
        const char *why = self->is_up ? no_answer : self->why;
        if (ask->look != NULL)
            keeper_look_abandon(ask->look);
        answer_ask(self, ask, &(struct lock_reply){.kind = LOCK_UNANSWERED, .why = why});
    }
    ring_for_limit(self);
}

/* ---- lines ---- */

static struct zoo_line *find_line(struct zookeeper *self, const char *encoded, size_t bytes)
{
    struct zoo_line *line;
    HASH_FIND(by_name, self->lines, encoded, bytes, line);
    return line;
}

static struct zoo_line *open_line(struct zookeeper *self, const struct lock_name *name)
{
    struct zoo_line *line = find_line(self, name->encoded, name->bytes);
    if (line != NULL)
        return line;
    line = calloc(1, sizeof *line);
    if (line == NULL)
        return NULL;
    assert(name->bytes <= KEY_ENCODED_MAX);
    line->self = self;
    line->bytes = name->bytes;
    memcpy(line->encoded, name->encoded, name->bytes);
    HASH_ADD_KEYPTR(by_name, self->lines, line->encoded, line->bytes, line);
    if (!line->unlisted)
        return line;
    free(line);
    return NULL;
}

static void close_line_when_unused(struct zoo_line *line)
{
    if (line->places != NULL || line->under_way > 0 || line->is_listing)
        return;
    HASH_DELETE(by_name, line->self->lines, line);
    free(line);
}

static void on_listed(void *context, const struct keeper_result *result);

static bool has_unsure(const struct zoo_line *line)
{
    const struct zoo_place *place;
    DL_FOREACH (line->places, place) {
        if (place->is_unsure)
            return true;
    }
    return false;
}

/* What cannot be sent for want of memory is sent by the tick. */
static void list_line(struct zoo_line *line)
{
    char path[LINE_PATH_SIZE];
    struct zookeeper *self = line->self;
    line->again = line->is_listing;
    if (!self->is_up || line->is_listing)
        return;
    line_path(self, line->encoded, path);
    line->is_fresh = has_unsure(line);
    line->is_listing = keeper_list(self->session, path, line->is_fresh, line->by_children, on_listed, line);
}

/* ---- places ---- */

static struct zoo_place *find_place(struct zookeeper *self, const char *token)
{
    struct zoo_place *place;
    HASH_FIND(by_uuid, self->places, token, KEEPER_UUID_BYTES, place);
    return place;
}

static struct zoo_place *open_place(struct zookeeper *self, const struct lock_action *action)
{
    struct zoo_line *line = open_line(self, &action->names[0]);
    struct zoo_place *place = line != NULL ? calloc(1, sizeof *place) : NULL;
    if (place != NULL) {
        place->line = line;
        snprintf(place->token, sizeof place->token, "%s", action->token);
        memcpy(place->uuid, action->token, KEEPER_UUID_BYTES);
        memcpy(place->node.uuid, action->token, KEEPER_UUID_BYTES);
        place->node.units = action->units;
        place->node.limit = action->limit;
        place->lease_ms = action->lease_ms;
        HASH_ADD(by_uuid, self->places, uuid, KEEPER_UUID_BYTES, place);
    }
    if (place != NULL && !place->unlisted) {
        DL_APPEND(line->places, place);
        return place;
    }
    free(place);
    if (line != NULL)
        close_line_when_unused(line);
    return NULL;
}

static void free_when_unused(struct zoo_place *place)
{
    struct zoo_line *line = place->line;
    if (!place->is_over || place->under_way > 0 || place->news != NO_NEWS)
        return;
    DL_DELETE(line->places, place);
    free(place);
    close_line_when_unused(line);
}

/* From here on its token is unknown. */
static void end_place(struct zoo_place *place)
{
    assert(place->ask == NULL && !place->is_over);
    HASH_DELETE(by_uuid, place->line->self->places, place);
    place->is_over = true;
    free_when_unused(place);
}

/* Another than us has deleted its node: a claim that held it has lost it, one that waits begins anew. */
static void lose_place(struct zoo_place *place)
{
    if (place->ask != NULL)
        answer_place(place, place->ask->kind == LOCK_TAKE ? LOCK_GONE : LOCK_NOT_HELD, NULL);
    else
        tell_news(place, place->stage == PLACE_HELD ? NEWS_DROPPED : NEWS_TOLD,
                  "zookeeper: its node is gone");
    end_place(place);
}

/* ---- leaving ---- */

static void leave_place(struct zoo_place *place, enum lock_reply_kind left)
{
    place->stage = PLACE_LEFT;
    place->left = left;
    place->since_us = clock_now_us();
    if (place->ask != NULL) {
        answer_place(place, left, NULL);
        end_place(place);
    }
}

static void on_deleted(void *context, const struct keeper_result *result)
{
    struct zoo_place *place = context;
    place->under_way--;
    if (place->is_over)
        free_when_unused(place);
    else if (result->outcome == KEEPER_DONE)
        leave_place(place, LOCK_DONE);
    else if (result->outcome == KEEPER_NO_NODE)
        leave_place(place, place->was_held ? LOCK_NOT_HELD : LOCK_DONE);
    else if (result->outcome == KEEPER_DENIED)
        answer_place(place, LOCK_UNANSWERED, result->why);
}

/* Until it is answered, or the session is over. */
static void delete_place(struct zoo_place *place)
{
    char path[NODE_PATH_SIZE];
    struct zookeeper *self = place->line->self;
    place->stage = PLACE_LEAVING;
    if (!self->is_up || place->under_way > 0)
        return;
    node_path(place->line, &place->node, path);
    place->under_way += keeper_delete(self->session, path, on_deleted, place);
}

/* ---- granting ---- */

/* Less 1 %, for clocks that do not run alike, and 2 ms. */
static uint32_t valid_ms(const struct zoo_place *place)
{
    uint32_t session_ms = keeper_timeout_ms(place->line->self->session) / 3 * 2;
    uint32_t lease_ms = place->lease_ms - place->lease_ms / 100 - 2;
    return lease_ms < session_ms ? lease_ms : session_ms;
}

static void answer_proved(struct zoo_place *place)
{
    struct lock_reply reply = {.kind = LOCK_DONE, .valid_ms = valid_ms(place)};
    if (place->ask->kind == LOCK_TAKE) {
        reply.kind = LOCK_GRANTED;
        reply.fence[0] = place->czxid;
        place->stage = PLACE_HELD;
        place->was_held = true;
    }
    answer_ask(place->line->self, place->ask, &reply);
}

static bool is_proved(const struct zoo_place *place)
{
    return place->ask != NULL && place->confirmed_us >= place->ask->at_us;
}

static void prove_place(struct zoo_place *place);

static void on_proved(void *context, const struct keeper_result *result)
{
    struct zoo_place *place = context;
    place->under_way--;
    if (place->is_over) {
        free_when_unused(place);
        return;
    }
    if (result->outcome == KEEPER_DONE)
        place->confirmed_us = result->sent_us;
    if (place->stage == PLACE_LEAVING)
        delete_place(place);
    else if (result->outcome == KEEPER_NO_NODE)
        lose_place(place);
    else if (result->outcome != KEEPER_DONE)
        answer_place(place, LOCK_UNANSWERED, result->why);
    else if (is_proved(place))
        answer_proved(place);
    else if (place->ask != NULL)
        prove_place(place);
}

/* For the question that is pending. One at a time: a question that comes meanwhile has another. */
static void prove_place(struct zoo_place *place)
{
    char path[NODE_PATH_SIZE];
    struct zookeeper *self = place->line->self;
    if (place->under_way > 0)
        return;
    node_path(place->line, &place->node, path);
    if (self->is_up && keeper_prove(self->session, path, on_proved, place))
        place->under_way++;
    else
        answer_place(place, LOCK_UNSENT, self->why);
}

/* It is its turn: for the question that is pending, or the core is told to ask. */
static void serve_place(struct zoo_place *place)
{
    bool is_new = place->stage == PLACE_WAITING;
    if (is_new)
        place->stage = PLACE_SERVED;
    if (is_proved(place))
        answer_proved(place);
    else if (place->ask != NULL)
        prove_place(place);
    else if (is_new)
        tell_news(place, NEWS_TOLD, NULL);
}

/* ---- creating ---- */

static void create_place(struct zoo_place *place);

static void on_parents_made(void *context, const struct keeper_result *result)
{
    struct zoo_line *line = context;
    line->under_way--;
    line->parents = result->outcome;
    close_line_when_unused(line);
}

/* In the connection's order both are there before what is sent after them. */
static bool make_parents(struct zoo_line *line)
{
    char path[LINE_PATH_SIZE];
    struct zookeeper *self = line->self;
    parent_path(self, path);
    if (!keeper_create_parent(self->session, path, on_parents_made, line))
        return false;
    line->under_way++;
    line_path(self, line->encoded, path);
    if (!keeper_create_parent(self->session, path, on_parents_made, line))
        return false;
    line->under_way++;
    return true;
}

static void refuse_place(struct zoo_place *place, enum lock_reply_kind kind, const char *why)
{
    if (place->ask != NULL)
        answer_place(place, place->is_leaving ? LOCK_DONE : kind, why);
    else if (!place->is_leaving)
        tell_news(place, NEWS_TOLD, NULL);
    end_place(place);
}

/* There is no node of it. */
static void create_again(struct zoo_place *place)
{
    place->is_unsure = false;
    if (place->is_leaving)
        refuse_place(place, LOCK_DONE, NULL);
    else
        create_place(place);
}

static void create_with_parents(struct zoo_place *place)
{
    if (++place->tries >= CREATE_TRIES)
        refuse_place(place, LOCK_IMPOSSIBLE,
                     place->line->parents == KEEPER_NO_NODE
                         ? "zookeeper: the chroot of its url does not exist"
                         : "zookeeper: the parents of its node do not last");
    else if (place->line->self->is_up && make_parents(place->line))
        create_again(place);
}

static void place_made(struct zoo_place *place, const struct keeper_result *result)
{
    place->czxid = result->czxid;
    place->is_unsure = false;
    place->stage = PLACE_WAITING;
    if (place->is_leaving)
        delete_place(place);
}

static void on_created_place(void *context, const struct keeper_result *result)
{
    struct zoo_place *place = context;
    place->under_way--;
    if (place->is_over) {
        free_when_unused(place);
    } else if (result->outcome == KEEPER_DONE) {
        place->node.number = result->node.number;
        place->confirmed_us = result->sent_us;
        place_made(place, result);
    } else if (result->outcome == KEEPER_NO_NODE) {
        create_with_parents(place);
    } else if (result->outcome == KEEPER_DENIED) {
        refuse_place(place, LOCK_IMPOSSIBLE, result->why);
    } else {
        place->is_unsure = true;
        place->since_us = clock_now_us();
        list_line(place->line);
    }
}

/* The listing behind it shows where it stands. */
static void create_place(struct zoo_place *place)
{
    char path[NODE_PATH_SIZE], name[KEEPER_NODE_SIZE];
    struct zookeeper *self = place->line->self;
    const char *people = place->token + LOCK_TOKEN_HEAD_BYTES;
    line_path(self, place->line->encoded, path);
    keeper_node_prefix(&place->node, name);
    strcat(path, "/");
    strcat(path, name);
    if (!self->is_up || !keeper_create(self->session, path, people, on_created_place, place))
        return; /* the tick does it again */
    place->under_way++;
    list_line(place->line);
}

/* ---- a reply that was lost ---- */

static void on_found(void *context, const struct keeper_result *result)
{
    struct zoo_place *place = context;
    place->under_way--;
    if (place->is_over) {
        free_when_unused(place);
    } else if (result->outcome == KEEPER_DONE && result->owner == keeper_id(place->line->self->session)) {
        place_made(place, result);
        list_line(place->line);
    } else if (result->outcome == KEEPER_DONE) { /* of a past session, which takes it away */
        create_again(place);
    } else {
        list_line(place->line);
    }
}

/* The youngest of its name is its own, if any is. */
static void look_for_place(struct zoo_place *place, const struct keeper_result *result)
{
    char path[NODE_PATH_SIZE];
    size_t at = result->count;
    while (at > 0 && memcmp(result->nodes[at - 1].uuid, place->uuid, KEEPER_UUID_BYTES) != 0)
        at--;
    if (at == 0) {
        create_again(place);
        return;
    }
    place->node.number = result->nodes[at - 1].number;
    node_path(place->line, &place->node, path);
    place->under_way += keeper_look_at(place->line->self->session, path, false, on_found, place);
}

/* ---- whose turn it is ---- */

static void on_watched(void *context, const struct keeper_result *result)
{
    struct zoo_line *line = context;
    line->under_way--;
    line->is_watched = result->outcome == KEEPER_DONE;
    if (result->outcome == KEEPER_NO_NODE && line->places != NULL)
        list_line(line);
    close_line_when_unused(line);
}

/* `at`: where the first of ours stands that has to wait. */
static void watch_for(struct zoo_line *line, const struct keeper_node *nodes, size_t at)
{
    char path[NODE_PATH_SIZE];
    struct zookeeper *self = line->self;
    size_t blocker = keeper_line_blocker(nodes, at);
    bool by_children = blocker == at;
    if (by_children) {
        line->is_watched = line->by_children; /* by this listing */
        line->again = line->again || !line->by_children;
    } else {
        node_path(line, &nodes[blocker], path);
        line->under_way += keeper_look_at(self->session, path, true, on_watched, line);
    }
    line->by_children = by_children;
}

/* One that wants no place in line leaves as it is refused. */
static void refuse_turn(struct zoo_place *place)
{
    struct zoo_ask *ask = place->ask;
    if (ask == NULL)
        return;
    bool leaves = !ask->wants_place;
    answer_ask(place->line->self, ask, &(struct lock_reply){.kind = LOCK_REFUSED, .before = place->before});
    if (leaves)
        delete_place(place);
}

/* A listing that was sent before the node was made does not show it. */
static bool is_shown(const struct zoo_place *place, const struct keeper_result *listing)
{
    return place->stage == PLACE_SERVED || place->stage == PLACE_HELD ||
           (place->stage == PLACE_WAITING && listing->sent_us >= place->confirmed_us);
}

static void judge_place(struct zoo_place *place, const struct keeper_result *listing, size_t served)
{
    if (place->is_unsure && place->under_way == 0 && place->line->is_fresh &&
        listing->sent_us >= place->since_us)
        look_for_place(place, listing);
    if (!is_shown(place, listing))
        return;
    size_t at = keeper_line_find(listing->nodes, listing->count, &place->node);
    place->before = (uint32_t)at;
    if (at == listing->count)
        lose_place(place);
    else if (at < served)
        serve_place(place);
    else
        refuse_turn(place);
}

/* Where the first of ours stands that has to wait; `count` if none has to. */
static size_t first_waiting(const struct zoo_line *line, const struct keeper_result *listing)
{
    const struct zoo_place *place;
    size_t first = listing->count;
    DL_FOREACH (line->places, place) {
        if (!place->is_over && place->stage == PLACE_WAITING && is_shown(place, listing) &&
            place->before < first)
            first = place->before;
    }
    return first;
}

static void judge_line(struct zoo_line *line, const struct keeper_result *listing)
{
    struct zoo_place *place, *next;
    size_t served = keeper_line_served(listing->nodes, listing->count);
    line->listed_us = listing->sent_us;
    DL_FOREACH_SAFE (line->places, place, next) {
        if (!place->is_over)
            judge_place(place, listing, served);
    }
    size_t first = first_waiting(line, listing);
    if (first < listing->count)
        watch_for(line, listing->nodes, first);
}

/* The chroot or the right to read may be missing: nothing of the line can be served. */
static void refuse_line(struct zoo_line *line, const char *why)
{
    struct zoo_place *place;
    DL_FOREACH (line->places, place) {
        bool is_asked = place->ask != NULL && place->ask->kind == LOCK_TAKE;
        if (is_asked)
            answer_place(place, LOCK_IMPOSSIBLE, why);
        if (is_asked && place->stage == PLACE_WAITING)
            delete_place(place);
    }
}

static void on_listed(void *context, const struct keeper_result *result)
{
    struct zoo_line *line = context;
    if (result->outcome == KEEPER_DONE || result->outcome == KEEPER_NO_NODE)
        judge_line(line, result);
    else if (result->outcome == KEEPER_DENIED)
        refuse_line(line, result->why);
    line->is_listing = false;
    if (line->again)
        list_line(line);
    close_line_when_unused(line);
}

static void on_changed(void *context, const char *path)
{
    struct zookeeper *self = context;
    struct zoo_line *line, *next;
    char prefix[LINE_PATH_SIZE];
    line_path(self, "", prefix);
    size_t bytes = strlen(prefix);
    if (path == NULL) {
        HASH_ITER (by_name, self->lines, line, next)
            list_line(line);
        return;
    }
    line =
        strncmp(path, prefix, bytes) == 0 ? find_line(self, path + bytes, strcspn(path + bytes, "/")) : NULL;
    if (line == NULL)
        return;
    line->is_watched = false;
    list_line(line);
}

/* ---- what is to be done again ---- */

static void resume_place(struct zoo_place *place, uint64_t now_us)
{
    if (place->under_way > 0 || place->is_over)
        return;
    if (place->stage == PLACE_LEAVING)
        delete_place(place);
    else if (place->stage == PLACE_MAKING && !place->is_unsure)
        create_again(place);
    else if (place->stage == PLACE_LEFT && now_us - place->since_us > (uint64_t)LEFT_KEPT_MS * 1000)
        end_place(place);
}

static void resume_line(struct zoo_line *line, bool list)
{
    struct zoo_place *place, *next;
    uint64_t now_us = clock_now_us();
    line->under_way++; /* so that it outlives its places */
    DL_FOREACH_SAFE (line->places, place, next)
        resume_place(place, now_us);
    if (line->places != NULL && (list || now_us - line->listed_us > (uint64_t)LIST_EVERY_MS * 1000))
        list_line(line);
    line->under_way--;
    close_line_when_unused(line);
}

static void resume_all(struct zookeeper *self, bool list)
{
    struct zoo_line *line, *next;
    HASH_ITER (by_name, self->lines, line, next)
        resume_line(line, list);
}

/* What a listing cannot wait for: memory that was not there, a chance that was missed. */
static void on_tick(void *context)
{
    struct zookeeper *self = context;
    host_timer_set(self->config.host, &self->tick, clock_now_us() + (uint64_t)TICK_MS * 1000);
    if (self->is_up)
        resume_all(self, false);
}

/* ---- looking ---- */

static void on_looked(void *context, const struct guard_lock_view *view, const char *why)
{
    struct zoo_ask *ask = context;
    struct zookeeper *self = ask->self;
    ask->look = NULL;
    if (view == NULL) {
        answer_ask(self, ask, &(struct lock_reply){.kind = LOCK_UNANSWERED, .why = why});
        return;
    }
    DL_DELETE(self->asks, ask);
    ring_for_limit(self);
    ask->looked(ask->context, view, NULL);
    free(ask);
}

/* Until it is up they wait. */
static void start_looks(struct zookeeper *self)
{
    struct zoo_ask *ask;
    DL_FOREACH (self->asks, ask) {
        if (self->is_up && ask->looked != NULL && ask->look == NULL)
            ask->look = keeper_look_start(self->session, ask->path, on_looked, ask);
    }
}

/* ---- the session ---- */

static void forget_place(struct zoo_place *place, const char *why)
{
    if (place->is_over)
        return;
    if (place->stage == PLACE_HELD)
        tell_news(place, NEWS_DROPPED, why);
    if (place->ask != NULL && place->ask->kind == LOCK_TAKE)
        answer_place(place, LOCK_UNSENT, why);
    else
        answer_place(place, place->was_held ? LOCK_NOT_HELD : LOCK_DONE, why);
    end_place(place);
}

static void forget_line(struct zoo_line *line, const char *why)
{
    struct zoo_place *place, *next;
    line->under_way++; /* so that it outlives its places */
    DL_FOREACH_SAFE (line->places, place, next)
        forget_place(place, why);
    line->under_way--;
    close_line_when_unused(line);
}

static void forget_lines(struct zookeeper *self, const char *why)
{
    struct zoo_line *line, *next;
    HASH_ITER (by_name, self->lines, line, next)
        forget_line(line, why);
}

static void on_session_closed(void *context)
{
    struct zookeeper *self = context;
    self->closing_sessions--;
    if (self->is_closing)
        leave_soon(self);
}

/* All that is under way in it is answered. */
static void close_session(struct zookeeper *self)
{
    struct keeper_session *session = self->session;
    self->session = NULL;
    if (session == NULL)
        return;
    self->closing_sessions++;
    keeper_close(session, self->config.locks->connect_limit_ms, on_session_closed, self);
}

static void open_session_later(struct zookeeper *self)
{
    uint32_t in_ms = chance_backoff(&self->chance, REOPEN_FIRST_MS, REOPEN_MOST_MS, self->failures++);
    host_timer_set(self->config.host, &self->reopen, clock_now_us() + (uint64_t)in_ms * 1000);
}

static void on_state(void *context, enum keeper_state state, const char *why)
{
    struct zookeeper *self = context;
    tell_link(self, state == KEEPER_UP, why);
    if (state == KEEPER_UP) {
        self->failures = 0;
        resume_all(self, true);
        start_looks(self);
    } else if (state == KEEPER_OVER) {
        close_session(self);
        forget_lines(self, why);
        open_session_later(self);
    }
}

static void open_session(void *context)
{
    struct zookeeper *self = context;
    const struct keeper_config config = {
        .host = self->config.host,
        .servers = self->config.locks->urls[0],
        .session_ms = self->config.locks->max_lease_ms,
        .hooks = {.context = self, .state = on_state, .changed = on_changed},
    };
    self->session = keeper_open(&config);
    if (self->session != NULL)
        return;
    tell_link(self, false, "zookeeper: no memory for a session");
    open_session_later(self);
}

/* ---- what the core wants ---- */

static struct zoo_ask *new_ask(struct zookeeper *self, uint32_t limit_ms)
{
    struct zoo_ask *ask = calloc(1, sizeof *ask);
    if (ask == NULL)
        return NULL;
    ask->self = self;
    ask->at_us = clock_now_us();
    ask->until_us = ask->at_us + (uint64_t)limit_ms * 1000;
    keep_ask(self, ask);
    return ask;
}

static void answer_plainly(struct zoo_ask *ask, enum lock_reply_kind kind, const char *why)
{
    answer_ask(ask->self, ask, &(struct lock_reply){.kind = kind, .why = why});
}

/* A question that is still open will not be answered better than by the next one. */
static void wait_for_place(struct zoo_ask *ask, struct zoo_place *place)
{
    answer_place(place, LOCK_UNANSWERED, no_answer);
    ask->place = place;
    place->ask = ask;
}

/* Nothing has changed since the line was last seen, as far as a watch can tell. */
static bool is_quiet(const struct zoo_line *line, uint64_t now_us)
{
    return line->is_watched && !line->is_listing && now_us - line->listed_us < (uint64_t)LIST_EVERY_MS * 1000;
}

static void take_place(struct zoo_ask *ask, struct zoo_place *place)
{
    if (place->stage == PLACE_LEAVING || place->stage == PLACE_LEFT || place->is_leaving) {
        answer_plainly(ask, LOCK_GONE, NULL);
        return;
    }
    wait_for_place(ask, place);
    if (place->stage == PLACE_SERVED || place->stage == PLACE_HELD)
        prove_place(place);
    else if (place->stage == PLACE_WAITING && is_quiet(place->line, ask->at_us))
        refuse_turn(place);
    else if (place->stage == PLACE_WAITING)
        list_line(place->line);
}

/* False: no memory. */
static bool take_turn(struct zoo_ask *ask, const struct lock_action *action)
{
    struct zookeeper *self = ask->self;
    struct zoo_place *place = self->is_up ? find_place(self, action->token) : NULL;
    if (!self->is_up) {
        answer_plainly(ask, LOCK_UNSENT, self->why);
    } else if (action->lease_ms > keeper_timeout_ms(self->session)) {
        answer_plainly(ask, LOCK_IMPOSSIBLE,
                       "zookeeper: maxSessionTimeout of its servers is too short for this lease_ms");
    } else if (place != NULL) {
        take_place(ask, place);
    } else {
        place = open_place(self, action);
        if (place == NULL)
            return false;
        wait_for_place(ask, place);
        create_place(place);
    }
    return true;
}

static void renew_place(struct zoo_ask *ask, const struct lock_action *action)
{
    struct zookeeper *self = ask->self;
    struct zoo_place *place = find_place(self, action->token);
    if (place == NULL || place->stage != PLACE_HELD) {
        answer_plainly(ask, LOCK_NOT_HELD, NULL);
    } else if (!self->is_up) {
        answer_plainly(ask, LOCK_UNSENT, self->why);
    } else {
        wait_for_place(ask, place);
        prove_place(place);
    }
}

static void give_place(struct zoo_ask *ask, const struct lock_action *action)
{
    struct zoo_place *place = find_place(ask->self, action->token);
    if (place == NULL) {
        answer_plainly(ask, LOCK_NOT_HELD, NULL);
        return;
    }
    wait_for_place(ask, place);
    if (place->stage == PLACE_LEFT) {
        leave_place(place, place->left);
    } else if (place->stage != PLACE_MAKING) {
        delete_place(place);
    } else {
        place->is_leaving = true;
        if (place->under_way == 0 && !place->is_unsure)
            create_again(place);
    }
}

static bool perform_in_zookeeper(struct lock_provider *provider, const struct lock_action *action)
{
    struct zookeeper *self = (struct zookeeper *)provider;
    struct zoo_ask *ask = new_ask(self, self->config.locks->limit_ms);
    if (ask == NULL)
        return false;
    ask->op = action->op;
    ask->kind = action->kind;
    ask->wants_place = action->place_ms > 0;
    assert(action->count == 1 && action->kind != LOCK_STAY);
    if (action->kind == LOCK_RENEW)
        renew_place(ask, action);
    else if (action->kind == LOCK_GIVE)
        give_place(ask, action);
    else if (!take_turn(ask, action)) {
        DL_DELETE(self->asks, ask);
        ring_for_limit(self);
        free(ask);
        return false;
    }
    return true;
}

static bool look_in_zookeeper(struct lock_provider *provider, const struct lock_name *name,
                              lock_looked *looked, void *context)
{
    struct zookeeper *self = (struct zookeeper *)provider;
    const struct guard_locks_config *locks = self->config.locks;
    struct zoo_ask *ask = new_ask(self, locks->connect_limit_ms + locks->limit_ms);
    char encoded[KEY_ENCODED_MAX + 1];
    if (ask == NULL)
        return false;
    ask->looked = looked;
    ask->context = context;
    snprintf(encoded, sizeof encoded, "%.*s", (int)name->bytes, name->encoded);
    line_path(self, encoded, ask->path);
    start_looks(self);
    return true;
}

/* ---- beginning and end ---- */

static void free_asks(struct zoo_ask *asks)
{
    struct zoo_ask *ask, *next;
    DL_FOREACH_SAFE (asks, ask, next)
        free(ask);
}

static void free_news(struct zookeeper *self)
{
    while (self->news != NULL) {
        struct zoo_place *place = self->news;
        self->news = place->next_news;
        place->news = NO_NEWS;
        free_when_unused(place);
    }
}

/* No command is under way. */
static void end_zookeeper(struct zookeeper *self)
{
    void (*closed)(void *context) = self->closed;
    void *context = self->closed_context;
    free_news(self);
    assert(self->lines == NULL && self->places == NULL);
    free_asks(self->asks);
    free_asks(self->answers);
    host_soon_stop(&self->soon);
    host_timer_stop(self->config.host, &self->limit);
    free(self);
    closed(context);
}

static void close_zookeeper(struct lock_provider *provider, void (*closed)(void *context), void *context)
{
    struct zookeeper *self = (struct zookeeper *)provider;
    struct zoo_ask *ask;
    self->is_closing = true;
    self->is_up = false;
    self->closed = closed;
    self->closed_context = context;
    host_timer_stop(self->config.host, &self->tick);
    host_timer_stop(self->config.host, &self->reopen);
    DL_FOREACH (self->asks, ask) {
        if (ask->look != NULL)
            keeper_look_abandon(ask->look);
    }
    close_session(self);
    forget_lines(self, "zookeeper: closed");
    leave_soon(self);
}

/* What is wrong with "host:port,host:port[/chroot]"; NULL: nothing. */
static const char *wrong_servers(const char *url)
{
    size_t bytes = strcspn(url, "/");
    const char *chroot = url + bytes;
    for (const char *server = url; server < url + bytes || server == url;
         server += strcspn(server, ",/") + 1) {
        size_t length = strcspn(server, ",/");
        const char *colon = memrchr(server, ':', length);
        char *end = NULL;
        unsigned long port = colon != NULL ? strtoul(colon + 1, &end, 10) : 0;
        if (colon == NULL || colon == server || colon[1] < '0' || colon[1] > '9' || end != server + length ||
            port < 1 || port > UINT16_MAX)
            return "each server must be host:port";
    }
    if (bytes > 0 && url[bytes - 1] == ',')
        return "each server must be host:port";
    if (*chroot != '\0' &&
        (chroot[1] == '\0' || chroot[strlen(chroot) - 1] == '/' || strstr(chroot, "//") != NULL))
        return "the chroot must be a path like /locks";
    return NULL;
}

static void begin_zookeeper(struct zookeeper *self, const struct lock_provider_config *config)
{
    self->provider = (struct lock_provider){
        .kinds = 1u << GUARD_LOCK_FAIR | 1u << GUARD_LOCK_MUTEX | 1u << GUARD_LOCK_WRITE |
                 1u << GUARD_LOCK_READ | 1u << GUARD_LOCK_PERMITS,
        .perform = perform_in_zookeeper,
        .look = look_in_zookeeper,
        .close = close_zookeeper,
    };
    self->config = *config;
    self->why = "zookeeper: not connected yet";
    self->news_end = &self->news;
    self->limit = (struct host_timer){.run = on_ask_limit, .context = self};
    self->tick = (struct host_timer){.run = on_tick, .context = self};
    self->reopen = (struct host_timer){.run = open_session, .context = self};
    self->soon = (struct host_soon){.run = empty_outbox, .context = self};
}

struct lock_provider *lock_zookeeper_open(const struct lock_provider_config *config,
                                          struct guard_error *error)
{
    const char *wrong = wrong_servers(config->locks->urls[0]);
    struct zookeeper *self = wrong == NULL ? calloc(1, sizeof *self) : NULL;
    if (wrong != NULL)
        check_failed(error, GUARD_INVALID, "zookeeper: the url \"%s\": %s", config->locks->urls[0], wrong);
    else if (self == NULL)
        check_failed(error, GUARD_NO_MEMORY, "zookeeper: no memory");
    if (self == NULL)
        return NULL;
    begin_zookeeper(self, config);
    if (!clock_random(&self->chance.state, sizeof self->chance.state))
        self->chance.state = clock_now_us();
    open_session(self);
    on_tick(self);
    return &self->provider;
}

#endif

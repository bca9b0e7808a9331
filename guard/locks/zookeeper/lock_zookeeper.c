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
 * Creating     The uuid in its name makes a lost reply harmless: the node is looked for in a listing as of now, and
 *              only what is not there is created again. So a token never has two nodes of one session.
 * Turn         From a listing, for all places of this process on the name (a line) at once. The line is listed again
 *              when the node that the first of its waiting places has to wait for is gone (or, if any node may make
 *              room, when there is another set of nodes), after a reconnection, and every 5 s.
 * Fence        czxid, the transaction that made the node: nodes of a name have rising ones, in their order.
 * Validity     A lock is granted or renewed by a transaction that is as good as written: the creation itself, or a
 *              proof (keeper_session.h). It is valid from its sending for two thirds of the session's timeout, which
 *              is when the library gives a silent server up, and never for longer than the lease.
 * The session  is one for all places. Once it is over all their nodes are gone, or about to go: what was held is
 *              dropped, everything else is forgotten, and the core asks for it again when the next session is up.
 *
 * Lifetime     A place or a line that nothing under way names is freed by the tick, so never while one is at work;
 *              closing a session answers all that was under way.
 * Outbox       Nothing is told from inside perform(): answers and news leave together, at the end of the loop's turn.
 */
#include "../../base/check.h"
#include "../../base/clock.h"
#include "lock_zookeeper_state.h"
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum { TICK_MS = 250, REOPEN_FIRST_MS = 50, REOPEN_MOST_MS = 5000 };

/* ---- the outbox ---- */

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
void zoo_answer(struct zoo_ask *ask, const struct lock_reply *reply)
{
    struct zookeeper *self = ask->self;
    if (ask->place != NULL)
        ask->place->ask = NULL;
    ask->place = NULL;
    ask->reply = *reply;
    DL_DELETE(self->asks, ask);
    DL_APPEND(self->answers, ask);
    ring_for_limit(self);
    leave_soon(self);
}

void zoo_tell(struct zoo_place *place, enum zoo_news news, const char *why)
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
    enum zoo_news news = place->news;
    char uuid[KEEPER_UUID_BYTES + 1] = "";
    memcpy(uuid, place->uuid, KEEPER_UUID_BYTES);
    self->news = place->next_news;
    if (self->news == NULL)
        self->news_end = &self->news;
    place->news = NO_NEWS;
    if (news == NEWS_TOLD)
        hooks->told(hooks->context, uuid, place->line->encoded, place->line->bytes);
    else
        hooks->dropped(hooks->context, place->token, place->why);
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

/* All wait equally long, except looks, of which there are a few at a time. */
static void keep_ask(struct zookeeper *self, struct zoo_ask *ask)
{
    struct zoo_ask *after = self->asks != NULL ? self->asks->prev : NULL;
    while (after != NULL && after->until_us > ask->until_us)
        after = after != self->asks ? after->prev : NULL;
    if (after == NULL)
        DL_PREPEND(self->asks, ask);
    else
        DL_APPEND_ELEM(self->asks, after, ask);
    ring_for_limit(self);
}

static void on_ask_limit(void *context)
{
    struct zookeeper *self = context;
    uint64_t now_us = clock_now_us();
    while (self->asks != NULL && self->asks->until_us <= now_us) {
        struct zoo_ask *ask = self->asks;
        const char *why = self->is_up ? ZOO_NO_ANSWER : self->why;
        if (ask->look != NULL)
            keeper_look_abandon(ask->look);
        zoo_answer(ask, &(struct lock_reply){.kind = LOCK_UNANSWERED, .why = why});
    }
    ring_for_limit(self);
}

/* ---- looking ---- */

static void on_looked(void *context, const struct guard_lock_view *view, const char *why)
{
    struct zoo_ask *ask = context;
    struct zookeeper *self = ask->self;
    ask->look = NULL;
    if (view == NULL) {
        zoo_answer(ask, &(struct lock_reply){.kind = LOCK_UNANSWERED, .why = why});
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

/* What a listing cannot wait for: memory that was not there, a chance that was missed. Nothing of a place or a line
 * is at work here, so what has become unused is freed. */
static void on_tick(void *context)
{
    struct zookeeper *self = context;
    host_timer_set(self->config.host, &self->tick, clock_now_us() + (uint64_t)TICK_MS * 1000);
    zoo_free_unused(self);
    if (!self->is_up)
        return;
    zoo_resume(self, false);
    start_looks(self);
}

/* ---- the session ---- */

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
        zoo_resume(self, true);
        start_looks(self);
    } else if (state == KEEPER_OVER) {
        close_session(self);
        zoo_forget(self, why);
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
        .hooks = {.context = self, .state = on_state, .changed = zoo_line_changed},
    };
    self->session = keeper_open(&config);
    if (self->session != NULL)
        return;
    tell_link(self, false, "zookeeper: no memory for a session");
    open_session_later(self);
}

/* ---- what the core wants ---- */

static struct zoo_ask *new_ask(struct zookeeper *self, uint32_t limit_ms, size_t path_bytes)
{
    struct zoo_ask *ask = calloc(1, sizeof *ask + path_bytes);
    if (ask == NULL)
        return NULL;
    ask->self = self;
    ask->at_us = clock_now_us();
    ask->until_us = ask->at_us + (uint64_t)limit_ms * 1000;
    keep_ask(self, ask);
    return ask;
}

void zoo_answer_plainly(struct zoo_ask *ask, enum lock_reply_kind kind, const char *why)
{
    zoo_answer(ask, &(struct lock_reply){.kind = kind, .why = why});
}

static bool perform_in_zookeeper(struct lock_provider *provider, const struct lock_action *action)
{
    struct zookeeper *self = (struct zookeeper *)provider;
    struct zoo_ask *ask = new_ask(self, self->config.locks->limit_ms, 0);
    if (ask == NULL)
        return false;
    ask->op = action->op;
    ask->kind = action->kind;
    ask->wants_place = action->place_ms > 0;
    assert(action->count == 1 && action->kind != LOCK_STAY);
    if (action->kind == LOCK_RENEW)
        zoo_renew(ask, action);
    else if (action->kind == LOCK_GIVE)
        zoo_give(ask, action);
    else if (!zoo_take(ask, action)) {
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
    struct zoo_ask *ask = new_ask(self, locks->connect_limit_ms + locks->limit_ms, ZOO_LINE_PATH_SIZE);
    char encoded[KEY_ENCODED_MAX + 1];
    if (ask == NULL)
        return false;
    ask->looked = looked;
    ask->context = context;
    snprintf(encoded, sizeof encoded, "%.*s", (int)name->bytes, name->encoded);
    zoo_line_path(self, encoded, ask->path);
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

/* No command is under way. */
static void end_zookeeper(struct zookeeper *self)
{
    for (struct zoo_place *place = self->news; place != NULL; place = place->next_news)
        place->news = NO_NEWS;
    zoo_free_unused(self);
    assert(self->lines == NULL && self->places == NULL);
    free_asks(self->asks);
    free_asks(self->answers);
    host_soon_stop(&self->soon);
    host_timer_stop(self->config.host, &self->limit);
    host_free_and_tell(self, self->told);
}

static void close_zookeeper(struct lock_provider *provider, void (*closed)(void *context), void *context)
{
    struct zookeeper *self = (struct zookeeper *)provider;
    struct zoo_ask *ask;
    self->is_closing = true;
    self->is_up = false;
    self->told = (struct host_told){closed, context};
    host_timer_stop(self->config.host, &self->tick);
    host_timer_stop(self->config.host, &self->reopen);
    DL_FOREACH (self->asks, ask) {
        if (ask->look != NULL)
            keeper_look_abandon(ask->look);
        ask->look = NULL; /* it is over with its session */
    }
    close_session(self);
    zoo_forget(self, "zookeeper: closed");
    leave_soon(self);
}

#define EACH_SERVER "each server must be host:port, without a user or a password"

/* What is wrong with "host:port,host:port[/chroot]"; NULL: nothing. The URL, in which there may be a password, is not
 * repeated. */
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
        if (colon == NULL || colon == server || memchr(server, '@', length) != NULL || colon[1] < '0' ||
            colon[1] > '9' || end != server + length || port < 1 || port > UINT16_MAX)
            return EACH_SERVER;
    }
    if (bytes > 0 && url[bytes - 1] == ',')
        return EACH_SERVER;
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
        check_failed(error, GUARD_INVALID, "guard_locks_config.urls[0] for ZooKeeper: %s", wrong);
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

/* SPDX-License-Identifier: MIT */
/*
 * lock_postgres.c - locks by PostgreSQL: a session of its own for each token that waits or holds.
 *
 *     perform() --> token --> queue --> a session, of SESSIONS_MAX ----> lock_session.h: the server queues and grants
 *        ^            |                    |  ^                              |
 *        |            +-- errands <--------+  +-- given back, confirmed -----+
 *     replied(), told(), dropped(), link() <--+------ ended ------------------+
 *
 * A session takes all names of its token, so one that has some never needs another for the rest. Tokens that find no
 * session stand in line here, in their order. A take that is refused leaves its token at the server; once it is
 * granted there the core is told, asks again, and that take fetches the numbers. A session whose locks were given
 * back serves the next token; the server ends one that has nothing to do for a lease.
 *
 * The link is up as long as there is a session: while it is down the core asks for nothing and renews nothing. It is
 * up, too, where a server answers that cannot be used, for that is to be told. When connecting fails one session
 * tries again, every FIRST_BACKOFF_MS to MOST_BACKOFF_MS, for all.
 *
 * What the core hears comes last in every function, when everything here is in order: it may act at once, and close.
 */
#include "../../base/chance.h"
#include "../../base/check.h"
#include "../../base/clock.h"
#include "../../base/table.h"
#include "lock_session.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum {
    SESSIONS_MAX = 8,
    SESSIONS_ALL = SESSIONS_MAX + 1, /* the last one only looks */
    FIRST_BACKOFF_MS = 50,
    MOST_BACKOFF_MS = 1000,
};

/* An action that is to be answered. */
struct pg_errand {
    uint64_t op;
    struct lock_reply reply; /* once it is among the answers */
    char why[LOCK_PG_WHY_SIZE];
    struct pg_errand *prev, *next;
};

struct pg_token {
    char text[LOCK_TOKEN_SIZE];
    struct lock_wanted wanted;
    struct pg_seat *seat;                  /* NULL: it is in the queue */
    uint64_t turn;                         /* there; one that leaves out of turn leaves a gap */
    bool is_held;                          /* the core knows that it has it */
    struct pg_errand *take, *renew, *give; /* owned; NULL: none is out */
    UT_hash_handle hh;
    bool unlisted;
    struct pg_token *prev, *next;        /* in the queue */
    uint8_t order[GUARD_LOCK_NAMES_MAX]; /* the place of each row among the action's names */
    struct lock_row rows[];
};

/* Room for a session. */
struct pg_seat {
    struct lock_postgres *provider;
    struct lock_session session;
    struct pg_token *token; /* NULL: none */
    uint32_t before;        /* of its token, when it was refused */
};

struct pg_look {
    struct lock_row row;
    lock_looked *looked;
    void *context;
    struct pg_look *prev, *next;
};

struct lock_postgres {
    struct lock_provider face; /* first */
    struct lock_provider_config config;
    struct pg_seat seats[SESSIONS_ALL];
    struct pg_token *tokens; /* owned, by their text */
    struct pg_token *queue;
    uint64_t turns;
    struct pg_look *looks; /* owned, in their order; the first may be under way */
    struct pg_errand *answers;
    struct host_soon answering;
    bool is_failing;              /* the last attempt to connect has failed */
    enum lock_reply_kind verdict; /* failing: what a take that finds no session is answered, and why */
    char why[LOCK_PG_WHY_SIZE];
    struct host_timer again; /* failing: the next attempt */
    uint32_t failures;
    struct chance chance;
    bool has_told, told_up; /* of the link */
    bool is_closing;
    struct host_soon closing;
    struct host_told told;
};

/* ---- answers: never from inside perform() ---- */

static void tell_pg_answers(void *context)
{
    struct lock_postgres *self = context;
    struct pg_errand *errand;
    while (!self->is_closing && (errand = self->answers) != NULL) {
        DL_DELETE(self->answers, errand);
        errand->reply.why = errand->why[0] != '\0' ? errand->why : NULL;
        self->config.hooks.replied(self->config.hooks.context, errand->op, &errand->reply);
        free(errand);
    }
}

/* Leaves NULL; accepts NULL in *errand. The reply's `why` is copied. */
static void answer_pg(struct lock_postgres *self, struct pg_errand **errand, const struct lock_reply *reply)
{
    struct pg_errand *told = *errand;
    *errand = NULL;
    if (told == NULL)
        return;
    told->reply = *reply;
    snprintf(told->why, sizeof told->why, "%s", reply->why != NULL ? reply->why : "");
    DL_APPEND(self->answers, told);
    host_soon(self->config.host, &self->answering);
}

static void answer_pg_with(struct lock_postgres *self, struct pg_errand **errand, enum lock_reply_kind kind,
                           const char *why)
{
    answer_pg(self, errand, &(struct lock_reply){.kind = kind, .why = why});
}

/* ---- tokens ---- */

static struct pg_token *find_pg_token(struct lock_postgres *self, const char *text)
{
    struct pg_token *token;
    HASH_FIND_STR(self->tokens, text, token);
    return token;
}

static void set_pg_rows(const struct lock_postgres *self, struct pg_token *token,
                        const struct lock_action *action)
{
    struct lock_row row;
    for (size_t i = 0; i < action->count; i++) {
        size_t at = i;
        lock_row_init(&row, self->config.locks->name_space, &action->names[i]);
        for (; at > 0 && strcmp(row.name, token->rows[at - 1].name) < 0; at--) {
            token->rows[at] = token->rows[at - 1];
            token->order[at] = token->order[at - 1];
        }
        token->rows[at] = row;
        token->order[at] = (uint8_t)i;
    }
    token->wanted.rows = token->rows;
    token->wanted.count = action->count;
}

/* At the end of the queue. NULL: no memory. */
static struct pg_token *new_pg_token(struct lock_postgres *self, const struct lock_action *action)
{
    struct pg_token *token = calloc(1, sizeof *token + action->count * sizeof *token->rows);
    if (token == NULL)
        return NULL;
    snprintf(token->text, sizeof token->text, "%s", action->token);
    set_pg_rows(self, token, action);
    snprintf(token->wanted.lease_ms, sizeof token->wanted.lease_ms, "%" PRIu32, action->lease_ms);
    token->wanted.who = token->text + LOCK_TOKEN_HEAD_BYTES + (token->text[LOCK_TOKEN_HEAD_BYTES] == ' ');
    token->wanted.is_shared = action->lock == GUARD_LOCK_READ;
    HASH_ADD_STR(self->tokens, text, token);
    if (token->unlisted) {
        free(token);
        return NULL;
    }
    token->turn = self->turns++;
    DL_APPEND(self->queue, token);
    return token;
}

static void leave_pg_queue(struct lock_postgres *self, struct pg_token *token)
{
    DL_DELETE(self->queue, token);
    token->prev = token->next = NULL;
}

/* Its session does not know it any more. */
static void forget_pg_token(struct lock_postgres *self, struct pg_token *token)
{
    if (token->seat != NULL)
        token->seat->token = NULL;
    else
        leave_pg_queue(self, token);
    HASH_DEL(self->tokens, token);
    free(token);
}

/* ---- seats ---- */

/* In the order in which they are of use: a session that is up, one that soon is, room for one. */
static struct pg_seat *free_pg_seat(struct lock_postgres *self)
{
    struct pg_seat *found = NULL;
    for (size_t i = 0; i < SESSIONS_MAX; i++) {
        struct pg_seat *seat = &self->seats[i];
        if (seat->token != NULL)
            continue;
        if (seat->session.state == LOCK_SESSION_IDLE)
            return seat;
        bool has_room = seat->session.state == LOCK_SESSION_CLOSED && !self->is_failing;
        if (lock_session_is_beginning(seat->session.state) || (has_room && found == NULL))
            found = seat;
    }
    return found;
}

static void serve_pg_queue(struct lock_postgres *self)
{
    struct pg_seat *seat;
    while (self->queue != NULL && (seat = free_pg_seat(self)) != NULL) {
        struct pg_token *token = self->queue;
        leave_pg_queue(self, token);
        token->seat = seat;
        seat->token = token;
        if (seat->session.state == LOCK_SESSION_IDLE)
            lock_session_try(&seat->session, &token->wanted);
        else if (seat->session.state == LOCK_SESSION_CLOSED)
            lock_session_open(&seat->session);
    }
}

/* By a session that has nothing to do, else by the one that is there for it. */
static void serve_pg_looks(struct lock_postgres *self)
{
    struct lock_session *idle = NULL, *own = &self->seats[SESSIONS_MAX].session;
    if (self->looks == NULL)
        return;
    for (size_t i = 0; i < SESSIONS_ALL; i++) {
        struct lock_session *session = &self->seats[i].session;
        if (session->state == LOCK_SESSION_LOOKING)
            return;
        if (session->state == LOCK_SESSION_IDLE)
            idle = session;
    }
    if (idle != NULL)
        lock_session_look(idle, &self->looks->row);
    else if (own->state == LOCK_SESSION_CLOSED)
        lock_session_open(own);
}

/* ---- the link ---- */

static bool has_pg_session(const struct lock_postgres *self)
{
    for (size_t i = 0; i < SESSIONS_ALL; i++) {
        const struct lock_session *session = &self->seats[i].session;
        if (session->state != LOCK_SESSION_CLOSED && !lock_session_is_beginning(session->state))
            return true;
    }
    return false;
}

static void tell_pg_link(struct lock_postgres *self, bool is_news)
{
    bool is_up = has_pg_session(self) || (self->is_failing && self->verdict == LOCK_IMPOSSIBLE);
    if (self->is_closing || (!is_up && !self->is_failing))
        return;
    if (self->has_told && self->told_up == is_up && (is_up || !is_news))
        return;
    self->has_told = true;
    self->told_up = is_up;
    self->config.hooks.link(self->config.hooks.context, is_up, is_up ? NULL : self->why);
}

/* True: the reason is another one than before. */
static bool note_pg_failure(struct lock_postgres *self, enum lock_reply_kind verdict, const char *why)
{
    bool is_news = strcmp(self->why, why) != 0;
    uint32_t in_ms = chance_backoff(&self->chance, FIRST_BACKOFF_MS, MOST_BACKOFF_MS, self->failures++);
    self->is_failing = true;
    self->verdict = verdict;
    snprintf(self->why, sizeof self->why, "%s", why);
    host_timer_set(self->config.host, &self->again, clock_now_us() + in_ms * UINT64_C(1000));
    if (is_news) /* SAY_REDIS is the subject of whatever holds the locks */
        say(self->config.say, SAY_REDIS, SAY_BAD, "locks: %s", why);
    return is_news;
}

static void note_pg_success(struct lock_postgres *self)
{
    if (self->is_failing)
        say(self->config.say, SAY_REDIS, SAY_GOOD, "locks: PostgreSQL is up");
    self->is_failing = false;
    self->failures = 0;
    self->why[0] = '\0';
    host_timer_stop(self->config.host, &self->again);
}

static void connect_to_pg_again(void *context)
{
    struct lock_postgres *self = context;
    for (size_t i = 0; i < SESSIONS_MAX; i++) {
        if (self->seats[i].session.state == LOCK_SESSION_CLOSED) {
            lock_session_open(&self->seats[i].session);
            return;
        }
    }
    host_timer_set(self->config.host, &self->again, clock_now_us() + MOST_BACKOFF_MS * UINT64_C(1000));
}

/* ---- what a session says ---- */

/* It has nothing to do. */
static void use_pg_seat(struct pg_seat *seat)
{
    struct lock_postgres *self = seat->provider;
    if (seat->token != NULL)
        lock_session_try(&seat->session, &seat->token->wanted);
    serve_pg_queue(self);
    serve_pg_looks(self);
    tell_pg_link(self, false);
}

static void refuse_pg_take(struct pg_seat *seat)
{
    answer_pg(seat->provider, &seat->token->take,
              &(struct lock_reply){.kind = LOCK_REFUSED, .before = seat->before});
}

static void hear_pg_refused(struct pg_seat *seat, uint32_t before)
{
    seat->before = before;
    refuse_pg_take(seat);
    if (seat->session.state == LOCK_SESSION_WAITING)
        return;
    forget_pg_token(seat->provider, seat->token);
    if (seat->session.state == LOCK_SESSION_IDLE)
        use_pg_seat(seat);
    else
        serve_pg_queue(seat->provider);
}

static void tell_pg_granted(struct pg_seat *seat)
{
    const struct lock_postgres *self = seat->provider;
    const char *encoded = strchr(seat->token->rows[0].name, ':') + 1;
    self->config.hooks.told(self->config.hooks.context, seat->token->text, encoded, strlen(encoded));
}

/* A number that comes too late for its take is of no use: the lease has gone on meanwhile. The next take fetches
 * another. */
static void hear_pg_number(struct pg_seat *seat, const uint64_t *fences)
{
    struct pg_token *token = seat->token;
    struct lock_reply reply = {.kind = LOCK_GRANTED};
    if (token->take == NULL) {
        tell_pg_granted(seat);
        return;
    }
    token->is_held = true;
    for (size_t i = 0; i < token->wanted.count; i++)
        reply.fence[token->order[i]] = fences[i];
    answer_pg(seat->provider, &token->take, &reply);
}

static void hear_pg_view(struct pg_seat *seat, const struct guard_lock_view *view)
{
    struct lock_postgres *self = seat->provider;
    struct pg_look *look = self->looks;
    DL_DELETE(self->looks, look);
    look->looked(look->context, view, NULL);
    free(look);
    if (!self->is_closing)
        use_pg_seat(seat);
}

/* ---- the end of a session ---- */

/* What the core hears of its token. */
struct pg_loss {
    bool dropped, told;
    char token[LOCK_TOKEN_SIZE], name[LOCK_ROW_NAME_SIZE];
};

/* What it held is dropped; what stood in line is to be asked for anew. */
static void lose_pg_token(struct pg_seat *seat, const struct lock_session_event *event, struct pg_loss *loss)
{
    struct lock_postgres *self = seat->provider;
    struct pg_token *token = seat->token;
    loss->dropped = token->is_held && token->give == NULL;
    loss->told = !token->is_held && token->take == NULL && token->give == NULL;
    snprintf(loss->token, sizeof loss->token, "%s", token->text);
    snprintf(loss->name, sizeof loss->name, "%s", token->rows[0].name);
    answer_pg_with(self, &token->take, event->verdict, event->why);
    answer_pg_with(self, &token->renew, LOCK_NOT_HELD, event->why);
    answer_pg_with(self, &token->give, event->verdict == LOCK_NOT_HELD ? LOCK_NOT_HELD : LOCK_UNANSWERED,
                   event->why);
    forget_pg_token(self, token);
}

static void end_pg_looks(struct lock_postgres *self, const char *why)
{
    struct pg_look *ended = self->looks, *look, *next;
    self->looks = NULL;
    DL_FOREACH_SAFE (ended, look, next) {
        if (!self->is_closing)
            look->looked(look->context, NULL, why);
        free(look);
    }
}

static void hear_pg_end(struct pg_seat *seat, const struct lock_session_event *event)
{
    struct lock_postgres *self = seat->provider;
    bool began = lock_session_is_beginning(event->state), had_token = seat->token != NULL;
    bool is_news = began && note_pg_failure(self, event->verdict, event->why);
    struct pg_loss loss = {.told = false};
    if (had_token)
        lose_pg_token(seat, event, &loss);
    serve_pg_queue(self);
    tell_pg_link(self, is_news);
    const char *encoded = strchr(loss.name, ':');
    if (loss.dropped && !self->is_closing)
        self->config.hooks.dropped(self->config.hooks.context, loss.token, event->why);
    if (loss.told && !self->is_closing)
        self->config.hooks.told(self->config.hooks.context, loss.token, encoded + 1, strlen(encoded + 1));
    if (!self->is_closing && (event->state == LOCK_SESSION_LOOKING || (began && !had_token)))
        end_pg_looks(self, event->why);
}

static void hear_pg_session(void *context, const struct lock_session_event *event)
{
    struct pg_seat *seat = context;
    switch (event->kind) {
    case LOCK_SESSION_READY:
        note_pg_success(seat->provider);
        use_pg_seat(seat);
        return;
    case LOCK_SESSION_REFUSED:
        hear_pg_refused(seat, event->before);
        return;
    case LOCK_SESSION_GRANTED:
        if (seat->token->take != NULL)
            lock_session_number(&seat->session);
        else
            tell_pg_granted(seat);
        return;
    case LOCK_SESSION_NUMBERED:
        hear_pg_number(seat, event->fences);
        return;
    case LOCK_SESSION_NUMBER_LATE:
        refuse_pg_take(seat);
        return;
    case LOCK_SESSION_RENEWED:
        answer_pg_with(seat->provider, &seat->token->renew, LOCK_DONE, NULL);
        return;
    case LOCK_SESSION_RENEWAL_LATE:
        answer_pg_with(seat->provider, &seat->token->renew, LOCK_UNANSWERED, NULL);
        return;
    case LOCK_SESSION_GIVEN:
        answer_pg_with(seat->provider, &seat->token->give, LOCK_DONE, NULL);
        forget_pg_token(seat->provider, seat->token);
        use_pg_seat(seat);
        return;
    case LOCK_SESSION_SEEN:
        hear_pg_view(seat, event->view);
        return;
    case LOCK_SESSION_ENDED:
        hear_pg_end(seat, event);
        return;
    }
}

/* ---- actions ---- */

static void answer_queued_pg_take(struct lock_postgres *self, struct pg_token *token)
{
    struct lock_reply reply = {.kind = LOCK_REFUSED, .before = (uint32_t)(token->turn - self->queue->turn)};
    if (!self->is_failing && token->wanted.stands) {
        answer_pg(self, &token->take, &reply);
        return;
    }
    if (self->is_failing)
        answer_pg_with(self, &token->take, self->verdict, self->why);
    else
        answer_pg_with(self, &token->take, LOCK_UNSENT, "all 8 sessions of this process are in use");
    forget_pg_token(self, token);
}

static void take_on_pg_seat(struct pg_seat *seat)
{
    struct pg_errand **take = &seat->token->take;
    switch (seat->session.state) {
    case LOCK_SESSION_WAITING:
    case LOCK_SESSION_NUMBERING:
        refuse_pg_take(seat);
        return;
    case LOCK_SESSION_LOCKED:
        lock_session_number(&seat->session);
        return;
    case LOCK_SESSION_RENEWING:
        answer_pg_with(seat->provider, take, LOCK_UNSENT, "its hold is being renewed");
        return;
    case LOCK_SESSION_GIVING:
        answer_pg_with(seat->provider, take, LOCK_GONE, NULL);
        return;
    default: /* it is on its way */
        return;
    }
}

static bool take_on_pg(struct lock_postgres *self, const struct lock_action *action, struct pg_errand *errand)
{
    struct pg_token *token = find_pg_token(self, action->token);
    if (token == NULL)
        token = new_pg_token(self, action);
    if (token == NULL)
        return false;
    answer_pg_with(self, &token->take, LOCK_UNSENT, "it was asked for again");
    token->take = errand;
    token->wanted.stands = action->place_ms > 0;
    if (token->seat != NULL) {
        take_on_pg_seat(token->seat);
        return true;
    }
    serve_pg_queue(self);
    if (token->seat == NULL)
        answer_queued_pg_take(self, token);
    return true;
}

static void renew_on_pg(struct lock_postgres *self, const struct lock_action *action,
                        struct pg_errand *errand)
{
    struct pg_token *token = find_pg_token(self, action->token);
    if (token == NULL || !token->is_held || token->give != NULL) {
        answer_pg_with(self, &errand, LOCK_NOT_HELD, NULL);
        return;
    }
    answer_pg_with(self, &token->renew, LOCK_UNANSWERED, NULL);
    token->renew = errand;
    lock_session_renew(&token->seat->session);
}

/* A session that may have the lock, or comes to have it, and cannot be asked now, is closed. */
static void leave_pg(struct lock_postgres *self, struct pg_token *token)
{
    struct lock_session *session = token->seat != NULL ? &token->seat->session : NULL;
    answer_pg_with(self, &token->take, LOCK_UNSENT, NULL);
    if (session != NULL && !lock_session_is_beginning(session->state))
        lock_session_close(session);
    forget_pg_token(self, token);
    serve_pg_queue(self);
}

static void give_on_pg(struct lock_postgres *self, const struct lock_action *action, struct pg_errand *errand)
{
    struct pg_token *token = find_pg_token(self, action->token);
    struct lock_session *session = token != NULL && token->seat != NULL ? &token->seat->session : NULL;
    bool can_give =
        session != NULL && (session->state == LOCK_SESSION_LOCKED || session->state == LOCK_SESSION_RENEWING);
    if (token != NULL && !can_give)
        leave_pg(self, token);
    if (!can_give) {
        answer_pg_with(self, &errand, LOCK_NOT_HELD, NULL);
        return;
    }
    answer_pg_with(self, &token->renew, LOCK_UNANSWERED, NULL);
    token->give = errand;
    lock_session_give(session);
}

static bool perform_on_pg(struct lock_provider *face, const struct lock_action *action)
{
    struct lock_postgres *self = (struct lock_postgres *)face;
    struct pg_errand *errand = calloc(1, sizeof *errand);
    if (errand == NULL)
        return false;
    errand->op = action->op;
    switch (action->kind) {
    case LOCK_TAKE:
        if (take_on_pg(self, action, errand))
            return true;
        break;
    case LOCK_RENEW:
        renew_on_pg(self, action, errand);
        return true;
    case LOCK_GIVE:
        give_on_pg(self, action, errand);
        return true;
    case LOCK_STAY: /* is not asked for: places need no renewing */
        break;
    }
    free(errand);
    return false;
}

static bool look_on_pg(struct lock_provider *face, const struct lock_name *name, lock_looked *looked,
                       void *context)
{
    struct lock_postgres *self = (struct lock_postgres *)face;
    struct pg_look *look = calloc(1, sizeof *look);
    if (look == NULL)
        return false;
    lock_row_init(&look->row, self->config.locks->name_space, name);
    look->looked = looked;
    look->context = context;
    DL_APPEND(self->looks, look);
    serve_pg_looks(self);
    return true;
}

/* ---- open and close ---- */

static void free_pg_tokens(struct lock_postgres *self)
{
    struct pg_token *token = self->tokens;
    HASH_CLEAR(hh, self->tokens);
    while (token != NULL) {
        struct pg_token *next = token->hh.next;
        free(token->take);
        free(token->renew);
        free(token->give);
        free(token);
        token = next;
    }
}

static void finish_closing_pg(void *context)
{
    struct lock_postgres *self = context;
    host_free_and_tell(self, self->told);
}

/* Locks end with their sessions, and those with their connections. */
static void close_pg(struct lock_provider *face, void (*closed)(void *context), void *context)
{
    struct lock_postgres *self = (struct lock_postgres *)face;
    struct pg_errand *errand, *next;
    self->is_closing = true;
    for (size_t i = 0; i < SESSIONS_ALL; i++)
        lock_session_close(&self->seats[i].session);
    free_pg_tokens(self);
    DL_FOREACH_SAFE (self->answers, errand, next)
        free(errand);
    self->answers = NULL;
    end_pg_looks(self, NULL);
    host_soon_stop(&self->answering);
    host_timer_stop(self->config.host, &self->again);
    self->told = (struct host_told){closed, context};
    host_soon(self->config.host, &self->closing);
}

static void init_pg(struct lock_postgres *self, const struct lock_provider_config *config)
{
    self->face = (struct lock_provider){.kinds = 1U << GUARD_LOCK_FAIR | 1U << GUARD_LOCK_MUTEX |
                                                 1U << GUARD_LOCK_WRITE | 1U << GUARD_LOCK_READ,
                                        .all_at_once = true,
                                        .perform = perform_on_pg,
                                        .look = look_on_pg,
                                        .close = close_pg};
    self->config = *config;
    self->answering = (struct host_soon){.run = tell_pg_answers, .context = self};
    self->again = (struct host_timer){.run = connect_to_pg_again, .context = self};
    self->closing = (struct host_soon){.run = finish_closing_pg, .context = self};
    clock_random(&self->chance.state, sizeof self->chance.state);
    for (size_t i = 0; i < SESSIONS_ALL; i++) {
        struct pg_seat *seat = &self->seats[i];
        seat->provider = self;
        seat->session = (struct lock_session){
            .host = config->host, .config = config->locks, .heard = hear_pg_session, .context = seat};
    }
}

/* The first session tells whether the server can be used, and serves the first token. */
struct lock_provider *lock_postgres_open(const struct lock_provider_config *config, struct guard_error *error)
{
    char why[LOCK_PG_WHY_SIZE];
    if (!lock_pg_check(config->locks->urls[0], why)) {
        check_failed(error, GUARD_INVALID, "urls[0] is not a connection string of PostgreSQL: %s", why);
        return NULL;
    }
    struct lock_postgres *self = calloc(1, sizeof *self);
    if (self == NULL) {
        check_failed(error, GUARD_NO_MEMORY, "no memory for the locks");
        return NULL;
    }
    init_pg(self, config);
    lock_session_open(&self->seats[0].session);
    return &self->face;
}

/* SPDX-License-Identifier: MIT */
/*
 * fuzz_core.c - the bytes decide what happens to a core next: gets, replies of every kind, loads, wake-ups,
 * actions that cannot be performed, time, links, keys that change their master, another master, invalidations, the
 * end.
 *
 * Redis may lie here as much as protocol_read() lets through. Judged is what must hold all the same: every
 * accepted get and invalidation is answered once and by its deadline; nobody is given what was read before he
 * asked, unless the fill of it was accepted and none of its tags had been invalidated; what a load passes only
 * reaches the request that started it; no more loads run than there are
 * workers, one per key, no two with one permit; alarms ring when they should; and at the end nothing is left, no
 * permit either. How well the fleet does is the simulator's subject.
 */
#include "tests/fuzz/fuzz.h"

#include "guard/core/core.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum {
    ASKERS = 24,
    INVALIDATIONS = 4,
    PENDING_MAX = 2048,
    PENDING_HIGH = 64, /* beyond it Redis gives up on the oldest: its limit has passed */
    KEYS = 3,
    TAGS = 2,
    WORKERS = 2,
    QUEUE = 3,
    WAITERS = 16,
    BODY_MAX = 64,
    MOVING_FROM = 240,    /* replies from this byte on */
    PASSING_FROM = 48,    /* gets from this byte on */
    DEFERRING_FROM = 192, /* what comes back, likewise */
    QUIET_STEPS = 100000, /* more than any calm world needs to answer everybody */
};

struct parent_load {
    struct core_waiter waiter; /* first */
    bool waiting;
    size_t key;
    uint64_t asked_at, deadline_us; /* event; time */
};

struct caller {
    struct core_invalidation core; /* first */
    bool waiting;
};

/* A command or load under way. */
struct pending {
    enum core_action_kind kind;
    uint64_t id, sent_at; /* op or load; event */
    size_t key;           /* KEYS: it has none */
    uint64_t origin;      /* FILL, TOUCH: of the value; 0: absent */
    enum core_lookup lookup;
    bool has_previous;
    char permit[TOKEN_UUID_BYTES + 1]; /* LOAD: of its query; "": it runs without */
    const struct core_waiter *starter; /* LOAD; may be gone */
    bool deferred;                     /* LOAD: its loader has returned, and it is not finished */
};

struct play {
    struct core *core;
    struct core_config config;
    struct guard_policy policy;
    uint64_t now_us, event; /* events so far; each action that is sent is one, too */
    unsigned tokens;
    bool closed;
    bool revalidated;   /* two flights of a key, and this Redis may give a lease to each */
    bool unchanged;     /* a load has said so: what it confirmed is older than itself */
    uint64_t overtaken; /* origin of a load whose fill is being told that a tag was invalidated; 0: none is */
    uint64_t passed[KEYS];             /* origin of the row of each that was passed last; 0: none was */
    const struct core_waiter *starter; /* of the load that ends, the only one that its row may reach */
    uint64_t forgotten;                /* the last load that was; 0: none */
    unsigned shards;
    uint8_t unperformed;               /* bit by bit: the next action cannot be performed */
    char waiter[TOKEN_UUID_BYTES + 1]; /* the core's name in the queue for permits; "": not known yet */
    struct parent_load askers[ASKERS];
    struct caller callers[INVALIDATIONS];
    struct pending pending[PENDING_MAX];
    size_t pending_count;
    uint64_t busy_at[KEYS][TAGS]; /* event in which the latest acquire was sent that was told of this lease */
    unsigned accepted, answered, shed;
    unsigned invalidations_accepted, invalidations_answered;
};

static const char *const keys[KEYS] = {"a", "product:7", "a%20longer:key"};
static const char *const tags[TAGS] = {"aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb"};

static void make_token(void *context, uint32_t lease_ms, char token[TOKEN_SIZE])
{
    struct play *play = context;
    unsigned number = ++play->tokens;
    snprintf(token, TOKEN_SIZE, "%08x-0000-4000-8000-000000000000 %016x %07u fuzz", number, number,
             (unsigned)lease_ms);
}

/* ---- what the core wants ---- */

static struct pending *find_pending(struct play *play, uint64_t id)
{
    for (size_t i = 0; i < play->pending_count; i++)
        if (play->pending[i].id == id)
            return &play->pending[i];
    return NULL;
}

static bool is_load(const struct pending *pending)
{
    return pending->kind == CORE_LOAD;
}

static unsigned loads_running(const struct play *play)
{
    unsigned count = 0;
    for (size_t i = 0; i < play->pending_count; i++)
        count += is_load(&play->pending[i]);
    return count;
}

static bool only_looks(enum core_lookup lookup)
{
    return lookup == LOOKUP_PEEK || lookup == LOOKUP_REVALIDATE_PEEK;
}

static bool is_script(enum core_action_kind kind)
{
    return kind != CORE_LOAD && kind != CORE_CANCEL && kind != CORE_FORGET;
}

static void check_action(const struct play *play, const struct core_action *action)
{
    bool script = is_script(action->kind);
    assert(script == (action->op != 0) && (script || action->load != 0));
    if (action->kind == CORE_CANCEL || action->kind == CORE_FORGET)
        return;
    assert(strlen(action->key.encoded) == action->key.encoded_bytes);
    if (action->kind == CORE_TOUCH)
        assert(action->value != NULL && strlen(action->wanted) == TOKEN_UUID_BYTES);
    if (action->kind == CORE_FILL || action->kind == CORE_TOUCH)
        assert(strlen(action->token) > TOKEN_TAG_AT && action->fresh_ms > 0 &&
               (action->value == NULL || action->value->tags_bytes == 0 || action->born.era != 0));
    if (action->mark)
        assert((action->kind == CORE_FILL || action->shares) && !action->absent && !action->life.own_fresh &&
               !action->life.own_stale && action->stale_ms == 0);
    if (action->shares)
        assert(action->kind == CORE_RELEASE && action->failure == GUARD_FAILURE_NONE && !action->too_big &&
               (action->value != NULL || action->absent || action->mark));
    if (action->kind == CORE_PERMIT_ACQUIRE || action->kind == CORE_PERMIT_RENEW)
        assert(strlen(action->token) > TOKEN_TAG_AT);
    if (action->kind == CORE_ACQUIRE && !only_looks(action->lookup))
        assert(strlen(action->token) > TOKEN_TAG_AT && strcmp(action->token, action->prev) != 0);
    if (action->kind == CORE_LOAD)
        assert(action->deadline_us <= play->now_us + (uint64_t)play->policy.load_limit_ms * 1000);
}

static bool about_permits(enum core_action_kind kind)
{
    return kind == CORE_PERMIT_ACQUIRE || kind == CORE_PERMIT_RENEW || kind == CORE_PERMIT_RELEASE;
}

static size_t index_of(const struct core_key *key)
{
    size_t index = 0;
    while (index < KEYS && strcmp(keys[index], key->encoded) != 0)
        index++;
    assert(index < KEYS);
    return index;
}

/* Every value here begins with the event in which what made it was sent. */
static uint64_t origin_of(const struct guard_value *value)
{
    uint64_t origin = 0;
    assert(value->body_bytes >= sizeof origin);
    memcpy(&origin, value->body, sizeof origin);
    return origin;
}

/* It has not been finished in time. */
static void forget_load(struct play *play, uint64_t id)
{
    struct pending *load = find_pending(play, id);
    assert(load != NULL && load->deferred);
    play->forgotten = id;
    play->pending_count--;
    memmove(load, load + 1, (size_t)(play->pending + play->pending_count - load) * sizeof *load);
}

static void note_permit(struct play *play, struct pending *pending, const struct core_action *action)
{
    if (action->waiter != NULL)
        memcpy(play->waiter, action->waiter, TOKEN_UUID_BYTES);
    if (action->permit == NULL)
        return;
    memcpy(pending->permit, action->permit, TOKEN_UUID_BYTES);
    for (size_t i = 0; i < play->pending_count; i++)
        assert(strcmp(play->pending[i].permit, pending->permit) != 0);
}

static void take_action(struct play *play, const struct core_action *action)
{
    uint64_t id = action->op != 0 ? action->op : action->load;
    bool fills = action->kind == CORE_FILL || action->kind == CORE_TOUCH;
    bool has_row = fills && !action->absent && !action->mark;
    bool has_key = !about_permits(action->kind) && !action->of_tag;
    check_action(play, action);
    if (action->kind == CORE_CANCEL) {
        assert(find_pending(play, id) != NULL);
        return;
    }
    if (action->kind == CORE_FORGET) {
        forget_load(play, id);
        return;
    }
    assert(find_pending(play, id) == NULL && play->pending_count < PENDING_MAX);
    struct pending pending = {.kind = action->kind,
                              .id = id,
                              .sent_at = play->event++,
                              .key = has_key ? index_of(&action->key) : KEYS,
                              .origin = has_row ? origin_of(&action->value->public) : 0,
                              .starter = action->starter,
                              .lookup = action->lookup,
                              .has_previous = action->previous != NULL};
    note_permit(play, &pending, action);
    play->pending[play->pending_count++] = pending;
    assert(loads_running(play) <= WORKERS);
}

/* ---- whom it answers ---- */

static void check_result(const struct play *play, const struct parent_load *asker,
                         const struct guard_result *result)
{
    bool loaded = result->source == GUARD_FROM_LOAD || result->source == GUARD_FROM_FLIGHT;
    assert((result->status == GUARD_OK) == (result->value != NULL));
    assert((result->status == GUARD_FAILED) == (result->failure != GUARD_FAILURE_NONE));
    if (result->value != NULL && origin_of(result->value) == play->passed[asker->key])
        assert(&asker->waiter == play->starter && !result->stored);
    if (result->value == NULL)
        return;
    uint64_t origin = origin_of(result->value);
    bool good_since = result->stored && origin != play->overtaken && !asker->waiter.revalidates;
    assert(asker->asked_at <= origin || (loaded && (play->unchanged || good_since)));
}

static void take_answer(struct play *play, struct parent_load *asker)
{
    struct guard_result *result = &asker->waiter.result;
    assert(asker->waiting);
    asker->waiting = false;
    play->answered++;
    check_result(play, asker, result);
    guard_value_unref(&result->value);
}

static void check_rest(struct play *play)
{
    struct guard_stats s;
    core_stats(play->core, &s);
    uint64_t answers = s.hit + s.stale + s.absent_hit + s.failed_hit + s.loaded + s.collapsed_process +
                       s.collapsed_fleet + s.failed + s.shed + s.timed_out + s.cancelled + s.closed;
    assert(answers == play->answered + play->shed);
    assert(s.waiters == play->accepted - play->answered && s.waiters <= WAITERS);
    assert(play->closed ? s.loads_running <= loads_running(play) : s.loads_running == loads_running(play));
    assert(s.loads_queued <= WORKERS + QUEUE);
    assert(play->config.mode == GUARD_MODE_OFF || play->revalidated || s.load_duplicate == 0);
}

static bool is_unperformed(struct play *play)
{
    bool unperformed = (play->unperformed & 1) != 0;
    play->unperformed >>= 1;
    return unperformed;
}

static void take_actions(struct play *play)
{
    struct core_action action;
    do {
        while (core_next_action(play->core, &action))
            if (action.kind != CORE_CANCEL && action.kind != CORE_FORGET && is_unperformed(play))
                core_unperformed(play->core, &action);
            else
                take_action(play, &action);
    } while (core_tell_unperformed(play->core, play->now_us));
}

static void drain(struct play *play)
{
    struct core_waiter *waiter = NULL;
    struct core_invalidation *invalidation = NULL;
    take_actions(play);
    while ((waiter = core_next_answer(play->core)) != NULL)
        take_answer(play, (struct parent_load *)waiter);
    while ((invalidation = core_next_invalidated(play->core)) != NULL) {
        assert(((struct caller *)invalidation)->waiting);
        ((struct caller *)invalidation)->waiting = false;
        play->invalidations_answered++;
    }
    check_rest(play);
    play->event++;
}

/* ---- gets and invalidations ---- */

static struct core_key key_of(uint8_t byte)
{
    const char *key = keys[byte % KEYS];
    return (struct core_key){key, strlen(key), key, strlen(key)};
}

static void get(struct play *play, uint8_t which, uint8_t patience)
{
    struct parent_load *asker = &play->askers[which % ASKERS];
    struct core_key key = key_of(which);
    if (asker->waiting)
        return;
    *asker = (struct parent_load){.waiter.start_us = play->now_us, .waiting = true, .asked_at = play->event};
    asker->deadline_us = play->now_us + (uint64_t)patience * patience * 1000;
    asker->key = which % KEYS;
    asker->waiter.passes = which >= PASSING_FROM;
    asker->waiter.revalidates = !asker->waiter.passes && patience % 4 == 3;
    play->revalidated = play->revalidated || asker->waiter.revalidates;
    enum guard_status status =
        core_get(play->core, play->now_us, &key, &play->policy, &asker->waiter, asker->deadline_us);
    asker->waiting = status == GUARD_OK;
    play->accepted += status == GUARD_OK;
    play->shed += status == GUARD_SHED;
    assert(status == GUARD_OK || status == (play->closed ? GUARD_CLOSING : GUARD_SHED));
    drain(play);
}

/* A lookup elsewhere was a hit that asks for it. */
static void refresh(struct play *play, uint8_t which)
{
    static const char filler[] = "ffffffff-0000-4000-8000-000000000000";
    struct core_key key = key_of(which);
    const struct core_refresh refresh = {
        .key = key, .policy = &play->policy, .filler = (which & 32) != 0 ? filler : NULL};
    core_refresh(play->core, play->now_us, &refresh);
    drain(play);
}

static void cancel(struct play *play, uint8_t which)
{
    struct parent_load *asker = &play->askers[which % ASKERS];
    if (!asker->waiting)
        return;
    core_cancel(play->core, play->now_us, &asker->waiter);
    drain(play);
    assert(!asker->waiting);
}

static void invalidate(struct play *play, uint8_t which, uint8_t patience)
{
    struct caller *caller = &play->callers[which % INVALIDATIONS];
    if (caller->waiting)
        return;
    *caller = (struct caller){.waiting = true};
    caller->core.key = key_of(which);
    caller->core.of_tag = (patience & 1) != 0;
    caller->core.expires = !caller->core.of_tag && (patience & 2) != 0;
    caller->core.deadline_us = play->now_us + (uint64_t)patience * 10000;
    enum guard_status status = core_invalidate(play->core, play->now_us, &caller->core);
    caller->waiting = status == GUARD_OK;
    play->invalidations_accepted += status == GUARD_OK;
    assert(status == (play->closed ? GUARD_CLOSING : GUARD_OK));
    drain(play);
}

/* ---- what comes back ---- */

static struct pending take_pending(struct play *play, size_t index)
{
    struct pending pending = play->pending[index];
    play->pending_count--;
    memmove(&play->pending[index], &play->pending[index + 1], (play->pending_count - index) * sizeof pending);
    return pending;
}

static struct value *new_value(uint64_t origin, size_t body_bytes)
{
    char body[2 * BODY_MAX] = {0};
    memcpy(body, &origin, sizeof origin);
    const char *of_group = body_bytes % 2 != 0 ? "group" : "";
    struct value *value =
        value_new(body, sizeof origin + body_bytes % BODY_MAX, "\"1\"", 3, of_group, strlen(of_group));
    assert(value != NULL);
    return value;
}

static void give_reply(struct play *play, const struct pending *to, struct core_reply *reply)
{
    bool found = reply->kind == REPLY_FRESH || reply->kind == REPLY_STALE;
    struct value *value = NULL;
    if (found && !reply->absent && !reply->mark && !reply->damaged)
        value = new_value(to->sent_at, 8);
    reply->value = value;
    play->overtaken = reply->outdated ? to->origin : 0;
    core_replied(play->core, play->now_us, to->id, reply);
    value_unref(&value);
    drain(play);
    play->overtaken = 0;
}

/* Of eight loads four say how their answer is kept. */
static const struct guard_keep *keep_of(uint8_t how)
{
    static const struct guard_keep keeps[] = {{.how = GUARD_SHARE},
                                              {.how = GUARD_PASS, .pass_ms = 200},
                                              {.how = GUARD_PASS, .pass_ms = 0},
                                              {.how = GUARD_STORE, .fresh_ms = 50, .stale_ms = 500}};
    enum { EACH = 8, FIRST = EACH - sizeof keeps / sizeof *keeps };
    return how % EACH < FIRST ? NULL : &keeps[how % EACH - FIRST];
}

static void give_load(struct play *play, const struct pending *load, enum core_load_outcome outcome,
                      size_t body_bytes)
{
    struct core_loaded loaded = {.outcome = outcome, .load_us = 1000, .keep = keep_of((uint8_t)body_bytes)};
    bool passes = loaded.keep != NULL && loaded.keep->how == GUARD_PASS && outcome == LOAD_OK;
    play->unchanged = play->unchanged || outcome == LOAD_UNCHANGED;
    if (outcome == LOAD_OK)
        loaded.value = new_value(load->sent_at, body_bytes);
    else if (outcome == LOAD_FAILED)
        loaded.failure = GUARD_FAILURE_UNAVAILABLE;
    if (passes)
        play->passed[load->key] = load->sent_at;
    play->starter = load->starter;
    core_loaded(play->core, play->now_us, load->id, &loaded);
    value_unref(&loaded.value);
    drain(play);
    play->starter = NULL;
}

/* All that protocol_read() can make of what some Redis says. */
static struct core_reply reply_to_acquire(struct fuzz_input *input)
{
    static const enum core_reply_kind kinds[] = {REPLY_FRESH,  REPLY_STALE,   REPLY_LEASE,  REPLY_LEASE,
                                                 REPLY_BUSY,   REPLY_FAILED,  REPLY_FREE,   REPLY_REFUSED,
                                                 REPLY_UNSENT, REPLY_UNKNOWN, REPLY_UNKNOWN};
    static const char head[] = "ffffffff-0000-4000-8000-000000000000";
    static const char names_seen[] =
        "ffffffff-0000-4000-8000-00000000000000000000-1111-4000-8000-000000000000";
    _Static_assert(sizeof names_seen == 2 * TOKEN_UUID_BYTES + 1, "two names");
    uint8_t what = fuzz_byte(input), more = fuzz_byte(input);
    struct core_reply reply = {
        .kind = what < MOVING_FROM ? kinds[what % (sizeof kinds / sizeof *kinds)] : REPLY_MOVING,
        .refresher = (enum core_refresher)(more % 3 - 1),
        .absent = (more & 0x18) == 0x10,
        .mark = (more & 0x18) == 0x18,
        .life = {.own_stale = (more & 4) != 0, .stale_ms = (more & 4) != 0 ? more : 0},
        .damaged = (more & 0x20) != 0,
        .head = head,
        .names_seen = (more & 4) != 0 ? names_seen : NULL,
        .lease_tag = more % 4 < TAGS ? tags[more % 4] : NULL,
        .left_ms = more,
        .cool_ms = (uint32_t)more * 4,
        .load_us = (uint64_t)more * 100,
        .pttl_ms = (more & 0x40) != 0 ? UINT32_MAX : (uint32_t)more * 8,
        .too_big = (more & 0x80) != 0,
        .failure = GUARD_FAILURE_TIMEOUT,
        .outdated = more % 8 == 7,
        .clock = {.era = more % 4, .count = more},
    };
    bool found = reply.kind == REPLY_FRESH || reply.kind == REPLY_STALE;
    if (reply.mark && reply.kind == REPLY_STALE)
        reply.kind = REPLY_FRESH; /* a mark is never stale */
    reply.damaged = reply.damaged && found;
    reply.outdated = reply.outdated && found && !reply.damaged;
    return reply;
}

static struct core_reply reply_to_other(struct fuzz_input *input)
{
    static const enum core_reply_kind kinds[] = {REPLY_CODE, REPLY_CODE, REPLY_REFUSED, REPLY_UNSENT,
                                                 REPLY_UNKNOWN};
    static const int64_t codes[] = {1, 0, 2, -1, 3, INT64_MIN, INT64_MAX, -2};
    uint8_t what = fuzz_byte(input);
    return (struct core_reply){.kind = what < MOVING_FROM ? kinds[what % 5] : REPLY_MOVING,
                               .code = codes[what / 5 % 8],
                               .outdated = what / 40 % 2 != 0};
}

/* False: it is no load, or was deferred already. */
static bool defer_load(struct play *play, struct pending *load)
{
    if (!is_load(load) || load->deferred)
        return false;
    load->deferred = true;
    core_deferred(play->core, play->now_us, load->id);
    drain(play);
    return true;
}

/* Two flights of a key have an acquire each, and the one that was sent later may be answered first. */
static void note_lease(struct play *play, const struct pending *to, const struct core_reply *reply)
{
    if (reply->kind != REPLY_BUSY && reply->kind != REPLY_STALE)
        return;
    for (size_t tag = 0; tag < TAGS; tag++)
        if (reply->lease_tag == tags[tag] && to->sent_at > play->busy_at[to->key][tag])
            play->busy_at[to->key][tag] = to->sent_at;
}

static void come_back(struct play *play, struct fuzz_input *input)
{
    uint8_t which = fuzz_byte(input);
    if (play->pending_count == 0)
        return;
    if (which == UINT8_MAX && play->forgotten != 0)
        core_loaded(play->core, play->now_us, play->forgotten, &(struct core_loaded){.outcome = LOAD_ABSENT});
    if (which >= DEFERRING_FROM && defer_load(play, &play->pending[which % play->pending_count]))
        return;
    struct pending pending = take_pending(play, which % play->pending_count);
    if (is_load(&pending)) {
        uint8_t how = fuzz_byte(input);
        bool unchanged = pending.has_previous && how >= 192;
        give_load(play, &pending, unchanged ? LOAD_UNCHANGED : (enum core_load_outcome)(how % 3), how / 3);
        return;
    }
    struct core_reply reply = pending.kind == CORE_ACQUIRE ? reply_to_acquire(input) : reply_to_other(input);
    note_lease(play, &pending, &reply);
    give_reply(play, &pending, &reply);
}

/* ---- time and hints ---- */

static void tick(struct play *play)
{
    core_tick(play->core, play->now_us);
    drain(play);
    assert(core_next_us(play->core) > play->now_us);
    for (size_t i = 0; i < ASKERS; i++)
        if (play->askers[i].waiting)
            assert(play->askers[i].deadline_us >= core_next_us(play->core));
}

/* To the next alarm, a little further, or far; and sometimes nobody looks at the alarms. */
static void pass(struct play *play, uint8_t how)
{
    uint64_t next_us = core_next_us(play->core);
    if (how < 64 && next_us != UINT64_MAX && next_us > play->now_us)
        play->now_us = next_us;
    else
        play->now_us += (uint64_t)how * how * 10;
    if (how % 4 != 3)
        tick(play);
}

/* A message with what a fill under the lease with this tag has stored, which is no older than the lookup that found
 * that lease. */
static void push(struct play *play, uint8_t which, uint8_t how)
{
    struct core_key key = key_of(which);
    size_t tag = how % TAGS;
    struct core_reply pushed = {
        .lease_tag = tags[tag], .absent = (how & 2) != 0, .left_ms = (uint32_t)how * 20};
    pushed.shared = (how & 4) != 0;
    pushed.mark = !pushed.absent && !pushed.shared && (how & 8) != 0;
    struct value *value =
        pushed.absent || pushed.mark ? NULL : new_value(play->busy_at[which % KEYS][tag], how);
    pushed.value = value;
    const struct core_key *awaited =
        core_awaits(play->core, key.encoded, key.encoded_bytes, tags[tag], false);
    assert(awaited == NULL || strcmp(awaited->plain, key.plain) == 0);
    core_pushed(play->core, play->now_us, key.encoded, key.encoded_bytes, &pushed);
    value_unref(&value);
}

static void hint(struct play *play, struct fuzz_input *input)
{
    uint8_t how = fuzz_byte(input);
    struct core_key key = key_of(how);
    if (how >= 250)
        play->unperformed = fuzz_byte(input);
    else if (how >= 245)
        core_permit_freed(play->core, play->now_us, play->waiter, strlen(play->waiter));
    else if (how >= 240)
        core_resync(play->core, play->now_us);
    else if (how >= 235)
        core_reign(play->core, play->now_us, how % play->shards);
    else if (how >= 200)
        core_link(play->core, play->now_us, how / 2 % play->shards, (how & 1) != 0);
    else if (how >= 100)
        push(play, how, fuzz_byte(input));
    else
        core_woken(play->core, play->now_us, key.encoded, key.encoded_bytes, (how & 8) != 0);
    drain(play);
}

static void drain_or_close(struct play *play, uint8_t how)
{
    if (how < 250)
        return;
    core_close(play->core, play->now_us);
    play->closed = true;
    drain(play);
    assert(play->answered == play->accepted && !core_has_waiters(play->core));
}

/* ---- a play ---- */

/* A key is of another one every second. */
static unsigned shard_of(void *context, bool invalidated, const char *encoded, size_t encoded_bytes)
{
    (void)invalidated;
    const struct play *play = context;
    uint64_t seconds = play->now_us / 1000000;
    return (unsigned)(((unsigned char)encoded[encoded_bytes - 1] + seconds) % play->shards);
}

/* The last byte has a say, too: what is changed before it leaves that alone. */
static void open_play(struct play *play, struct fuzz_input *input)
{
    uint8_t tail = input->left > 0 ? input->at[input->left - 1] : 0;
    uint8_t how = fuzz_byte(input);
    *play = (struct play){.now_us = 1000000, .event = 1};
    play->policy = (struct guard_policy)GUARD_POLICY_DEFAULTS;
    play->policy.stale_ms = (how & 4) != 0 ? 30000 : 0;
    play->policy.soft_ms = (how & 7) == 7 ? 200 : 0;
    play->policy.abandon = (tail & 64) != 0;
    play->policy.early_percent = (how & 8) != 0 ? 1000 : 0;
    play->policy.failure_ms = (how & 8) != 0 ? 50 : 1000;
    play->policy.lease_ms = (how & 16) != 0 ? 100 : 3000;
    play->policy.max_hold_ms = (how & 32) != 0 ? play->policy.lease_ms : 30000;
    play->policy.load_limit_ms = (how & 64) != 0 ? 50 : play->policy.max_hold_ms;
    play->config = (struct core_config){
        .mode = (enum guard_mode)(how % 4 % 3),
        .max_loads = WORKERS,
        .load_queue = QUEUE,
        .max_waiters = WAITERS,
        .max_value_bytes = BODY_MAX,
        .max_value_ms = 86400000,
        .permit_ms = (tail & 4) != 0 ? 100 : 3000,
        .seed = how,
        .make_token = make_token,
        .token_context = play,
        .replay = (tail & 8) != 0,
    };
    play->shards = 1 + (tail >> 4) % 3;
    if (play->shards > 1) {
        play->config.shard_of = shard_of;
        play->config.shard_context = play;
    }
    if (play->config.mode == GUARD_MODE_FLEET)
        play->config.permits = tail % 4;
    play->core = core_new(&play->config);
    assert(play->core != NULL);
    core_link(play->core, play->now_us, 0, (how & 128) == 0);
}

static void step(struct play *play, struct fuzz_input *input)
{
    uint8_t what = fuzz_byte(input);
    if (play->pending_count > PENDING_HIGH && !is_load(&play->pending[0])) {
        struct pending oldest = take_pending(play, 0);
        give_reply(play, &oldest, &(struct core_reply){.kind = REPLY_UNKNOWN});
    }
    if (what < 64)
        get(play, what, fuzz_byte(input));
    else if (what < 144)
        come_back(play, input);
    else if (what < 184)
        pass(play, fuzz_byte(input));
    else if (what < 216)
        hint(play, input);
    else if (what < 228)
        cancel(play, what);
    else if (what < 236)
        refresh(play, fuzz_byte(input));
    else if (what < 250)
        invalidate(play, what, fuzz_byte(input));
    else
        drain_or_close(play, fuzz_byte(input));
}

/* From here on everything goes well. */
static void one_calm_step(struct play *play)
{
    if (play->pending_count == 0) {
        if (core_next_us(play->core) > play->now_us)
            play->now_us = core_next_us(play->core);
        tick(play);
        return;
    }
    struct pending first = take_pending(play, 0);
    struct core_reply reply = {.kind = REPLY_CODE, .code = 1};
    if (first.kind == CORE_ACQUIRE)
        reply.kind = only_looks(first.lookup) ? REPLY_FREE : REPLY_LEASE;
    if (is_load(&first))
        give_load(play, &first, LOAD_OK, 8);
    else
        give_reply(play, &first, &reply);
}

static bool is_over(const struct play *play)
{
    return play->pending_count == 0 && core_next_us(play->core) == UINT64_MAX;
}

static void end_play(struct play *play)
{
    unsigned steps = 0;
    while (!is_over(play)) {
        one_calm_step(play);
        assert(++steps < QUIET_STEPS);
    }
    assert(play->answered == play->accepted);
    assert(play->invalidations_answered == play->invalidations_accepted);
    assert(core_drained(play->core) && core_idle(play->core) && !core_has_waiters(play->core));
    core_free(&play->core);
}

void fuzz_core(const uint8_t *data, size_t bytes)
{
    struct fuzz_input input = {data, bytes};
    static struct play play; /* large */
    open_play(&play, &input);
    while (input.left > 0)
        step(&play, &input);
    end_play(&play);
}

/* SPDX-License-Identifier: MIT */
/* redis/place.c - see redis/place.h. */
#include "place.h"
#include <stdio.h>
#include <string.h>
#include <utlist.h>

void redis_place_init(struct redis_place *place, const struct redis_endpoint *endpoint,
                      void (*ended)(void *context), void *context)
{
    memset(place, 0, sizeof *place);
    redis_reign_init(&place->reign, ended, context);
    pthread_mutex_init(&place->mutex, NULL);
    atomic_init(&place->good_until_ms, UINT64_MAX);
    if (endpoint != NULL)
        place->endpoint = *endpoint;
    place->version = 1;
}

void redis_place_clear(struct redis_place *place)
{
    redis_reign_clear(&place->reign);
    pthread_mutex_destroy(&place->mutex);
}

/* ---- under the mutex ---- */

static void wake_members(struct redis_place *place)
{
    struct redis_member *member = NULL;
    DL_FOREACH (place->members, member)
        host_wake_send(&member->wake);
}

static void move_to(struct redis_place *place, const struct redis_endpoint *endpoint)
{
    place->endpoint = *endpoint;
    place->version++;
}

static bool is_another_master(const struct redis_finding *confirmed, const struct redis_finding *finding)
{
    return confirmed->confirmed &&
           (!redis_endpoint_equal(&confirmed->master, &finding->master) || finding->epoch > confirmed->epoch);
}

/* A majority says that it is the master: what another one says from here on is void. True: there was one. */
static bool confirm(struct redis_place *place, const struct redis_finding *finding)
{
    bool another = is_another_master(&place->confirmed, finding);
    if (another) {
        place->ended_version = place->version;
        place->ended_seen = redis_reign_now(&place->reign);
        redis_reign_end(&place->reign, place->ended_seen);
    }
    place->confirmed = *finding;
    atomic_store_explicit(&place->good_until_ms, finding->good_until_ms, memory_order_relaxed);
    return another;
}

static void answer_members(struct redis_place *place, bool confirmed)
{
    struct redis_member *member = NULL;
    DL_FOREACH (place->members, member) {
        if (member->confirm != REDIS_CONFIRM_UNDER_WAY)
            continue;
        member->confirm =
            confirmed && member->version == place->version ? REDIS_CONFIRM_YES : REDIS_CONFIRM_NO;
        host_wake_send(&member->wake);
    }
}

/* ---- a connection ---- */

void redis_place_join(struct redis_place *place, struct redis_member *member, struct guard_host *host,
                      void (*changed)(void *context), void *context)
{
    host_wake_init(host, &member->wake, changed, context);
    member->version = 0;
    member->confirm = REDIS_CONFIRM_NONE;
    pthread_mutex_lock(&place->mutex);
    DL_APPEND(place->members, member);
    pthread_mutex_unlock(&place->mutex);
}

void redis_place_leave(struct redis_place *place, struct redis_member *member)
{
    pthread_mutex_lock(&place->mutex);
    DL_DELETE(place->members, member);
    pthread_mutex_unlock(&place->mutex);
    host_wake_clear(&member->wake);
}

bool redis_place_where(struct redis_place *place, struct redis_member *member, struct redis_endpoint *out)
{
    pthread_mutex_lock(&place->mutex);
    *out = place->endpoint;
    member->version = place->version;
    member->confirm = REDIS_CONFIRM_NONE;
    pthread_mutex_unlock(&place->mutex);
    return out->host[0] != '\0';
}

bool redis_place_has_moved(struct redis_place *place, const struct redis_member *member)
{
    pthread_mutex_lock(&place->mutex);
    bool moved = member->version != place->version;
    pthread_mutex_unlock(&place->mutex);
    return moved;
}

enum guard_redis_state redis_place_why(struct redis_place *place, char why[REDIS_WHY_SIZE])
{
    pthread_mutex_lock(&place->mutex);
    enum guard_redis_state state = place->found.state;
    snprintf(why, REDIS_WHY_SIZE, "%s", place->found.confirmed ? "there was another one" : place->found.why);
    pthread_mutex_unlock(&place->mutex);
    return state;
}

bool redis_place_is_confirmed(struct redis_place *place)
{
    pthread_mutex_lock(&place->mutex);
    bool confirmed = !place->watched || place->found.confirmed;
    pthread_mutex_unlock(&place->mutex);
    return confirmed;
}

void redis_place_doubt(struct redis_place *place)
{
    pthread_mutex_lock(&place->mutex);
    place->doubted = true;
    if (place->watcher != NULL)
        host_wake_send(place->watcher);
    pthread_mutex_unlock(&place->mutex);
}

bool redis_place_confirm(struct redis_place *place, struct redis_member *member)
{
    pthread_mutex_lock(&place->mutex);
    bool watched = place->watched;
    if (watched)
        member->confirm = REDIS_CONFIRM_WAITS;
    if (place->watcher != NULL)
        host_wake_send(place->watcher);
    pthread_mutex_unlock(&place->mutex);
    return watched;
}

enum redis_confirm redis_place_answer(struct redis_place *place, struct redis_member *member, uint64_t *seen)
{
    pthread_mutex_lock(&place->mutex);
    enum redis_confirm answer = member->confirm;
    if (answer == REDIS_CONFIRM_YES && member->version == place->ended_version && *seen == place->ended_seen)
        *seen = place->ended_seen + 1;
    if (answer == REDIS_CONFIRM_YES || answer == REDIS_CONFIRM_NO)
        member->confirm = REDIS_CONFIRM_NONE;
    pthread_mutex_unlock(&place->mutex);
    return answer;
}

/* ---- the watcher ---- */

void redis_place_watch(struct redis_place *place, struct host_wake *watcher)
{
    pthread_mutex_lock(&place->mutex);
    place->watcher = watcher;
    if (!place->watched)
        place->watched = true;
    pthread_mutex_unlock(&place->mutex);
}

enum redis_wish redis_place_wish(struct redis_place *place)
{
    const struct redis_member *member = NULL;
    pthread_mutex_lock(&place->mutex);
    enum redis_wish wish = place->doubted ? REDIS_WISH_SOON : REDIS_WISH_NONE;
    DL_FOREACH (place->members, member)
        if (member->confirm == REDIS_CONFIRM_WAITS)
            wish = REDIS_WISH_NOW;
    pthread_mutex_unlock(&place->mutex);
    return wish;
}

void redis_place_round_begins(struct redis_place *place)
{
    struct redis_member *member = NULL;
    pthread_mutex_lock(&place->mutex);
    place->doubted = false;
    DL_FOREACH (place->members, member)
        if (member->confirm == REDIS_CONFIRM_WAITS)
            member->confirm = REDIS_CONFIRM_UNDER_WAY;
    pthread_mutex_unlock(&place->mutex);
}

void redis_place_round_ends(struct redis_place *place, const struct redis_finding *finding)
{
    pthread_mutex_lock(&place->mutex);
    bool moves = finding->master.host[0] != '\0' && !redis_endpoint_equal(&finding->master, &place->endpoint);
    bool turned = finding->confirmed != place->found.confirmed;
    if (moves)
        move_to(place, &finding->master);
    bool another = finding->confirmed && confirm(place, finding);
    place->found = *finding;
    answer_members(place, finding->confirmed);
    if (moves || turned || another)
        wake_members(place);
    pthread_mutex_unlock(&place->mutex);
}

void redis_place_wake(struct redis_place *place)
{
    pthread_mutex_lock(&place->mutex);
    wake_members(place);
    pthread_mutex_unlock(&place->mutex);
}

void redis_place_set(struct redis_place *place, const struct redis_endpoint *endpoint)
{
    pthread_mutex_lock(&place->mutex);
    move_to(place, endpoint);
    pthread_mutex_unlock(&place->mutex);
}

void redis_place_move(struct redis_place *place, const struct redis_endpoint *endpoint)
{
    pthread_mutex_lock(&place->mutex);
    move_to(place, endpoint);
    wake_members(place);
    pthread_mutex_unlock(&place->mutex);
}

/* ---- whose word counts ---- */

void redis_reign_init(struct redis_reign *reign, void (*ended)(void *context), void *context)
{
    memset(reign, 0, sizeof *reign);
    pthread_mutex_init(&reign->mutex, NULL);
    reign->ended = ended;
    reign->context = context;
}

void redis_reign_clear(struct redis_reign *reign)
{
    pthread_mutex_destroy(&reign->mutex);
}

static void begin_anew(struct redis_reign *reign, const char *name)
{
    snprintf(reign->name, sizeof reign->name, "%s", name);
    atomic_fetch_add(&reign->generation, 1);
    if (reign->ended != NULL)
        reign->ended(reign->context);
}

bool redis_reign_join(struct redis_reign *reign, uint64_t seen, const char *name, uint64_t *generation)
{
    pthread_mutex_lock(&reign->mutex);
    bool known = name[0] != '\0' && reign->name[0] != '\0';
    bool present = known && strcmp(name, reign->name) == 0;
    bool joined = present || seen == redis_reign_now(reign);
    if (joined && known && !present)
        begin_anew(reign, name);
    else if (joined && !known && name[0] != '\0')
        snprintf(reign->name, sizeof reign->name, "%s", name);
    *generation = redis_reign_now(reign);
    pthread_mutex_unlock(&reign->mutex);
    return joined;
}

void redis_reign_end(struct redis_reign *reign, uint64_t generation)
{
    pthread_mutex_lock(&reign->mutex);
    if (generation == redis_reign_now(reign))
        begin_anew(reign, "");
    pthread_mutex_unlock(&reign->mutex);
}

/* SPDX-License-Identifier: MIT */
/* lock_zookeeper_place.c - places in the lines of ZooKeeper; the file head of lock_zookeeper.c says how they move. */
#include "../../base/clock.h"
#include "lock_zookeeper_state.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum {
    LIST_EVERY_MS = 5000,
    LEFT_KEPT_MS = 60000,
    CREATE_TRIES = 8, /* a container may be removed between its creation and its first child's */
};

static void answer_place(struct zoo_place *place, enum lock_reply_kind kind, const char *why)
{
    if (place->ask != NULL)
        zoo_answer_plainly(place->ask, kind, why);
}

/* ---- paths ---- */

static int parent_path(const struct zookeeper *self, char out[ZOO_LINE_PATH_SIZE])
{
    return snprintf(out, ZOO_LINE_PATH_SIZE, "/csg1:%s", self->config.locks->name_space);
}

void zoo_line_path(const struct zookeeper *self, const char *encoded, char out[ZOO_LINE_PATH_SIZE])
{
    int length = parent_path(self, out);
    snprintf(out + length, ZOO_LINE_PATH_SIZE - (size_t)length, "/lock:%s", encoded);
}

static void node_path(const struct zoo_line *line, const struct keeper_node *node,
                      char out[ZOO_NODE_PATH_SIZE])
{
    char path[ZOO_LINE_PATH_SIZE], name[KEEPER_NODE_SIZE];
    zoo_line_path(line->self, line->encoded, path);
    keeper_node_name(node, name);
    snprintf(out, ZOO_NODE_PATH_SIZE, "%s/%s", path, name);
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

static void on_listed(void *context, const struct keeper_result *result);

/* What cannot be sent for want of memory, and what is lost, is sent by the tick or when it is up again. A line whose
 * places are all over is of no interest. */
static void list_line(struct zoo_line *line)
{
    char path[ZOO_LINE_PATH_SIZE];
    struct zookeeper *self = line->self;
    if (!self->is_up || line->is_listing) {
        line->again = true;
        return;
    }
    const struct zoo_place *place;
    bool is_wanted = false;
    line->is_fresh = false;
    DL_FOREACH (line->places, place) {
        is_wanted = is_wanted || !place->is_over;
        line->is_fresh = line->is_fresh || (!place->is_over && place->is_unsure);
    }
    if (!is_wanted)
        return;
    zoo_line_path(self, line->encoded, path);
    line->is_listing = keeper_list(self->session, path, line->is_fresh, line->by_children, on_listed, line);
    line->again = !line->is_listing;
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
    return NULL;
}

/* From here on its token is unknown. */
static void end_place(struct zoo_place *place)
{
    assert(place->ask == NULL && !place->is_over);
    HASH_DELETE(by_uuid, place->line->self->places, place);
    place->is_over = true;
}

static void free_unused_line(struct zoo_line *line)
{
    struct zoo_place *place, *next;
    DL_FOREACH_SAFE (line->places, place, next) {
        if (!place->is_over || place->under_way > 0 || place->news != NO_NEWS)
            continue;
        DL_DELETE(line->places, place);
        free(place);
    }
    if (line->places != NULL || line->under_way > 0 || line->is_listing)
        return;
    HASH_DELETE(by_name, line->self->lines, line);
    free(line);
}

void zoo_free_unused(struct zookeeper *self)
{
    struct zoo_line *line, *next;
    for (line = self->lines; line != NULL; line = next) {
        next = line->by_name.next;
        free_unused_line(line);
    }
}

/* Another than us has deleted its node: a claim that held it has lost it, one that waits begins anew. */
static void lose_place(struct zoo_place *place)
{
    if (place->ask != NULL)
        answer_place(place, place->ask->kind == LOCK_TAKE ? LOCK_GONE : LOCK_NOT_HELD, NULL);
    else
        zoo_tell(place, place->stage == PLACE_HELD ? NEWS_DROPPED : NEWS_TOLD, "zookeeper: its node is gone");
    end_place(place);
}

/* ---- leaving ---- */

static void leave_place(struct zoo_place *place, enum lock_reply_kind left)
{
    bool is_known = place->ask != NULL || place->is_refused;
    place->stage = PLACE_LEFT;
    place->left = left;
    place->since_us = clock_now_us();
    answer_place(place, left, NULL);
    if (is_known)
        end_place(place);
}

static void on_deleted(void *context, const struct keeper_result *result)
{
    struct zoo_place *place = context;
    place->under_way--;
    if (place->is_over)
        return;
    if (result->outcome == KEEPER_DONE)
        leave_place(place, LOCK_DONE);
    else if (result->outcome == KEEPER_NO_NODE)
        leave_place(place, place->was_held ? LOCK_NOT_HELD : LOCK_DONE);
    else if (result->outcome == KEEPER_DENIED)
        answer_place(place, LOCK_UNANSWERED, result->why);
}

/* Until it is answered, or the session is over. */
static void delete_place(struct zoo_place *place)
{
    char path[ZOO_NODE_PATH_SIZE];
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
    zoo_answer(place->ask, &reply);
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
    if (place->is_over)
        return;
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
    char path[ZOO_NODE_PATH_SIZE];
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
        zoo_tell(place, NEWS_TOLD, NULL);
}

/* ---- creating ---- */

static void create_place(struct zoo_place *place);

/* Without the upper one there is no place for the lower one: why tells of the upper one. */
static void on_parents_made(void *context, const struct keeper_result *result)
{
    struct zoo_line *line = context;
    line->under_way--;
    if (result->outcome == KEEPER_DENIED)
        line->why_no_parents = result->why;
    else if (result->outcome != KEEPER_NO_NODE)
        line->why_no_parents = NULL;
    else if (line->why_no_parents == NULL)
        line->why_no_parents = "zookeeper: the chroot of its url does not exist";
}

/* In the connection's order both are there before what is sent after them. */
static bool make_parents(struct zoo_line *line)
{
    char path[ZOO_LINE_PATH_SIZE];
    struct zookeeper *self = line->self;
    parent_path(self, path);
    if (!keeper_create_parent(self->session, path, on_parents_made, line))
        return false;
    line->under_way++;
    zoo_line_path(self, line->encoded, path);
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
        zoo_tell(place, NEWS_TOLD, NULL);
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
    const char *why = place->line->why_no_parents;
    if (++place->tries >= CREATE_TRIES)
        refuse_place(place, LOCK_IMPOSSIBLE,
                     why != NULL ? why : "zookeeper: the parents of its node do not last");
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
    if (place->is_over)
        return;
    if (result->outcome == KEEPER_DONE) {
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
    char path[ZOO_NODE_PATH_SIZE], name[KEEPER_NODE_SIZE];
    struct zookeeper *self = place->line->self;
    const char *people = place->token + LOCK_TOKEN_HEAD_BYTES;
    zoo_line_path(self, place->line->encoded, path);
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
    if (place->is_over)
        return;
    if (result->outcome == KEEPER_DONE && result->owner == keeper_id(place->line->self->session)) {
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
    char path[ZOO_NODE_PATH_SIZE];
    size_t at = result->count;
    while (at > 0 && memcmp(result->nodes[at - 1].uuid, place->uuid, KEEPER_UUID_BYTES) != 0)
        at--;
    if (at == 0) {
        create_again(place);
        return;
    }
    place->node.number = result->nodes[at - 1].number;
    node_path(place->line, &place->node, path);
    place->under_way += keeper_look_at(place->line->self->session, path, on_found, place);
}

/* ---- whose turn it is ---- */

static void on_watched(void *context, const struct keeper_result *result)
{
    struct zoo_line *line = context;
    line->under_way--;
    line->is_watched = result->outcome == KEEPER_DONE;
    line->again = line->again || result->outcome == KEEPER_UNSURE;
    if (result->outcome == KEEPER_NO_NODE)
        list_line(line);
}

/* `at`: where the first of ours stands that has to wait. */
static void watch_for(struct zoo_line *line, const struct keeper_node *nodes, size_t at)
{
    char path[ZOO_NODE_PATH_SIZE];
    struct zookeeper *self = line->self;
    size_t blocker = keeper_line_blocker(nodes, at);
    bool by_children = blocker == at;
    if (by_children) {
        line->is_watched = line->by_children; /* by this listing */
        line->again = line->again || !line->by_children;
    } else {
        node_path(line, &nodes[blocker], path);
        bool is_sent = keeper_read(self->session, path, true, on_watched, line);
        line->under_way += is_sent;
        line->again = line->again || !is_sent;
    }
    line->by_children = by_children;
}

/* One that wants no place in line leaves as it is refused. */
static void refuse_turn(struct zoo_place *place)
{
    struct zoo_ask *ask = place->ask;
    if (ask == NULL)
        return;
    place->is_refused = !ask->wants_place;
    zoo_answer(ask, &(struct lock_reply){.kind = LOCK_REFUSED, .before = place->before});
    if (place->is_refused)
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

static void judge_line(struct zoo_line *line, const struct keeper_result *listing)
{
    struct zoo_place *place;
    size_t served = keeper_line_served(listing->nodes, listing->count);
    line->listed_us = listing->sent_us;
    DL_FOREACH (line->places, place) {
        if (!place->is_over)
            judge_place(place, listing, served);
    }
    size_t first = listing->count; /* where the first of ours stands that has to wait */
    DL_FOREACH (line->places, place) {
        if (!place->is_over && place->stage == PLACE_WAITING && is_shown(place, listing) &&
            place->before < first)
            first = place->before;
    }
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
    if (result->outcome == KEEPER_UNSURE)
        line->again = true;
    else if (line->again)
        list_line(line);
}

void zoo_line_changed(void *context, const char *path)
{
    struct zookeeper *self = context;
    struct zoo_line *line;
    char prefix[ZOO_LINE_PATH_SIZE];
    zoo_line_path(self, "", prefix);
    size_t bytes = strlen(prefix);
    if (path == NULL) {
        for (line = self->lines; line != NULL; line = line->by_name.next)
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
    struct zoo_place *place;
    uint64_t now_us = clock_now_us();
    DL_FOREACH (line->places, place)
        resume_place(place, now_us);
    bool is_due = list || line->again || now_us - line->listed_us > (uint64_t)LIST_EVERY_MS * 1000;
    bool waits = false; /* what is held is renewed, which tells as much */
    DL_FOREACH (line->places, place)
        waits = waits || (!place->is_over && (place->stage == PLACE_MAKING || place->stage == PLACE_WAITING));
    if (is_due && waits)
        list_line(line);
}

void zoo_resume(struct zookeeper *self, bool list)
{
    for (struct zoo_line *line = self->lines; line != NULL; line = line->by_name.next)
        resume_line(line, list);
}

/* ---- the end of a session ---- */

static void forget_place(struct zoo_place *place, const char *why)
{
    if (place->is_over)
        return;
    if (place->stage == PLACE_HELD)
        zoo_tell(place, NEWS_DROPPED, why);
    if (place->ask != NULL && place->ask->kind == LOCK_TAKE)
        answer_place(place, LOCK_UNSENT, why);
    else
        answer_place(place, place->was_held ? LOCK_NOT_HELD : LOCK_DONE, why);
    end_place(place);
}

void zoo_forget(struct zookeeper *self, const char *why)
{
    struct zoo_place *place;
    for (struct zoo_line *line = self->lines; line != NULL; line = line->by_name.next)
        DL_FOREACH (line->places, place)
            forget_place(place, why);
}

/* ---- what the core wants ---- */

/* A question that is still open will not be answered better than by the next one. */
static void wait_for_place(struct zoo_ask *ask, struct zoo_place *place)
{
    answer_place(place, LOCK_UNANSWERED, ZOO_NO_ANSWER);
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
        zoo_answer_plainly(ask, LOCK_GONE, NULL);
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
bool zoo_take(struct zoo_ask *ask, const struct lock_action *action)
{
    struct zookeeper *self = ask->self;
    struct zoo_place *place = self->is_up ? find_place(self, action->token) : NULL;
    if (!self->is_up) {
        zoo_answer_plainly(ask, LOCK_UNSENT, self->why);
    } else if (action->lease_ms > keeper_timeout_ms(self->session)) {
        zoo_answer_plainly(ask, LOCK_IMPOSSIBLE,
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

void zoo_renew(struct zoo_ask *ask, const struct lock_action *action)
{
    struct zookeeper *self = ask->self;
    struct zoo_place *place = find_place(self, action->token);
    if (place == NULL || place->stage != PLACE_HELD) {
        zoo_answer_plainly(ask, LOCK_NOT_HELD, NULL);
    } else if (!self->is_up) {
        zoo_answer_plainly(ask, LOCK_UNSENT, self->why);
    } else {
        wait_for_place(ask, place);
        prove_place(place);
    }
}

void zoo_give(struct zoo_ask *ask, const struct lock_action *action)
{
    struct zoo_place *place = find_place(ask->self, action->token);
    if (place == NULL) {
        zoo_answer_plainly(ask, LOCK_NOT_HELD, NULL);
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

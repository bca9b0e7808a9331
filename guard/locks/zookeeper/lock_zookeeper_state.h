/* SPDX-License-Identifier: MIT */
/*
 * lock_zookeeper_state.h - what the two files of the ZooKeeper provider share; see lock_zookeeper.c.
 *
 * lock_zookeeper.c has the session, the questions of the core and what it is told; lock_zookeeper_place.c has places
 * and lines, which is all that is decided.
 */
#pragma once

#include "../../base/chance.h"
#include "../../base/table.h"
#include "../provider.h"
#include "keeper_session.h"

enum {
    ZOO_LINE_PATH_SIZE = 16 + KEY_NAMESPACE_MAX + KEY_ENCODED_MAX,
    ZOO_NODE_PATH_SIZE = ZOO_LINE_PATH_SIZE + KEEPER_NODE_SIZE,
};

#define ZOO_NO_ANSWER "zookeeper: no answer in time"

enum zoo_stage { PLACE_MAKING, PLACE_WAITING, PLACE_SERVED, PLACE_HELD, PLACE_LEAVING, PLACE_LEFT };
enum zoo_news { NO_NEWS, NEWS_TOLD, NEWS_DROPPED };

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
    struct keeper_look *look;    /* under way */
    struct zoo_ask *prev, *next; /* among the pending, then among the answered */
    char path[];                 /* of the line; looking only */
};

struct zoo_place {
    struct zoo_line *line;
    char token[LOCK_TOKEN_SIZE];
    char uuid[KEEPER_UUID_BYTES];
    struct keeper_node node;
    uint32_t lease_ms, before;
    enum zoo_stage stage;
    bool is_leaving; /* MAKING: it is to be deleted once it is known */
    bool is_unsure;  /* MAKING: the reply was lost */
    bool is_refused; /* LEAVING: it wanted no place, and nobody asks for it any more */
    bool was_held;
    unsigned tries; /* to create it */
    uint64_t czxid;
    uint64_t confirmed_us;     /* sending of the last transaction that proves it */
    uint64_t since_us;         /* unsure, or LEFT */
    enum lock_reply_kind left; /* what GIVE hears */
    unsigned under_way;        /* commands */
    struct zoo_ask *ask;       /* pending; NULL: none */
    enum zoo_news news;        /* in the outbox */
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
    const char *why_no_parents; /* static; NULL: they were there when they were last made */
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
    struct host_told told;
};

/* ---- lock_zookeeper.c ---- */

/* It is pending, and not any more. `why` is static, here and below. */
void zoo_answer(struct zoo_ask *ask, const struct lock_reply *reply);
void zoo_answer_plainly(struct zoo_ask *ask, enum lock_reply_kind kind, const char *why);
/* DROPPED with its reason, or TOLD. */
void zoo_tell(struct zoo_place *place, enum zoo_news news, const char *why);

/* ---- lock_zookeeper_place.c ---- */

/* Each puts the question to the place of its token, which answers it. Taking: false, no memory. */
bool zoo_take(struct zoo_ask *ask, const struct lock_action *action);
void zoo_renew(struct zoo_ask *ask, const struct lock_action *action);
void zoo_give(struct zoo_ask *ask, const struct lock_action *action);

/* The node of that path, or any if it is NULL, is not what it was. */
void zoo_line_changed(void *zookeeper, const char *path);
/* Does what could not be done before; `list`: and lists every line in which something waits. */
void zoo_resume(struct zookeeper *self, bool list);
/* The session is over, and no command is under way. */
void zoo_forget(struct zookeeper *self, const char *why);
void zoo_line_path(const struct zookeeper *self, const char *encoded, char out[ZOO_LINE_PATH_SIZE]);
/* The places and lines that nothing under way names. */
void zoo_free_unused(struct zookeeper *self);

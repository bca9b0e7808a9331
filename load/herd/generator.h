/* SPDX-License-Identifier: MIT */
/*
 * generator.h - one thread full of clients: an epoll loop over its share of the connections and requests. A herd has
 * one in each of its processes (generator_run()), a burst (burst.h) has one to itself.
 *
 * Slots: the requests of a generator are numbered in the order in which they are due; record, lateness and place of
 * request n are element n of three arrays. A slot:
 *
 *     not due --take()--> WAITING for a connection --+--> a link has it --record_end()--> OVER
 *                  +---------------------------------+
 *
 * Links: a link is a place for one connection.
 *
 *     NONE --link_open()--> CONNECTING --+--> IDLE --link_ask()--> ASKED --+--> IDLE, if the connection is kept
 *      ^                        |        +-------------------------+       |
 *      +---- link_drop() -------+-----------------+------------------------+
 *
 *     each is in one list at most: none, connecting, idle (one list per target), leaving (ASKED, about to hang up)
 *
 * Time: requests run out of time in the order of their slots, connections in the order in which they were opened,
 * those who hang up in the order in which they asked: the head of a list tells when the next thing happens.
 *
 *     generator.c         start, loop, events, limits
 *     generator_link.c    connections
 *     generator_ask.c     requests and answers: bytes and records
 *     generator_rate.c    WORK_RATE: when, and over which link      \ each a struct generator_shape
 *     generator_burst.c   WORK_BURST: rounds                        /
 *
 * Threads: one. Memory: all of it is allocated before the first request, but for the heads of responses, once per
 * link. Errors: what makes work impossible ends the process with a reason in its post; anything else is a record.
 */
#pragma once

#include "load/base/http_parse.h"
#include "load/herd/herd_shared.h"
#include "load/herd/work.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/queue.h>

enum {
    GENERATOR_READ_BYTES = 65536,
    GENERATOR_REQUEST_BYTES = 8192,
    GENERATOR_BATCH = 256, /* events taken at a time */
};

/* ---- the number behind a text ---- */

/*
 * Finds the number that follows a text, in a body that comes in pieces.
 *
 *     SEEKING --the whole text--> BEFORE --digit--> INSIDE --no digit--> FOUND
 *        ^                          | neither blank nor quote nor digit
 *        +--------------------------+
 *
 * Blanks and one quote may stand between text and number. The first number counts. No memory is allocated.
 */

enum { VERSION_SEEK_TEXT_MAX = 64 };

/* The text, prepared once. */
struct version_text {
    char text[VERSION_SEEK_TEXT_MAX + 1];
    uint8_t count;
    uint8_t back[VERSION_SEEK_TEXT_MAX]; /* how much of the text still matches when its next byte does not */
};

enum version_state { VERSION_SEEKING = 0, VERSION_BEFORE, VERSION_INSIDE, VERSION_FOUND };

/* One body; all zeros at its begin. */
struct version_seek {
    enum version_state state;
    uint8_t matched;  /* bytes of the text */
    uint32_t version; /* so far; 0: none; what does not fit is UINT32_MAX */
};

/* `text`: 1 to VERSION_SEEK_TEXT_MAX bytes. */
void version_text_init(struct version_text *text, const char *wanted);

void version_seek_feed(struct version_seek *seek, const struct version_text *text, const char *bytes,
                       size_t count);

/* ---- slots and links ---- */

/* Instead of a slot's number. */
static const uint32_t SLOT_NONE = UINT32_MAX, SLOT_OVER = UINT32_MAX - 1;

enum link_state { LINK_NONE = 0, LINK_CONNECTING, LINK_IDLE, LINK_ASKED };

struct ssl_ctx_st;
struct ssl_st;

struct link {
    TAILQ_ENTRY(link) entry;
    struct link_list *list; /* the one it is in, or NULL */
    enum link_state state;
    int fd;             /* owned; -1 in LINK_NONE */
    struct ssl_st *tls; /* owned; NULL: none, or not yet */
    uint32_t serial;    /* of its connections: tells events of an earlier one */
    uint32_t slot;      /* of the request it has, or is opened for; or SLOT_NONE */
    uint8_t target;
    uint8_t tries;   /* burst: connections opened in vain, one after the other */
    uint8_t failure; /* burst: enum record_outcome of the last of them */
    uint64_t opened_us;
    uint32_t connect_us; /* how long that took; 0: a request has told it */
    uint64_t until_us;   /* when its list's time is over */
    struct http_parse parse;
    struct version_seek seek;
    struct generator *generator; /* it belongs to */
};

TAILQ_HEAD(link_queue, link);
struct link_list {
    struct link_queue queue;
    uint32_t count;
};

/* Requests that wait for a connection to one target, linked through `places`. */
struct slot_queue {
    uint32_t first, last; /* SLOT_NONE: empty */
};

struct generator;

/* What differs between burst and rate. */
struct generator_shape {
    /* It is IDLE, and still has the slot that it was opened for. */
    void (*connected)(struct generator *generator, struct link *link);
    /* It is NONE: could not be opened, or was closed while IDLE; it still has its slot, if any. */
    void (*failed)(struct generator *generator, struct link *link, enum record_outcome outcome);
    /* Its request is over: IDLE or NONE, without a slot. */
    void (*freed)(struct generator *generator, struct link *link);
};

/* What a burst wants beside its records; all zeros: nothing. */
struct generator_hooks {
    /* The path of a slot's request instead of the work's URLs; lent until the next call. */
    const char *(*path_of)(void *context, uint32_t slot);
    void *context;
    uint32_t leave_count; /* these first slots hang up after leave_ms, too */
};

struct generator {
    struct generator_hooks hooks;
    const struct herd_job *job;
    const struct work *work;
    struct herd_post *post; /* its own */
    const struct generator_shape *shape;
    struct ssl_ctx_st *tls; /* owned; NULL: no target speaks it */
    int epoll;              /* owned, like all below that is a pointer or a descriptor */
    int schedstat;          /* a herd's only; or -1 */
    int connect_error;      /* burst: errno of the last connection that could not be opened */
    int error;              /* errno of what failed last; 0: the other side ended a connection in order */

    struct link *links;
    uint32_t link_count;
    struct link_list none, connecting, leaving, idle[WORK_TARGETS_MAX];
    uint32_t target_links[WORK_TARGETS_MAX];  /* connections, under way or there, by target */
    uint64_t target_opened[WORK_TARGETS_MAX]; /* ever: deals out the source addresses */
    uint32_t open_count;

    uint32_t *places; /* by slot: SLOT_OVER, the link that has it, or the next slot in its queue */
    struct slot_queue waiting[WORK_TARGETS_MAX];
    uint32_t waiting_count;
    uint32_t taken;            /* slots that have been due */
    uint32_t unended;          /* of those, the ones that are not over */
    uint32_t oldest;           /* all before it are over */
    uint32_t leave_hundredths; /* of the next client that is to leave */

    struct work_chooser chooser;
    struct version_text version_text;
    bool is_head;                    /* the method is HEAD: answers have no body */
    char *endings[WORK_TARGETS_MAX]; /* of requests, by target: " HTTP/1.1\r\nHost: ...\r\n\r\n" */
    char request[GENERATOR_REQUEST_BYTES];
    char *buffer; /* GENERATOR_READ_BYTES */
    struct epoll_event events[GENERATOR_BATCH];

    uint64_t meter_us, meter_cpu_us, meter_starved_us; /* when the meter was started, and what it showed */
};

/* ---- generator.c ---- */

/* Does the work and ends the process. */
_Noreturn void generator_run(const struct herd_job *job);

/* The same without a process of its own. Of `generator` the hooks are the caller's to set, the rest is zeros; false:
 * no memory, no descriptor. Everything is lent until generator_clear(), which must follow in either case. */
bool generator_init(struct generator *generator, const struct herd_job *job);
void generator_clear(struct generator *generator);

/* Waits for events until `until_us` at most; handles them, and what ran out of time. */
void generator_turn(struct generator *generator, uint64_t until_us);

bool generator_is_aborted(const struct generator *generator);

/* Measures the CPU between the two and adds it up in the post. */
void generator_meter_start(struct generator *generator);
void generator_meter_stop(struct generator *generator);

/* ---- generator_link.c ---- */

/* At the end of a list, or at its begin; NULL: in none. */
void link_move(struct link *link, struct link_list *list);
void link_move_first(struct link *link, struct link_list *list);

/* Starts a connection; false with errno: the link stays NONE. It has the slot in either case. */
bool link_open(struct generator *generator, struct link *link, uint8_t target, uint32_t slot);
/* Hangs up. The slot is not touched. */
void link_drop(struct generator *generator, struct link *link);
/* A CONNECTING link is writable or, while it shakes hands, readable. */
void link_connected(struct generator *generator, struct link *link);

/* ---- generator_ask.c ---- */

/* False: no memory. */
bool ask_init(struct generator *generator);

/* Chooses the request of a slot. */
void record_choose(struct generator *generator, uint32_t slot);
/* The slot is due: it counts. */
void record_due(struct generator *generator, uint32_t slot, uint64_t due_us);
/* The slot is over. */
void record_end(struct generator *generator, uint32_t slot, enum record_outcome outcome);

/* Writes the request of link->slot over an IDLE link. */
void link_ask(struct generator *generator, struct link *link);
/* Takes some of what has arrived. */
void link_read(struct generator *generator, struct link *link);
/* Ends the request and the connection. */
void link_fail(struct generator *generator, struct link *link, enum record_outcome outcome);

/* ---- the shapes ---- */

void generator_rate(struct generator *generator);
void generator_burst(struct generator *generator);

/* generator_burst.c, a round by its parts: which slot the link asks next, its record says where; */
void round_place(struct generator *generator, struct link *link, uint32_t slot);
/* connects who is missing, as long as connect_limit_ms allows; */
void round_connect(struct generator *generator);
/* all ask at once; those who could not be connected fail. */
void round_ask(struct generator *generator, uint64_t begin_us);

/* generator_rate.c: takes the first slot off a queue that is not empty. */
uint32_t slot_queue_take(struct generator *generator, struct slot_queue *queue);

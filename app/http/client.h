/* SPDX-License-Identifier: MIT */
/*
 * client.h - one connection of a server loop and the request it is busy with.
 *
 *     FRESH --request line--> HEAD --headers--> READY --guard asked--> ASKED --callback--> ANSWERED --+
 *       ^                      |                 |                       |                    ^       |
 *       |                      |                 |                   not at once         resumed      |
 *     (accepted)               |                 |                       v                    |       |
 *                              |                 |                     PARKED --callback--> WAKING    |
 *     IDLE <--completed-- SENDING <--------------+---- refusals, /ping, response queued --------------+
 *
 *     A request that writes takes HEAD --> BODY --> READY --writer asked--> PARKED.
 *
 *     GONE: the client hung up while the guard owed an answer; freed once the guard has called back and the
 *     connection is closed.
 *
 * ASKED makes hits cheap. In every MHD_run() libmicrohttpd calls the handler of each connection that is neither
 * suspended nor answered, which costs one function call; a suspension and its resumption cost two epoll_ctl(), a
 * write() and a walk over all other suspended connections. So a request is suspended only if the guard has not
 * answered within CLIENT_LOOK_MS or twice that, or if too many are ASKED.
 *
 * Threads: all on the thread of the loop, except the counters, which any thread may read.
 * Lifetime: from accept until the connection is closed and the guard has called back. It calls back exactly once, and
 * so does the writer, so a waiter is resumed exactly once.
 * Time: every state that a client could stay in has an absolute limit, however slowly its bytes drip in; in BODY it
 * grows with the bytes received, in ASKED and PARKED it is the guard's own deadline. A stall of the loop itself,
 * whose process may be stopped or its machine stand still, counts as CLIENT_STALL_MS, however long it was. Memory:
 * the bodies received by one loop are bounded. When their room is full, the one that has been arriving for longest
 * makes way: a body that is sent at once is never in the way. A document of many products is kept until its reader
 * has it, so those of one loop share a budget (CLIENT_ANSWERS_BYTES_MAX). One that does not fit displaces larger ones
 * and those that have been read for longer than CLIENT_SLOW_MS, oldest first, by closing their connections; if that
 * is not enough it is refused. A single one may exceed the budget. So no client can keep others from reading by not
 * reading itself.
 */
#pragma once

#include "app/base/token.h"
#include "app/http/account.h"
#include "app/http/reply.h"
#include "app/http/route.h"
#include "guard/guard.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <uv.h>

struct clients;
struct selection;
struct write_job;
struct writer;

enum {
    CLIENT_UPLOADS_BYTES_MAX = 16 << 20, /* of one loop: bodies being received */
    CLIENT_BODY_LEAST_MS = 5000,         /* a body has this long, */
    CLIENT_BODY_BYTES_A_MS = 8,          /* and one more millisecond for every so many bytes received */
    CLIENT_ANSWERS_BYTES_MAX = 32 << 20, /* of one loop: answers to /products?ids= being sent */
    CLIENT_SLOW_MS = 1000,               /* an answer that is read for longer makes way for others */
    CLIENT_LOOK_MS = 2,                  /* a request stays ASKED for about this long */
    CLIENT_LOOK_MAX = 512,               /* and at most so many are */
    CLIENT_STALL_MS = 500,               /* a loop that turns sweeps more often */
};

enum client_state {
    CLIENT_FRESH,    /* accepted; its first request line has not come */
    CLIENT_HEAD,     /* the request line is here, the headers are not */
    CLIENT_BODY,     /* the headers of a write are here, its body is not */
    CLIENT_READY,    /* all of the request is here */
    CLIENT_ASKED,    /* the guard was asked; libmicrohttpd looks again every turn */
    CLIENT_PARKED,   /* the guard or the writer has not answered yet; suspended */
    CLIENT_WAKING,   /* answered; waits for its turn to be resumed */
    CLIENT_ANSWERED, /* the result is here; libmicrohttpd will ask for the response, or is asking */
    CLIENT_SENDING,  /* the response is queued */
    CLIENT_IDLE,     /* between two requests */
    CLIENT_GONE,
    CLIENT_STATE_COUNT
};

struct client {
    struct client *prev, *next; /* in its state's list, oldest first */
    struct clients *clients;
    struct MHD_Connection *connection; /* libmicrohttpd's; NULL once GONE */
    uint64_t since_ms;                 /* when it came into its state, by the clients' time */
    guard_ticket ticket;               /* ASKED, PARKED */
    struct guard_result result;        /* WAKING, ANSWERED; its value is ours */
    struct selection *selection;       /* of /products?ids=, else NULL; ours */
    struct prepared *prepared;         /* SENDING: what is sent, if it was prepared; else NULL */
    struct write_job *job;             /* from BODY on; ours, except while PARKED: the writer's */
    size_t answer_bytes;    /* SENDING: the size of a document made for this answer alone; else 0 */
    struct account account; /* what is noted of its request */
    struct route route;
    const char *uri_end; /* HEAD: see struct strict_line */
    uint8_t state;       /* enum client_state */
    uint8_t verdict;     /* enum route_verdict of the request line */
    bool looked_at;      /* in its present state, for a lost FIN */
    bool ended;          /* its socket was shut down, at least our half */
    bool expired;        /* because it took too long, or to make room */
    bool forgotten;      /* GONE: by libmicrohttpd or by the guard */
    bool revalidates;    /* this request asks past the cache */
    bool is_conditional; /* it has an If-None-Match */
};
_Static_assert(sizeof(struct client) <= 192, "a waiter must stay small");

/* Answers by route and by the hundreds of the status. */
enum { CLIENT_STATUS_CLASSES = 6 };
struct client_counters {
    _Atomic uint64_t answers[ROUTE_TARGET_COUNT][CLIENT_STATUS_CLASSES];
    _Atomic uint64_t expired; /* connections closed at their limit, or to make room */
};

/* What the clients of all loops of one server share. */
struct client_shared {
    struct guard *guard; /* lent, like the kinds and the writer */
    struct guard_kind *kinds[ROUTE_TARGET_COUNT];
    struct writer *writer;     /* NULL: writes are off */
    struct access_log *access; /* NULL: there is none */
    struct token revalidate;   /* of requests whose no-cache counts; without one it never does */
    uint32_t connections_max;
    size_t shelf_bytes_max; /* of each loop */
    _Atomic uint32_t fresh_ms;
    _Atomic uint32_t connection_count;
};

/* The clients of one loop and what they have in common. */
struct clients {
    /* set by the loop before the first client */
    struct client_shared *shared; /* lent */
    uv_loop_t *uv;                /* lent */
    struct access_lane *lane;     /* lent; NULL: there is no access log */
    uint64_t dice;                /* of the ids that requests are given */

    /* the loop's thread */
    struct guard_loop *guard; /* NULL while it is detaching */
    uv_idle_t idle;           /* active: the next turn must not block */
    uv_timer_t look;          /* active: clients in ASKED are looked at again soon */
    bool is_due;              /* MHD_run() is needed before */
    bool is_leaving;          /* connections end with their next answers */
    struct shelf shelf;
    size_t upload_bytes; /* room for bodies in all jobs that clients hold */
    size_t answer_bytes; /* of all their documents */
    struct client *list[CLIENT_STATE_COUNT];
    uint64_t time_ms;   /* the clients' time: without our stalls, */
    uint64_t looked_ms; /* and uv_now() when it was last looked at */
    uint64_t line_ms;   /* uv_now() when a request line was last read */

    uv_async_t written_request; /* any thread: the writer has finished some jobs */
    pthread_mutex_t written_lock;
    struct write_job *written; /* under written_lock */

    /* any thread may read */
    _Alignas(64) _Atomic uint32_t count[CLIENT_STATE_COUNT];
    struct client_counters counters;
};

/* MHD_run() is needed before the loop may block again. */
void client_due(struct clients *clients);
/* MHD_run() is needed in so many milliseconds, for those that are ASKED. */
void client_look_in(struct clients *clients, uint64_t in_ms);

/* Callbacks for libmicrohttpd; their context is the clients, the slot is where it keeps the client. */
void client_notified(void *context, struct MHD_Connection *connection, void **client_slot,
                     enum MHD_ConnectionNotificationCode code);
void *client_request_line(void *context, const char *uri, struct MHD_Connection *connection);
enum MHD_Result client_handle(void *context, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *body, size_t *body_bytes,
                              void **client_slot);
/* The logger of libmicrohttpd. */
void client_complained(void *context, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));
void client_completed(void *context, struct MHD_Connection *connection, void **client_slot,
                      enum MHD_RequestTerminationCode code);

/* Takes over the finished writes; on the loop's thread. */
void client_take_written(struct clients *clients);

/* Resumes up to `count_max` of those in WAKING; returns how many. MHD_run() must follow. */
unsigned client_wake(struct clients *clients, unsigned count_max);
/* Shuts down the socket of the client that has gone longest without a complete request; if there is none, of the one
 * that has been reading an answer for longest, if that is more than CLIENT_SLOW_MS. */
void client_make_way(struct clients *clients);
/* Shuts down the sockets of clients that are past their limit or have left unnoticed. Every LOOP_TICK_MS, behind an
 * MHD_run(): what has arrived is read. */
void client_sweep(struct clients *clients);
/* Those in this state. */
static inline uint32_t client_count(const struct clients *clients, enum client_state state)
{
    return atomic_load_explicit(&clients->count[state], memory_order_relaxed);
}
/* Clients with a request that is not completely answered. */
uint32_t client_busy_count(const struct clients *clients);
/* All that are connected. */
uint32_t client_connection_count(const struct clients *clients);
/*
 * Tells clients without a request that no answer will come any more (a half-close, so that nothing is reset if one of
 * them is sending just then), except those whose next request is there already. They hang up when they notice.
 */
void client_say_goodbye(struct clients *clients);

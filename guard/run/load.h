/* SPDX-License-Identifier: MIT */
/*
 * load.h - one running load, as its loader sees it: the handle, its verdict, and the desk where it is handed in.
 *
 *                      its loader returned                                 finished
 *   o---> on a thread ---------------------> told as deferred: DEFERRED ----------------> told, the owner's to free
 *              |                                                                               ^
 *              +------------------------- finished before it returned -------------------------+
 *
 * What is told is told by a struct finished_load, in this order. The handle of a load that nobody asks for any more is
 * freed by the call that finishes it.
 *
 * Threads   The thread that runs the loader; once it is deferred, any one thread at a time. guard_load_cancelled() any.
 * Locking   The desk's mutex guards the table, the bells and what the fields say. Nobody else's code runs under it. It is
 *           taken after that of the workers, and nothing is taken under it.
 * Lifetime  The desk outlives the guard: it goes with its last handle.
 */
#ifndef GUARD_LOAD_H
#define GUARD_LOAD_H

#include "../core/core.h"
#include "../wire/envelope.h"
#include "bell.h"
#include "get.h"
#include <pthread.h>
#include <stdatomic.h>

struct guard_loop;
struct nested;

struct finished_load {
    struct finished_load *next; /* for the owner's list */
    uint64_t load;
    bool deferred; /* it is not finished, and not the owner's: its loader has returned */
    struct core_loaded loaded;
    const char *key;
    const char *breach; /* what the loader did against its contract, a static text; NULL: nothing */
};

/* `finished`, a list, is the owner's then, for finished_load_free() of each. On a load thread, or on the one that has
 * finished a deferred load. Calls no function of the workers: a thread that ends is waited for under their mutex. Not
 * after desk_close() returned. */
typedef void load_done(void *context, struct finished_load *finished);
void finished_load_free(struct finished_load *finished);

enum { DESK_SLOTS = 512 };

struct desk {
    pthread_mutex_t mutex;
    pthread_cond_t quiet; /* `inside` has become 0 */
    load_done *done;      /* NULL: the guard is gone */
    void *context;
    uint32_t refs;   /* the guard's, and one of each handle */
    uint32_t inside; /* calls that need the guard: of done(), or to refuse something */
    struct guard_load *by_id[DESK_SLOTS];
};

/* What a load thread has of its loads. */
struct load_thread {
    struct guard_load *first; /* of the batch that runs; only on its own thread; NULL: none runs */
    struct bell *bell;        /* of all that it runs; under the desk's mutex; NULL: none has asked for one */
};

/* Both texts are copied. */
struct job {
    uint64_t load;
    const char *key;
    size_t key_bytes;
    const struct guard_policy *policy;
    uint64_t deadline_us;
    uint64_t lender;    /* a load that runs, waits and lends its thread; 0: none, any worker takes it */
    uint32_t depth;     /* loads that it is nested in */
    struct asker asker; /* of its starter; the handle has a reference of its own */
    const char *previous_validator; /* NULL: nothing to compare with */
    uint64_t batch;                 /* 0: alone; otherwise it joins the job before, if that had the same */
};

struct guard_load {
    struct finished_load result; /* first: what the owner gets is freed as a guard_load */
    struct finished_load deferral;
    struct desk *desk;
    struct guard_load *mate; /* the next of its batch */
    uint64_t deadline_us, start_us;
    const struct guard_policy *policy; /* the guard's: not once it is deferred */
    struct load_thread *thread;        /* that runs it; NULL: none */
    struct guard_load *parent;         /* waits for this one on the same thread; NULL: none */
    struct nested *nested; /* its loader waits for another key; under the workers' mutex; NULL: it does not */
    uint32_t depth;        /* loads that it is nested in */
    bool deferred;         /* set in its loader, which hands it on */
    atomic_bool cancelled;
    bool doomed; /* it fails, whatever it says */
    bool kept;   /* the loader has said the next one */
    struct guard_keep keep;
    struct asker asker; /* one reference is ours */

    /* under the desk's mutex; `finished` is its thread's until it is deferred */
    struct guard_load *id_prev, *id_next; /* in the table */
    struct guard_load *prev, *next;       /* in a list of its loop; queued: in the workers' */
    bool finished;
    bool returned;                  /* deferred: its verdict is handed in at once */
    bool told;                      /* the guard knows that it is deferred: from here on it may call back */
    bool quit;                      /* its bells know that it is not wanted any more */
    struct bell *bell, *batch_bell; /* its own; one with its batch and its thread's next loads; NULL */
    struct guard_loop *loop;        /* that it is deferred to; NULL: any thread */
    enum { IN_NO_LIST, IN_DEFERRED, IN_CANCELLED } listed; /* of the loop */
    bool loop_gone;                                        /* a failure says nothing about the source */
    void (*on_cancel)(void *context);                      /* NULL: none, or it was called */
    void *on_cancel_context;

    bool has_previous;
    char previous_validator[ENVELOPE_VALIDATOR_MAX + 1];
    size_t tags_bytes;
    char *tags; /* room for TAGS_TEXT_MAX and NUL behind the key if its kind is tagged; else NULL */
    char key[]; /* owned */
};

/* A load that needs a key: the request is nested, until the load's own deadline at most, and never from the near cache. */
struct parent_load {
    uint64_t load, deadline_us;
};

/* ---- the desk ---- */

/* NULL: no memory. */
struct desk *desk_open(load_done *done, void *context);
/* False: the guard is gone. True: it stays until desk_leave(). */
bool desk_enter(struct desk *desk);
void desk_leave(struct desk *desk);
/* From now on nothing is told. */
void desk_close(struct desk *desk);
/* Gives the guard's reference back. */
void desk_unref(struct desk *desk);

/* ---- loads ---- */

/* A handle for the job, in the table. NULL: no memory. */
struct guard_load *load_new(struct desk *desk, const struct job *job);
/* It was never run. */
void load_free(struct guard_load *load);
/* With the mutex held; NULL: it is over. */
struct guard_load *load_find(const struct desk *desk, uint64_t load);
/* The loader of this batch has returned, or its thread ends: tells what is over, then what is deferred. */
void load_returned(struct guard_load *first, bool thread_ends);

/* On the guard's thread; a load that is over is ignored. */

/* Tells the loader. */
void load_cancel(struct desk *desk, uint64_t load);
/* The guard has heard that it is deferred. */
void load_told(struct desk *desk, uint64_t load);
/* False: it is over. Copies the beginning of its key. */
bool load_key_of(struct desk *desk, uint64_t load, char *key, size_t key_size);

/* ---- for defer.c, with the mutex held ---- */

void load_unwanted(struct guard_load *load);
void load_leave_loop(struct guard_load *load);
/* Its descriptor is its own from here on. */
void load_keep_bell(struct guard_load *load);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * load.h - one running load, as its loader sees it: the handle, its verdict, and the desk where it is handed in.
 *
 *                    its loader
 *     verdict        RUNS              DEFERRED               LEFT, its loader has returned
 *     NONE           returns: fails    returns: LEFT, told    waits
 *     COMING         returns: LEFT     returns: LEFT, told    is handed in as soon as it is HERE
 *     HERE           returns: over     returns: over          over: told, the owner's to free
 *
 * A verdict may come on any thread, and before, while or after its loader defers: NONE becomes COMING under the
 * mutex, so only the first counts; what it brings is copied without the mutex, and then it is HERE. Told is a struct
 * finished_load, that it is deferred before its verdict. The handle of a load that nobody asks for any more is freed
 * by the call that finishes it.
 *
 * Flags     None moves a load in this table; each is set once, under the mutex, and stays.
 *             cancelled  nobody wants it any more. Its loader is told; its verdict is taken all the same
 *             quit       its bells know: it was cancelled, or it is over
 *             doomed     a call about it was wrong: it is handed in as INTERNAL, whatever its verdict
 *             left       cancelled because its loop goes or has not begun it, or its caller's deadline has passed: if
 *                        it fails it is handed in as unwanted, and others load
 *             heard      only DEFERRED or LEFT: the guard has seen that it is deferred, ahead of being told
 *             told       only LEFT: the guard has been told that it is deferred; cancelled() may be called now
 *
 * Handles   A struct guard_load is no address: it is the number of its desk and of its load there. A load that is
 *           over is not found, whatever is at its address by then, and the desk knows who is to hear of that.
 * Threads   The thread that runs the loader; those that finish it; guard_load_cancelled() any.
 * Locking   One mutex, desk_lock(), guards the tables of all desks, the bells and what the fields say. Nobody else's
 *           code runs under it. It is taken after that of the workers, and before that of a thread that waits.
 * Lifetime  The desk outlives the guard: it goes with its last handle.
 */
#pragma once

#include "../core/core.h"
#include "../wire/envelope.h"
#include "get.h"
#include <pthread.h>

struct blocking;
struct loop;

/* A descriptor that becomes readable when no load that has it is wanted any more. Made only if a loader asks for
 * one. */
struct bell {
    int fd; /* an eventfd */
    uint32_t refs;
    uint32_t wanted; /* loads that have it and are wanted */
};

struct finished_load {
    struct finished_load *next; /* for the owner's list */
    uint64_t load;
    bool deferred; /* it is not finished, and not the owner's: its loader has returned */
    bool heard;    /* that it is, before its loader has; on the guard's thread */
    struct core_loaded loaded;
    const char *key;
    const char *breach; /* what the loader did against its contract, a static text; NULL: nothing */
};

/* `finished`, a list, is the owner's then, for finished_load_free() of each. On a load thread, or on the one that has
 * finished a deferred load. Calls no function of the workers: a thread that ends is waited for under their mutex. Not
 * after desk_close() returned. */
typedef void load_done(void *context, struct finished_load *finished);
void finished_load_free(struct finished_load *finished);
/* A call of a loader, or about a load, is wrong. On any thread. */
typedef void load_refused(void *context, const char *function, const char *wrong);

enum { DESK_SLOTS = 512, SAID_KEY_BYTES = 100, SAID_KEY_SIZE = SAID_KEY_BYTES + sizeof "..." };

struct desk {
    struct desk *prev, *next; /* all of the process */
    uintptr_t number;         /* no other's that is there; in its handles */
    uintptr_t last;           /* handle */
    pthread_cond_t quiet;     /* `inside` has become 0, or a cancelled() has returned */
    load_done *done;          /* NULL: the guard is gone */
    load_refused *refused;
    void *context;
    uint32_t refs;   /* the guard's, and one of each load */
    uint32_t inside; /* calls that need the guard: of done() or refused() */
    struct running_load *by_id[DESK_SLOTS], *by_handle[DESK_SLOTS];
};

/* A load that the core wants. */
struct job {
    const struct core_action *action; /* CORE_LOAD; what it points to is copied */
    struct asker asker;               /* of its starter; the handle has a reference of its own */
    struct blocking *caller; /* the thread that waits and runs it, unless it runs another; NULL: none */
    bool of_refresh;         /* of guard_refresh(): where its loop is gone, it is not to be tried again */
};

/* Its loader. */
enum load_stage {
    LOAD_RUNS,
    LOAD_DEFERRED, /* likewise, and has said that the load is finished later */
    LOAD_LEFT,     /* has returned, and the guard is told */
};

enum load_verdict {
    VERDICT_NONE,
    VERDICT_COMING, /* the call that finishes it is under way */
    VERDICT_HERE,
};

struct running_load {
    struct finished_load result; /* first: what the owner gets is freed as a running_load */
    struct finished_load deferral;
    struct desk *desk;
    struct guard_load *handle; /* no address */
    struct running_load *mate; /* the next of its batch */
    uint64_t deadline_us, start_us;
    const struct guard_policy *policy; /* the guard's: not once it is deferred */
    struct running_load *parent;       /* waits for this one on the same thread; NULL: none */
    uint32_t depth;                    /* loads that it is nested in */
    struct asker asker;                /* one reference is ours */
    uint64_t begin_by_us;              /* of one that waits for its loop */
    /* of its batch; NULL: its loader does not run. Set on its thread before that sees the handle, cleared under the
     * mutex */
    struct running_load *first;

    /* under the mutex */
    struct running_load *id_prev, *id_next, *handle_prev, *handle_next; /* in the tables */
    struct running_load *prev, *next; /* in a list of its loop; queued: in the workers' */
    enum load_stage stage;
    enum load_verdict verdict;
    bool cancelled;
    bool doomed; /* it fails, whatever it says */
    bool kept;   /* the loader has said the next one */
    struct guard_keep keep;
    bool told;                      /* the guard knows that it is deferred: from here on it may call back */
    bool quit;                      /* its bells know that it is not wanted any more */
    struct bell *bell, *batch_bell; /* its own; one with its batch; NULL */
    struct blocking *waits;         /* its loader for another key, and lends its thread; NULL: it does not */
    struct loop *loop;              /* in whose list it is; NULL: in none */
    struct running_load **list;     /* unbegun, deferred or cancelled of that */
    bool left;                      /* a failure says nothing about the source */
    void (*on_cancel)(void *context); /* NULL: none, or it was called */
    void *on_cancel_context;
    bool calling; /* cancelled() runs, on this thread: */
    pthread_t caller;

    bool has_previous;
    char previous_validator[ENVELOPE_VALIDATOR_MAX + 1];
    bool needs_meta;
    size_t meta_bytes;
    char *meta; /* owned; NULL: none */
    size_t tags_bytes;
    char *tags; /* room for TAGS_TEXT_MAX and NUL behind the key if its kind is tagged; else NULL */
    char key[]; /* owned */
};

/* A load that needs a key: the request is nested, until the load's own deadline at most, and never from the near
 * cache. */
struct parent_load {
    uint64_t load, deadline_us;
};

/* ---- the desk ---- */

/* NULL: no memory, or no number. */
struct desk *desk_open(load_done *done, load_refused *refused, void *context);
/* From now on nothing is told. */
void desk_close(struct desk *desk);
/* Gives the guard's reference back. */
void desk_unref(struct desk *desk);
/* Of all desks. */
void desk_lock(void);
void desk_unlock(void);
/* Says what is wrong with a call, if the handle's guard is still there, whatever became of its load; INVALID. */
enum guard_status desk_refuse(const struct guard_load *handle, const char *function, const char *wrong);

/* ---- loads ---- */

/* A handle for the job, in the tables. NULL: no memory. */
struct running_load *load_new(struct desk *desk, const struct job *job);
/* It was never run. */
void load_free(struct running_load *load);
/* With the mutex held; NULL: it is over. */
struct running_load *load_find(const struct desk *desk, uint64_t load);
struct running_load *load_of(const struct guard_load *handle);
/* The loader of this batch has returned, or its thread ends: tells what is over, then what is deferred. */
void load_returned(struct running_load *first, bool thread_ends);

/* A key as the guard says it, cut if it is long. */
void load_say_key(const char *key, char said[SAID_KEY_SIZE]);
/* Loads whose loaders have not returned. Says the key of the last: a nested one holds up its outer one. */
uint32_t load_still_running(struct desk *desk, char said[SAID_KEY_SIZE]);

/* On this thread: calls its loader, which has returned then. */
void load_run_here(struct running_load *load);
/* With the mutex held: its loader will not be called, others may load. For load_hand_in(). */
void load_give_back(struct running_load *load, struct finished_load **over);
void load_hand_in(struct desk *desk, struct finished_load *list);

/* On the guard's thread; a load that is over is ignored. */

/* Tells the loader. */
void load_cancel(struct desk *desk, uint64_t load);
/* Likewise: the thread that waited for it and runs it has its answer. */
void load_leave(struct desk *desk, uint64_t load);
/* Those that their loops have not begun in time. */
void load_give_back_late(struct desk *desk, uint64_t now_us);
/* True, once: it is deferred, and its loader has not returned or that is still on its way to the guard. */
bool load_hear_deferral(struct desk *desk, uint64_t load);
/* The guard has heard that it is deferred, and its loader has returned. */
void load_told(struct desk *desk, uint64_t load);
/* False: it is over. */
bool load_key_of(struct desk *desk, uint64_t load, char said[SAID_KEY_SIZE]);

/* ---- for defer.c, with the mutex held ---- */

void load_unwanted(struct running_load *load);
/* Into one of the lists of the loop, which the caller wakes if it is to do something. It must be in none. */
void load_enter_loop(struct running_load *load, struct loop *loop, struct running_load **list);
void load_leave_loop(struct running_load *load);
/* Its descriptor is its own from here on. */
void load_keep_bell(struct running_load *load);
/* Calls cancelled(), once, without the mutex meanwhile. A verdict on another thread waits for it. */
void load_call_back(struct running_load *load);

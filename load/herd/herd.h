/* SPDX-License-Identifier: MIT */
/*
 * herd.h - the clients of a run: several generator processes that connect, wait at one barrier, and ask.
 *
 *     herd_start()    checks descriptors and addresses, starts the processes; they connect
 *     herd_release()  the barrier: one instant, in shared memory, at which all of them begin
 *     herd_watch()    again and again, from the caller's loop: how far it is
 *     herd_end()      all records, and how hard the generators had to work
 *     herd_abort()    before the end: no further request leaves, what is under way is recorded as it stands
 *
 * A generator is one thread of one process ("stampede-gen" in ps) with its own epoll, so that the cores of the
 * machine are used and no lock is shared. Each writes its records into memory that it shares with the program, so
 * that they are there even if it is killed. Generators do not hear SIGINT, SIGTERM and SIGHUP: the program decides;
 * and they are killed when it dies. Where it is allowed they run before others (nice -10): a service on the same
 * machine must not decide when its clients ask.
 *
 * Threads: all functions from one thread, which must live on: Linux takes the end of the *thread* that started a
 * process for its parent's death. herd_abort() also from a signal handler.
 * Errors: false, and the reason in `why`. What happens to a single request stands in its record.
 */
#pragma once

#include "load/herd/record.h"
#include "load/herd/work.h"

struct herd;

/* Was the generator itself the bottleneck? Measured where it cannot hide: in the generators. */
struct herd_strain {
    uint32_t generator_count;
    double busiest; /* CPU time / time of the busiest generator, 0 to 1; burst: of the rounds' time */
    double starved; /* ready to run without a free core / time, of the one worst off, 0 to 1 */
    /* Of all requests: how long after its due time one left, or that it waited in vain. */
    uint64_t late_p99_us;
    uint64_t late_max_us;  /* ... in rate; in a burst the same as spread_us, from the barrier on */
    uint64_t late_count;   /* those that were later than 1 ms */
    uint64_t waited_count; /* rate: those for which no connection was free */
    uint64_t spread_us;    /* burst: from the first request written to the last; worst round */
    bool is_bottleneck;
    char verdict[320]; /* one or two sentences with the numbers; what to do about it */
};

/* Sums over all generators, up to now. */
struct herd_progress {
    bool connected; /* everybody who must be connected before the barrier is, or has failed */
    bool finished;  /* all have ended, or have had more time than the work allows: herd_end() kills those */
    uint64_t due, sent, answered; /* requests */
    uint64_t failed;              /* ended without an answer; not those that were told to hang up */
    uint32_t open_connections;
    uint64_t errors_5xx;
};

/*
 * The work is copied. Says before anything starts when the limit of open files or the range of local ports is too
 * small, with the command that raises it, and when a target does not answer at all (refused, unreachable) or
 * answers something else than HTTP.
 */
bool herd_start(const struct work *work, struct herd **out, char why[static WORK_WHY_BYTES]);

/* What the reader of a report should know of how it was started; "" if nothing. Lent until herd_end(). */
const char *herd_note(const struct herd *herd);

/*
 * Waits until everybody is connected or cannot be (at most connect_limit_ms); *begin_us is the instant of the
 * barrier, a few milliseconds from now. Burst: further rounds need no release; the last generator to be ready for
 * one names its instant.
 */
bool herd_release(struct herd *herd, uint64_t *begin_us, char why[static WORK_WHY_BYTES]);

/* Of a work that holds its rounds: when the next one may begin, as it stands; 0: not yet, or there is none. */
uint64_t herd_due_us(struct herd *herd);
/* Its instant: HERD_AHEAD_US from now at least. The first one, too: then herd_release() begins no earlier. */
void herd_next(struct herd *herd, uint64_t instant_us);

void herd_watch(struct herd *herd, struct herd_progress *out);
void herd_abort(struct herd *herd);

/*
 * Waits for the generators (bounded by the work's own limits; to stay in charge, watch until `finished` before).
 * A generator that died is an error, and what all of them recorded is in *out all the same. Leaves NULL.
 */
bool herd_end(struct herd **herd, struct records *out, struct herd_strain *strain,
              char why[static WORK_WHY_BYTES]);

/* ---- limits: herd_limits.c ---- */

/*
 * Can this machine do the work? Asked before anything starts.
 *
 * Errors: false, and in `why` what is too small, and the command that changes it.
 */

/* Puts numbers in place of the zeros of generator_count and source_count. */
void herd_limits_choose(struct work *work);

/* Open files (the limit is raised as far as allowed), local ports, memory. */
bool herd_limits_check(const struct work *work, char why[static WORK_WHY_BYTES]);

/*
 * Does each target accept a connection, and if it says something, is it HTTP? Asks OPTIONS *, which loads nothing.
 * One that hangs up on that is asked a request of the run, if it is a GET or HEAD; then `note` says so, otherwise it
 * is "".
 */
bool herd_probe(const struct work *work, char note[static WORK_WHY_BYTES], char why[static WORK_WHY_BYTES]);

/* ---- queues of listening sockets: backlog.c ---- */

/*
 * Did the queue of a listening socket overflow? The kernel then drops what opens a connection; the client asks
 * again after 1 s, 3 s, 7 s, and it looks as if the service were slow, or hung.
 *
 *     backlog_look() ---> the run ---> backlog_judge()
 *
 * Of targets on this machine only: how long a queue is (its listen() says) comes from the kernel's socket
 * diagnostics, as ss has it, how often queues overflowed from /proc/net/netstat. That number is of all listening
 * sockets, so nothing is said of a queue that was long enough. What cannot be read is not judged.
 */

enum { BACKLOG_TEXT_BYTES = 400 };

struct backlog {
    bool is_known;
    uint64_t overflows;                /* since the machine was started */
    uint32_t places[WORK_TARGETS_MAX]; /* 0: not known */
};

void backlog_look(const struct work *work, struct backlog *out);
/* "": no queue of a target is known to have overflowed since. */
void backlog_judge(const struct backlog *before, const struct work *work, const struct records *records,
                   char text[static BACKLOG_TEXT_BYTES]);

/* ---- was the generator itself the bottleneck?: strain.c ---- */

/*
 * What is said is what was measured. That a generator was late does not tell who took the core: on a machine that
 * also runs the service, or other programs, `starved` says how much of it was waiting for one.
 */
struct herd_job;

/* All but the verdict. `jobs`: generator_count of them; `records`: of all, by due time. */
void strain_measure(const struct work *work, const struct herd_job *jobs, const struct records *records,
                    struct herd_strain *out);

/* Adds the verdict. The latencies of all answers are what a lag, or a burst's spread, is large or small against. */
void strain_judge(const struct work *work, uint64_t request_count, uint64_t median_us, uint64_t p99_us,
                  struct herd_strain *strain);

/* The smallest number that `percent` of count numbers do not exceed (nearest rank), less 1; zeros do not count. */
uint32_t strain_rank(const uint32_t *const *lists, const uint32_t *counts, size_t list_count, double percent);

/* SPDX-License-Identifier: MIT */
/*
 * advanced.h - what most backends do without: loops, many keys at once, answers kept in another way, deferred and
 * nested loads, policies that change, limits for a whole fleet, a rehearsal. Part of guard.h, which includes it.
 */
#ifndef GUARD_ADVANCED_H
#define GUARD_ADVANCED_H

#ifndef GUARD_H
#error "include guard.h"
#endif

/*
 * ---- loops ----
 *
 * For a host with an event loop: a header of adapters/ attaches the guard to it (libuv, libevent, libev, yours). The
 * loop has a Redis connection of its own. A hit is looked up over it and answered without a second thread; the rest
 * goes to the guard's thread, and its answer comes back on this loop.
 *
 * Attach, detach and name a loop only on the thread that runs it; only guard_load_defer() and guard_refresh() name it
 * elsewhere.
 * A detached loop may be named until guard_close(), because a loader cannot know: requests are CLOSING then. That
 * takes some 50 bytes.
 */

/* Answers with CLOSING what still waits here, waits for changes that name the loop (until their deadline_ms), closes
 * the loop's handles, then calls `detached`: run the loop until then. Leaves NULL. */
GUARD_API void guard_loop_detach(struct guard_loop **loop, void (*detached)(void *context), void *context);

/*
 * ---- many keys at once ----
 *
 * One request and one answer for up to GUARD_MANY_MAX keys of one kind; a key may come more than once. All are
 * accepted or none. Each key counts as a get, in max_waiters and in the statistics.
 *
 * Flow      The near cache answers what it can; the other lookups leave in one write. Every key that misses has a
 *           lease and an outcome of its own, and every promise holds for it, as if requested singly. One call of the
 *           policy's batch_loader (or several, of batch_max keys each) loads those whose leases this process gets,
 *           and one write stores them. So n cold keys are one query and three round trips to Redis; n fresh ones are
 *           one round trip.
 * Result    guard_get_wait() sets results[0..count), each value yours. It returns OK, or why nothing was asked, which
 *           every result says, too. Of a single key, also as a list of one, it returns the result's status.
 * Deadlock  None: a key whose lease this process has waits for no other key, only for a place and its loader, and
 *           before that at most for Redis's replies to the same write. Two processes with overlapping keys, in any
 *           order, each load those whose leases they got and wait for the rest.
 * Together  What has to wait for a worker or a permit leaves together, from different requests too, for one key or
 *           many. The oldest load that may begin takes along what is queued under the same policy, up to batch_max:
 *           first what requests wait for, then background refreshes. Nothing waits in order to be in a query: a load
 *           that finds a free worker goes to the loader alone.
 * Query     Each load keeps its lease, outcome and limits. The query has one thread, one permit, one place, and the
 *           shortest time of its loads; a cancelled load has them until the query is over.
 * Alone     Never with others: what passes, what another load waits for, all in mode OFF or under a policy that says
 *           `apart`.
 *
 * A batch loader loads loads[0..count), lent until it returns, with one query, on one thread. count is 2..batch_max.
 * All are of its policy and their keys differ, but in mode OFF. It finishes each as a guard_loader does its one; what
 * it leaves unfinished fails as INTERNAL. guard_load_left_ms() is that of the whole batch. guard_load_cancelled()
 * says which keys are no longer wanted; the others go on. guard_load_cancel_fd() is the same for all: readable when
 * no result is wanted.
 *
 * If all fail as REJECTED or INTERNAL it may be one key's fault: none has failed yet, and the query is made again by
 * halves until that key stands alone. Once 15 of its queries have failed so and none has brought anything, the rest
 * fails, too. UNAVAILABLE and TIMEOUT are the source's: all fail. guard_load_get() may ask
 * for a key of the same call: it leaves the call and is loaded by itself on this thread; what the call brings for it
 * is dropped. Only a key that needs itself is a CYCLE.
 */

/* ---- how an answer is kept ---- */

/*
 * How the answer of this load is kept, instead of the policy's way. Call it before the load is finished, for a value,
 * an absent row or an unchanged value; the last call counts. Without it an unchanged value keeps the life that it
 * had. In a batch each key has its own. INVALID, and the load fails as INTERNAL: no such guard_how, or the load is
 * finished.
 *
 *            answers                                                      is cached
 *     STORE  all                                                          for its own fresh_ms and stale_ms
 *     SHARE  those in the fleet that waited, and began before its query   not; what is cached stays
 *     PASS   the request that started it, no other                        not; a mark of pass_ms takes its place
 *     HERE   those of this process that waited, as STORE with two zeros   not; kept here for an outage
 *
 * STORE  fresh_ms and stale_ms travel with the entry and hold for every reader, whatever its policy says. Jitter
 *        applies. Cut to max_value_ms, and counted (keep_cut). An absent row has no stale time. If both are 0 nothing
 *        is stored and what is cached stays: the answer is for the requests of this process that wait and began
 *        before its query.
 * SHARE  Elsewhere it also answers a request that began later, if nothing was invalidated between that and the end of
 *        the load: as a stored value would. The answer travels with the message that the lease is free, up to
 *        max_value_bytes, whatever push_bytes says. A process that misses the message loads by itself.
 * PASS   The others ask again; a background load that passes answers nobody. While the mark stands, every request
 *        loads at once, without a lease and without lining up for another load, with a place and a permit like any
 *        load. Such loads take at most half of the places that may queue. Invalidation and expiry remove the mark. A
 *        load without a lease leaves no mark; its waiters load by themselves at once. A failure is nobody's secret:
 *        it answers all.
 * HERE   fresh_ms and stale_ms count as if it were stored: see "outage".
 */
enum guard_how { GUARD_STORE = 0, GUARD_SHARE, GUARD_PASS, GUARD_HERE };

#define GUARD_POLICY_MS UINT32_MAX /* what the policy says; 0 means 0 */

struct guard_keep {
    enum guard_how how;
    uint32_t fresh_ms, stale_ms; /* STORE; of an absent row fresh_ms stands for absent_ms */
    uint32_t pass_ms;            /* PASS; GUARD_POLICY_MS: the policy's failure_ms; 0: no mark */
};
GUARD_API enum guard_status guard_load_keep(struct guard_load *load, const struct guard_keep *keep);

/* The `asker` of the request that started this load, or whose stale, early or kept answer did (in the background, and
 * only with asker_ref: that request is over). Lent until the load is finished. In a batch each key has its own. NULL:
 * none. */
GUARD_API void *guard_load_asker(const struct guard_load *load);
/* Names this load in guard_result.load, in events and in logs, also in other processes. Never 0. */
GUARD_API uint64_t guard_load_id(const struct guard_load *load);

/*
 * ---- deferred loads ----
 *
 * Finishes the load later, without a thread: the loader starts a query on an event loop, calls this and returns. Only
 * from inside the loader. Any verdict counts, on `loop` or, if that is NULL, on any thread, even one that comes
 * before or while this call runs (then cancelled() is never called). Tags and guard_load_keep() come before the query
 * starts. The load holds one of max_loads and its permit, but no load thread. In a batch each key is deferred by
 * itself.
 *
 * Handle    Lives until its loader has returned and it is finished, in either order, and past guard_close(). Finish
 *           it exactly once, whatever happens: an unfinished handle is a leak.
 * Limit     At load_limit_ms the load fails as TIMEOUT; a later verdict is accepted and ignored. After max_hold_ms an
 *           unfinished handle gives its place and permit back, with a line in the log.
 * Cancel    cancelled(context) tells that the result is no longer wanted (limit, lease lost, nobody waits under
 *           `abandon`, closing). At most once; on `loop`, else on the guard's thread; never before the loader has
 *           returned. Once a call that finishes the load has returned, on whatever thread, it never comes: then
 *           `context` may go. Such a call waits for a cancelled() that runs on another thread: hold nothing that
 *           cancelled() takes. NULL: look at guard_load_cancelled() or at the descriptor, which is now the handle's
 *           own; one that the loader already polls remains valid. After cancellation still finish the load, promptly.
 *           Detaching `loop` cancels what is deferred to it, before `detached`; others load again.
 * Closing   guard_close() cancels deferred loads at once, without drain_ms: their loop may be blocked in that very
 *           call. To let them end, call guard_drain() and run the loop until nothing waits.
 * Nested    guard_load_get() is INVALID from here on. Until the load is finished, a request for another key names it
 *           in `within`: its callback answers, at most in the load's time; in a circle it is refused like a nested
 *           one. Its load runs in this one's place and under its permit, one at a time; further ones queue.
 * Status    CLOSING: `loop` is being detached, or gone: not deferred and not wanted; fail it, and others load again.
 *           INVALID: deferred already. NO_MEMORY: not deferred; go on as without.
 */
GUARD_API enum guard_status guard_load_defer(struct guard_load *load, struct guard_loop *loop,
                                             void (*cancelled)(void *context), void *context);

/*
 * ---- where a loader runs ----
 *
 * guard_policy.loads_on. Leases, limits, permits and max_loads are the same everywhere. What runs on a thread of the
 * host's uses and makes no load thread: if no kind needs one, there are none.
 *
 * ON_THREAD  On a load thread. It may block.
 * ON_LOOP    On the loop of the request that starts the load, in a callback: it must not block, but finish the load
 *            or call guard_load_defer() before it returns. A request without a loop is INVALID, but for GUARD_PEEK;
 *            so is any call that blocks. The refresh behind a stale, early or kept answer begins on the loop of the
 *            request that got it, what guard_refresh() loads on the loop that it names. If the loop is blocked and
 *            has not begun it within lease_ms, or is detached first, the lease goes back and others load: another
 *            process, or here a loop on which the key is waited for, too. Where its loop is gone, guard_refresh()
 *            counts a key as shed.
 * ON_CALLER  On the thread that waits in guard_get_wait() for one `key` (not `keys`), if its request starts the load.
 *            It may block, and the call returns when both loader and answer are there: it may outlast deadline_ms.
 *            No loader begins past that; one that runs is told by guard_load_cancelled(). If it fails then, that
 *            says nothing about the source, and others load; another verdict counts as ever. With soft_ms, too, the
 *            call returns when its loader has, with the stale answer; that loader is told only at load_limit_ms.
 *            thread_begins is not called there. Other requests of the kind, and refreshes, use load threads.
 */

/*
 * ---- nested loads ----
 *
 * For a loader that needs another key: guard_get_wait() with a kind of the same guard, on the thread that runs the
 * loader. (guard_get_wait() there would leave threads idle: B of them could wait for loads that queue behind them.)
 *
 * Threads   If the key has to be loaded here, the waiting thread does it itself; likewise what a deferred load that
 *           it waits for needs. Nothing queues, and at most max_loads loaders are at work, because the outer ones
 *           stand still. So hold no connection, transaction or lock over this call that another loader needs: that
 *           loader may run inside it, on this stack (1 MiB for all that are nested).
 * Time      At most what is left of this load, or deadline_ms if that is less. A nested load ends with its outer
 *           load; cut short by that, it is no failure of its key. The call may return a little late while its thread
 *           still loads.
 * Circles   FAILED as CYCLE, and a line in the log with both keys: at once if the key is this load's or an outer
 *           load's, if its load waits for this load on another thread of this process, or if it nests deeper than
 *           GUARD_NESTED_MAX. A circle through several processes is found after half of the time: the request stops
 *           waiting for the other process and loads without a lease (uncached), which leads back to its own chain. So
 *           does any nested request whose key another process loads that slowly. With load_permits it is 200 ms,
 *           because the other process may wait for this load's permit.
 * Fresh     Never from the near cache or what is kept for an outage: what a loader makes of it is stored for all,
 *           longer.
 */
enum { GUARD_NESTED_MAX = 8 };

GUARD_API enum guard_status guard_load_get(struct guard_load *load, const struct guard_request *request,
                                           struct guard_result *result);

/* ---- a policy changed while running ---- */

/* Another policy for the kind, from the next request on. What is under way keeps its old one: a request, a load (also
 * for a request that joins it), and what is stored or near, until its time is over. Loader, batch loader, context,
 * tagged, needs_meta and loads_on must be the same; the name too, or NULL. INVALID, as guard_kind_add(): the old one
 * stands. Each policy that differs from the one before takes some 150 bytes until guard_close(). */
GUARD_API enum guard_status guard_kind_set(struct guard_kind *kind, const struct guard_policy *policy,
                                           struct guard_error *error);
/* The policy as it is now; its `name` is lent until guard_close(). */
GUARD_API void guard_kind_read(const struct guard_kind *kind, struct guard_policy *out, size_t struct_size);
static inline void guard_kind_get(const struct guard_kind *kind, struct guard_policy *out)
{
    guard_kind_read(kind, out, sizeof *out);
}

/* ---- which cache ---- */

/*
 * The name of the cache that this guard invalidates: a UUID for one namespace in the data of one Redis, however that
 * Redis is reached. A replica has the same name. A Redis that lost its data gets a new one, unless a process that
 * knew the old name gives it back. In mode SHADOW it is the fleet's. In the callback of an invalidation that was OK
 * it names the cache in which that happened. Never blocks. False, and "": not known now, because Redis cannot be
 * reached, or because this is the first call, which only begins to ask.
 */
enum { GUARD_CACHE_ID_BYTES = 36 };
GUARD_API bool guard_cache(struct guard *guard, char id[GUARD_CACHE_ID_BYTES + 1]);

/*
 * ---- lanes ----
 *
 * The limits on loads and waiters exist twice: requests with `key` have one lane, requests with `keys` the other. So
 * a request for one key is shed only because of others for one key, and likewise for many.
 *
 * Places     Each lane has max_loads + load_queue of its own. A place is one query: with a batch loader, batch_max
 *            keys of requests for many take one. Loads that are queued singly take one each until they leave as one
 *            query, which is of the lane of its oldest load.
 * Waiters    Each lane has max_waiters of its own; every key counts.
 * Turns      If both lanes wait, the next load is of the one with fewer queries running; if equal, they take turns:
 *            each gets half of max_loads as loads end (with max_loads 1 every other query). If only one waits it may
 *            use all. With load_permits the process's next permit goes the same way.
 * Keys       A key in both kinds of request counts as single; without a place there, it stays where it is queued. A
 *            background refresh takes a whole place and yields it to a user of its lane that would be shed otherwise.
 *            One that has queued for lease_ms gives its lease back.
 */

/*
 * ---- permits ----
 *
 * max_loads, B, bounds the queries of one process; when thousands of keys expire together, the source gets B from
 * each. With load_permits, S, no more than S run at a time in the fleet. A load takes a permit from Redis, or from
 * the load before it in this process, and stays queued, without a thread, until it has one. A batch is one query and
 * takes one. A nested load runs under its outer load's.
 *
 * Order      First come, first served among the processes that wait. A process keeps a permit for a turn, 50 ms or 8
 *            queries, whichever ends first: it passes to the next load that has waiters, without a round trip. So
 *            another process waits at most that much longer for its first one. Loads with waiters come before
 *            background refreshes, here and in the fleet.
 * Life       permit_ms, renewed while the query runs. A killed process's permit comes back when it runs out; its
 *            query may still be running then, beside one more.
 * Limits     If a process stops for longer than permit_ms, or Redis loses its data, permits in use are lost
 *            (permit_lost). Their loads go on and are counted again; until they end there may be more than S. While
 *            Redis is away, the breaker is open or Redis refuses the script, loads start without a permit
 *            (permit_spared), bounded by B per process; so they do in the modes LOCAL and OFF. SHADOW takes no
 *            permits. Give the source a hard limit of its own, above S (PostgreSQL: ALTER ROLE ... CONNECTION LIMIT).
 */

/*
 * ---- shadow mode ----
 *
 * The first step into a running backend. Every request is answered by a load of its own: nothing cached, stale or
 * remembered answers, nobody waits for anybody or for Redis, and no caller notices when Redis is away. Beside it the
 * guard does all that mode FLEET does with the same keys and policies (lookups, leases, waits, fills, wake-ups) and
 * stores what those loads brought. guard_stats() says what would have come of it: shadow_saved loads would not have
 * been made.
 *
 * Invalidations happen in name_space itself, for a fleet beside this process, and report as in mode FLEET. Values are
 * stored in full, so that hits and memory are true, but in a namespace of their own, name_space and "~", which the
 * processes in this mode share: a fleet that is switched on later starts empty. There is no near cache: it would save
 * Redis work and no loads.
 */

#endif

/* SPDX-License-Identifier: MIT */
/*
 * together.pml - batches and nested loads of guard/, for the model checker spin: who waits for whom when several keys
 * are wanted together. A model of its own, beside guard.pml, which has the one key and the fill.
 *
 * NP processes, NK keys, B load threads in each process. Process i is asked for the keys of the set Mi (bits), at
 * once. It tries for their leases in any order; those that it got are one batch and take one thread; the others wait
 * for the process that loads them. The loader of key k needs key Nk as well (NOBODY: none) and asks for it while it
 * runs; of a batch that is any one of its keys. A key that its neighbour in the batch needs leaves it: it is wanted
 * anew, by itself.
 *
 * Checked
 *   one load   no load with a lease begins while another one of the key runs under a lease that lives
 *   answers    everybody is answered: nothing stands still (an invalid end state)
 *   circles    a load fails only if it needs itself, over whatever keys
 *
 * Time is modelled by what spin calls timeout: a nested request stops waiting for another process only when nothing
 * else can move. CR processes are killed at any instant; their leases run out.
 *
 * Seeded bugs (-DBUG_...), each of which must be found: run.sh has the table.
 */
#ifndef NP
#define NP 2
#endif
#ifndef NK
#define NK 2 /* at most 3 */
#endif
#ifndef B
#define B 1 /* at most 2 */
#endif
#ifndef CR
#define CR 0
#endif
#define NOBODY 7
#ifndef M0
#define M0 3
#endif
#ifndef M1
#define M1 3
#endif
#ifndef M2
#define M2 0
#endif
#ifndef N0
#define N0 NOBODY
#endif
#ifndef N1
#define N1 NOBODY
#endif
#ifndef N2
#define N2 NOBODY
#endif

#define SET(p) ((p) == 0 -> M0 : ((p) == 1 -> M1 : M2))
#define NEED(k) ((k) == 0 -> N0 : ((k) == 1 -> N1 : N2))
#define HAS(set, k) (((set) >> (k)) & 1)
#define F(p, k) ((p) * 3 + (k))
#define T(p, t) ((p) * 2 + (t))

/* Redis */
bool stored[3];
byte lease[3]; /* the process that has it, from 1; 0: free */
byte under[3]; /* the process that runs a load of it under a lease, likewise */

/* A flight: a key that a process wants. */
#define NONE 0
#define WANTED 1  /* it tries for the lease */
#define WAITING 2 /* another process has it */
#define LEASED 3  /* it has it, and waits for a thread */
#define RUNNING 4
#define DONE 5
#define FAILED 6
byte flight[9];

/* A load thread: the loads that it has on its stack, the outermost first; the outermost may be a batch. */
byte chain[18]; /* keys, three of each thread */
byte depth[6];
byte batch[6];     /* the set of the outermost; the one of it that asks is in its chain */
bool uncached[18]; /* that load has no lease */
byte waits_for[6]; /* the key that the innermost needs of another thread or process */
bool dead[3];
byte kills = CR;

#define TOP(i) chain[(i) * 3 + depth[i] - 1]
#define IN_OWN_CHAIN(i, k) ((depth[i] > 0 && chain[(i) * 3] == k) || (depth[i] > 1 && chain[(i) * 3 + 1] == k) || \
                            (depth[i] > 2 && chain[(i) * 3 + 2] == k))
#define IN_CHAIN(i, k) ((depth[i] > 0 && HAS(batch[i], k)) || (depth[i] > 1 && chain[(i) * 3 + 1] == k) || \
                        (depth[i] > 2 && chain[(i) * 3 + 2] == k))
#define RUNS_ELSEWHERE(p, t, k) (B > 1 && IN_CHAIN(T(p, 1 - (t)), k))
/* Whether the load of k needs itself: the one true circle that there may be. */
#define AFTER(k) ((k) == NOBODY -> NOBODY : NEED(k))
#define IS_CIRCLE(k) (AFTER(k) == (k) || AFTER(AFTER(k)) == (k) || AFTER(AFTER(AFTER(k))) == (k))
#define LEADS_TO_CIRCLE(k) (IS_CIRCLE(k) || (AFTER(k) != NOBODY && IS_CIRCLE(AFTER(k))) || \
                            (AFTER(AFTER(k)) != NOBODY && IS_CIRCLE(AFTER(AFTER(k)))))

byte at;

#define IS_OVER(p, k) (!HAS(SET(p), k) || flight[F(p, k)] == DONE || flight[F(p, k)] == FAILED)
#define MAY_START(p) (flight[F(p, 0)] == LEASED || flight[F(p, 1)] == LEASED || flight[F(p, 2)] == LEASED)
#define IS_UNDECIDED(p, k) (flight[F(p, k)] == WANTED || flight[F(p, k)] == WAITING)

inline try_for(q, k)
{
    if
    :: stored[k] -> flight[F(q, k)] = DONE
    :: !stored[k] && lease[k] == 0 -> lease[k] = q + 1; flight[F(q, k)] = LEASED
    :: else -> flight[F(q, k)] = WAITING
    fi
}

inline take_under(q, k)
{
    assert(lease[k] == q + 1 && under[k] == 0);
    under[k] = q + 1
}

inline begin_load(q, i, k, bare)
{
    chain[i * 3 + depth[i]] = k;
    uncached[i * 3 + depth[i]] = bare;
    depth[i]++;
    if
    :: !bare -> take_under(q, k)
    :: else -> skip
    fi
}

/* The innermost load is over; a batch with all its keys. */
inline end_load(q, i, good)
{
    depth[i]--;
    assert(good || LEADS_TO_CIRCLE(chain[i * 3 + depth[i]]));
    for (at : 0 .. NK - 1) {
        if
        :: (depth[i] == 0 && HAS(batch[i], at)) || (depth[i] > 0 && chain[i * 3 + depth[i]] == at) ->
            if
            :: !uncached[i * 3 + depth[i]] ->
                assert(lease[at] == q + 1);
                under[at] = 0;
                stored[at] = good;
                lease[at] = 0;
                flight[F(q, at)] = (good -> DONE : FAILED)
            :: else -> skip
            fi
        :: else -> skip
        fi
    }
    if
    :: depth[i] == 0 -> batch[i] = 0
    :: else -> skip
    fi
}

/* It has waited for nothing itself. */
inline leave_batch(q, i, k)
{
    batch[i] = batch[i] & (7 - (1 << k));
    under[k] = 0;
    lease[k] = 0;
    flight[F(q, k)] = WANTED
}

active [NP] proctype flights()
{
    byte p = _pid;
    d_step {
        for (at : 0 .. NK - 1) {
            flight[F(p, at)] = (HAS(SET(p), at) -> WANTED : NONE)
        }
    }
    do
    :: d_step { !dead[p] && flight[F(p, 0)] == WANTED -> try_for(p, 0) }
    :: d_step { !dead[p] && flight[F(p, 1)] == WANTED -> try_for(p, 1) }
    :: d_step { !dead[p] && flight[F(p, 2)] == WANTED -> try_for(p, 2) }
    :: d_step { !dead[p] && flight[F(p, 0)] == WAITING && (stored[0] || lease[0] == 0) -> flight[F(p, 0)] = WANTED }
    :: d_step { !dead[p] && flight[F(p, 1)] == WAITING && (stored[1] || lease[1] == 0) -> flight[F(p, 1)] = WANTED }
    :: d_step { !dead[p] && flight[F(p, 2)] == WAITING && (stored[2] || lease[2] == 0) -> flight[F(p, 2)] = WANTED }
    :: dead[p] || (IS_OVER(p, 0) && IS_OVER(p, 1) && IS_OVER(p, 2)) -> break
    od
}

active [NP * B] proctype thread()
{
    byte p = (_pid - NP) / B;
    byte t = (_pid - NP) % B;
    byte i = T(p, t);
    byte need;
    bool good = true; /* what the nested load before gave */
    bool has = false; /* there was one */
end_idle:
    do
    :: dead[p] -> goto out
    /* a batch: all that have their leases by now */
#ifdef BUG_ALLORNONE
    :: atomic { !dead[p] && depth[i] == 0 && MAY_START(p) && !IS_UNDECIDED(p, 0) && !IS_UNDECIDED(p, 1) &&
                !IS_UNDECIDED(p, 2) ->
#else
    :: atomic { !dead[p] && depth[i] == 0 && MAY_START(p) ->
#endif
            for (at : 0 .. NK - 1) {
                if
                :: flight[F(p, at)] == LEASED ->
                    batch[i] = batch[i] | (1 << at);
                    flight[F(p, at)] = RUNNING;
                    take_under(p, at)
                :: else -> skip
                fi
            }
            if
            :: HAS(batch[i], 0) -> chain[i * 3] = 0
            :: HAS(batch[i], 1) -> chain[i * 3] = 1
            :: HAS(batch[i], 2) -> chain[i * 3] = 2
            fi;
            uncached[i * 3] = false;
            depth[i] = 1;
            has = false
        }
    /* its query is over, or it needs nothing, or has what it needs */
    :: d_step { !dead[p] && depth[i] > 0 && (NEED(TOP(i)) == NOBODY || has) ->
            if
            :: NEED(TOP(i)) == NOBODY -> good = true
            :: else -> skip
            fi;
            end_load(p, i, good);
            has = depth[i] > 0
        }
    /* it needs another key */
    :: atomic { !dead[p] && depth[i] > 0 && NEED(TOP(i)) != NOBODY && !has ->
            need = NEED(TOP(i));
            if
#ifndef BUG_OWNCHAIN
            :: IN_OWN_CHAIN(i, need) -> good = false; has = true
#else
            :: IN_OWN_CHAIN(i, need) -> false
#endif
            :: IN_CHAIN(i, need) && !IN_OWN_CHAIN(i, need) ->
#ifdef BUG_NEIGHBOUR
                good = false; has = true
#else
                leave_batch(p, i, need)
#endif
            :: !IN_CHAIN(i, need) && stored[need] -> good = true; has = true
            :: !IN_CHAIN(i, need) && !stored[need] && flight[F(p, need)] == LEASED ->
#ifdef BUG_QUEUES
                flight[F(p, need)] != LEASED
#else
                flight[F(p, need)] = RUNNING; begin_load(p, i, need, false)
#endif
            :: !IN_CHAIN(i, need) && !stored[need] && lease[need] == 0 ->
                lease[need] = p + 1; flight[F(p, need)] = RUNNING; begin_load(p, i, need, false)
            :: !IN_CHAIN(i, need) && !stored[need] && RUNS_ELSEWHERE(p, t, need) ->
                waits_for[i] = need + 1;
                if
#ifndef BUG_TWOTHREADS
                :: RUNS_ELSEWHERE(p, t, need) && waits_for[T(p, 1 - t)] > 0 &&
                   IN_OWN_CHAIN(i, waits_for[T(p, 1 - t)] - 1) && IN_OWN_CHAIN(T(p, 1 - t), need) ->
                    good = false; has = true
                :: RUNS_ELSEWHERE(p, t, need) && waits_for[T(p, 1 - t)] > 0 &&
                   IN_CHAIN(i, waits_for[T(p, 1 - t)] - 1) && !IN_OWN_CHAIN(i, waits_for[T(p, 1 - t)] - 1) ->
                    leave_batch(p, i, waits_for[T(p, 1 - t)] - 1)
                :: RUNS_ELSEWHERE(p, t, need) && waits_for[T(p, 1 - t)] > 0 &&
                   IN_CHAIN(i, waits_for[T(p, 1 - t)] - 1) && !IN_OWN_CHAIN(T(p, 1 - t), need) ->
                    leave_batch(p, T(p, 1 - t), need)
#endif
                :: stored[need] -> good = true; has = true
                :: !RUNS_ELSEWHERE(p, t, need) && !stored[need] -> skip /* it has failed, or left: looked at again */
                :: dead[p] -> skip
                fi;
                waits_for[i] = 0
            :: !IN_CHAIN(i, need) && !stored[need] && lease[need] != 0 && lease[need] != p + 1 ->
#ifdef BUG_STEAL
                lease[need] = p + 1; begin_load(p, i, need, false)
#else
                if
                :: stored[need] || lease[need] == 0 || dead[p] -> skip
#ifndef BUG_FOREVER
                :: timeout -> begin_load(p, i, need, true)
#endif
                fi
#endif
            fi
        }
    od;
out:
    skip
}

/* One that is killed answers nobody any more, and its leases run out. */
active proctype killer()
{
end:
    do
    :: d_step { kills > 0 && !dead[0] -> kills--; dead[0] = true;
            for (at : 0 .. NK - 1) {
                lease[at] = (lease[at] == 1 -> 0 : lease[at]);
                under[at] = (under[at] == 1 -> 0 : under[at])
            } }
    od
}

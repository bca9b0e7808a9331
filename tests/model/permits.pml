/* SPDX-License-Identifier: MIT */
/*
 * permits.pml - the load permits of guard/, for the model checker spin; a model of its own, beside guard.pml.
 *
 * NP processes that each run NL loads, one after the other, under one of S permits; the last of them only refreshes.
 * A load of the others may run under the permit of the one before.
 * One Redis whose scripts (guard/wire/scripts/permit_*.lua) are atomic; an environment that breaks things within the
 * budgets.
 *
 * Checked
 *   limit      no permit is granted while as many loads run as there are permits, but for those that Redis has
 *              forgotten and that were not renewed since
 *   turn       no process is granted a permit that one ahead of it in the queue would get; loads with waiters (users)
 *              are ahead of refreshes
 *   progress   no process is left waiting when nothing can move: an invalid end state
 *
 * Budgets (how often): FB a command is lost, its reply is, or it runs LATER than its sender waits for it; ML a
 * message is lost; XP Redis forgets the permit of a load that runs; CR a process is killed; SP a permit was asked for
 * in vain, for the lease is another's. Permits that no load uses run out, and so
 * do the places of dead processes in the queue.
 *
 * Seeded bugs (-DBUG_...), each of which must be found: run.sh has the table.
 */
#ifndef NP
#define NP 3 /* at most */
#endif
#ifndef NL
#define NL 2
#endif
#ifndef S
#define S 1
#endif
#ifndef FB
#define FB 0
#endif
#ifndef ML
#define ML 0
#endif
#ifndef XP
#define XP 0
#endif
#ifndef CR
#define CR 0
#endif
#ifndef SP
#define SP 0
#endif

#define TOKENS 6 /* NP * NL of them are used */
#define TOKEN(i) ((i) * NL + asked[i])
#define NOBODY 255

/* Redis */
bool out[TOKENS];
byte queue[3]; /* users, then refreshes, each first come, first served */
byte waiting;   /* how many */

/* processes */
byte done[3];    /* loads that are over */
byte asked[3];   /* the load that it asked for last: names its permit */
bool uses[3];    /* it asks for that permit or has it */
bool runs[3];    /* a load does */
bool unknown[3]; /* to Redis: it has forgotten the permit of that load, and was not told yet */
bool dead[3];
bool waits[3];   /* it asks or waits for a permit */
bool told[3];    /* a message names this process; cleared when it asks */
byte answer[3];  /* 0: none yet, 1: refused, 2: granted */

/* the environment */
bool late[TOKENS]; /* an acquire that has not run yet and has been given up */
byte faults = FB, losses = ML, forgets = XP, kills = CR, spare = SP;

byte used, ahead, at, place;

#define IS_REFRESH(i) ((i) == NP - 1)
#define USED (out[0] + out[1] + out[2] + out[3] + out[4] + out[5])
#define RANK(i) (waiting > 0 && queue[0] == i -> 0 : (waiting > 1 && queue[1] == i -> 1 : waiting))
#define IN_QUEUE(i) ((waiting > 0 && queue[0] == i) || (waiting > 1 && queue[1] == i) || (waiting > 2 && queue[2] == i))
#define IN_USE(t) ((t) / NL < NP && !dead[(t) / NL] && uses[(t) / NL] && asked[(t) / NL] == (t) % NL)

/* place: of process i in the queue, or where it would stand; ahead: how many stand before. */
inline look_for(i)
{
    place = NOBODY;
    ahead = 0;
    at = 0;
    do
    :: at < waiting && queue[at] == i -> place = at; ahead = at; break
    :: at < waiting && queue[at] != i -> at++
    :: at >= waiting -> break
    od;
    if
    :: place == NOBODY ->
        at = 0;
        do
#ifdef BUG_REFRESHFIRST
        :: at < waiting -> ahead = ahead + (!IS_REFRESH(i) && !IS_REFRESH(queue[at])); at++
#else
        :: at < waiting -> ahead = ahead + (IS_REFRESH(i) || !IS_REFRESH(queue[at])); at++
#endif
        :: at >= waiting -> break
        od
    :: else -> skip
    fi
}

inline leave_queue(i)
{
    at = 0;
    do
    :: at < waiting && queue[at] == i ->
        do
        :: at + 1 < waiting -> queue[at] = queue[at + 1]; at++
        :: else -> waiting--; queue[waiting] = 0; break
        od;
        break
    :: at < waiting && queue[at] != i -> at++
    :: at >= waiting -> break
    od
}

/* Behind `ahead` others. */
inline join_queue(i)
{
    at = waiting;
    do
    :: at > ahead -> queue[at] = queue[at - 1]; at--
    :: else -> break
    od;
    queue[at] = i;
    waiting++
}

/* Loads that run and that Redis has been told of. */
inline check_grant()
{
    used = 0;
    for (at : 0 .. NP - 1) {
        used = used + (runs[at] && !dead[at] && !unknown[at]);
    }
    assert(used < S)
}

/* None is ahead of it: of a refresh all users are, wherever they stand. */
inline check_turn(i)
{
    place = 0;
    at = 0;
    do
    :: at < waiting && queue[at] == i && !IS_REFRESH(i) -> break
    :: at < waiting && !(queue[at] == i && !IS_REFRESH(i)) -> place = place + !IS_REFRESH(queue[at]); at++
    :: at >= waiting -> break
    od;
    assert(used + place < S)
}

/* permit_acquire of process i with this token; answered: its process hears of it. */
inline acquire(i, token, answered)
{
    atomic {
        used = USED;
        look_for(i);
#ifdef BUG_NOQUEUE
        ahead = 0;
#endif
        if
        :: out[token] -> leave_queue(i); answer[i] = (answered -> 2 : answer[i])
        :: !out[token] && used + ahead < S ->
            check_turn(i);
            out[token] = true;
            leave_queue(i);
            answer[i] = (answered -> 2 : answer[i]);
            if
            :: answered -> check_grant()
            :: else -> skip
            fi
        :: !out[token] && used + ahead >= S ->
            answer[i] = (answered -> 1 : answer[i]);
            if
            :: place == NOBODY -> join_queue(i)
            :: else -> skip
            fi
        fi;
        used = 0; ahead = 0; at = 0; place = 0
    }
}

/* Names as many as permits are free, without the one that gives it back. */
inline tell(i)
{
    used = USED;
    at = 0;
    do
    :: at < waiting && used + at < S -> told[queue[at]] = (queue[at] != i -> true : told[queue[at]]); at++
    :: else -> break
    od
}

inline release(i, token)
{
    atomic {
#ifdef BUG_RELEASEANY
        at = 0;
        do
        :: at < TOKENS && !out[at] -> at++
        :: at < TOKENS && out[at] -> out[at] = false; break
        :: at >= TOKENS -> break
        od;
#else
        out[token] = false;
#endif
        tell(i);
        used = 0; at = 0
    }
}

/* Its permit or its place in the queue: whichever it has. */
inline leave(i, token)
{
    out[token] = false;
    leave_queue(i);
#ifndef BUG_LEAVEQUIET
    tell(i);
#endif
    used = 0; at = 0
}

proctype process(byte i)
{
    byte token;
    bool lost;
ask:
    if
    :: dead[i] -> goto end
    :: !dead[i] && done[i] == NL -> goto end
    :: !dead[i] && done[i] < NL ->
        atomic {
            asked[i] = done[i];
            uses[i] = true;
            unknown[i] = false;
            lost = false;
            token = TOKEN(i)
        };
        waits[i] = true;
        told[i] = false;
        answer[i] = 0;
        if
        :: acquire(i, token, true)
        :: atomic { faults > 0 -> faults--; goto ask }                                /* lost */
        :: atomic { faults > 0 -> faults-- }; acquire(i, token, false); goto ask      /* its reply is */
        :: atomic { faults > 0 && !late[token] -> faults--; late[token] = true; goto ask }
        fi
    fi;
    /* here a message may overtake the answer */
    if
    :: dead[i] -> goto end
    :: !dead[i] && answer[i] == 2 -> goto load
    :: atomic { !dead[i] && answer[i] != 0 && spare > 0 ->
        spare--; waits[i] = false; uses[i] = false; done[i]++; leave(i, token) }; goto ask
    :: !dead[i] && answer[i] == 1 ->
#ifdef BUG_NOLATCH
        told[i] = false
#else
        skip
#endif
    fi;
wait:
    if
    :: dead[i] -> goto end
    :: told[i] -> goto ask
#ifndef NOPOLL
    :: out[TOKEN(i)] || USED + RANK(i) < S -> goto ask /* the poll: only when it finds something, so that it hides no standstill */
#endif
    fi;
load:
    atomic { runs[i] = !dead[i]; waits[i] = false };
    do
    :: dead[i] -> goto end
    :: !dead[i] && unknown[i] -> /* the renewal counts it again */
        atomic {
#ifndef BUG_FORGOTTEN
            out[token] = true;
#endif
            unknown[i] = false;
            lost = true
        }
    :: !dead[i] && !unknown[i] -> break
    od;
    atomic { runs[i] = false; done[i]++ };
    if
    :: dead[i] -> goto end
    :: !dead[i] && done[i] < NL && !IS_REFRESH(i) && !lost -> /* its turn goes on */
#ifdef BUG_PASSRETURNED
        release(i, token);
#endif
        goto load
    :: !dead[i] -> uses[i] = false; release(i, token)
    :: atomic { faults > 0 -> faults--; uses[i] = false }
    fi;
    goto ask;
end:
    skip
}

#ifdef BUG_NOEXPIRY
#define RUNS_OUT(t)
#else
#define RUNS_OUT(t) :: atomic { out[t] && !IN_USE(t) -> out[t] = false }
#endif
#ifdef BUG_NODEATH
#define DROPS_OUT(i)
#else
#define DROPS_OUT(i) :: atomic { IN_QUEUE(i) && (dead[i] || !waits[i]) -> leave_queue(i); at = 0 }
#endif
#define COMES_LATE(t) :: atomic { late[t] -> late[t] = false; acquire((t) / NL, t, false) }
#define LOSES(i) :: atomic { losses > 0 && told[i] -> told[i] = false; losses-- }
#define FORGETS(i) \
    :: atomic { forgets > 0 && runs[i] && !dead[i] && out[TOKEN(i)] -> \
        out[TOKEN(i)] = false; unknown[i] = true; forgets-- }
#define KILLS(i) :: atomic { kills > 0 && !dead[i] -> dead[i] = true; kills-- }

/* Only what changes something can happen, so that no standstill can hide behind it. */
proctype environment()
{
end:
    do
    RUNS_OUT(0)
    RUNS_OUT(1)
    RUNS_OUT(2)
    RUNS_OUT(3)
    RUNS_OUT(4)
    RUNS_OUT(5)
    DROPS_OUT(0)
    DROPS_OUT(1)
    DROPS_OUT(2)
    COMES_LATE(0)
    COMES_LATE(1)
    COMES_LATE(2)
    COMES_LATE(3)
    COMES_LATE(4)
    COMES_LATE(5)
    LOSES(0)
    LOSES(1)
    LOSES(2)
    FORGETS(0)
    FORGETS(1)
    FORGETS(2)
    KILLS(0)
    KILLS(1)
    KILLS(2)
    od
}

init
{
    atomic {
        run process(0);
        run process(1);
#if NP == 3
        run process(2);
#endif
        run environment()
    }
}

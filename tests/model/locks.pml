/* SPDX-License-Identifier: MIT */
/*
 * locks.pml - one name of guard/locks, for the model checker spin: fair and overtaking locks, readers and writers.
 * Beside it: locks_many.pml has several names and units, locks_stay.pml a process with many waiters, locks_clock.pml
 * the clock of Redis, redlock.pml several Redis masters.
 *
 * NP processes that each take the name NL times, one request after the other: process i exclusively if bit i of
 * WRITERS is set, otherwise beside other readers. One Redis, whose scripts (guard/locks/scripts/lock_*.lua) are
 * atomic; a resource that accepts a write only with a fence that is not below the highest it has seen; an environment
 * that breaks things within the budgets.
 *
 * Checked
 *   exclusion   what Redis holds never conflicts, and nothing is granted that conflicts with a hold that is valid
 *   turn        nothing is granted past a conflicting request of a live process that stands before it in the queue
 *               (unless -DOVERTAKE)
 *   fence       every grant has a higher number than all before, also over a Redis that came back empty; the resource
 *               never refuses the holder of a valid lock
 *   over        nothing is granted to a request after its release was confirmed
 *   progress    no request is left waiting when nothing can move: an invalid end state
 *
 * Budgets (how often): FB a command is lost, its reply is, or it runs LATER than its sender waits for it; ML a
 * message is lost; XP a hold runs out under its live holder, which is paused and may still write; PX a live waiter
 * loses its place; CR a process is killed; CN a waiter gives up; RS Redis restarts empty. What the dead hold runs
 * out, and so do their places. -DNOPOLL: waiters ask only when they are told.
 *
 * Seeded bugs (-DBUG_...), each of which must be found: run.sh has the table.
 */
#ifndef NP
#define NP 3 /* at most */
#endif
#ifndef NL
#define NL 2 /* at most */
#endif
#ifndef WRITERS
#define WRITERS 7
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
#ifndef PX
#define PX 0
#endif
#ifndef CR
#define CR 0
#endif
#ifndef CN
#define CN 0
#endif
#ifndef RS
#define RS 0
#endif

#define TOKENS 6 /* NP * NL of them are used */
#define TOKEN(i) ((i) * NL + done[i])
#define OWNER(t) ((t) / NL)
#define IS_WRITER(i) ((WRITERS >> (i)) & 1)
#define CONFLICT(t, u) (IS_WRITER(OWNER(t)) || IS_WRITER(OWNER(u)))

/* Redis */
bool held[TOKENS], gone[TOKENS];
byte queue[TOKENS]; /* of tokens, first come, first served */
byte waiting;       /* how many */
byte fence;         /* the last one; Redis's clock is at least as high */

/* processes */
byte done[3];     /* requests that are over */
bool dead[3];
bool asks[3];     /* it asks or waits */
bool told[3];     /* a message names it; cleared when it asks */
byte answer[3];   /* 0: none yet, 1: refused, 2: granted */
byte number[3];   /* the fence of its hold */
bool valid[3];    /* it holds, and its lease has not ended */
bool doubt[3];    /* an acquire of the present request may still come */

/* the rest of the world */
bool late[TOKENS]; /* an acquire that has not run yet and was given up */
bool over[TOKENS]; /* its release was confirmed */
byte highest;      /* fence ever granted */
byte seen;         /* by the resource */
byte faults = FB, losses = ML, expiries = XP, drops = PX, kills = CR, leaves = CN, restarts = RS;

byte at, place, other, blocked, ahead; /* scratch, 0 outside atomic steps */

#define IN_USE(t) (OWNER(t) < NP && !dead[OWNER(t)] && TOKEN(OWNER(t)) == (t) && !over[t])

#define HELD_AGAINST(u, t) (held[u] && (u) != (t) && CONFLICT(u, t))
#define BLOCKED(t) \
    (HELD_AGAINST(0, t) || HELD_AGAINST(1, t) || HELD_AGAINST(2, t) || HELD_AGAINST(3, t) || HELD_AGAINST(4, t) || \
     HELD_AGAINST(5, t))
#define IN_QUEUE(t) ((waiting > 0 && queue[0] == t) || (waiting > 1 && queue[1] == t) || (waiting > 2 && queue[2] == t))
#ifdef OVERTAKE
#define BEHIND(t) false
#else
#define BEHIND(t) \
    (waiting > 0 && queue[0] != t && \
     (CONFLICT(queue[0], t) || \
      (waiting > 1 && queue[1] != t && (CONFLICT(queue[1], t) || (waiting > 2 && queue[2] != t && CONFLICT(queue[2], t))))))
#endif
/* The poll: it would be granted, or takes a new place. Only then does it ask, so that no standstill hides behind
 * it. */
#define FINDS(t) (held[t] || (!BLOCKED(t) && !BEHIND(t)) || !IN_QUEUE(t))

/* blocked: by what is held; ahead: by what waits in front */
inline look_for(t)
{
    blocked = 0; ahead = 0; place = TOKENS; at = 0;
    do
    :: at < TOKENS -> blocked = blocked || (held[at] && at != t && CONFLICT(at, t)); at++
    :: else -> break
    od;
    at = 0;
    do
    :: at < waiting && queue[at] == t -> place = at; break
#ifdef BUG_READERSPASS
    :: at < waiting && queue[at] != t -> ahead = ahead || IS_WRITER(OWNER(t)); at++
#else
    :: at < waiting && queue[at] != t -> ahead = ahead || CONFLICT(queue[at], t); at++
#endif
    :: at >= waiting -> break
    od;
#if defined(OVERTAKE) || defined(BUG_NOQUEUE)
    ahead = 0;
#endif
    at = 0
}

inline leave_queue(t)
{
    at = 0;
    do
    :: at < waiting && queue[at] == t ->
        do
        :: at + 1 < waiting -> queue[at] = queue[at + 1]; at++
        :: else -> waiting--; queue[waiting] = 0; break
        od;
        break
    :: at < waiting && queue[at] != t -> at++
    :: at >= waiting -> break
    od;
    at = 0
}

inline check_grant(t)
{
    at = 0;
    do
    :: at < NP -> assert(at == OWNER(t) || !valid[at] || dead[at] || !(IS_WRITER(at) || IS_WRITER(OWNER(t)))); at++
    :: else -> break
    od;
    at = 0;
    do
    :: at < TOKENS -> assert(!(held[at] && at != t && CONFLICT(at, t))); at++
    :: else -> break
    od;
#ifndef OVERTAKE
    at = (held[t] -> waiting : 0); /* what it holds it may ask for again */
    do
    :: at < waiting && queue[at] != t -> assert(!CONFLICT(queue[at], t) || !IN_USE(queue[at])); at++
    :: else -> break
    od;
#endif
    assert(!over[t]);
    at = 0
}

#ifdef BUG_NOGONE
#define REFUSED(t) false
#else
#define REFUSED(t) gone[t]
#endif
/* lock_acquire; answered: its process hears of it. */
inline acquire(t, answered)
{
    atomic {
        look_for(t);
        if
        :: REFUSED(t) -> skip
        :: !REFUSED(t) && (held[t] || (!blocked && !ahead)) ->
            check_grant(t);
            held[t] = true;
            leave_queue(t);
#ifdef BUG_FENCECLOCKLESS
            fence++;
            assert(fence > highest);
#else
            fence = (fence > highest -> fence : highest) + 1;
#endif
            highest = fence;
            if
            :: answered -> answer[OWNER(t)] = 2; number[OWNER(t)] = fence; valid[OWNER(t)] = true
            :: else -> skip
            fi
        :: !REFUSED(t) && !held[t] && (blocked || ahead) ->
            if
            :: place == TOKENS -> queue[waiting] = t; waiting++
            :: else -> skip
            fi;
            if
            :: answered -> answer[OWNER(t)] = 1
            :: else -> skip
            fi
        fi;
        blocked = 0; ahead = 0; place = 0
    }
}

/* Names those that fit, in the order of the queue. */
inline tell(t)
{
    place = 0; ahead = 0;
    do
    :: place < waiting && !ahead ->
        other = queue[place];
        at = 0; blocked = 0;
        do
        :: at < TOKENS -> blocked = blocked || (held[at] && at != other && CONFLICT(at, other)); at++
        :: else -> break
        od;
        at = 0;
        do
        :: at < place -> blocked = blocked || CONFLICT(queue[at], other); at++
        :: else -> break
        od;
        if
        :: blocked -> ahead = 1
        :: !blocked && TOKEN(OWNER(other)) == other && asks[OWNER(other)] -> told[OWNER(other)] = true
        :: else -> skip
        fi;
        place++
    :: else -> break
    od;
    place = 0; at = 0; other = 0; blocked = 0; ahead = 0
}

inline release(t, in_doubt)
{
    atomic {
#ifdef BUG_RELEASEANY
        at = 0;
        do
        :: at < TOKENS -> held[at] = false; at++
        :: else -> break
        od;
        at = 0;
#else
        held[t] = false;
#endif
        leave_queue(t);
        gone[t] = gone[t] || in_doubt;
#ifdef BUG_CANCELSILENT
        if
        :: answer[OWNER(t)] == 2 -> tell(t)
        :: else -> skip
        fi
#else
        tell(t)
#endif
    }
}

/* lock_renew: creates nothing. */
inline renew(i, t)
{
    atomic {
        if
#ifdef BUG_RENEWCREATES
        :: !held[t] -> held[t] = true; check_grant(t)
#else
        :: !held[t] -> valid[i] = false
#endif
        :: held[t] -> skip
        fi
    }
}

proctype process(byte i)
{
    byte token;
next:
    atomic {
        if
        :: dead[i] || done[i] == NL -> goto end
        :: else -> token = TOKEN(i); asks[i] = true; doubt[i] = false; answer[i] = 0
        fi
    };
ask:
    atomic { told[i] = false; answer[i] = 0 };
    if
    :: dead[i] -> goto end
    :: !dead[i] -> acquire(token, true)
    :: atomic { !dead[i] && faults > 0 -> faults--; doubt[i] = true; goto again } /* lost */
    :: atomic { !dead[i] && faults > 0 -> faults--; doubt[i] = true }; acquire(token, false); goto again /* the reply */
    :: atomic { !dead[i] && faults > 0 -> faults--; doubt[i] = true; late[token] = true; goto again }
    fi;
    /* here a message may overtake the answer */
    if
    :: dead[i] -> goto end
    :: !dead[i] && answer[i] == 2 -> goto hold
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
    :: !dead[i] && told[i] -> goto ask
#ifndef NOPOLL
    :: !dead[i] && FINDS(token) -> goto ask
#endif
    :: atomic { !dead[i] && leaves > 0 -> leaves-- }; goto give_back
    fi;
again: /* no answer */
    if
    :: dead[i] -> goto end
    :: !dead[i] -> goto ask
    :: atomic { !dead[i] && leaves > 0 -> leaves-- }; goto give_back
    fi;
hold:
    atomic { asks[i] = false };
    if
    :: dead[i] -> goto end
    :: !dead[i] -> renew(i, token)
    :: !dead[i] -> skip
    fi;
    atomic { /* the write: a paused holder does not know that its lease has ended */
        if
        :: dead[i] -> goto end
        :: !dead[i] && IS_WRITER(i) && number[i] >= seen -> seen = number[i]
        :: !dead[i] && IS_WRITER(i) && number[i] < seen -> assert(!valid[i])
        :: !dead[i] && !IS_WRITER(i) -> skip
        fi
    };
give_back:
    atomic { asks[i] = false; valid[i] = false; number[i] = 0 };
    if
    :: dead[i] -> goto end
    :: !dead[i] -> release(token, doubt[i])
    :: atomic { !dead[i] && faults > 0 -> faults--; goto give_back }
    :: atomic { !dead[i] && faults > 0 -> faults-- }; release(token, doubt[i]); goto give_back
    fi;
    atomic { over[token] = true; answer[i] = 0; told[i] = false; done[i]++; token = 0 };
    goto next;
end:
    skip
}

/* A hold runs out when its process is dead, and a place when nothing asks for it any more. */
#define RUNS_OUT(t) :: atomic { held[t] && OWNER(t) < NP && dead[OWNER(t)] -> held[t] = false }
#ifdef BUG_NODEATH
#define PLACE_RUNS_OUT
#else
#define PLACE_RUNS_OUT \
    :: atomic { waiting > 0 && !(IN_USE(queue[0]) && asks[OWNER(queue[0])]) -> \
        other = queue[0]; leave_queue(other); other = 0 } \
    :: atomic { waiting > 1 && !(IN_USE(queue[1]) && asks[OWNER(queue[1])]) -> \
        other = queue[1]; leave_queue(other); other = 0 }
#endif
#define COMES_LATE(t) :: atomic { late[t] && OWNER(t) < NP -> late[t] = false; acquire(t, false) }
#define LOSES(i) :: atomic { losses > 0 && told[i] -> told[i] = false; losses-- }
#define EXPIRES(i) \
    :: atomic { expiries > 0 && valid[i] && !dead[i] && held[TOKEN(i)] -> \
        valid[i] = false; held[TOKEN(i)] = false; expiries-- }
#define KILLS(i) \
    :: atomic { kills > 0 && i < NP && !dead[i] -> \
        dead[i] = true; valid[i] = false; number[i] = 0; asks[i] = false; told[i] = false; answer[i] = 0; kills-- }
#define DROPS(i) \
    :: atomic { drops > 0 && i < NP && !dead[i] && asks[i] -> \
        other = TOKEN(i); drops--; leave_queue(other); other = 0 }

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
    PLACE_RUNS_OUT
    COMES_LATE(0)
    COMES_LATE(1)
    COMES_LATE(2)
    COMES_LATE(3)
    COMES_LATE(4)
    COMES_LATE(5)
    LOSES(0)
    LOSES(1)
    LOSES(2)
    EXPIRES(0)
    EXPIRES(1)
    EXPIRES(2)
    KILLS(0)
    KILLS(1)
    KILLS(2)
    DROPS(0)
    DROPS(1)
    DROPS(2)
    :: atomic { restarts > 0 -> /* commands under way are gone, too; a holder hears of it at its next renewal */
        restarts--; fence = 0; waiting = 0;
        at = 0;
        do
        :: at < TOKENS -> held[at] = false; gone[at] = false; late[at] = false; queue[at] = 0; at++
        :: else -> break
        od;
        at = 0;
        do
        :: at < NP -> valid[at] = false; told[at] = asks[at]; at++ /* a reconnect wakes all */
        :: else -> break
        od;
        at = 0 }
    od
}

init
{
    atomic {
        run process(0);
#if NP > 1
        run process(1);
#endif
#if NP > 2
        run process(2);
#endif
        run environment()
    }
}

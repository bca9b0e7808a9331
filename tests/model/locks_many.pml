/* SPDX-License-Identifier: MIT */
/*
 * locks_many.pml - requests for several names and for units, for the model checker spin; locks.pml has one name, with
 * what goes wrong between a process and Redis in full.
 *
 * Two names, a and b; NR requests, each of a process of its own, which begin at any moment. Digit t of NAMES, counted
 * from the right, says which names request t is for (1: a, 2: b, 3: both), digit t of UNITS how many of LIMIT it
 * takes of each: 1 of 1 is exclusive, 1 of many a reader. One Redis, whose scripts (guard/locks/scripts/lock_*.lua)
 * are atomic and take all names or none. With -DINTURN a command has one name, as where names live in several slots
 * or servers: they are taken one after another in the order of the names, and kept meanwhile.
 *
 * Checked
 *   limit       no grant makes the units that are held of a name more than its limit
 *   turn        nothing is granted past a request of a live process that stands before it and would no longer fit: so
 *               one for many units is not starved by those for few
 *   whole       what waits holds nothing (unless -DINTURN)
 *   over        nothing is granted to a request after its release was confirmed
 *   left        what is over holds nothing and has no place, once nothing moves
 *   progress    no request is left waiting when nothing can move: an invalid end state, and so is a circle
 *
 * Budgets (how often): FB a command is lost, its reply is, or it runs LATER than its sender waits for it; ML a
 * message is lost; XP a hold runs out under its live holder; EV the holds of one name are evicted; PX the queue of
 * one name is; CR a process is killed; CN a waiter gives up. -DNOPOLL: waiters ask only when they are told.
 *
 * Seeded bugs (-DBUG_...), each of which must be found: run.sh has the table.
 */
#ifndef NR
#define NR 3 /* at most 4 */
#endif
#ifndef NAMES
#define NAMES 3321
#endif
#ifndef UNITS
#define UNITS 1111
#endif
#ifndef LIMIT
#define LIMIT 1
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
#ifndef EV
#define EV 0
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

#define A 1
#define B 2
#define DIGIT(of, t) (((of) / ((t) == 0 -> 1 : ((t) == 1 -> 10 : ((t) == 2 -> 100 : 1000)))) % 10)
#define NAMES_OF(t) DIGIT(NAMES, t)
#define UNITS_OF(t) DIGIT(UNITS, t)
#define HAS(names, n) (((names) >> (n)) & 1)
#define AT(n, t) ((n) * NR + (t)) /* name n, which is 0 or 1; token or place t */

/* Redis */
bool held[2 * NR], gone[NR];
byte queue[2 * NR]; /* of tokens, first come, first served; the token is the number of the request */
byte waiting[2];    /* how many */

/* processes: one request each */
bool dead[NR];
bool asks[NR];     /* it asks or waits */
byte asks_for[NR]; /* these names: all, or with -DINTURN the next one */
bool told[NR];     /* a message names it; cleared when it asks */
byte answer[NR];   /* 0: none yet, 1: refused, 2: granted */
bool valid[NR];    /* it holds all, and its lease has not ended */
bool doubt[NR];    /* an acquire may still come */

/* the rest of the world */
byte late[NR]; /* names of an acquire that has not run yet and was given up */
bool over[NR]; /* its release was confirmed */
byte faults = FB, losses = ML, expiries = XP, evictions = EV, drops = PX, kills = CR, leaves = CN;

byte at, name, place, used, ahead, other, after; /* scratch, 0 outside atomic steps */
bool fits, queued;

#define UNITS_HELD(n, u) ((u) < NR && held[AT(n, (u) % NR)] -> UNITS_OF(u) : 0)
#ifdef BUG_COUNTHOLDS
#define USED(n) (held[AT(n, 0)] + held[AT(n, 1)] + (NR > 2 && held[AT(n, 2 % NR)]) + (NR > 3 && held[AT(n, 3 % NR)]))
#else
#define USED(n) SUM(n)
#endif
#define SUM(n) (UNITS_HELD(n, 0) + UNITS_HELD(n, 1) + UNITS_HELD(n, 2) + UNITS_HELD(n, 3))
/* The units of those before t in the queue of n; of all, if it has no place. */
#define STANDS(n, p, t) (waiting[n] > (p) && queue[AT(n, (p) % NR)] != (t))
#define UNITS_AT(n, p) UNITS_OF(queue[AT(n, (p) % NR)])
#define AHEAD(n, t) \
    (STANDS(n, 0, t) -> UNITS_AT(n, 0) + \
    (STANDS(n, 1, t) -> UNITS_AT(n, 1) + \
    (STANDS(n, 2, t) -> UNITS_AT(n, 2) + \
    (STANDS(n, 3, t) -> UNITS_AT(n, 3) : 0) : 0) : 0) : 0)
#define IS_AT(n, p, t) (waiting[n] > (p) && queue[AT(n, (p) % NR)] == (t))
#define IN_QUEUE(n, t) (IS_AT(n, 0, t) || IS_AT(n, 1, t) || IS_AT(n, 2, t) || IS_AT(n, 3, t))
#ifdef BUG_NARROWPASSES
#define FITS(n, t) (held[AT(n, t)] || USED(n) + UNITS_OF(t) <= LIMIT)
#else
#define FITS(n, t) (held[AT(n, t)] || USED(n) + AHEAD(n, t) + UNITS_OF(t) <= LIMIT)
#endif
/* The poll: it would be granted, or takes new places. Only then does it ask, so that no standstill hides behind
 * it. */
#define FINDS(t) \
    (((!HAS(asks_for[t], 0) || FITS(0, t)) && (!HAS(asks_for[t], 1) || FITS(1, t))) || \
     (HAS(asks_for[t], 0) && !IN_QUEUE(0, t)) || (HAS(asks_for[t], 1) && !IN_QUEUE(1, t)))
#define IN_USE(t) (!dead[t] && !over[t])

inline leave_queue(n, t)
{
    at = 0;
    do
    :: at < waiting[n] && queue[AT(n, at)] == t ->
        do
        :: at + 1 < waiting[n] -> queue[AT(n, at)] = queue[AT(n, at + 1)]; at++
        :: else -> waiting[n]--; queue[AT(n, waiting[n])] = 0; break
        od;
        break
    :: at < waiting[n] && queue[AT(n, at)] != t -> at++
    :: at >= waiting[n] -> break
    od;
    at = 0
}

/* Of name n, before t has it. */
inline check_grant(n, t)
{
    after = SUM(n) + (held[AT(n, t)] -> 0 : UNITS_OF(t)); /* what it holds it may ask for again */
    assert(after <= LIMIT);
    at = (held[AT(n, t)] -> waiting[n] : 0);
    do
    :: at < waiting[n] && queue[AT(n, at)] != t ->
        other = queue[AT(n, at)];
        assert(!IN_USE(other) || after + AHEAD(n, other) + UNITS_OF(other) <= LIMIT);
        at++
    :: else -> break
    od;
    assert(!over[t]);
    at = 0; other = 0; after = 0
}

/* Names those that fit, in the order of the queue, but for t. */
inline tell(n, t)
{
    used = USED(n); ahead = 0; at = 0;
    do
    :: at < waiting[n] && used + ahead + UNITS_OF(queue[AT(n, at)]) <= LIMIT ->
        other = queue[AT(n, at)];
        ahead = ahead + UNITS_OF(other);
        told[other] = told[other] || (other != t && asks[other] && IN_USE(other));
        at++
    :: else -> break
    od;
    used = 0; ahead = 0; at = 0; other = 0
}

/* What it has of these names is of no use: with a place in all or none of them, it stands in the same order
 * everywhere. */
inline refuse(names, t)
{
    name = 0;
    do
    :: name < 2 && HAS(names, name) ->
        fits = false; /* here: something changed */
#ifndef BUG_KEEPSPART
        fits = held[AT(name, t)];
        held[AT(name, t)] = false;
#endif
#ifdef BUG_ONEPLACE
        queued = IN_QUEUE(name, t);
#endif
        if
        :: !queued ->
            fits = fits || IN_QUEUE(name, t);
            leave_queue(name, t);
            queue[AT(name, waiting[name])] = t;
            waiting[name]++
        :: queued -> skip
        fi;
        if
        :: fits -> tell(name, t)
        :: else -> skip
        fi;
        name++
    :: name < 2 && !HAS(names, name) -> name++
    :: name >= 2 -> break
    od;
    name = 0
}

inline grant(names, t)
{
    name = 0;
    do
    :: name < 2 && HAS(names, name) ->
        check_grant(name, t);
        leave_queue(name, t);
        held[AT(name, t)] = true;
        name++
    :: name < 2 && !HAS(names, name) -> name++
    :: name >= 2 -> break
    od;
    name = 0
}

/* lock_acquire; answered: its process hears of it. */
inline acquire(names, t, answered)
{
    atomic {
        fits = (!HAS(names, 0) || FITS(0, t)) && (!HAS(names, 1) || FITS(1, t));
        queued = (!HAS(names, 0) || IN_QUEUE(0, t)) && (!HAS(names, 1) || IN_QUEUE(1, t));
        if
        :: gone[t] -> skip
        :: !gone[t] && fits -> grant(names, t)
        :: !gone[t] && !fits ->
#ifdef BUG_TAKESPART
            name = 0;
            do
            :: name < 2 -> held[AT(name, t)] = held[AT(name, t)] || (HAS(names, name) && FITS(name, t)); name++
            :: else -> break
            od;
#endif
            refuse(names, t);
#ifndef INTURN
            assert(!held[AT(0, t)] && !held[AT(1, t)]);
#endif
            fits = false
        fi;
        answer[t] = (answered && !gone[t] -> 1 + fits : answer[t]);
        fits = false; queued = false
    }
}

inline release(names, t)
{
    atomic {
        gone[t] = gone[t] || doubt[t];
        name = 0;
        do
        :: name < 2 && HAS(names, name) ->
            held[AT(name, t)] = false;
            leave_queue(name, t);
            tell(name, t);
            name++
        :: name < 2 && !HAS(names, name) -> name++
        :: name >= 2 -> break
        od;
        name = 0
    }
}

/* What request t asks for next; has: the names that it holds. */
#ifdef INTURN
#ifdef BUG_OWNORDER
#define FIRST(t) ((t) % 2 == 0 -> A : B)
#else
#define FIRST(t) A
#endif
#define NEXT(t, has) ((NAMES_OF(t) & FIRST(t)) && !((has) & FIRST(t)) -> FIRST(t) : NAMES_OF(t) & (3 - FIRST(t)))
#else
#define NEXT(t, has) NAMES_OF(t)
#endif

proctype request(byte t)
{
    byte has;
next:
    atomic { asks[t] = !dead[t]; asks_for[t] = NEXT(t, has) };
ask:
    atomic { told[t] = false; answer[t] = 0 };
    if
    :: dead[t] -> goto end
    :: !dead[t] -> acquire(asks_for[t], t, true)
    :: atomic { !dead[t] && faults > 0 -> faults--; doubt[t] = true; goto again } /* lost */
    :: atomic { !dead[t] && faults > 0 -> faults--; doubt[t] = true }; acquire(asks_for[t], t, false); goto again
    :: atomic { !dead[t] && faults > 0 -> faults--; doubt[t] = true; late[t] = asks_for[t]; goto again }
    fi;
    /* here a message may overtake the answer */
    if
    :: dead[t] -> goto end
    :: !dead[t] && answer[t] == 2 -> goto granted
    :: !dead[t] && answer[t] == 1
    fi;
wait:
    if
    :: dead[t] -> goto end
    :: !dead[t] && told[t] -> goto ask
#ifndef NOPOLL
    :: !dead[t] && FINDS(t) -> goto ask
#endif
    :: atomic { !dead[t] && leaves > 0 -> leaves-- }; goto give_back
    fi;
again: /* no answer */
    if
    :: dead[t] -> goto end
    :: !dead[t] -> goto ask
    :: atomic { !dead[t] && leaves > 0 -> leaves-- }; goto give_back
    fi;
granted:
    atomic { has = has | asks_for[t]; asks[t] = false };
    if
    :: has != NAMES_OF(t) -> goto next
    :: has == NAMES_OF(t) -> valid[t] = !dead[t]
    fi;
    /* here it holds them all */
give_back:
    atomic { asks[t] = false; valid[t] = false };
#ifdef INTURN
#ifndef BUG_BUSYKEEPS
    asks_for[t] = NAMES_OF(t);
#endif
    if
    :: dead[t] -> goto end
    :: !dead[t] && (asks_for[t] & B) -> release(B, t)
    :: !dead[t] && !(asks_for[t] & B)
    fi;
    if
    :: dead[t] -> goto end
    :: !dead[t] && (asks_for[t] & A) -> release(A, t)
    :: !dead[t] && !(asks_for[t] & A)
    fi;
#else
    if
    :: dead[t] -> goto end
    :: !dead[t] -> release(NAMES_OF(t), t)
    :: atomic { !dead[t] && faults > 0 -> faults-- }; release(NAMES_OF(t), t); goto give_back
    fi;
#endif
    atomic { over[t] = true; answer[t] = 0; told[t] = false; has = 0; asks_for[t] = 0 };
end:
    skip
}

/* A hold runs out when its process is dead, and a place when nothing asks for it any more. */
#define RUNS_OUT(t) \
    :: atomic { (t) < NR && dead[(t) % NR] && (held[AT(0, (t) % NR)] || held[AT(1, (t) % NR)]) -> \
        held[AT(0, (t) % NR)] = false; held[AT(1, (t) % NR)] = false }
#define ASKED(n, p) (IN_USE(queue[AT(n, p)]) && asks[queue[AT(n, p)]])
#define PLACE_RUNS_OUT(n, p) \
    :: atomic { (p) < NR && waiting[n] > (p) && !ASKED(n, (p) % NR) -> \
        place = queue[AT(n, (p) % NR)]; leave_queue(n, place); place = 0 }
#define COMES_LATE(t) \
    :: atomic { (t) < NR && late[(t) % NR] != 0 -> \
        place = late[(t) % NR]; late[(t) % NR] = 0; acquire(place, (t) % NR, false); place = 0 }
#define LOSES(t) :: atomic { (t) < NR && losses > 0 && told[(t) % NR] -> told[(t) % NR] = false; losses-- }
#define EXPIRES(t) \
    :: atomic { (t) < NR && expiries > 0 && valid[(t) % NR] && !dead[(t) % NR] -> \
        valid[(t) % NR] = false; held[AT(0, (t) % NR)] = false; held[AT(1, (t) % NR)] = false; expiries-- }
#define EVICTS(n) \
    :: atomic { evictions > 0 && SUM(n) > 0 -> \
        evictions--; \
        at = 0; \
        do \
        :: at < NR -> held[AT(n, at)] = false; at++ \
        :: else -> break \
        od; \
        at = 0 }
#define DROPS(n) \
    :: atomic { drops > 0 && waiting[n] > 0 -> \
        drops--; \
        do \
        :: waiting[n] > 0 -> waiting[n]--; queue[AT(n, waiting[n])] = 0 \
        :: else -> break \
        od }
#define KILLS(t) \
    :: atomic { (t) < NR && kills > 0 && !dead[(t) % NR] -> \
        dead[(t) % NR] = true; valid[(t) % NR] = false; asks[(t) % NR] = false; told[(t) % NR] = false; \
        answer[(t) % NR] = 0; kills-- }
#define EACH(what) what(0) what(1) what(2) what(3)
/* Nothing is left when nothing moves: of a request that is over, its process alive. */
#define LEFT(t) ((t) < NR && over[(t) % NR] && (held[AT(0, (t) % NR)] || held[AT(1, (t) % NR)]))

proctype environment()
{
end:
    do
    EACH(RUNS_OUT)
    PLACE_RUNS_OUT(0, 0)
    PLACE_RUNS_OUT(0, 1)
    PLACE_RUNS_OUT(1, 0)
    PLACE_RUNS_OUT(1, 1)
    EACH(COMES_LATE)
    EACH(LOSES)
    EACH(EXPIRES)
    EVICTS(0)
    EVICTS(1)
    DROPS(0)
    DROPS(1)
    EACH(KILLS)
    :: timeout -> assert(!LEFT(0) && !LEFT(1) && !LEFT(2) && !LEFT(3)); break
    od
}

init
{
    atomic {
        run request(0);
        run request(1);
#if NR > 2
        run request(2);
#endif
#if NR > 3
        run request(3);
#endif
        run environment()
    }
}

/* SPDX-License-Identifier: MIT */
/*
 * locks_stay.pml - a process with many waiters on one name, which keeps all their places with one command, for the
 * model checker spin; locks.pml has the rest of the protocol.
 *
 * Two processes with two requests each for the same name, exclusively. A waiter that was told that it is the first
 * polls by itself; the others leave it to lock_stay, which their process sends for all of them: it renews their
 * places and says which should ask: those that fit, are the first or have lost their place. Time passes in rounds, TR
 * of them: at the end of each, every place goes that was not renewed in it; the processes see to it that theirs are,
 * unless they are paused.
 *
 * Checked
 *   exclusion   nothing is granted while another request holds
 *   turn        nothing is granted past a request of a live process that stands before it
 *   kept        no waiter of a process that is neither killed nor paused loses its place because time passes; one
 *               that lost it otherwise knows it by the end of the next round
 *   over        after its release was confirmed a request holds nothing, and nothing gives it a place
 *   progress    no request is left waiting when nothing can move: an invalid end state
 *
 * Budgets (how often): FB a lock_stay is lost, its reply is, or it runs LATER than its sender waits for it; ML a
 * message is lost; PX the queue is evicted, or the places of a process that is paused run out; CN a waiter gives up;
 * CR a process is killed, with all its requests.
 *
 * Seeded bugs (-DBUG_...), each of which must be found: run.sh has the table.
 */
#ifndef TR
#define TR 0
#endif
#ifndef FB
#define FB 0
#endif
#ifndef ML
#define ML 0
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

#define TOKENS 4
#define OWNER(t) ((t) / 2)
#define NOBODY 255

/* Redis */
byte holder = NOBODY;
byte queue[TOKENS]; /* of tokens, first come, first served */
byte waiting;       /* how many */
bool renewed[TOKENS]; /* its place was, in this round */

/* processes: token t is that of request t % 2 of process t / 2 */
bool dead[2];
bool due[2];        /* it has to send a lock_stay before this round ends */
bool asks[TOKENS];  /* it waits, and has an answer */
bool first[TOKENS]; /* nobody stood before it when it asked: it polls */
bool told[TOKENS];  /* by a message or a lock_stay; cleared when it asks */
bool over[TOKENS];  /* its release was confirmed */

/* the rest of the world */
byte late[2]; /* the requests, bit 0 and bit 1, of a lock_stay that has not run yet and was given up; 0: none */
bool passing; /* a round is under way */
bool dropped; /* and places were lost in it */
byte rounds = TR, faults = FB, losses = ML, drops = PX, kills = CR, leaves = CN;

byte at, place, other, names; /* scratch, 0 outside atomic steps */

#define IS_AT(p, t) (waiting > (p) && queue[p] == (t))
#define IN_QUEUE(t) (IS_AT(0, t) || IS_AT(1, t) || IS_AT(2, t) || IS_AT(3, t))
#define FITS(t) (holder == (t) || (holder == NOBODY && (waiting == 0 || queue[0] == (t))))
#define SHOULD_ASK(t) (FITS(t) || !IN_QUEUE(t))
/* What lock_stay says of a waiter. */
#if defined(BUG_SILENTLOSS)
#define SAYS(t) (FITS(t) || IS_AT(0, t))
#elif defined(BUG_SILENTFIT)
#define SAYS(t) (!FITS(t) && !IN_QUEUE(t))
#else
#define SAYS(t) (SHOULD_ASK(t) || IS_AT(0, t))
#endif
/* Besides once in a round it is sent only when it will say something, so that no standstill hides behind it. */
#define LACKS(t) (asks[t] && !first[t] && !told[t] && SAYS(t))

inline leave_queue(t)
{
    at = 0;
    do
    :: at < waiting && queue[at] == t ->
        renewed[t] = false;
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

/* lock_acquire */
inline acquire(t)
{
    atomic {
        told[t] = false;
        if
        :: FITS(t) ->
            at = 0;
            do
            :: at < waiting && queue[at] != t -> assert(dead[OWNER(queue[at])]); at++
            :: else -> break
            od;
            assert(holder == NOBODY || holder == t);
            assert(!over[t]);
            holder = t;
            asks[t] = false;
            leave_queue(t)
        :: !FITS(t) ->
            if
            :: !IN_QUEUE(t) -> queue[waiting] = t; waiting++
            :: else -> skip
            fi;
            renewed[t] = passing;
            first[t] = (queue[0] == t);
            asks[t] = true
        fi
    }
}

/* Names the first, if it fits. */
inline tell()
{
    if
    :: holder == NOBODY && waiting > 0 && asks[queue[0]] -> told[queue[0]] = true
    :: else -> skip
    fi
}

inline release(t)
{
    atomic {
        holder = (holder == t -> NOBODY : holder);
        leave_queue(t);
        tell();
        over[t] = true
    }
}

/* lock_stay of process p for the requests in these bits; answered: the process hears of it. Creates nothing. */
inline stay(p, requests, answered)
{
    place = 0;
    do
    :: place < 2 && ((requests >> place) & 1) ->
        other = p * 2 + place;
#ifdef BUG_STAYCREATES
        if
        :: !IN_QUEUE(other) && holder != other -> assert(!over[other]); queue[waiting] = other; waiting++
        :: else -> skip
        fi;
#endif
#ifdef BUG_RENEWSONE
        renewed[other] = renewed[other] || (passing && IN_QUEUE(other) && (requests & ((1 << place) - 1)) == 0);
#else
        renewed[other] = renewed[other] || (passing && IN_QUEUE(other));
#endif
        told[other] = told[other] || (answered && asks[other] && SAYS(other));
        place++
    :: place < 2 && !((requests >> place) & 1) -> place++
    :: place >= 2 -> break
    od;
    place = 0; other = 0
}

proctype request(byte t)
{
ask:
    if
    :: dead[OWNER(t)] -> goto end
    :: !dead[OWNER(t)] -> acquire(t)
    fi;
    /* here a message may overtake the answer */
    if
    :: dead[OWNER(t)] -> goto end
    :: !dead[OWNER(t)] && holder == t -> goto hold
    :: !dead[OWNER(t)] && holder != t
    fi;
wait:
    if
    :: dead[OWNER(t)] -> goto end
    :: !dead[OWNER(t)] && told[t] -> goto ask
    :: !dead[OWNER(t)] && first[t] && SHOULD_ASK(t) -> goto ask /* its own poll */
    :: atomic { !dead[OWNER(t)] && leaves > 0 -> leaves-- }; goto hold
    fi;
hold:
    atomic { asks[t] = false; first[t] = false };
    if
    :: dead[OWNER(t)] -> goto end
    :: !dead[OWNER(t)] -> release(t)
    fi;
end:
    told[t] = false
}

#ifdef NOSTAY
#define STAY_IS_DUE(p) (due[p])
#else
#define STAY_IS_DUE(p) (due[p] || LACKS(p * 2) || LACKS(p * 2 + 1))
#endif

proctype process(byte p)
{
end:
    do
    :: dead[p] -> break
    :: atomic { !dead[p] && STAY_IS_DUE(p) ->
        names = asks[p * 2] + 2 * asks[p * 2 + 1];
        if
        :: stay(p, names, true); due[p] = false
        :: faults > 0 -> faults--                        /* lost */
        :: faults > 0 -> faults--; stay(p, names, false) /* its reply is */
        :: faults > 0 && late[p] == 0 -> faults--; late[p] = names
        fi;
        names = 0 }
    od
}

/* The end of a round. */
inline time_has_passed()
{
    place = 0;
    do
    :: place < waiting && !renewed[queue[place]] ->
        other = queue[place];
        assert(dead[OWNER(other)] || !asks[other]);
        leave_queue(other)
    :: place < waiting && renewed[queue[place]] -> renewed[queue[place]] = false; place++
    :: place >= waiting -> break
    od;
    place = 0;
    do
    :: place < TOKENS -> assert(!asks[place] || IN_QUEUE(place) || told[place] || first[place] || dropped); place++
    :: else -> break
    od;
    passing = false; dropped = false; place = 0; other = 0
}

#define PLACE_RUNS_OUT(p) \
    :: atomic { waiting > (p) && dead[OWNER(queue[(p) % TOKENS])] -> \
        other = queue[(p) % TOKENS]; leave_queue(other); other = 0 }
#define COMES_LATE(p) :: atomic { late[p] != 0 -> names = late[p]; late[p] = 0; stay(p, names, false); names = 0 }
#define LOSES(t) :: atomic { losses > 0 && told[t] && asks[t] -> told[t] = false; losses-- }
#define KILLS(p) \
    :: atomic { kills > 0 && !dead[p] -> \
        kills--; dead[p] = true; due[p] = false; asks[p * 2] = false; asks[p * 2 + 1] = false; \
        first[p * 2] = false; first[p * 2 + 1] = false; told[p * 2] = false; told[p * 2 + 1] = false }
/* Those of process p, or all. */
#define DROPS(p) \
    :: atomic { drops > 0 && waiting > 0 -> \
        drops--; \
        dropped = passing; \
        place = 0; \
        do \
        :: place < TOKENS -> \
            if \
            :: p == 2 || OWNER(place) == p -> leave_queue(place) \
            :: else -> skip \
            fi; \
            place++ \
        :: else -> break \
        od; \
        place = 0 }

proctype environment()
{
end:
    do
    :: atomic { holder != NOBODY && dead[OWNER(holder)] -> holder = NOBODY }
    PLACE_RUNS_OUT(0)
    PLACE_RUNS_OUT(1)
    COMES_LATE(0)
    COMES_LATE(1)
    LOSES(0)
    LOSES(1)
    LOSES(2)
    LOSES(3)
    KILLS(0)
    KILLS(1)
    DROPS(0)
    DROPS(1)
    DROPS(2)
    :: atomic { rounds > 0 && !passing -> rounds--; passing = true; due[0] = !dead[0]; due[1] = !dead[1] }
    :: atomic { passing && !due[0] && !due[1] -> time_has_passed() }
    od
}

init
{
    atomic {
        run request(0);
        run request(1);
        run request(2);
        run request(3);
        run process(0);
        run process(1);
        run environment()
    }
}

/* SPDX-License-Identifier: MIT */
/*
 * locks_clock.pml - leases, places and fences by a clock that steps, for the model checker spin; locks.pml has the
 * rest of the protocol, without time.
 *
 * NP processes that each take one name once, exclusively. Time is a counter that moves up to END; Redis's clock moves
 * with it and besides steps. A hold lasts LEASE by Redis's clock from when its script runs, for its holder LEASE from
 * when that was sent; a place lasts PLACE. Waiters ask and holders renew at any moment, or never; commands and
 * answers take any time. A fence is above the last one and not below Redis's clock, whose lowest digit here counts
 * the grants of one instant.
 *
 * Checked
 *   exclusion   no hold begins while another is valid, unless the clock was set forward; one whose grant comes when
 *               its time is over does not begin
 *   renewal     no renewal is confirmed once another request was granted: so two hold no longer than until the next
 *               one
 *   fence       every grant has a higher number than all before
 *   bound       nothing is refused longer than others can rightly hold or stand before it: LEASE from a grant or
 *               renewal, PLACE from an asking, both begun again by the first refusal after the clock was set back
 *   unless -DREACHED: two hold (the checker must find it: else "renewal" proves nothing)
 *
 * Budgets (how often): BK the clock is set back; FW it is set forward; FL the last number is evicted; CR a process is
 * killed. -DAPART: the number is evicted only when the clock is above it, and the clock set back only when it is
 * there.
 *
 * Seeded bugs (-DBUG_...), each of which must be found: run.sh has the table.
 */
#ifndef NP
#define NP 2 /* at most 3 */
#endif
#ifndef END
#define END 5
#endif
#ifndef BK
#define BK 0
#endif
#ifndef FW
#define FW 0
#endif
#ifndef FL
#define FL 0
#endif
#ifndef CR
#define CR 0
#endif

#define LEASE 2
#define PLACE 1
#define STEP 3 /* of the clock */

/* Redis: instants by its clock, 0: none */
byte clock = STEP * BK + 1;
byte hold_ends[3], place_ends[3];
byte queue[3];  /* of processes, first come, first served */
byte waiting;   /* how many */
byte last;      /* number */
byte grants;    /* at this instant */

/* processes */
bool dead[3];
byte sent[3];    /* the command that is under way */
bool granted[3]; /* or confirmed, and the answer is under way */
byte until[3];   /* its hold is valid; 0: it has none */

/* the rest of the world */
byte now = 1;
byte begun;         /* they do in the order of their numbers: they are all alike */
byte highest;       /* number ever granted */
byte may_block[3];  /* others, until then */
byte back = BK, forward = FW, lost = FL, kills = CR;
bool fell;          /* the clock was set back, and nothing was refused since */
bool leapt;         /* it was set forward */

byte at, place; /* scratch, 0 outside atomic steps */

#define CLOCK (clock * 4 + grants)
#define VALID(i) (!dead[i] && now < until[i])
#define BLOCKED(i) \
    (((i) != 0 && may_block[0] > now) || ((i) != 1 && may_block[1] > now) || ((i) != 2 && may_block[2] > now))
#define MAX(a, b) ((a) > (b) -> (a) : (b))

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
    od;
    place_ends[i] = 0;
    at = 0
}

inline purge()
{
    place = 0;
    do
    :: place < NP ->
        hold_ends[place] = (hold_ends[place] <= clock -> 0 : hold_ends[place]);
        if
        :: place_ends[place] != 0 && place_ends[place] <= clock -> leave_queue(place)
        :: else -> skip
        fi;
        place++
    :: else -> break
    od;
    place = 0
}

/* Nothing lasts longer than it can: the clock may have been set back. */
inline clamp()
{
#ifndef BUG_NOCLAMP
    at = 0;
    do
    :: at < NP ->
        hold_ends[at] = (hold_ends[at] > clock + LEASE -> clock + LEASE : hold_ends[at]);
        place_ends[at] = (place_ends[at] > clock + PLACE -> clock + PLACE : place_ends[at]);
        at++
    :: else -> break
    od;
    at = 0
#else
    skip
#endif
}

inline check_alone(i)
{
    at = (now < until[i] || !granted[i] -> 0 : NP); /* what comes too late is not used */
    do
    :: at < NP -> assert(at == i || !VALID(at) || leapt); at++
    :: else -> break
    od;
    at = 0
}

/* How long those that hold or stand in line may block after the clock was set back. */
#define LASTS(i) (hold_ends[i] -> LEASE : (place_ends[i] -> PLACE : 0))
inline begin_again()
{
    at = 0;
    do
    :: at < NP && fell -> may_block[at] = (LASTS(at) -> MAX(may_block[at], now + LASTS(at)) : may_block[at]); at++
    :: else -> break
    od;
    at = 0;
    fell = false
}

#define HELD_BY_OTHERS(i) (((i) != 0 && hold_ends[0]) || ((i) != 1 && hold_ends[1]) || ((i) != 2 && hold_ends[2]))

inline acquire(i)
{
    purge();
    if
    :: !HELD_BY_OTHERS(i) && (waiting == 0 || queue[0] == i) ->
        check_alone(i);
        leave_queue(i);
        hold_ends[i] = clock + LEASE;
#if defined(BUG_NOCLOCK)
        last++;
#elif defined(BUG_NOCOUNTER)
        last = CLOCK;
#else
        last = MAX(last + 1, CLOCK);
#endif
        grants++;
        assert(last > highest);
        highest = last;
        may_block[i] = now + LEASE;
        granted[i] = true
    :: HELD_BY_OTHERS(i) || (waiting != 0 && queue[0] != i) ->
        begin_again();
        assert(BLOCKED(i));
        clamp();
        if
        :: place_ends[i] == 0 -> queue[waiting] = i; waiting++
        :: else -> skip
        fi;
        place_ends[i] = clock + PLACE;
        may_block[i] = now + PLACE
    fi
}

proctype process(byte i)
{
    {
        skip;
end_ask: /* when it likes */
        atomic { now < END && begun >= i -> begun = MAX(begun, i + 1); sent[i] = now };
        atomic { acquire(i) };
        atomic { /* the answer */
            if
            :: granted[i] -> skip
            :: !granted[i] -> goto end_ask
            fi;
#ifdef BUG_FROMREPLY
            until[i] = now + LEASE;
#else
            until[i] = sent[i] + LEASE;
#endif
            check_alone(i);
            granted[i] = false; sent[i] = 0
        };
hold:
        if
        :: atomic { now < until[i] -> sent[i] = now };
            atomic { /* the renewal runs */
                if
                :: hold_ends[i] != 0 ->
                    assert(!HELD_BY_OTHERS(i));
                    hold_ends[i] = clock + LEASE;
                    may_block[i] = now + LEASE;
                    granted[i] = true
                :: else -> skip
                fi
            };
            atomic { /* the answer: valid for longer, or lost */
                until[i] = (granted[i] -> sent[i] + LEASE : 0);
                granted[i] = false; sent[i] = 0
            };
            goto hold
        :: atomic { /* it gives back, even what it has lost */
            hold_ends[i] = 0; may_block[i] = 0; until[i] = 0;
            purge() }
        fi
    } unless { dead[i] }
}

#define KILLS(i) \
    :: atomic { kills > 0 && !dead[i] && begun > i -> \
        kills--; dead[i] = true; granted[i] = false; until[i] = 0; sent[i] = 0 }

/* What is past needs no telling apart. */
#define FORGET(i) \
    until[i] = (until[i] <= now -> 0 : until[i]); may_block[i] = (may_block[i] <= now -> 0 : may_block[i])

proctype environment()
{
end:
    do
    :: atomic { now < END -> now++; clock++; grants = 0; FORGET(0); FORGET(1); FORGET(2) }
    :: atomic { forward > 0 -> forward--; clock = clock + STEP; leapt = true }
#ifdef APART
    :: atomic { back > 0 && last == highest -> back--; clock = clock - STEP; fell = true }
    :: atomic { lost > 0 && CLOCK > last -> lost--; last = 0 }
#else
    :: atomic { back > 0 -> back--; clock = clock - STEP; fell = true }
    :: atomic { lost > 0 -> lost--; last = 0 }
#endif
    KILLS(0)
    KILLS(1)
    KILLS(2)
#ifdef REACHED
    :: assert(VALID(0) + VALID(1) + VALID(2) < 2)
#endif
    od
}

init
{
    atomic {
        run process(0);
        run process(1);
#if NP > 2
        run process(2);
#endif
        run environment()
    }
}

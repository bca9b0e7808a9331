/* SPDX-License-Identifier: MIT */
/*
 * redlock.pml - a lock over three independent Redis masters, for the model checker spin.
 *
 * NC clients that each take one name once. Time is a counter that moves up to END; a hold lasts LEASE of it at each
 * master, for its holder LEASE from when the command was sent. The clock of master 0 is AHEAD of the others; it shows
 * only in the fences, whose lowest digit counts those of one instant. A client asks all masters, in any order, and
 * has the lock if two of them grant it in time; it writes the highest of their numbers back to two before the grant
 * is told. A master that was restarted grants nothing for WAIT. Commands and answers take any time.
 *
 * Checked
 *   exclusion   no hold begins or is renewed while another is valid
 *   fence       every grant that is told has a higher number than all before
 *   over        nothing is granted to a client after its release was confirmed
 *   unless -DREACHED: a second client gets the lock (the checker must find it: else this proves nothing)
 *
 * Budgets (how often): RN a holder renews; FB a command or its reply is lost, or an acquire runs LATER than its
 * sender waits for it; RS a master restarts empty; FL a master forgets without a restart; FW the clock of a master
 * leaps so that its holds end.
 *
 * Seeded bugs (-DBUG_...), each of which must be found: run.sh has the table.
 */
#ifndef NC
#define NC 2 /* at most 3 */
#endif
#ifndef END
#define END 4
#endif
#ifndef AHEAD
#define AHEAD 0
#endif
#ifndef WAIT
#define WAIT LEASE
#endif
#ifndef FB
#define FB 0
#endif
#ifndef RN
#define RN 0
#endif
#ifndef RS
#define RS 0
#endif
#ifndef FL
#define FL 0
#endif
#ifndef FW
#define FW 0
#endif

#define LEASE 2
#define NOBODY 255
#define ALL 7 /* masters are bits */
#define QUORUM(masters) ((masters) == 3 || (masters) == 5 || (masters) == 6 || (masters) == ALL)
#define HAS(masters, m) (((masters) >> (m)) & 1)
#define MAX(a, b) ((a) > (b) -> (a) : (b))

/* masters */
byte holder[3] = NOBODY;
byte ends[3];       /* its hold does, unless renewed */
byte last[3];       /* number */
byte silent[3];     /* grants nothing until then */
byte gone[3];       /* bits of clients: tombstones */

/* clients */
byte until[3];   /* the hold is valid; 0: none */
bool over[3];    /* everything was given back */

/* the rest of the world */
byte now = 1;
byte begun;      /* they do in the order of their numbers: they are all alike */
byte highest;    /* number ever told */
byte late[3];    /* at each master, bits of clients: an acquire that has not run yet and was given up */
byte faults = FB, restarts = RS, forgets = FL, leaps = FW, renewals = RN;

#define CLOCK(m) ((now + ((m) == 0 -> AHEAD : 0)) * 4)
#define VALID(c) (now < until[c])
#define OTHER_VALID(c) (((c) != 0 && VALID(0)) || ((c) != 1 && VALID(1)) || ((c) != 2 && VALID(2)))
#define GRANTS(m, c) \
    (!HAS(gone[m], c) && now >= silent[m] && (holder[m] == NOBODY || holder[m] == (c) || ends[m] <= now))

/* lock_acquire at master m */
inline acquire(m, c)
{
    assert(!over[c]);
    holder[m] = c;
    ends[m] = now + LEASE;
    last[m] = MAX(last[m] + 1, CLOCK(m))
}

/* lock_renew at master m: numbers go on above the floor */
inline renew(m, c, floor)
{
    ends[m] = now + LEASE;
    last[m] = MAX(last[m], floor)
}

proctype client(byte c)
{
    byte sent, masters, yes, number, m;
end_ask: /* when it likes */
    atomic { now < END && begun >= c -> begun = MAX(begun, c + 1); sent = now };
    do
    :: atomic { masters != ALL ->
        if
        :: !HAS(masters, 0) -> m = 0
        :: !HAS(masters, 1) -> m = 1
        :: !HAS(masters, 2) -> m = 2
        fi;
        masters = masters | (1 << m);
        if
        :: GRANTS(m, c) -> acquire(m, c); yes = yes | (1 << m); number = MAX(number, last[m])
        :: !GRANTS(m, c)
        :: faults > 0 -> faults-- /* lost */
        :: faults > 0 && GRANTS(m, c) -> faults--; acquire(m, c) /* the reply is */
        :: faults > 0 -> faults--; late[m] = late[m] | (1 << c)
        fi;
        m = 0 }
    :: atomic { masters == ALL && QUORUM(yes) -> masters = yes; yes = 0; break }
    :: atomic { masters == ALL && !QUORUM(yes) -> goto give_back }
    :: atomic { now >= sent + LEASE -> goto give_back }
    od;
#ifndef BUG_MAXIMUM
    do
    :: atomic { masters != 0 -> /* the number is written back */
        m = (HAS(masters, 0) -> 0 : (HAS(masters, 1) -> 1 : 2));
        masters = masters - (1 << m);
        if
        :: holder[m] == c -> renew(m, c, number); yes = yes | (1 << m)
        :: holder[m] != c
        :: faults > 0 -> faults--
        fi;
        m = 0 }
#ifdef BUG_WRITTENONCE
    :: atomic { masters == 0 && yes != 0 -> break }
    :: atomic { masters == 0 && yes == 0 -> goto give_back }
#else
    :: atomic { masters == 0 && QUORUM(yes) -> break }
    :: atomic { masters == 0 && !QUORUM(yes) -> goto give_back }
#endif
    :: atomic { now >= sent + LEASE -> goto give_back }
    od;
#endif
    atomic { /* the grant is told, unless it comes too late */
        if
        :: now >= sent + LEASE -> goto give_back
        :: now < sent + LEASE ->
            assert(!OTHER_VALID(c));
            assert(number > highest);
#ifdef REACHED
            assert(highest == 0);
#endif
            highest = number;
            until[c] = sent + LEASE;
            sent = 0; yes = 0
        fi
    };
hold:
    if
    :: atomic { VALID(c) && renewals > 0 -> renewals--; sent = now; masters = 0; yes = 0 };
        do
        :: atomic { masters != ALL ->
            m = (!HAS(masters, 0) -> 0 : (!HAS(masters, 1) -> 1 : 2));
            masters = masters | (1 << m);
            if
            :: holder[m] == c -> renew(m, c, number); yes = yes | (1 << m)
            :: holder[m] != c
            :: faults > 0 -> faults--
            fi;
            m = 0 }
        :: atomic { masters == ALL || !VALID(c) -> break }
        od;
        atomic {
            if
#ifdef BUG_RENEWSANY
            :: yes != 0 && VALID(c) ->
#else
            :: QUORUM(yes) && VALID(c) ->
#endif
                assert(!OTHER_VALID(c));
                until[c] = sent + LEASE
            :: else -> skip
            fi;
            sent = 0; yes = 0; masters = 0
        };
        goto hold
    :: goto give_back
    fi;
give_back: /* on all masters */
    atomic { until[c] = 0; number = 0; sent = 0; yes = 0; masters = 0 };
    do
    :: atomic { masters != ALL ->
        m = (!HAS(masters, 0) -> 0 : (!HAS(masters, 1) -> 1 : 2));
        masters = masters | (1 << m);
        holder[m] = (holder[m] == c -> NOBODY : holder[m]);
        ends[m] = (holder[m] == NOBODY -> 0 : ends[m]);
#ifndef BUG_NOGONE
        gone[m] = gone[m] | (late[m] & (1 << c)); /* those of which nothing is under way are never looked at */
#endif
        m = 0 }
    :: atomic { masters == ALL -> break }
    od;
    atomic { over[c] = true; masters = 0 }
}

#define FORGETS(m) holder[m] = NOBODY; ends[m] = 0; last[m] = 0; gone[m] = 0
#ifdef BUG_NOWAIT
#define RESTARTS(m) :: atomic { restarts > 0 -> restarts--; FORGETS(m); late[m] = 0 }
#else
#define RESTARTS(m) :: atomic { restarts > 0 -> restarts--; FORGETS(m); late[m] = 0; silent[m] = now + WAIT }
#endif
#define FLUSHES(m) :: atomic { forgets > 0 -> forgets--; FORGETS(m) }
#define LEAPS(m) :: atomic { leaps > 0 && holder[m] != NOBODY -> leaps--; holder[m] = NOBODY; ends[m] = 0 }
#define RUNS_LATE(m, c) \
    :: atomic { HAS(late[m], c) -> \
        late[m] = late[m] - (1 << c); \
        if \
        :: GRANTS(m, c) -> acquire(m, c) \
        :: else -> gone[m] = gone[m] & (ALL - (1 << c)) \
        fi }
#define COMES_LATE(m) RUNS_LATE(m, 0) RUNS_LATE(m, 1) RUNS_LATE(m, 2)
#define EACH(what) what(0) what(1) what(2)
/* What is past needs no telling apart. */
#define PASSES(m) \
    silent[m] = (silent[m] <= now -> 0 : silent[m]); until[m] = (until[m] <= now -> 0 : until[m]); \
    holder[m] = (ends[m] <= now -> NOBODY : holder[m]); ends[m] = (ends[m] <= now -> 0 : ends[m])

proctype environment()
{
end:
    do
    :: atomic { now < END -> now++; PASSES(0); PASSES(1); PASSES(2) }
    EACH(RESTARTS)
    EACH(FLUSHES)
    EACH(LEAPS)
    EACH(COMES_LATE)
    od
}

init
{
    atomic {
        run client(0);
        run client(1);
#if NC > 2
        run client(2);
#endif
        run environment()
    }
}

/* SPDX-License-Identifier: MIT */
/*
 * abandon.pml - a load that nobody waits for is cancelled, and the load after it is not; for the model checker spin.
 * See `abandon` in guard/guard.h.
 *
 * One key; NP processes with one flight each; NR requests in each, one after another and at any moment, which are
 * impatient: each may leave at any moment, but for the last one. Requests that find the lease taken leave a mark
 * beside it. A renewal brings the mark back, and whoever renews without a mark and without requests of its own
 * cancels its load. Its release leaves another mark, "abandoned", which the next lease takes over.
 *
 * Checked
 *   not in a row  no load that is abandoned follows another one: a patience that is shorter than the load does not
 *                 keep the key cold for ever
 *   wanted        no load is cancelled while a request of its process waits, nor while it is known that one of
 *                 another process does
 *   no leak       no request is answered by the end of a load that was cancelled
 *   progress      every request is answered or has left
 *   unless -DREACHED: a load is abandoned (the checker must find one)
 *
 * Budgets (how often): XP a lease is lost while its load runs; CR a process is killed while it loads.
 *
 * Seeded bugs (-DBUG_...), each of which must be found: run.sh has the table.
 */
#ifndef NP
#define NP 2
#endif
#ifndef NR
#define NR 3
#endif
#ifndef XP
#define XP 0
#endif
#ifndef CR
#define CR 0
#endif

bool stored;                           /* Redis: a value; the lease, 1 + its process; both marks */
byte lease;
bool awaited, abandoned;
#ifdef BUG_LOCALMARK
bool abandoned_here[NP];
#endif
byte xp = XP, cr = CR;

bool waits[NP], up[NP];                /* a request of this process: one at a time is enough */
byte over;                             /* processes without further requests */
bool last;                             /* the last load of the fleet that ended in order was abandoned */

proctype requests(byte p) {
  byte n;
  do
  :: n < NR && up[p] -> atomic { waits[p] = 1; n++ };
     if
     :: !waits[p] || !up[p] -> skip
     :: atomic { n < NR && waits[p] && up[p] -> waits[p] = 0 } /* it leaves; the last one does not */
     fi
  :: n == NR || !up[p] -> break
  od;
  over++
}

#ifdef BUG_LOCALMARK
#define MARK abandoned_here[p]
#else
#define MARK abandoned
#endif

inline end_load() { lease = (lease == p + 1 -> 0 : lease); awaited = 0; kept = 0; cancels = 0; wanted = 0 }

proctype flight(byte p) {
  bool kept, cancels;
  bool wanted;                         /* what the renewal has brought: another process waits */

end_idle:
  do
  :: waits[p] ->
     if
     :: d_step { stored -> waits[p] = 0 }
     :: d_step { !stored && lease != 0 -> awaited = 1 };
        (!waits[p] || stored || lease == 0) /* a message or the poll */
     :: d_step { !stored && lease == 0 -> lease = p + 1; awaited = 0; kept = MARK };
        do
        :: d_step { cr > 0 -> cr--; up[p] = 0; waits[p] = 0 } goto dead
        :: d_step { lease == p + 1 && !kept && !waits[p] -> wanted = awaited }; /* a renewal; then its reply */
           d_step {
             if
#ifdef BUG_ALONE
             :: !waits[p] ->
#else
#ifdef BUG_BEFORE
             :: !wanted ->
#else
             :: !waits[p] && !wanted ->
#endif
#endif
                assert(!waits[p]);
                assert(!wanted);
#ifdef REACHED
                assert(false);
#endif
                cancels = 1
             :: else -> wanted = 0
             fi
           };
           if :: cancels -> break :: else fi
        :: break                       /* the loader is done */
        od;
        skip;
        d_step {
          if
          :: cancels && lease == p + 1 ->
             assert(!last);
             last = 1;
#ifndef BUG_NOMARK
             MARK = 1;
#endif
             end_load()
          :: cancels && lease != p + 1 -> cancels = 0; wanted = 0; kept = 0
          :: !cancels && lease == p + 1 -> stored = 1; MARK = 0; last = 0; waits[p] = 0; end_load()
          :: !cancels && lease != p + 1 -> waits[p] = 0; wanted = 0; kept = 0
          fi
#ifdef BUG_LEAK
          ; assert(!waits[p])          /* those that have joined since are answered by its failure */
#endif
        }
     fi
  od;
dead: skip
}

proctype trouble() {
end_quiet:
  do
  :: d_step { xp > 0 && lease != 0 -> xp--; lease = 0; awaited = 0 }
  :: d_step { lease != 0 && !up[lease - 1] -> lease = 0; awaited = 0 } /* runs out */
  :: d_step { stored && !last -> stored = 0 } /* the value expires */
  od
}

init {
  byte p;
  atomic {
    run trouble();
    do :: p < NP -> up[p] = 1; run flight(p); run requests(p); p++ :: else -> break od
  };
  over == NP
}

/* SPDX-License-Identifier: MIT */
/*
 * near.pml - values kept in the process: what a lookup may leave there, and what drops it, for the model checker
 * spin. See guard/core/near.h.
 *
 * One key; NP processes with a near cache each, NR clients in each (NR0 in the first) that make NG requests one after
 * another; a writer that commits MAXV versions and invalidates each through one of the processes. guard.pml shows
 * that a fill is never older than an invalidation; here Redis gets the row that stands. Time is a counter that moves
 * at any moment, up to END; an entry is kept for NEAR of its steps, from the sending of its lookup. With END 0 time
 * stands still, and an entry stays until it is dropped. Tags are left to the simulator.
 *
 * Checked of every answer from a near cache
 *   gone          nothing that was kept before this process began an invalidation
 *   own           no row older than this process's invalidations that had returned before the request
 *   heard         no row that was deleted, while the subscription stands and no message is on its way
 *   bound         no row from NEAR after its invalidation returned
 *   unless -DREACHED: a row that was invalidated is answered (the checker must find it: else the bound proves
 *   nothing)
 *
 * Budgets (how often): CU the subscription is lost, with what was on its way; the process notices later, or never. UN
 * the reply to an invalidation is lost: it ends without a promise, and runs later.
 *
 * Seeded bugs (-DBUG_...), each of which must be found: run.sh has the table.
 */
#ifndef NP
#define NP 2
#endif
#ifndef NR
#define NR 1
#endif
#ifndef NG
#define NG 2
#endif
#ifndef MAXV
#define MAXV 1
#endif
#ifndef NR0
#define NR0 NR
#endif
#ifndef CU
#define CU 0
#endif
#ifndef UN
#define UN 0
#endif
#ifndef END
#define END 0
#endif

#define NEAR 2
#define NONE 255

/* ---- the world ---- */

byte db, cval;                         /* committed version; Redis has it, or NONE */
byte deleted;                          /* highest version whose deletion has run in Redis */
byte returned;                         /* and has returned to its caller */
byte returned_at[MAXV + 1];
byte now;
byte cu = CU, un = UN;

/* ---- processes ---- */

byte kept[NP] = NONE, until[NP];       /* the near cache's entry */
byte epoch[NP];                        /* moves on with every drop, and when it is emptied */
bool listening[NP];                    /* believes that it is subscribed */
bool connected[NP];                    /* is subscribed */
byte coming[NP];                       /* messages on their way to it */
byte begun[NP];                        /* invalidations that began here */
byte kept_after[NP];                   /* how many of them had begun before the entry was kept */
byte own[NP];                          /* highest version whose invalidation returned here */

inline drop(p) {
  kept[p] = NONE;
#ifndef BUG_NOEPOCH
  epoch[p]++
#endif
}

inline check_kept(p, row, least) {
  assert(kept_after[p] == begun[p]);                                         /* gone */
  assert(row >= least);                                                    /* own */
  assert(!(connected[p] && listening[p] && coming[p] == 0) || row >= deleted); /* heard */
  assert(row == MAXV || row >= returned || now < returned_at[row + 1] + NEAR) /* bound */
#ifdef REACHED
  ; assert(row >= returned)
#endif
}

proctype request(byte p) {
  byte gets, least, row, token, sent;
  bool listens;

  do
  :: gets < NG ->
     gets++;
     least = own[p];
     if
     :: atomic { kept[p] != NONE && now < until[p] -> check_kept(p, kept[p], least) }
     :: atomic { else -> skip }; /* looks up */
#ifndef BUG_LATETOKEN
        d_step { token = epoch[p]; listens = listening[p]; sent = now };
#endif
        row = cval; /* Redis runs it at any moment after */
#ifdef BUG_LATETOKEN
        d_step { token = epoch[p]; listens = listening[p]; sent = now };
#endif
#ifdef BUG_DEAFTOKEN
        listens = 1;
#endif
        atomic {
          if
          :: kept[p] != NONE -> skip /* the entry that is there may seem younger: ages are estimates */
          :: row != NONE && listens && listening[p] && token == epoch[p] ->
             kept[p] = row;
             kept_after[p] = begun[p];
#ifdef BUG_FROMREPLY
             until[p] = now + NEAR
#else
             until[p] = sent + NEAR
#endif
          :: else
          fi
        }
     fi;
     d_step { row = 0; token = 0; sent = 0; least = 0; listens = 0 }
  :: else -> break
  od
}

/* ---- the writer ---- */

inline publish() {
  i = 0;
  do
  :: i < NP -> if :: connected[i] -> coming[i]++ :: else fi; i++
  :: else -> break
  od;
  i = 0
}

proctype writer() {
  byte p, i;

  do
  :: db < MAXV ->
     if :: p = 0 :: p = NP - 1 fi;
     db++;
#ifdef BUG_NOBEGIN
     begun[p]++;
#else
     d_step { begun[p]++; drop(p) };
#endif
     if
     :: un > 0 -> /* it ends before it runs */
        d_step { un--; drop(p) };
        d_step { cval = NONE; deleted = db; publish(); p = 0 }
     :: d_step { cval = NONE; deleted = db; publish() };
#ifndef BUG_NOEND
        d_step { drop(p) };
#endif
        d_step {
          do :: returned < db -> returned++; returned_at[returned] = now :: else -> break od;
          own[p] = db;
          p = 0
        }
     fi
  :: else -> break
  od
}

proctype filler() {
end_full:
  do
  :: d_step { cval != db -> cval = db } /* as it was committed: before its invalidation, too */
  od
}

/* The connection that hears: one of each process. */
proctype subscription(byte p) {
end_heard:
  do
  :: d_step { coming[p] > 0 && listening[p] -> coming[p]--; drop(p) }
  :: d_step { !connected[p] && listening[p] -> /* noticed */
       coming[p] = 0;
#ifndef BUG_KEEPS
       kept[p] = NONE;
#endif
#ifndef BUG_SAMEGENERATION
       epoch[p]++;
#endif
       listening[p] = 0
     }
  :: d_step { !connected[p] && !listening[p] -> connected[p] = 1; coming[p] = 0 }
  :: d_step { connected[p] && !listening[p] -> listening[p] = 1 } /* confirmed: before any message */
  :: d_step { cu > 0 && connected[p] && listening[p] -> cu--; connected[p] = 0; coming[p] = 0 }
  od
}

proctype time() {
end_time:
  do
  :: d_step { now < END -> now++ }
  od
}

init {
  byte p, r;
  atomic {
    run writer();
    run filler();
    run time();
    p = 0;
    do
    :: p < NP ->
       connected[p] = 1;
       listening[p] = 1;
       run subscription(p);
       r = 0;
       do :: r < (p == 0 -> NR0 : NR) -> run request(p); r++ :: else -> break od;
       p++
    :: else -> break
    od
  }
}

/* SPDX-License-Identifier: MIT */
/*
 * caches.pml - which debts are paid when one database stands behind two caches, for the model checker spin. See
 * sql/schema.sql ("caches") and app/catalog/cache_gate.h.
 *
 * One row. A transaction changes it and stays open for a while; its COMMIT leaves a debt. Cache 0 is registered from
 * the beginning and stays so; cache 1 registers at any moment and may be dropped. Each has one process that loads NL
 * times, and pays while it is registered and alive. guard.pml shows that a load is not stored when an invalidation
 * overtakes it; here a payment voids it. A write through the process of cache 0 waits until the debt is gone, or says
 * that it is not visible: at any moment, which is its limit, and at once if cache 1 is silent. Time: an entry expires
 * at any moment; the process of cache 1 falls silent, and its gate closes, at any moment; a drop waits until nothing
 * that passed the gate can be alive.
 *
 * Checked
 *   fresh         once the debt is gone no cache has the old row, nor a load that would store it
 *   paid          the debt is gone when all has come to rest
 *   visible       a write that says so is: no cache has the old row then, nor a load that would store it
 *   answered      the write is, even if it had no limit (-DPATIENT) and cache 1 is gone for good with all that is in
 *                 it and never dropped (-DUNDROPPED): a host that starts again
 *   unless -DREACHED: a debt outlives the confirmation of one cache (the checker must find it)
 *
 * Budgets (how often): DIE the process of cache 1 falls silent (killed or stopped: its entries live on); BACK it
 * comes back and registers again.
 *
 * Seeded bugs (-DBUG_...), each of which must be found: run.sh has the table.
 */
#ifndef NL
#define NL 1
#endif
#ifndef DIE
#define DIE 0
#endif
#ifndef BACK
#define BACK 0
#endif

#define NONE 2
#define N 2

/* ---- the database ---- */

byte db;                      /* the committed row: 0 the old one, 1 the new one */
bool debt;
bool confirmed[N];
bool registered[N] = {true, false};
bool owed[N];                 /* BUG_ENUMERATES: the caches that the trigger found registered */
byte die = DIE, back = BACK;

bool answered;                /* the write */

/* ---- the caches and their processes ---- */

byte entry[N] = NONE;
bool gate[N] = {true, false}; /* the process knows that its cache is registered */
bool lives[N] = true;
byte silences[N];             /* how often it has fallen silent */
bool seen[N] = {true, false}; /* it has said lately that it is in use */
bool stores[N];               /* a load is under way whose fill would be accepted */
byte reads[N] = NONE;         /* what it has read */

#ifdef BUG_ENUMERATES
#define OWED_TO(c) owed[c]
#else
#define OWED_TO(c) registered[c]
#endif

inline check() {
  assert(!(db == 1 && !debt) || (entry[0] != 0 && entry[1] != 0 && !(stores[0] && reads[0] == 0) &&
                                 !(stores[1] && reads[1] == 0))) /* fresh */
}

inline visible() {
  assert(entry[0] != 0 && entry[1] != 0 && !(stores[0] && reads[0] == 0) && !(stores[1] && reads[1] == 0))
}

inline settle(c) {
  confirmed[c] = true;
#ifdef REACHED
  assert(!debt || !OWED_TO(1 - c) || confirmed[1 - c]);
#endif
  if
#ifdef BUG_OWNONLY
  :: true -> debt = false
#else
  :: OWED_TO(1 - c) && !confirmed[1 - c] -> skip
  :: else -> debt = false
#endif
  fi;
  check()
}

/* BEGIN; UPDATE; ...; COMMIT. The trigger runs with the UPDATE. */
active proctype transaction() {
  d_step { owed[0] = registered[0]; owed[1] = registered[1] };
  d_step { db = 1; debt = true }
}

/* Whose own cache has confirmed. */
active proctype write() {
  db == 1 && (!debt || confirmed[0]);
  if
  :: d_step { !debt -> visible() }
#ifdef BUG_SILENTPAID
  :: d_step { registered[1] && !seen[1] -> visible() }
#endif
#ifndef BUG_WAITS
  :: debt && registered[1] && !seen[1] -> skip
#endif
#ifndef PATIENT
  :: true -> skip
#endif
  fi;
  answered = true
}

proctype loader(byte c) {
  byte loads;

  do
  :: loads < NL && lives[c] && entry[c] == NONE ->
     loads++;
#ifdef BUG_NOGATE
     stores[c] = true;
#else
     stores[c] = gate[c];
#endif
     d_step { reads[c] = db; check() }; /* the query's snapshot */
     d_step {
       if
       :: stores[c] -> entry[c] = reads[c]; check()
       :: else -> skip
       fi;
       stores[c] = false;
       reads[c] = NONE
     }
  :: true -> break
  od
}

proctype payer(byte c) {
end:
  do
  :: gate[c] && lives[c] && debt && !confirmed[c] ->
     d_step { entry[c] = NONE; stores[c] = false }; /* confirmed by Redis */
     if
     :: lives[c] -> d_step { if :: debt -> settle(c) :: else -> skip fi }
     :: !lives[c] -> skip /* claimed in vain: due again */
     fi
  od
}

/* Says that its cache is in use: committed first, known afterwards, and only if that was lately. */
proctype beat(byte c) {
  byte since;

end:
  do
  :: d_step { lives[c] && !gate[c] -> since = silences[c] }
#ifdef BUG_EARLYGATE
     gate[c] = true;
     d_step { registered[c] = true; seen[c] = true }
#else
     d_step { registered[c] = true; seen[c] = true };
#ifdef BUG_LATEGATE
     gate[c] = lives[c]
#else
     gate[c] = lives[c] && since == silences[c]
#endif
#endif
  od
}

proctype time(byte c) {
end:
  do
  :: entry[c] != NONE -> entry[c] = NONE
  :: c == 1 && die > 0 && lives[c] -> d_step { die--; silences[c]++; lives[c] = false; gate[c] = false; seen[c] = false }
  :: !lives[c] && seen[c] -> seen[c] = false
  :: !lives[c] && stores[c] -> stores[c] = false /* its lease has run out */
  :: c == 1 && back > 0 && !lives[c] -> d_step { back--; lives[c] = true }
  od
}

/* By any process that pays; what the others have confirmed goes with it. */
proctype drop(byte c) {
end:
  do
#ifdef BUG_EARLYDROP
  :: d_step { registered[c] && !seen[c] ->
#else
  :: d_step { registered[c] && !seen[c] && entry[c] == NONE && !stores[c] ->
#endif
       registered[c] = false;
       if
       :: debt && confirmed[1 - c] -> debt = false
       :: else -> skip
       fi;
       check()
     }
  od
}

init {
  atomic {
    run loader(0); run loader(1);
    run payer(0); run payer(1);
    run time(0); run time(1);
    run beat(1);
#ifndef UNDROPPED
    run drop(1)
#endif
  };
  timeout;
#ifndef UNDROPPED
  assert(!debt); /* paid */
#endif
  assert(answered)
}

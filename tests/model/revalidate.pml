/* SPDX-License-Identifier: MIT */
/*
 * revalidate.pml - requests that accept only a load whose lease was granted after their first lookup
 * (GUARD_REVALIDATE), beside loads that run anyhow; for the model checker spin.
 *
 * One key; NP processes with one flight each, NR requests that revalidate in each and join it at any moment; NO loads
 * of others, of which nobody here knows. Leases are numbered in the order in which they were granted, which no
 * process sees. A flight's first lookup names the filler of the value and the lease that it found: what these two
 * fill does not count for the requests that had joined by then; any other filler's lease was granted later. Those
 * that join afterwards need a first lookup of their own.
 *
 * Checked
 *   later         no request is answered by a load whose lease was granted before the request began
 *   together      no lease is granted to a flight while a value stands that would answer all of its requests
 *   progress      every request is answered
 *   unless -DREACHED: a request is answered by the load of another process (the checker must find one)
 *
 * Budgets (how often): IV an invalidation; XP a lease is lost while its load runs; VX the value is evicted.
 *
 * Seeded bugs (-DBUG_...), each of which must be found: run.sh has the table.
 */
#ifndef NP
#define NP 2
#endif
#ifndef NR
#define NR 2
#endif
#ifndef NR1
#define NR1 NR                         /* requests of all processes but the first */
#endif
#ifndef NO
#define NO 1
#endif
#ifndef IV
#define IV 0
#endif
#ifndef XP
#define XP 0
#endif
#ifndef VX
#define VX 0
#endif

#define NONE 0
#define REQUESTS (NR + (NP - 1) * NR1)
#define RID(p, r) ((p) * NR + (r))

/* ---- the world ---- */

byte grants;                           /* leases granted so far: the number of the last one */
byte value, lease;                     /* Redis: the number of its filler; of the lease that stands */
byte iv = IV, xp = XP, vx = VX;

bool waits[NP * NR];
byte since[NP * NR];                   /* leases granted when it began */
bool pre[2 * NP * NR];                 /* joined before: the last lookup was sent, the lookup that names */
#define SENT 0
#define NAMED (NP * NR)
byte push[NP];                         /* a message on its way: the lease whose fill it carries */
byte ndone;
hidden byte i;

inline deliver(set, number) {
  i = 0;
  do
  :: i < NR ->
     if
     :: waits[RID(p, i)] && pre[set + RID(p, i)] ->
        assert(number > since[RID(p, i)]);
        waits[RID(p, i)] = 0; since[RID(p, i)] = 0; ndone++
     :: else
     fi;
     i++
  :: else -> break
  od;
  i = 0
}

inline join(set) {
  i = 0;
  do :: i < NR -> pre[set + RID(p, i)] = waits[RID(p, i)]; i++ :: else -> break od;
  i = 0
}

/* Somebody of the named ones is still there. */
inline look_who_is_left() {
  i = 0; knows = 0;
  do
  :: i < NR ->
     pre[SENT + RID(p, i)] = 0;
     pre[NAMED + RID(p, i)] = pre[NAMED + RID(p, i)] && waits[RID(p, i)];
     knows = knows || pre[NAMED + RID(p, i)];
     i++
  :: else -> break
  od;
  i = 0; found = NONE; token = NONE; tag = NONE; answer = NONE;
  if :: !knows -> no_filler = NONE; no_lease = NONE; at = 0 :: else fi
}

inline publish() {
  i = 0;
  do :: i < NP -> if :: push[i] == NONE && i != p -> push[i] = lease :: true fi; i++ :: else -> break od;
  i = 0
}

proctype request(byte id) {
  d_step { since[id] = grants; waits[id] = 1 }
}

#ifdef BUG_NOFILLER
#define COUNTS(number) (number != no_lease)
#else
#ifdef BUG_NOLEASE
#define COUNTS(number) (number != no_filler)
#else
#define COUNTS(number) (number != no_filler && number != no_lease)
#endif
#endif

proctype flight(byte p) {
  byte found, token, tag, answer;
  bool knows;                          /* it has names: of what does not count */
  byte no_filler, no_lease, at;        /* those; leases granted until then */

end_idle:
  do
  :: waits[RID(p, 0)] || waits[RID(p, NR - 1)] -> /* of two at most */
     d_step { join(SENT); if :: !knows -> join(NAMED) :: else fi };
     d_step {                          /* the lookup */
       if
       :: knows && value != NONE && COUNTS(value) -> found = value
       :: else ->
          if
#ifdef BUG_LASTNAMES
          :: true ->
#else
          :: !knows ->
#endif
             no_filler = value; no_lease = lease; at = (knows -> at : grants)
          :: else
          fi;
          assert(!knows || value == NONE || value <= at); /* together */
          knows = 1;
          if
          :: lease == NONE -> grants++; lease = grants; token = grants
          :: else -> tag = lease
          fi
       fi
     };
     if
     :: found != NONE ->
#ifdef REACHED
        assert(false);
#endif
        d_step {
#ifdef BUG_JOINNAMES
          deliver(SENT, found);
#else
          deliver(NAMED, found);
#endif
          look_who_is_left()
        }
     :: token != NONE ->               /* the load; its fill answers those that had joined when its lease was asked for */
        d_step {
#ifdef BUG_STAMP
          join(SENT);
#endif
          if :: lease == token -> publish(); value = token; lease = NONE :: else fi;
          deliver(SENT, token);
          look_who_is_left()
        }
     :: tag != NONE ->                 /* a message or the poll */
        if
        :: d_step {
             push[p] != NONE ->
             answer = push[p]; push[p] = NONE;
             if
#ifdef BUG_PUSHOLD
             :: answer == tag -> deliver(NAMED, answer)
#else
             :: answer == tag && COUNTS(answer) -> deliver(NAMED, answer)
#endif
             :: else
             fi;
             look_who_is_left()
           }
        :: d_step { lease != tag || (value != NONE && COUNTS(value)) -> look_who_is_left() }
        fi
     fi
  od
}

/* A load of somebody else's, by a request that does not revalidate. */
proctype other() {
  byte token, p = NP;
  d_step { lease == NONE -> grants++; lease = grants; token = grants };
  d_step { if :: lease == token -> publish(); value = token; lease = NONE :: else fi; token = 0 }
}

proctype trouble() {
end_quiet:
  do
  :: d_step { iv > 0 -> iv--; value = NONE; lease = NONE }
  :: d_step { xp > 0 && lease != NONE -> xp--; lease = NONE }
  :: d_step { vx > 0 && value != NONE -> vx--; value = NONE }
  od
}

init {
  byte k, r;
  atomic {
    if :: IV + XP + VX > 0 -> run trouble() :: else fi;
    do :: k < NO -> run other(); k++ :: else -> break od;
    k = 0;
    do
    :: k < NP ->
       run flight(k);
       r = 0;
       do :: r < (k > 0 -> NR1 : NR) -> run request(RID(k, r)); r++ :: else -> break od;
       k++
    :: else -> break
    od
  };
  ndone == REQUESTS /* every request was answered; else this is no valid end */
}

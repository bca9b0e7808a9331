/* SPDX-License-Identifier: MIT */
/*
 * pass.pml - answers that are not stored: PASS, for the request that started the load alone, and SHARE, for all that
 * wait in the fleet; for the model checker spin. See enum guard_how in guard/advanced.h.
 *
 * One key; NP processes with one flight each, NR requests that join it at any moment; a writer that commits MAXV
 * versions and invalidates each. Every load says at its end whether its row is stored, shared or passed. A mark in
 * the value's slot sends each request to a load of its own, without a lease. Lease and fill are those of guard.pml;
 * here their commands are not lost.
 *
 * Checked
 *   privacy       a passed row answers the request that started its load, and no other
 *   freshness     no row, and no mark, older than an invalidation that was confirmed before the request began
 *   no lining up  a request that has met a mark waits for no other load: each is answered although one of them hangs
 *   behind it     a fill under a lease never meets a mark
 *   progress      every request is answered, but for those whose own load hangs
 *
 * Budgets (how often): XP the lease is lost while its load runs; VX what is in the slot is evicted; LV a request
 * leaves; HG a load of a request's own hangs; ML a message is lost.
 *
 * -DTELLS_LOST: a share is told although its lease is lost. That harms nobody: a waiter takes it only if its own
 * lookup has found that lease.
 *
 * Seeded bugs (-DBUG_...), each of which must be found: run.sh has the table.
 */
#ifndef NP
#define NP 2
#endif
#ifndef NR
#define NR 2
#endif
#ifndef NR0
#define NR0 NR                         /* requests of the first process */
#endif
#ifndef NR1
#define NR1 NR                         /* of any other */
#endif
#ifndef MAXV
#define MAXV 1
#endif
#ifndef XP
#define XP 0
#endif
#ifndef VX
#define VX 0
#endif
#ifndef LV
#define LV 0
#endif
#ifndef HG
#define HG 0
#endif
#ifndef ML
#define ML 0
#endif

#define NONE 255
#define MARK 254
#define ALL 253
#define REQUESTS (NR0 + (NP - 1) * NR1)
#define RID(p, r) ((p) * NR + (r))

mtype = { BEFORE, WAITS, PASSES, OVER };

/* ---- the world ---- */

byte db, inv_done;                     /* committed version; highest one whose invalidation was confirmed */
byte slot = NONE, marked;              /* Redis: a row, or a mark and the row that was passed; the lease */
byte lck, tokens;
byte xp = XP, vx = VX, lv = LV, hg = HG, ml = ML;

mtype state[NP * NR] = BEFORE;
byte floor[NP * NR];                   /* what was confirmed when it began */
bool pre[2 * NP * NR];                 /* joined before: lookup or fill sent, query sent */
#define LATEST 0
#define QUERY (NP * NR)
byte ndone;
byte found_tag[NP];                    /* of the lease that the last lookup found */
byte push_tag[NP], push_row[NP], push_for[NP]; /* a message that carries a row; 0: none */
#ifdef BUG_LINEUP
bool lone[NP];                         /* a load of a request's own runs here */
#endif
hidden byte i;

/* ---- answers ---- */

inline stamp(set) {
  i = 0;
  do :: i < NR -> pre[set + RID(p, i)] = (state[RID(p, i)] == WAITS); i++ :: else -> break od;
  i = 0
}

inline end_request(id) { state[id] = OVER; floor[id] = 0; ndone++ }

/* The row of a load that whom started, or ALL, to those in the set. */
inline deliver(set, v, whom) {
  i = 0;
  do
  :: i < NR ->
     if
     :: state[RID(p, i)] == WAITS && pre[set + RID(p, i)] ->
        assert(v >= floor[RID(p, i)]);
        assert(whom == ALL || whom == RID(p, i));
        end_request(RID(p, i))
     :: else
     fi;
     i++
  :: else -> break
  od;
  i = 0
}

/* Those that wait and meet the mark of that row, or the load that passed, go on by themselves. */
inline split(set, v) {
  i = 0;
  do
  :: i < NR ->
     if
     :: state[RID(p, i)] == WAITS && (set == ALL || pre[set + RID(p, i)]) ->
        assert(set == ALL || v >= floor[RID(p, i)]);
        state[RID(p, i)] = PASSES
     :: else
     fi;
     i++
  :: else -> break
  od;
  i = 0
}

/* What a round leaves makes no difference. */
inline forget() {
  i = 0;
  do :: i < NR -> pre[LATEST + RID(p, i)] = 0; pre[QUERY + RID(p, i)] = 0; i++ :: else -> break od;
  i = 0;
  found = NONE; row = NONE; asker = NONE; token = 0; stands = 0;
  found_tag[p] = 0
}

/* ---- Redis ---- */

/* To the others. At most one message waits to be read. */
inline publish(v, whom) {
  i = 0;
  do
  :: i < NP ->
     if
     :: i != p && push_tag[i] == 0 -> push_tag[i] = token; push_row[i] = v; push_for[i] = whom
     :: i == p || push_tag[i] != 0 -> skip
     :: ml > 0 && i != p -> ml--
     fi;
     i++
  :: else -> break
  od;
  i = 0
}

inline fill(v) {
  stands = (lck == token);
  if
#ifdef BUG_FILLUNFENCED
  :: true ->
#else
  :: stands ->
#endif
     assert(slot != MARK);
     slot = v; lck = 0; publish(v, ALL)
  :: else
  fi
}

inline share(v) {
  stands = (lck == token);
  if
#ifdef TELLS_LOST
  :: true -> lck = (stands -> 0 : lck);
#else
  :: stands -> lck = 0;
#endif
     publish(v, ALL)
  :: else
  fi
}

inline mark(v) {
  if
#ifdef BUG_MARKUNFENCED
  :: true ->
#else
  :: lck == token ->
#endif
     slot = MARK; marked = v; lck = 0;
#ifdef BUG_PUSHPASS
     publish(v, asker)
#endif
  :: else
  fi
}

inline invalidate() {
#ifdef BUG_MARKSTAYS
  if :: slot != MARK -> slot = NONE :: else fi;
#else
  slot = NONE; marked = 0;
#endif
  lck = 0
}

/* ---- processes ---- */

proctype request(byte p, id) {
  byte row;
  d_step { floor[id] = inv_done; state[id] = WAITS };
  if
  :: state[id] == OVER
  :: d_step { state[id] == WAITS && lv > 0 -> lv--; end_request(id) }
  :: state[id] == PASSES ->            /* a load of its own */
#ifdef BUG_LINEUP
     d_step { !lone[p] -> lone[p] = 1 };
#endif
     row = db;
#ifdef BUG_MARKBARE
     d_step { slot = MARK; marked = row };
#endif
     if
     :: d_step { hg > 0 -> hg--; row = 0; end_request(id) } goto hangs
     :: d_step { assert(row >= floor[id]); row = 0; end_request(id) }
     fi;
#ifdef BUG_LINEUP
     lone[p] = 0;
#endif
     skip
  fi;
hangs: skip
}

/* The oldest; any may be. */
inline choose_asker() {
  i = 0;
  do
  :: i < NR && state[RID(p, i)] == WAITS -> asker = RID(p, i); break
  :: i < NR -> i++
  :: i == NR -> break
  od;
  i = 0
}

/* The load passed: its asker has the row, if it is still there. */
inline answer_asker() {
#ifdef BUG_NEXT
  if :: asker == NONE || state[asker] == WAITS -> skip
     :: else -> i = 0; do :: i < NR && state[RID(p, i)] != WAITS -> i++ :: else -> break od;
        if :: i < NR -> assert(RID(p, i) == asker) :: else fi; i = 0
  fi;
#endif
#ifdef BUG_TELLALL
  deliver(QUERY, row, asker);
#endif
  if
  :: asker != NONE && state[asker] == WAITS -> assert(row >= floor[asker]); end_request(asker)
  :: else
  fi
}

proctype flight(byte p) {
  byte found = NONE, row = NONE, asker = NONE, token;
  bool stands;

end_idle:
  do
  :: state[RID(p, 0)] == WAITS || state[RID(p, NR - 1)] == WAITS -> /* of two at most */
     d_step { stamp(LATEST) };
     d_step {
       if
       :: slot == MARK -> found = MARK; row = marked
       :: slot != MARK && slot != NONE -> found = slot
       :: slot == NONE && lck == 0 -> tokens++; token = tokens; lck = token
       :: slot == NONE && lck != 0 -> found_tag[p] = lck
       fi
     };
     if
     :: d_step { found == MARK -> split(LATEST, row); forget() }
     :: d_step { found != NONE && found != MARK -> deliver(LATEST, found, ALL); forget() }
     :: token != 0 ->
        atomic { stamp(QUERY); choose_asker() };
        row = db;
        if
        :: d_step { stamp(LATEST) };   /* stored */
           atomic { fill(row) };
           d_step { if :: stands -> deliver(LATEST, row, ALL) :: else -> deliver(QUERY, row, ALL) fi; forget() }
        :: atomic { share(row) };
           d_step {
#ifdef BUG_SHAREALL
             stamp(QUERY);
#endif
             deliver(QUERY, row, ALL); forget()
           }
        :: d_step { answer_asker(); split(ALL, row) };
           atomic { mark(row) };
           d_step { forget() }
        fi
     :: found_tag[p] != 0 ->           /* another process has the lease: a message or the poll */
        if
        :: d_step {
             push_tag[p] != 0 ->
             if
#ifdef BUG_SHARETAG
             :: true ->
#else
             :: push_tag[p] == found_tag[p] ->
#endif
#ifdef BUG_SHAREJOIN
                stamp(LATEST);
#endif
                deliver(LATEST, push_row[p], push_for[p])
             :: else
             fi;
             push_tag[p] = 0; push_row[p] = 0; push_for[p] = 0;
             forget()
           }
        :: d_step { lck != found_tag[p] || slot != NONE -> forget() }
        fi
     fi
  od
}

proctype writer() {
  do
  :: db < MAXV -> db++; d_step { invalidate(); inv_done = db }
  :: else -> break
  od
}

proctype trouble() {
end_quiet:
  do
  :: d_step { xp > 0 && lck != 0 -> xp--; lck = 0 }
  :: d_step { vx > 0 && slot != NONE -> vx--; slot = NONE; marked = 0 }
  od
}

init {
  byte p, r;
  atomic {
    run writer();
    if :: XP + VX > 0 -> run trouble() :: else fi;
    p = 0;
    do
    :: p < NP ->
       run flight(p);
       r = 0;
       do :: r < (p > 0 -> NR1 : NR0) -> run request(p, RID(p, r)); r++ :: else -> break od;
       p++
    :: else -> break
    od
  };
  ndone == REQUESTS /* every request was answered; else this is no valid end */
}

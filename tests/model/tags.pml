/* SPDX-License-Identifier: MIT */
/*
 * tags.pml - invalidating a group: the clock of the tags, their epochs and the birth of entries, for the model
 * checker spin. See guard/base/tags.h.
 *
 * One key with one tag; NP processes with one flight each, NR requests that join it at any moment; a writer that
 * commits MAXV versions and invalidates the tag after each; the scripts of guard/wire/scripts/tag_*.lua, acquire and
 * fill as atomic steps. An era is a number that never comes again, and so is a reign: the master's that has clock and
 * epochs. Value and lease stand at another master, which does not fail over.
 *
 * Checked
 *   freshness     no request is answered with a row older than an invalidation of the tag that was confirmed before
 *                 the request began; a failover may lose invalidations, and lowers what is promised by these alone
 *   progress      no request is left waiting when nothing can move: an invalid end state
 *   unless -DREACHED: a hit is answered after an invalidation, or a stale one (the checker must find one: else this
 *   proves nothing)
 *
 * -DEXPIRE: the writer expires the tag (-DEXPIRE=2: or invalidates it): its epoch moves on as ever, and a companion
 * key says of which epoch it is and since when entries are stale, not out of date. What finds one of these makes it
 * stale, born at the epoch that it has read, if it still stands there. Freshness is then promised of answers that are
 * not marked stale. SC: how often the companion is evicted.
 *
 * Budgets (how often): TX the tag's epoch is evicted; CX the clock is evicted; VX the value expires; XP the lease is
 * lost while its load runs; OM an invalidation finds no memory; KL the command that keeps the tag is lost on its way;
 * FO clock and epochs fail over to a replica that lags; FM the master before that one goes on: its clock is read, or
 * moves on.
 *
 * Seeded bugs (-DBUG_...), each of which must be found: run.sh has the table.
 */
#ifndef NP
#define NP 2
#endif
#ifndef NR
#define NR 1
#endif
#ifndef MAXV
#define MAXV 1
#endif
#ifndef TX
#define TX 0
#endif
#ifndef CX
#define CX 0
#endif
#ifndef VX
#define VX 0
#endif
#ifndef XP
#define XP 0
#endif
#ifndef OM
#define OM 0
#endif
#ifndef KL
#define KL 0
#endif
#ifndef FO
#define FO 0
#endif
#ifndef FM
#define FM 0
#endif
#ifndef SC
#define SC 0
#endif

#define NONE 255
#define RID(p, r) ((p) * NR + (r))

typedef clock { byte era, count };     /* era 0: none */

/* ---- the world ---- */

byte db, inv_done;                     /* committed version; highest one whose invalidation was confirmed */
byte cval = NONE, lck;                 /* Redis: value, lease: 1 + its process */
byte cfil, fills;                      /* the value's filler: a number of its own */
clock vborn, clk, tag;
byte eras;
#ifdef EXPIRE
byte sc = SC;
clock soft_of, soft_since;             /* the companion */
bool cstale;                           /* the value was made stale */
byte exp_done;                         /* highest version whose expiry, or invalidation, was confirmed */
byte fresh_floor[NP * NR];             /* that, when the request began */
#endif
byte reign = 1, clk_reign = 1;         /* the master's; under which the clock was last looked at */
byte told;                             /* version of the last invalidation that the master has carried out */
clock rclk, rtag;                      /* the replica: an earlier state of the same */
byte rclk_reign = 1, rtold;
byte moment = 1;                       /* the time of all masters */
#if FM > 0
clock fclk;                            /* the master before: its clock, its reign (0: there is none), likewise */
byte freign, fclk_reign, fm = FM;
#endif
byte tx = TX, cx = CX, vx = VX, xp = XP, om = OM, kl = KL, fo = FO;

#ifdef BUG_FULLKEEPS
byte was;
#endif

bool joined[NP * NR];                  /* waits */
bool pre[2 * NP * NR];                 /* joined before: lookup or fill sent, query sent */
#define LATEST 0
#define QUERY (NP * NR)
byte floor[NP * NR];                   /* what was confirmed when it began */
byte ndone;
hidden byte i;

/* ---- scripts ---- */

inline begin_era() {
  eras++;
#ifdef BUG_SAMEERA
  clk.era = 1;
#else
  clk.era = eras;
#endif
  clk.count = 1
}

/* Much time has passed, and something has happened in each of its moments. */
#define LEAP 8
inline leap(c) {
#ifdef BUG_LEAPAGAIN
  c.count = c.count + LEAP
#else
  moment = moment + LEAP;
  c.count = moment
#endif
}

inline step(c) {
#if defined(BUG_COUNTS) || defined(BUG_SAMEREIGN) || defined(BUG_LEAPAGAIN)
  c.count++
#else
  moment++;
  c.count = moment
#endif
}

/* What the master before had counted may be lost with it, and so may its leap: no number must come again. */
inline look_at_reign() {
#ifdef BUG_SAMEREIGN
  skip
#else
  if :: clk.era != 0 && clk_reign != reign -> leap(clk) :: else fi;
  clk_reign = reign
#endif
}

inline read_clock(b) {
  look_at_reign();
  if :: clk.era == 0 -> begin_era() :: else fi;
  b.era = clk.era;
  b.count = clk.count
}

#if FM > 0
inline look_at_former_reign() {
  if :: fclk_reign != freign -> leap(fclk) :: else fi;
  fclk_reign = freign
}
#define GOES_ON (fm > 0 && freign != 0 && fclk.era != 0)
#endif

/* Is an entry that was born then good? */
#ifdef BUG_BLIND
#define GOOD(b) true
#else
#ifdef BUG_LOSTGOOD
#define GOOD(b) (tag.era == 0 || (tag.era == b.era && tag.count <= b.count))
#else
#define GOOD(b) (tag.era != 0 && tag.era == b.era && tag.count <= b.count)
#endif
#endif

#ifdef EXPIRE
#define SAME(one, other) (one.era == other.era && one.count == other.count)
#ifdef BUG_COMPANIONSTAYS
#define IS_OF_EPOCH (soft_of.era != 0)
#else
#define IS_OF_EPOCH (soft_of.era != 0 && SAME(soft_of, tag))
#endif
#ifdef BUG_SOFTALONE
#define IS_FRESH(b) (GOOD(b) && !(soft_of.era != 0 && b.era == soft_since.era && b.count < soft_since.count))
#else
#define IS_FRESH(b) GOOD(b)
#endif
#define STALE(b) (tag.era != 0 && IS_OF_EPOCH && soft_since.era == b.era && soft_since.count <= b.count)
inline copy(to, from) { to.era = from.era; to.count = from.count }
#endif

inline keep(b) {
  look_at_reign();
  if :: clk.era == 0 -> begin_era() :: else fi;
  if
  :: tag.era == 0 || tag.era != clk.era ->
#ifdef BUG_BACKDATE
     tag.era = b.era;
     tag.count = b.count
#else
     tag.era = clk.era;
     tag.count = clk.count
#endif
  :: else
  fi
}

inline invalidate_tag() {
  look_at_reign();
#ifdef BUG_FULLKEEPS
  was = clk.count;
#endif
  if
  :: clk.era == 0 -> begin_era()
#ifdef BUG_NOADVANCE
  :: else
#else
  :: else -> step(clk)
#endif
  fi;
  if
  :: om > 0 -> /* no memory: both go */
     om--;
     tag.era = 0;
     tag.count = 0;
#ifndef BUG_FULLKEEPS
     clk.era = 0;
     clk.count = 0
#else
     clk.count = was /* the step could not be stored */
#endif
  :: tag.era = clk.era; tag.count = clk.count
  fi
}

#ifdef EXPIRE
/* As above, and what was good until then is stale; what was stale stays so. */
inline expire_tag() {
#ifdef BUG_SOFTALONE
  /* the epoch stays: the companion alone tells */
  if :: clk.era != 0 -> step(clk); copy(soft_of, tag); copy(soft_since, clk) :: else fi
#else
  look_at_reign();
#ifdef BUG_SINCEEVER
  soft_since.era = tag.era; soft_since.count = 0;
#else
  if :: IS_OF_EPOCH -> skip :: else -> copy(soft_since, tag) fi;
#endif
  invalidate_tag();
  copy(soft_of, tag)
#endif
}
#define CHANGE if :: soft -> expire_tag() :: else -> invalidate_tag() fi
#else
#define CHANGE invalidate_tag()
#endif

/* ---- answers ---- */

inline stamp(set) {
  i = 0;
  do :: i < NR -> pre[set + RID(p, i)] = joined[RID(p, i)]; i++ :: else -> break od;
  i = 0
}

/* What a round leaves makes no difference. */
inline forget() {
  i = 0;
  do
  :: i < NR ->
     pre[LATEST + RID(p, i)] = 0;
     pre[QUERY + RID(p, i)] = 0;
     if :: !joined[RID(p, i)] -> floor[RID(p, i)] = 0 :: else fi;
     i++
  :: else -> break
  od;
  i = 0;
  found = NONE;
  filler = 0;
  row = NONE;
  good = 0;
  stored = 0;
  leased = 0;
  born.era = 0;
  born.count = 0;
#ifdef EXPIRE
  marked = 0;
  was_stale = 0;
  newborn.era = 0;
  newborn.count = 0;
#endif
  seen.era = 0;
  seen.count = 0
}

/* To those in the set. */
inline deliver(set, v) {
  i = 0;
  do
  :: i < NR ->
     if
     :: joined[RID(p, i)] && pre[set + RID(p, i)] ->
#ifdef EXPIRE
        assert(marked || v >= fresh_floor[RID(p, i)]);
        fresh_floor[RID(p, i)] = 0;
#endif
        assert(v >= floor[RID(p, i)]);
        joined[RID(p, i)] = 0;
        ndone++
     :: else
     fi;
     i++
  :: else -> break
  od;
  i = 0
}

/* ---- processes ---- */

proctype request(byte id) {
#ifdef EXPIRE
  d_step { floor[id] = inv_done; fresh_floor[id] = exp_done; joined[id] = 1 }
#else
  d_step { floor[id] = inv_done; joined[id] = 1 }
#endif
}

proctype flight(byte p) {
  byte found, filler, refused, row;
  bool good, stored, leased;
  clock born, seen;
#ifdef EXPIRE
  bool marked, was_stale;              /* what it found is stale; and had been made so before */
  clock newborn;                       /* else: what it may be called born at */
#endif

end_idle:
  do
  :: joined[RID(p, 0)] || joined[RID(p, NR / 2)] || joined[RID(p, NR - 1)] -> /* of three at most */
     /* the clock, then acquire: beside each other, not as one */
     if
     :: d_step { stamp(LATEST); read_clock(born) }
#if FM > 0
     :: d_step { GOES_ON -> fm--; stamp(LATEST); look_at_former_reign(); born.era = fclk.era; born.count = fclk.count }
#endif
     fi;
     atomic {
       leased = 0;
       found = NONE;
       if
       :: cval != NONE && cfil != refused ->
          found = cval;
          filler = cfil;
#ifdef EXPIRE
          was_stale = cstale;
#endif
          seen.era = vborn.era;
          seen.count = vborn.count
       :: (cval == NONE || cfil == refused) && lck == 0 -> lck = p + 1; leased = 1
       :: else
       fi
     };
     if
     :: found != NONE -> /* the check */
#ifdef EXPIRE
        d_step {
          good = IS_FRESH(seen);
          marked = !good && STALE(seen);
          if :: marked -> copy(newborn, tag) :: else fi;
          good = good || marked
        };
        if
        :: marked -> /* make_stale */
           d_step {
             if
             :: cval != NONE && cfil == filler ->
#ifdef BUG_BORNLATE
                copy(vborn, clk);
#else
                copy(vborn, newborn);
#endif
#ifndef BUG_NEWBORN
                cstale = 1
#endif
             :: else -> good = 0
             fi
           }
        :: else -> marked = good && was_stale
        fi;
#else
        d_step { good = GOOD(seen) };
#endif
        if
        :: good ->
#ifdef REACHED
#ifdef EXPIRE
           assert(!marked);
#else
           assert(inv_done == 0 || found < inv_done);
#endif
#endif
           d_step { deliver(LATEST, found); forget() }
        :: else -> d_step { refused = filler; forget() }
        fi
     :: leased ->
        d_step { stamp(QUERY); row = NONE };
        row = db; /* the query */
#ifdef BUG_LATECLOCK
        d_step { read_clock(born) };
#endif
        d_step { stamp(LATEST) }; /* the fill is sent: the requests that joined before it */
        if
        :: d_step { keep(born); good = GOOD(born) }
        :: kl > 0 -> kl--; good = 0
        fi;
        d_step {
          stored = lck == p + 1;
          if
          :: stored ->
             fills++;
             cval = row;
             cfil = fills;
#ifdef EXPIRE
             cstale = 0;
#endif
             vborn.era = born.era;
             vborn.count = born.count;
             lck = 0
          :: else
          fi
        };
        d_step {
          if
#ifdef BUG_FILLSTAMP
          :: stored ->
#else
          :: stored && good ->
#endif
             deliver(LATEST, row)
          :: else -> deliver(QUERY, row)
          fi;
          forget()
        }
     :: else -> (lck == 0 || (cval != NONE && cfil != refused)) /* busy: a message or the poll */
     fi
  od
}

proctype writer() {
  byte sent;
#ifdef EXPIRE
  bool soft;
#endif
  do
  :: db < MAXV ->
     db++;
#ifdef EXPIRE
     if :: soft = 1 :: EXPIRE > 1 -> soft = 0 fi;
#endif
again:
     atomic { sent = reign; CHANGE; told = db };
     if
#ifdef EXPIRE
     :: d_step { sent == reign -> exp_done = db; if :: !soft -> inv_done = db :: else fi; soft = 0; sent = 0 }
#else
     :: d_step { sent == reign -> inv_done = db; sent = 0 }
#endif
     :: sent != reign -> goto again /* its connection broke: unknown */
     fi
  :: else -> break
  od
}

/* ---- what breaks ---- */

inline lower(b) {
  if :: b > rtold -> b = rtold :: else fi
}

inline fail_over() {
#if FM > 0
  fclk.era = clk.era;
  fclk.count = clk.count;
  fclk_reign = clk_reign;
  freign = reign;
#endif
  reign++;
  clk.era = rclk.era;
  clk.count = rclk.count;
  tag.era = rtag.era;
  tag.count = rtag.count;
  clk_reign = rclk_reign;
  told = rtold;
  lower(inv_done);
  i = 0;
  do :: i < NP * NR -> lower(floor[i]); i++ :: else -> break od;
  i = 0
}

inline replicate() {
  rclk.era = clk.era;
  rclk.count = clk.count;
  rtag.era = tag.era;
  rtag.count = tag.count;
  rclk_reign = clk_reign;
  rtold = told
}

#define LAGS (rclk.era != clk.era || rclk.count != clk.count || rtag.era != tag.era || rtag.count != tag.count || \
              rclk_reign != clk_reign || rtold != told)

proctype trouble() {
end_quiet:
  do
  :: d_step { tx > 0 && tag.era != 0 -> tx--; tag.era = 0; tag.count = 0 }
  :: d_step { cx > 0 && clk.era != 0 -> cx--; clk.era = 0; clk.count = 0 }
#if SC > 0
  :: d_step { sc > 0 && soft_of.era != 0 -> sc--; soft_of.era = 0; soft_of.count = 0; soft_since.era = 0; soft_since.count = 0 }
#endif
  :: d_step { vx > 0 && cval != NONE -> vx--; cval = NONE; cfil = 0 }
  :: d_step { xp > 0 && lck != 0 -> xp--; lck = 0 }
#if FO > 0
  :: d_step { fo > 0 && LAGS -> replicate() }
  :: d_step { fo > 0 -> fo--; fail_over() }
#endif
#if FM > 0
  :: d_step { GOES_ON -> fm--; look_at_former_reign(); step(fclk) } /* it confirms an invalidation */
#endif
  od
}

init {
  byte p, r;
  atomic {
    run writer();
    if :: TX + CX + VX + XP + FO + SC > 0 -> run trouble() :: else fi;
    p = 0;
    do
    :: p < NP ->
       run flight(p);
       r = 0;
       do :: r < NR -> run request(RID(p, r)); r++ :: else -> break od;
       p++
    :: else -> break
    od
  };
  ndone == NP * NR /* every request was answered; else this is no valid end */
}

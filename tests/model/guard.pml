/* SPDX-License-Identifier: MIT */
/*
 * guard.pml - the protocol of guard/, for the model checker spin.
 *
 * One key; NP processes with one flight each, NR requests that join it; a writer that commits MAXV versions
 * and invalidates after each; one Redis whose scripts are atomic; an environment that breaks things within the
 * budgets below. Flights and stamps are those of guard/core, scripts those of guard/wire/scripts, in the same words.
 *
 * Checked
 *   freshness     no request is answered with a row older than an invalidation that was confirmed before the
 *                 request began
 *   one load      at most one load runs under leases that were not voided
 *   no waste      no load starts under a live lease while a fresh value, or the failure of the last load, is there;
 *                 but an early refresh of that very value may
 *   progress      (safety) no request is left waiting when nothing can move: an invalid end state
 *                 (-DLIVE, an LTL formula) every request is answered
 *
 * Budgets (how often): FB a command is lost, not run, or run LATER than its sender waits for it; ML a message is
 * lost; XP a live holder loses its lease (stall, clock, eviction); VX the value expires; FX the failure lease
 * expires; SX the value becomes stale; EA a hit asks for an early refresh; RS Redis restarts empty; FO failover to a
 * replica that lags; TM the same, and the former master goes on: connections stay there until they are answered that
 * it takes no writes, which is all it answers, or until they break; CR a process is killed; LE a load fails; CA a
 * load is cancelled because its lease was found lost.
 *
 * -DPUSH: a fill's message may carry the tag of its lease and the value, and may be read at once or at any later
 * time, whatever has happened meanwhile.
 *
 * -DEXPIRE: the writer expires the key instead of invalidating it (-DEXPIRE=2: or invalidates it): freshness is then
 * promised of answers that are not marked stale. -DCLEAR: it clears the namespace, in two steps.
 *
 * Seeded bugs (-DBUG_...), each of which must be found: run.sh has the table.
 */
#ifndef NP
#define NP 2
#endif
#ifndef NR
#define NR 1
#endif
#ifndef NR0
#define NR0 NR                      /* requests of the first process */
#endif
#ifndef MAXV
#define MAXV 1
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
#ifndef VX
#define VX 0
#endif
#ifndef FX
#define FX 0
#endif
#ifndef RS
#define RS 0
#endif
#ifndef FO
#define FO 0
#endif
#ifndef TM
#define TM 0
#endif
#ifndef CR
#define CR 0
#endif
#ifndef LE
#define LE 0
#endif
#ifndef CA
#define CA 0
#endif
#ifndef SX
#define SX 0
#endif
#ifndef EA
#define EA 0
#endif

#define NONE 255
#define ERRV 254
#define NT 14                       /* tokens; fresh() asserts that they suffice */
#define RID(p, r) ((p) * NR + (r))

mtype = { UNK, HIT, LEASE, BUSY, FAILED, STALE, OURS, STORED, LOST, GONE, ACQ, EARLY, FILL, TOUCH, REL, INV, EXP };

/* ---- the world ---- */

byte db, inv_done;                  /* committed version; highest version whose invalidation was confirmed */
#ifdef EXPIRE
byte exp_done;                      /* or whose expiry was */
#define MARKED 64                   /* an answer that says of itself that it is stale */
#define STALE_ROW(v) ((v) + MARKED)
#define IS_FRESH_ENOUGH(v) (v >= MARKED -> v - MARKED >= floor : v >= fresh_floor)
#else
#define STALE_ROW(v) v
#define IS_FRESH_ENOUGH(v) (v >= floor)
#endif
byte cval = NONE, cfil, lck, fail;  /* Redis: value, its filler's token, lease, failure lease */
bool cst, rcst;                     /* the value is stale; the replica's */
byte rcval = NONE, rcfil, rlck, rfail; /* the replica: an earlier state of the same */
byte fb = FB, ml = ML, xp = XP, vx = VX, fx = FX, rs = RS, fo = FO, cr = CR, le = LE, ca = CA, sx = SX, ea = EA;
bool latch[NP], up[NP], fl[NP];     /* wake-up pending; process alive; has a flight */
bool waiting[NP * NR], pre[3 * NP * NR]; /* joined before: lookup sent, query sent, fill first sent */
#define PL 0
#define PQ (NP * NR)
#define PF (2 * NP * NR)
byte res[NP * NR];
byte ndone;
byte prv[NP];                       /* token of an attempt that may still hold the lease */
byte old[NP] = NONE, ofil[NP];      /* the value that p refreshes, and its filler; ofil: also the one it wants early */
chan zom = [3] of { mtype, byte, byte, byte }; /* commands that will run late: kind, token, prev, value */
byte zref[NT];                      /* tokens named by them */
#ifdef PUSH
byte ptag[NP], pval[NP];            /* a message on its way to p: tag of the lease, value; 0: none */
byte btag[NP];                      /* of the lease that p's last lookup found */
#endif
byte foep;                          /* failovers so far: they break the writer's connection */
#define CLIENTS (NP + 1)            /* the processes; the writer */
#define WRITER NP
#if TM > 0
byte tm = TM;
bool at_former[CLIENTS];            /* connected to the master before this one, */
byte fcval = NONE, fcfil, flck, ffail; /* which has these */
bool fcst;
#endif

/* ghosts: know what no process knows */
bool held[NT];                      /* a live flight uses this token */
bool ld[NP], vd[NP];                /* p loads; p's lease was voided for a legitimate reason */
byte ltok[NP];                      /* p's lease */
bool failed;                        /* a load failed lately, and the fleet was told so */
hidden byte i;
hidden byte any;

/* ---- Redis ---- */

inline pub() {                      /* at most once for each subscriber */
  i = 0;
  do
  :: i < NP -> if :: latch[i] = 1 :: ml > 0 -> ml-- fi; i++
  :: else -> break
  od
}
#ifdef PUSH
/* The message of a fill: it may carry what was stored, as there may be waiters that are not in the model. At most one
 * message waits to be read. */
inline pub_filled(tk, v) {
  if
  :: true ->
       i = 0;
       do
       :: i < NP ->
            if
            :: ltok[i] == tk -> skip                                         /* its own: it waits for no other */
            :: ltok[i] != tk && ptag[i] == 0 -> ptag[i] = tk; pval[i] = v
            :: ltok[i] != tk && ptag[i] != 0 -> latch[i] = 1
            :: ml > 0 -> ml--
            fi; i++
       :: else -> break
       od
  :: true -> pub()
  fi
}
#else
#define pub_filled(tk, v) pub()
#endif
inline resync() { i = 0; do :: i < NP -> latch[i] = 1; i++ :: else -> break od }
inline voided() {
  i = 0;
  do
  :: i < NP -> if :: lck != 0 && ltok[i] == lck -> vd[i] = 1 :: else fi; i++
  :: else -> break
  od
}
inline x_acquire(tk, prevtk) {
  if :: prevtk != 0 && lck == prevtk -> lck = 0 :: else fi;
#ifdef PUSH
  rept = 0;
  if :: lck != 0 && lck != tk && (cval == NONE || cst) -> rept = lck :: else fi;
#endif
#ifdef BUG_NONATOMIC
  if
  :: lck != 0 && lck != tk -> rep = BUSY
  :: else -> lck = tk; rep = LEASE
  fi
#else
  if
  :: cval != NONE && !cst -> rep = HIT; repv = cval; repf = cfil
  :: cval != NONE && cst && lck != 0 && lck != tk -> rep = STALE; repv = cval
  :: cval != NONE && cst && lck == 0 && fail -> rep = STALE; repv = cval
  :: cval != NONE && cst && lck == tk -> rep = OURS; repv = cval; repf = cfil
  :: cval != NONE && cst && lck == 0 && !fail -> lck = tk; rep = OURS; repv = cval; repf = cfil
  :: cval == NONE && lck == tk -> rep = LEASE
  :: cval == NONE && lck != 0 && lck != tk -> rep = BUSY
  :: cval == NONE && lck == 0 && fail -> rep = FAILED
  :: cval == NONE && lck == 0 && !fail -> lck = tk; rep = LEASE
  fi
#endif
}
inline x_early(tk, wanted) {        /* of the value with this filler, unless another process does */
  if
#ifdef BUG_EARLYANY
  :: cval != NONE && lck == 0 && !fail ->
#else
  :: cval != NONE && lck == 0 && !fail && cfil == wanted ->
#endif
       lck = tk; rep = OURS; repv = cval; repf = cfil
  :: else -> rep = HIT; repv = NONE
  fi
}
inline x_touch(tk, wanted) {        /* the value stays, its filler is new */
  if
#ifdef BUG_TOUCHUNFENCED
  :: cval != NONE && cfil == wanted ->
#else
  :: lck == tk && cval != NONE && cfil == wanted ->
#endif
       cfil = tk; cst = 0; fail = 0; failed = 0; pub_filled(tk, cval); lck = 0; rep = STORED
  :: lck == tk && (cval == NONE || cfil != wanted) -> rep = GONE
  :: lck != tk && cval != NONE && cfil == tk -> rep = STORED
  :: else -> rep = LOST
  fi
}
inline x_fill(tk, v) {
#ifdef BUG_UNFENCED
  cval = v; cst = 0; cfil = tk; fail = 0; failed = 0; if :: lck == tk -> lck = 0 :: else fi; pub(); rep = STORED
#else
  if
  :: lck == tk -> cval = v; cst = 0; cfil = tk; fail = 0; failed = 0; pub_filled(tk, v); lck = 0; rep = STORED
  :: lck != tk && cval != NONE && cfil == tk -> rep = STORED     /* already its own: the reply was lost */
  :: else -> rep = LOST
  fi
#endif
}
inline x_release(tk, failing) {
#ifdef BUG_DELANY
  lck = 0; fail = failing; failed = failing; pub(); rep = STORED
#else
  if
  :: lck == tk ->
       lck = 0; failed = failing;
#ifndef BUG_NOFAILURE
       fail = failing;
#endif
       pub(); rep = STORED
  :: else -> rep = LOST
  fi
#endif
}
inline x_invalidate() {
#ifdef BUG_INVSTALE
  if :: cval != NONE -> cst = 1 :: else fi;                                  /* keeps the value, as a stale one */
#else
  cval = NONE; cst = 0; cfil = 0;
#endif
  fail = 0; failed = 0;
#ifndef BUG_NOVOID
  voided(); lck = 0;
#endif
  pub()
}

#ifdef EXPIRE
/* The value is stale from now on, whatever life it had; the rest as above. */
inline x_expire() {
#ifndef BUG_EXPIRENOTHING
  if :: cval != NONE -> cst = 1 :: else fi;
#endif
  fail = 0; failed = 0;
#ifndef BUG_EXPIRELEASE
  voided(); lck = 0;
#endif
  pub()
}
#endif
#ifdef CLEAR
inline x_void() { voided(); lck = 0 }
inline x_drop() { cval = NONE; cst = 0; cfil = 0; fail = 0; failed = 0; pub() }
#endif
#ifdef EXPIRE
#define x_change() if :: soft -> x_expire() :: else -> x_invalidate() fi
#define CHANGE (soft -> EXP : INV)
#else
#ifdef CLEAR
#ifdef BUG_CLEARORDER
#define x_first() x_drop()
#define x_change() x_void()
#else
#define x_first() x_void()
#define x_change() x_drop()
#endif
#else
#define x_change() x_invalidate()
#endif
#define CHANGE INV
#endif

/* ---- which Redis ---- */

#if TM > 0
inline swap(a, b) { any = a; a = b; b = any }
inline change_sides() {
  swap(cval, fcval); swap(cfil, fcfil); swap(lck, flck); swap(fail, ffail);
  if :: cst != fcst -> cst = !cst; fcst = !fcst :: else fi;
  any = 0
}
inline reconnect(c) { if :: at_former[c] -> at_former[c] = 0; if :: c < NP -> latch[c] = 1 :: else fi :: else fi }
#ifdef BUG_GET
/* A hit, and what acquire answers without a write, is read where nothing may be written. */
inline at_former_acquire(c, tk, prevtk) {
  change_sides();
  if
  :: cval != NONE || (lck != 0 && lck != prevtk) || fail -> x_acquire(tk, 0); if :: lck == tk -> lck = 0; rep = UNK :: else fi
  :: else -> rep = UNK
  fi;
  change_sides();
  if :: rep == UNK -> repv = 0; repf = 0; reconnect(c) :: else fi
}
#endif
#ifdef BUG_TWOMASTERS
#define AT_FORMER(c, command) change_sides(); command; change_sides()
#else
#define AT_FORMER(c, command) rep = UNK; reconnect(c)
#endif
#ifdef BUG_GET
#define AT_FORMER_ACQUIRE(c, tk, prevtk) at_former_acquire(c, tk, prevtk)
#else
#define AT_FORMER_ACQUIRE(c, tk, prevtk) AT_FORMER(c, x_acquire(tk, prevtk))
#endif
#define AT(c, command) if :: at_former[c] -> AT_FORMER(c, command) :: else -> command fi
#define ACQUIRE(c, tk, prevtk) if :: at_former[c] -> AT_FORMER_ACQUIRE(c, tk, prevtk) :: else -> x_acquire(tk, prevtk) fi
#else
#define AT(c, command) command
#define ACQUIRE(c, tk, prevtk) x_acquire(tk, prevtk)
#endif

/* ---- a process ---- */

/* The smallest token that occurs nowhere: tokens are only compared, so this is as good as a new UUID. */
inline fresh() {
  tok = 1;
  do
  :: assert(tok < NT);
     any = 0; i = 0;
     do :: i < NP -> any = any | (prv[i] == tok) | (ofil[i] == tok); i++ :: else -> break od;
#ifdef PUSH
     i = 0;
     do :: i < NP -> any = any | (ptag[i] == tok) | (btag[i] == tok); i++ :: else -> break od;
#endif
     if
     :: any || held[tok] || lck == tok || rlck == tok || cfil == tok || rcfil == tok || zref[tok] > 0 -> tok++
     :: else -> break
     fi
  od
}
inline mark(a) { i = 0; do :: i < NR -> if :: waiting[RID(p, i)] -> pre[a + RID(p, i)] = 1 :: else fi; i++ :: else -> break od }
inline deliver(a, v) {
  i = 0;
  do
  :: i < NR ->
       if
       :: waiting[RID(p, i)] && pre[a + RID(p, i)] ->
            waiting[RID(p, i)] = 0; res[RID(p, i)] = v;
            pre[PL + RID(p, i)] = 0; pre[PQ + RID(p, i)] = 0; pre[PF + RID(p, i)] = 0
       :: else
       fi; i++
  :: else -> break
  od
}
inline clear() { i = 0; do :: i < NR -> pre[PL + RID(p, i)] = 0; pre[PQ + RID(p, i)] = 0; pre[PF + RID(p, i)] = 0; i++ :: else -> break od }
inline one_load() { any = 0; i = 0; do :: i < NP -> any = any + (ld[i] && !vd[i]); i++ :: else -> break od; assert(any <= 1) }
inline late(kind, tk, prevtk, v) { zom!kind(tk, prevtk, v); zref[tk]++; zref[prevtk]++ }

proctype Request(byte p, r) {
  byte floor;
#ifdef EXPIRE
  byte fresh_floor;
#endif
  atomic {
    if
    :: !up[p] -> ndone++; goto out
    :: else ->
#ifdef EXPIRE
         fresh_floor = exp_done;
#endif
         floor = inv_done; waiting[RID(p, r)] = 1; fl[p] = 1
    fi
  }
  atomic {
    if
    :: up[p] && !waiting[RID(p, r)] ->
         assert(res[RID(p, r)] == ERRV || IS_FRESH_ENOUGH(res[RID(p, r)]));
         res[RID(p, r)] = 0; floor = 0; ndone++
    :: !up[p] -> ndone++
    fi
  }
out: skip
}

proctype Process(byte p) {
  byte tok, snap, repv, repf, rept; mtype rep;
  bool again;                       /* the fill has been sent before */
  bool early;                       /* asks for an early refresh, or has its lease */
idle:
end_idle:
  do
  :: atomic { fl[p] } goto ask
  od;
ask:
#ifdef BUG_EARLYREAD
  atomic { mark(PQ); snap = db }    /* the query goes out before the lease is held */
#endif
  atomic {
    mark(PL);
#ifdef BUG_SAMETOKEN
    if :: prv[p] == 0 -> fresh() :: else -> tok = prv[p] fi; prv[p] = 0;
#else
    fresh();
#endif
    held[tok] = 1;
#ifndef BUG_NOLATCH
    latch[p] = 0
#endif
  }
#ifdef BUG_NONATOMIC
  atomic { if :: cval != NONE -> rep = HIT; repv = cval; goto replied :: else fi }
#endif
  if
#ifdef PUSH
  :: atomic { ACQUIRE(p, tok, prv[p]); btag[p] = rept; rept = 0 }
  :: atomic { fb > 0 -> fb--; ACQUIRE(p, tok, prv[p]); rep = UNK; repv = 0; rept = 0 }
#else
  :: atomic { ACQUIRE(p, tok, prv[p]) }
  :: atomic { fb > 0 -> fb--; ACQUIRE(p, tok, prv[p]); rep = UNK; repv = 0 }
#endif
  :: atomic { fb > 0 -> fb--; rep = UNK }
  :: atomic { fb > 0 && nfull(zom) -> fb--; late(ACQ, tok, prv[p], 0); rep = UNK }
  fi;
replied:
  if
#if EA > 0
  :: atomic { rep == HIT && repv != NONE && ea > 0 && !early -> ea--; held[tok] = 0; prv[p] = 0; tok = 0;
       deliver(PL, repv); ofil[p] = repf; early = 1; repv = 0; repf = 0; rep = 0 } goto askearly
#endif
#if SX > 0 || EA > 0 || defined(EXPIRE)
  :: atomic { rep == STALE -> held[tok] = 0; prv[p] = 0;
#ifdef BUG_JOINSTALE
       mark(PL);
#endif
       deliver(PL, STALE_ROW(repv)) } goto settle
  :: atomic { rep == STALE -> held[tok] = 0; prv[p] = 0; tok = 0; repv = 0; rep = 0 } goto wait /* soft limit */
  :: atomic { rep == OURS -> rep = 0; prv[p] = 0; ltok[p] = tok; vd[p] = (lck != tok); old[p] = repv;
       if :: early -> skip :: else -> ofil[p] = repf fi;
       repv = 0; repf = 0;
#ifdef BUG_JOINSTALE
       mark(PL);
#endif
       if :: !early -> deliver(PL, STALE_ROW(old[p])) :: true fi } goto load              /* or held, for the soft limit */
  :: atomic { rep == HIT && repv == NONE -> held[tok] = 0; prv[p] = 0; repv = 0 } goto settle /* another one does */
  :: atomic { rep == UNK && early -> held[tok] = 0; prv[p] = tok } goto settle
#endif
  :: atomic { rep == HIT && repv != NONE -> held[tok] = 0; prv[p] = 0;
#ifdef BUG_JOINHIT
       mark(PL);
#endif
       deliver(PL, repv) } goto settle
  :: atomic { rep == FAILED -> held[tok] = 0; prv[p] = 0; deliver(PL, ERRV) } goto settle
  :: atomic { rep == LEASE -> rep = 0; prv[p] = 0; ltok[p] = tok; vd[p] = (lck != tok) } goto load
  :: atomic { rep == BUSY -> held[tok] = 0; prv[p] = 0; tok = 0; rep = 0 } goto wait
  :: atomic { rep == UNK && !early -> held[tok] = 0; prv[p] = tok; tok = 0; rep = 0 } goto ask
  :: atomic { rep == UNK && !early -> held[tok] = 0; prv[p] = tok } goto bypass      /* Redis is taken for gone */
  fi;
#if EA > 0
askearly:
  atomic { fresh(); held[tok] = 1 }
  if
  :: atomic { AT(p, x_early(tok, ofil[p])) }
  :: atomic { fb > 0 -> fb--; AT(p, x_early(tok, ofil[p])); rep = UNK; repv = 0; repf = 0 }
  :: atomic { fb > 0 -> fb--; rep = UNK }
  :: atomic { fb > 0 && nfull(zom) -> fb--; late(EARLY, tok, ofil[p], 0); rep = UNK }
  fi;
  goto replied;
#endif
wait:
#ifdef PUSH
  if
#ifdef BUG_PUSHTAG
  :: atomic { ptag[p] != 0 -> deliver(PL, pval[p]); ptag[p] = 0; pval[p] = 0; btag[p] = 0 } goto settle
#else
  :: atomic { ptag[p] != 0 && ptag[p] == btag[p] ->
#ifdef BUG_PUSHJOIN
       mark(PL);
#endif
       deliver(PL, pval[p]); ptag[p] = 0; pval[p] = 0; btag[p] = 0 } goto settle
  :: atomic { ptag[p] != 0 -> latch[p] = 1; ptag[p] = 0; pval[p] = 0 }       /* no more than a wake-up */
#endif
  :: true -> skip                   /* it is late, or there is none */
  fi;
#endif
#ifdef BUG_NOLATCH
  atomic { latch[p] = 0 }           /* forgets the message that overtook the BUSY reply */
#endif
  if
  :: latch[p] -> skip
#ifndef BUG_NOPOLL
  :: true -> skip                   /* the poll */
#endif
  fi;
  goto ask;
bypass:
  atomic { mark(PQ) }
  if
  :: atomic { snap = db }
  :: atomic { le > 0 -> le--; snap = ERRV }
  fi;
  atomic { deliver(PQ, snap) }
  goto settle;
load:
#ifndef BUG_EARLYREAD
  atomic { mark(PQ); ld[p] = 1; one_load(); assert(((cval == NONE || cst || (early && cfil == ofil[p])) && !failed) || vd[p]) }
#if SX > 0 || defined(EXPIRE)
  if :: atomic { old[p] != NONE && !early -> deliver(PL, STALE_ROW(old[p])) } :: true fi; /* the soft limit passes */
#endif
  if
  :: atomic { snap = db }
  :: atomic { le > 0 -> le--; snap = ERRV }
  fi;
#ifdef BUG_RENEWNX
  if :: atomic { lck == 0 -> lck = tok } :: true fi;                        /* a renewal that creates */
#endif
  if
  :: atomic { cr > 0 -> cr--; ld[p] = 0; ltok[p] = 0; up[p] = 0; held[tok] = 0; fl[p] = 0; prv[p] = 0; old[p] = NONE; ofil[p] = 0 } goto dead
  :: atomic { ca > 0 && lck != tok -> ca--; ld[p] = 0; held[tok] = 0; prv[p] = tok } goto settle
  :: atomic { ld[p] = 0 }
  fi;
#endif
  if
  :: snap == ERRV -> goto release
  :: else
  fi;
  atomic { mark(PF) }
#if SX > 0 || EA > 0 || defined(EXPIRE)
touch:
  if
  :: snap == old[p] -> skip         /* unchanged */
  :: goto fill
  fi;
  if
  :: atomic { AT(p, x_touch(tok, ofil[p])) }
  :: atomic { fb > 0 -> fb--; AT(p, x_touch(tok, ofil[p])); rep = UNK }
  :: atomic { fb > 0 -> fb--; rep = UNK }
  :: atomic { fb > 0 && nfull(zom) -> fb--; late(TOUCH, tok, ofil[p], 0); rep = UNK }
  fi;
  if
  :: atomic { rep == GONE -> rep = 0 } goto fill
  :: rep != GONE -> goto stored
  fi;
#endif
fill:
  if
  :: atomic { AT(p, x_fill(tok, snap)) }
  :: atomic { fb > 0 -> fb--; AT(p, x_fill(tok, snap)); rep = UNK }
  :: atomic { fb > 0 -> fb--; rep = UNK }
  :: atomic { fb > 0 && nfull(zom) -> fb--; late(FILL, tok, 0, snap); rep = UNK }
  fi;
stored:
  if
  :: atomic { rep == STORED -> held[tok] = 0; deliver(PF, snap) }
  :: atomic { rep == LOST -> held[tok] = 0;
#ifdef BUG_JOIN
       mark(PQ);
#endif
       deliver(PQ, snap) }
  :: atomic { rep == UNK && !again -> again = 1;
#ifdef BUG_JOIN
       mark(PQ);
#endif
       deliver(PQ, snap) } goto fill
  :: atomic { rep == UNK -> held[tok] = 0; prv[p] = tok; deliver(PQ, snap) }
  fi;
  goto settle;
release:
  if
  :: atomic { AT(p, x_release(tok, 1)) }
  :: atomic { fb > 0 -> fb--; AT(p, x_release(tok, 1)); rep = UNK }
  :: atomic { fb > 0 -> fb--; rep = UNK }
  :: atomic { fb > 0 && nfull(zom) -> fb--; late(REL, tok, 0, 1); rep = UNK }
  fi;
  atomic { held[tok] = 0; prv[p] = tok; deliver(PQ, ERRV) }
settle:
  atomic {
    clear(); ltok[p] = 0; vd[p] = 0; tok = 0; snap = 0; repv = 0; repf = 0; rep = 0; again = 0; early = 0;
    old[p] = NONE; ofil[p] = 0;
#ifdef PUSH
    btag[p] = 0;
#endif
    any = 0; i = 0; do :: i < NR -> any = any | waiting[RID(p, i)]; i++ :: else -> break od;
    if
    :: any -> goto ask
    :: else -> fl[p] = 0; prv[p] = 0; goto idle
    fi
  }
dead: skip
}

/* ---- the writer and the environment ---- */

proctype Writer() {
  byte ep; mtype rep;
#ifdef EXPIRE
  bool soft;
#endif
  do
  :: db < MAXV ->
       db++;                        /* COMMIT */
#ifdef EXPIRE
       if :: soft = 1 :: EXPIRE > 1 -> soft = 0 fi;
#endif
again:
#ifdef CLEAR
       atomic { x_first() }
#endif
       if                           /* until Redis confirms it over an unbroken connection */
       :: atomic { ep = foep; rep = INV; AT(WRITER, x_change()); if :: rep == UNK -> ep = NONE :: else fi; rep = 0 }
       :: atomic { fb > 0 -> fb--; AT(WRITER, x_change()); rep = 0 } goto again
       :: atomic { fb > 0 -> fb-- } goto again
       :: atomic { fb > 0 && nfull(zom) -> fb--; zom!CHANGE, 0, 0, 0; zref[0] = zref[0] + 2 } goto again
       fi;
#ifdef WAITREPL
       if                           /* WAIT 1: the replica that can be promoted has it */
       :: atomic { ep == foep -> rcval = cval; rcst = cst; rcfil = cfil; rlck = lck; rfail = fail }
       :: ep != foep -> goto again
       fi;
#endif
       if
       :: ep == NONE -> goto again  /* refused: not run */
#ifdef EXPIRE
       :: atomic { ep != NONE -> exp_done = db; if :: !soft -> inv_done = db :: else fi; soft = 0; ep = 0 }
#else
       :: atomic { ep != NONE -> inv_done = db; ep = 0 }
#endif
       fi
  :: else -> break
  od
}

proctype Environment() {
  byte t, pv, v, repv, repf, rept; mtype rep;
end_env:
  do
  :: atomic { lck != 0 && !held[lck] -> lck = 0 }                           /* TTL of an orphan lease; says nothing */
  :: atomic { xp > 0 && lck != 0 && held[lck] -> xp--; voided(); lck = 0 }
  :: atomic { vx > 0 && cval != NONE -> vx--; cval = NONE; cst = 0; cfil = 0 }
  :: atomic { sx > 0 && cval != NONE && !cst -> sx--; cst = 1 }
  :: atomic { fx > 0 && failed -> fx--; fail = 0; failed = 0 }
  :: atomic { rs > 0 -> rs--; voided(); cval = NONE; cst = 0; rcst = 0; cfil = 0; lck = 0; fail = 0; failed = 0;
       rcval = NONE; rcfil = 0; rlck = 0; rfail = 0; resync() }
#if TM > 0
  :: atomic { tm > 0 -> tm--; foep++; voided();
#if defined(BUG_GET) || defined(BUG_TWOMASTERS)
       fcval = cval; fcst = cst; fcfil = cfil; flck = lck; ffail = fail;
#endif
       cval = rcval; cst = rcst; cfil = rcfil; lck = rlck; fail = rfail; failed = fail;
       i = 0; do :: i < CLIENTS -> at_former[i] = 1; i++ :: else -> break od }
  :: atomic { tm == 0 && at_former[0] -> reconnect(0) }                      /* its connection breaks */
#endif
#if FO > 0
  :: atomic { fo > 0 -> fo--; foep++; voided(); cval = rcval; cst = rcst; cfil = rcfil; lck = rlck; fail = rfail; failed = fail; resync() }
#endif
#if FO + TM > 0
  :: atomic { rcval != cval || rcst != cst || rlck != lck || rfail != fail ->
       rcval = cval; rcst = cst; rcfil = cfil; rlck = lck; rfail = fail }                /* replication catches up */
#endif
  :: atomic { zom?ACQ(t, pv, v) -> x_acquire(t, pv); zref[t]--; zref[pv]--; t = 0; pv = 0; v = 0; repv = 0; repf = 0; rept = 0; rep = 0 }
#if SX > 0 || EA > 0 || defined(EXPIRE)
  :: atomic { zom?EARLY(t, pv, v) -> x_early(t, pv); zref[t]--; zref[pv]--; t = 0; pv = 0; v = 0; repv = 0; repf = 0; rep = 0 }
  :: atomic { zom?TOUCH(t, pv, v) -> x_touch(t, pv); zref[t]--; zref[pv]--; t = 0; pv = 0; v = 0; rep = 0 }
#endif
  :: atomic { zom?FILL(t, pv, v) -> x_fill(t, v); zref[t]--; zref[pv]--; t = 0; pv = 0; v = 0; rep = 0 }
  :: atomic { zom?REL(t, pv, v) -> x_release(t, v); zref[t]--; zref[pv]--; t = 0; pv = 0; v = 0; rep = 0 }
#ifdef EXPIRE
  :: atomic { zom?EXP(t, pv, v) -> x_expire(); zref[t]--; zref[pv]--; t = 0; pv = 0; v = 0; rep = 0 }
#endif
  :: atomic { zom?INV(t, pv, v) -> x_invalidate(); zref[t]--; zref[pv]--; t = 0; pv = 0; v = 0; rep = 0 }
  od
}

init {
  byte k, j;
  atomic {
    k = 0;
    do
    :: k < NP ->
         up[k] = 1; run Process(k); j = 0;
         do
         :: j < NR && (k > 0 || j < NR0) -> run Request(k, j); j++
         :: else -> break
         od; k++
    :: else -> break
    od;
    run Writer(); run Environment(); k = 0; j = 0
  }
}
#ifdef LIVE
ltl live { <> (ndone == NR0 + (NP - 1) * NR) }
#endif

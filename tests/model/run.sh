#!/bin/sh
# SPDX-License-Identifier: MIT
# run.sh - checks guard.pml, or the model that a row names first, in every configuration of the table below; needs
# spin and a C compiler.
#
#   sh run.sh WORKDIR         LONG=1: those of the second table, too, which take their time and some GB of memory
#
# "holds": the whole state space is searched and nothing is wrong. "fails": the configuration contains a seeded
# bug, or a fault that the protocol does not promise to survive, and the checker must find that.
set -u
mkdir -p "${1:?usage: run.sh WORKDIR}" && work=$(cd "$1" && pwd) || exit 1
cd "$(dirname "$0")" || exit 1
model=$(pwd)/guard.pml
long=${LONG:-0}
limit_s=${MODEL_LIMIT_S:-$((long == 1 ? 1800 : 120))}
passed=0
failed=0

table() {
    cat <<'TABLE'
holds | nothing goes wrong                                   |
holds | two requests in the second process                   | -DNR=2 -DNR0=1
holds | two writes                                           | -DMAXV=2
holds | a command lost, unsent or late                       | -DFB=1
holds | two of them, two requests in one process             | -DFB=2 -DNP=1 -DNR=2
holds | a failing load, its failure lease expires, a command | -DLE=2 -DFX=1 -DFB=1
holds | lease lost and noticed                               | -DXP=1 -DCA=1
holds | lease lost, a load fails                             | -DXP=1 -DLE=1
holds | messages lost, a process killed                      | -DML=2 -DCR=1
holds | the value expires, a message is lost                 | -DVX=1 -DML=1
holds | Redis restarts empty                                 | -DRS=1
holds | failover to a lagging replica, with WAIT             | -DFO=1 -DWAITREPL
holds | the value becomes stale                              | -DSX=1
holds | stale, one process with three requests               | -DSX=1 -DNP=1 -DNR=3
holds | stale, expired while it is refreshed                 | -DSX=1 -DVX=1
holds | stale, its refresh fails                             | -DSX=1 -DLE=1 -DFX=1
holds | stale, its refresher loses the lease or is killed    | -DSX=1 -DXP=1 -DCR=1
holds | an early refresh                                     | -DEA=1
holds | two early refreshes, the value is stale              | -DEA=2 -DSX=1
holds | stale, and every request is answered (LTL)           | -DSX=1 -DLIVE
holds | everybody is answered (LTL)                          | -DLIVE
holds | pushed values                                        | -DPUSH
holds | pushed, two requests in the second process           | -DPUSH -DNR=2 -DNR0=1
holds | pushed, two writes, a message is lost                | -DPUSH -DMAXV=2 -DML=1
holds | pushed, a command lost, unsent or late               | -DPUSH -DFB=1
holds | pushed, lease lost, a process killed                 | -DPUSH -DXP=1 -DCR=1
holds | pushed, a failing load, its failure lease expires    | -DPUSH -DLE=1 -DFX=1
holds | pushed, stale, lease lost                            | -DPUSH -DSX=1 -DXP=1
holds | pushed, failover to a lagging replica, with WAIT     | -DPUSH -DFO=1 -DWAITREPL
holds | pushed, and every request is answered (LTL)          | -DPUSH -DLIVE
holds | two masters, of which the former takes no writes     | -DTM=1 -DWAITREPL -DNP=1 -DNR=2
fails | failover to a lagging replica, without WAIT          | -DFO=1
fails | two masters, without WAIT                            | -DTM=1 -DNP=1 -DNR=2
fails | two masters, bug: both answer                        | -DTM=1 -DWAITREPL -DNP=1 -DNR=2 -DBUG_TWOMASTERS
fails | two masters, bug: what needs no write is read there  | -DTM=1 -DWAITREPL -DNP=1 -DNR=2 -DBUG_GET
fails | failover, bug: a fill does not look at the lease     | -DFO=1 -DWAITREPL -DBUG_UNFENCED
fails | bug: the same token sent again                       | -DBUG_SAMETOKEN -DFB=1
fails | bug: a rejected fill answers later joiners           | -DBUG_JOIN -DNR=2 -DNR0=1
fails | bug: a hit answers later joiners                     | -DBUG_JOINHIT -DNR=2 -DNR0=1
fails | bug: a fill that does not look at the lease          | -DBUG_UNFENCED -DXP=1
fails | bug: an invalidation that leaves the lease           | -DBUG_NOVOID
fails | bug: a renewal that creates the lease                | -DBUG_RENEWNX -DXP=1
fails | bug: a query sent before the grant                   | -DBUG_EARLYREAD
fails | bug: a release that deletes any lease                | -DBUG_DELANY -DXP=1 -DLE=1 -DNR=2
fails | bug: look up, then acquire                           | -DBUG_NONATOMIC
fails | bug: no failure lease                                | -DBUG_NOFAILURE -DLE=1
fails | bug: an invalidation that leaves the value as stale  | -DBUG_INVSTALE -DSX=1
fails | bug: a stale hit answers later joiners               | -DBUG_JOINSTALE -DSX=1 -DNP=1 -DNR=3
fails | bug: a touch that does not look at the lease         | -DBUG_TOUCHUNFENCED -DSX=2 -DXP=1 -DNR=2
fails | bug: an early refresh of any value                   | -DBUG_EARLYANY -DEA=2 -DNP=3
fails | bug: a pushed value of another lease is believed     | -DPUSH -DNR=2 -DNR0=1 -DBUG_PUSHTAG
fails | bug: a pushed value answers later joiners            | -DPUSH -DNR=2 -DNR0=1 -DBUG_PUSHJOIN
holds | expired instead of invalidated                       | -DEXPIRE
holds | expired or invalidated, one process, three requests  | -DEXPIRE=2 -DNP=1 -DNR=3
holds | expired or invalidated, two writes                   | -DEXPIRE=2 -DMAXV=2
holds | expired, stale before, lease lost                    | -DEXPIRE -DSX=1 -DXP=1
holds | expired, a command lost, unsent or late              | -DEXPIRE -DFB=1
holds | expired, pushed values                               | -DEXPIRE -DPUSH
holds | cleared: leases first, then values                   | -DCLEAR
holds | cleared, lease lost, a process killed                | -DCLEAR -DXP=1 -DCR=1
fails | expired, bug: nothing is stale                       | -DEXPIRE -DBUG_EXPIRENOTHING
fails | expired, bug: a running load keeps its lease         | -DEXPIRE -DBUG_EXPIRELEASE
fails | expired, bug: a touch does not look at the lease     | -DEXPIRE -DNP=1 -DNR=3 -DSX=1 -DBUG_TOUCHUNFENCED
fails | expired, bug: so does an invalidation                | -DEXPIRE=2 -DBUG_INVSTALE
fails | cleared, bug: values first, then leases              | -DCLEAR -DBUG_CLEARORDER
holds | together: two batches of the same keys                | together.pml
holds | together: batches that overlap                        | together.pml -DNK=3 -DM1=6
holds | together: three processes, each pair shares a key      | together.pml -DNP=3 -DNK=3 -DM1=6 -DM2=5
holds | together: three keys, three processes, two threads     | together.pml -DNP=3 -DNK=3 -DM0=7 -DM1=7 -DM2=7 -DB=2
holds | together: a process is killed with a batch             | together.pml -DNK=3 -DM0=7 -DM1=7 -DCR=1
holds | together: a loader needs what another process loads    | together.pml -DM0=1 -DM1=2 -DN0=1 -DCR=1
holds | together: a loader needs what is queued behind it      | together.pml -DN0=1
holds | together: a key needs its neighbour in the batch       | together.pml -DNK=3 -DM0=7 -DM1=7 -DN0=1 -DN2=1
fails | together, bug: that is taken for a circle              | together.pml -DN0=1 -DBUG_NEIGHBOUR
holds | together: a circle in a thread, in two threads         | together.pml -DB=2 -DN0=1 -DN1=0
holds | together: a circle over three processes                | together.pml -DNP=3 -DNK=3 -DM0=1 -DM1=2 -DM2=4 -DN0=1 -DN1=2 -DN2=0
fails | together, bug: a batch waits until it has all leases   | together.pml -DBUG_ALLORNONE
fails | together, bug: a nested load queues for a thread       | together.pml -DN0=1 -DBUG_QUEUES
fails | together, bug: nobody looks for its own key            | together.pml -DM0=1 -DM1=0 -DN0=1 -DN1=0 -DBUG_OWNCHAIN
fails | together, bug: nor for a circle of two threads         | together.pml -DNP=1 -DB=2 -DN0=1 -DN1=0 -DBUG_TWOTHREADS
fails | together, bug: another process is waited for for ever  | together.pml -DM0=1 -DM1=2 -DN0=1 -DN1=0 -DBUG_FOREVER
fails | together, bug: a nested load takes a lease that is held | together.pml -DM0=1 -DM1=2 -DN0=1 -DBUG_STEAL
holds | tags: nothing goes wrong                             | tags.pml
holds | tags: one process, three requests, two invalidations | tags.pml -DNP=1 -DNR=3 -DMAXV=2
holds | tags: two requests in each process                   | tags.pml -DNR=2
holds | tags: two invalidations, epoch and clock are lost    | tags.pml -DMAXV=2 -DTX=1 -DCX=1
holds | tags: epoch, clock and value are lost                | tags.pml -DTX=1 -DCX=1 -DVX=1
holds | tags: epoch and clock are lost twice                 | tags.pml -DTX=2 -DCX=2
holds | tags: the lease is lost, keeping the tag fails       | tags.pml -DXP=1 -DKL=1 -DTX=1
holds | tags: no memory, then epoch and clock are lost       | tags.pml -DOM=1 -DTX=1 -DCX=1
holds | tags: one process, three requests, all of these      | tags.pml -DNP=1 -DNR=3 -DOM=1 -DTX=1 -DCX=1 -DVX=1
holds | tags: clock and epochs fail over                     | tags.pml -DFO=1 -DMAXV=3 -DNP=1 -DNR=2
holds | tags: they do so twice                               | tags.pml -DFO=2 -DMAXV=2 -DNP=1 -DNR=2
fails | tags: a hit after an invalidation is reached         | tags.pml -DREACHED
fails | tags, bug: epochs are not compared                   | tags.pml -DBUG_BLIND
fails | tags, bug: a lost epoch is taken for a good one      | tags.pml -DBUG_LOSTGOOD -DTX=1
fails | tags, bug: the clock is read after the query         | tags.pml -DBUG_LATECLOCK
fails | tags, bug: every fill answers later joiners          | tags.pml -DBUG_FILLSTAMP -DNR=2
fails | tags, bug: a lost clock begins the same era again    | tags.pml -DBUG_SAMEERA -DCX=1
fails | tags, bug: an invalidation leaves the clock          | tags.pml -DBUG_NOADVANCE
fails | tags, bug: a lost epoch becomes that of the value    | tags.pml -DBUG_BACKDATE -DTX=1
fails | tags, bug: without memory the clock stays            | tags.pml -DBUG_FULLKEEPS -DOM=1
fails | tags, bug: another master counts on                  | tags.pml -DFO=1 -DMAXV=3 -DNP=1 -DNR=2 -DBUG_SAMEREIGN
fails | tags, bug: the clock counts on after a leap          | tags.pml -DFO=2 -DMAXV=2 -DNP=1 -DNR=2 -DFM=1 -DBUG_COUNTS
fails | tags, bug: two leaps from the same number            | tags.pml -DFO=2 -DMAXV=2 -DNP=1 -DNR=2 -DBUG_LEAPAGAIN
holds | tags: expired                                        | tags.pml -DEXPIRE
holds | tags: expired or invalidated                         | tags.pml -DEXPIRE=2 -DMAXV=2
holds | tags: the same, one process, three requests          | tags.pml -DEXPIRE=2 -DMAXV=2 -DNP=1 -DNR=3
holds | tags: expired, companion, epoch, clock are lost      | tags.pml -DEXPIRE -DSC=1 -DTX=1 -DCX=1
holds | tags: expired, no memory, value and lease are lost   | tags.pml -DEXPIRE -DOM=1 -DVX=1 -DXP=1
fails | tags: a stale hit after an expiry is reached         | tags.pml -DEXPIRE -DREACHED
fails | tags, bug: the companion tells alone, and is lost    | tags.pml -DEXPIRE -DNP=1 -DNR=3 -DBUG_SOFTALONE -DSC=1
fails | tags, bug: it tells of another epoch                 | tags.pml -DEXPIRE=2 -DMAXV=2 -DNP=1 -DNR=3 -DBUG_COMPANIONSTAYS
fails | tags, bug: it brings back what was invalidated       | tags.pml -DEXPIRE=2 -DMAXV=2 -DNP=1 -DNR=3 -DBUG_SINCEEVER
fails | tags, bug: what is made stale is good                | tags.pml -DEXPIRE -DNP=1 -DNR=3 -DBUG_NEWBORN
fails | tags, bug: it is born when it is written             | tags.pml -DEXPIRE=2 -DMAXV=2 -DNP=1 -DNR=3 -DBUG_BORNLATE
fails | bug: no latch, no poll                               | -DBUG_NOLATCH -DBUG_NOPOLL
fails | bug: no poll, and a message is lost                  | -DBUG_NOPOLL -DML=1
holds | pass: nothing goes wrong, a request of each          | pass.pml -DNR=1 -DXP=1 -DVX=1 -DML=1
holds | pass: two requests, one leaves, one hangs            | pass.pml -DNP=1 -DHG=1 -DLV=1 -DXP=1
holds | pass: the same with two writes                       | pass.pml -DNP=1 -DHG=1 -DLV=1 -DMAXV=2
holds | share: told of a lost lease, whose tag protects      | pass.pml -DNR=1 -DXP=1 -DTELLS_LOST
fails | pass, bug: the row is told to all that wait          | pass.pml -DNP=1 -DBUG_TELLALL
fails | pass, bug: to the next one if its asker has left     | pass.pml -DNP=1 -DLV=1 -DBUG_NEXT
fails | pass, bug: it travels with the message               | pass.pml -DNR=1 -DBUG_PUSHPASS
fails | pass, bug: one load behind the other                 | pass.pml -DNP=1 -DHG=1 -DBUG_LINEUP
fails | pass, bug: an invalidation leaves the mark           | pass.pml -DNP=1 -DBUG_MARKSTAYS
fails | pass, bug: a mark without a lease                    | pass.pml -DNP=1 -DBUG_MARKBARE
fails | pass, bug: a mark does not look at the lease         | pass.pml -DNP=1 -DBUG_MARKUNFENCED
fails | pass, bug: a fill behind the mark                    | pass.pml -DNR=1 -DXP=1 -DBUG_FILLUNFENCED
fails | share, bug: it answers later joiners                 | pass.pml -DNP=1 -DBUG_SHAREALL
fails | share, bug: likewise in another process              | pass.pml -DNR1=1 -DBUG_SHAREJOIN
fails | share, bug: that of another lease is believed        | pass.pml -DNR0=1 -DBUG_SHARETAG
holds | revalidate: a request in each of two                 | revalidate.pml -DNR=1 -DIV=1 -DXP=1 -DVX=1
holds | revalidate: in each of three                         | revalidate.pml -DNR=1 -DNP=3
holds | revalidate: two requests and one                     | revalidate.pml -DNR1=1 -DXP=1
holds | revalidate: the same, an invalidation                | revalidate.pml -DNR1=1 -DIV=1
holds | revalidate: two requests, two loads of others        | revalidate.pml -DNP=1 -DNO=2 -DIV=1 -DXP=1 -DVX=1
fails | revalidate: the load of another process is reached   | revalidate.pml -DNR1=1 -DREACHED
fails | revalidate, bug: the value that it found counts      | revalidate.pml -DNR1=1 -DBUG_NOFILLER
fails | revalidate, bug: the lease that it found counts      | revalidate.pml -DNR1=1 -DBUG_NOLEASE
fails | revalidate, bug: names of the last lookup            | revalidate.pml -DNR1=1 -DBUG_LASTNAMES
fails | revalidate, bug: names of those before it            | revalidate.pml -DNR1=1 -DBUG_JOINNAMES
fails | revalidate, bug: a running load answers              | revalidate.pml -DNR1=1 -DBUG_STAMP
fails | revalidate, bug: so does its message                 | revalidate.pml -DNR1=1 -DBUG_PUSHOLD
holds | abandon: nothing goes wrong                          | abandon.pml
holds | abandon: three processes                             | abandon.pml -DNP=3 -DNR=2
holds | abandon: a lease is lost, a process killed           | abandon.pml -DXP=1 -DCR=1
fails | abandon: an abandoned load is reached                | abandon.pml -DREACHED
fails | abandon, bug: one load after the other               | abandon.pml -DBUG_NOMARK
fails | abandon, bug: only its own process knows             | abandon.pml -DBUG_LOCALMARK
fails | abandon, bug: others wait                            | abandon.pml -DBUG_ALONE
fails | abandon, bug: decided before the renewal             | abandon.pml -DBUG_BEFORE
fails | abandon, bug: it ends those that joined since        | abandon.pml -DBUG_LEAK
holds | permits: nothing goes wrong                          | permits.pml
holds | permits: two of them                                 | permits.pml -DS=2
holds | permits: no poll, as long as no message is lost      | permits.pml -DNOPOLL
holds | permits: a message is lost                           | permits.pml -DML=1
holds | permits: one is forgotten, a process is killed       | permits.pml -DXP=1 -DCR=1 -DNL=1
holds | permits: a command is lost, or late                  | permits.pml -DFB=1 -DNL=1
holds | permits: the same with a process killed              | permits.pml -DFB=1 -DCR=1 -DNL=1
holds | permits: one is not needed, without a poll           | permits.pml -DSP=1 -DNOPOLL
holds | permits: one is not needed, a command is lost, or late | permits.pml -DSP=1 -DFB=1 -DNL=1
fails | permits: no poll, and a message is lost              | permits.pml -DNOPOLL -DML=1 -DNL=1
fails | permits, bug: no latch, no poll                      | permits.pml -DNOPOLL -DBUG_NOLATCH
fails | permits, bug: the first to ask gets one              | permits.pml -DBUG_NOQUEUE
fails | permits, bug: a refresh passes users                 | permits.pml -DBUG_REFRESHFIRST
fails | permits, bug: a release gives any permit back        | permits.pml -DBUG_RELEASEANY -DS=2
fails | permits, bug: that of a dead process never runs out  | permits.pml -DBUG_NOEXPIRY -DCR=1 -DNL=1
fails | permits, bug: the dead keep their place in the queue | permits.pml -DBUG_NODEATH -DCR=1 -DNL=1
fails | permits, bug: a renewal does not count again         | permits.pml -DBUG_FORGOTTEN -DXP=1 -DNL=1
fails | permits, bug: passed on and given back               | permits.pml -DBUG_PASSRETURNED
fails | permits, bug: who leaves the queue tells nobody      | permits.pml -DBUG_LEAVEQUIET -DSP=1 -DNOPOLL
holds | near: nothing goes wrong                             | near.pml
holds | near: two requests in one process                    | near.pml -DNP=1 -DNR=2
holds | near: two writes                                     | near.pml -DMAXV=2 -DNR0=0
holds | near: the subscription is lost twice                 | near.pml -DCU=2 -DNR0=0
holds | near: lost once, two requests in one process         | near.pml -DCU=1 -DNP=1 -DNR=2
holds | near: an invalidation runs after it has ended        | near.pml -DUN=1
holds | near: the same of two                                | near.pml -DUN=1 -DMAXV=2 -DNR0=0
holds | near: time passes, the subscription is lost          | near.pml -DEND=3 -DNR0=0 -DCU=1
fails | near: an invalidated row within its time is reached  | near.pml -DEND=3 -DNR0=0 -DREACHED
fails | near, bug: a lookup that came too late is kept       | near.pml -DBUG_NOEPOCH
fails | near, bug: an invalidation drops only when it begins | near.pml -DBUG_NOEND
fails | near, bug: an invalidation drops only when it ends   | near.pml -DBUG_NOBEGIN
fails | near, bug: the epoch is read when Redis has answered | near.pml -DBUG_LATETOKEN
fails | near, bug: its time begins with Redis's answer       | near.pml -DBUG_FROMREPLY -DEND=3 -DNR0=0
fails | near, bug: kept without a subscription               | near.pml -DBUG_KEEPS -DCU=1
fails | near, bug: one from before the loss is kept          | near.pml -DBUG_SAMEGENERATION -DCU=1
fails | near, bug: looked up without a subscription          | near.pml -DBUG_DEAFTOKEN -DCU=1
holds | caches: one is registered late                       | caches.pml
holds | caches: two loads in each                            | caches.pml -DNL=2
holds | caches: one falls silent for good                    | caches.pml -DDIE=1
holds | caches: one falls silent and comes back              | caches.pml -DDIE=1 -DBACK=1
holds | caches: a write without a limit, a host that ends    | caches.pml -DPATIENT -DUNDROPPED -DDIE=1
holds | caches: the same, and it comes back                  | caches.pml -DPATIENT -DUNDROPPED -DDIE=1 -DBACK=1
fails | caches: a debt outlives one confirmation             | caches.pml -DREACHED
fails | caches, bug: a debt goes with its own confirmation   | caches.pml -DBUG_OWNONLY
fails | caches, bug: the trigger lists registered caches     | caches.pml -DBUG_ENUMERATES
fails | caches, bug: stored without being registered         | caches.pml -DBUG_NOGATE
fails | caches, bug: stored before that is committed         | caches.pml -DBUG_EARLYGATE
fails | caches, bug: known from long ago to be registered    | caches.pml -DBUG_LATEGATE -DDIE=1 -DBACK=1
fails | caches, bug: dropped while its entries live          | caches.pml -DBUG_EARLYDROP -DDIE=1
fails | caches, bug: writes wait for a silent cache          | caches.pml -DBUG_WAITS -DPATIENT -DUNDROPPED -DDIE=1
fails | caches, bug: what a silent one is owed counts as paid| caches.pml -DBUG_SILENTPAID -DDIE=1
holds | locks: fair, nothing goes wrong                      | locks.pml
holds | locks: one writer, two readers                       | locks.pml -DWRITERS=1
holds | locks: two writers, one reader                       | locks.pml -DWRITERS=3
holds | locks: overtaking                                    | locks.pml -DOVERTAKE
holds | locks: two processes, a command lost or late         | locks.pml -DNP=2 -DFB=2
holds | locks: one request each, the same among readers      | locks.pml -DNL=1 -DWRITERS=1 -DFB=1
holds | locks: writers and a reader, two messages lost       | locks.pml -DWRITERS=3 -DML=2
holds | locks: killed, a message lost, a command             | locks.pml -DNP=2 -DCR=1 -DML=1 -DFB=1
holds | locks: a hold runs out, a command                    | locks.pml -DNP=2 -DXP=1 -DFB=1
holds | locks: a live waiter loses its place, gives up       | locks.pml -DNL=1 -DWRITERS=3 -DPX=1 -DCN=1
holds | locks: waiters give up, a command                    | locks.pml -DNL=1 -DCN=2 -DFB=1
holds | locks: Redis restarts empty, a command               | locks.pml -DNP=2 -DRS=1 -DFB=1
holds | locks: the same, a writer and a reader, killed       | locks.pml -DNP=2 -DWRITERS=1 -DRS=1 -DCR=1
holds | locks: without the poll, nothing goes wrong          | locks.pml -DNOPOLL
holds | locks: without the poll, waiters give up             | locks.pml -DNOPOLL -DNL=1 -DWRITERS=3 -DCN=2
fails | locks: no poll, a message is lost                    | locks.pml -DNOPOLL -DML=1
fails | locks: no poll, a holder is killed                   | locks.pml -DNOPOLL -DCR=1
fails | locks, bug: no latch, no poll                        | locks.pml -DBUG_NOLATCH -DNOPOLL
fails | locks, bug: no tombstone                             | locks.pml -DBUG_NOGONE -DFB=1
fails | locks, bug: the queue is passed                      | locks.pml -DBUG_NOQUEUE
fails | locks, bug: readers pass a waiting writer            | locks.pml -DBUG_READERSPASS -DWRITERS=3
fails | locks, bug: a release deletes whatever is held       | locks.pml -DBUG_RELEASEANY -DWRITERS=1
fails | locks, bug: the same, after the lease                | locks.pml -DBUG_RELEASEANY -DXP=1
fails | locks, bug: a renewal creates                        | locks.pml -DBUG_RENEWCREATES -DXP=1
fails | locks, bug: the dead stay in the queue               | locks.pml -DBUG_NODEATH -DCR=1
fails | locks, bug: a waiter leaves in silence, no poll      | locks.pml -DBUG_CANCELSILENT -DNOPOLL -DWRITERS=3 -DCN=1
fails | locks, bug: numbers begin again in an empty Redis    | locks.pml -DBUG_FENCECLOCKLESS -DRS=1
holds | many: {a}, {b} and {a, b}                            | locks_many.pml -DNAMES=321
holds | many: all for both, a queue is lost twice            | locks_many.pml -DNAMES=333 -DPX=2
holds | many: a command, a message, one gives up             | locks_many.pml -DNAMES=331 -DFB=1 -DML=1 -DCN=1
holds | many: holds of a name evicted, a command             | locks_many.pml -DNAMES=333 -DEV=1 -DFB=1
holds | many: killed, a hold runs out, one gives up          | locks_many.pml -DNAMES=321 -DXP=1 -DCR=1 -DCN=1
holds | many: four requests, a queue is lost                 | locks_many.pml -DNR=4 -DNAMES=3321 -DPX=1
holds | many: without the poll, one gives up                 | locks_many.pml -DNOPOLL -DNAMES=321 -DCN=2
holds | units: one for all, three for one                    | locks_many.pml -DNR=4 -DNAMES=1111 -DUNITS=3111 -DLIMIT=3
holds | units: two for two, two for one                      | locks_many.pml -DNR=4 -DNAMES=1111 -DUNITS=2211 -DLIMIT=3
holds | units: of several names, a queue is lost             | locks_many.pml -DNR=4 -DNAMES=3213 -DUNITS=2112 -DLIMIT=3 -DPX=1
holds | units: without the poll, one gives up                | locks_many.pml -DNOPOLL -DNR=4 -DNAMES=3321 -DUNITS=2211 -DLIMIT=3 -DCN=1
holds | in turn: all for both, a command                     | locks_many.pml -DINTURN -DNAMES=333 -DFB=1
holds | in turn: one gives up, one is killed                 | locks_many.pml -DINTURN -DNAMES=333 -DCN=1 -DCR=1
holds | in turn: units, a queue is lost, a message           | locks_many.pml -DINTURN -DNAMES=333 -DUNITS=211 -DLIMIT=2 -DPX=1 -DML=1
fails | many: no poll, a message is lost                     | locks_many.pml -DNAMES=321 -DNOPOLL -DML=1
fails | many, bug: a place regained in one name only         | locks_many.pml -DBUG_ONEPLACE -DNAMES=333 -DPX=1
fails | many, bug: what is refused keeps a part              | locks_many.pml -DBUG_KEEPSPART -DNAMES=333 -DEV=1 -DFB=1
fails | many, bug: what is refused takes a part              | locks_many.pml -DBUG_KEEPSPART -DBUG_TAKESPART
fails | units, bug: holds are counted, not units             | locks_many.pml -DBUG_COUNTHOLDS -DNAMES=111 -DUNITS=211 -DLIMIT=3
fails | units, bug: those for few pass one for many          | locks_many.pml -DBUG_NARROWPASSES -DNAMES=111 -DUNITS=211 -DLIMIT=2
fails | in turn, bug: names in the order of the request      | locks_many.pml -DINTURN -DBUG_OWNORDER -DNAMES=333
fails | in turn, bug: one that gives up keeps a name         | locks_many.pml -DINTURN -DBUG_BUSYKEEPS -DCN=1
holds | stay: nothing goes wrong, two rounds                 | locks_stay.pml -DTR=2
holds | stay: a command, a message                           | locks_stay.pml -DFB=1 -DML=1
holds | stay: places are lost                                | locks_stay.pml -DPX=1
holds | stay: waiters give up, a message is lost             | locks_stay.pml -DCN=2 -DML=1
holds | stay: a process is killed                            | locks_stay.pml -DCR=1
holds | stay: never sent, waiters give up                    | locks_stay.pml -DNOSTAY -DCN=2
fails | stay: never sent, a message is lost                  | locks_stay.pml -DNOSTAY -DML=1
fails | stay: never sent, places are lost                    | locks_stay.pml -DNOSTAY -DPX=1
fails | stay, bug: it does not say that a place was lost     | locks_stay.pml -DBUG_SILENTLOSS -DPX=1 -DTR=1
fails | stay, bug: it does not say what fits                 | locks_stay.pml -DBUG_SILENTFIT -DML=1
fails | stay, bug: it creates a place                        | locks_stay.pml -DBUG_STAYCREATES -DFB=1 -DML=1
fails | stay, bug: it renews one place only                  | locks_stay.pml -DBUG_RENEWSONE -DTR=1
holds | clock: nothing goes wrong                            | locks_clock.pml
holds | clock: three processes, one killed                   | locks_clock.pml -DNP=3 -DEND=3 -DCR=1
holds | clock: set back, killed                              | locks_clock.pml -DBK=1 -DCR=1
holds | clock: set forward                                   | locks_clock.pml -DFW=1
holds | clock: the number is lost, set forward               | locks_clock.pml -DEND=4 -DFL=1 -DFW=1
holds | clock: set back and the number lost, apart           | locks_clock.pml -DEND=4 -DFL=1 -DBK=1 -DAPART
fails | clock: set back while the number is lost             | locks_clock.pml -DFL=1 -DBK=1
fails | clock: set forward, two hold                         | locks_clock.pml -DFW=1 -DREACHED
fails | clock, bug: what lasts too long is not cut           | locks_clock.pml -DBUG_NOCLAMP -DBK=1 -DCR=1
fails | clock, bug: the fence without the clock              | locks_clock.pml -DBUG_NOCLOCK -DFL=1
fails | clock, bug: the fence without the counter            | locks_clock.pml -DBUG_NOCOUNTER -DBK=1
fails | clock, bug: a lease that begins with the answer      | locks_clock.pml -DBUG_FROMREPLY
holds | redlock: nothing goes wrong                          | redlock.pml -DEND=3
holds | redlock: renewed, a clock is ahead                   | redlock.pml -DEND=3 -DRN=1 -DAHEAD=1
holds | redlock: a command lost, unanswered or late          | redlock.pml -DEND=2 -DFB=1 -DAHEAD=1
holds | redlock: a master restarts                           | redlock.pml -DEND=3 -DRS=1
fails | redlock: a second grant is reached                   | redlock.pml -DREACHED
fails | redlock: a master forgets without a restart          | redlock.pml -DFL=1
fails | redlock: a master's clock leaps, two hold            | redlock.pml -DFW=1
fails | redlock, bug: the highest number is not written      | redlock.pml -DBUG_MAXIMUM -DAHEAD=1
fails | redlock, bug: it is written to one master only       | redlock.pml -DBUG_WRITTENONCE -DAHEAD=1 -DFB=1
fails | redlock, bug: granted right after a restart          | redlock.pml -DBUG_NOWAIT -DRS=1
fails | redlock, bug: no tombstone                           | redlock.pml -DBUG_NOGONE -DFB=1
TABLE
}

long_table() {
    cat <<'TABLE'
holds | stale twice, a command lost, unsent or late          | -DSX=2 -DFB=1
holds | three processes                                      | -DNP=3
holds | two requests in each process                         | -DNR=2
holds | two commands lost, unsent or late                    | -DFB=2
holds | lease lost and noticed, a command                    | -DXP=1 -DCA=1 -DFB=1
holds | Redis restarts empty, a command                      | -DRS=1 -DFB=1
holds | two early refreshes, the value is stale, a command   | -DEA=2 -DSX=1 -DFB=1
holds | two masters, two processes                           | -DTM=1 -DWAITREPL
holds | expired, failover to a lagging replica, with WAIT    | -DEXPIRE -DFO=1 -DWAITREPL
holds | cleared, a command lost, unsent or late              | -DCLEAR -DFB=1
holds | pass: one and two requests                           | pass.pml -DNR0=1
holds | pass: two requests and one                           | pass.pml -DNR1=1 -DXP=1
holds | share: told of a lost lease, two requests and one    | pass.pml -DNR1=1 -DXP=1 -DTELLS_LOST
holds | revalidate: two requests and one, all of these       | revalidate.pml -DNR1=1 -DIV=1 -DXP=1 -DVX=1 -DNO=2
holds | tags: the same, and the master before goes on        | tags.pml -DFO=2 -DMAXV=2 -DNP=1 -DNR=2 -DFM=1
holds | tags: expired or invalidated, all of these are lost  | tags.pml -DEXPIRE=2 -DMAXV=2 -DNP=1 -DNR=3 -DSC=1 -DTX=1 -DCX=1
holds | tags: they fail over, epoch, clock, value are lost   | tags.pml -DFO=1 -DMAXV=2 -DTX=1 -DCX=1 -DVX=1 -DNP=1 -DNR=2
holds | tags: they fail over, two processes                  | tags.pml -DFO=1 -DMAXV=2
holds | near: two end before they run, subscription lost     | near.pml -DUN=1 -DMAXV=2 -DNR0=0 -DCU=1
holds | locks: fair, a command lost, unanswered or late      | locks.pml -DFB=1
holds | locks: two writers, one reader, a command            | locks.pml -DWRITERS=3 -DFB=1
holds | locks: two processes, three commands                 | locks.pml -DNP=2 -DFB=3
holds | locks: one request each, two commands, readers       | locks.pml -DNL=1 -DWRITERS=1 -DFB=2
holds | locks: overtaking, a command, a message lost         | locks.pml -DOVERTAKE -DFB=1 -DML=1
holds | locks: killed, a message lost                        | locks.pml -DCR=1 -DML=1
holds | locks: two killed, writer and readers                | locks.pml -DWRITERS=1 -DCR=2
holds | locks: killed, a command                             | locks.pml -DWRITERS=3 -DCR=1 -DFB=1 -DNL=1
holds | locks: a hold runs out under its holder, a command   | locks.pml -DXP=1 -DFB=1
holds | locks: the same twice among readers                  | locks.pml -DWRITERS=1 -DXP=2
holds | locks: a live waiter loses its place, twice          | locks.pml -DPX=2
holds | locks: the same, writers and a reader, gives up      | locks.pml -DWRITERS=3 -DPX=1 -DCN=1
holds | locks: three processes, they give up, a command      | locks.pml -DCN=2 -DFB=1
holds | locks: three processes, Redis empty, a command       | locks.pml -DRS=1 -DFB=1
holds | locks: two requests each, Redis empty, killed        | locks.pml -DWRITERS=1 -DRS=1 -DCR=1
holds | locks: everything once, one request each             | locks.pml -DNL=1 -DWRITERS=3 -DFB=1 -DML=1 -DCR=1 -DXP=1 -DCN=1 -DPX=1
holds | locks: everything once, Redis too, two processes     | locks.pml -DNP=2 -DFB=1 -DML=1 -DCR=1 -DXP=1 -DCN=1 -DPX=1 -DRS=1
holds | locks: without the poll, writers give up             | locks.pml -DNOPOLL -DWRITERS=3 -DCN=2
holds | locks: without the poll, readers give up             | locks.pml -DNOPOLL -DWRITERS=1 -DCN=2
holds | many: four requests, two commands                    | locks_many.pml -DNR=4 -DNAMES=3321 -DFB=2
holds | many: four requests, a part lost, a queue            | locks_many.pml -DNR=4 -DNAMES=3321 -DEV=1 -DFB=1 -DPX=1
holds | units: four requests, killed, a message, a command   | locks_many.pml -DNR=4 -DNAMES=1111 -DUNITS=2211 -DLIMIT=3 -DCR=1 -DML=1 -DFB=1
holds | in turn: four requests, a command, killed            | locks_many.pml -DINTURN -DNR=4 -DNAMES=3333 -DFB=1 -DCR=1
holds | stay: places are lost, a command                     | locks_stay.pml -DPX=1 -DFB=1
holds | stay: places are lost twice, a message               | locks_stay.pml -DPX=2 -DML=1
holds | stay: places are lost, two rounds                    | locks_stay.pml -DPX=1 -DTR=2
holds | stay: gives up, a command, places, a message         | locks_stay.pml -DCN=1 -DFB=1 -DPX=1 -DML=1
holds | stay: killed, gives up, a round                      | locks_stay.pml -DCR=1 -DTR=1 -DCN=1
holds | clock: three processes, killed, set back             | locks_clock.pml -DNP=3 -DEND=4 -DCR=1 -DBK=1
holds | clock: three processes, set forward                  | locks_clock.pml -DNP=3 -DEND=4 -DFW=1
holds | clock: six instants, back, forward, killed           | locks_clock.pml -DEND=6 -DCR=1 -DBK=1 -DFW=1
holds | redlock: a clock is ahead, a command, four instants  | redlock.pml -DFB=1 -DAHEAD=1
holds | redlock: two commands, renewed                       | redlock.pml -DEND=3 -DFB=2 -DRN=1
holds | redlock: a master restarts, renewed                  | redlock.pml -DRS=1 -DRN=1
fails | redlock: clocks further apart than the wait          | redlock.pml -DRS=1 -DAHEAD=4 -DFB=1
fails | redlock, bug: one master renews                      | redlock.pml -DEND=3 -DBUG_RENEWSANY -DFB=1 -DRS=1 -DRN=1
holds | together: needs three deep, two threads, killed        | together.pml -DNK=3 -DM0=7 -DM1=7 -DN0=1 -DN1=2 -DB=2 -DCR=1
holds | permits: Redis forgets one that is in use            | permits.pml -DXP=1
TABLE
}

# verdict COMPILER FLAGS...: builds and runs one configuration in this folder; prints holds, fails or an error
verdict() {
    compiler=$1 && shift
    file=$model
    case ${1:-} in
    *.pml) file=$(dirname "$model")/$1 && shift ;;
    esac
    case " $* " in
    *" -DLIVE "*) safety=-DNFAIR=3 search='-a -f' ;; # fair: every process moves on
    # A short search has the memory for states as they are, and packing them takes a sixth of its time.
    *) safety="-DSAFETY $([ "$compiler" != tcc ] || echo -DNOCOMP)" search= ;;
    esac
    # shellcheck disable=SC2086
    if ! spin "$@" -a "$file" >spin.log 2>&1 || ! $compiler $safety -w -o pan pan.c >cc.log 2>&1; then
        echo "does not build: $(cat spin.log cc.log 2>/dev/null | head -n 3)"
        return
    fi
    [ "$compiler" = tcc ] && search="$search -w22" # 2^24 places for states would take longer to clear than most searches
    # Huge pages: it reads its memory here and there, and only grows.
    GLIBC_TUNABLES=glibc.malloc.hugetlb=1 timeout "$limit_s" ./pan -m400000 $search >pan.log 2>&1
    if grep -q 'errors: 0' pan.log && ! grep -qE 'search not completed|max search depth too small|out of memory' pan.log; then
        echo holds
    elif grep -qE 'errors: [1-9]' pan.log; then
        echo fails
    else
        echo "no result: $(tail -n 1 pan.log)"
    fi
}

# A short search is over before a compiler that optimises: tcc builds at once. COLLAPSE is for memory, and takes a
# third more time.
compiler_of() {
    [ "$1" -le "$short_count" ] && echo tcc || echo "${CC:-cc} -O2 -DCOLLAPSE"
}

# start NUMBER: checks that row of the table in the background, in a folder of its own
start() {
    [ "$1" -le "$count" ] || return 0
    rm -rf "$work/run.$1" && mkdir -p "$work/run.$1" || exit 1
    (
        cd "$work/run.$1" || exit 1
        # shellcheck disable=SC2046
        verdict "$(compiler_of "$1")" $(sed -n "$1p" "$rows" | cut -d'|' -f3) >verdict
    ) &
    eval "job_$1=$!"
}

# finish NUMBER: waits for it and prints it
finish() {
    eval "wait \$job_$1"
    wanted=$(sed -n "$1p" "$rows" | cut -d'|' -f1 | tr -d ' ')
    name=$(sed -n "$1p" "$rows" | cut -d'|' -f2 | sed 's/^ *//;s/ *$//')
    found=$(cat "$work/run.$1/verdict")
    states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' "$work/run.$1/pan.log" 2>/dev/null | head -n 1)
    printf '%-54s %-6s %-6s %12s\n' "$name" "$wanted" "$found" "${states:--}"
    if [ "$found" = "$wanted" ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
    rm -rf "$work/run.$1"
}

printf '%-54s %-6s %-6s %12s\n' configuration wanted found states
rows=$(mktemp) && trap 'rm -f "$rows"' EXIT
table >"$rows"
short_count=$(wc -l <"$rows")
[ "$long" != 1 ] || long_table >>"$rows"
count=$(wc -l <"$rows")
row=1
start 1 # two at a time, told in the table's order
while [ "$row" -le "$count" ]; do
    start $((row + 1))
    finish "$row"
    row=$((row + 1))
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]

#!/bin/sh
# SPDX-License-Identifier: MIT
# mutants.sh - do the simulators find bugs in the cores? Sows one at a time into a copy of guard/ and tests/sim/ and
# looks.
#
#   sh tests/sim/mutants.sh [SEEDS [WORD [PARTS]]]    100000 seeds by default; only those mutants whose name, file or
#                                                     programs contain WORD, and one in PARTS of them: others
#                                                     tomorrow; exit status 1 if one survives
#
# The mutants are those of tests/mutants/table that name it. Those in guard/locks/ and lock_model.c are for that of
# the locks, others for one master, then for several; "sim:wishes" and "sim:outages" in the table, for the worlds with
# those only.
set -eu

seeds=${1:-100000}
only=${2:-}
parts=${3:-1}
today=$(($(date +%s) / 86400 % parts))
limit_s=600 # of one mutant, on a machine that does other things, too
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM
CC=${CC:-gcc}
FLAGS="-std=c11 -D_GNU_SOURCE -pthread -I$folder -O2 -w"

awk -v list=1 -f tests/mutants/sow.awk tests/mutants/table | grep -E "\|sim([ :]|$)" | grep -e "$only" |
    awk -v parts="$parts" -v today="$today" 'NR % parts == today' >"$folder/mutants"
[ -s "$folder/mutants" ] || { echo "0 survived of 0"; exit; }

cp -r guard "$folder/guard"
mkdir -p "$folder/tests"
cp -r tests/sim "$folder/tests/sim"

# sources of the simulators and the pure cores; the one that is mutated is compiled again
locks="$(cd guard && grep -l 'include "lock_core_state.h"' locks/*.c) locks/redlock/lock_quorum.c"
pure="$(cd guard && ls core/*.c) $locks base/alarm.c base/chance.c base/stats.c base/load_id.c base/value.c base/digest.c base/key.c base/tags.c wire/envelope.c"
objects=""
for source in $(ls "$folder"/tests/sim/*.c | grep -v _test) $(for name in $pure; do echo "$folder/guard/$name"; done); do
    [ -f "$source" ] || continue
    object="$folder/$(basename "$source" .c).o"
    $CC $FLAGS -c -o "$object" "$source"
    objects="$objects $object"
done

survivors=0
while IFS='|' read -r name file programs; do
    object=$folder/$(basename "$file" .c).o
    awk -v sow="$name" -v tree="$folder" -f tests/mutants/sow.awk tests/mutants/table
    $CC $FLAGS -c -o "$folder/mutant.o" "$folder/$file"
    $CC -Wl,--wrap=calloc -o "$folder/sim" $(echo "$objects" | sed "s|$object|$folder/mutant.o|")
    cp "$file" "$folder/$file"
    case $file in
    guard/locks/* | *lock_model.c) worlds=locks ;;
    guard/core/replay.c) worlds=shards ;;
    *) worlds='one shards' ;;
    esac
    case "$programs " in 'sim:wishes '*) worlds=wishes ;; 'sim:outages '*) worlds=outages ;; esac
    for of in $worlds; do
        status=0
        found=$(timeout "$limit_s" "$folder/sim" ${of#one} FIND="$seeds" 2>&1) || status=$?
        [ "$status" != 0 ] || break
    done
    case $status in
    0) echo "$name: found: $found" ;;
    124) echo "$name: SURVIVED $limit_s s, which were too short for $seeds seeds" ;;
    *) echo "$name: SURVIVED $seeds seeds" ;;
    esac
    [ "$status" = 0 ] || survivors=$((survivors + 1))
done <"$folder/mutants"
echo "$survivors survived of $(wc -l <"$folder/mutants")"
[ "$survivors" = 0 ]

#!/bin/sh
# SPDX-License-Identifier: MIT
# swarm.sh - many schedules of the simulators, dealt to all cores: six tenths of the guard's, a tenth each of it over
# two masters, with wishes, with outages, and of the locks.
#
#   swarm.sh SIM SCHEDULES FROM
#
# Each core has a slice of the seeds. Seeds that fail are told, the other slices go on, and the last line is the sum.
set -u
sim=$1 schedules=$2 from=$3
cores=$(nproc)
folder=$(mktemp -d) || exit 1
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$folder"' EXIT INT TERM

# slice NUMBER: its share of each simulator
slice() {
    for share in 6: 1:shards 1:wishes 1:outages 1:locks; do
        seeds=$((schedules * ${share%%:*} / 10 / cores))
        [ "$seeds" -gt 0 ] || seeds=1
        "$sim" ${share#*:} SEEDS=$seeds FROM=$((from + $1 * seeds)) || echo "slice $1 of sim ${share#*:} failed"
    done >"$folder/$1" 2>&1
}

number=0
while [ "$number" -lt "$cores" ]; do
    slice "$number" &
    number=$((number + 1))
done
wait
grep -hE 'SEED=|^slice ' "$folder"/* >&2
cat "$folder"/* | awk '
    /^[0-9]+ seeds, [0-9]+ failed/ { seeds += $1; failed += $3 }
    /^slice .* failed/ { broken++ }
    END { printf "%d seeds, %d failed\n", seeds, failed; exit failed + broken > 0 }'

#!/bin/sh
# SPDX-License-Identifier: MIT
# run.sh FOLDER SECONDS [PART] - the fuzz targets one after another, each for SECONDS, from a fixed seed.
#
# What a run discovers is added to FOLDER/corpus/TARGET, so that the next one begins there; an input that
# breaks something is FOLDER/found/TARGET-*. To see it again: FOLDER/fuzz TARGET FILE. One line per target.
#
# It begins with tests/fuzz/corpus/TARGET/ and what is in TARGET.base64, an input a line: what reached code that no
# other input did. To write that anew after a long run:
#   cp tests/fuzz/corpus/TARGET/* NEW
#   FOLDER/fuzz TARGET -set_cover_merge=1 -use_counters=0 NEW FOLDER/reached/TARGET FOLDER/corpus/TARGET
#   for file in those that it added to NEW; do base64 -w0 "$file" && echo; done >tests/fuzz/corpus/TARGET.base64
set -u

folder=$1
seconds=$2
part=${3:-}
mkdir -p "$folder/found"
failed=0

# unpack ARCHIVE FOLDER
unpack() {
    number=0
    mkdir -p "$2"
    while read -r line; do
        number=$((number + 1))
        printf '%s' "$line" | base64 -d >"$2/$number"
    done <"$1"
}

for seeds in tests/fuzz/corpus/*"$part"*/; do
    target=$(basename "$seeds")
    mkdir -p "$folder/corpus/$target"
    unpack "${seeds%/}.base64" "$folder/reached/$target"
    log=$folder/$target.log
    if "$folder/fuzz" "$target" -seed=1 -max_total_time="$seconds" -max_len=4096 -timeout=10 -rss_limit_mb=1024 \
        -print_final_stats=1 -artifact_prefix="$folder/found/$target-" \
        "$folder/corpus/$target" "$folder/reached/$target" "$seeds" >"$log" 2>&1; then
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
        reached=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -1)
        printf '%-10s %10s runs  %5s edges  no finding\n' "$target" "$runs" "$reached"
    else
        failed=1
        printf '%-10s FOUND SOMETHING; the end of %s:\n' "$target" "$log"
        tail -40 "$log"
    fi
done
[ "$failed" = 0 ]

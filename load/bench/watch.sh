#!/bin/sh
# SPDX-License-Identifier: MIT
# watch.sh - catalogd under callgrind or strace, in place of catalogd, and what it did between two marks.
#
#   CATALOGD=load/bench/watch.sh WATCH_PROGRAM=... WATCH_TOOL=callgrind|strace WATCH_FOLDER=...
#                                     what is started as catalogd is watched; its pid is catalogd's own
#   sh watch.sh --mark FOLDER PID     from here on
#   sh watch.sh --count FOLDER PID    what it did since, in all its threads: "INSTRUCTIONS ALLOCATIONS" of callgrind,
#                                     "CALLS" of strace: system calls; then it is marked again
#
# An allocation is a call of malloc, calloc, realloc or a relative. A call that was under way at the mark is not
# counted.
set -eu

dump() {
    rm -f "$1"/out.*
    vgdb --wait=10 --pid="$2" dump marked >/dev/null 2>&1
}

case ${1:-} in
--mark)
    if [ -e "$2/calls" ]; then
        wc -l <"$2/calls" >"$2/mark"
    else
        dump "$2" "$3"
    fi
    ;;
--count)
    if [ -e "$2/calls" ]; then
        tail -n "+$(($(cat "$2/mark") + 1))" "$2/calls" | grep -Ecv '^[0-9]+ +(<\.\.\.|---|\+\+\+)' || true
        wc -l <"$2/calls" >"$2/mark"
    else
        dump "$2" "$3"
        cat "$2"/out.* | awk '
            /^totals: / { instructions += $2 }
            /^cfn=/ { callee = substr($0, 5) }
            /^calls=/ && callee ~ /^(malloc|calloc|realloc|reallocarray|memalign|posix_memalign|aligned_alloc)$/ {
                split(substr($0, 7), count, " "); allocations += count[1] }
            END { print instructions + 0, allocations + 0 }'
    fi
    ;;
*)
    if [ "$WATCH_TOOL" = strace ]; then
        : >"$WATCH_FOLDER/calls"
        exec strace -D -f -qq -o "$WATCH_FOLDER/calls" "$WATCH_PROGRAM" "$@"
    fi
    # Fair scheduling: otherwise a busy thread keeps the others from running.
    exec valgrind --tool=callgrind --fair-sched=try --compress-strings=no --callgrind-out-file="$WATCH_FOLDER/out" \
        --log-file=/dev/null "$WATCH_PROGRAM" "$@"
    ;;
esac

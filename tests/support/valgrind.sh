#!/bin/sh
# SPDX-License-Identifier: MIT
# valgrind.sh - catalogd under valgrind, in place of catalogd, and what valgrind said of it.
#
#   CATALOGD=tests/support/valgrind.sh VALGRIND_PROGRAM=... VALGRIND_LOGS=FOLDER TEST
#                                     what the test starts as catalogd leaves a log in FOLDER, one per process
#   sh valgrind.sh --judge FOLDER     0 if no log tells of an error, of memory definitely lost or of a
#                                     descriptor open at the end beyond 0, 1 and 2; else prints those that do
set -u

if [ "${1:-}" != --judge ]; then
    # Fair scheduling: otherwise a busy thread keeps the others from running.
    exec valgrind --fair-sched=try --leak-check=full --show-leak-kinds=definite,indirect \
        --errors-for-leak-kinds=definite --track-fds=yes --error-exitcode=99 \
        --log-file="$VALGRIND_LOGS/%p.log" "$VALGRIND_PROGRAM" "$@"
fi

# What was open before the program began is not its own, nor is the log. A process that was killed has no summary.
is_clean() {
    awk '
    / Open [^ ].* [0-9]+:/ { open++ }
    /<inherited from parent>/ { open-- }
    /FILE DESCRIPTORS:/ { asked = 1 }
    /ERROR SUMMARY:/ { ended = 1; errors = $4 }
    END { exit !(asked && ended && errors == 0 && open == 0) }' "$1"
}

count=0
bad=0
for log in "$2"/*.log; do
    [ -e "$log" ] || break
    count=$((count + 1))
    is_clean "$log" && continue
    cat "$log"
    bad=$((bad + 1))
done
echo "valgrind: $count processes, $bad with errors, memory lost or descriptors left open"
[ $count != 0 ] && [ $bad = 0 ]

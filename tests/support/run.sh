#!/bin/sh
# SPDX-License-Identifier: MIT
# run.sh - runs test programs one after another, each within TEST_LIMIT_S seconds.
#
# Prints the closing lines of each program and how long it took by folder, the whole output of one that failed, and at the end one line
# "N passed, N failed" counted from what the programs printed. A program that crashed, ran out of time or
# failed outside its tests (a sanitizer's report at exit, for instance) counts as one failure more, and so
# does one that ran no test.
set -u

log=$(mktemp)
times=$(mktemp)
trap 'rm -f "$log" "$times"' EXIT
trap 'exit 130' INT TERM

# tally WORD: sums N over the lines "[  WORD  ] N test(s)..."
tally() {
    sed -n "s/^\[  $1  \] \([0-9][0-9]*\) test(s).*/\1/p" "$log" | awk '{ n += $1 } END { print n + 0 }'
}

passed=0
failed=0
for program in "$@"; do
    name=${program#build/*/tests/}
    echo "== $name"
    began=$(date +%s)
    timeout -k 10 "${TEST_LIMIT_S:-180}" "$program" >"$log" 2>&1
    status=$?
    echo "${name%%/*} $(($(date +%s) - began))" >>"$times"
    program_passed=$(tally PASSED)
    program_failed=$(tally FAILED)
    if [ $status != 0 ] && [ "$program_failed" = 0 ]; then
        program_failed=1
        [ $status = 124 ] || [ $status = 137 ] && echo "killed after ${TEST_LIMIT_S:-180} s" >>"$log"
        echo "exit status $status" >>"$log"
    fi
    if [ $status = 0 ] && [ "$program_passed" = 0 ]; then
        program_failed=1
        echo "no test ran" >>"$log"
    fi
    if [ "$program_failed" != 0 ]; then
        cat "$log"
    else
        grep -E '^\[(==========|  PASSED  |  SKIPPED )\] .*test\(s\)' "$log" | grep -v 'Running'
    fi
    passed=$((passed + program_passed))
    failed=$((failed + program_failed))
done

awk '{ programs[$1]++; seconds[$1] += $2 } END { for (level in programs)
    printf "%-8s %3d programs %5d s\n", level, programs[level], seconds[level] }' "$times" | sort
echo "$passed passed, $failed failed"
[ $failed = 0 ] && [ $passed != 0 ]

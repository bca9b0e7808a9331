#!/bin/sh
# SPDX-License-Identifier: MIT
# run.sh PROGRAM... - runs test programs, JOBS at a time, each within TEST_LIMIT_S seconds, under TEST_RUN if that is
# set
#
# Each program has servers, ports and folders of its own and mostly waits for them: alone it keeps a quarter of a core
# busy, so four at a time take little more than a quarter as long. Prints the closing lines of each, the whole output
# of one that failed, the slowest programs and those that used most CPU, the seconds of each level, those of the CPU
# too, and at the end one line "N passed, N failed, N skipped" counted from what the programs printed. A program that
# crashed, ran out of time or failed outside its tests (a sanitizer's report at exit, for instance) counts as one
# failure more, and so does one that ran no test.
set -u
export TSAN_OPTIONS="suppressions=$(dirname "$0")/tsan.supp ${TSAN_OPTIONS:-}"

# tally LOG FIELD: sums a field of the lines "tests: N passed, N failed, N skipped" that tests/support/test.c writes
tally() {
    awk -v field="$2" '/^tests: [0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/ { n += $field } END { print n + 0 }' "$1"
}

# run_one RESULTS PROGRAM: its report goes to stdout in one piece, "LEVEL SECONDS CPU PASSED FAILED SKIPPED NAME" into
# RESULTS. CPU has what its servers used, too: they are its children.
run_one() {
    results=$1
    program=$2
    log=$(mktemp)
    name=${program#build/*/tests/}
    began=$(date +%s)
    timeout -k 10 "${TEST_LIMIT_S:-1800}" ${TEST_RUN:-} "$program" >"$log" 2>&1
    status=$?
    took=$(($(date +%s) - began))
    times >"$log.times"
    cpu=$(sed -n 2p "$log.times" | tr -c '0-9.\n' ' ' | awk '{ printf "%.1f", $1 * 60 + $2 + $3 * 60 + $4 }')
    passed=$(tally "$log" 2)
    failed=$(tally "$log" 4)
    skipped=$(tally "$log" 6)
    if [ $status != 0 ] && [ "$failed" = 0 ]; then
        failed=1
        [ $status = 124 ] || [ $status = 137 ] && echo "killed after ${TEST_LIMIT_S:-1800} s" >>"$log"
        echo "exit status $status" >>"$log"
    fi
    if [ $status = 0 ] && [ $((passed + skipped)) = 0 ]; then
        failed=1
        echo "no test ran" >>"$log"
    fi
    level=${name%%/*}
    echo "${level:-other} $took $cpu $passed $failed $skipped $name" >>"$results"
    {
        echo "== $name"
        if [ "$failed" != 0 ]; then
            cat "$log"
        else
            grep -E '^(tests|skipped): ' "$log"
        fi
    } >"$log.report"
    cat "$log.report"
    rm -f "$log" "$log.times" "$log.report"
}

if [ "${1:-}" = --one ]; then
    run_one "$2" "$3"
    exit 0
fi

results=$(mktemp)
STACK_CLUSTERS=$(mktemp -d) || exit 2 # PostgreSQL's files are made once, and copied
chmod 1777 "$STACK_CLUSTERS"          # by a user of its own where we are root
export STACK_CLUSTERS
trap 'rm -rf "$results" "$STACK_CLUSTERS"' EXIT
trap 'exit 130' INT TERM
printf '%s\n' "$@" | xargs -P "${JOBS:-4}" -n 1 sh "$0" --one "$results"

sort -k 2,2 -rn "$results" | head -n 8 | awk '$2 >= 10 { printf "slow: %-32s %5d s\n", $7, $2 }'
sort -k 3,3 -rn "$results" | head -n 8 | awk '$3 >= 5 { printf "most CPU: %-32s %5d s\n", $7, $3 }'
awk '{ programs[$1]++; seconds[$1] += $2; cpu[$1] += $3 } END { for (level in programs)
    printf "%-8s %3d programs %5d s %5d s of CPU\n", level, programs[level], seconds[level], cpu[level] }' "$results" | sort
awk -v wanted=$# '{ passed += $4; failed += $5; skipped += $6 }
    END { if (NR != wanted) { printf "%d programs did not report\n", wanted - NR; failed += wanted - NR }
          printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
          exit failed > 0 || passed == 0 }' "$results"

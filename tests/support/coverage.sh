#!/bin/sh
# SPDX-License-Identifier: MIT
# coverage.sh OBJECTS SOURCES - how many branches of the .c files below SOURCES the tests have reached, and which they
# have not.
#
# Reads what programs built with --coverage left beside the objects. A branch is one way that a condition can
# go. Left out are lines with assert() or abort(), whose other way ends the program, and the list and table
# macros of uthash, whose branches are its own. One line per file, then the lines of each with a way never taken,
# xN where N ways of one line were not.
set -eu

objects=$1
sources=$2

gcov --branch-probabilities --branch-counts --stdout $(find "$objects" -name "*.gcda") 2>/dev/null |
    awk -F: -v folder="$sources/" '
    /^ *-: *0:Source:/ { file = $4; ours = index(file, folder) == 1 && file ~ /\.c$/; next }
    !ours { next }
    /^ *[-#=0-9*]+: *[0-9]+:/ {
        line = $2 + 0
        skipped = $0 ~ /assert\(|abort\(|HASH_|[DL]L_/
        next
    }
    /^branch / && !skipped {
        total[file]++
        if ($0 ~ /taken [1-9]/) reached[file]++
        else if (missed[file, line]++ == 0) lines[file] = lines[file] " " line
    }
    END {
        for (file in total) files[++count] = file
        for (i = 2; i <= count; i++)
            for (j = i; j > 1 && files[j - 1] > files[j]; j--) {
                swap = files[j]; files[j] = files[j - 1]; files[j - 1] = swap
            }
        for (i = 1; i <= count; i++) {
            file = files[i]
            all += total[file]; taken += reached[file]
            printf "%-28s %5d of %5d branches  %5.1f %%\n", file, reached[file], total[file], 100 * reached[file] / total[file]
        }
        if (count == 0) exit 1
        printf "%-28s %5d of %5d branches  %5.1f %%\n\nnever taken:\n", "all", taken, all, 100 * taken / all
        for (i = 1; i <= count; i++) {
            n = split(lines[files[i]], at, " ")
            if (n > 0) printf("%-24s", files[i])
            for (j = 1; j <= n; j++) {
                more = missed[files[i], at[j]]
                printf("%s%d%s", (j > 1 && j % 16 == 1 ? "\n" sprintf("%25s", "") : " "), at[j], (more > 1 ? "x" more : ""))
            }
            if (n > 0) printf("\n")
        }
    }'

#!/bin/sh
# SPDX-License-Identifier: MIT
# promises.sh - each promise of tests/promises with the tests that name it.
#
#   sh tests/support/promises.sh [--check]      --check: only what is wrong; the exit status is 1 if anything is
awk -v check="$1" '
FILENAME == "tests/promises" {
    if (/^ ? ?[0-9]+ /) {
        number = $1 + 0
        if (number != last + 1)
            wrong("tests/promises: " number " stands after " last)
        last = number
    } else if (/^    - /) {
        is_noted[number] = 1
    }
    lines[++line_count] = $0
    last_line[number] = line_count
    next
}
/^TEST(_WITH)?\(/ { call = ""; is_open = 1 }
is_open {
    call = call $0
    if (index(call, ")") == 0)
        next
    is_open = 0
    sub(/^[A-Z_]*\( */, "", call)
    sub(/\).*/, "", call)
    count = split(call, words, / *, */)
    program = FILENAME
    gsub(/^tests\/|\.c$/, "", program)
    if (program ~ /^(live|e2e)\// && call !~ /, *P[0-9]+/)
        without = without "      " program ": " words[1] "\n"
    for (i = 2; i <= count; i++)
        if (words[i] ~ /^P[0-9]+$/)
            tests[substr(words[i], 2) + 0] = tests[substr(words[i], 2) + 0] "      " program ": " words[1] "\n"
}
function wrong(text) {
    print text > "/dev/stderr"
    status = 1
}
END {
    for (number in tests)
        if (number + 0 > last)
            wrong("P" number " is no promise:\n" tests[number])
    for (number = 1; number <= last; number++)
        if (!(number in tests) && !is_noted[number])
            wrong("tests/promises: no test holds " number)
    for (i = 1; check == "" && i <= line_count; i++) {
        print lines[i]
        for (number = 1; number <= last; number++)
            if (last_line[number] == i)
                printf "%s", tests[number]
    }
    if (check == "")
        printf "\n## What servers and processes show besides\n\n%s", without
    exit status
}' tests/promises tests/*/*.c tests/live/*/*.c

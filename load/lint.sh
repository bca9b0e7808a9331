#!/bin/sh
# SPDX-License-Identifier: MIT
# lint.sh - which way includes go, whether the walks of README.md and guard/locks/README.md name functions that are
# where they say, whether README's program compiles, whether each text for users says what, where and what to do, and
# whether the workflow has the parts of .ci/run.
#
#   sh load/lint.sh [--count]      --count prints how many includes there are between rooms, and in how many circles
#
# Each room has a line with the rooms that it may include; a file may always include its own room. A room is a folder
# or one file, and names only rooms of the lines above its own. What is listed here and what is found
# there must agree: an include of a room that is not named or of a file that is not there, a circle of files (a .c and
# its .h are one module) outside guard/core, a header called *_parts.h, and a folder with code that has no line are
# refused.
set -u

# The lines of a walk: | miss | `guard/run/ask.c` `guard_get()` | ... |
for readme in README.md guard/locks/README.md; do
    rows=$(sed -n 's/^| [a-z]* | `\([^`]*\)` `\([a-z_]*\)()` |.*/\1:\2/p' $readme)
    [ "$(echo "$rows" | wc -l)" -ge 10 ] || { echo "$readme: the walk has no rows that lint.sh can read" >&2; exit 1; }
    for row in $rows; do
        grep -qE "^[a-z].*[ *]${row#*:}\(" "${row%:*}" ||
            { echo "$readme: the walk: there is no ${row#*:}() in ${row%:*}" >&2; exit 1; }
    done
done

# The parts of .ci/run are the jobs of the workflow; what the first only builds for the others is none.
parts=$(sed -n 's/^\(make [^|]*\) |.*/\1/p' .ci/run | grep -vx 'make tests' | sort)
jobs=$(sed -n 's/^ *\(- \|part: \)\(make .*\)/\2/p' .github/workflows/ci.yml | sort)
[ "$parts" = "$jobs" ] || { echo ".github/workflows/ci.yml: its jobs are not the parts of .ci/run" >&2; exit 1; }

# Words that said two things, or one that another word says.
if git grep -nwE 'uncounted|near_reign_ended|socket_epoch|abandon_mark_ms|redis_place_ask|REDIS_ASK_[A-Z_]+|redis_run_kept|REDIS_KEPT' -- guard app load tests ':!load/lint.sh' >&2; then
    echo "lint: names_seen, near_drop_all, the name of the epoch, a note, confirm, replicated" >&2
    exit 1
fi

# Read in a window beside the code that calls it.
git ls-files -- '*.[ch]' '*.hpp' '*.cpp' '*.lua' | xargs awk '
    length > 118 { print FILENAME ":" FNR ": longer than 118 columns" > "/dev/stderr"; bad = 1 }
    END { exit bad }' || exit 1

# README's program is a piece of one: what it names besides the guard is declared here.
{
    echo 'struct row { const char *json; unsigned bytes; };'
    echo 'enum found { FOUND, NO_ROW, NO_DATABASE }; enum found find_user(void *, const char *, struct row *);'
    echo 'struct guard_result; void answer(struct guard_result *);'
    sed -n '/^```c$/,/^```$/{/^```/d;p}' README.md
} | "${CC:-cc}" -std=c11 -fsyntax-only -Wall -Wextra -Werror -Wno-unused-function -Iguard -xc - ||
    { echo "README.md: its program does not compile" >&2; exit 1; }

sh tests/support/promises.sh --check || exit 1

# What bench, lab and peers say to those who run them is not read.
awk -f tests/support/messages.awk app/*.c app/*/*.c guard/*.c guard/[!e]*/*.c guard/*/*/*.c load/stampede.c \
    load/base/*.c load/ground/*.c load/herd/*.c load/play/*.c load/report/*.c load/stack/*.c load/witness/*.c || exit 1

rooms() {
    cat <<'ROOMS'
guard/advanced.h 
guard/guard.h    guard/advanced.h
guard/locks.h    guard/guard.h
guard/host.h     guard/guard.h
guard/adapters   guard/guard.h guard/host.h
guard/base       guard/guard.h guard/host.h guard/adapters
guard/core       guard/guard.h guard/base
guard/redis      guard/guard.h guard/host.h guard/base
guard/wire       guard/guard.h guard/base guard/core guard/redis
guard/locks      guard/guard.h guard/locks.h guard/base guard/redis
guard/locks/redlock   guard/guard.h guard/locks.h guard/base guard/redis guard/locks
guard/locks/postgres  guard/guard.h guard/locks.h guard/base guard/locks
guard/locks/zookeeper guard/guard.h guard/locks.h guard/base guard/locks
guard/run        guard/guard.h guard/base guard/core guard/redis guard/wire
guard/api.c      guard/guard.h guard/host.h guard/base guard/core guard/redis guard/wire guard/run
guard/nginx      guard/guard.h guard/host.h guard/adapters
guard/example    guard/guard.h guard/locks.h guard/host.h guard/adapters
app/common           
app/base         app/common guard/guard.h
app/fleetlock    app/common app/base guard/guard.h guard/locks.h
app/pg           app/common app/base
app/catalog      app/common app/base app/pg guard/guard.h
app/write        app/common app/base app/pg app/catalog guard/guard.h
app/http         app/common app/base app/pg app/catalog app/write guard/guard.h guard/adapters
app/view         app/common app/base app/pg app/catalog app/write app/http guard/guard.h guard/adapters
app/ops          app/common app/base app/pg app/catalog app/write app/http app/view guard/guard.h guard/adapters
app/check        app/common app/base app/pg app/catalog app/write app/http app/ops guard/guard.h
app              app/common app/base app/pg app/catalog app/write app/http app/view app/ops app/check guard/guard.h
load/base        app/common
load/witness     app/common load/base
load/stack       app/common load/base load/witness
load/herd        app/common load/base load/stack load/witness
load/report      app/common load/base load/stack load/witness load/herd
load/play        app/common load/base load/stack load/witness load/herd load/report
load/ground      app/common load/base load/stack load/witness load/herd load/report load/play
load/bench       app/common load/base load/stack load/witness load/herd load/report load/play guard/guard.h guard/adapters guard/example
load/peers       app/common load/base load/stack load/witness load/herd load/report load/play
load/lab         app/common load/base load/stack load/witness load/herd load/report load/play guard/guard.h guard/locks.h
load             app/common load/base load/stack load/witness load/herd load/report load/play load/ground
ROOMS
}

# What redis/ shows to the rest of guard/.
face=' guard/redis/redis.h guard/redis/subscription.h '
# Of guard/ only this header includes libuv.
adapter='guard/adapters/libuv'
# Made by the build out of scripts, statements and pages.
made='guard_scripts.h guard_lock_scripts.h app_statements.h page_template.h view_page.h ground_page.h'

git ls-files -co --exclude-standard 'guard/*.[ch]' 'app/*.[ch]' 'load/*.[ch]' | while read -r file; do
    [ ! -f "$file" ] || grep -HnE '^[[:space:]]*#[[:space:]]*include[[:space:]]+["<]' "$file" || echo "$file:0:"
done | awk -v rooms="$(rooms)" -v face="$face" -v adapter="$adapter" -v made=" $made " -v counting="${1:-}" '
function refuse(text) {
    print "lint: " text > "/dev/stderr"
    bad = 1
}

# Its own line, or that of its folder.
function room_of(file,    folder) {
    folder = substr(file, 1, match(file, /\/[^\/]*$/) - 1)
    return file in may ? file : folder in may ? folder : ""
}

function plain(path) {
    while (sub(/[^\/.]+\/\.\.\//, "", path))
        continue
    return path
}

# Beside the file, from the root, or as a host includes what it has copied.
function target_of(file, name,    beside) {
    beside = plain(substr(file, 1, match(file, /[^\/]*$/) - 1) name)
    return beside in files ? beside : name in files ? name : "guard/" name in files ? "guard/" name : ""
}

function module_of(file) {
    sub(/\.[ch]$/, "", file)
    return file
}

# Depth first: a module that is met again while it is open closes a circle.
function visit(module,    i, n, next_ones) {
    state[module] = "open"
    path[++depth] = module
    n = split(arrows[module], next_ones, " ")
    for (i = 1; i <= n; i++) {
        if (state[next_ones[i]] == "open")
            tell_circle(next_ones[i])
        else if (state[next_ones[i]] == "")
            visit(next_ones[i])
    }
    depth--
    state[module] = "done"
}

function tell_circle(from,    i, text, on) {
    circles++
    for (i = 1; i <= depth; i++) {
        on = on || path[i] == from
        if (on)
            text = text path[i] " -> "
    }
    if (!counting)
        refuse("a circle of files: " text from)
}

BEGIN {
    count = split(rooms, lines, "\n")
    for (i = 1; i <= count; i++) {
        n = split(lines[i], words, " ")
        may[words[1]] = " " words[1] " "
        for (j = 2; j <= n; j++) {
            if (!(words[j] in may))
                refuse(words[1] " names " words[j] ", which no line above it is about")
            may[words[1]] = may[words[1]] words[j] " "
        }
    }
}

{
    split($0, part, ":")
    files[part[1]] = 1
    name = $0
    if (part[2] == 0)
        next
    quoted = sub(/^[^"<]*"/, "", name)
    sub(/^[^"<]*</, "", name)
    sub(/[">].*/, "", name)
    from[++total] = part[1]
    at[total] = part[1] ":" part[2]
    to[total] = name
    ours[total] = quoted
}

END {
    for (file in files) {
        if (room_of(file) == "")
            refuse(file " is in no room of load/lint.sh")
        if (file ~ /_parts\.h$/)
            refuse(file ": say what it is a header of; parts are not a module")
    }
    for (i = 1; i <= total; i++) {
        if (to[i] == "uv.h" && from[i] ~ /^guard\// && module_of(from[i]) != adapter)
            refuse(at[i] ": only " adapter " knows libuv")
        target = target_of(from[i], to[i])
        if (target == "" && ours[i] && !index(made, " " to[i] " "))
            refuse(at[i] ": there is no " to[i] " in guard/, app/ or load/")
        if (target == "" || target == from[i])
            continue
        here = room_of(from[i])
        there = room_of(target)
        if (here != there)
            between++
        if (!index(may[here], " " there " ")) {
            wrong++
            refuse(at[i] ": " here " may not include " there ", which is " to[i])
        }
        if (there == "guard/redis" && here != there && index(face, " " target " ") == 0)
            refuse(at[i] ": guard/redis shows" face "to others, and nothing else")
        a = module_of(from[i])
        b = module_of(target)
        if (a != b && here != "guard/core" && !((a, b) in known)) {
            known[a, b] = 1
            arrows[a] = arrows[a] " " b
        }
    }
    for (module in arrows)
        if (state[module] == "")
            visit(module)
    if (counting)
        printf "%d includes between rooms, %d of them against the list; %d circles of files\n", between, wrong, circles
    exit bad
}'

#!/bin/sh
# SPDX-License-Identifier: MIT
# run.sh - who finds sown bugs? Every mutant of tests/mutants/table against the simulator and against programs
# that use real servers; the matrix of who killed whom.
#
#   sh tests/mutants/run.sh [WORD]      only mutants whose name contains WORD; exit status 1 if one survives
#   RESUME=1 sh tests/mutants/run.sh    only those that did not pass in the run before; the simulator's part is not
#                                       done again if nothing survived it and it has nothing new to find
#
# LANES of them, 3 by default, are at work at a time, for tests with servers mostly wait. Each lane has a copy of the
# tree (what git knows, as it stands, and the objects of BUILD, build/gcc by default). A mutant changes one file
# there, make builds what depends on it, the file comes back. Its programs run until one fails; the first test that
# failed, crashed or hung is the one that found it. Before anything is sown, every program has
# to pass: who fails without a reason finds nothing. Ends with "N passed, N failed"; a mutant that real servers or,
# where it is the simulator's, the simulator let live has failed. So has one whose program was still running after
# TEST_LIMIT_S, the limit of `make test`: a slow machine is told as TIMED OUT, and only a mutant whose name ends with
# "(hangs)" is found by that.
set -u

only=${1:-}
limit_s=${TEST_LIMIT_S:-600}
CC=${CC:-gcc}
BUILD=${BUILD:-build/gcc}
LANES=${LANES:-3}
RESUME=${RESUME:-}
top=$(pwd)/build/mutants
table=tests/mutants/table
sower=tests/mutants/sow.awk
unset MAKEFLAGS MFLAGS MAKELEVEL
running=

stop() {
    [ -z "$running" ] || { kill "$running" && wait "$running"; } 2>/dev/null
    running=
}
trap 'exit 130' INT TERM

mutants() {
    awk -v list=1 -f $sower $table | if [ -n "$only" ]; then grep -e "^[^|]*$only"; else cat; fi
}

copy_tree() {
    mkdir -p "$tree/$BUILD"
    git ls-files -z | tar --null --ignore-failed-read -T - -cf - | tar -xf - -C "$tree" || exit 2
    [ ! -d "$BUILD" ] || cp -a "$BUILD/." "$tree/$BUILD/"
}

# build PROGRAM...
build() {
    (cd "$tree" && make -j2 CC="$CC" SAN="${SAN:-}" BUILD="$BUILD" $(printf "$BUILD/tests/%s " "$@")) \
        >"$folder/make.log" 2>&1
}

# The first test of a log that failed, if only to be taken down; the one that was running if the program ended with
# it.
first_failure() {
    failed=$(sed -n 's/^\[  \(FAILED\|ERROR \)  \] \([a-z_0-9]*\)$/\2/p' "$folder/test.log" | head -n 1)
    [ -n "$failed" ] || failed=$(sed -n 's/^\[ RUN      \] \([a-z_0-9]*\)$/\1/p' "$folder/test.log" | tail -n 1)
    echo "${failed:-start}"
}

# run PROGRAM: true if it passes, 124 if it took too long. One that has failed a test is not waited for.
run() {
    (cd "$tree" && CATALOGD=$BUILD/catalogd exec timeout -k 10 "$limit_s" "$BUILD/tests/$1") \
        >"$folder/test.log" 2>&1 &
    running=$!
    while kill -0 "$running" 2>/dev/null && ! grep -q '^\[  FAILED  \]' "$folder/test.log"; do
        sleep 0.2
    done
    if grep -q '^\[  FAILED  \]' "$folder/test.log"; then
        stop
        return 1
    fi
    wait "$running"
    status=$?
    running=
    [ $status != 137 ] || status=124 # it did not end on SIGTERM either
    return $status
}

# judge PROGRAM...: who found it, or nothing; or who took too long
judge() {
    found=
    late=
    for program in "$@"; do
        run "$program"
        case $? in
        0) ;;
        124) late="$program: $(first_failure)" && return ;;
        *) found="$program: $(first_failure)" && return ;;
        esac
    done
}

# is_found NAME
is_found() {
    [ -n "$found" ] && return
    case $1 in
    *'(hangs)') [ -n "$late" ] ;;
    *) false ;;
    esac
}

# sow NAME FILE
sow() {
    cp "$tree/$2" "$folder/unmutated"
    (cd "$tree" && awk -v sow="$1" -f $sower $table)
}

simulated() {
    case "$2 " in
    'sim '* | 'sim:wishes '* | 'sim:outages '*) sed -n "s/^$1: found.*/found/p;s/^$1: SURVIVED.*/SURVIVED/p" "$top/simulator.log" ;;
    *) echo - ;;
    esac
}

# The run before has asked the simulator for each that it has to find by now, and none survived.
are_simulated() {
    grep -q '^0 survived' "$top/simulator.log" 2>/dev/null || return 1
    mutants | while IFS='|' read -r name file programs; do
        [ -n "$(simulated "$name" "$programs")" ] || exit 1
    done
}

# programs_of PROGRAMS: but the simulator
programs_of() {
    case $1 in
    sim | sim:wishes | sim:outages) ;;
    'sim '* | 'sim:wishes '* | 'sim:outages '*) echo "${1#* }" ;;
    *) echo "$1" ;;
    esac
}

row() {
    printf '%-50s | %-9s | %s\n' "$1" "$2" "$3"
}

# share LANE: of the lines that are read, every so many
share() {
    awk -v lane="$1" -v lanes="$LANES" 'NR % lanes == lane'
}

# in_lane LANE COMMAND...
in_lane() {
    folder=$top/$1
    tree=$folder/tree
    shift
    trap stop EXIT
    "$@"
}

# in_lanes COMMAND: COMMAND LANE in each of them; false if it failed in one
in_lanes() {
    pids=
    for lane in $(seq 0 $((LANES - 1))); do
        (in_lane "$lane" "$1" "$lane") &
        pids="$pids $!"
    done
    worst=0
    for pid in $pids; do
        wait "$pid" || worst=1
    done
    return $worst
}

judge_unsown() {
    programs=$(share "$1" <"$top/programs")
    [ -n "$programs" ] || return 0
    build $programs || { cat "$folder/make.log"; return 1; }
    judge $programs
    [ -n "$found$late" ] || return 0
    cat "$folder/test.log"
    echo "without a mutant: ${found:+fails: $found}${late:+not over after $limit_s s: $late}"
    return 1
}

# judge_mutant NAME FILE PROGRAM...: without a program it is the simulator's alone
judge_mutant() {
    name=$1
    file=$2
    shift 2
    if [ $# = 0 ]; then
        row "$name" "${simulator:-NOT RUN}" -
        [ "$simulator" = found ] && echo "$name" >>"$folder/passed" || echo "$name" >>"$folder/failed"
        return
    fi
    sow "$name" "$file" || return 1
    build "$@" || { cat "$folder/make.log"; echo "$name: does not build"; return 1; }
    judge "$@"
    cp "$folder/unmutated" "$tree/$file"
    verdict=${found:-${late:+TIMED OUT in $late}}
    row "$name" "${simulator:-NOT RUN}" "${verdict:-SURVIVED}"
    if is_found "$name" && { [ "$simulator" = found ] || [ "$simulator" = - ]; }; then
        echo "$name" >>"$folder/passed"
    else
        echo "$name" >>"$folder/failed"
    fi
}

judge_share() {
    share "$1" <"$top/mutants" >"$folder/mutants"
    while IFS='|' read -r name file programs <&3; do
        simulator=$(simulated "$name" "$programs")
        judge_mutant "$name" "$file" $(programs_of "$programs") || return 1
    done 3<"$folder/mutants"
}

# count VERDICT
count() {
    cat "$top"/*/"$1" 2>/dev/null | wc -l
}

# A tree may have been left with a mutant in it.
if [ -n "$RESUME" ]; then
    rm -rf "$top"/*/tree "$top"/*/failed
else
    rm -rf "$top"
fi
mkdir -p "$top"
cat "$top"/*/passed >"$top/passed" 2>/dev/null
mutants | awk -F'|' 'FILENAME != "-" { over[$0]; next } !($1 in over)' "$top/passed" - >"$top/mutants"
cut -d'|' -f3 "$top/mutants" | tr ' ' '\n' | grep -vx -e sim -e sim:wishes -e sim:outages | sort -u >"$top/programs"
in_lanes copy_tree || exit 2
echo "== the simulator"
are_simulated ||
    (cd "$top/0/tree" && CC=$CC sh tests/sim/mutants.sh 100000 "$only") >"$top/simulator.log" 2>&1
tail -n 1 "$top/simulator.log"
echo "== nothing sown"
in_lanes judge_unsown || exit 2
row mutant simulator "real servers"
in_lanes judge_share || exit 2
echo "$(count passed) passed, $(count failed) failed"
[ "$(count failed)" = 0 ] && [ "$(count passed)" != 0 ]

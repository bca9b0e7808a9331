#!/bin/sh
# SPDX-License-Identifier: MIT
# page.sh PAGE PROGRAM MORE.h2m VERSION SECONDS [WORD...] - the manual PAGE (catalogd.8) out of `PROGRAM WORD...
# --help`, by help2man, to stdout. MORE.h2m has the sections that a help text has no room for; SECONDS since 1970 is
# the page's day.
#
# The first line of the help, "name - what it does", becomes NAME, the calls below it SYNOPSIS, what it says behind
# "Exit status:" a section of its own, and its examples are shown as they stand.
set -eu

[ $# -ge 5 ] || { echo "usage: sh page.sh PAGE PROGRAM MORE.h2m VERSION SECONDS [WORD...]" >&2; exit 2; }
page=$1 program=$2 more=$3 version=$4 day=$5
shift 5
name=${page%.*}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$program" "$@" --help >"$work/help"
head -n 1 "$work/help" | grep -q "^$name - " || sed -i "1i $name - the scenarios of stampede" "$work/help"
{
    sed -n '1s/^\([^ ]*\) - \(.*[^.]\)[.]*$/[NAME]\n\1 \\- \2\n/p' "$work/help"
    sed -n '/^Examples:$/,$p' "$work/help" |
        sed -e 's/\\/\\e/g; s/-/\\-/g' -e '1s/.*/[EXAMPLES]\n.EX/' -e '$a.EE\n'
    awk '/Exit status: / { sub(/^.*Exit status: /, ""); said = 1; print "[EXIT STATUS]" }
        said && $0 == "" { exit }
        said { gsub(/-/, "\\-"); print }
        END { if (said) print "" }' "$work/help"
    cat "$more"
} >"$work/more"
# help2man wants Usage: before the first call, and nothing behind one.
awk -v name="$name" '
NR <= 2 { next }
/^Examples:$/ { exit }
/^ *stampede / && !body { sub(/^ */, ""); sub(/  .*/, ""); print (calls++ ? "  or:  " : "Usage: ") $0; next }
sub(/ *Exit status: .*/, "") { skipping = 1; if ($0 != "") print; next }
skipping && $0 != "" { next }
{ skipping = 0; body = body || $0 !~ /^(Usage|  or|   or):/ && $0 != "" }
{ print }' "$work/help" >"$work/body"
{ printf '#!/bin/sh\ncat <<"END_OF_HELP"\n'; cat "$work/body"; echo END_OF_HELP; } >"$work/$name"
chmod 755 "$work/$name"
LC_ALL=C help2man --no-info --version-string="$version" --source="stampede-guard $version" --section="${page##*.}" \
    --include="$work/more" "$work/$name" |
    sed -e 's/^default /.br\n&/' -e 's/^\(\.TH [^ ]* "[0-9]"\) "[^"]*"/\1 "'"$(date -u -d "@$day" +%Y-%m-%d)"'"/'

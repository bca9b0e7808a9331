#!/bin/sh
# SPDX-License-Identifier: MIT
#
# embed.sh - a page as a C header: its HTML with its styles and its scripts inside, as bytes.
#
#     sh load/embed.sh OUT.h PAGE.html FILE.css... FILE.js...
#
# The styles go, in their order, behind the page's line <style>, the scripts behind its line <script>. The page's
# policy (a meta element) allows this style and this script by their hashes, which take the places of sha256-STYLE and
# sha256-SCRIPT, and nothing else: what a text might smuggle in does not run.
#
#     PAGE_POLICY                     that policy, for the header of an answer
#     page_before[], page_after[]     what stands before and behind the page's line <!-- data -->,
#     page_bytes[]                    or all of it if it has no such line
#
# OUT.h is replaced as a whole or not at all.
set -eu

[ $# -ge 4 ] || { echo "usage: sh embed.sh OUT.h PAGE.html FILE.css... FILE.js..." >&2; exit 2; }
out=$1 page=$2
shift 2
trap 'rm -f "$out.$$".*' EXIT

: >"$out.$$.css"
: >"$out.$$.js"
for file in "$@"; do
    cat "$file" >>"$out.$$.${file##*.}"
done

# What stands between the tags: a line end, then the file.
hash_of() {
    { echo; cat "$1"; } | sha256sum | cut -c 1-64 | tr a-f A-F | basenc --base16 --decode | base64
}

bytes_as() {
    printf '\nstatic const unsigned char %s[] = {\n' "$1"
    od -An -v -tu1 | sed 's/ *\([0-9][0-9]*\)/\1,/g'
    echo '};'
}

sed -e "s|sha256-STYLE|sha256-$(hash_of "$out.$$.css")|" -e "s|sha256-SCRIPT|sha256-$(hash_of "$out.$$.js")|" \
    -e "/^<style>\$/r $out.$$.css" -e "/^<script>\$/r $out.$$.js" "$page" >"$out.$$.html"
{
    echo "/* Made by load/embed.sh from $page $*: edit those. */"
    printf '#define PAGE_POLICY "%s"\n' \
        "$(sed -n 's/.*"Content-Security-Policy" content="\([^"]*\)".*/\1/p' "$out.$$.html")"
    if grep -q '^<!-- data -->$' "$out.$$.html"; then
        sed '/^<!-- data -->$/,$d' "$out.$$.html" | bytes_as page_before
        sed '1,/^<!-- data -->$/d' "$out.$$.html" | bytes_as page_after
    else
        bytes_as page_bytes <"$out.$$.html"
    fi
} >"$out.$$.h"
mv "$out.$$.h" "$out"

#!/bin/sh
# SPDX-License-Identifier: MIT
#
# embed.sh - the page of a report as a C header: page.html with its style and its scripts inside, as bytes.
#
#     sh load/report/embed.sh OUT.h PAGE.html PAGE.css SCRIPT.js...
#
# page_before[] ends and page_after[] begins where the page says <!-- data -->. The page's policy allows this style and
# this script by their hashes and nothing else: what a text might smuggle in does not run. OUT.h is replaced as a
# whole or not at all.
set -eu

[ $# -ge 4 ] || { echo "usage: sh embed.sh OUT.h PAGE.html PAGE.css SCRIPT.js..." >&2; exit 2; }
out=$1 page=$2 style=$3
shift 3
trap 'rm -f "$out.$$".*' EXIT

# What stands between the tags: a line end, then the file.
hash_of() {
    { echo; cat "$1"; } | sha256sum | cut -c 1-64 | tr a-f A-F | basenc --base16 --decode | base64
}

bytes_as() {
    printf '\nstatic const unsigned char %s[] = {\n' "$1"
    od -An -v -tu1 | sed 's/ *\([0-9][0-9]*\)/\1,/g'
    echo '};'
}

cat "$@" >"$out.$$.js"
sed -e "s|sha256-STYLE|sha256-$(hash_of "$style")|" -e "s|sha256-SCRIPT|sha256-$(hash_of "$out.$$.js")|" \
    -e "/^<style>\$/r $style" -e "/^<script>\$/r $out.$$.js" "$page" >"$out.$$.html"
{
    echo '/* Made by load/report/embed.sh from page.html, page.css, page_plots.js and page.js: edit those. */'
    sed '/^<!-- data -->$/,$d' "$out.$$.html" | bytes_as page_before
    sed '1,/^<!-- data -->$/d' "$out.$$.html" | bytes_as page_after
} >"$out.$$.h"
mv "$out.$$.h" "$out"

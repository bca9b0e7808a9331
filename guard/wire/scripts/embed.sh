#!/bin/sh
# SPDX-License-Identifier: MIT
#
# embed.sh - turns Lua scripts into a C header, one string each, without comments and indentation.
#
#     sh embed.sh guard_scripts.h acquire.lua renew.lua ...
#
# acquire.lua becomes `static const char acquire_lua[]`. Redis hashes, keeps and reports the short text; the
# .lua files are the ones to read. Where a script says "-- include NAME", NAME.part.lua, which stands beside it, is
# put; a part makes no string of its own. Long strings and long comments ([[ ]]) are refused rather than parsed,
# and so is what ISO C does not promise to take as one string literal (4095 bytes).
set -eu

[ $# -ge 2 ] || { echo "usage: sh embed.sh OUT.h SCRIPT.lua..." >&2; exit 2; }
out=$1
shift
new=$out.new.$$
trap 'rm -f "$new"' EXIT

LC_ALL=C awk '
function refuse(why) {
    print FILENAME ":" FNR ": " why > "/dev/stderr"
    failed = 1
    exit 1
}

# The line up to its comment, quotes respected.
function without_comment(line,    i, c, quote) {
    quote = ""
    for (i = 1; i <= length(line); i++) {
        c = substr(line, i, 1)
        if (quote != "") {
            if (c == "\\") i++
            else if (c == quote) quote = ""
        } else if (c == "\"" || c == "\047") {
            quote = c
        } else if (substr(line, i, 2) == "--") {
            if (substr(line, i, 3) == "--[") refuse("long comments are not supported")
            return substr(line, 1, i - 1)
        } else if (substr(line, i, 2) == "[[" || substr(line, i, 2) == "[=") {
            refuse("long strings are not supported")
        }
    }
    if (quote != "") refuse("a string runs past the end of the line")
    return line
}

function c_quoted(text,    i, c, quoted) {
    quoted = ""
    for (i = 1; i <= length(text); i++) {
        c = substr(text, i, 1)
        quoted = quoted (c == "\\" || c == "\"" ? "\\" c : c)
    }
    return "\"" quoted "\\n\""
}

function name_of(path) {
    sub(/.*\//, "", path)
    sub(/\.lua$/, "", path)
    if (path !~ /^[a-z][a-z0-9_]*$/) refuse("the name must be one of a C variable")
    return path "_lua"
}

function end_script() {
    if (name == "") return
    if (bytes == 0) refuse(name " is empty")
    if (bytes > 4095) refuse(name " has " bytes " bytes, more than one string literal may have")
    print ";"
}

function take_line(line) {
    line = without_comment(line)
    gsub(/^[ \t]+|[ \t\r]+$/, "", line)
    if (line == "") return
    if (line ~ /[^ -~]/) refuse("only printable ASCII outside comments")
    bytes += length(line) + 1
    printf "\n    %s", c_quoted(line)
}

function take_part(part,    path, line, lines) {
    path = FILENAME
    sub(/[^\/]*$/, part ".part.lua", path)
    while ((getline line < path) > 0) {
        take_line(line)
        lines++
    }
    close(path)
    if (lines == 0) refuse(path " is not there, or empty")
}

BEGIN { print "/* Made from the .lua files by embed.sh: edit those. */" }

FILENAME ~ /\.part\.lua$/ { next }

FNR == 1 {
    end_script()
    name = name_of(FILENAME)
    bytes = 0
    printf "\nstatic const char %s[] =", name
}

/^-- include / {
    take_part($3)
    next
}

{ take_line($0) }

END { if (!failed) end_script() }
' "$@" >"$new"
mv -f "$new" "$out"

#!/bin/sh
# SPDX-License-Identifier: MIT
# docs.sh FOLDER - guide, cookbook and reference as HTML in FOLDER, beside guard/README.md and every file that they
# link to.
#
# Refuses a link that leads nowhere and a function in the text that no header declares. Needs cmark-gfm (Debian has
# it).
set -eu

[ $# = 1 ] || { echo "usage: sh docs.sh FOLDER" >&2; exit 2; }
out=$1
here=$(cd "$(dirname "$0")" && pwd)
guard=$(dirname "$here")
command -v cmark-gfm >/dev/null || { echo "docs.sh: there is no cmark-gfm; install the package of that name" >&2; exit 1; }
rm -rf "$out"
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The page of each text, as links name it from guard/.
pages='
guide/guide.md      index.html      Guide
guide/cookbook.md   cookbook.html   Cookbook
README.md           readme.html     README
adapters/README.md  adapters.html   Adapters
nginx/README.md     nginx.html      nginx
locks/README.md     lock.html       Locks
guard.h             reference.html  Reference
advanced.h          advanced.html   advanced.h
host.h              host.html       host.h
locks.h             locks.html      locks.h
'

# page TITLE: a whole page out of a body
page() {
    printf '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    printf '<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>%s - stampede-guard</title>\n' "$1"
    printf '<link rel="stylesheet" href="style.css">\n</head>\n<body>\n<nav>'
    echo "$pages" | while read -r source target title; do
        [ -z "$source" ] || printf '<a href="%s">%s</a> ' "$target" "$title"
    done
    printf '</nav>\n<main>\n'
    cat
    printf '</main>\n</body>\n</html>\n'
}

# contents: a page with a list of its sections behind its title, and one of the names that it declares at its end
contents() {
    awk '
    match($0, /<h2 id="[^"]*">/) {
        id = substr($0, RSTART + 8, RLENGTH - 10)
        title = substr($0, RSTART + RLENGTH)
        sub(/<\/h2>.*/, "", title)
        sections = sections "<li><a href=\"#" id "\">" title "</a></li>\n"
    }
    {
        line[NR] = $0
        while (match($0, /<a id="[^"]*"/)) {
            print substr($0, RSTART + 7, RLENGTH - 8) | "LC_ALL=C sort -f >" names
            $0 = substr($0, RSTART + RLENGTH)
        }
    }
    END {
        close("LC_ALL=C sort -f >" names)
        for (i = 1; i <= NR; i++) {
            print line[i]
            if (i == 1)
                print "<ul class=\"contents\">\n" sections "<li><a href=\"#index\">Index</a></li>\n</ul>"
        }
        print "<h2 id=\"index\">Index</h2>\n<ul class=\"index\">"
        while ((getline name < names) > 0)
            print "<li><a href=\"#" name "\">" name "</a></li>"
        print "</ul>"
    }' names="$work/names" "$1"
}

cp "$here/style.css" "$out/"
echo "$pages" | while read -r source target title; do
    case $source in *.h) echo "@$target"; cat "$guard/$source" ;; esac
done >"$work/headers"
for header in "$guard"/adapters/*.h; do
    echo "@adapters-$(basename "$header").html"
    cat "$header"
    echo "adapters/$(basename "$header")" >>"$work/sources"
done >>"$work/headers"
echo "$pages" | while read -r source target title; do
    [ -n "$source" ] || continue
    case $source in
    *.h) awk -f "$here/reference.awk" "$guard/$source" ;;
    *) cat "$guard/$source" ;;
    esac | cmark-gfm --unsafe -e table >"$work/body"
    awk -v source="$source" -v pages="$pages" -v sources="$work/sources" -v headers="$work/headers" \
        -f "$here/page.awk" "$work/body" >"$work/linked"
    case $source in
    *.h) contents "$work/linked" ;;
    *) cat "$work/linked" ;;
    esac | page "$title" >"$out/$target"
done

# What the texts link to beside each other, as it is.
sort -u "$work/sources" | while read -r source; do
    [ -f "$guard/$source" ] || { echo "docs.sh: there is no $source to link to" >&2; exit 1; }
    { printf '<h1>%s</h1>\n<pre><code>' "$source"
      sed 's/&/\&amp;/g; s/</\&lt;/g; s/>/\&gt;/g' "$guard/$source"
      printf '</code></pre>\n'; } | page "$source" >"$out/$(echo "$source" | tr / -).html"
done

cd "$out"
awk '
{
    line = $0
    while (match(line, /(id|href)="[^"]*"/)) {
        part = substr(line, RSTART, RLENGTH)
        line = substr(line, RSTART + RLENGTH)
        value = part
        sub(/^[a-z]*="/, "", value)
        sub(/"$/, "", value)
        if (part ~ /^id/)
            ids[FILENAME "#" value] = 1
        else if (value !~ /^https?:/)
            links[value ~ /^#/ ? FILENAME value : value] = FILENAME
    }
    files[FILENAME] = 1
}
END {
    files["style.css"] = 1
    for (link in links) {
        file = link
        sub(/#.*/, "", file)
        if (!(file in files) || (link ~ /#/ && !(link in ids))) {
            print "docs.sh: " links[link] " links to " link ", which is not there" >"/dev/stderr"
            bad = 1
        }
    }
    exit bad
}' *.html

# SPDX-License-Identifier: MIT
# page.awk - the body of a page, as cmark-gfm writes it, with its links: see docs.sh.
#
# Headings get the anchors that GitHub gives them; links between texts lead to their pages, `guard_get()` to the
# reference; what is linked to and is no text is listed in `sources`.
BEGIN {
    folder = source
    if (!sub(/[^\/]*$/, "", folder))
        folder = ""
    count = split(pages, word, /[ \n]+/)
    for (i = 2; i + 2 <= count; i += 3) {
        page_of[word[i]] = word[i + 1]
        if (word[i] == source)
            own = word[i + 1]
    }
    while ((getline line < headers) > 0) {
        if (line ~ /^@/)
            header = substr(line, 2)
        else if (line !~ /^ ?\/?\*/ && sub(/(\/\*.*)?$/, "", line) && match(line, /guard_[a-z0-9_]+\(/))
            declare(substr(line, RSTART, RLENGTH - 1))
    }
}

# A header that is shown as it is has no anchors.
function declare(name) {
    if (!(name in declared))
        declared[name] = header (header ~ /\.h\.html$/ ? "" : "#" name)
}

function slug(title) {
    gsub(/<[^>]*>|&[a-z]+;/, "", title)
    title = tolower(title)
    gsub(/[^a-z0-9 _-]/, "", title)
    gsub(/ /, "-", title)
    return title
}

function plain(path) {
    while (sub(/[^\/.]+\/\.\.\//, "", path))
        continue
    return path
}

function target(link,    path, anchor) {
    if (link ~ /^(https?:|#)/)
        return link
    path = link
    sub(/#.*/, "", path)
    anchor = substr(link, length(path) + 1)
    path = plain(folder path)
    if (path in page_of)
        return page_of[path] anchor
    print path >>sources
    gsub(/\//, "-", path)
    return path ".html"
}

function linked(line,    out, link) {
    while (match(line, /href="[^"]*"/)) {
        link = substr(line, RSTART + 6, RLENGTH - 7)
        out = out substr(line, 1, RSTART - 1) "href=\"" target(link) "\""
        line = substr(line, RSTART + RLENGTH)
    }
    return out line
}

function named(line,    out, name) {
    while (match(line, /<code>guard_[a-z0-9_]+\(\)<\/code>/)) {
        name = substr(line, RSTART + 6, RLENGTH - 15)
        if (!(name in declared)) {
            print "docs.sh: " source " names " name "(), which no header declares" >"/dev/stderr"
            bad = 1
        }
        out = out substr(line, 1, RSTART - 1) "<a href=\"" declared[name] "\"><code>" name "()</code></a>"
        line = substr(line, RSTART + RLENGTH)
    }
    return out line
}

/^<h[1-6]>/ {
    id = slug($0)
    $0 = substr($0, 1, 3) " id=\"" id "\"" substr($0, 4)
}
/<pre>/ { verbatim = 1 }
!verbatim { $0 = named(linked($0)) }
/<\/pre>/ { verbatim = 0 }
{ print }
END { exit bad }

# SPDX-License-Identifier: MIT
# reference.awk - makes a chapter of the reference out of a header, in Markdown: awk -f reference.awk guard.h
#
# A comment goes with the declarations that follow it up to the next empty line. A section is a comment with dashes
# around its title. What a declaration declares (functions, structs, enums and their constants, macros) gets an anchor
# of its name.
function plain(line) {
    sub(/ *\*+\/ *$/, "", line)
    sub(/^ ?\/?\*+ ?/, "", line)
    return line
}

function anchor(name) {
    if (name in made)
        return ""
    made[name] = 1
    return "<a id=\"" name "\"></a>"
}

# What this line declares.
function anchors(line, depth,    names, part, n, i) {
    gsub(/\/\*.*$/, "", line)
    sub(/^#define /, "", line)
    if (depth || line ~ /^enum {/) { # constants of an enum
        n = split(line, part, /[ ,{]+/)
        for (i = 1; i <= n; i++)
            if (part[i] ~ /^(GUARD|LOCK)S?_[A-Z0-9_]+$/)
                names = names anchor(part[i])
    } else if (match(line, /(guard|locks?)_[a-z0-9_]+\(/)) {
        names = anchor(substr(line, RSTART, RLENGTH - 1))
    } else if (match(line, /^(struct|enum) (guard|locks?)_[a-z0-9_]+/)) {
        names = substr(line, RSTART, RLENGTH)
        sub(/^[a-z]+ /, "", names)
        names = anchor(names)
    } else if (match(line, /^((GUARD|LOCK)S?_[A-Z0-9_]+|typedef .* [a-z_]+;)/)) {
        names = substr(line, RSTART, RLENGTH)
        sub(/^typedef .* /, "", names)
        sub(/;$/, "", names)
        names = anchor(names)
    }
    return names
}

function flush() {
    if (code != "") {
        if (text_lines > 0)
            show_text()
        printf "%s\n\n```c\n%s```\n\n", names, code
    } else if (text_lines > 0) {
        show_text()
    }
    code = names = ""
    text_lines = 0
}

# As it stands: tables and diagrams of a header are made of columns.
function show_text(    i) {
    print "```text"
    for (i = 1; i <= text_lines; i++)
        print text[i]
    print "```\n"
}

FNR == 1 { file = FILENAME; sub(/.*\//, "", file); printf "# %s\n\n", file; next }
/^#(ifndef|ifdef|if|else|endif|include|error)/ || /^extern "C"/ || /^}$/ && !depth || /^#define GUARD_([A-Z]+_)?(H|API)/ { next }
/^\/\* ---- .* ---- \*\/$/ || /^ \* ---- .* ----$/ {
    title = $0
    gsub(/^[ \/*]*---- | ----[ *\/]*$/, "", title)
    if (!in_comment)
        flush()
    print "## " title "\n"
    next
}
in_comment {
    text[++text_lines] = plain($0)
    if ($0 ~ /\*\/ *$/)
        in_comment = 0
    while (text_lines > 0 && text[text_lines] == "" && (text_lines == 1 || !in_comment))
        text_lines--
    next
}
/^\/\*/ && code == "" {
    in_comment = $0 !~ /\*\/ *$/
    if (plain($0) != "")
        text[++text_lines] = plain($0)
    next
}
/^$/ && !depth { flush(); next }
{
    code = code $0 "\n"
    names = names anchors($0, depth)
    line = $0
    depth += gsub(/{/, "", line) - gsub(/}/, "", line)
}
END { flush() }

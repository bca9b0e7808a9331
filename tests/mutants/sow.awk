# SPDX-License-Identifier: MIT
# sow.awk - sows the bugs of tests/mutants/table; see there for how one is written.
#
#   awk -v list=1 -f tests/mutants/sow.awk TABLE              name|file|programs of each
#   awk -v sow=NAME -v tree=DIR -f ... TABLE                  that bug into its file below DIR; the file is written
#                                                             anew
#   awk -v check=1 -f ... TABLE                               every bug can be sown: nothing is printed, nothing
#                                                             written
#
# What a bug changes must stand exactly once in the function it names, or, where it names none, in the file; else the
# exit status is 2. In a function of C one space stands for any white space, so that a line may be broken anew.

BEGIN { root = tree != "" ? tree "/" : "" }

function die(text) {
    print FILENAME ": " mutant ": " text > "/dev/stderr"
    exit died = 2
}

function read_file(path,    line, count) {
    if (path == path_read)
        return
    count = 0
    while ((getline line < path) > 0)
        file[++count] = line
    close(path)
    if (count == 0)
        die(path ": cannot be read")
    file_lines = count
    path_read = path
}

# The lines of a function of C, its head included: first and last.
function find_function(name,    at, head, end) {
    for (at = 1; at <= file_lines; at++) {
        if (file[at] == "{") {
            for (head = at - 1; head > 0 && file[head] != "" && file[head] !~ /(^}|;$|\*\/$|^#)/; head--)
                if (file[head] ~ ("(^|[^a-zA-Z0-9_])" name "\\(") && file[head] !~ /^[ \t]/) {
                    for (end = at; end < file_lines && file[end] !~ /^}/; end++)
                        if (file[end] ~ /^#/)
                            die(name "() has a line for the preprocessor")
                    first = head
                    last = end
                    return 1
                }
        }
    }
    return 0
}

function text_of(from, to, glue,    at, text) {
    text = file[from]
    for (at = from + 1; at <= to; at++)
        text = text glue file[at]
    return text
}

function replace_once(text, old, new,    at) {
    at = index(text, old)
    if (at == 0)
        die("\"" old "\" does not stand in " where " any more")
    if (index(substr(text, at + 1), old) > 0)
        die("\"" old "\" stands in " where " more than once")
    return substr(text, 1, at - 1) new substr(text, at + length(old))
}

# The function, or the whole file, becomes one text to be changed in ...
function open_scope(name) {
    first = 1
    last = file_lines
    if (name != "" && !find_function(name))
        die("there is no " name "() in " path " any more")
    scope = text_of(first, last, name != "" ? " " : "\n")
    if (name != "")
        gsub(/[ \t]+/, " ", scope)
}

# ... and goes back as one line.
function close_scope(    from, to) {
    if (scope == "")
        return
    file[first] = scope
    for (from = last + 1; from <= file_lines; from++)
        file[first + from - last] = file[from]
    file_lines -= last - first
    scope = ""
}

function finish_edit() {
    if (is != "" && wanted)
        scope = replace_once(scope, is, becomes)
    is = becomes = ""
}

function finish_mutant(    at) {
    finish_edit()
    close_scope()
    if (mutant == "")
        return
    if (by == "" || where == "")
        die("needs \"is\", and \"in\" and \"by\" here or before")
    if (list)
        print mutant "|" path "|" by
    if (mutant == sow) {
        sown = 1
        for (at = 1; at <= file_lines; at++)
            print file[at] > (root path)
    }
    path_read = mutant = where = ""
}

# The lines that follow change `place`, FILE [FUNCTION].
function open_place(    names) {
    split(place, names, " ")
    if (where != "" && names[1] != path)
        die("changes two files")
    where = place
    path = names[1]
    if (wanted) {
        read_file(root path)
        open_scope(names[2])
    }
}

/^#/ || /^$/ { next }

{
    word = $1
    rest = $0
    sub(/^ *[a-z]+ */, "", rest)
}

word == "mutant" {
    finish_mutant()
    mutant = rest
    wanted = check || mutant == sow
    next
}

word == "in" {
    finish_edit()
    close_scope()
    place = rest
    open_place()
    next
}

word == "is" {
    finish_edit()
    if (where == "")
        open_place()
    is = rest
    next
}

word == "becomes" {
    becomes = rest
    next
}

word == "by" {
    finish_mutant()
    by = rest
    next
}

{ die("unknown word \"" word "\"") }

END {
    if (died)
        exit died
    finish_mutant()
    if (sow != "" && !sown)
        die("there is no mutant \"" sow "\"")
}

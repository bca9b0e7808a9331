# SPDX-License-Identifier: MIT
# messages.awk - every text that a user can meet, collected from the sources and held to a few rules.
#
#   awk -f tests/support/messages.awk FILE.c...      prints what breaks a rule, then ends with 1; -v list=1: all texts
#
# A message is what a call, a row of a table or a statement says in its string literals, joined by " | " where code is
# between them. All that reads like words is collected, whoever makes it, unless MUTE names it as something else: so a
# new way to complain cannot be forgotten. Not collected: help texts, names and helps of metrics, statements of SQL.
#
# The rules ask of a message what a reader in trouble asks: what is wrong, where, and what to do. What is wrong with
# a setting, its name and what is allowed is held by unit/settings_test: every_setting_is_refused_by_name_when_wrong.

BEGIN {
    LEAST = 1000 # a collector that overlooks most of them would find nothing wrong

    # Calls whose words are not messages: tests of texts, helps, names of figures, statements, what went well.
    MUTE = " _Static_assert NUMBER TEXT COUNT COUNT_K COUNTER GAUGE GAUGE_K SECONDS SPANS_K ROW STRAIN_ROW LINE " \
        "write_head begins contains strlen strncmp printf progress_step json_pack findings_ok print_line add_below " \
        "MHD_add_response_header answer DO strcat strstr sscanf shell proc_output stack_redis_command " \
        "stack_redis_info stack_redis_mentions stack_redis_number "
    # Whatever these say is a message, were it a single word.
    MAKERS = " log_event log_line findings_add mistake complain complain_about words_refuse wrong check_failed " \
        "refuse request_refuse breach pg_fault_set witness_note tls_refuse refuse_parameter perror "
    # Their rows are helps.
    HELPS = " app/ops/metrics.c load/play/expect.c load/play/scenario_event.c load/play/scenario_take.c " \
        "load/play/live.c load/report/result_table.c "
    MACHINES = "^(text/|application/|GET, HEAD|; hit|SELECT |INSERT |UPDATE |BEGIN|DROP |CREATE |" \
        "umask |export | \\*/ |/\\* | FROM )"
    # In texts that mean the same wherever they are.
    SAME = "memory|is NULL|request->count is 0|another guard's|cannot be written|cannot be read|no answer in time|" \
        "the locks are closing|the port must be|unix://|not an answer of Redis|the line is too long"
    # What tells somebody to do something, or where to look.
    VERBS = " ask close correct do get give hint leave look lower raise restart see send set use wait write try " \
        "open begin report repeat name start stop remove say "
}

# ---- reading a source: a frame is what a call, a row or a statement has said; a parenthesis has its frame's ----

FNR == 1 {
    depth = said = 0
    in_comment = in_directive = 0
    name = ""
    push("text", "")
}

{
    rest = $0
    if (in_directive || rest ~ /^[ \t]*#/ && !in_comment) {
        in_directive = rest ~ /\\$/
        next
    }
    while (rest != "")
        step()
}

function push(of, end) {
    frame[++depth] = of == "(" ? frame[depth - 1] : ++said
    closer[depth] = end
    if (of == "(")
        return
    maker[said] = of
    begin_saying(said)
}

function begin_saying(at) {
    text[at] = ""
    has_errno[at] = lacks_value[at] = urgent[at] = goes_on[at] = 0
}

function add(at, what) {
    if (text[at] == "")
        line[at] = FNR
    else if (!goes_on[at])
        text[at] = text[at] " | "
    text[at] = text[at] what
    goes_on[at] = 1
}

# A name is judged by what follows it: a call has its own say; PRIu64 and texts that are defined belong to the
# literals around them.
function judge_name(at, next_byte) {
    has_errno[at] = has_errno[at] || name == "strerror"
    lacks_value[at] = lacks_value[at] || name == "NULL"
    urgent[at] = urgent[at] || name == "LOG_LEVEL_WARNING" || name == "LOG_LEVEL_ERROR"
    if (next_byte == "(" && name != "return") {
        goes_on[at] = 0
        push(name, ")")
        rest = substr(rest, 2)
    } else if (goes_on[at] && name ~ /^PRI/)
        add(at, substr(name, 4, 1))
    else if (goes_on[at] && next_byte == "\"" && name ~ /^[A-Z]/)
        add(at, name)
    else
        goes_on[at] = 0
    name = ""
}

function step(    at, byte) {
    if (in_comment) {
        in_comment = !match(rest, /\*\//)
        rest = in_comment ? "" : substr(rest, RSTART + 2)
        return
    }
    sub(/^[ \t]+/, "", rest)
    if (rest == "")
        return
    if (rest ~ /^\/\*/) {
        in_comment = 1
        rest = substr(rest, 3)
        return
    }
    at = frame[depth]
    byte = substr(rest, 1, 1)
    if (name != "") {
        judge_name(at, byte)
        return
    }
    if (match(rest, /^"([^"\\]|\\.)*"/))
        add(at, substr(rest, 2, RLENGTH - 2))
    else if (match(rest, /^[A-Za-z0-9_]+/))
        name = substr(rest, 1, RLENGTH)
    else if (!match(rest, /^'([^'\\]|\\.)*'/)) {
        RLENGTH = 1
        judge_byte(at, byte)
    }
    rest = substr(rest, RLENGTH + 1)
}

function judge_byte(at, byte) {
    if (byte == closer[depth]) {
        depth--
        if (frame[depth] != at)
            end_saying(at)
        goes_on[frame[depth]] = frame[depth] == at && goes_on[at]
        return
    }
    goes_on[at] = 0
    if (byte == ";")
        end_saying(at)
    else if (byte == "(")
        push("(", ")")
    else if (byte == "{")
        push(closer[depth] == "}" ? "row" : "text", "}")
}

function is_message(at) {
    if (text[at] == "" || index(MUTE, " " maker[at] " ") || maker[at] == "row" && index(HELPS, " " FILENAME " "))
        return 0
    if (has_errno[at] || index(MAKERS, " " maker[at] " "))
        return 1
    return text[at] ~ /.[a-z,:;] [A-Za-z]/ && text[at] !~ MACHINES && split(text[at], parts, /\\n/) < 4
}

function end_saying(at) {
    if (is_message(at)) {
        count++
        if (list)
            print FILENAME ":" line[at] ": " maker[at] ": " text[at]
        judge(at, text[at])
    }
    begin_saying(at)
}

# ---- the rules ----

function break_rule(at, rule) {
    print FILENAME ":" line[at] ": " text[at] "\n    " rule > "/dev/stderr"
    broken++
}

# Of two letters or more, without conversions and escapes: words[1] and on.
function words_of(from,    all, count, at, kept) {
    gsub(/%[^scduzxgf%]*[scduzxgf%]?|\\./, " ", from)
    gsub(/[^A-Za-z]+/, " ", from)
    count = split(from, all, " ")
    for (at = 1; at <= count; at++)
        if (length(all[at]) > 1)
            words[++kept] = all[at]
    return kept + 0
}

function advises(from,    count, at) {
    count = words_of(from)
    for (at = 1; at <= count; at++)
        if (index(VERBS, " " tolower(words[at]) " "))
            return 1
    return 0
}

# The tables of refusals: in app/http rows with a slug first, in app/ops a title and a detail.
function is_refusal(at, said) {
    if (FILENAME == "app/http/answer.c" || FILENAME == "app/http/upload.c")
        return maker[at] == "row"
    return FILENAME ~ /^app\/ops\// && maker[at] ~ /^(row|text)$/ && said ~ /^[A-Z].* \| /
}

function judge(at, said,    title, count, bare) {
    if (urgent[at] && (said !~ /(reason|missing|text)=/ || said !~ /(reason|text)=\\"%s\\"/ && !advises(said)))
        break_rule(at, "a warning or an error has reason=, and hint= unless the reason says what to do")
    title = substr(said, index(said, "|"))
    if (is_refusal(at, said) && (said !~ /\|/ || title !~ /\./ || !advises(title)))
        break_rule(at, "a problem has a title, and a detail that ends with a full stop and says what to do")
    if (maker[at] == "mistake" && said !~ /--|NAME|URL|COMMAND|no memory/)
        break_rule(at, "a mistake in the arguments names the option, or what it takes")
    if (said ~ /too (many|long|large|much)/ && said !~ /memory|(took|for) too long|DNS:|[%0-9]/)
        break_rule(at, "what is too many or too long says how many or how long it may be")
    if (maker[at] == "findings_add" && lacks_value[at])
        break_rule(at, "findings_add() is given what to do")
    sub(/^(stampede|fleetlock|burst|proc|stack|wrk): /, "", said)
    count = words_of(said)
    bare = said == text[at] && count == 1 && words[1] ~ /^(failed|error|wrong|bad|invalid|refused)$/
    if (said !~ /^ | $/ && (bare || count < 2 && (maker[at] == "perror" || has_errno[at] && said ~ /:/)))
        break_rule(at, "what failed, and at what, stands before the reason that the system gives")
    if (count < 3 || said ~ SAME)
        return
    if (text[at] in file_of && file_of[text[at]] != FILENAME)
        break_rule(at, file_of[text[at]] " says the same: word one of them otherwise, or name the text in SAME")
    file_of[text[at]] = FILENAME
}

END {
    if (count < LEAST) {
        print "messages.awk: only " count + 0 " messages were found" > "/dev/stderr"
        exit 1
    }
    exit broken > 0
}

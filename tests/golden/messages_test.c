/* SPDX-License-Identifier: MIT */
/*
 * messages_test.c - every text that a user can meet, collected from the sources and held to a few rules.
 *
 * A message is what a call, a row of a table or a statement says in its string literals, joined by " | " where code is
 * between them. All that reads like words is collected, whoever makes it, unless MUTE names it as something else: so a
 * new way to complain cannot be forgotten. Not collected: help texts, names and helps of metrics, statements of
 * SQL, and what bench, lab and peers say to those who run them.
 *
 * The rules ask of a message what a reader in trouble asks: what is wrong, where, and what to do. What is wrong with
 * a setting, its name and what is allowed is held by unit/settings_test: every_setting_is_refused_by_name_when_wrong.
 */
#include "tests/support/files.h"
#include "tests/support/test.h"

#include <ctype.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TEXT_BYTES = 2048,
    NAME_BYTES = 64,
    FILE_BYTES = 1 << 18,
    MESSAGES_LEAST = 1000, /* a collector that overlooks most of them would find nothing wrong */
    MESSAGES_MAX = 4096,
    WORD_LEAST = 2,
    SAME_LEAST = 3
};

static const char *const SOURCES[] = {
    "app/*.c",         "app/*/*.c",      "guard/*.c",       "guard/[!e]*/*.c", "guard/*/*/*.c",
    "load/stampede.c", "load/base/*.c",  "load/ground/*.c", "load/herd/*.c",   "load/play/*.c",
    "load/report/*.c", "load/stack/*.c", "load/witness/*.c"};

/* Calls whose words are not messages: tests of texts, helps, names of figures, statements, what went well. */
static const char MUTE[] =
    " _Static_assert NUMBER TEXT COUNT COUNT_K COUNTER GAUGE GAUGE_K SECONDS SPANS_K ROW STRAIN_ROW "
    "LINE write_head begins contains strlen strncmp printf progress_step json_pack findings_ok "
    "print_line add_below MHD_add_response_header answer DO strcat strstr sscanf shell proc_output "
    "stack_redis_command stack_redis_info stack_redis_mentions stack_redis_number ";

/* Whatever these say is a message, were it a single word. */
static const char MAKERS[] =
    " log_event log_line findings_add mistake complain complain_about words_refuse wrong "
    "check_failed refuse request_refuse breach pg_fault_set witness_note tls_refuse "
    "refuse_parameter perror ";

/* Makers of what no call makes. */
static const char *const STATEMENTS[] = {"row", "text"};

/* In texts that mean the same wherever they are. */
static const char *const SAME[] = {"memory",
                                   "is NULL",
                                   "request->count is 0",
                                   "another guard's",
                                   "cannot be written",
                                   "cannot be read",
                                   "no answer in time",
                                   "the locks are closing",
                                   "the port must be",
                                   "unix://",
                                   "not an answer of Redis",
                                   "the line is too long"};

/* Their rows are helps. */
static const char *const HELPS[] = {"app/ops/metrics.c",          "load/play/expect.c",
                                    "load/play/scenario_event.c", "load/play/scenario_take.c",
                                    "load/play/live.c",           "load/report/result_brief.c"};

struct message {
    char file[NAME_BYTES], maker[NAME_BYTES], text[TEXT_BYTES];
    unsigned line;
    bool is_urgent;     /* a line of the log, above info */
    bool has_errno;     /* strerror() is among its arguments */
    bool lacks_a_value; /* NULL is */
};

static struct message *messages;
static size_t message_count;

/* ---- reading a source ---- */

struct source {
    const char *file, *at;
    unsigned line;
};

/* What one call, row or statement has said so far. */
struct saying {
    struct message message;
    bool goes_on; /* nothing was between its last literal and here */
};

static bool is_name_byte(char byte)
{
    return isalnum((unsigned char)byte) || byte == '_';
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* `names` has blanks around each. */
static bool is_named(const char *names, const char *name)
{
    const size_t bytes = strlen(name);
    for (const char *at = names; (at = strstr(at, name)) != NULL; at++)
        if (at > names && at[-1] == ' ' && at[bytes] == ' ')
            return true;
    return false;
}

static bool is_one_of(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}
#define IS_ONE_OF(name, names) is_one_of(name, names, sizeof(names) / sizeof *(names))

static void step(struct source *source, size_t bytes)
{
    for (; bytes > 0 && *source->at != '\0'; bytes--)
        source->line += *source->at++ == '\n';
}

/* Blanks, comments and what is for the preprocessor. */
static void skip_blanks(struct source *source)
{
    for (;;) {
        const char *end = NULL;
        const size_t blanks = strspn(source->at, " \t\n");
        if (blanks > 0)
            end = source->at + blanks;
        else if (begins(source->at, "/*"))
            end = strstr(source->at, "*/") + 2;
        else if (*source->at == '#')
            for (end = strchr(source->at, '\n'); end[-1] == '\\';)
                end = strchr(end + 1, '\n');
        if (end == NULL)
            return;
        step(source, (size_t)(end - source->at));
    }
}

/* A literal with its quotes. */
static size_t literal_bytes(const char *at)
{
    size_t bytes = 1;
    while (at[bytes] != *at)
        bytes += at[bytes] == '\\' ? 2 : 1;
    return bytes + 1;
}

static void add(struct saying *saying, unsigned line, const char *text, size_t bytes)
{
    struct message *message = &saying->message;
    const size_t length = strlen(message->text);
    if (length == 0)
        message->line = line;
    snprintf(message->text + length, sizeof message->text - length, "%s%.*s",
             length > 0 && !saying->goes_on ? " | " : "", (int)bytes, text);
    saying->goes_on = true;
}

static bool has_words(const char *text)
{
    for (const char *space = text; (space = strchr(space, ' ')) != NULL; space++)
        if (space >= text + WORD_LEAST &&
            (islower((unsigned char)space[-1]) || strchr(",:;", space[-1]) != NULL) &&
            isalpha((unsigned char)space[1]))
            return true;
    return false;
}

static bool is_for_machines(const char *text)
{
    static const char *const BEGINNINGS[] = {"text/",   "application/", "GET, HEAD", "; hit", "SELECT ",
                                             "INSERT ", "UPDATE ",      "BEGIN",     "DROP ", "CREATE ",
                                             "umask ",  "export ",      " */ ",      "/* ",   " FROM "};
    for (size_t i = 0; i < sizeof BEGINNINGS / sizeof *BEGINNINGS; i++)
        if (begins(text, BEGINNINGS[i]))
            return true;
    return false;
}

static size_t count_of(const char *text, const char *what)
{
    size_t count = 0;
    for (; (text = strstr(text, what)) != NULL; text += strlen(what))
        count++;
    return count;
}

static bool is_message(const struct message *message)
{
    if (message->text[0] == '\0' || is_named(MUTE, message->maker))
        return false;
    if (strcmp(message->maker, "row") == 0 && IS_ONE_OF(message->file, HELPS))
        return false;
    if (message->has_errno || is_named(MAKERS, message->maker))
        return true;
    return has_words(message->text) && !is_for_machines(message->text) && count_of(message->text, "\\n") < 3;
}

/* What comes next has said nothing yet. */
static void end_saying(struct saying *saying)
{
    struct message *message = &saying->message;
    if (is_message(message)) {
        assert_true(message_count < MESSAGES_MAX);
        messages[message_count++] = *message;
    }
    message->text[0] = '\0';
    message->is_urgent = message->has_errno = message->lacks_a_value = false;
    saying->goes_on = false;
}

static void read_to(struct source *source, struct saying *saying, char end);

static void read_inner(struct source *source, const char *maker, char end)
{
    struct saying inner = {.message = {.line = source->line}};
    snprintf(inner.message.file, sizeof inner.message.file, "%s", source->file);
    snprintf(inner.message.maker, sizeof inner.message.maker, "%s", maker);
    read_to(source, &inner, end);
    end_saying(&inner);
}

/* A call has its own say; PRIu64 and texts that are defined belong to the literals around them. */
static void read_name(struct source *source, struct saying *saying)
{
    char name[NAME_BYTES];
    size_t bytes = 0;
    while (is_name_byte(source->at[bytes]))
        bytes++;
    snprintf(name, sizeof name, "%.*s", (int)bytes, source->at);
    step(source, bytes);
    skip_blanks(source);
    struct message *message = &saying->message;
    message->has_errno = message->has_errno || strcmp(name, "strerror") == 0;
    message->lacks_a_value = message->lacks_a_value || strcmp(name, "NULL") == 0;
    message->is_urgent =
        message->is_urgent || strcmp(name, "LOG_LEVEL_WARNING") == 0 || strcmp(name, "LOG_LEVEL_ERROR") == 0;
    if (*source->at == '(' && strcmp(name, "return") != 0) {
        step(source, 1);
        read_inner(source, name, ')');
        saying->goes_on = false;
    } else if (saying->goes_on && begins(name, "PRI")) {
        add(saying, source->line, name + 3, 1);
    } else if (saying->goes_on && *source->at == '"' && isupper((unsigned char)name[0])) {
        add(saying, source->line, name, strlen(name));
    } else {
        saying->goes_on = false;
    }
}

static void read_to(struct source *source, struct saying *saying, char end)
{
    for (skip_blanks(source); *source->at != '\0' && *source->at != end; skip_blanks(source)) {
        const char byte = *source->at;
        if (byte == '"' || byte == '\'') {
            const size_t bytes = literal_bytes(source->at);
            if (byte == '"')
                add(saying, source->line, source->at + 1, bytes - 2);
            step(source, bytes);
        } else if (is_name_byte(byte)) {
            read_name(source, saying);
        } else {
            step(source, 1);
            saying->goes_on = false;
            if (byte == ';')
                end_saying(saying);
            else if (byte == '(')
                read_to(source, saying, ')');
            else if (byte == '{')
                read_inner(source, end == '}' ? "row" : "text", '}');
        }
    }
    step(source, 1);
}

static void read_source(const char *path)
{
    static char text[FILE_BYTES];
    assert_true(file_look(path, text, sizeof text));
    assert_true(strlen(text) < sizeof text - 1);
    struct source source = {.file = path, .at = text, .line = 1};
    while (*source.at != '\0')
        read_inner(&source, "text", '\0');
}

static bool collect(void)
{
    messages = calloc(MESSAGES_MAX, sizeof *messages);
    assert_non_null(messages);
    for (size_t i = 0; i < sizeof SOURCES / sizeof *SOURCES; i++) {
        glob_t found;
        assert_int_equal(glob(SOURCES[i], 0, NULL, &found), 0);
        for (size_t k = 0; k < found.gl_pathc; k++)
            read_source(found.gl_pathv[k]);
        globfree(&found);
    }
    assert_true(message_count >= MESSAGES_LEAST);
    return true;
}

static bool forget(void)
{
    free(messages);
    return true;
}

/* ---- the rules ---- */

/* Prints each message that breaks the rule, then fails. */
static void hold_to(bool (*breaks)(const struct message *), const char *rule)
{
    size_t count = 0;
    for (size_t i = 0; i < message_count; i++)
        if (breaks(&messages[i])) {
            print_error("%s:%u: %s\n", messages[i].file, messages[i].line, messages[i].text);
            count++;
        }
    if (count > 0)
        fail_msg("%zu of %zu messages: %s", count, message_count, rule);
}

static bool has_one_of(const char *text, const char *const *what, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strstr(text, what[i]) != NULL)
            return true;
    return false;
}
#define HAS_ONE_OF(text, what) has_one_of(text, what, sizeof(what) / sizeof *(what))

/* The next word of two letters or more, without conversions and escapes; 0: there is none. */
static size_t next_word(const char **at)
{
    while (**at != '\0') {
        size_t bytes = 0;
        if (**at == '%')
            *at += strcspn(*at + 1, "scduzxgf%") + 1;
        else if (**at == '\\')
            *at += 1;
        else
            while (isalpha((unsigned char)(*at)[bytes]))
                bytes++;
        if (bytes >= WORD_LEAST)
            return bytes;
        *at += bytes + ((*at)[bytes] != '\0');
    }
    return 0;
}

/* Of a message, without the name of the program that it may begin with. */
static size_t word_count(const char *text)
{
    static const char *const PROGRAMS[] = {
        "stampede: ", "fleetlock: ", "burst: ", "proc: ", "stack: ", "wrk: "};
    size_t count = 0, bytes;
    for (size_t i = 0; i < sizeof PROGRAMS / sizeof *PROGRAMS; i++)
        if (begins(text, PROGRAMS[i]))
            text += strlen(PROGRAMS[i]);
    for (; (bytes = next_word(&text)) > 0; text += bytes)
        count++;
    return count;
}

/* Whether the text tells somebody to do something, or where to look. */
static bool advises(const char *text)
{
    static const char *const VERBS[] = {"ask",    "close",  "correct", "do",    "get",     "give",   "hint",
                                        "leave",  "look",   "lower",   "raise", "restart", "see",    "send",
                                        "set",    "use",    "wait",    "write", "try",     "open",   "begin",
                                        "report", "repeat", "name",    "start", "stop",    "remove", "say"};
    for (size_t bytes; (bytes = next_word(&text)) > 0; text += bytes)
        for (size_t i = 0; i < sizeof VERBS / sizeof *VERBS; i++)
            if (strlen(VERBS[i]) == bytes && strncasecmp(VERBS[i], text, bytes) == 0)
                return true;
    return false;
}

static bool is_poor_log_line(const struct message *message)
{
    static const char *const WHAT[] = {"reason=", "missing=", "text="};
    static const char *const ELSEWHERE[] = {"reason=\\\"%s\\\"",
                                            "text=\\\"%s\\\""}; /* a message of its own */
    return message->is_urgent && (!HAS_ONE_OF(message->text, WHAT) ||
                                  (!HAS_ONE_OF(message->text, ELSEWHERE) && !advises(message->text)));
}

TEST(a_warning_in_the_log_says_why_and_what_to_do)
{
    hold_to(is_poor_log_line,
            "a warning or an error has reason=, and hint= unless the reason says what to do");
}

/* The tables of refusals: in app/http rows with a slug first, in app/ops a title and a detail. */
static bool is_refusal(const struct message *message)
{
    static const char *const TABLES[] = {"app/http/answer.c", "app/http/upload.c"};
    if (IS_ONE_OF(message->file, TABLES))
        return strcmp(message->maker, "row") == 0;
    return begins(message->file, "app/ops/") && IS_ONE_OF(message->maker, STATEMENTS) &&
           strstr(message->text, " | ") != NULL && isupper((unsigned char)message->text[0]);
}

static bool is_poor_refusal(const struct message *message)
{
    const char *title = strchr(message->text, '|');
    return is_refusal(message) && (title == NULL || strchr(title, '.') == NULL || !advises(title));
}

TEST(a_refusal_over_http_says_what_to_do)
{
    hold_to(is_poor_refusal,
            "a problem has a title, and a detail that ends with a full stop and says what to do");
}

/* What fleetlock is called with; stampede's complain() prefixes its option, catalogd's settings their names. */
static bool is_nameless(const struct message *message)
{
    static const char *const NAMES[] = {"--", "NAME", "URL", "COMMAND", "no memory"};
    return strcmp(message->maker, "mistake") == 0 && !HAS_ONE_OF(message->text, NAMES);
}

TEST(what_is_wrong_with_an_option_names_it)
{
    hold_to(is_nameless, "a mistake in the arguments names the option, or what it takes");
}

static bool is_boundless(const struct message *message)
{
    static const char *const LIMITS[] = {"too many", "too long", "too large", "too much"};
    static const char *const NONE[] = {"memory", "took too long", "for too long", "DNS:"};
    return HAS_ONE_OF(message->text, LIMITS) && !HAS_ONE_OF(message->text, NONE) &&
           strpbrk(message->text, "%0123456789") == NULL;
}

TEST(a_limit_that_was_passed_is_told)
{
    hold_to(is_boundless, "what is too many or too long says how many or how long it may be");
}

/* The reason that the system gives is not enough; and a text that begins or ends with a blank is part of another. */
static bool is_bare(const struct message *message)
{
    static const char *const BARE[] = {"failed", "error", "wrong", "bad", "invalid", "refused"};
    const char *text = message->text, *at = text;
    const size_t bytes = next_word(&at), words = word_count(text);
    const bool has_reason =
        (message->has_errno && strchr(text, ':') != NULL) || strcmp(message->maker, "perror") == 0;
    char word[NAME_BYTES];
    snprintf(word, sizeof word, "%.*s", (int)bytes, at);
    if (text[0] == ' ' || text[strlen(text) - 1] == ' ')
        return false;
    return (words == 1 && IS_ONE_OF(word, BARE)) || (has_reason && words < 2);
}

TEST(none_is_a_bare_errno_or_a_bare_failed)
{
    hold_to(is_bare, "what failed, and at what, stands before the reason that the system gives");
}

static bool lacks_advice(const struct message *message)
{
    return strcmp(message->maker, "findings_add") == 0 && message->lacks_a_value;
}

TEST(a_finding_of_catalogd_check_comes_with_advice)
{
    hold_to(lacks_advice, "findings_add() is given what to do");
}

/* Another file says the same. */
static bool is_ambiguous(const struct message *message)
{
    if (word_count(message->text) < SAME_LEAST || HAS_ONE_OF(message->text, SAME))
        return false;
    for (const struct message *earlier = messages; earlier < message; earlier++)
        if (strcmp(earlier->text, message->text) == 0 && strcmp(earlier->file, message->file) != 0)
            return true;
    return false;
}

TEST(a_text_means_one_thing)
{
    hold_to(is_ambiguous, "another file says the same: word one of them otherwise, or name the text in SAME");
}

TEST_GROUP(.up = collect, .down = forget);

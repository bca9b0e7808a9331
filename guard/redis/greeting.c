/* SPDX-License-Identifier: MIT */
/* redis/greeting.c - what a new connection says first, and what the answers make of it. */
#include "greeting.h"
#include "reader.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { WHAT_SIZE = 80 };

/* Looks at an answer that is no error. False, with *why: this is not a server to work with. */
typedef bool accept_reply(struct redis_greeting *greeting, const struct redis_greeting_step *step,
                          const struct redisReply *reply, char why[REDIS_WHY_SIZE]);

struct redis_greeting_rule {
    const char *name;
    bool required; /* an error denies the connection */
    bool secret;   /* the error's sentence may repeat what was sent: only its first word is told */
    accept_reply *accept;
};

/* ---- the login: reads one small file, and does not wait for anything else ---- */

/* Bytes, or errno's number below 0. */
static ssize_t read_small_file(const char *path, char *out, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    size_t filled = 0;
    ssize_t got = 1;
    if (fd < 0)
        return -errno;
    while (filled < size && got != 0) {
        got = read(fd, out + filled, size - filled);
        if (got < 0 && errno != EINTR)
            break;
        filled += got > 0 ? (size_t)got : 0;
    }
    int error = got < 0 ? errno : 0;
    close(fd);
    return error == 0 ? (ssize_t)filled : -error;
}

static bool refuse_file(const char *problem, char why[REDIS_WHY_SIZE])
{
    redis_explain_problem("the file with the password", problem, why);
    return false;
}

static bool read_password(const char *path, char out[REDIS_PASSWORD_SIZE], char why[REDIS_WHY_SIZE])
{
    char text[REDIS_PASSWORD_SIZE + 2];
    ssize_t bytes = read_small_file(path, text, sizeof text - 1);
    if (bytes < 0)
        return refuse_file(strerror((int)-bytes), why);
    text[bytes] = '\0';
    size_t length = strcspn(text, "\r\n");
    bool is_short = length > 0 && length < REDIS_PASSWORD_SIZE;
    if (is_short) {
        memcpy(out, text, length);
        out[length] = '\0';
    }
    explicit_bzero(text, sizeof text);
    return is_short || refuse_file(length == 0 ? "is empty" : "is longer than 4096 bytes", why);
}

bool redis_login_read(const struct redis_login *login, struct redis_login *out, char why[REDIS_WHY_SIZE])
{
    *out = *login;
    if (login->password_file[0] == '\0' || read_password(login->password_file, out->password, why))
        return true;
    redis_login_clear(out);
    return false;
}

void redis_login_clear(struct redis_login *login)
{
    explicit_bzero(login, sizeof *login);
}

/* ---- answers ---- */

static bool accept_ok(struct redis_greeting *greeting, const struct redis_greeting_step *step,
                      const struct redisReply *reply, char why[REDIS_WHY_SIZE])
{
    (void)greeting;
    if (reply->type == REDIS_REPLY_STATUS)
        return true;
    snprintf(why, REDIS_WHY_SIZE, "%s: not an answer of Redis", step->rule->name);
    return false;
}

/* How HELLO calls them, and what the URL must begin with. */
static const struct {
    const char *mode, *is, *scheme;
} server_kinds[] = {
    [REDIS_SERVER_ALONE] = {"standalone", "a single Redis", "redis://"},
    [REDIS_SERVER_NODE] = {"cluster", "a node of a Redis Cluster", "redis+cluster://"},
    [REDIS_SERVER_SENTINEL] = {"sentinel", "a Sentinel", "redis+sentinel://"},
};

/* One that does not say what it is, or is something else altogether, is taken for what it should be. */
static bool accept_kind(struct redis_greeting *greeting, const struct redis_greeting_step *step,
                        const struct redisReply *reply, char why[REDIS_WHY_SIZE])
{
    const struct redisReply *mode = redis_reply_field(reply, "mode");
    (void)step;
    for (size_t i = 0; mode != NULL && i < sizeof server_kinds / sizeof server_kinds[0]; i++)
        if (i != greeting->config->expected && redis_reply_is(mode, server_kinds[i].mode)) {
            snprintf(why, REDIS_WHY_SIZE, "this is %s: the URL must begin with %s (rediss... over TLS)",
                     server_kinds[i].is, server_kinds[i].scheme);
            greeting->is_other = true;
            return false;
        }
    return true;
}

static bool role_is(const struct redisReply *role, const char *name)
{
    return role->type == REDIS_REPLY_ARRAY && role->elements > 0 && redis_reply_is(role->element[0], name);
}

bool redis_is_master(const struct redisReply *role)
{
    return role_is(role, "master");
}

static bool accept_master(struct redis_greeting *greeting, const struct redis_greeting_step *step,
                          const struct redisReply *reply, char why[REDIS_WHY_SIZE])
{
    (void)greeting;
    if (redis_is_master(reply))
        return true;
    if (role_is(reply, "slave"))
        snprintf(why, REDIS_WHY_SIZE, "%s: a replica, not the master", step->rule->name);
    else if (role_is(reply, "sentinel"))
        snprintf(why, REDIS_WHY_SIZE, "a Sentinel, not a Redis with data: use redis+sentinel://HOSTS/NAME");
    else
        snprintf(why, REDIS_WHY_SIZE, "%s: not a master", step->rule->name);
    return false;
}

/* "# Replication\r\nrole:master\r\n...master_replid:<40 hex digits>\r\n..." Without it there is no reign. */
static bool accept_reign(struct redis_greeting *greeting, const struct redis_greeting_step *step,
                         const struct redisReply *reply, char why[REDIS_WHY_SIZE])
{
    static const char field[] = "master_replid:";
    const char *at = reply->type == REDIS_REPLY_STRING ? strstr(reply->str, field) : NULL;
    (void)step, (void)why;
    if (at != NULL && strspn(at + strlen(field), "0123456789abcdef") == REDIS_REIGN_BYTES)
        memcpy(greeting->reign, at + strlen(field), REDIS_REIGN_BYTES);
    return true;
}

/* Of what it is, a server that hides it says nothing, and is not refused. */
static bool accept_server(struct redis_greeting *greeting, const struct redis_greeting_step *step,
                          const struct redisReply *reply, char why[REDIS_WHY_SIZE])
{
    (void)step;
    if (reply->type == REDIS_REPLY_STRING)
        redis_server_read(&greeting->server, reply->str);
    if (!greeting->server.too_old)
        return true;
    snprintf(why, REDIS_WHY_SIZE, "%s is too old, it has no HELLO and no GETEX: " REDIS_NEEDED,
             greeting->server.name);
    greeting->is_other = true;
    return false;
}

static bool accept_fence(struct redis_greeting *greeting, const struct redis_greeting_step *step,
                         const struct redisReply *reply, char why[REDIS_WHY_SIZE])
{
    (void)step, (void)reply, (void)why;
    redis_fence_passed(&greeting->fence, false);
    return true;
}

static bool accept_digest(struct redis_greeting *greeting, const struct redis_greeting_step *step,
                          const struct redisReply *reply, char why[REDIS_WHY_SIZE])
{
    bool is_digest = reply->type == REDIS_REPLY_STRING && reply->len == REDIS_DIGEST_BYTES &&
                     strspn(reply->str, "0123456789abcdef") == REDIS_DIGEST_BYTES;
    if (is_digest)
        memcpy(greeting->digests[step->script], reply->str, REDIS_DIGEST_BYTES + 1);
    else
        snprintf(why, REDIS_WHY_SIZE, "%s: not an answer of Redis", step->rule->name);
    return is_digest;
}

static bool accept_subscribed(struct redis_greeting *greeting, const struct redis_greeting_step *step,
                              const struct redisReply *reply, char why[REDIS_WHY_SIZE])
{
    (void)greeting;
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 3 &&
        redis_reply_is(reply->element[0], "subscribe"))
        return true;
    snprintf(why, REDIS_WHY_SIZE, "%s: not an answer of Redis", step->rule->name);
    return false;
}

static const struct redis_greeting_rule rule_auth = {"AUTH", true, true, accept_ok};
static const struct redis_greeting_rule rule_kind = {"HELLO", false, false, accept_kind};
static const struct redis_greeting_rule rule_select = {"SELECT", true, false, accept_ok};
static const struct redis_greeting_rule rule_name = {"CLIENT SETNAME", false, false, accept_ok};
static const struct redis_greeting_rule rule_role = {"ROLE", false, false, accept_master};
static const struct redis_greeting_rule rule_reign = {"INFO", false, false, accept_reign};
static const struct redis_greeting_rule rule_server = {"INFO server", false, false, accept_server};
static const struct redis_greeting_rule rule_fence = {"GETEX", false, false, accept_fence};
static const struct redis_greeting_rule rule_script = {"SCRIPT LOAD", false, false, accept_digest};
static const struct redis_greeting_rule rule_subscribe = {"SUBSCRIBE", true, false, accept_subscribed};

/* ---- asking ---- */

struct question {
    size_t argc;
    const char *argv[3];
    size_t argv_bytes[3];
};

static struct question question(const char *word, const char *second, const char *third)
{
    struct question question = {.argc = 0};
    const char *words[] = {word, second, third};
    for (size_t i = 0; i < 3 && words[i] != NULL; i++) {
        question.argv[i] = words[i];
        question.argv_bytes[i] = strlen(words[i]);
        question.argc++;
    }
    return question;
}

static bool ask_redis(struct redis_greeting *greeting, struct redis_buffer *out,
                      const struct redis_greeting_rule *rule, struct question question)
{
    assert(greeting->asked < sizeof greeting->steps / sizeof greeting->steps[0]);
    greeting->steps[greeting->asked++] = (struct redis_greeting_step){.rule = rule, .script = 0};
    return redis_buffer_command(out, question.argc, question.argv, question.argv_bytes);
}

static bool ask_login(struct redis_greeting *greeting, const struct redis_login *login,
                      struct redis_buffer *out)
{
    if (login->user[0] != '\0')
        return ask_redis(greeting, out, &rule_auth, question("AUTH", login->user, login->password));
    if (login->password[0] != '\0')
        return ask_redis(greeting, out, &rule_auth, question("AUTH", login->password, NULL));
    return true;
}

static bool ask_scripts(struct redis_greeting *greeting, struct redis_buffer *out)
{
    for (size_t i = 0; i < greeting->config->script_count; i++) {
        struct question load = {
            3,
            {"SCRIPT", "LOAD", greeting->config->scripts[i].source},
            {strlen("SCRIPT"), strlen("LOAD"), greeting->config->scripts[i].source_bytes}};
        if (!ask_redis(greeting, out, &rule_script, load))
            return false;
        greeting->steps[greeting->asked - 1].script = i;
    }
    return true;
}

static void begin(struct redis_greeting *greeting)
{
    greeting->asked = greeting->answered = 0;
    greeting->is_other = false;
    greeting->reign[0] = '\0';
    redis_fence_begin(&greeting->fence);
}

static bool ask_whose(struct redis_greeting *greeting, struct redis_buffer *out)
{
    return greeting->config->any_role ||
           (ask_redis(greeting, out, &rule_role, question("ROLE", NULL, NULL)) &&
            ask_redis(greeting, out, &rule_reign, question("INFO", "replication", NULL)));
}

static bool ask_fence(struct redis_greeting *greeting, struct redis_buffer *out)
{
    return greeting->fence.by_role || greeting->config->any_role ||
           ask_redis(greeting, out, &rule_fence, question("GETEX", redis_greeting_beat_key(greeting), NULL));
}

bool redis_greeting_write_again(struct redis_greeting *greeting, struct redis_buffer *out)
{
    begin(greeting);
    return ask_whose(greeting, out) && ask_fence(greeting, out);
}

bool redis_greeting_write(struct redis_greeting *greeting, const struct redis_login *login,
                          struct redis_buffer *out)
{
    const struct redis_config *config = greeting->config;
    bool of_sentinel = config->expected == REDIS_SERVER_SENTINEL;
    char database[16];
    begin(greeting);
    greeting->server = (struct redis_server){.too_old = false};
    snprintf(database, sizeof database, "%u", config->database);
    if (!ask_login(greeting, login, out) ||
        !ask_redis(greeting, out, &rule_kind, question("HELLO", NULL, NULL)))
        return false;
    if (config->channel == NULL && config->database != 0 &&
        !ask_redis(greeting, out, &rule_select, question("SELECT", database, NULL)))
        return false;
    if (config->client_name != NULL &&
        !ask_redis(greeting, out, &rule_name, question("CLIENT", "SETNAME", config->client_name)))
        return false;
    if (!of_sentinel && !ask_whose(greeting, out))
        return false;
    if (config->channel != NULL)
        return ask_redis(greeting, out, &rule_subscribe, question("SUBSCRIBE", config->channel, NULL));
    return of_sentinel || (ask_redis(greeting, out, &rule_server, question("INFO", "server", NULL)) &&
                           ask_fence(greeting, out) && ask_scripts(greeting, out));
}

/* ---- judging ---- */

/* Protected mode: said once, to whatever comes first, before it hangs up. */
static bool is_not_let_in(const struct redisReply *reply)
{
    return strncmp(reply->str, "DENIED", strlen("DENIED")) == 0;
}

/* An error about the connection as a whole, whichever command it answers: without a login all of them do. */
static bool is_no_login(const struct redisReply *reply)
{
    return strncmp(reply->str, "NOAUTH", strlen("NOAUTH")) == 0 || is_not_let_in(reply);
}

/* There are two in the URL of Sentinels. */
static const char *login_asked(const struct redis_greeting *greeting)
{
    if (greeting->config->expected == REDIS_SERVER_SENTINEL)
        return " of a Sentinel (sentinel_username, sentinel_password)";
    return greeting->config->place->watched ? " of the master (user and password before the @)" : "";
}

static void tell_error(const struct redis_greeting *greeting, const struct redis_greeting_rule *rule,
                       const struct redisReply *reply, char why[REDIS_WHY_SIZE])
{
    enum redis_error_class class = redis_error_classify(reply->str, reply->len);
    bool of_login = rule == &rule_auth || is_no_login(reply);
    const char *whose = of_login && class == REDIS_ERROR_DENIED ? login_asked(greeting) : "";
    char what[WHAT_SIZE];
    if (rule == &rule_select)
        snprintf(what, sizeof what, "%s %u refused: ", rule->name, greeting->config->database);
    else
        snprintf(what, sizeof what, "%s%s refused: ", rule->name, whose);
    redis_explain(reply, what, rule->secret, why);
}

static enum redis_verdict judge_error(struct redis_greeting *greeting, const struct redis_greeting_step *step,
                                      const struct redisReply *reply)
{
    enum redis_error_class class = redis_error_classify(reply->str, reply->len);
    if (step->rule == &rule_kind && class != REDIS_ERROR_CROWDED && !is_not_let_in(reply))
        return REDIS_GREETING_GOES_ON; /* what is wrong with the login, the next answer tells */
    if (is_no_login(reply))
        return REDIS_GREETING_DENIED;
    switch (class) {
    case REDIS_ERROR_READONLY:
        return REDIS_GREETING_REPLICA;
    case REDIS_ERROR_LOADING:
    case REDIS_ERROR_CROWDED:
        return REDIS_GREETING_FAILED;
    case REDIS_ERROR_NOSCRIPT:
    case REDIS_ERROR_FULL:
    case REDIS_ERROR_REFUSED:
    case REDIS_ERROR_FENCED:
    case REDIS_ERROR_DENIED:
    case REDIS_ERROR_MOVED: /* the slot of the heartbeat's key is another's by now */
    case REDIS_ERROR_ASK:
    case REDIS_ERROR_MOVING:
    case REDIS_ERROR_STRAYED:
    case REDIS_ERROR_OTHER:
        break;
    }
    if (step->rule->required)
        return REDIS_GREETING_DENIED;
    if (step->rule == &rule_script)
        greeting->digests[step->script][0] = '\0';
    else if (step->rule == &rule_role)
        redis_fence_no_role(&greeting->fence, class);
    else if (step->rule == &rule_fence)
        redis_fence_refused(&greeting->fence, class == REDIS_ERROR_OTHER ? REDIS_ERROR_DENIED : class);
    return REDIS_GREETING_GOES_ON;
}

const char *redis_greeting_lack(const struct redis_greeting *greeting)
{
    if (greeting->fence.no_getex && greeting->fence.no_role)
        return "up; GETEX and ROLE are refused: no value is read but by scripts (allow +getex +role)";
    if (greeting->fence.no_getex && greeting->server.no_getex)
        return "up; this Redis has no GETEX: each value that is read costs a ROLE (" REDIS_NEEDED ")";
    if (greeting->fence.no_getex)
        return "up; GETEX is refused: each value that is read costs a ROLE (allow +getex)";
    if (greeting->reign[0] == '\0' && !greeting->config->any_role &&
        greeting->config->expected != REDIS_SERVER_SENTINEL)
        return "up; INFO is refused: each connection finds out for itself that there is a new master (allow "
               "+info)";
    return NULL;
}

enum redis_verdict redis_greeting_read(struct redis_greeting *greeting, const struct redisReply *reply,
                                       char why[REDIS_WHY_SIZE])
{
    const struct redis_greeting_step *step = &greeting->steps[greeting->answered];
    assert(greeting->answered < greeting->asked);
    if (reply->type == REDIS_REPLY_ERROR) {
        enum redis_verdict verdict = judge_error(greeting, step, reply);
        if (verdict != REDIS_GREETING_GOES_ON) {
            tell_error(greeting, step->rule, reply, why);
            return verdict;
        }
    } else if (!step->rule->accept(greeting, step, reply, why)) {
        bool replica = step->rule == &rule_role && role_is(reply, "slave");
        if (greeting->is_other || (step->rule == &rule_role && role_is(reply, "sentinel")))
            return REDIS_GREETING_DENIED;
        return replica ? REDIS_GREETING_REPLICA : REDIS_GREETING_FAILED;
    }
    greeting->answered++;
    return greeting->answered == greeting->asked ? REDIS_GREETING_DONE : REDIS_GREETING_GOES_ON;
}

/* SPDX-License-Identifier: MIT */
/*
 * browser.c - see browser.h.
 *
 * The pipe of --remote-debugging-pipe is the browser's descriptors 3 and 4: two FIFOs in its folder, which a shell
 * opens before it becomes the browser. A message is JSON up to a NUL. A command has a number, and its answer the same
 * one; what comes in between are events.
 */
#include "tests/support/browser.h"

#include "load/base/clock.h"
#include "load/base/net.h"
#include "load/base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LOOK_PAUSE_MS = 10,
    END_LIMIT_MS = 10000,
    COMPLAINTS_BYTES = 4096,
    PATH_BYTES = PROC_PATH_BYTES + 16,
    PHONE_BELOW = 600,
    SHIFT = 8, /* as CDP counts modifiers */
};

struct browser {
    pid_t pid;
    char folder[PROC_PATH_BYTES];
    char log_path[PATH_BYTES];
    int to_fd, from_fd; /* -1: not open */
    json_int_t last_id;
    char *session; /* owned; NULL: messages are for the browser itself */
    char *heard;   /* owned: what has come and is no whole message yet */
    size_t heard_bytes, heard_size;
    unsigned loads;                       /* pages that were there */
    char complaints[2][COMPLAINTS_BYTES]; /* the ones that come; the ones that were lent */
};

/* ---- the pipe ---- */

static bool send_all(struct browser *browser, const char *bytes, size_t count, uint64_t end_us)
{
    while (count > 0) {
        ssize_t sent = write(browser->to_fd, bytes, count);
        if (sent == -1 && errno != EAGAIN && errno != EINTR)
            return false;
        if (sent == -1 && !net_wait(browser->to_fd, POLLOUT, end_us))
            return false;
        bytes += sent > 0 ? sent : 0;
        count -= sent > 0 ? (size_t)sent : 0;
    }
    return true;
}

static bool make_room(struct browser *browser)
{
    enum { STEP_BYTES = 1 << 16 };
    if (browser->heard_size - browser->heard_bytes >= STEP_BYTES)
        return true;
    char *larger = realloc(browser->heard, 2 * browser->heard_size + STEP_BYTES);
    if (larger == NULL)
        return false;
    browser->heard = larger;
    browser->heard_size = 2 * browser->heard_size + STEP_BYTES;
    return true;
}

static bool hear(struct browser *browser, uint64_t end_us)
{
    if (!make_room(browser))
        return false;
    ssize_t bytes = read(browser->from_fd, browser->heard + browser->heard_bytes,
                         browser->heard_size - browser->heard_bytes);
    if (bytes > 0)
        browser->heard_bytes += (size_t)bytes;
    return bytes > 0 || net_wait(browser->from_fd, POLLIN, end_us);
}

/* The next message; NULL: none came in time. */
static json_t *next_message(struct browser *browser, uint64_t end_us)
{
    const char *end;
    while (browser->heard_bytes == 0 || (end = memchr(browser->heard, '\0', browser->heard_bytes)) == NULL) {
        if (!hear(browser, end_us))
            return NULL;
    }
    size_t bytes = (size_t)(end - browser->heard) + 1;
    json_t *message = json_loads(browser->heard, JSON_DECODE_ANY, NULL);
    browser->heard_bytes -= bytes;
    memmove(browser->heard, end + 1, browser->heard_bytes);
    return message;
}

/* ---- events ---- */

static void complain(struct browser *browser, const char *text)
{
    char *complaints = browser->complaints[0];
    size_t length = strlen(complaints);
    snprintf(complaints + length, COMPLAINTS_BYTES - length, "%s\n", text != NULL ? text : "?");
}

static const char *text_at(const json_t *object, const char *a, const char *b, const char *c)
{
    const json_t *at = json_object_get(object, a);
    at = b != NULL ? json_object_get(at, b) : at;
    at = c != NULL ? json_object_get(at, c) : at;
    return json_string_value(at);
}

static void take_console_error(struct browser *browser, const json_t *params)
{
    const json_t *first = json_array_get(json_object_get(params, "args"), 0);
    const char *text = text_at(first, "value", NULL, NULL);
    complain(browser, text != NULL ? text : text_at(first, "description", NULL, NULL));
}

static void take_event(struct browser *browser, const json_t *message)
{
    const char *method = json_string_value(json_object_get(message, "method"));
    const json_t *params = json_object_get(message, "params");
    if (method == NULL)
        return;
    if (strcmp(method, "Page.loadEventFired") == 0)
        browser->loads++;
    else if (strcmp(method, "Runtime.exceptionThrown") == 0)
        complain(browser, text_at(params, "exceptionDetails", "exception", "description"));
    else if (strcmp(method, "Runtime.consoleAPICalled") == 0 &&
             strcmp(text_at(params, "type", NULL, NULL), "error") == 0)
        take_console_error(browser, params);
    else if (strcmp(method, "Log.entryAdded") == 0 &&
             strcmp(text_at(params, "entry", "level", NULL), "error") == 0 &&
             strcmp(text_at(params, "entry", "source", NULL), "network") != 0)
        complain(browser, text_at(params, "entry", "text", NULL));
}

/* ---- commands ---- */

static bool send_command(struct browser *browser, const char *method, json_t *params, uint64_t end_us)
{
    json_t *command = json_pack("{s:I, s:s, s:o}", "id", ++browser->last_id, "method", method, "params",
                                params != NULL ? params : json_object());
    if (browser->session != NULL)
        json_object_set_new(command, "sessionId", json_string(browser->session));
    char *text = command != NULL ? json_dumps(command, JSON_COMPACT) : NULL;
    bool sent = text != NULL && send_all(browser, text, strlen(text) + 1, end_us);
    free(text);
    json_decref(command);
    return sent;
}

/* Takes `params`; NULL: none. The command's result, yours; NULL: it failed, as stderr says. */
static json_t *command(struct browser *browser, const char *method, json_t *params)
{
    uint64_t end_us = clock_after_ms(BROWSER_LIMIT_MS);
    json_t *message = NULL;
    bool sent = send_command(browser, method, params, end_us);
    while (sent && (message = next_message(browser, end_us)) != NULL) {
        if (json_integer_value(json_object_get(message, "id")) == browser->last_id)
            break;
        take_event(browser, message);
        json_decref(message);
    }
    json_t *result = json_incref(json_object_get(message, "result"));
    if (result == NULL)
        fprintf(stderr, "browser: %s: %s\n", method,
                message != NULL ? text_at(message, "error", "message", NULL) : "no answer in time");
    json_decref(message);
    return result;
}

static bool told(struct browser *browser, const char *method, json_t *params)
{
    json_t *result = command(browser, method, params);
    json_decref(result);
    return result != NULL;
}

/* ---- opening and closing ---- */

static int open_pipe(const struct browser *browser, const char *name)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", browser->folder, name);
    return mkfifo(path, 0600) == 0 ? open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC) : -1;
}

static bool start(struct browser *browser)
{
    char script[8 * PROC_PATH_BYTES];
    const char *const argv[] = {"sh", "-c", script, NULL};
    const struct proc_options options = {.argv = argv, .output_path = browser->log_path};
    snprintf(
        script, sizeof script,
        "cd '%s' && exec 3<to 4>from && exec chromium --headless=new --no-sandbox --disable-gpu "
        "--disable-quic "
        "--disable-dev-shm-usage --no-first-run --disable-background-networking --disable-component-update "
        "--disable-sync --hide-scrollbars --force-device-scale-factor=1 --remote-debugging-pipe "
        "--no-startup-window --user-data-dir=profile",
        browser->folder);
    browser->pid = proc_start(&options);
    return browser->pid > 0;
}

static bool attach(struct browser *browser)
{
    json_t *target = command(browser, "Target.createTarget", json_pack("{s:s}", "url", "about:blank"));
    const char *id = text_at(target, "targetId", NULL, NULL);
    json_t *session = id == NULL ? NULL
                                 : command(browser, "Target.attachToTarget",
                                           json_pack("{s:s, s:b}", "targetId", id, "flatten", 1));
    const char *name = text_at(session, "sessionId", NULL, NULL);
    browser->session = name != NULL ? strdup(name) : NULL;
    json_decref(target);
    json_decref(session);
    return browser->session != NULL && told(browser, "Page.enable", NULL) &&
           told(browser, "Runtime.enable", NULL) && told(browser, "Log.enable", NULL);
}

bool browser_open(struct browser **out)
{
    struct browser *browser = calloc(1, sizeof *browser);
    *out = browser;
    if (browser == NULL)
        return false;
    browser->to_fd = browser->from_fd = -1;
    if (proc_folder("browser", NULL, browser->folder)) {
        snprintf(browser->log_path, sizeof browser->log_path, "%s/log", browser->folder);
        browser->to_fd = open_pipe(browser, "to");
        browser->from_fd = open_pipe(browser, "from");
    }
    if (browser->to_fd != -1 && browser->from_fd != -1 && start(browser) && attach(browser))
        return true;
    proc_show_tail(browser->log_path);
    fputs("browser: chromium could not be started; is it there? sh load/deps.sh page-test\n", stderr);
    browser_close(out);
    return false;
}

void browser_close(struct browser **browser_slot)
{
    struct browser *browser = *browser_slot;
    *browser_slot = NULL;
    if (browser == NULL)
        return;
    free(browser->session);
    browser->session = NULL;
    if (browser->pid > 0 && send_command(browser, "Browser.close", NULL, clock_after_ms(END_LIMIT_MS)) &&
        proc_wait(browser->pid, END_LIMIT_MS, NULL))
        browser->pid = 0;
    if (browser->pid > 0)
        proc_kill_tree(&browser->pid);
    if (browser->to_fd != -1)
        close(browser->to_fd);
    if (browser->from_fd != -1)
        close(browser->from_fd);
    if (browser->folder[0] != '\0')
        proc_remove(browser->folder);
    free(browser->heard);
    free(browser);
}

/* ---- pages ---- */

bool browser_go(struct browser *browser, const char *url)
{
    const unsigned loads = browser->loads;
    const uint64_t end_us = clock_after_ms(BROWSER_LIMIT_MS);
    json_t *result = command(browser, "Page.navigate", json_pack("{s:s}", "url", url));
    const char *error = text_at(result, "errorText", NULL, NULL);
    bool there = result != NULL && error == NULL;
    if (!there)
        fprintf(stderr, "browser: %s: %s\n", url, error != NULL ? error : "no answer");
    json_decref(result);
    while (there && browser->loads == loads) {
        json_t *event = next_message(browser, end_us);
        there = event != NULL;
        take_event(browser, event);
        json_decref(event);
    }
    return there;
}

/* What Runtime.evaluate says of it; *threw: it was an exception. */
static json_t *evaluate(struct browser *browser, const char *expression, bool *threw)
{
    json_t *result = command(
        browser, "Runtime.evaluate",
        json_pack("{s:s, s:b, s:b}", "expression", expression, "returnByValue", 1, "awaitPromise", 1));
    *threw = result == NULL || json_object_get(result, "exceptionDetails") != NULL;
    return result;
}

json_t *browser_value(struct browser *browser, const char *expression)
{
    bool threw;
    json_t *result = evaluate(browser, expression, &threw);
    json_t *value = NULL;
    if (threw)
        fprintf(stderr, "browser: %s: %s\n", expression,
                text_at(json_object_get(result, "exceptionDetails"), "exception", "description", NULL));
    else
        value = json_incref(json_object_get(json_object_get(result, "result"), "value"));
    json_decref(result);
    return value;
}

static bool holds(struct browser *browser, const char *expression)
{
    bool threw;
    json_t *result = evaluate(browser, expression, &threw);
    bool is_true = !threw && json_is_true(json_object_get(json_object_get(result, "result"), "value"));
    json_decref(result);
    return is_true;
}

static void tell_failure(struct browser *browser, const char *what, const char *of)
{
    char seen[1200];
    browser_text(browser, "document.body.innerText", seen, sizeof seen);
    fprintf(stderr, "browser: %s: %s\nthe page showed:\n%s\nand complained:\n%s\n", what, of, seen,
            browser->complaints[0]);
}

bool browser_wait(struct browser *browser, const char *expression)
{
    char whole[1264];
    const uint64_t end_us = clock_after_ms(BROWSER_LIMIT_MS);
    snprintf(whole, sizeof whole, "!!(%s)", expression);
    while (!holds(browser, whole)) {
        if (clock_us() > end_us) {
            tell_failure(browser, "never true", expression);
            return false;
        }
        clock_pause_ms(LOOK_PAUSE_MS);
    }
    return true;
}

const char *browser_text(struct browser *browser, const char *expression, char *text, size_t text_bytes)
{
    json_t *value = browser_value(browser, expression);
    snprintf(text, text_bytes, "%s", json_is_string(value) ? json_string_value(value) : "");
    json_decref(value);
    return text;
}

double browser_number(struct browser *browser, const char *expression)
{
    json_t *value = browser_value(browser, expression);
    double number = json_is_number(value) ? json_number_value(value) : -1;
    json_decref(value);
    return number;
}

/* ---- what a reader has and does ---- */

bool browser_resize(struct browser *browser, unsigned width, unsigned height)
{
    return told(browser, "Emulation.setDeviceMetricsOverride",
                json_pack("{s:i, s:i, s:i, s:b}", "width", (int)width, "height", (int)height,
                          "deviceScaleFactor", 1, "mobile", (int)(width < PHONE_BELOW)));
}

bool browser_prefer(struct browser *browser, bool dark, bool less_motion)
{
    return told(browser, "Emulation.setEmulatedMedia",
                json_pack("{s:[{s:s, s:s}, {s:s, s:s}]}", "features", "name", "prefers-color-scheme", "value",
                          dark ? "dark" : "light", "name", "prefers-reduced-motion", "value",
                          less_motion ? "reduce" : "no-preference"));
}

/* Keys that are more than their character. */
static const struct key {
    const char *key, *code, *text;
    int number; /* as Windows counts them, and so does CDP */
} KEYS[] = {{"Tab", "Tab", NULL, 9},
            {"Enter", "Enter", "\r", 13},
            {"Escape", "Escape", NULL, 27},
            {" ", "Space", " ", 32},
            {"End", "End", NULL, 35},
            {"Home", "Home", NULL, 36},
            {"ArrowLeft", "ArrowLeft", NULL, 37},
            {"ArrowUp", "ArrowUp", NULL, 38},
            {"ArrowRight", "ArrowRight", NULL, 39},
            {"ArrowDown", "ArrowDown", NULL, 40}};

static json_t *key_json(const struct key *key, const char *type, bool shift)
{
    json_t *json = json_pack("{s:s, s:s, s:s, s:i, s:i}", "type", type, "key", key->key, "code", key->code,
                             "windowsVirtualKeyCode", key->number, "modifiers", shift ? SHIFT : 0);
    if (key->text != NULL && strcmp(type, "keyDown") == 0)
        json_object_set_new(json, "text", json_string(key->text));
    return json;
}

bool browser_press(struct browser *browser, const char *key, bool shift)
{
    struct key pressed = {key, key, key, 0};
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++) {
        if (strcmp(KEYS[i].key, key) == 0)
            pressed = KEYS[i];
    }
    return told(browser, "Input.dispatchKeyEvent", key_json(&pressed, "keyDown", shift)) &&
           told(browser, "Input.dispatchKeyEvent", key_json(&pressed, "keyUp", shift));
}

bool browser_type(struct browser *browser, const char *text)
{
    return told(browser, "Input.insertText", json_pack("{s:s}", "text", text));
}

static bool mouse(struct browser *browser, const char *type, double x, double y)
{
    return told(browser, "Input.dispatchMouseEvent",
                json_pack("{s:s, s:f, s:f, s:s, s:i}", "type", type, "x", x, "y", y, "button", "left",
                          "clickCount", 1));
}

/* The middle of what stands for the selector, once it can be seen there: a page is drawn a moment after it knows. */
static bool find_middle(struct browser *browser, const char *selector, double *x, double *y)
{
    char script[1024];
    const uint64_t end_us = clock_after_ms(BROWSER_LIMIT_MS);
    snprintf(script, sizeof script,
             "(() => { const one = document.querySelector(`%s`); one.scrollIntoView({ block: 'center', "
             "behavior: 'instant' }); const at = one.getBoundingClientRect(), x = at.left + at.width / 2, y "
             "= at.top + "
             "at.height / 2; return one.contains(document.elementFromPoint(x, y)) ? [x, y] : null; })()",
             selector);
    for (;;) {
        json_t *at = browser_value(browser, script);
        bool found = json_unpack(at, "[F, F]", x, y) == 0;
        json_decref(at);
        if (found || clock_us() > end_us)
            return found;
        clock_pause_ms(LOOK_PAUSE_MS);
    }
}

bool browser_hold(struct browser *browser, const char *selector, const char *expression)
{
    double x = -1, y = -1;
    if (!find_middle(browser, selector, &x, &y)) {
        tell_failure(browser, "not there, or covered", selector);
        return false;
    }
    return mouse(browser, "mousePressed", x, y) &&
           (expression == NULL || browser_wait(browser, expression)) && mouse(browser, "mouseReleased", x, y);
}

bool browser_click(struct browser *browser, const char *selector)
{
    return browser_hold(browser, selector, NULL);
}

/* ---- what it saw ---- */

static char *text_of_file(const char *path)
{
    enum { FILE_BYTES = 1 << 14 };
    FILE *file = fopen(path, "re");
    char *text = calloc(FILE_BYTES, 1);
    if (file == NULL || text == NULL || fread(text, 1, FILE_BYTES - 1, file) == 0)
        fprintf(stderr, "browser: %s cannot be read\n", path);
    if (file != NULL)
        fclose(file);
    return text;
}

const char *browser_faults(struct browser *browser)
{
    static char faults[COMPLAINTS_BYTES];
    char *script = text_of_file("tests/support/browser_look.js");
    json_t *found = script != NULL ? browser_value(browser, script) : NULL;
    snprintf(faults, sizeof faults, "%s",
             json_is_string(found) ? json_string_value(found) : "the page could not be looked at");
    json_decref(found);
    free(script);
    return faults;
}

const char *browser_complaints(struct browser *browser)
{
    memcpy(browser->complaints[1], browser->complaints[0], COMPLAINTS_BYTES);
    browser->complaints[0][0] = '\0';
    return browser->complaints[1];
}

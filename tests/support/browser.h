/* SPDX-License-Identifier: MIT */
/*
 * browser.h - a real browser for tests: Chromium without a window, told what to do over its DevTools pipe.
 *
 *     browser_open() --> browser_go() --> browser_wait(), browser_press(), ... --> browser_close()
 *
 * It has one tab. What a test expects is an expression of JavaScript, evaluated in the page: what a reader sees
 * there. A test waits until one holds and never sleeps; a promise is waited for.
 *
 * Tests that use it are named in the Makefile (BROWSER_TESTS), so that the package is there.
 *
 * Threads: all from one, see proc.h. It has a profile of its own and is gone with it when the program ends.
 * Time: nothing takes longer than BROWSER_LIMIT_MS.
 * Errors: a function that returns bool says why on stderr, and what the page's console complained of.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BROWSER_LIMIT_MS = 60000 };

struct browser;

bool browser_open(struct browser **out);
/* Leaves NULL. Accepts NULL in *browser. */
void browser_close(struct browser **browser);

/* Returns when the page and what it names are there; of a connection that is refused it says false. */
bool browser_go(struct browser *browser, const char *url);

/* Until the expression is true; one that throws is not. False: not within the limit. */
bool browser_wait(struct browser *browser, const char *expression);

/* The expression's value as JSON, yours; NULL: it threw, or the value has no JSON. */
json_t *browser_value(struct browser *browser, const char *expression);
/* Of one that must be a text, cut to fit. Returns `text`; "": it was none. */
const char *browser_text(struct browser *browser, const char *expression, char *text, size_t text_bytes);
/* Of one that must be a number; -1: it was none. */
double browser_number(struct browser *browser, const char *expression);

/* ---- what a reader has and does ---- */

/* CSS pixels; below 600 it is a phone. */
bool browser_resize(struct browser *browser, unsigned width, unsigned height);
/* prefers-color-scheme and prefers-reduced-motion. */
bool browser_prefer(struct browser *browser, bool dark, bool less_motion);

/* A key as KeyboardEvent.key has it: "Tab", "Enter", " ", "ArrowRight", "a"; `shift` is held down meanwhile. */
bool browser_press(struct browser *browser, const char *key, bool shift);
/* Into what has the focus, as if typed. */
bool browser_type(struct browser *browser, const char *text);
/* In the middle of the first element of this selector, once it can be seen there; false: it never can. */
bool browser_click(struct browser *browser, const char *selector);
/* The same, and releases the button of the mouse when this holds. */
bool browser_hold(struct browser *browser, const char *selector, const char *expression);

/* ---- what it saw ---- */

/*
 * What no page of ours may have, a line each, cut to fit: something wider than the screen, text whose contrast with
 * what is behind it is below 4.5 to 1 (3 to 1 if it is large), a control without a name. "": nothing. Lent until the
 * next call. Looked for by browser_look.js.
 */
const char *browser_faults(struct browser *browser);
/* What the page's console complained of since the last call, a line each, cut to fit: exceptions, what its policy
 * forbade, console.error(); not answers with an error status. "": nothing. Lent until the next call. */
const char *browser_complaints(struct browser *browser);

/* SPDX-License-Identifier: MIT */
/*
 * scenario.h - a stampede written down: what is started, what happens when, and what must hold.
 *
 * One directive a line; # begins a comment; words are separated by spaces, "..." keeps them together. The comment
 * at the head of the file says what it is about and is shown with the result.
 *
 *     title   A hot key expires under load
 *
 *     stack   2 LOAD_DELAY_MS=200 FRESH_MS=1000    private Redis and PostgreSQL, two catalogd, their settings
 *     vary    GUARD_MODE off local fleet           the whole scenario once for each value, one table for all
 *     proxy   redis                                our TCP proxy between the services and that server
 *     replica                                      a second Redis that follows the first
 *
 *     target  127.0.0.1:8080                       instead of a stack: somebody's own service ...
 *     database postgresql://...  redis redis://... ... its servers, for those who count ...
 *     count   log PATH | statements | sql "SELECT ..." | none     ... and how
 *     queries "load product"                       a load is a statement with this text (stack: the service's own)
 *     ttl     1s jitter 10%                        how long a value lives (stack: from FRESH_MS, JITTER_PERCENT)
 *
 *     warm    /products/{each:1-2000}              asked once each before the run
 *     ask     /products/{zipf:1-50000} weight 3    may be repeated
 *     burst   1000 connections 3 rounds every 2s   or:
 *     rate    2000 per second for 10s poisson over 200 connections
 *     leave   50% after 20ms                       clients hanging up
 *     limit   30s                                  of one request
 *     connections close                            a connection for each request
 *     version "\"version\":"                       the number behind this text in a body
 *     write   every 100ms key 7 sql "UPDATE ... RETURNING version" then /invalidate?key=product:7
 *
 *     at 2s   redis kill                           see scenario_act.c for all; FAULT lasts until its opposite
 *     at 3s   redis start
 *     at 1s   leader kill                          the process that holds a lease right now
 *     on load leader pause                         as soon as the database runs a load; or: on load 3 ...
 *     at 4s   run "any command of the shell"
 *     at 4s   sql "UPDATE ..."    at 4s post /invalidate?key=product:7   at 4s note "what the page shall say"
 *
 *     expect  loads per expiry <= 1                see expect.c for all figures
 *     expect  status 200 >= 99% from 4s to 6s
 *     expect  p99 <= 300ms in fleet                in one variant only
 *     expect  answered = 100%
 *
 * scenario_read() checks everything that can be checked without starting anything, and reports every mistake with
 * file and line, not only the first.
 *
 * Threads: one, that of proc.h.
 */
#ifndef LOAD_SCENARIO_H
#define LOAD_SCENARIO_H
#endif

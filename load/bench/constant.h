/* SPDX-License-Identifier: MIT */
/*
 * constant.h - a process that answers every GET with the same bytes: what libmicrohttpd itself takes to send them.
 *
 * One thread of libmicrohttpd's own over epoll, one prepared response, connections that stay open: there is nothing left
 * to save in a server that uses it. It is this program, started again.
 *
 * Threads: as proc.h has it. Errors: false, and the reason on stderr.
 */
#ifndef LOAD_BENCH_CONSTANT_H
#define LOAD_BENCH_CONSTANT_H

#include "load/stack/rival.h"

/* Answers with so many bytes; rival_stop() stops it. */
bool constant_start(struct rival *constant, size_t body_bytes);

/* main() of that process, if these are its arguments; -1: they are not. */
int constant_main(int argc, char **argv);

#endif

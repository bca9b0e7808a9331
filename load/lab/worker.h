/* SPDX-License-Identifier: MIT */
/*
 * worker.h - one prefork worker: this same program, executed again by the controller (see fleet.h).
 *
 *     lab worker SOCKET INDEX SCHEME KEY REDIS_PORT POSTGRES_URL LEASE_S LOCK_URLS
 *
 * Serves one request after the other, as ordered over the socket, and ends when it is closed.
 */
#pragma once

enum { WORKER_ARGUMENTS = 10 }; /* argv[0] and "worker" included */

/* argv as above; returns the exit status. */
int worker_main(char **argv);

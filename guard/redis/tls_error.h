/* SPDX-License-Identifier: MIT */
/*
 * redis/tls_error.h - what went wrong in OpenSSL: its queue of errors, and one line for people. For the files of TLS only.
 *
 * Every call into OpenSSL that may fail stands between begin and end: the queue is the thread's, so that what the host has
 * left there is kept apart and kept. The two may be nested.
 */
#ifndef GUARD_REDIS_TLS_ERROR_H
#define GUARD_REDIS_TLS_ERROR_H

#include "error.h"
#include <stdbool.h>

struct x509_store_ctx_st;

void redis_tls_errors_begin(void);
/* The last error since that says what is wrong, be it one of the socket's no more; 0: none. */
unsigned long redis_tls_errors_end(void);

/* Why the certificate that OpenSSL looks at is refused; name: it was verified for that one. */
void redis_tls_explain_certificate(struct x509_store_ctx_st *store, const char *name,
                                   char why[REDIS_WHY_SIZE]);
/* Why a session has failed. certificate_asked: the server has asked for one and there is none. */
void redis_tls_explain_failure(unsigned long error, bool certificate_asked, char why[REDIS_WHY_SIZE]);

#endif

/* SPDX-License-Identifier: MIT */
/* redis/tls.c - TLS of one socket, by OpenSSL between two buffers in memory; see redis/tls.h. */
#include "tls.h"
#include "../base/resolve.h"
#include <stdio.h>
#include <string.h>

#ifndef GUARD_WITH_TLS

/* There are no sessions: nothing below is ever called with one. */
struct redis_tls_session *redis_tls_begin(struct redis_tls *tls, const char *host, char why[REDIS_WHY_SIZE])
{
    (void)tls, (void)host;
    why[0] = '\0';
    return NULL;
}

void redis_tls_end(struct redis_tls_session **session)
{
    *session = NULL;
}

bool redis_tls_take(struct redis_tls_session *session, const void *data, size_t bytes)
{
    (void)data, (void)bytes;
    return session == NULL;
}

size_t redis_tls_due(const struct redis_tls_session *session, const char **data)
{
    (void)session, (void)data;
    return 0;
}

void redis_tls_gone(struct redis_tls_session *session, size_t bytes)
{
    (void)session, (void)bytes;
}

int redis_tls_shake_hands(struct redis_tls_session *session)
{
    (void)session;
    return -1;
}

ssize_t redis_tls_read(struct redis_tls_session *session, void *data, size_t size)
{
    (void)session, (void)data, (void)size;
    return -1;
}

ssize_t redis_tls_write(struct redis_tls_session *session, const void *data, size_t bytes)
{
    (void)session, (void)data, (void)bytes;
    return -1;
}

bool redis_tls_has_more(const struct redis_tls_session *session)
{
    return session != NULL;
}

#else

#include <errno.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

enum { RECORD_BYTES = SSL3_RT_MAX_PLAIN_LENGTH }; /* of one write into OpenSSL */

static bool set_peer(struct redis_tls_session *session)
{
    X509_VERIFY_PARAM *rules = SSL_get0_param(session->ssl);
    struct sockaddr_storage address;
    const char *name = session->name;
    bool verifies = redis_tls_settings_of(session->tls)->verify == REDIS_TLS_REQUIRED;
    switch (resolve_digits(name, 0, &address)) {
    case sizeof(struct sockaddr_in):
        return !verifies ||
               X509_VERIFY_PARAM_set1_ip(
                   rules, (const unsigned char *)&((struct sockaddr_in *)&address)->sin_addr, 4) == 1;
    case sizeof(struct sockaddr_in6):
        return !verifies ||
               X509_VERIFY_PARAM_set1_ip(
                   rules, (const unsigned char *)&((struct sockaddr_in6 *)&address)->sin6_addr, 16) == 1;
    }
    X509_VERIFY_PARAM_set_hostflags(rules, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set_tlsext_host_name(session->ssl, name) == 1 &&
           (!verifies || X509_VERIFY_PARAM_set1_host(rules, name, 0) == 1);
}

static bool prepare(struct redis_tls_session *session)
{
    session->in = BIO_new(BIO_s_mem());
    session->out = BIO_new(BIO_s_mem());
    if (!redis_tls_draw(session) || session->in == NULL || session->out == NULL) {
        BIO_free(session->in);
        BIO_free(session->out);
        return false;
    }
    SSL_set_bio(session->ssl, session->in, session->out);
    SSL_set_connect_state(session->ssl);
    return set_peer(session);
}

struct redis_tls_session *redis_tls_begin(struct redis_tls *tls, const char *host, char why[REDIS_WHY_SIZE])
{
    struct redis_tls_session *session = calloc(1, sizeof *session);
    const char *name = redis_tls_settings_of(tls)->server_name;
    snprintf(why, REDIS_WHY_SIZE, "TLS: out of memory, or a name that is none");
    if (session == NULL)
        return NULL;
    session->tls = tls;
    snprintf(session->name, sizeof session->name, "%s", name[0] != '\0' ? name : host);
    redis_tls_errors_begin();
    bool good = prepare(session);
    redis_tls_errors_end();
    if (!good)
        redis_tls_end(&session);
    return session;
}

void redis_tls_end(struct redis_tls_session **session)
{
    struct redis_tls_session *old = *session;
    *session = NULL;
    if (old == NULL)
        return;
    SSL_free(old->ssl);
    free(old);
}

bool redis_tls_take(struct redis_tls_session *session, const void *data, size_t bytes)
{
    unsigned char first = *(const unsigned char *)data;
    if (!session->heard)
        session->foreign = first < SSL3_RT_CHANGE_CIPHER_SPEC || first > SSL3_RT_APPLICATION_DATA;
    session->heard = true;
    redis_tls_errors_begin();
    bool taken = BIO_write(session->in, data, (int)bytes) == (int)bytes;
    redis_tls_errors_end();
    return taken;
}

size_t redis_tls_due(const struct redis_tls_session *session, const char **data)
{
    return (size_t)BIO_get_mem_data(session->out, (char **)data);
}

void redis_tls_gone(struct redis_tls_session *session, size_t bytes)
{
    char scratch[4096];
    while (bytes > 0) {
        size_t piece = bytes < sizeof scratch ? bytes : sizeof scratch;
        BIO_read(session->out, scratch, (int)piece);
        bytes -= piece;
    }
}

/* What the call means that has returned none. What has been said already, of the certificate, stays. */
static int outcome_of(struct redis_tls_session *session, unsigned long error)
{
    if (!session->foreign && SSL_want_read(session->ssl) && BIO_should_read(session->in))
        return -EAGAIN;
    if (!session->foreign && error == 0 && (SSL_get_shutdown(session->ssl) & SSL_RECEIVED_SHUTDOWN) != 0)
        return 0;
    if (session->foreign)
        snprintf(session->why, sizeof session->why, "TLS: the other side does not speak TLS");
    else if (session->why[0] == '\0')
        redis_tls_explain_failure(error, session->certificate_asked, session->why);
    return -EPROTO;
}

int redis_tls_shake_hands(struct redis_tls_session *session)
{
    redis_tls_errors_begin();
    int done = session->foreign ? -1 : SSL_do_handshake(session->ssl);
    unsigned long error = redis_tls_errors_end();
    int failed = done == 1 ? 0 : outcome_of(session, error);
    if (done == 1 || failed != 0)
        return failed;
    snprintf(session->why, sizeof session->why, "TLS: the other side says goodbye in the handshake");
    return -EPROTO;
}

ssize_t redis_tls_read(struct redis_tls_session *session, void *data, size_t size)
{
    redis_tls_errors_begin();
    int got = SSL_read(session->ssl, data, (int)size);
    unsigned long error = redis_tls_errors_end();
    return got > 0 ? got : outcome_of(session, error);
}

ssize_t redis_tls_write(struct redis_tls_session *session, const void *data, size_t bytes)
{
    redis_tls_errors_begin();
    int put = SSL_write(session->ssl, data, bytes < RECORD_BYTES ? (int)bytes : RECORD_BYTES);
    unsigned long error = redis_tls_errors_end();
    if (put > 0)
        return put;
    redis_tls_explain_failure(error, session->certificate_asked, session->why);
    return -EPROTO;
}

bool redis_tls_has_more(const struct redis_tls_session *session)
{
    return SSL_pending(session->ssl) > 0 || BIO_ctrl_pending(session->in) > 0;
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * redis/tls.c - TLS of one socket, by OpenSSL; see redis/tls.h.
 *
 * Writing   OpenSSL wants a write that the socket had no room for to be repeated with the same bytes, and their owner
 *           may take them back meanwhile. So such a piece is copied and counts as written.
 */
#include "tls.h"
#include "../base/resolve.h"
#include "tls_error.h"
#include <stdio.h>
#include <string.h>

#ifndef GUARD_WITH_TLS

/* There are no sessions: nothing below is ever called with one. */
struct redis_tls_session *redis_tls_begin(struct redis_tls *tls, int fd, const char *host,
                                          char why[REDIS_WHY_SIZE])
{
    (void)tls, (void)fd, (void)host;
    why[0] = '\0';
    return NULL;
}

void redis_tls_end(struct redis_tls_session **session)
{
    *session = NULL;
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

bool redis_tls_flush(struct redis_tls_session *session)
{
    return session == NULL;
}

bool redis_tls_awaits_room(const struct redis_tls_session *session)
{
    return session != NULL;
}

bool redis_tls_write_awaits_data(const struct redis_tls_session *session)
{
    return session != NULL;
}

bool redis_tls_has_more(const struct redis_tls_session *session)
{
    return session != NULL;
}

bool redis_tls_is_drained(const struct redis_tls_session *session)
{
    return session == NULL;
}

const char *redis_tls_why(const struct redis_tls_session *session)
{
    (void)session;
    return "";
}

const char *redis_tls_remark(const struct redis_tls_session *session)
{
    (void)session;
    return "";
}

#else

#include <errno.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

enum { RECORD_BYTES = SSL3_RT_MAX_PLAIN_LENGTH }; /* of one write into OpenSSL */

struct redis_tls_session {
    struct redis_tls_side side;
    BIO_METHOD *method; /* owned */
    SSL *ssl;           /* owned */
    BIO *bio;           /* its own */
    int fd;
    bool heard, foreign; /* something has come; what came first was not TLS */
    bool drained;        /* the last recv() left nothing */
    bool dry;            /* the last read found no whole record */
    bool ended;
    int error; /* errno of the socket */
    bool read_awaits_room, write_awaits_data;
    int broken; /* what a write of `held` failed with, below 0 */
    char *held; /* owned; a piece that counts as written; NULL: none */
    size_t held_bytes;
    char remark[REDIS_WHY_SIZE];
};

/* ---- the socket, as OpenSSL sees it ---- */

static int bio_recv(BIO *bio, char *data, int size)
{
    struct redis_tls_session *session = BIO_get_data(bio);
    ssize_t got;

    BIO_clear_retry_flags(bio);
    do
        got = recv(session->fd, data, (size_t)size, 0);
    while (got < 0 && errno == EINTR);
    session->drained = got < size;
    session->ended = got == 0;
    if (got < 0 && errno == EAGAIN)
        BIO_set_retry_read(bio);
    else if (got < 0)
        session->error = errno;
    if (got <= 0)
        return (int)got;
    if (!session->heard)
        session->foreign = data[0] < SSL3_RT_CHANGE_CIPHER_SPEC || data[0] > SSL3_RT_APPLICATION_DATA;
    session->heard = true;
    return session->foreign ? -1 : (int)got;
}

static int bio_send(BIO *bio, const char *data, int bytes)
{
    struct redis_tls_session *session = BIO_get_data(bio);
    ssize_t put;

    BIO_clear_retry_flags(bio);
    do
        put = send(session->fd, data, (size_t)bytes, MSG_NOSIGNAL);
    while (put < 0 && errno == EINTR);
    if (put < 0 && errno == EAGAIN)
        BIO_set_retry_write(bio);
    else if (put < 0)
        session->error = errno;
    return (int)put;
}

static long bio_control(BIO *bio, int command, long number, void *pointer)
{
    struct redis_tls_session *session = BIO_get_data(bio);

    (void)number, (void)pointer;
    if (command == BIO_CTRL_FLUSH)
        return 1;
    return command == BIO_CTRL_EOF && session->ended;
}

static BIO_METHOD *new_bio_method(void)
{
    BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "stampede-guard");

    if (method == NULL)
        return NULL;
    BIO_meth_set_read(method, bio_recv);
    BIO_meth_set_write(method, bio_send);
    BIO_meth_set_ctrl(method, bio_control);
    return method;
}

/* What OpenSSL waits for at the socket. */
enum tls_wait { TLS_WAITS_NOT, TLS_WAITS_DATA, TLS_WAITS_ROOM };

static enum tls_wait awaited(const struct redis_tls_session *session)
{
    if (SSL_want_read(session->ssl) && BIO_should_read(session->bio))
        return TLS_WAITS_DATA;
    if (SSL_want_write(session->ssl) && BIO_should_write(session->bio))
        return TLS_WAITS_ROOM;
    return TLS_WAITS_NOT;
}

/* What has been said already, of the certificate, stays. */
static void explain(struct redis_tls_session *session, unsigned long error)
{
    struct redis_tls_side *side = &session->side;

    if (side->why[0] != '\0')
        return;
    if (session->foreign)
        snprintf(side->why, sizeof side->why, "TLS: the other side does not speak TLS");
    else
        redis_tls_explain_failure(error, side->certificate_asked, side->why);
}

/* What the call means that has returned none: as recv() and send(). */
static ssize_t outcome_of(struct redis_tls_session *session, unsigned long error)
{
    if (awaited(session) != TLS_WAITS_NOT)
        return -EAGAIN;
    if (error == 0 && session->error != 0)
        return -session->error;
    if (error == 0 && !session->foreign &&
        (session->ended || (SSL_get_shutdown(session->ssl) & SSL_RECEIVED_SHUTDOWN) != 0))
        return 0;
    explain(session, error);
    return -EPROTO;
}

/* ---- a session ---- */

static bool set_peer(struct redis_tls_session *session)
{
    X509_VERIFY_PARAM *rules = SSL_get0_param(session->ssl);
    struct sockaddr_storage address;
    const char *name = session->side.name;
    bool verifies = redis_tls_settings_of(session->side.tls)->verify == REDIS_TLS_REQUIRED;

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

static bool set_bio(struct redis_tls_session *session)
{
    session->method = new_bio_method();
    session->bio = session->method != NULL ? BIO_new(session->method) : NULL;
    if (session->bio == NULL)
        return false;
    BIO_set_data(session->bio, session);
    BIO_set_init(session->bio, 1);
    SSL_set_bio(session->ssl, session->bio, session->bio);
    return true;
}

static bool prepare(struct redis_tls_session *session)
{
    if (session->ssl == NULL || !set_bio(session))
        return false;
    SSL_set_connect_state(session->ssl);
    return set_peer(session);
}

struct redis_tls_session *redis_tls_begin(struct redis_tls *tls, int fd, const char *host,
                                          char why[REDIS_WHY_SIZE])
{
    struct redis_tls_session *session = calloc(1, sizeof *session);
    const char *name = redis_tls_settings_of(tls)->server_name;

    snprintf(why, REDIS_WHY_SIZE, "TLS: out of memory, or a name that is none");
    if (session == NULL)
        return NULL;
    session->side.tls = tls;
    session->fd = fd;
    snprintf(session->side.name, sizeof session->side.name, "%s", name[0] != '\0' ? name : host);
    redis_tls_errors_begin();
    session->ssl = redis_tls_draw(&session->side, session->remark);
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
    BIO_meth_free(old->method);
    free(old->held);
    free(old);
}

int redis_tls_shake_hands(struct redis_tls_session *session)
{
    redis_tls_errors_begin();
    int done = SSL_do_handshake(session->ssl);
    unsigned long error = redis_tls_errors_end();
    ssize_t failed = done == 1 ? 0 : outcome_of(session, error);

    session->read_awaits_room = failed == -EAGAIN && awaited(session) == TLS_WAITS_ROOM;
    if (done != 1 && failed == 0) {
        snprintf(session->side.why, sizeof session->side.why,
                 "TLS: the other side hangs up in the handshake");
        return -EPROTO;
    }
    return (int)failed;
}

ssize_t redis_tls_read(struct redis_tls_session *session, void *data, size_t size)
{
    redis_tls_errors_begin();
    int got = SSL_read(session->ssl, data, (int)size);
    unsigned long error = redis_tls_errors_end();
    ssize_t result = got > 0 ? got : outcome_of(session, error);

    session->dry = result == -EAGAIN;
    session->read_awaits_room = result == -EAGAIN && awaited(session) == TLS_WAITS_ROOM;
    return result == -EAGAIN && session->broken != 0 ? session->broken : result;
}

static ssize_t write_record(struct redis_tls_session *session, const void *data, size_t bytes)
{
    redis_tls_errors_begin();
    int put = SSL_write(session->ssl, data, (int)bytes);
    unsigned long error = redis_tls_errors_end();
    ssize_t result = put > 0 ? put : outcome_of(session, error);

    session->write_awaits_data = result == -EAGAIN && awaited(session) == TLS_WAITS_DATA;
    return result != 0 ? result : -EPIPE;
}

/* 0: nothing is held any more. */
static int write_held(struct redis_tls_session *session)
{
    while (session->held_bytes > 0) {
        ssize_t put = write_record(session, session->held, session->held_bytes);
        if (put < 0)
            return (int)put;
        session->held_bytes -= (size_t)put;
        memmove(session->held, session->held + put, session->held_bytes);
    }
    free(session->held);
    session->held = NULL;
    return 0;
}

ssize_t redis_tls_write(struct redis_tls_session *session, const void *data, size_t bytes)
{
    size_t piece = bytes < RECORD_BYTES ? bytes : RECORD_BYTES;
    int failed = write_held(session);

    if (failed != 0)
        return failed;
    ssize_t put = write_record(session, data, piece);
    if (put != -EAGAIN)
        return put;
    session->held = malloc(piece);
    if (session->held == NULL)
        return -ENOMEM;
    memcpy(session->held, data, piece);
    session->held_bytes = piece;
    return (ssize_t)piece;
}

/* What failed is told by the next read, after the other side's last words. */
bool redis_tls_flush(struct redis_tls_session *session)
{
    int failed = session->broken == 0 ? write_held(session) : session->broken;

    if (failed != 0 && failed != -EAGAIN)
        session->broken = failed;
    return failed == 0;
}

bool redis_tls_awaits_room(const struct redis_tls_session *session)
{
    return session->read_awaits_room ||
           (session->held_bytes > 0 && session->broken == 0 && !session->write_awaits_data);
}

bool redis_tls_write_awaits_data(const struct redis_tls_session *session)
{
    return session->write_awaits_data;
}

/* SSL_has_pending() counts a piece of a record, too. */
bool redis_tls_has_more(const struct redis_tls_session *session)
{
    return !session->dry && SSL_has_pending(session->ssl) == 1;
}

bool redis_tls_is_drained(const struct redis_tls_session *session)
{
    return session->drained && !redis_tls_has_more(session);
}

const char *redis_tls_why(const struct redis_tls_session *session)
{
    return session->side.why;
}

const char *redis_tls_remark(const struct redis_tls_session *session)
{
    return session->remark;
}

#endif

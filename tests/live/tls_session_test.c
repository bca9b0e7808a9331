/* SPDX-License-Identifier: MIT */
/*
 * tls_session_test.c - one session of redis/tls.h with OpenSSL's own server at the other end of a pair of sockets, so
 * that the server does what no Redis would do when it is asked to.
 */
#include "guard/redis/tls.h"
#include "load/stack/stack_certificates.h"
#include "tests/support/test.h"
#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { STEPS_MOST = 100000, PIECE_BYTES = 16384, THREADS = 4 };

static struct stack_certificates files;
static struct redis_tls_settings settings;

static bool issue_files(void)
{
    settings = (struct redis_tls_settings){.on = true};
    if (!stack_certificates_start(&files) ||
        !stack_certificates_issue(&files, "server", "DNS:localhost,IP:127.0.0.1", -1, 30) ||
        !stack_certificates_issue(&files, "expired", "DNS:localhost", -30, -1))
        return false;
    snprintf(settings.ca, sizeof settings.ca, "%s", files.ca);
    return true;
}

static bool remove_files(void)
{
    stack_certificates_stop(&files);
    return true;
}

/* ---- the two ends ---- */

/* One connection: ours, and OpenSSL's server, both without waiting, in turns. */
struct pair {
    int fds[2]; /* ours, the server's */
    struct redis_tls_session *session;
    SSL *server; /* its context lives as long */
};

/* Those of the test; what it has not opened is NULL. */
static SSL_CTX *context;
static struct redis_tls *tls;
static struct pair meeting;

static void use_certificate(SSL_CTX *of, const char *certificate, const char *key)
{
    char path[CERTIFICATES_PATH_BYTES];

    stack_certificates_path(&files, certificate, path);
    assert_int_equal(SSL_CTX_use_certificate_chain_file(of, path), 1);
    stack_certificates_path(&files, key, path);
    assert_int_equal(SSL_CTX_use_PrivateKey_file(of, path, SSL_FILETYPE_PEM), 1);
}

static SSL_CTX *server_context(int version)
{
    SSL_CTX *made = SSL_CTX_new(TLS_server_method());

    assert_non_null(made);
    SSL_CTX_set_min_proto_version(made, version);
    SSL_CTX_set_max_proto_version(made, version);
    if (version < TLS1_2_VERSION)
        SSL_CTX_set_security_level(made, 0);
    use_certificate(made, "server.pem", "server.key");
    SSL_CTX_set_session_id_context(made, (const unsigned char *)"test", 4);
    return made;
}

static void open_both(int version)
{
    struct guard_error error;

    context = server_context(version);
    tls = redis_tls_open(&settings, &error);
    if (tls == NULL)
        fail_msg("%s", error.text);
}

static void begin_pair(struct pair *pair, SSL_CTX *with, const char *host)
{
    char why[REDIS_WHY_SIZE];
    int small = 4096;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair->fds), 0);
    for (size_t i = 0; i < 2; i++)
        setsockopt(pair->fds[i], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    pair->session = redis_tls_begin(tls, pair->fds[0], host, why);
    assert_non_null(pair->session);
    pair->server = SSL_new(with);
    SSL_set_fd(pair->server, pair->fds[1]);
    SSL_set_accept_state(pair->server);
}

/* Both, until ours is done or has failed. */
static int shake_hands(struct pair *pair)
{
    int ours = -EAGAIN;

    for (unsigned i = 0; i < STEPS_MOST && ours == -EAGAIN; i++) {
        ours = redis_tls_shake_hands(pair->session);
        SSL_do_handshake(pair->server);
    }
    for (unsigned i = 0; i < 10 && ours == 0; i++)
        SSL_do_handshake(pair->server);
    ERR_clear_error();
    return ours;
}

/* A server of that version, and ours greeted. */
static void meet(int version)
{
    open_both(version);
    begin_pair(&meeting, context, "localhost");
    assert_int_equal(shake_hands(&meeting), 0);
}

static void end_pair(struct pair *pair)
{
    redis_tls_end(&pair->session);
    SSL_free(pair->server);
    close(pair->fds[0]);
    close(pair->fds[1]);
}

static void close_both(void)
{
    redis_tls_close(&tls);
    SSL_CTX_free(context);
    context = NULL;
}

static void end_all(void)
{
    if (meeting.server != NULL)
        end_pair(&meeting);
    meeting.server = NULL;
    close_both();
}

/* The server says a word, and ours hears it. */
static void hear_word(struct pair *pair)
{
    char heard[8] = "";

    assert_int_equal(SSL_write(pair->server, "word", 4), 4);
    assert_int_equal(redis_tls_read(pair->session, heard, sizeof heard), 4);
    assert_string_equal(heard, "word");
    assert_int_equal(redis_tls_read(pair->session, heard, sizeof heard), -EAGAIN);
    assert_true(redis_tls_is_drained(pair->session));
}

TEST(what_is_older_than_tls_1_2_is_refused)
{
    open_both(TLS1_1_VERSION);
    begin_pair(&meeting, context, "localhost");
    assert_int_equal(shake_hands(&meeting), -EPROTO);
    assert_string_equal(redis_tls_why(meeting.session), "TLS: the server speaks no TLS 1.2 or later");
}

TEST(a_server_that_wants_to_negotiate_again_is_not_followed)
{
    char heard[8];

    meet(TLS1_2_VERSION);
    assert_int_equal(SSL_renegotiate(meeting.server), 1);
    SSL_do_handshake(meeting.server);
    assert_int_equal(redis_tls_read(meeting.session, heard, sizeof heard), -EAGAIN);
    SSL_read(meeting.server, heard, sizeof heard);
    assert_int_equal(ERR_GET_REASON(ERR_peek_last_error()), SSL_R_NO_RENEGOTIATION);
    ERR_clear_error();
}

TEST(a_server_that_hangs_up_in_the_handshake_is_told_of)
{
    open_both(TLS1_3_VERSION);
    begin_pair(&meeting, context, "localhost");
    assert_int_equal(redis_tls_shake_hands(meeting.session), -EAGAIN);
    shutdown(meeting.fds[1], SHUT_WR);
    assert_int_equal(redis_tls_shake_hands(meeting.session), -EPROTO);
    assert_string_equal(redis_tls_why(meeting.session), "TLS: the other side hangs up in the handshake");
}

TEST(the_end_is_the_end_with_and_without_a_goodbye)
{
    char heard[8];

    open_both(TLS1_3_VERSION);
    for (int polite = 0; polite < 2; polite++) {
        begin_pair(&meeting, context, "localhost");
        assert_int_equal(shake_hands(&meeting), 0);
        if (polite)
            SSL_shutdown(meeting.server);
        else
            shutdown(meeting.fds[1], SHUT_WR);
        assert_int_equal(redis_tls_read(meeting.session, heard, sizeof heard), 0);
        assert_string_equal(redis_tls_why(meeting.session), "");
        end_pair(&meeting);
        meeting.server = NULL;
    }
}

/* ---- a socket without room ---- */

static size_t drain_server(struct pair *pair, char *out, size_t size)
{
    size_t bytes = 0;
    int got;

    while (bytes < size && (got = SSL_read(pair->server, out + bytes, (int)(size - bytes))) > 0)
        bytes += (size_t)got;
    ERR_clear_error();
    return bytes;
}

/* The owner of what was taken may change its bytes: a limit that passes takes commands back. */
TEST(a_piece_that_the_socket_has_no_room_for_counts_as_written_and_arrives_as_it_was)
{
    enum { SIZE = 20 * PIECE_BYTES };
    char *sent = malloc(SIZE), *got = calloc(1, SIZE), scratch[PIECE_BYTES];
    size_t taken = 0, arrived = 0;

    for (size_t i = 0; i < SIZE; i++)
        sent[i] = (char)(i * 31 + i / 251);
    meet(TLS1_3_VERSION);
    while (taken < SIZE) {
        memcpy(scratch, sent + taken, sizeof scratch);
        ssize_t put = redis_tls_write(meeting.session, scratch, sizeof scratch);
        memset(scratch, '!', sizeof scratch);
        if (put > 0) {
            taken += (size_t)put;
            continue;
        }
        assert_int_equal(put, -EAGAIN);
        assert_true(redis_tls_awaits_room(meeting.session));
        arrived += drain_server(&meeting, got + arrived, SIZE - arrived);
    }
    for (unsigned i = 0; i < STEPS_MOST && !redis_tls_flush(meeting.session); i++)
        arrived += drain_server(&meeting, got + arrived, SIZE - arrived);
    arrived += drain_server(&meeting, got + arrived, SIZE - arrived);
    assert_false(redis_tls_awaits_room(meeting.session));
    assert_int_equal(arrived, SIZE);
    assert_memory_equal(got, sent, SIZE);
    free(sent);
    free(got);
}

/* New keys are asked for while our side has no room to answer: nothing is lost in either direction. */
TEST(keys_are_renewed_also_while_there_is_no_room)
{
    char piece[PIECE_BYTES], heard[8] = "", got[PIECE_BYTES];
    size_t taken = 0, arrived = 0;

    memset(piece, 'x', sizeof piece);
    meet(TLS1_3_VERSION);
    for (ssize_t put; (put = redis_tls_write(meeting.session, piece, sizeof piece)) > 0;)
        taken += (size_t)put;
    assert_int_equal(SSL_key_update(meeting.server, SSL_KEY_UPDATE_REQUESTED), 1);
    assert_int_equal(SSL_write(meeting.server, "word", 4), 4);
    ssize_t bytes = redis_tls_read(meeting.session, heard, sizeof heard);
    assert_true(bytes == 4 || bytes == -EAGAIN);
    assert_true(redis_tls_awaits_room(meeting.session));
    for (unsigned i = 0; i < STEPS_MOST && (arrived < taken || bytes == -EAGAIN); i++) {
        arrived += drain_server(&meeting, got, sizeof got);
        if (bytes == -EAGAIN)
            bytes = redis_tls_read(meeting.session, heard, sizeof heard);
        redis_tls_flush(meeting.session);
    }
    assert_int_equal(arrived, taken);
    assert_string_equal(heard, "word");
    assert_false(redis_tls_awaits_room(meeting.session));
    hear_word(&meeting);
    assert_int_equal(redis_tls_write(meeting.session, "done", 4), 4);
    assert_int_equal(drain_server(&meeting, got, sizeof got), 4);
}

/* Until the second has come there is nothing to read, however often one asks. */
static void write_in_two_pieces(struct pair *pair)
{
    char record[200], heard[100];
    BIO *out = BIO_new(BIO_s_mem());

    SSL_set0_wbio(pair->server, out);
    assert_int_equal(SSL_write(pair->server, "0123456789", 10), 10);
    int bytes = BIO_read(out, record, sizeof record);
    assert_true(bytes > 10);
    assert_int_equal(send(pair->fds[1], record, 10, 0), 10);
    assert_int_equal(redis_tls_read(pair->session, heard, sizeof heard), -EAGAIN);
    assert_false(redis_tls_has_more(pair->session));
    assert_true(redis_tls_is_drained(pair->session));
    assert_int_equal(send(pair->fds[1], record + 10, (size_t)bytes - 10, 0), bytes - 10);
    assert_int_equal(redis_tls_read(pair->session, heard, sizeof heard), 10);
}

TEST(what_lies_in_openssl_is_known_and_a_piece_of_a_record_is_no_reason_to_ask_again)
{
    char heard[100];

    meet(TLS1_3_VERSION);
    hear_word(&meeting);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(SSL_write(meeting.server, "0123456789", 10), 10);
    assert_int_equal(redis_tls_read(meeting.session, heard, 10), 10);
    assert_true(redis_tls_has_more(meeting.session));
    assert_false(redis_tls_is_drained(meeting.session));
    assert_int_equal(redis_tls_read(meeting.session, heard, 10), 10);
    assert_int_equal(redis_tls_read(meeting.session, heard, 10), 10);
    assert_true(redis_tls_is_drained(meeting.session));
    assert_int_equal(redis_tls_read(meeting.session, heard, 10), -EAGAIN);
    assert_false(redis_tls_has_more(meeting.session));
    write_in_two_pieces(&meeting);
}

/* ---- the host's errors ---- */

/* The oldest error in the queue is the host's: as if the handshake had been refused. */
static unsigned long leave_error(void)
{
    ERR_put_error(ERR_LIB_SSL, 0, SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE, "host", 1);
    return ERR_peek_error();
}

/* One connection fails by what it hears, the other ends. */
static void expect_own_reason(bool ends)
{
    char heard[8];

    begin_pair(&meeting, context, "localhost");
    assert_int_equal(shake_hands(&meeting), 0);
    hear_word(&meeting);
    unsigned long error = leave_error();
    assert_int_equal(redis_tls_read(meeting.session, heard, sizeof heard), -EAGAIN);
    assert_int_equal(redis_tls_write(meeting.session, "word", 4), 4);
    if (ends)
        shutdown(meeting.fds[1], SHUT_WR);
    else
        assert_int_equal(send(meeting.fds[1], "\x17\x03\x03\x00\x18 nobody has encrypted this", 29, 0), 29);
    assert_int_equal(redis_tls_read(meeting.session, heard, sizeof heard), ends ? 0 : -EPROTO);
    assert_string_equal(redis_tls_why(meeting.session),
                        ends ? "" : "TLS: decryption failed or bad record mac");
    assert_int_equal(ERR_get_error(), error);
    assert_int_equal(ERR_get_error(), 0);
    end_pair(&meeting);
    meeting.server = NULL;
}

TEST(what_the_host_has_in_openssls_queue_is_neither_taken_for_ours_nor_lost)
{
    open_both(TLS1_3_VERSION);
    expect_own_reason(false);
    expect_own_reason(true);
}

/* OpenSSL empties the queue itself in a handshake: what stands there before does not matter, and nothing is left. */
TEST(a_handshake_fails_for_its_own_reason_and_leaves_no_error)
{
    int done = -EAGAIN;

    open_both(TLS1_3_VERSION);
    begin_pair(&meeting, context, "other.example");
    for (unsigned i = 0; i < STEPS_MOST && done == -EAGAIN; i++) {
        SSL_do_handshake(meeting.server);
        leave_error();
        done = redis_tls_shake_hands(meeting.session);
    }
    assert_int_equal(done, -EPROTO);
    assert_non_null(strstr(redis_tls_why(meeting.session), "another name than \"other.example\""));
    assert_int_equal(ERR_get_error(), 0);
}

/* ---- many threads ---- */

struct worker {
    pthread_t thread;
    unsigned failed;
    atomic_bool saw_change;
};

static atomic_bool is_mended;

/* Until it has been told that the files are of no use, and then, once they are mended, no longer. */
static void *connect_again_and_again(void *argument)
{
    struct worker *worker = argument;

    for (bool done = false; !done;) {
        struct pair own;
        char heard[8];
        bool mended = atomic_load(&is_mended);

        begin_pair(&own, context, "localhost");
        worker->failed += shake_hands(&own) != 0 || SSL_write(own.server, "word", 4) != 4 ||
                          redis_tls_read(own.session, heard, sizeof heard) != 4;
        if (redis_tls_remark(own.session)[0] != '\0')
            atomic_store(&worker->saw_change, true);
        else
            done = mended && atomic_load(&worker->saw_change);
        end_pair(&own);
    }
    return NULL;
}

static void put_authority(const char *from)
{
    char command[512], text[256];

    snprintf(command, sizeof command, "cp %s %s/new && mv %s/new %s/used.pem", from, files.folder,
             files.folder, files.folder);
    assert_true(proc_output(command, text, sizeof text));
}

TEST(threads_share_files_that_break_and_are_mended)
{
    struct worker workers[THREADS] = {{.failed = 0}};
    char path[CERTIFICATES_PATH_BYTES];

    put_authority(files.ca);
    snprintf(settings.ca, sizeof settings.ca, "%s", stack_certificates_path(&files, "used.pem", path));
    open_both(TLS1_3_VERSION);
    put_authority(stack_certificates_path(&files, "settings", path));
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&workers[i].thread, NULL, connect_again_and_again, &workers[i]), 0);
    for (size_t i = 0; i < THREADS; i++)
        while (!atomic_load(&workers[i].saw_change))
            poll(NULL, 0, 1);
    put_authority(files.ca);
    atomic_store(&is_mended, true);
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        assert_int_equal(workers[i].failed, 0);
    }
}

TEST_GROUP(.up = issue_files, .down = remove_files, .end = end_all);

/* SPDX-License-Identifier: MIT */
/*
 * tls_session_test.c - one session of redis/tls.h with OpenSSL's own server at the other end, which does what no
 * Redis would do when it is asked to. No sockets: the test carries the bytes.
 */
#include "guard/redis/tls.h"
#include "tests/support/stack_certificates.h"
#include "tests/support/test.h"
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* One connection: ours, and OpenSSL's server. */
struct pair {
    struct redis_tls_session *session;
    SSL *server;    /* its context lives as long */
    BIO *to, *from; /* the server's */
};

/* Those of the test. */
static SSL_CTX *context;
static struct redis_tls *tls;
static struct pair joined;

static void use_certificate(const char *certificate, const char *key)
{
    char path[CERTIFICATES_PATH_BYTES];

    stack_certificates_path(&files, certificate, path);
    assert_int_equal(SSL_CTX_use_certificate_chain_file(context, path), 1);
    stack_certificates_path(&files, key, path);
    assert_int_equal(SSL_CTX_use_PrivateKey_file(context, path, SSL_FILETYPE_PEM), 1);
}

static void open_ends(int version)
{
    struct guard_error error;

    context = SSL_CTX_new(TLS_server_method());
    assert_non_null(context);
    SSL_CTX_set_min_proto_version(context, version);
    SSL_CTX_set_max_proto_version(context, version);
    if (version < TLS1_2_VERSION)
        SSL_CTX_set_security_level(context, 0);
    use_certificate("server.pem", "server.key");
    SSL_CTX_set_session_id_context(context, (const unsigned char *)"test", 4);
    tls = redis_tls_open(&settings, &error);
    if (tls == NULL)
        fail_msg("%s", error.text);
}

static void close_ends(void)
{
    redis_tls_close(&tls);
    SSL_CTX_free(context);
}

static void begin_pair(struct pair *pair, const char *host)
{
    char why[REDIS_WHY_SIZE];

    pair->session = redis_tls_begin(tls, host, why);
    assert_non_null(pair->session);
    pair->server = SSL_new(context);
    pair->to = BIO_new(BIO_s_mem());
    pair->from = BIO_new(BIO_s_mem());
    SSL_set_bio(pair->server, pair->to, pair->from);
    SSL_set_accept_state(pair->server);
}

/* What is due goes to the server. */
static void carry_there(struct pair *pair)
{
    const char *data;

    for (size_t bytes; (bytes = redis_tls_due(pair->session, &data)) > 0;) {
        size_t piece = bytes < 1000 ? bytes : 1000;
        assert_int_equal(BIO_write(pair->to, data, (int)piece), piece);
        redis_tls_gone(pair->session, piece);
    }
}

/* And back, at most so many bytes. */
static size_t carry_back(struct pair *pair, size_t most)
{
    char data[4096];
    int bytes = BIO_read(pair->from, data, most < sizeof data ? (int)most : (int)sizeof data);

    if (bytes <= 0)
        return 0;
    assert_true(redis_tls_take(pair->session, data, (size_t)bytes));
    return (size_t)bytes;
}

/* Both, until ours is done or has failed. */
static int shake_hands(struct pair *pair)
{
    int ours = -EAGAIN;

    for (unsigned i = 0; i < STEPS_MOST && ours == -EAGAIN; i++) {
        ours = redis_tls_shake_hands(pair->session);
        carry_there(pair);
        SSL_do_handshake(pair->server);
        carry_back(pair, SIZE_MAX);
    }
    ERR_clear_error();
    return ours;
}

static void end_pair(struct pair *pair)
{
    redis_tls_end(&pair->session);
    SSL_free(pair->server);
}

static void connect_ends(int version)
{
    open_ends(version);
    begin_pair(&joined, "localhost");
    assert_int_equal(shake_hands(&joined), 0);
}

static void disconnect_ends(void)
{
    end_pair(&joined);
    close_ends();
}

/* As its socket does it. */
static ssize_t hear(struct pair *pair, char *heard, size_t size)
{
    ssize_t got;

    do
        got = redis_tls_read(pair->session, heard, size);
    while (got == -EAGAIN && carry_back(pair, SIZE_MAX) > 0);
    return got;
}

/* The server says a word, and ours hears it. */
static void hear_word(struct pair *pair)
{
    char heard[8] = "";

    assert_int_equal(SSL_write(pair->server, "word", 4), 4);
    assert_int_equal(hear(pair, heard, sizeof heard), 4);
    assert_string_equal(heard, "word");
    assert_int_equal(hear(pair, heard, sizeof heard), -EAGAIN);
    assert_false(redis_tls_has_more(pair->session));
}

TEST(what_is_older_than_tls_1_2_is_refused)
{
    open_ends(TLS1_1_VERSION);
    begin_pair(&joined, "localhost");
    assert_int_equal(shake_hands(&joined), -EPROTO);
    assert_string_equal(joined.session->why, "TLS: the server speaks no TLS 1.2 or later");
}

TEST(a_server_that_wants_to_negotiate_again_is_not_followed)
{
    char heard[8];

    connect_ends(TLS1_2_VERSION);
    assert_int_equal(SSL_renegotiate(joined.server), 1);
    SSL_do_handshake(joined.server);
    assert_int_equal(hear(&joined, heard, sizeof heard), -EAGAIN);
    carry_there(&joined);
    SSL_read(joined.server, heard, sizeof heard);
    assert_int_equal(ERR_GET_REASON(ERR_peek_last_error()), SSL_R_NO_RENEGOTIATION);
    ERR_clear_error();
}

TEST(a_goodbye_is_the_end)
{
    char heard[8];

    connect_ends(TLS1_3_VERSION);
    SSL_shutdown(joined.server);
    assert_int_equal(hear(&joined, heard, sizeof heard), 0);
    assert_string_equal(joined.session->why, "");
}

/* ---- what is due ---- */

/* The owner of what was taken may change its bytes: a limit that passes takes commands back. */
TEST(a_piece_that_the_socket_has_no_room_for_counts_as_written_and_arrives_as_it_was, P130)
{
    char sent[PIECE_BYTES], scratch[PIECE_BYTES], got[PIECE_BYTES];
    const char *due;

    for (size_t i = 0; i < sizeof sent; i++)
        sent[i] = (char)(i * 31 + i / 251);
    connect_ends(TLS1_3_VERSION);
    memcpy(scratch, sent, sizeof scratch);
    assert_int_equal(redis_tls_write(joined.session, scratch, sizeof scratch), sizeof scratch);
    memset(scratch, '!', sizeof scratch);
    assert_true(redis_tls_due(joined.session, &due) > sizeof sent);
    carry_there(&joined);
    assert_int_equal(redis_tls_due(joined.session, &due), 0);
    assert_int_equal(SSL_read(joined.server, got, sizeof got), sizeof got);
    assert_memory_equal(got, sent, sizeof got);
}

/* New keys are asked for while what was written has not gone: nothing is lost in either direction. */
TEST(keys_are_renewed_also_while_there_is_no_room)
{
    char heard[8] = "";
    const char *due;

    connect_ends(TLS1_3_VERSION);
    assert_int_equal(redis_tls_write(joined.session, "before", 6), 6);
    assert_int_equal(SSL_key_update(joined.server, SSL_KEY_UPDATE_REQUESTED), 1);
    assert_int_equal(SSL_write(joined.server, "word", 4), 4);
    size_t before = redis_tls_due(joined.session, &due);
    assert_int_equal(hear(&joined, heard, sizeof heard), 4);
    assert_string_equal(heard, "word");
    assert_int_equal(redis_tls_write(joined.session, "after", 5), 5);
    assert_true(redis_tls_due(joined.session, &due) > 2 * before);
    carry_there(&joined);
    assert_int_equal(SSL_read(joined.server, heard, sizeof heard), 6);
    assert_int_equal(SSL_read(joined.server, heard, sizeof heard), 5);
    hear_word(&joined);
}

TEST(what_lies_in_openssl_is_known_and_a_piece_of_a_record_is_no_reason_to_ask_again)
{
    char heard[100];

    connect_ends(TLS1_3_VERSION);
    hear_word(&joined);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(SSL_write(joined.server, "0123456789", 10), 10);
    carry_back(&joined, SIZE_MAX);
    for (unsigned i = 0; i < 3; i++) {
        assert_true(redis_tls_has_more(joined.session));
        assert_int_equal(redis_tls_read(joined.session, heard, 10), 10);
    }
    assert_false(redis_tls_has_more(joined.session));
    assert_int_equal(SSL_write(joined.server, "0123456789", 10), 10);
    assert_int_equal(carry_back(&joined, 10), 10);
    assert_int_equal(redis_tls_read(joined.session, heard, sizeof heard), -EAGAIN);
    assert_false(redis_tls_has_more(joined.session));
    carry_back(&joined, SIZE_MAX);
    assert_int_equal(redis_tls_read(joined.session, heard, sizeof heard), 10);
}

/* ---- the host's errors ---- */

/* The oldest error in the queue is the host's: as if the handshake had been refused. */
static unsigned long leave_error(void)
{
    ERR_put_error(ERR_LIB_SSL, 0, SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE, "host", 1);
    return ERR_peek_error();
}

/* OpenSSL empties the queue itself in a handshake: what stands there before does not matter, and nothing is left. */
TEST(a_handshake_fails_for_its_own_reason_and_leaves_no_error)
{
    int done = -EAGAIN;

    open_ends(TLS1_3_VERSION);
    begin_pair(&joined, "other.example");
    for (unsigned i = 0; i < STEPS_MOST && done == -EAGAIN; i++) {
        SSL_do_handshake(joined.server);
        carry_back(&joined, SIZE_MAX);
        leave_error();
        done = redis_tls_shake_hands(joined.session);
        carry_there(&joined);
    }
    assert_int_equal(done, -EPROTO);
    assert_non_null(strstr(joined.session->why, "another name than \"other.example\""));
    assert_int_equal(ERR_get_error(), 0);
}

TEST_GROUP(.up = issue_files, .end = disconnect_ends);

/* One connection fails by what it hears, the other ends. */
static void expect_own_reason(bool ends)
{
    char heard[8];

    connect_ends(TLS1_3_VERSION);
    hear_word(&joined);
    unsigned long error = leave_error();
    assert_int_equal(redis_tls_read(joined.session, heard, sizeof heard), -EAGAIN);
    assert_int_equal(redis_tls_write(joined.session, "word", 4), 4);
    if (ends)
        SSL_shutdown(joined.server);
    else
        assert_true(redis_tls_take(joined.session, "\x17\x03\x03\x00\x18 nobody has encrypted this", 29));
    assert_int_equal(hear(&joined, heard, sizeof heard), ends ? 0 : -EPROTO);
    assert_string_equal(joined.session->why, ends ? "" : "TLS: decryption failed or bad record mac");
    assert_int_equal(ERR_get_error(), error);
    assert_int_equal(ERR_get_error(), 0);
    disconnect_ends();
}

TEST(what_the_host_has_in_openssls_queue_is_neither_taken_for_ours_nor_lost, P130)
{
    expect_own_reason(false);
    expect_own_reason(true);
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

        begin_pair(&own, "localhost");
        worker->failed += shake_hands(&own) != 0 || SSL_write(own.server, "word", 4) != 4 ||
                          hear(&own, heard, sizeof heard) != 4;
        if (own.session->remark[0] != '\0')
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

TEST(threads_share_files_that_break_and_are_mended, P131)
{
    struct worker workers[THREADS] = {{.failed = 0}};
    char path[CERTIFICATES_PATH_BYTES];

    put_authority(files.ca);
    snprintf(settings.ca, sizeof settings.ca, "%s", stack_certificates_path(&files, "used.pem", path));
    open_ends(TLS1_3_VERSION);
    put_authority(stack_certificates_path(&files, "settings", path));
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&workers[i].thread, NULL, connect_again_and_again, &workers[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++)
        while (!atomic_load(&workers[i].saw_change))
            poll(NULL, 0, 1);
    put_authority(files.ca);
    atomic_store(&is_mended, true);
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        assert_int_equal(workers[i].failed, 0);
    }
    close_ends();
}

TEST_GROUP(.down = remove_files);

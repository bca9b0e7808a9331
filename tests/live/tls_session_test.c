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

static void use_certificate(SSL_CTX *context, const char *certificate, const char *key)
{
    char path[CERTIFICATES_PATH_BYTES];

    stack_certificates_path(&files, certificate, path);
    assert_int_equal(SSL_CTX_use_certificate_chain_file(context, path), 1);
    stack_certificates_path(&files, key, path);
    assert_int_equal(SSL_CTX_use_PrivateKey_file(context, path, SSL_FILETYPE_PEM), 1);
}

static SSL_CTX *server_context(int version)
{
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());

    assert_non_null(context);
    SSL_CTX_set_min_proto_version(context, version);
    SSL_CTX_set_max_proto_version(context, version);
    if (version < TLS1_2_VERSION)
        SSL_CTX_set_security_level(context, 0);
    use_certificate(context, "server.pem", "server.key");
    SSL_CTX_set_session_id_context(context, (const unsigned char *)"test", 4);
    return context;
}

static struct redis_tls *open_tls(void)
{
    struct guard_error error;
    struct redis_tls *tls = redis_tls_open(&settings, &error);

    if (tls == NULL)
        fail_msg("%s", error.text);
    return tls;
}

static void begin_pair(struct pair *pair, struct redis_tls *tls, SSL_CTX *context, const char *host)
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
    SSL_CTX *context = server_context(TLS1_1_VERSION);
    struct redis_tls *tls = open_tls();
    struct pair pair;

    begin_pair(&pair, tls, context, "localhost");
    assert_int_equal(shake_hands(&pair), -EPROTO);
    assert_string_equal(redis_tls_why(pair.session), "TLS: the server speaks no TLS 1.2 or later");
    end_pair(&pair);
    redis_tls_close(&tls);
    SSL_CTX_free(context);
}

TEST(a_server_that_wants_to_negotiate_again_is_not_followed)
{
    SSL_CTX *context = server_context(TLS1_2_VERSION);
    struct redis_tls *tls = open_tls();
    struct pair pair;
    char heard[8];

    begin_pair(&pair, tls, context, "localhost");
    assert_int_equal(shake_hands(&pair), 0);
    assert_int_equal(SSL_renegotiate(pair.server), 1);
    SSL_do_handshake(pair.server);
    assert_int_equal(hear(&pair, heard, sizeof heard), -EAGAIN);
    carry_there(&pair);
    SSL_read(pair.server, heard, sizeof heard);
    assert_int_equal(ERR_GET_REASON(ERR_peek_last_error()), SSL_R_NO_RENEGOTIATION);
    ERR_clear_error();
    end_pair(&pair);
    redis_tls_close(&tls);
    SSL_CTX_free(context);
}

TEST(a_goodbye_is_the_end)
{
    SSL_CTX *context = server_context(TLS1_3_VERSION);
    struct redis_tls *tls = open_tls();
    struct pair pair;
    char heard[8];

    begin_pair(&pair, tls, context, "localhost");
    assert_int_equal(shake_hands(&pair), 0);
    SSL_shutdown(pair.server);
    assert_int_equal(hear(&pair, heard, sizeof heard), 0);
    assert_string_equal(redis_tls_why(pair.session), "");
    end_pair(&pair);
    redis_tls_close(&tls);
    SSL_CTX_free(context);
}

/* ---- what is due ---- */

/* The owner of what was taken may change its bytes: a limit that passes takes commands back. */
TEST(a_piece_that_the_socket_has_no_room_for_counts_as_written_and_arrives_as_it_was, P130)
{
    SSL_CTX *context = server_context(TLS1_3_VERSION);
    struct redis_tls *tls = open_tls();
    struct pair pair;
    char sent[PIECE_BYTES], scratch[PIECE_BYTES], got[PIECE_BYTES];
    const char *due;

    for (size_t i = 0; i < sizeof sent; i++)
        sent[i] = (char)(i * 31 + i / 251);
    begin_pair(&pair, tls, context, "localhost");
    assert_int_equal(shake_hands(&pair), 0);
    memcpy(scratch, sent, sizeof scratch);
    assert_int_equal(redis_tls_write(pair.session, scratch, sizeof scratch), sizeof scratch);
    memset(scratch, '!', sizeof scratch);
    assert_true(redis_tls_due(pair.session, &due) > sizeof sent);
    carry_there(&pair);
    assert_int_equal(redis_tls_due(pair.session, &due), 0);
    assert_int_equal(SSL_read(pair.server, got, sizeof got), sizeof got);
    assert_memory_equal(got, sent, sizeof got);
    end_pair(&pair);
    redis_tls_close(&tls);
    SSL_CTX_free(context);
}

/* New keys are asked for while what was written has not gone: nothing is lost in either direction. */
TEST(keys_are_renewed_also_while_there_is_no_room)
{
    SSL_CTX *context = server_context(TLS1_3_VERSION);
    struct redis_tls *tls = open_tls();
    struct pair pair;
    char heard[8] = "";
    const char *due;

    begin_pair(&pair, tls, context, "localhost");
    assert_int_equal(shake_hands(&pair), 0);
    assert_int_equal(redis_tls_write(pair.session, "before", 6), 6);
    assert_int_equal(SSL_key_update(pair.server, SSL_KEY_UPDATE_REQUESTED), 1);
    assert_int_equal(SSL_write(pair.server, "word", 4), 4);
    size_t before = redis_tls_due(pair.session, &due);
    assert_int_equal(hear(&pair, heard, sizeof heard), 4);
    assert_string_equal(heard, "word");
    assert_int_equal(redis_tls_write(pair.session, "after", 5), 5);
    assert_true(redis_tls_due(pair.session, &due) > 2 * before);
    carry_there(&pair);
    assert_int_equal(SSL_read(pair.server, heard, sizeof heard), 6);
    assert_int_equal(SSL_read(pair.server, heard, sizeof heard), 5);
    hear_word(&pair);
    end_pair(&pair);
    redis_tls_close(&tls);
    SSL_CTX_free(context);
}

TEST(what_lies_in_openssl_is_known_and_a_piece_of_a_record_is_no_reason_to_ask_again)
{
    SSL_CTX *context = server_context(TLS1_3_VERSION);
    struct redis_tls *tls = open_tls();
    struct pair pair;
    char heard[100];

    begin_pair(&pair, tls, context, "localhost");
    assert_int_equal(shake_hands(&pair), 0);
    hear_word(&pair);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(SSL_write(pair.server, "0123456789", 10), 10);
    carry_back(&pair, SIZE_MAX);
    for (unsigned i = 0; i < 3; i++) {
        assert_true(redis_tls_has_more(pair.session));
        assert_int_equal(redis_tls_read(pair.session, heard, 10), 10);
    }
    assert_false(redis_tls_has_more(pair.session));
    assert_int_equal(SSL_write(pair.server, "0123456789", 10), 10);
    assert_int_equal(carry_back(&pair, 10), 10);
    assert_int_equal(redis_tls_read(pair.session, heard, sizeof heard), -EAGAIN);
    assert_false(redis_tls_has_more(pair.session));
    carry_back(&pair, SIZE_MAX);
    assert_int_equal(redis_tls_read(pair.session, heard, sizeof heard), 10);
    end_pair(&pair);
    redis_tls_close(&tls);
    SSL_CTX_free(context);
}

/* ---- the host's errors ---- */

/* The oldest error in the queue is the host's: as if the handshake had been refused. */
static unsigned long leave_error(void)
{
    ERR_put_error(ERR_LIB_SSL, 0, SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE, "host", 1);
    return ERR_peek_error();
}

/* One connection fails by what it hears, the other ends. */
static void expect_own_reason(struct redis_tls *tls, SSL_CTX *context, bool ends)
{
    struct pair pair;
    char heard[8];

    begin_pair(&pair, tls, context, "localhost");
    assert_int_equal(shake_hands(&pair), 0);
    hear_word(&pair);
    unsigned long error = leave_error();
    assert_int_equal(redis_tls_read(pair.session, heard, sizeof heard), -EAGAIN);
    assert_int_equal(redis_tls_write(pair.session, "word", 4), 4);
    if (ends)
        SSL_shutdown(pair.server);
    else
        assert_true(redis_tls_take(pair.session, "\x17\x03\x03\x00\x18 nobody has encrypted this", 29));
    assert_int_equal(hear(&pair, heard, sizeof heard), ends ? 0 : -EPROTO);
    assert_string_equal(redis_tls_why(pair.session), ends ? "" : "TLS: decryption failed or bad record mac");
    assert_int_equal(ERR_get_error(), error);
    assert_int_equal(ERR_get_error(), 0);
    end_pair(&pair);
}

TEST(what_the_host_has_in_openssls_queue_is_neither_taken_for_ours_nor_lost, P130)
{
    SSL_CTX *context = server_context(TLS1_3_VERSION);
    struct redis_tls *tls = open_tls();

    expect_own_reason(tls, context, false);
    expect_own_reason(tls, context, true);
    redis_tls_close(&tls);
    SSL_CTX_free(context);
}

/* OpenSSL empties the queue itself in a handshake: what stands there before does not matter, and nothing is left. */
TEST(a_handshake_fails_for_its_own_reason_and_leaves_no_error)
{
    SSL_CTX *context = server_context(TLS1_3_VERSION);
    struct redis_tls *tls = open_tls();
    struct pair pair;
    int done = -EAGAIN;

    begin_pair(&pair, tls, context, "other.example");
    for (unsigned i = 0; i < STEPS_MOST && done == -EAGAIN; i++) {
        SSL_do_handshake(pair.server);
        carry_back(&pair, SIZE_MAX);
        leave_error();
        done = redis_tls_shake_hands(pair.session);
        carry_there(&pair);
    }
    assert_int_equal(done, -EPROTO);
    assert_non_null(strstr(redis_tls_why(pair.session), "another name than \"other.example\""));
    assert_int_equal(ERR_get_error(), 0);
    end_pair(&pair);
    redis_tls_close(&tls);
    SSL_CTX_free(context);
}

/* ---- many threads ---- */

struct worker {
    pthread_t thread;
    struct redis_tls *tls;
    SSL_CTX *context;
    unsigned failed;
    atomic_bool saw_change;
};

static atomic_bool is_mended;

/* Until it has been told that the files are of no use, and then, once they are mended, no longer. */
static void *connect_again_and_again(void *argument)
{
    struct worker *worker = argument;

    for (bool done = false; !done;) {
        struct pair pair;
        char heard[8];
        bool mended = atomic_load(&is_mended);

        begin_pair(&pair, worker->tls, worker->context, "localhost");
        worker->failed += shake_hands(&pair) != 0 || SSL_write(pair.server, "word", 4) != 4 ||
                          hear(&pair, heard, sizeof heard) != 4;
        if (redis_tls_remark(pair.session)[0] != '\0')
            atomic_store(&worker->saw_change, true);
        else
            done = mended && atomic_load(&worker->saw_change);
        end_pair(&pair);
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
    SSL_CTX *context = server_context(TLS1_3_VERSION);

    put_authority(files.ca);
    snprintf(settings.ca, sizeof settings.ca, "%s", stack_certificates_path(&files, "used.pem", path));
    struct redis_tls *tls = open_tls();
    put_authority(stack_certificates_path(&files, "settings", path));
    for (size_t i = 0; i < THREADS; i++) {
        workers[i].tls = tls;
        workers[i].context = context;
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
    redis_tls_close(&tls);
    SSL_CTX_free(context);
}

TEST_GROUP(.up = issue_files, .down = remove_files);

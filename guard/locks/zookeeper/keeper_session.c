/* SPDX-License-Identifier: MIT */
/*
 * keeper_session.c - see keeper_session.h.
 *
 *     host's thread            our thread              the library's thread of callbacks
 *     keeper_open()  --------> zookeeper_init2()
 *     send()  ---------------------------------------> on_...(): into the box, wake
 *     on_wake(): out of it  <--------------------------'
 *     keeper_close() --------> zookeeper_close()
 *     on_wake(): `ended`  <----'
 *
 * Locking    `mutex` guards what is marked so. host_wake_send() is called under it, so that nobody wakes a host that
 *            has been left.
 * Lifetime   Two hold the session, the host's side until `closed` and our thread until it ends; the last one frees
 *            it.
 */
#include "keeper_session.h"
#include "../../base/clock.h"
#include "../../base/process.h"
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include <zookeeper/zookeeper.h>

/* A command from its sending until done(). */
struct keeper_sent {
    struct keeper_session *session;
    keeper_done *done; /* NULL: it was answered */
    void *context;
    int code;                        /* the library's */
    struct keeper_result result;     /* its `nodes` and `data` are owned */
    zoo_op_result_t op_result;       /* of a transaction */
    struct keeper_sent *prev, *next; /* all of the session: the host's side */
    struct keeper_sent *next_in_box; /* the mutex's */
};

struct keeper_change {
    struct keeper_change *next;
    char path[];
};

struct keeper_session {
    /* set at the beginning */
    struct guard_host *host;
    char *servers; /* owned */
    uint32_t session_ms;
    struct keeper_hooks hooks;

    /* under the mutex */
    pthread_mutex_t mutex;
    pthread_cond_t told; /* our thread, of close_wanted */
    unsigned holders;
    bool close_wanted, ended, is_left;
    struct keeper_box {
        struct keeper_sent *first, *last;
        struct keeper_change *changes;
        bool any_changed;
        unsigned connects;
        zhandle_t *handle; /* once it was heard of */
        int state;         /* of the library */
        uint32_t timeout_ms;
        int64_t id;
        const char *failed; /* there will be no handle: why */
    } box;

    /* the host's side */
    struct host_wake wake;
    struct host_timer limit;
    struct keeper_sent *sent;
    uint64_t last_us; /* when the last command was sent */
    enum keeper_state state;
    zhandle_t *handle; /* UP */
    unsigned connects;
    uint32_t timeout_ms;
    int64_t id;
    bool closing;
    struct host_told closer;
};

/* ---- what it is made of ---- */

static void free_sent(struct keeper_sent *sent)
{
    free(sent->result.nodes);
    free((char *)sent->result.data);
    free(sent);
}

static void free_changes(struct keeper_change *change)
{
    while (change != NULL) {
        struct keeper_change *next = change->next;
        free(change);
        change = next;
    }
}

static void free_session(struct keeper_session *session)
{
    struct keeper_sent *sent, *next;
    DL_FOREACH_SAFE (session->sent, sent, next)
        free_sent(sent);
    free_changes(session->box.changes);
    pthread_cond_destroy(&session->told);
    pthread_mutex_destroy(&session->mutex);
    free(session->servers);
    free(session);
}

/* The mutex is held, and is not any more. */
static void let_go_of_session(struct keeper_session *session)
{
    bool last = --session->holders == 0;
    pthread_mutex_unlock(&session->mutex);
    if (last)
        free_session(session);
}

/* ---- on the library's thread ---- */

static void swallow_log(const char *message)
{
    (void)message;
}

/* The mutex is held. */
static void wake_session(struct keeper_session *session)
{
    if (!session->is_left)
        host_wake_send(&session->wake);
}

static void put_sent(struct keeper_sent *sent, int code)
{
    struct keeper_session *session = sent->session;
    sent->code = code;
    pthread_mutex_lock(&session->mutex);
    if (session->box.last != NULL)
        session->box.last->next_in_box = sent;
    else
        session->box.first = sent;
    session->box.last = sent;
    wake_session(session);
    pthread_mutex_unlock(&session->mutex);
}

static void put_change(struct keeper_session *session, const char *path)
{
    size_t bytes = strlen(path) + 1;
    struct keeper_change *change = malloc(sizeof *change + bytes);
    if (change != NULL)
        memcpy(change->path, path, bytes);
    pthread_mutex_lock(&session->mutex);
    if (change != NULL)
        LL_PREPEND(session->box.changes, change);
    else
        session->box.any_changed = true;
    wake_session(session);
    pthread_mutex_unlock(&session->mutex);
}

static void put_state(struct keeper_session *session, zhandle_t *handle, int state)
{
    const clientid_t *id = zoo_client_id(handle);
    pthread_mutex_lock(&session->mutex);
    session->box.handle = handle;
    session->box.state = state;
    if (state == ZOO_CONNECTED_STATE) {
        session->box.connects++;
        session->box.timeout_ms = (uint32_t)zoo_recv_timeout(handle);
        session->box.id = id->client_id;
    }
    wake_session(session);
    pthread_mutex_unlock(&session->mutex);
}

static void on_event(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    if (type == ZOO_SESSION_EVENT)
        put_state(context, handle, state);
    else if (path != NULL)
        put_change(context, path);
}

static void keep_stat(struct keeper_sent *sent, const struct Stat *stat)
{
    if (stat == NULL)
        return;
    sent->result.czxid = (uint64_t)stat->czxid;
    sent->result.owner = stat->ephemeralOwner;
}

static void on_created(int code, const char *path, const struct Stat *stat, const void *context)
{
    struct keeper_sent *sent = (struct keeper_sent *)context;
    const char *name = code == ZOK && path != NULL ? strrchr(path, '/') : NULL;
    if (name != NULL && !keeper_node_parse(name + 1, &sent->result.node))
        sent->result.node.units = 0;
    keep_stat(sent, stat);
    put_sent(sent, code);
}

static void on_parent_created(int code, const char *path, const void *context)
{
    (void)path;
    put_sent((struct keeper_sent *)context, code == ZNODEEXISTS ? ZOK : code);
}

static void on_plain(int code, const void *context)
{
    put_sent((struct keeper_sent *)context, code);
}

static void on_stat(int code, const struct Stat *stat, const void *context)
{
    struct keeper_sent *sent = (struct keeper_sent *)context;
    if (code == ZOK)
        keep_stat(sent, stat);
    put_sent(sent, code);
}

static int keep_nodes(struct keeper_result *result, const struct String_vector *names)
{
    result->nodes = malloc(((size_t)names->count + 1) * sizeof *result->nodes);
    if (result->nodes == NULL)
        return ZSYSTEMERROR;
    for (int32_t i = 0; i < names->count; i++)
        result->count += keeper_node_parse(names->data[i], &result->nodes[result->count]);
    keeper_line_sort(result->nodes, result->count);
    return ZOK;
}

static void on_list(int code, const struct String_vector *names, const void *context)
{
    struct keeper_sent *sent = (struct keeper_sent *)context;
    if (code == ZOK && names != NULL)
        code = keep_nodes(&sent->result, names);
    put_sent(sent, code);
}

static void on_data(int code, const char *data, int bytes, const struct Stat *stat, const void *context)
{
    struct keeper_sent *sent = (struct keeper_sent *)context;
    if (code == ZOK && bytes > 0) {
        char *copy = malloc((size_t)bytes);
        if (copy != NULL)
            memcpy(copy, data, (size_t)bytes);
        sent->result.data = copy;
        sent->result.data_bytes = copy != NULL ? (size_t)bytes : 0;
    }
    keep_stat(sent, stat);
    put_sent(sent, code);
}

/* ---- our thread ---- */

static const char *why_no_handle(int error)
{
    if (error == EINVAL)
        return "zookeeper: the servers must be host:port,host:port[/chroot]";
    if (error == ENOMEM)
        return "zookeeper: no memory";
    return "zookeeper: none of the servers' names can be resolved";
}

/* The library asserts that it gets its threads: one that it does not get ends the process. */
static void *live_session(void *context)
{
    struct keeper_session *session = context;
    zhandle_t *handle =
        zookeeper_init2(session->servers, on_event, (int)session->session_ms, NULL, session, 0, swallow_log);
    int error = errno;
    pthread_mutex_lock(&session->mutex);
    if (handle == NULL) {
        session->box.failed = why_no_handle(error);
        wake_session(session);
    }
    while (!session->close_wanted)
        pthread_cond_wait(&session->told, &session->mutex);
    pthread_mutex_unlock(&session->mutex);
    if (handle != NULL)
        zookeeper_close(handle);
    pthread_mutex_lock(&session->mutex);
    session->ended = true;
    wake_session(session);
    let_go_of_session(session);
    return NULL;
}

/* ---- out of the box ---- */

static bool is_lost_code(int code)
{
    return code == ZCONNECTIONLOSS || code == ZOPERATIONTIMEOUT || code == ZCLOSING ||
           code == ZSESSIONEXPIRED || code == ZSESSIONMOVED || code == ZINVALIDSTATE ||
           code == ZSYSTEMERROR || code == ZTHROTTLEDOP || code == ZMARSHALLINGERROR;
}

static const char *why_denied(int code)
{
    if (code == ZNOAUTH || code == ZAUTHFAILED)
        return "zookeeper: the access list of the nodes above forbids it";
    if (code == ZUNIMPLEMENTED)
        return "zookeeper: its servers know no containers; 3.5 or later is needed";
    return zerror(code);
}

static void judge_code(struct keeper_result *result, int code)
{
    if (code == ZOK) {
        result->outcome = KEEPER_DONE;
    } else if (code == ZNONODE) {
        result->outcome = KEEPER_NO_NODE;
        result->why = "zookeeper: there is no such node";
    } else if (is_lost_code(code)) {
        result->outcome = KEEPER_UNSURE;
        result->why = "zookeeper: the connection was lost";
    } else {
        result->outcome = KEEPER_DENIED;
        result->why = why_denied(code);
    }
}

static void finish_sent(struct keeper_session *session, struct keeper_sent *sent)
{
    keeper_done *done = sent->done;
    sent->done = NULL;
    judge_code(&sent->result, sent->code);
    if (done != NULL)
        done(sent->context, &sent->result);
    DL_DELETE(session->sent, sent);
    free_sent(sent);
}

/* What the library still has of them is not looked at. */
static void answer_all_unsure(struct keeper_session *session)
{
    struct keeper_sent *sent;
    DL_FOREACH (session->sent, sent) {
        keeper_done *done = sent->done;
        const struct keeper_result unsure = {.outcome = KEEPER_UNSURE,
                                             .why = "zookeeper: the session is closed",
                                             .sent_us = sent->result.sent_us};
        sent->done = NULL;
        if (done != NULL)
            done(sent->context, &unsure);
    }
}

static void tell_changes(struct keeper_session *session, const struct keeper_box *box)
{
    const struct keeper_change *change;
    if (box->any_changed && !session->closing)
        session->hooks.changed(session->hooks.context, NULL);
    LL_FOREACH (box->changes, change) {
        if (!session->closing)
            session->hooks.changed(session->hooks.context, change->path);
    }
}

static void move_session(struct keeper_session *session, enum keeper_state state, const char *why)
{
    if (session->closing || session->state == KEEPER_OVER ||
        (state == KEEPER_AWAY && session->state == state))
        return;
    session->state = state;
    session->hooks.state(session->hooks.context, state, why);
}

static void tell_state(struct keeper_session *session, const struct keeper_box *box)
{
    if (box->failed != NULL) {
        move_session(session, KEEPER_OVER, box->failed);
    } else if (box->state == ZOO_EXPIRED_SESSION_STATE) {
        move_session(session, KEEPER_OVER, "zookeeper: the session has expired");
    } else if (box->state == ZOO_AUTH_FAILED_STATE) {
        move_session(session, KEEPER_OVER, "zookeeper: authentication failed");
    } else if (box->state != ZOO_CONNECTED_STATE) {
        move_session(session, KEEPER_AWAY, "zookeeper: the connection was lost");
    } else if (box->connects != session->connects) {
        session->handle = box->handle;
        session->connects = box->connects;
        session->timeout_ms = box->timeout_ms;
        session->id = box->id;
        move_session(session, KEEPER_UP, NULL);
    }
}

static void leave_session(struct keeper_session *session)
{
    struct host_told told = session->closer;
    pthread_mutex_lock(&session->mutex);
    session->is_left = true;
    pthread_mutex_unlock(&session->mutex);
    host_wake_clear(&session->wake);
    host_timer_stop(session->host, &session->limit);
    pthread_mutex_lock(&session->mutex);
    let_go_of_session(session);
    host_tell(told);
}

/* What is called may close the session, which is left only from here or by its limit. */
static void on_wake(void *context)
{
    struct keeper_session *session = context;
    pthread_mutex_lock(&session->mutex);
    const struct keeper_box box = session->box;
    bool ended = session->ended;
    session->box.first = session->box.last = NULL;
    session->box.changes = NULL;
    session->box.any_changed = false;
    pthread_mutex_unlock(&session->mutex);
    for (struct keeper_sent *sent = box.first, *next = NULL; sent != NULL; sent = next) {
        next = sent->next_in_box;
        finish_sent(session, sent);
    }
    tell_changes(session, &box);
    free_changes(box.changes);
    tell_state(session, &box);
    if (ended)
        leave_session(session);
}

static void on_limit(void *context)
{
    leave_session(context);
}

/* ---- beginning and end ---- */

struct keeper_session *keeper_open(const struct keeper_config *config)
{
    struct keeper_session *session = calloc(1, sizeof *session);
    char *servers = strdup(config->servers);
    if (session == NULL || servers == NULL) {
        free(session);
        free(servers);
        return NULL;
    }
    session->host = config->host;
    session->servers = servers;
    session->session_ms = config->session_ms;
    session->hooks = config->hooks;
    session->holders = 2;
    session->state = KEEPER_AWAY;
    session->limit = (struct host_timer){.run = on_limit, .context = session};
    pthread_mutex_init(&session->mutex, NULL);
    pthread_cond_init(&session->told, NULL);
    host_wake_init(session->host, &session->wake, on_wake, session);
    /* The library's threads, which it starts, have its signal mask. */
    pthread_t thread;
    if (thread_begin(&thread, live_session, session) == 0) {
        pthread_detach(thread);
        return session;
    }
    host_wake_clear(&session->wake);
    free_session(session);
    return NULL;
}

void keeper_close(struct keeper_session *session, uint32_t limit_ms, void (*closed)(void *context),
                  void *context)
{
    assert(!session->closing);
    session->closing = true;
    session->closer = (struct host_told){closed, context};
    host_timer_set(session->host, &session->limit, clock_now_us() + (uint64_t)limit_ms * 1000);
    pthread_mutex_lock(&session->mutex);
    session->close_wanted = true;
    pthread_cond_signal(&session->told);
    pthread_mutex_unlock(&session->mutex);
    answer_all_unsure(session);
}

uint32_t keeper_timeout_ms(const struct keeper_session *session)
{
    return session->timeout_ms;
}

int64_t keeper_id(const struct keeper_session *session)
{
    return session->id;
}

/* ---- commands ---- */

static struct keeper_sent *new_sent(struct keeper_session *session, keeper_done *done, void *context)
{
    struct keeper_sent *sent =
        session->state == KEEPER_UP && !session->closing ? calloc(1, sizeof *sent) : NULL;
    if (sent == NULL)
        return NULL;
    sent->session = session;
    sent->done = done;
    sent->context = context;
    uint64_t now_us = clock_now_us();
    session->last_us = now_us > session->last_us ? now_us : session->last_us + 1;
    sent->result.sent_us = session->last_us;
    DL_APPEND(session->sent, sent);
    return sent;
}

/* The library has taken it, or nothing of it. */
static bool was_sent(struct keeper_sent *sent, int code)
{
    if (code == ZOK)
        return true;
    DL_DELETE(sent->session->sent, sent);
    free_sent(sent);
    return false;
}

bool keeper_create_parent(struct keeper_session *session, const char *path, keeper_done *done, void *context)
{
    struct keeper_sent *sent = new_sent(session, done, context);
    return sent != NULL && was_sent(sent, zoo_acreate(session->handle, path, NULL, -1, &ZOO_OPEN_ACL_UNSAFE,
                                                      ZOO_CONTAINER, on_parent_created, sent));
}

bool keeper_create(struct keeper_session *session, const char *path, const char *data, keeper_done *done,
                   void *context)
{
    struct keeper_sent *sent = new_sent(session, done, context);
    return sent != NULL &&
           was_sent(sent, zoo_acreate2(session->handle, path, data, (int)strlen(data), &ZOO_OPEN_ACL_UNSAFE,
                                       ZOO_EPHEMERAL_SEQUENTIAL, on_created, sent));
}

bool keeper_delete(struct keeper_session *session, const char *path, keeper_done *done, void *context)
{
    struct keeper_sent *sent = new_sent(session, done, context);
    return sent != NULL && was_sent(sent, zoo_adelete(session->handle, path, -1, on_plain, sent));
}

bool keeper_prove(struct keeper_session *session, const char *path, keeper_done *done, void *context)
{
    zoo_op_t check;
    struct keeper_sent *sent = new_sent(session, done, context);
    if (sent == NULL)
        return false;
    zoo_check_op_init(&check, path, -1);
    return was_sent(sent, zoo_amulti(session->handle, 1, &check, &sent->op_result, on_plain, sent));
}

bool keeper_look_at(struct keeper_session *session, const char *path, keeper_done *done, void *context)
{
    struct keeper_sent *sent = new_sent(session, done, context);
    return sent != NULL && was_sent(sent, zoo_aexists(session->handle, path, 0, on_stat, sent));
}

static void on_synced(int code, const char *path, const void *context)
{
    (void)code;
    (void)path;
    (void)context;
}

/* If the first of the two is lost, so is the other. */
bool keeper_list(struct keeper_session *session, const char *path, bool fresh, bool watch, keeper_done *done,
                 void *context)
{
    struct keeper_sent *sent = new_sent(session, done, context);
    if (sent == NULL)
        return false;
    int code = fresh ? zoo_async(session->handle, path, on_synced, NULL) : ZOK;
    return was_sent(sent,
                    code != ZOK ? code : zoo_aget_children(session->handle, path, watch, on_list, sent));
}

bool keeper_read(struct keeper_session *session, const char *path, bool watch, keeper_done *done,
                 void *context)
{
    struct keeper_sent *sent = new_sent(session, done, context);
    return sent != NULL && was_sent(sent, zoo_aget(session->handle, path, watch, on_data, sent));
}

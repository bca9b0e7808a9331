/* SPDX-License-Identifier: MIT */
/*
 * proc.h - child processes and temporary folders that never outlive the program.
 *
 *     proc_start() ---> running ---> proc_stop(), proc_kill_tree(), proc_wait() ---> reaped, pid forgotten
 *                          |
 *                          +---> this program ends, however it ends ---> the janitor
 *
 * The first call starts a janitor: a small shell that is told which children and which folder exist. When
 * this program ends, be it by exit(), Ctrl-C or SIGKILL, the janitor's pipe closes; it signals the children
 * that are left, kills those that do not go, and removes the folder. Each child also asks the kernel to be
 * signalled when its parent dies.
 *
 * Threads: one at a time, and always the same: Linux delivers a parent's death when the *thread* that
 * started the child ends.
 * Errors: a function that fails says why on stderr.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { PROC_PATH_BYTES = 96 }; /* a folder's path; short enough for a Unix socket below it */

/* All texts are lent until proc_start() returns. */
struct proc_options {
    const char *const *argv;     /* argv[0] is looked up in PATH; ends with NULL */
    const char *const *settings; /* "NAME=value", over what is in our environment; ends with NULL; or NULL */
    const char *output_path;     /* stdout and stderr are appended here; NULL: discarded */
    const char *user;            /* run as this user; NULL: as ourselves */
    int end_signal;              /* sent when this program is gone; 0: SIGKILL */
    const int *descriptors;      /* of ours, which the child has as 3, 4, ...; or NULL */
    size_t descriptor_count;
};

/* First in main(). Of 0, 1 and 2 those that are closed become /dev/null: no connection is what somebody prints to,
 * and libuv aborts when it closes one. To write beyond the greatest size of a file, or to a connection that its other
 * side has ended, fails, and ends nothing; children have these signals as they were. */
void proc_begin(void);

/* A child in a process group of its own, without our other descriptors; -1 if it cannot be executed. */
pid_t proc_start(const struct proc_options *options);

/* Does the server take requests? Asked every few milliseconds. */
typedef bool proc_is_up(void *server);

/* The same, and waits until it is up; 0: it ended before, or was not up within the limit and is killed. */
pid_t proc_start_up(const struct proc_options *options, proc_is_up *is_up, void *server, uint32_t limit_ms);

/* True when the child ended within the limit: reaped, *status as waitpid() gives it (may be NULL). */
bool proc_wait(pid_t pid, uint32_t limit_ms, int *status);

/* Signals the child and waits; after limit_ms it is killed. False: it had to be, or was not ours. Sets 0. */
bool proc_stop(pid_t *pid, int signal, uint32_t limit_ms);

/* SIGSTOP to the process and all its descendants, in whatever process groups they are. Returns once all their threads
 * stand still, for a thread that was sent the signal still ends its system call. False: some have not within 10 s.
 * Of 0 there is nothing to do. */
bool proc_pause(pid_t pid);
void proc_resume(pid_t pid);

/* The same wait for one process that was sent, or sends itself, SIGSTOP. False: it has not stopped, or is gone. */
bool proc_wait_stopped(pid_t pid);

/* SIGKILL to the child and its descendants; returns when all of them are dead. Sets 0. */
void proc_kill_tree(pid_t *pid);

/* What the kernel says of any process; false: it is gone, or dead and only not reaped. */
struct proc_look {
    char name[32];
    char state; /* 'R', 'S', 'T', ...: proc(5) */
    pid_t parent;
};
bool proc_look(pid_t pid, struct proc_look *out);

/* The process and all its living descendants, itself first; how many, `most` at the most. */
size_t proc_family(pid_t pid, pid_t *pids, size_t most);

/* User and system time of all of them, by their CPU clocks: /proc/PID/stat counts in steps of 10 ms. */
uint64_t proc_cpu_us(pid_t pid);

/* A number of /proc/PID/status by its name: "VmRSS" (KiB), "Threads", ...; 0 if there is none. */
uint64_t proc_status(pid_t pid, const char *name);

/* Runs a command to its end, its output shown only if it fails. True: it exited with 0 within the limit. */
bool proc_run(const struct proc_options *options, uint32_t limit_ms);

/* What a shell command prints, stderr included, cut to fit. True: it exited with 0. */
bool proc_output(const char *command, char *text, size_t text_bytes);

/* Who servers that refuse root are run as: NULL when we are not root, otherwise postgres or nobody. */
const char *proc_plain_user(void);

/* A new empty folder, the given user's (NULL: ours), removed with everything below it when we end. */
bool proc_folder(const char *name, const char *user, char path[static PROC_PATH_BYTES]);

/* Removes a folder with everything below it. */
void proc_remove(const char *path);

/* Copies the end of a file to stderr, for the reason why a server did not start. */
void proc_show_tail(const char *path);

/*
 * From now on SIGINT, SIGTERM and SIGHUP end the program only after everything it started is gone; the
 * signal's own way of ending is kept.
 */
void proc_clean_on_signals(void);

/* SPDX-License-Identifier: MIT */
/* command.c - see command.h. */
#include "app/fleetlock/command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_CANNOT_RUN = 126, EXIT_NOT_FOUND = 127, EXIT_SIGNALLED = 128 };

/* ---- in the children: nothing but system calls, because the parent has threads ---- */

static _Noreturn void become(char **argv, pid_t parent, bool take_terminal)
{
    sigset_t none;
    setpgid(0, 0);
    if (take_terminal)
        tcsetpgrp(STDIN_FILENO, getpid()); /* SIGTTOU is still blocked */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(EXIT_CANNOT_RUN); /* it died before that */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvp(argv[0], argv);
    const int error = errno;
    dprintf(STDERR_FILENO, "fleetlock: %s: %s\n", argv[0], strerror(error));
    _exit(error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN);
}

static _Noreturn void keep(int pipe, pid_t group, int on_lost, uint32_t grace_ms)
{
    sigset_t all;
    char word;
    ssize_t bytes;
    struct timespec rest = {.tv_sec = grace_ms / 1000, .tv_nsec = (long)(grace_ms % 1000) * 1000000};
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setpgid(0, group);
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        close(fd); /* a reader of COMMAND's output must not wait for the keeper */
    while ((bytes = read(pipe, &word, 1)) < 0 && errno == EINTR)
        continue;
    if (bytes == 1)
        _exit(0);
    kill(-group, on_lost != 0 ? on_lost : SIGTERM);
    kill(-group, SIGCONT);
    while (nanosleep(&rest, &rest) != 0 && errno == EINTR)
        continue;
    kill(-group, SIGKILL);
    _exit(0);
}

/* ---- in the parent ---- */

static bool no_process(const char *what)
{
    fprintf(stderr, "fleetlock: %s: %s\n", what, strerror(errno));
    return false;
}

static bool start_keeper(struct command *command, int on_lost, uint32_t grace_ms)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return no_process("pipe");
    command->keeper = fork();
    if (command->keeper == 0) {
        close(ends[1]);
        keep(ends[0], command->pid, on_lost, grace_ms);
    }
    close(ends[0]);
    command->pipe = ends[1];
    if (command->keeper > 0)
        return true;
    command->keeper = 0;
    return no_process("fork");
}

bool command_start(struct command *command, char **argv, int on_lost, uint32_t grace_ms)
{
    const pid_t parent = getpid();
    *command = (struct command){.pipe = -1};
    command->has_terminal = isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp();
    fflush(NULL);
    command->pid = fork();
    if (command->pid == 0)
        become(argv, parent, command->has_terminal);
    if (command->pid < 0) {
        command->pid = 0;
        return no_process("fork");
    }
    setpgid(command->pid, command->pid); /* whichever of the two comes first */
    if (start_keeper(command, on_lost, grace_ms))
        return true;
    command_signal(command, SIGKILL);
    waitpid(command->pid, NULL, 0);
    command_finish(command);
    return false;
}

void command_signal(const struct command *command, int signal_number)
{
    kill(-command->pid, signal_number);
    if (signal_number != SIGKILL)
        kill(-command->pid, SIGCONT); /* one that was stopped hears of it */
}

void command_reap(struct command *command)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
        if (pid == command->keeper)
            command->keeper = 0;
        if (pid != command->pid)
            continue;
        if (WIFSTOPPED(status) && command->has_terminal)
            kill(-command->pid, SIGCONT);
        if (WIFSTOPPED(status))
            continue;
        command->is_over = true;
        command->status = WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_SIGNALLED + WTERMSIG(status);
    }
}

void command_finish(struct command *command)
{
    const char done = 'd';
    if (command->keeper > 0 && write(command->pipe, &done, 1) == 1)
        waitpid(command->keeper, NULL, 0);
    if (command->pipe >= 0)
        close(command->pipe);
    if (command->has_terminal)
        tcsetpgrp(STDIN_FILENO, getpgrp());
    command->pipe = -1;
    command->keeper = 0;
}

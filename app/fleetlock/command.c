/* SPDX-License-Identifier: MIT */
/* command.c - see command.h. */
#include "app/fleetlock/command.h"

#include "app/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_CANNOT_RUN = 126, EXIT_NOT_FOUND = 127, EXIT_SIGNALLED = 128, DESCRIPTORS_MAX = 1024 };

/* Those that were open when fleetlock began. */
static bool is_inherited[DESCRIPTORS_MAX];

void command_keep_descriptors(void)
{
    for (int fd = 0; fd < DESCRIPTORS_MAX; fd++)
        is_inherited[fd] = fcntl(fd, F_GETFD) >= 0;
}

/* ---- in the children: nothing but system calls, because the parent has threads ---- */

static void keep_ours_to_ourselves(void)
{
    for (int fd = STDERR_FILENO + 1; fd < DESCRIPTORS_MAX; fd++) {
        if (!is_inherited[fd])
            fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
}

/* Nobody would end COMMAND if fleetlock were killed before there is a keeper: until then it does not begin. */
static bool is_let_go(const int gate[2])
{
    char none;
    ssize_t got;
    close(gate[1]);
    do
        got = read(gate[0], &none, 1);
    while (got < 0 && errno == EINTR);
    close(gate[0]);
    return got == 1;
}

static _Noreturn void become(char **argv, pid_t parent, const int gate[2], bool take_terminal, int on_lost)
{
    sigset_t none;
    setpgid(0, 0);
    if (take_terminal)
        tcsetpgrp(STDIN_FILENO, getpid()); /* SIGTTOU is still blocked */
    prctl(PR_SET_PDEATHSIG, on_lost);
    if (getppid() != parent || !is_let_go(gate))
        _exit(EXIT_CANNOT_RUN); /* it died before that */
    keep_ours_to_ourselves();
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvp(argv[0], argv);
    const int error = errno;
    dprintf(STDERR_FILENO, "fleetlock: %s: cannot be run: %s\n", argv[0], strerror(error));
    _exit(error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN);
}

static _Noreturn void keep(int pipe, const struct command *command, int on_lost, uint32_t grace_ms)
{
    const pid_t group = command->pid;
    sigset_t all;
    char none;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setpgid(0, group);
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        close(fd); /* a reader of COMMAND's output must not wait for the keeper */
    while (read(pipe, &none, 1) < 0 && errno == EINTR)
        continue;
    const uint64_t by_grace_ms = clock_boot_ms() + grace_ms, safe_ms = atomic_load(command->safe_ms);
    const uint64_t kill_ms = by_grace_ms < safe_ms ? by_grace_ms : safe_ms;
    const struct timespec end = {.tv_sec = (time_t)(kill_ms / 1000),
                                 .tv_nsec = (long)(kill_ms % 1000) * 1000000};
    kill(-group, on_lost);
    kill(-group, SIGCONT);
    while (clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &end, NULL) == EINTR)
        continue;
    kill(-group, SIGKILL);
    _exit(0);
}

/* ---- in the parent ---- */

static bool is_foreground(void)
{
    return tcgetpgrp(STDIN_FILENO) == getpgrp();
}

static bool no_process(const char *what)
{
    fprintf(stderr, "fleetlock: COMMAND was not started: %s: %s\n", what, strerror(errno));
    return false;
}

static bool start_keeper(struct command *command, const int gate[2], int on_lost, uint32_t grace_ms)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return no_process("no pipe to what watches over COMMAND");
    command->keeper = fork();
    if (command->keeper == 0) {
        close(ends[1]);
        close(gate[1]); /* of a parent that dies now COMMAND must hear */
        keep(ends[0], command, on_lost, grace_ms);
    }
    close(ends[0]);
    command->pipe = ends[1];
    if (command->keeper > 0)
        return true;
    command->keeper = 0;
    return no_process("no process to watch over COMMAND");
}

static void shut(const int ends[2])
{
    close(ends[0]);
    close(ends[1]);
}

bool command_start(struct command *command, char **argv, uint64_t safe_ms, int on_lost, uint32_t grace_ms)
{
    const pid_t parent = getpid();
    const int told = on_lost != 0 ? on_lost : SIGTERM;
    int gate[2];
    *command = (struct command){.pipe = -1};
    command->safe_ms =
        mmap(NULL, sizeof *command->safe_ms, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (command->safe_ms == MAP_FAILED)
        return no_process("no memory for COMMAND");
    atomic_init(command->safe_ms, safe_ms);
    command->has_terminal = is_foreground() && isatty(STDOUT_FILENO) == 1;
    if (pipe2(gate, O_CLOEXEC) != 0)
        return no_process("no pipe to it");
    fflush(NULL);
    command->pid = fork();
    if (command->pid == 0)
        become(argv, parent, gate, command->has_terminal, told);
    if (command->pid < 0) {
        command->pid = 0;
        shut(gate);
        return no_process("no process for COMMAND");
    }
    setpgid(command->pid, command->pid); /* whichever of the two comes first */
    signal(SIGTSTP, SIG_IGN);            /* ^Z must not stop us while COMMAND runs */
    const bool kept = start_keeper(command, gate, told, grace_ms) && write(gate[1], "", 1) == 1;
    shut(gate);
    if (kept)
        return true;
    command_signal(command, SIGKILL);
    waitpid(command->pid, NULL, 0);
    command_finish(command);
    return false;
}

void command_signal(const struct command *command, int signal_number)
{
    kill(-command->pid, signal_number);
    if (signal_number != SIGKILL && signal_number != SIGSTOP)
        kill(-command->pid, SIGCONT); /* one that was stopped hears of it */
}

/* It is stopped because it asked for the terminal; or by its keyboard, and then goes on. */
static void go_on(struct command *command, int signal_number)
{
    if ((signal_number == SIGTTIN || signal_number == SIGTTOU) && is_foreground())
        command->has_terminal = tcsetpgrp(STDIN_FILENO, command->pid) == 0;
    if (command->has_terminal)
        kill(-command->pid, SIGCONT);
}

void command_reap(struct command *command)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
        if (pid == command->keeper && !WIFSTOPPED(status))
            command->keeper = 0;
        if (pid != command->pid)
            continue;
        if (WIFSTOPPED(status)) {
            go_on(command, WSTOPSIG(status));
            continue;
        }
        command->is_over = true;
        command->status = WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_SIGNALLED + WTERMSIG(status);
    }
}

void command_finish(struct command *command)
{
    if (command->keeper > 0 &&
        kill(command->keeper, SIGKILL) == 0) /* it may have been stopped with its group */
        waitpid(command->keeper, NULL, 0);
    if (command->pipe >= 0)
        close(command->pipe);
    if (command->has_terminal)
        tcsetpgrp(STDIN_FILENO, getpgrp());
    munmap(command->safe_ms, sizeof *command->safe_ms);
    command->safe_ms = NULL;
    command->pipe = -1;
    command->keeper = 0;
}

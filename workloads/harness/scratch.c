#define _GNU_SOURCE /* for setgroups and pipe2 */

#include "scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* What the keeper is told: a process has been started, or has ended, which is signal 0. */
struct notice {
    pid_t process;
    int stop;
};

/* Processes at one time. */
enum { MOST_PROCESSES = 8 };

/* What is asked to stop has so long until it is killed. */
enum { PATIENCE_MS = 10000 };

static char folder[PATH_MAX];
static int to_keeper = -1;
static pid_t keeper;

const char *scratch_folder(void) { return folder; }

static int remove_one(const char *path, const struct stat *about, int type, struct FTW *where) {
    (void)about, (void)type, (void)where;
    remove(path);
    return 0; /* the next one, whatever became of this */
}

static void sleep_ms(long ms) {
    const struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static void remove_folder(const char *path) {
    for (int i = 0; i < 50; i++) {
        nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
        if (access(path, F_OK) != 0)
            return;
        sleep_ms(100); /* something has still written there */
    }
}

static void update(struct notice *running, struct notice notice) {
    for (int i = 0; i < MOST_PROCESSES; i++)
        if (running[i].process == (notice.stop == 0 ? notice.process : 0)) {
            running[i] = notice.stop == 0 ? (struct notice){0} : notice;
            return;
        }
}

/* Whether a process has ended, even if nobody has asked for its exit code yet. */
static bool is_gone(pid_t process) {
    char path[32], state = 'Z';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return true;
    if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
        state = 'Z';
    fclose(file);
    return state == 'Z' || state == 'X';
}

/* The keeper, until the other end of its pipe is closed: by the program, or by its death. All
 * signals are blocked. */
__attribute__((noreturn)) static void keep(int notices) {
    struct notice running[MOST_PROCESSES] = {0}, notice;
    setsid(); /* whatever is sent to the group or the terminal is not for us */
    const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd <= 2; fd++)
        dup2(nowhere, fd);
    for (;;) {
        const ssize_t got = read(notices, &notice, sizeof notice);
        if (got == (ssize_t)sizeof notice)
            update(running, notice);
        else if (got >= 0 || errno != EINTR)
            break;
    }
    for (int i = 0; i < MOST_PROCESSES; i++)
        if (running[i].process != 0)
            kill(-running[i].process, running[i].stop);
    for (int waited = 0; waited < PATIENCE_MS; waited += 10) {
        bool all_ended = true;
        for (int i = 0; i < MOST_PROCESSES; i++)
            all_ended &= running[i].process == 0 || is_gone(running[i].process);
        if (all_ended)
            break;
        sleep_ms(10);
    }
    for (int i = 0; i < MOST_PROCESSES; i++)
        if (running[i].process != 0)
            kill(-running[i].process, SIGKILL);
    remove_folder(folder);
    _exit(0);
}

/* Becomes somebody other than root, for good. */
static bool become_unprivileged(char *why, size_t why_size) {
    if (geteuid() != 0)
        return true;
    const struct passwd *account = getpwnam("postgres");
    if (account == NULL)
        account = getpwnam("nobody");
    if (account == NULL) {
        snprintf(why, why_size,
                 "it can't run as root, and there is no account `postgres' or "
                 "`nobody' to run as");
        return false;
    }
    if (setgroups(0, NULL) != 0 || setgid(account->pw_gid) != 0 || setuid(account->pw_uid) != 0) {
        snprintf(why, why_size, "it can't run as root, and not become `%s': %m", account->pw_name);
        return false;
    }
    return true;
}

/* A folder is locked by its program and keeper while one of them lives. -1 when it is, or can't be.
 */
static int lock_folder(const char *path) {
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Not yet locked by whoever has just made it, as far as one can know. */
enum { NEW_FOR_S = 10 };

/* Removes what others of our account have left whose keepers were killed, too. */
static void remove_left(const char *parent, const char *name) {
    char pattern[PATH_MAX];
    glob_t found;
    struct stat about;
    snprintf(pattern, sizeof pattern, "%s/stayput-%s-??????", parent, name);
    if (glob(pattern, GLOB_NOSORT, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const char *const path = found.gl_pathv[i];
        const int lock = lock_folder(path);
        if (lock < 0)
            continue;
        if (fstat(lock, &about) == 0 && about.st_uid == geteuid() &&
            time(NULL) - about.st_mtime > NEW_FOR_S)
            remove_folder(path);
        close(lock);
    }
    globfree(&found);
}

bool scratch_open(const char *name, bool unprivileged, char *why, size_t why_size) {
    if (unprivileged && !become_unprivileged(why, why_size))
        return false;
    const char *parent = getenv("TMPDIR");
    if (parent == NULL || parent[0] != '/')
        parent = "/tmp";
    remove_left(parent, name);
    int notices[2];
    /* From the folder until its keeper, which is never interrupted. */
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    if (snprintf(folder, sizeof folder, "%s/stayput-%s-XXXXXX", parent, name) >=
            (int)sizeof folder ||
        mkdtemp(folder) == NULL) {
        snprintf(why, why_size, "no folder can be made in %s: %m", parent);
    } else {
        lock_folder(folder);
        if (pipe2(notices, O_CLOEXEC) == 0 && (keeper = fork()) >= 0) {
            if (keeper == 0) {
                close(notices[1]);
                keep(notices[0]);
            }
            close(notices[0]);
            to_keeper = notices[1];
        } else {
            snprintf(why, why_size, "no process can be started: %m");
            rmdir(folder);
        }
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    return to_keeper >= 0;
}

FILE *scratch_file(const char *name, const char *mode) {
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return fopen(path, mode);
}

pid_t scratch_start(const char *const *arguments, const char *log, int stop) {
    const pid_t parent = getpid(), child = fork();
    if (child != 0)
        return child;
    setpgid(0, 0);
    setenv("TMPDIR", folder, 1);
    /* Also when the keeper is killed with the program. */
    prctl(PR_SET_PDEATHSIG, stop);
    const struct notice notice = {getpid(), stop};
    if (getppid() != parent || write(to_keeper, &notice, sizeof notice) != (ssize_t)sizeof notice ||
        chdir(folder) != 0)
        _exit(127);
    const int in = open("/dev/null", O_RDONLY);
    const int out = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (in < 0 || out < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
        _exit(127);
    if (in > 2)
        close(in);
    if (out > 2)
        close(out);
    execvp(arguments[0], (char *const *)arguments);
    fprintf(stderr, "%s: %m\n", arguments[0]);
    _exit(127);
}

int scratch_wait(pid_t process) {
    siginfo_t ended;
    int status;
    if (process <= 0)
        return -1;
    /* The keeper is told while the number is still its own. */
    while (waitid(P_PID, (id_t)process, &ended, WEXITED | WNOWAIT) != 0)
        if (errno != EINTR)
            return -1;
    const struct notice notice = {process, 0};
    if (write(to_keeper, &notice, sizeof notice) != (ssize_t)sizeof notice ||
        waitpid(process, &status, 0) != process)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool scratch_ended(pid_t process) {
    siginfo_t ended = {0};
    return waitid(P_PID, (id_t)process, &ended, WEXITED | WNOWAIT | WNOHANG) != 0 ||
           ended.si_pid == process;
}

int scratch_run(const char *const *arguments, const char *log) {
    return scratch_wait(scratch_start(arguments, log, SIGKILL));
}

void scratch_last_line(const char *log, char *line, size_t size) {
    char read[1024];
    FILE *file = scratch_file(log, "re");
    snprintf(line, size, "it printed nothing");
    while (file != NULL && fgets(read, sizeof read, file) != NULL) {
        read[strcspn(read, "\n")] = '\0';
        if (read[0] != '\0')
            snprintf(line, size, "%s", read);
    }
    if (file != NULL)
        fclose(file);
}

void scratch_close(void) {
    close(to_keeper);
    while (waitpid(keeper, NULL, 0) < 0 && errno == EINTR)
        ;
}

bool scratch_on_path(const char *program, char *path, size_t size) {
    const char *list = getenv("PATH");
    for (const char *at = list == NULL ? "/usr/bin:/bin" : list; *at != '\0';) {
        const size_t length = strcspn(at, ":");
        if (snprintf(path, size, "%.*s/%s", (int)length, at, program) < (int)size &&
            access(path, X_OK) == 0)
            return true;
        at += length + (at[length] == ':');
    }
    return false;
}

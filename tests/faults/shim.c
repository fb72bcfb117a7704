/* Faults of a disk and of a machine, at the n-th change that a process makes beneath one root.

   Loaded with LD_PRELOAD. Every call that changes a file or a directory beneath the root is
   counted; `fault_arm` says at which one what goes wrong. With a journal, each change is also
   written down, so that a loss of power can be played out afterwards (see power.py). */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum mode {
    NONE,
    KILL_BEFORE,  /* SIGKILL, the change not made */
    KILL_HALF,    /* SIGKILL, half of what is written is */
    KILL_AFTER,   /* SIGKILL, the change made and nothing after it */
    FULL,         /* from here on the disk is full */
    FULL_ONCE,    /* the disk is full once */
    EIO_ONCE,     /* an input/output error */
    DEAD,         /* from here on every change is an input/output error */
    READ_ONLY,    /* from here on the file system is read-only */
    TERMINATE,    /* SIGTERM, as a scheduler sends it */
    BACKWARDS,    /* from here on the clock is a day behind */
    STOP,         /* SIGSTOP: somebody else goes first */
};

static enum mode mode = NONE;
static long at = -1, count = 0;
static int journal = -1, locks = 1;
static char root[4096] = "";

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

void fault_arm(int new_mode, long new_at, const char *new_root, int new_journal, int new_locks)
{
    mode = new_mode;
    at = new_at;
    count = 0;
    journal = new_journal;
    locks = new_locks;
    snprintf(root, sizeof root, "%s", new_root);
}

long fault_count(void) { return count; }

/* A process that cannot call us is told by its environment; its children are left alone. */
__attribute__((constructor)) static void begin(void)
{
    const char *where = getenv("FAULT_ROOT"), *owner = getenv("FAULT_OWNER");
    if (where == NULL || (owner != NULL && atol(owner) != (long)getpid())) return;
    char own[32];
    snprintf(own, sizeof own, "%ld", (long)getpid());
    setenv("FAULT_OWNER", own, 1);
    const char *what = getenv("FAULT_MODE"), *when = getenv("FAULT_AT");
    fault_arm(what ? atoi(what) : NONE, when ? atol(when) : -1, where, -1, 1);
}

__attribute__((destructor)) static void end(void)
{
    const char *report = getenv("FAULT_COUNT"), *owner = getenv("FAULT_OWNER");
    if (!report || !owner || atol(owner) != (long)getpid() || !root[0]) return;
    char text[32];
    int length = snprintf(text, sizeof text, "%ld", count);
    long fd = syscall(SYS_openat, AT_FDCWD, report, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd >= 0) {
        syscall(SYS_write, fd, text, length);
        syscall(SYS_close, fd);
    }
}

static int beneath(const char *path) { return root[0] && strncmp(path, root, strlen(root)) == 0; }

static int is_read_only(void) { return mode == READ_ONLY && root[0] && at >= 0 && count >= at; }

static int place(int directory, const char *path, char *full, size_t size)
{
    if (path[0] == '/') {
        snprintf(full, size, "%s", path);
    } else {
        char link[64], base[4096];
        ssize_t length;
        if (directory == AT_FDCWD) snprintf(link, sizeof link, "/proc/self/cwd");
        else snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
        length = readlink(link, base, sizeof base - 1);
        if (length < 0) return 0;
        base[length] = 0;
        snprintf(full, size, "%s/%s", base, path);
    }
    return beneath(full);
}

static int opened(int fd, char *full, size_t size)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, full, size - 1);
    if (length < 0) return 0;
    full[length] = 0;
    return beneath(full);
}

static void note(const char *what, const char *path, const char *other, long long size)
{
    if (journal < 0) return;
    char line[9000];
    int length = snprintf(line, sizeof line, "%s\t%s\t%s\t%lld\n", what, path, other, size);
    syscall(SYS_write, journal, line, length);
}

static void die(void)
{
    syscall(SYS_kill, getpid(), SIGKILL);
    for (;;) pause();
}

/* What to do about the next change: 0 nothing, else the errno to fail with; -1 for half a write. */
static int next_change(int allocates, int is_write)
{
    long here = count++;
    int now = here == at, since = at >= 0 && here >= at;
    switch (mode) {
    case KILL_BEFORE: if (now) die(); break;
    case KILL_HALF: if (now && is_write) return -1; break;
    case FULL: if (since && allocates) return now && is_write ? -1 : ENOSPC; break;
    case FULL_ONCE: if (now && allocates) return ENOSPC; break;
    case EIO_ONCE: if (now) return EIO; break;
    case DEAD: if (since) return EIO; break;
    case READ_ONLY: if (since) return EROFS; break;
    case TERMINATE: if (now) raise(SIGTERM); break;
    case STOP: if (now) raise(SIGSTOP); break;
    default: break;
    }
    return 0;
}

static void after_change(void)
{
    if ((mode == KILL_AFTER || mode == KILL_HALF) && count - 1 == at) die();
}

#define REFUSE(allocates)                          \
    int refusal = next_change(allocates, 0);       \
    if (refusal > 0) { errno = refusal; return -1; }

ssize_t write(int fd, const void *data, size_t length)
{
    char path[4096];
    if (!root[0] || !opened(fd, path, sizeof path)) return REAL(write)(fd, data, length);
    int refusal = next_change(1, 1);
    if (refusal > 0) { errno = refusal; return -1; }
    if (refusal < 0) length = length > 1 ? length / 2 : length;
    ssize_t done = REAL(write)(fd, data, length);
    struct stat about;
    fstat(fd, &about);
    note("write", path, "", about.st_size);
    if (refusal < 0 && mode == KILL_HALF) die();
    after_change();
    return done;
}

static int synced(int fd, int everything, int result)
{
    char path[4096];
    struct stat about;
    if (opened(fd, path, sizeof path) && result == 0) {
        fstat(fd, &about);
        note(everything ? "syncfs" : "fsync", path, S_ISDIR(about.st_mode) ? "d" : "f",
             about.st_size);
    }
    return result;
}

static int sync_of(int fd, int (*real)(int), int everything)
{
    char path[4096];
    if (!root[0] || !opened(fd, path, sizeof path)) return real(fd);
    REFUSE(0)
    /* What is durable is the journal's to say, so nothing waits for a real disk. */
    int result = synced(fd, everything, 0);
    after_change();
    return result;
}

int fsync(int fd) { return sync_of(fd, REAL(fsync), 0); }
int fdatasync(int fd) { return sync_of(fd, REAL(fdatasync), 0); }
int syncfs(int fd) { return sync_of(fd, REAL(syncfs), 1); }

static int cut(int fd, off64_t length)
{
    char path[4096];
    if (!root[0] || !opened(fd, path, sizeof path)) return syscall(SYS_ftruncate, fd, length);
    REFUSE(0)
    int result = syscall(SYS_ftruncate, fd, length);
    note("cut", path, "", length);
    after_change();
    return result;
}

int ftruncate(int fd, off_t length) { return cut(fd, length); }
int ftruncate64(int fd, off64_t length) { return cut(fd, length); }

static int open_at(int directory, const char *path, int flags, mode_t permissions)
{
    char full[8192];
    int changes = (flags & (O_CREAT | O_TRUNC)) != 0;
    int writes = (flags & O_ACCMODE) != O_RDONLY;
    if (writes && is_read_only() && place(directory, path, full, sizeof full)) {
        errno = EROFS;
        return -1;
    }
    if (!root[0] || !changes || !place(directory, path, full, sizeof full))
        return syscall(SYS_openat, directory, path, flags, permissions);
    int there = syscall(SYS_faccessat, directory, path, F_OK) == 0;
    if (there && !(flags & O_TRUNC))
        return syscall(SYS_openat, directory, path, flags, permissions);
    REFUSE(1)
    int result = syscall(SYS_openat, directory, path, flags, permissions);
    if (result >= 0) note(there ? "cut" : "create", full, "", 0);
    after_change();
    return result;
}

#define PERMISSIONS                          \
    mode_t permissions = 0;                  \
    if (flags & (O_CREAT | O_TMPFILE)) {     \
        va_list rest;                        \
        va_start(rest, flags);               \
        permissions = va_arg(rest, mode_t);  \
        va_end(rest);                        \
    }

int open(const char *path, int flags, ...)
{
    PERMISSIONS
    return open_at(AT_FDCWD, path, flags, permissions);
}

int open64(const char *path, int flags, ...)
{
    PERMISSIONS
    return open_at(AT_FDCWD, path, flags | O_LARGEFILE, permissions);
}

int openat(int directory, const char *path, int flags, ...)
{
    PERMISSIONS
    return open_at(directory, path, flags, permissions);
}

int openat64(int directory, const char *path, int flags, ...)
{
    PERMISSIONS
    return open_at(directory, path, flags | O_LARGEFILE, permissions);
}

static int one_name(const char *what, int directory, const char *path, int allocates,
                    long (*real)(int, const char *, long), long argument)
{
    char full[8192];
    if (!root[0] || !place(directory, path, full, sizeof full))
        return real(directory, path, argument);
    REFUSE(allocates)
    int result = real(directory, path, argument);
    if (result == 0) note(what, full, "", 0);
    after_change();
    return result;
}

static long real_mkdir(int directory, const char *path, long permissions)
{
    return syscall(SYS_mkdirat, directory, path, permissions);
}

static long real_unlink(int directory, const char *path, long flags)
{
    return syscall(SYS_unlinkat, directory, path, flags);
}

int mkdir(const char *path, mode_t permissions)
{
    return one_name("mkdir", AT_FDCWD, path, 1, real_mkdir, permissions);
}

int mkdirat(int directory, const char *path, mode_t permissions)
{
    return one_name("mkdir", directory, path, 1, real_mkdir, permissions);
}

int unlink(const char *path) { return one_name("gone", AT_FDCWD, path, 0, real_unlink, 0); }
int rmdir(const char *path) { return one_name("gone", AT_FDCWD, path, 0, real_unlink, AT_REMOVEDIR); }

int unlinkat(int directory, const char *path, int flags)
{
    return one_name("gone", directory, path, 0, real_unlink, flags);
}

static int two_names(const char *what, const char *from, const char *to, long number)
{
    char full[8192], other[8192];
    if (!root[0] || !place(AT_FDCWD, to, full, sizeof full))
        return number == SYS_symlinkat ? syscall(number, from, AT_FDCWD, to)
                                       : syscall(number, AT_FDCWD, from, AT_FDCWD, to, 0);
    REFUSE(1)
    place(AT_FDCWD, from, other, sizeof other);
    int result = number == SYS_symlinkat ? syscall(number, from, AT_FDCWD, to)
                                         : syscall(number, AT_FDCWD, from, AT_FDCWD, to, 0);
    if (result == 0) note(what, full, other, 0);
    after_change();
    return result;
}

int rename(const char *from, const char *to)
{
    return two_names("rename", from, to, SYS_renameat2);
}

int link(const char *from, const char *to) { return two_names("create", from, to, SYS_linkat); }
int symlink(const char *from, const char *to)
{
    return two_names("create", from, to, SYS_symlinkat);
}

int access(const char *path, int how)
{
    char full[8192];
    if ((how & W_OK) && is_read_only() && place(AT_FDCWD, path, full, sizeof full)) {
        errno = EROFS;
        return -1;
    }
    return syscall(SYS_faccessat, AT_FDCWD, path, how);
}

/* A file system where locks bind nobody, as NFS has them when mounted with nolock (0), or where
   there are none at all (-1). */
int flock(int fd, int operation)
{
    if (locks == 0) return 0;
    if (locks < 0) { errno = ENOSYS; return -1; }
    return syscall(SYS_flock, fd, operation);
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
    int result = syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && mode == BACKWARDS && clock == CLOCK_REALTIME && at >= 0 && count >= at)
        time->tv_sec -= 86400;
    return result;
}

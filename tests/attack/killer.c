/* Ends the process at the n-th change of a file under a folder, so that every such moment can be tried once.
 *
 * Preloaded into Python. It does nothing until killer_arm(folder, n) is called; with n = 0 it only counts.
 * A write is made by half before the kill: that is what a power cut leaves.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static char folder[PATH_MAX];
static size_t folder_length;
static volatile long target;
static volatile long counted;

void killer_arm(const char *path, long n) {
  strncpy(folder, path, sizeof folder - 1);
  counted = 0;
  target = n;
  folder_length = strlen(folder);
}

long killer_count(void) { return counted; }

static int below(const char *path) {
  char whole[PATH_MAX];
  if (!folder_length || !path) return 0;
  if (path[0] != '/') {
    if (!getcwd(whole, sizeof whole)) return 0;
    size_t length = strlen(whole);
    snprintf(whole + length, sizeof whole - length, "/%s", path);
    path = whole;
  }
  return strncmp(path, folder, folder_length) == 0;
}

static int below_fd(int fd) {
  char link[64], path[PATH_MAX];
  if (!folder_length) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return below(path);
}

/* Whether this is the moment. */
static int due(void) { return __sync_add_and_fetch(&counted, 1) == target; }
static void die(void) { kill(getpid(), SIGKILL); for (;;) pause(); }
static void moment(int concerned) { if (concerned && due()) die(); }

#define REAL(name, type) static type real; if (!real) real = (type)dlsym(RTLD_NEXT, name)

typedef int (*open_t)(const char *, int, ...);
static int opened(const char *name, const char *path, int flags, mode_t mode) {
  open_t real = (open_t)dlsym(RTLD_NEXT, name);
  moment((flags & (O_WRONLY | O_RDWR | O_CREAT)) && below(path));
  return real(path, flags, mode);
}
#define MODE(flags) mode_t mode = 0; if (flags & O_CREAT) { va_list rest; va_start(rest, flags); mode = va_arg(rest, mode_t); va_end(rest); }
int open(const char *path, int flags, ...) { MODE(flags) return opened("open", path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags) return opened("open64", path, flags, mode); }

typedef int (*openat_t)(int, const char *, int, ...);
int openat(int at, const char *path, int flags, ...) {
  REAL("openat", openat_t);
  MODE(flags)
  moment((flags & (O_WRONLY | O_RDWR | O_CREAT)) && at == AT_FDCWD && below(path));
  return real(at, path, flags, mode);
}

typedef ssize_t (*write_t)(int, const void *, size_t);
ssize_t write(int fd, const void *data, size_t size) {
  REAL("write", write_t);
  if (fd > 2 && below_fd(fd) && due()) { real(fd, data, size / 2); die(); }
  return real(fd, data, size);
}

typedef int (*fd_t)(int);
int fsync(int fd) { REAL("fsync", fd_t); moment(below_fd(fd)); return real(fd); }
int fdatasync(int fd) { REAL("fdatasync", fd_t); moment(below_fd(fd)); return real(fd); }

typedef int (*two_t)(const char *, const char *);
int rename(const char *from, const char *to) { REAL("rename", two_t); moment(below(to)); return real(from, to); }
int link(const char *from, const char *to) { REAL("link", two_t); moment(below(to)); return real(from, to); }

typedef int (*renameat_t)(int, const char *, int, const char *);
int renameat(int a, const char *from, int b, const char *to) { REAL("renameat", renameat_t); moment(below(to)); return real(a, from, b, to); }

typedef int (*linkat_t)(int, const char *, int, const char *, int);
int linkat(int a, const char *from, int b, const char *to, int flags) { REAL("linkat", linkat_t); moment(below(to)); return real(a, from, b, to, flags); }

typedef int (*path_t)(const char *);
int unlink(const char *path) { REAL("unlink", path_t); moment(below(path)); return real(path); }
int rmdir(const char *path) { REAL("rmdir", path_t); moment(below(path)); return real(path); }

typedef int (*unlinkat_t)(int, const char *, int);
int unlinkat(int at, const char *path, int flags) { REAL("unlinkat", unlinkat_t); moment(at == AT_FDCWD ? below(path) : below_fd(at)); return real(at, path, flags); }

typedef int (*mkdir_t)(const char *, mode_t);
int mkdir(const char *path, mode_t mode) { REAL("mkdir", mkdir_t); moment(below(path)); return real(path, mode); }

typedef int (*ftruncate_t)(int, off_t);
int ftruncate(int fd, off_t size) { REAL("ftruncate", ftruncate_t); moment(below_fd(fd)); return real(fd, size); }

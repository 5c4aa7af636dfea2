/* Ends the process at the n-th change of a file under a folder, so that every such moment can be tried once.
 *
 * Preloaded into Python. It does nothing until killer_arm(folder, n) is called; with n = 0 it only counts. The kernel
 * then stops every system call that changes files (seccomp) and asks the handler here, so that no library goes unseen:
 * Rust calls the kernel without the C library, and FAISS writes through stdio.
 * A write is made by half before the kill: that is what a power cut leaves.
 *
 * A process that is started with KILLER_FILE arms itself if that file has a line "N FOLDER WORD", and WORD is on its
 * command line.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef __x86_64__
#error "the attack with kills knows the registers of x86-64 only"
#endif

#define MAGIC 0x6d756e646170ULL /* as the sixth argument, which none of these calls has: the call is our own */
#define COUNT(array) (sizeof(array) / sizeof *(array))

static char folder[PATH_MAX];
static size_t folder_length;
static volatile long target;
static volatile long counted;
static volatile int filtering;

static int below(const char *path) { return strncmp(path, folder, folder_length) == 0; }

/* Whether a descriptor is of something under the folder. */
static int below_fd(long fd) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%ld", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return below(path);
}

/* Whether a path, below a descriptor if it is relative, is under the folder. */
static int below_at(long at, const char *path) {
  if (path[0] == '/') return below(path);
  if ((int)at != AT_FDCWD) return below_fd((int)at);
  char here[PATH_MAX];
  return getcwd(here, sizeof here) && below(here);
}

#define WRITES (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC) /* flags of a call that opens */

static const int CALLS[] = {SYS_creat, SYS_write, SYS_pwrite64, SYS_writev, SYS_pwritev,
    SYS_sendfile, SYS_fallocate, SYS_truncate, SYS_ftruncate, SYS_fsync, SYS_fdatasync, SYS_rename, SYS_renameat,
    SYS_renameat2, SYS_link, SYS_linkat, SYS_symlink, SYS_symlinkat, SYS_unlink, SYS_unlinkat, SYS_rmdir, SYS_mkdir,
    SYS_mkdirat, SYS_chmod, SYS_fchmod, SYS_fchmodat};

/* Whether a call changes something under the folder. */
static int concerned(int call, const long *a) {
#define TEXT(n) ((const char *)a[n])
  if (!folder_length) return 0;
  switch (call) {
    case SYS_openat: return below_at(a[0], TEXT(1));
    case SYS_write: case SYS_pwrite64: case SYS_writev: case SYS_pwritev: case SYS_sendfile:
      return a[0] > 2 && below_fd(a[0]);
    case SYS_fallocate: case SYS_ftruncate: case SYS_fsync: case SYS_fdatasync: case SYS_fchmod: return below_fd(a[0]);
    case SYS_rename: case SYS_link: case SYS_symlink: return below_at(AT_FDCWD, TEXT(1));
    case SYS_renameat: case SYS_renameat2: case SYS_linkat: return below_at(a[2], TEXT(3));
    case SYS_symlinkat: return below_at(a[1], TEXT(2));
    case SYS_unlinkat: case SYS_mkdirat: case SYS_fchmodat: return below_at(a[0], TEXT(1));
    default: return below_at(AT_FDCWD, TEXT(0));
  }
}

static void stopped(int signal_number, siginfo_t *info, void *context) {
  (void)signal_number;
  greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
  int saved = errno, call = info->si_syscall;
  long a[5] = {registers[REG_RDI], registers[REG_RSI], registers[REG_RDX], registers[REG_R10], registers[REG_R8]};
  if (concerned(call, a) && __sync_add_and_fetch(&counted, 1) == target) {
    if (call == SYS_write || call == SYS_pwrite64) syscall(call, a[0], a[1], a[2] / 2, a[3], a[4], MAGIC);
    kill(getpid(), SIGKILL);
    for (;;) pause();
  }
  long result = syscall(call, a[0], a[1], a[2], a[3], a[4], MAGIC);
  registers[REG_RAX] = result < 0 ? -errno : result;
  errno = saved;
}

/* Let the kernel stop the calls of this process. */
static void filter(void) {
  struct sock_filter program[24 + COUNT(CALLS)], *next = program;
#define LOAD(what) (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, what))
#define UNLESS(value, skip) (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skip)
#define RETURN(what) (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_##what)
  *next++ = LOAD(args[5]);
  *next++ = UNLESS((unsigned)MAGIC, 3);
  *next++ = LOAD(args[5]);
  next[-1].k += 4; /* its upper half */
  *next++ = UNLESS((unsigned)(MAGIC >> 32), 1);
  *next++ = RETURN(ALLOW);
  /* A program that begins opens its libraries before there is a handler: only who opens to write is stopped. */
  const int opening[][2] = {{SYS_open, offsetof(struct seccomp_data, args[1])}, {SYS_openat, offsetof(struct seccomp_data, args[2])}};
  for (size_t n = 0; n < COUNT(opening); n++) {
    *next++ = LOAD(nr);
    *next++ = UNLESS(opening[n][0], 4);
    *next++ = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, opening[n][1]);
    *next++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, WRITES, 0, 1);
    *next++ = RETURN(TRAP);
    *next++ = RETURN(ALLOW);
  }
  *next++ = LOAD(nr);
  for (size_t n = 0; n < COUNT(CALLS); n++)
    *next++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CALLS[n], COUNT(CALLS) - n, 0);
  *next++ = RETURN(ALLOW);
  *next++ = RETURN(TRAP);
  struct sock_fprog whole = {.len = next - program, .filter = program};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &whole)) {
    perror("seccomp");
    abort();
  }
  filtering = 1;
}

/* A process that is started by one that is filtered is filtered from its beginning: it needs the handler at once. */
__attribute__((constructor)) static void begin(void) {
  struct sigaction action = {.sa_sigaction = stopped, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART};
  sigaction(SIGSYS, &action, NULL);
  const char *name = getenv("KILLER_FILE");
  FILE *file = name ? fopen(name, "r") : NULL;
  if (!file) return;
  long at;
  char where[PATH_MAX], word[256], command[4096];
  int found = fscanf(file, "%ld %4095s %255s", &at, where, word);
  fclose(file);
  if (found != 3 || !(file = fopen("/proc/self/cmdline", "r"))) return;
  size_t length = fread(command, 1, sizeof command, file);
  fclose(file);
  if (!memmem(command, length, word, strlen(word))) return;
  void killer_arm(const char *, long);
  killer_arm(where, at);
}

void killer_arm(const char *path, long n) {
  strncpy(folder, path, sizeof folder - 1);
  counted = 0;
  target = n;
  folder_length = strlen(folder);
  if (!filtering) filter();
}

long killer_count(void) { return counted; }

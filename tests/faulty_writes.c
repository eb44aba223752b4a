// Preloaded by fault_matrix.py: writes that fail as on a full disk, or stop a process in the middle of its output.
// Looks at writes to regular files below FAULT_FOLDER by the process whose name is FAULT_PROCESS (and whose rank is
// FAULT_RANK, if set), to paths with FAULT_PATH in them, if set:
//   FAULT_COUNT=FILE     appends a byte to FILE for each of them
//   FAULT_FULL=K         from number K on (0 is the first) they fail with ENOSPC
//   FAULT_PAUSE=K:FILE   number K makes FILE and waits until it is gone, 20 s at most
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static atomic_long writes;

static int is_process(void) {
  static int known = -1;
  if (known < 0) {
    const char* name = getenv("FAULT_PROCESS");
    const char* rank = getenv("FAULT_RANK");
    const char* mine = getenv("OMPI_COMM_WORLD_RANK");
    known = name != NULL && strcmp(program_invocation_short_name, name) == 0 &&
            (rank == NULL || (mine != NULL && strcmp(rank, mine) == 0));
  }
  return known;
}

static int concerns(int file) {
  char link[64], path[4096];
  struct stat found;
  const char* folder = getenv("FAULT_FOLDER");
  const char* part = getenv("FAULT_PATH");
  if (!is_process() || folder == NULL || fstat(file, &found) != 0 || !S_ISREG(found.st_mode)) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = '\0';
  return strncmp(path, folder, strlen(folder)) == 0 && (part == NULL || strstr(path, part) != NULL);
}

static void pause_at(const char* file) {
  close(open(file, O_CREAT | O_WRONLY, 0600));
  for (int i = 0; i < 2000 && access(file, F_OK) == 0; ++i) {
    const struct timespec ten_ms = {0, 10000000};
    nanosleep(&ten_ms, NULL);
  }
}

// Whether the write must fail.
static int strikes(int file) {
  const int before = errno;
  if (!concerns(file)) {
    errno = before;
    return 0;
  }
  const long number = writes++;
  const char *count = getenv("FAULT_COUNT"), *full = getenv("FAULT_FULL"), *stop = getenv("FAULT_PAUSE");
  if (count != NULL) {
    const int log = open(count, O_WRONLY | O_APPEND | O_CREAT, 0600);
    ssize_t (*next)(int, const void*, size_t) = (ssize_t(*)(int, const void*, size_t))dlsym(RTLD_NEXT, "write");
    if (log >= 0) next(log, "w", 1);
    close(log);
  }
  if (stop != NULL && strtol(stop, NULL, 10) == number) pause_at(strchr(stop, ':') + 1);
  errno = before;
  return full != NULL && number >= strtol(full, NULL, 10);
}

#define FAULTY(name, parameters, ...)                                               \
  ssize_t name parameters {                                                         \
    static ssize_t(*next) parameters;                                               \
    if (next == NULL) next = (ssize_t(*) parameters)dlsym(RTLD_NEXT, #name);        \
    if (strikes(file)) {                                                            \
      errno = ENOSPC;                                                               \
      return -1;                                                                    \
    }                                                                               \
    return next(__VA_ARGS__);                                                       \
  }
FAULTY(write, (int file, const void* bytes, size_t size), file, bytes, size)
FAULTY(pwrite, (int file, const void* bytes, size_t size, off_t at), file, bytes, size, at)
FAULTY(pwrite64, (int file, const void* bytes, size_t size, off64_t at), file, bytes, size, at)
FAULTY(writev, (int file, const struct iovec* parts, int count), file, parts, count)

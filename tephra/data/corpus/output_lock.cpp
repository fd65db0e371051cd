// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/corpus/output_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <mutex>

#include "tephra/base/error.h"

namespace tephra {
namespace {

// Takes the lock of an open file and keeps it open; a second call for the same path changes
// nothing.
void hold(const Path& path, int flags, int operation, const Path& out) {
  static std::mutex mutex;
  static std::map<Path, int> held;
  const std::lock_guard lock(mutex);
  const Path key = std::filesystem::absolute(path).lexically_normal();
  if (held.contains(key)) return;
  const int fd = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  if (fd < 0) return;
  if (::flock(fd, operation | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(fd);
    throw Error(Fault::usage, format("{}: another process writes into it", out.string()),
                "wait until it has ended, or give another --out");
  }
  held[key] = fd;
}

}  // namespace

void lock_output(const Path& out, const Shard& shard) {
  make_writable_folder(out);
  const bool alone = shard.count == 1;
  hold(out, O_RDONLY | O_DIRECTORY, alone ? LOCK_EX : LOCK_SH, out);
}

void lock_share(const Path& out, const Shard& shard) {
  if (shard.count == 1) return;
  make_writable_folder(out / kWorkFolder);
  const Path file = out / kWorkFolder / format("shard-{}-of-{}.lock", shard.index, shard.count);
  hold(file, O_RDWR | O_CREAT, LOCK_EX, out);
}

void lock_shard(const Path& prefix, bool shared) {
  const Path file = prefix.parent_path() / format(".{}.lock", prefix.filename().string());
  hold(file, O_RDWR | O_CREAT, shared ? LOCK_SH : LOCK_EX, prefix);
}

}  // namespace tephra

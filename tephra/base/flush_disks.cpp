// SPDX-License-Identifier: Apache-2.0
#include "tephra/base/flush_disks.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <set>

#include "tephra/base/append_file.h"
#include "tephra/base/error.h"

namespace tephra {

void write_file_unflushed(const Path& path, std::string_view text) {
  const Path temporary = path.parent_path() / format(".{}.tmp", path.filename().string());
  AppendFile file(temporary, 0, AppendFile::WhenFull::fail);
  file.append(text);
  file.close();
  std::error_code error;
  std::filesystem::rename(temporary, path, error);
  require_data(!error, "{}: cannot be renamed: {}", temporary.string(), error.message());
}

void flush_disks(std::span<const Path> folders) {
  std::set<dev_t> done;
  for (const Path& folder : folders) {
    const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat info {};
    int error = fd >= 0 && ::fstat(fd, &info) == 0 ? 0 : errno;
    if (error == 0 && done.insert(info.st_dev).second && ::syncfs(fd) != 0) error = errno;
    if (fd >= 0) ::close(fd);
    require_data(error == 0, "{}: flushing its disk failed: {}", folder.string(),
                 std::strerror(error));
  }
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include "fuzz/fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "tephra/base/format.h"

namespace tephra::fuzz {

void expect_reads_or_refuses(FunctionRef<void()> read) {
  try {
    read();
  } catch (const Error& error) {
    if (error.fault() == Fault::data || error.fault() == Fault::usage) return;
    std::fprintf(stderr, "a fault of our own: %s\n", error.what());
    std::abort();
  }
}

MemoryFile::MemoryFile(std::string_view bytes) : fd_(memfd_create("fuzz", 0)) {
  if (fd_ < 0 || write(fd_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
    std::abort();
  }
  path_ = format("/proc/self/fd/{}", fd_);
}

MemoryFile::~MemoryFile() { close(fd_); }

}  // namespace tephra::fuzz

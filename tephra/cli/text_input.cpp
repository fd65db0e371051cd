// SPDX-License-Identifier: Apache-2.0
#include "tephra/cli/text_input.h"

#include <unistd.h>

#include <cstdio>

#include "tephra/base/error.h"
#include "tephra/base/files.h"
#include "tephra/base/log.h"
#include "tephra/base/signals.h"

namespace tephra {

std::string input_text(const std::optional<std::string>& argument,
                       const std::optional<std::string>& file) {
  require(!argument || !file, "expected text or --file, got both");
  if (argument) return *argument;
  if (file) return read_file(*file, int64_t{1} << 40);
  if (isatty(STDIN_FILENO) == 1) log_info("reading from the keyboard; Ctrl-D ends it");
  std::string text;
  char block[1 << 16];
  for (;;) {
    const ssize_t got = ::read(STDIN_FILENO, block, sizeof block);
    stop_if_interrupted();
    require_data(got >= 0, "cannot read from standard input");
    if (got == 0) return text;
    text.append(block, static_cast<size_t>(got));
  }
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include "tephra/base/temporary_name.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <optional>
#include <vector>

#include "tephra/base/format.h"

namespace tephra {
namespace {

constexpr std::string_view kEnding = ".tmp";

std::string beginning(std::string_view file) { return format(".{}.", file); }

// Whose it is, of ".FILE.PROCESS-N.tmp".
std::optional<pid_t> process_of(std::string_view name) {
  if (!name.starts_with('.') || !name.ends_with(kEnding)) return {};
  name.remove_suffix(kEnding.size());
  const size_t dot = name.rfind('.'), dash = name.rfind('-');
  if (dash == name.npos || dash < dot || dash + 1 == name.size()) return {};
  if (name.find_first_not_of("0123456789", dash + 1) != name.npos) return {};
  const std::string_view number = name.substr(dot + 1, dash - dot - 1);
  pid_t process = 0;
  const auto [end, error] = std::from_chars(number.begin(), number.end(), process);
  if (error != std::errc() || end != number.end() || process <= 0) return {};
  return process;
}

}  // namespace

std::string temporary_name(std::string_view file, int64_t n) {
  return format("{}{}-{}{}", beginning(file), ::getpid(), n, kEnding);
}

bool is_temporary_name(std::string_view name, std::string_view file) {
  const std::string begin = beginning(file);
  if (!name.starts_with(begin) || !name.ends_with(kEnding)) return false;
  return name.find_first_not_of("0123456789-", begin.size()) == name.size() - kEnding.size();
}

void remove_abandoned_temporaries(const Path& folder, std::string_view of) {
  std::error_code error, ignored;
  std::vector<Path> abandoned;
  for (std::filesystem::directory_iterator item(folder, error), end; !error && item != end;
       item.increment(error)) {
    const std::string name = item->path().filename().string();
    if (name.find(of) == name.npos || !item->is_regular_file(ignored)) continue;
    const std::optional<pid_t> process = process_of(name);
    if (process && ::kill(*process, 0) != 0 && errno == ESRCH) abandoned.push_back(item->path());
  }
  for (const Path& path : abandoned) std::filesystem::remove(path, ignored);
}

}  // namespace tephra

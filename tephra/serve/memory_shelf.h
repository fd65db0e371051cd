// SPDX-License-Identifier: Apache-2.0
// The memories of chats: one file for each name in a folder, opened when first used and kept open
// while it is used often. A turn is on the disk before its request is answered.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tephra/base/files.h"
#include "tephra/base/function_ref.h"
#include "tephra/retrieve/memory/memory.h"

namespace tephra {

struct MemoryShelfOptions {
  std::optional<Path> folder;  // none: requests that name a memory are refused
  size_t most_open = 64;
  std::function<int64_t()> clock;  // wall clock; unset: the machine's
};

class MemoryShelf {
 public:
  explicit MemoryShelf(MemoryShelfOptions options);

  bool enabled() const { return options_.folder.has_value(); }
  int64_t now() const;

  enum class IfAbsent { refuse, make };
  // Runs `use` with this memory and nobody else using it. ApiError when there are no memories here,
  // the name is none, the file is absent or damaged, or another process holds it.
  void with(const std::string& name, const std::string& param, IfAbsent if_absent,
            FunctionRef<void(Memory&)> use);
  std::vector<std::string> names() const;  // sorted
  void remove(const std::string& name);

 private:
  struct Open {
    std::mutex mutex;
    Memory memory;
    bool removed = false;
    uint64_t used = 0;
  };

  void check(const std::string& name, const std::string& param) const;
  Path file_of(const std::string& name) const { return *options_.folder / (name + ".tmem"); }
  std::shared_ptr<Open> open(const std::string& name, IfAbsent if_absent);
  void close_some();

  MemoryShelfOptions options_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Open>> open_;
  uint64_t uses_ = 0;
};

// Adds what was said just now. A clock that was set back is held at the last turn, with a warning.
void remember_turn(MemoryShelf& shelf, Memory& memory, const std::string& speaker,
                   const std::string& text);

}  // namespace tephra

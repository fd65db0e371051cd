// SPDX-License-Identifier: Apache-2.0
#include "tephra/serve/memory_shelf.h"

#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/base/log.h"
#include "tephra/base/text.h"
#include "tephra/retrieve/memory/civil_time.h"
#include "tephra/serve/api_error.h"
#include "tephra/serve/retrieval_shelf.h"

namespace tephra {
namespace {

constexpr const char* kMemoryEnding = ".tmem";

}  // namespace

MemoryShelf::MemoryShelf(MemoryShelfOptions options) : options_(std::move(options)) {
  if (options_.folder) make_writable_folder(*options_.folder);
}

int64_t MemoryShelf::now() const { return options_.clock ? options_.clock() : wall_clock(); }

void MemoryShelf::check(const std::string& name, const std::string& param) const {
  if (!enabled()) {
    throw ApiError(400, "this server keeps no memories; start it with --memory-dir DIR", param,
                   "no_memories");
  }
  check_shelf_name(name, param);
}

void MemoryShelf::close_some() {
  while (open_.size() > options_.most_open) {
    auto oldest = open_.end();
    for (auto it = open_.begin(); it != open_.end(); ++it) {
      const bool idle = it->second.use_count() == 1;
      if (idle && (oldest == open_.end() || it->second->used < oldest->second->used)) oldest = it;
    }
    if (oldest == open_.end()) return;  // all of them are in use
    open_.erase(oldest);
  }
}

std::shared_ptr<MemoryShelf::Open> MemoryShelf::open(const std::string& name, IfAbsent if_absent) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Open>& here = open_[name];
  if (here == nullptr) {
    try {
      if (if_absent == IfAbsent::refuse && !std::filesystem::exists(file_of(name))) {
        throw ApiError(404, format("there is no memory '{}'; see /v1/memories", name), "memory",
                       "memory_not_found");
      }
      auto fresh = std::make_shared<Open>();
      fresh->memory = Memory::open_to_add(file_of(name));
      here = std::move(fresh);
    } catch (const Error& e) {
      open_.erase(name);
      log_error("serve: {}", e.what());
      const bool held = e.fault() == Fault::usage;
      throw ApiError(held ? 409 : 500,
                     format("memory '{}' {}", name,
                            held ? "cannot be written now: another process may hold it"
                                 : "cannot be read or written; the server's log says why"),
                     "memory");
    } catch (...) {
      open_.erase(name);
      throw;
    }
  }
  here->used = ++uses_;
  std::shared_ptr<Open> mine = here;
  close_some();
  return mine;
}

void MemoryShelf::with(const std::string& name, const std::string& param, IfAbsent if_absent,
                       FunctionRef<void(Memory&)> use) {
  check(name, param);
  for (;;) {
    const std::shared_ptr<Open> memory = open(name, if_absent);
    const std::lock_guard lock(memory->mutex);
    if (memory->removed) continue;  // while this one waited
    return use(memory->memory);
  }
}

std::vector<std::string> MemoryShelf::names() const {
  std::vector<std::string> names;
  if (!enabled()) return names;
  for (const auto& item : std::filesystem::directory_iterator(*options_.folder)) {
    const std::string name = item.path().stem().string();
    if (item.path().extension() == kMemoryEnding && is_shelf_name(name)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

void MemoryShelf::remove(const std::string& name) {
  check(name, "memory");
  const std::shared_ptr<Open> memory = open(name, IfAbsent::refuse);
  const std::lock_guard lock(memory->mutex);
  if (memory->removed) return;
  std::error_code error;
  std::filesystem::remove(file_of(name), error);
  require_data(!error, "{}: cannot be removed: {}", file_of(name).string(), error.message());
  memory->removed = true;
  const std::lock_guard map_lock(mutex_);
  open_.erase(name);
}

void remember_turn(MemoryShelf& shelf, Memory& memory, const std::string& speaker,
                   const std::string& text) {
  if (trim(text).empty()) return;
  if (text.size() > TurnTable::kMaxTextBytes) {
    throw ApiError(413,
                   format("a memory takes turns of at most {}, this one has {}",
                          human_bytes(TurnTable::kMaxTextBytes),
                          human_bytes(static_cast<int64_t>(text.size()))),
                   "memory");
  }
  const TurnTable& table = memory.table();
  const int64_t time = shelf.now();
  if (table.rows() > 0 && time < table.time(table.rows() - 1)) {
    log_warning("serve: the clock shows {}, before the last turn of a memory: held at {}",
                time_text(time), time_text(table.time(table.rows() - 1)));
  }
  try {
    memory.add({{time, 0, speaker, text}}, BackwardsClock::clamp);
  } catch (const Error& e) {  // a full disk: what was not kept must not look kept
    log_error("serve: {}", e.what());
    throw ApiError(500, "the turn could not be stored in its memory; the server's log says why",
                   "memory");
  }
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// The file of a memory (docs/memory.md): a header and records of one or more turns, each with its
// hashes. A record is acknowledged when it is on the disk. A record whose end is missing was never
// acknowledged and is left out; any other damage is an error that names the place.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "tephra/base/files.h"
#include "tephra/retrieve/memory/turn_table.h"

namespace tephra {

struct TurnFileState {
  int64_t records = 0;
  int64_t good_bytes = 0;  // header and whole records
  int64_t torn_bytes = 0;  // of a last record that was never finished
};

// Appends the file's turns to the table. Fault::data names `where` and the byte.
TurnFileState read_turns(std::span<const std::byte> file, const std::string& where,
                         TurnTable& table);

// Appends to a file that it alone may write to; readers may read meanwhile. Makes the file if there
// is none, and cuts off a record that a crash left unfinished.
class TurnWriter {
 public:
  // Reads what is there into the table. Waits for another writer for a few seconds.
  TurnWriter(const Path& path, TurnTable& table);
  ~TurnWriter();
  TurnWriter(const TurnWriter&) = delete;
  TurnWriter& operator=(const TurnWriter&) = delete;

  // All of them or none. When it returns they are on the disk; when it throws, the file is as it
  // was before.
  void append(std::span<const Turn> turns);

  const TurnFileState& state() const { return state_; }

 private:
  void lock();
  void write_at_end(std::string_view bytes);
  [[noreturn]] void fail(const char* what, int error);

  Path path_;
  int fd_ = -1;
  bool broken_ = false;  // a failed write could not be taken back
  TurnFileState state_;
};

}  // namespace tephra

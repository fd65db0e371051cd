// SPDX-License-Identifier: Apache-2.0
// Turns of conversations as columns: time, session, speaker, text. Rows are in the order they were
// said; times and sessions never go back, so a range of either is a range of rows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tephra {

struct Turn {
  int64_t time = 0;     // seconds on the wall clock, see civil_time.h
  int32_t session = 0;  // from 1
  std::string speaker;
  std::string text;
};

struct RowRange {
  int64_t begin = 0;
  int64_t end = 0;  // the row after the last

  int64_t size() const { return end - begin; }
  bool operator==(const RowRange& other) const = default;
};

class TurnTable {
 public:
  // What a store holds and what a reader may be given; the file's format has room for more.
  static constexpr size_t kMaxTextBytes = 4 << 20;
  static constexpr size_t kMaxNameBytes = 256;
  static constexpr size_t kMaxSpeakers = 65535;

  // Why a turn cannot be appended, as words for a message; nothing when it can.
  std::optional<std::string> problem_with(const Turn& turn) const;
  void append(const Turn& turn);  // problem_with(turn) must be nothing

  int64_t rows() const { return static_cast<int64_t>(times_.size()); }
  int32_t sessions() const { return sessions_.empty() ? 0 : sessions_.back(); }  // the last number
  int64_t time(int64_t row) const { return times_[static_cast<size_t>(row)]; }
  int32_t session(int64_t row) const { return sessions_[static_cast<size_t>(row)]; }
  uint16_t speaker(int64_t row) const { return speakers_[static_cast<size_t>(row)]; }
  const std::string& speaker_name(int64_t row) const { return names_[speaker(row)]; }
  std::string_view text(int64_t row) const;
  Turn turn(int64_t row) const;

  const std::vector<std::string>& speaker_names() const { return names_; }
  std::optional<uint16_t> find_speaker(std::string_view name) const;  // ASCII case is ignored

  // Closed ranges.
  RowRange rows_in_time(int64_t first, int64_t last) const;
  RowRange rows_in_sessions(int32_t first, int32_t last) const;

 private:
  std::vector<int64_t> times_;
  std::vector<int32_t> sessions_;
  std::vector<uint16_t> speakers_;
  std::vector<uint64_t> text_ends_;
  std::string texts_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, uint16_t> by_name_;  // in lower case
};

}  // namespace tephra

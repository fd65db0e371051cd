// SPDX-License-Identifier: Apache-2.0
#include "tephra/retrieve/memory/turn_table.h"

#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/base/text.h"
#include "tephra/retrieve/memory/civil_time.h"
#include "tephra/text/unicode.h"

namespace tephra {
namespace {

std::string lower_name(std::string_view name) {
  std::string out(name);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

// Years 1 to 9999.
bool is_time(int64_t time) {
  return time >= int64_t{-719162} * kDaySeconds && time < int64_t{2932897} * kDaySeconds;
}

std::optional<std::string> problem_with_text(std::string_view what, std::string_view text,
                                             size_t limit) {
  if (text.empty()) return format("{}: expected some text, got none", what);
  if (text.size() > limit) {
    return format("{}: expected at most {} bytes, got {}; cut it into several turns", what, limit,
                  text.size());
  }
  if (const size_t at = find_invalid_utf8(text); at != std::string_view::npos) {
    return format("{}: expected UTF-8, byte {} is not; convert it first", what, at);
  }
  return std::nullopt;
}

template <class T>
RowRange equal_rows(const std::vector<T>& column, T first, T last) {
  const auto begin = std::lower_bound(column.begin(), column.end(), first);
  const auto end = std::upper_bound(begin, column.end(), last);
  return {begin - column.begin(), end - column.begin()};
}

}  // namespace

std::optional<std::string> TurnTable::problem_with(const Turn& turn) const {
  if (auto problem = problem_with_text("speaker", turn.speaker, kMaxNameBytes)) return problem;
  if (auto problem = problem_with_text("text", turn.text, kMaxTextBytes)) return problem;
  if (!is_time(turn.time)) return format("time: expected a year from 1 to 9999, got {}", turn.time);
  if (turn.session < 1) return format("session: expected 1 or more, got {}", turn.session);
  if (rows() > 0 && turn.time < times_.back()) {
    return format("time: the clock runs backwards: the last turn is from {}, this one from {}",
                  time_text(times_.back()), time_text(turn.time));
  }
  if (rows() > 0 && turn.session < sessions()) {
    return format("session: expected {} (the last one) or a later one, got {}", sessions(),
                  turn.session);
  }
  if (names_.size() >= kMaxSpeakers && !find_speaker(turn.speaker)) {
    return format("speaker: expected at most {} different names, got one more", kMaxSpeakers);
  }
  return std::nullopt;
}

void TurnTable::append(const Turn& turn) {
  const auto [known, is_new] =
      by_name_.try_emplace(lower_name(turn.speaker), static_cast<uint16_t>(names_.size()));
  if (is_new) names_.push_back(turn.speaker);
  times_.push_back(turn.time);
  sessions_.push_back(turn.session);
  speakers_.push_back(known->second);
  texts_ += turn.text;
  text_ends_.push_back(texts_.size());
}

std::string_view TurnTable::text(int64_t row) const {
  const auto i = static_cast<size_t>(row);
  const uint64_t begin = i == 0 ? 0 : text_ends_[i - 1];
  return std::string_view(texts_).substr(begin, text_ends_[i] - begin);
}

Turn TurnTable::turn(int64_t row) const {
  return {time(row), session(row), speaker_name(row), std::string(text(row))};
}

std::optional<uint16_t> TurnTable::find_speaker(std::string_view name) const {
  const auto known = by_name_.find(lower_name(name));
  if (known == by_name_.end()) return std::nullopt;
  return known->second;
}

RowRange TurnTable::rows_in_time(int64_t first, int64_t last) const {
  return first > last ? RowRange{} : equal_rows(times_, first, last);
}

RowRange TurnTable::rows_in_sessions(int32_t first, int32_t last) const {
  return first > last ? RowRange{} : equal_rows(sessions_, first, last);
}

}  // namespace tephra

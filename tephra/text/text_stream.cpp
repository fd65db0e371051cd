// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/text_stream.h"

#include <algorithm>
#include <tuple>

#include "tephra/base/error.h"

namespace tephra {

StopStrings::StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (const std::string& stop : stops_) {
    require(!stop.empty(), "stop strings: expected text, got an empty one");
  }
}

// The longest end of the held text that some stop string begins with.
size_t StopStrings::held_suffix() const {
  size_t longest = 0;
  for (const std::string& stop : stops_) {
    for (size_t n = std::min(stop.size() - 1, held_.size()); n > longest; --n) {
      if (std::string_view(held_).ends_with(std::string_view(stop).substr(0, n))) longest = n;
    }
  }
  return longest;
}

std::string StopStrings::add(std::string_view text) {
  if (stopped_by_) return {};
  held_ += text;
  std::optional<std::tuple<size_t, size_t, const std::string*>> first;  // end, begin, which
  for (const std::string& stop : stops_) {
    const size_t at = held_.find(stop);
    if (at == held_.npos) continue;
    const std::tuple candidate{at + stop.size(), at, &stop};
    if (!first || candidate < *first) first = candidate;
  }
  if (first) {
    stopped_by_ = *std::get<2>(*first);
    held_.resize(std::get<1>(*first));
    return std::exchange(held_, {});
  }
  const size_t said = held_.size() - held_suffix();
  std::string now = held_.substr(0, said);
  held_.erase(0, said);
  return now;
}

std::string StopStrings::finish() { return std::exchange(held_, {}); }

TextStream::TextStream(const Tokenizer& tokenizer, std::vector<std::string> stops,
                       DecodeOptions options)
    : decoder_(tokenizer, options), stops_(stops) {
  for (std::string& stop : stops) {
    const std::optional<int32_t> id = tokenizer.find(stop);
    if (id && tokenizer.is_special(*id)) stop_ids_.emplace_back(*id, std::move(stop));
  }
}

std::string TextStream::add(int32_t id) {
  if (stopped_by()) return {};
  for (const auto& [stop_id, stop] : stop_ids_) {
    if (stop_id != id) continue;
    std::string rest = finish();
    stop_token_ = stop;
    return rest;
  }
  return stops_.add(decoder_.add(id));
}

std::string TextStream::finish() {
  if (stopped_by()) return {};
  std::string rest = stops_.add(decoder_.finish());
  return stops_.stopped_by() ? rest : rest + stops_.finish();
}

}  // namespace tephra

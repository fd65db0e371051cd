// SPDX-License-Identifier: Apache-2.0
// What becomes of the matches of a split pattern: the "behavior" of Split.
#pragma once

#include <optional>
#include <string_view>

#include "tephra/base/json.h"
#include "tephra/text/pretokenizer.h"

namespace tephra {

enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

SplitBehavior parse_split_behavior(const Fields& step);

// Takes matches from left to right and hands out the pieces between, around or of them.
class SegmentJoiner {
 public:
  // `invert` exchanges what matched and what lies between.
  SegmentJoiner(std::string_view text, SplitBehavior behavior, bool invert, PieceSink sink)
      : text_(text), behavior_(behavior), invert_(invert), sink_(sink) {}

  void add_match(size_t begin, size_t end);
  void finish();

 private:
  struct Segment {
    size_t begin, end;
    bool match;
  };
  void add(Segment segment);
  bool joins(const Segment& segment) const;
  void flush();

  std::string_view text_;
  SplitBehavior behavior_;
  bool invert_;
  PieceSink sink_;
  size_t covered_ = 0;
  std::optional<Segment> held_;  // not yet handed out: the next segment may join it
};

}  // namespace tephra

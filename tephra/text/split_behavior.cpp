// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/split_behavior.h"

#include "tephra/base/error.h"
#include "tephra/base/text.h"

namespace tephra {

SplitBehavior parse_split_behavior(const Fields& step) {
  const std::string name = step.string("behavior");
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  throw Error(Fault::data, format("{}: behavior: expected Removed, Isolated, MergedWithPrevious, "
                                  "MergedWithNext or Contiguous, got '{}'",
                                  step.where(), clipped(name, 40)));
}

void SegmentJoiner::add_match(size_t begin, size_t end) {
  if (begin != covered_) add({covered_, begin, invert_});
  add({begin, end, !invert_});
  covered_ = end;
}

void SegmentJoiner::finish() {
  if (covered_ != text_.size()) add({covered_, text_.size(), invert_});
  flush();
}

// Only a neighbour joins: of a row of matches, MergedWithPrevious joins the first to what is before
// the row, MergedWithNext the last to what is after it.
bool SegmentJoiner::joins(const Segment& segment) const {
  switch (behavior_) {
    case SplitBehavior::merged_with_previous:
      return segment.match && !held_->match;
    case SplitBehavior::merged_with_next:
      return held_->match && !segment.match;
    case SplitBehavior::contiguous:
      return segment.match == held_->match;
    default:
      return false;
  }
}

void SegmentJoiner::add(Segment segment) {
  if (held_ && joins(segment)) {
    held_->end = segment.end;
    held_->match = segment.match;
    return;
  }
  flush();
  held_ = segment;
}

void SegmentJoiner::flush() {
  if (held_ && held_->begin != held_->end &&
      !(behavior_ == SplitBehavior::removed && held_->match)) {
    sink_(text_.substr(held_->begin, held_->end - held_->begin));
  }
  held_.reset();
}

}  // namespace tephra

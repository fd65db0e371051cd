// SPDX-License-Identifier: Apache-2.0
// Where tokens come from. A source is an endless list of samples for every context, and sample
// `position` of it is a pure function: no state, any thread, any order.
#pragma once

#include <string>

#include "tephra/data/batch.h"

namespace tephra {

class TokenSource {
 public:
  explicit TokenSource(std::string name) : name_(std::move(name)) {}
  virtual ~TokenSource() = default;
  TokenSource(const TokenSource&) = delete;
  TokenSource& operator=(const TokenSource&) = delete;

  const std::string& name() const { return name_; }

  virtual Sample sample(int64_t position, int64_t context) const = 0;
  // Fault::usage when it has nothing for this context; asked before a run starts.
  virtual void check(int64_t context) const = 0;
  // Samples of this context until every one was read once; 0 when they never repeat.
  virtual int64_t samples_per_epoch(int64_t context) const = 0;
  // What it reads, in a line. The same text promises the same samples, so a resumed run compares.
  virtual std::string identity() const = 0;

 private:
  std::string name_;
};

}  // namespace tephra

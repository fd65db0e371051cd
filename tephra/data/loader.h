// SPDX-License-Identifier: Apache-2.0
// Batches of a run: which samples (SampleOrder) from which sources.
#pragma once

#include <memory>
#include <vector>

#include "tephra/data/sample_order.h"
#include "tephra/data/token_source.h"

namespace tephra {

class Loader {
 public:
  // Every source of the order must be there, and have samples for the contexts it is used with.
  Loader(SampleOrder order, const std::vector<std::shared_ptr<const TokenSource>>& sources);

  // Samples [first, first + count) of a step's global batch: a rank's share, or a micro-batch of
  // it. A pure function; any thread may call it.
  Batch batch(int64_t step, int64_t first, int64_t count) const;

  const SampleOrder& order() const { return order_; }
  // A line for each source that the order uses; a resumed run must find the same.
  std::vector<std::string> identities() const;

 private:
  SampleOrder order_;
  std::vector<std::shared_ptr<const TokenSource>> sources_;  // in the order of order_.sources()
};

}  // namespace tephra

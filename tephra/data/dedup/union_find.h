// SPDX-License-Identifier: Apache-2.0
// Sets of documents that hang together. The root is the smallest member, so the sets do not depend
// on the order of the edges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace tephra {

class UnionFind {
 public:
  explicit UnionFind(size_t size) : parent_(size) {
    std::iota(parent_.begin(), parent_.end(), uint32_t{0});
  }

  uint32_t root(uint32_t x) {
    while (parent_[x] != x) {
      parent_[x] = parent_[parent_[x]];
      x = parent_[x];
    }
    return x;
  }

  void join(uint32_t a, uint32_t b) {
    a = root(a);
    b = root(b);
    if (a == b) return;
    parent_[a < b ? b : a] = a < b ? a : b;
  }

  size_t size() const { return parent_.size(); }

 private:
  std::vector<uint32_t> parent_;
};

}  // namespace tephra

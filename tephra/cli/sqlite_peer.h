// SPDX-License-Identifier: Apache-2.0
// SQLite's full-text index (FTS5) as a peer of our own ranking. The library is opened at run time:
// a machine without it has one peer less.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tephra {

class SqlitePeer {
 public:
  static std::unique_ptr<SqlitePeer> open();  // in memory; null where the library is not installed
  virtual ~SqlitePeer() = default;
  virtual std::string version() const = 0;
  virtual void add(const std::vector<std::string_view>& chunks) = 0;  // ids from 0
  // The best by its BM25, for any of the question's words.
  virtual std::vector<uint32_t> query(std::string_view question, int count) = 0;
};

}  // namespace tephra

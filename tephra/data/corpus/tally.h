// SPDX-License-Identifier: Apache-2.0
// What a stage counted and a few of the texts it saw. Joining tallies in any order gives the same
// one, so it does not depend on threads, shards or restarts.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tephra/base/json.h"

namespace tephra {

class Tally {
 public:
  static constexpr size_t kErrors = 20;        // first ones that are kept
  static constexpr size_t kSampleBytes = 600;  // of a sample's text

  struct Sample {
    uint64_t key;  // the smallest ones are kept: a random choice that is a function of the document
    std::string id;
    std::string text;  // its beginning
    bool operator==(const Sample&) const = default;
  };

  explicit Tally(size_t samples = 5) : samples_each_(samples) {}

  void count(std::string_view name, int64_t amount = 1);
  int64_t operator[](std::string_view name) const;  // 0 when it was never counted
  const std::map<std::string, int64_t, std::less<>>& counts() const { return counts_; }

  void sample(std::string_view kind, std::string_view id, std::string_view text);
  const std::map<std::string, std::vector<Sample>, std::less<>>& samples() const {
    return samples_;
  }

  void error(std::string what);  // kept in order of their texts
  const std::vector<std::string>& errors() const { return errors_; }

  void add(const Tally& other);

  Json to_json() const;
  static Tally from_json(const Json& json, const std::string& where, size_t samples);

 private:
  void keep(std::vector<Sample>& list, Sample sample) const;

  size_t samples_each_;
  std::map<std::string, int64_t, std::less<>> counts_;
  std::map<std::string, std::vector<Sample>, std::less<>> samples_;
  std::vector<std::string> errors_;
};

}  // namespace tephra

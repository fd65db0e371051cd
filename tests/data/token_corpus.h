// SPDX-License-Identifier: Apache-2.0
// Text files in a folder of their own, and the token shard that is made of them.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tephra/data/shard_record.h"
#include "tephra/data/tokenize.h"
#include "tephra/io/token_shard.h"
#include "tests/data/test_tokenizer.h"
#include "tests/support/error_of.h"

namespace tephra {

struct TokenCorpus {
  Scratch scratch;

  std::string path(const std::string& name) const { return (scratch / name).string(); }
  void put(const std::string& name, const std::string& bytes) const {
    write_file(scratch / name, bytes);
  }
  TokenizeReport tokenize(const std::vector<std::string>& names,
                          const TokenizeOptions& options = {},
                          const std::string& out = "out") const {
    std::vector<std::string> inputs;
    for (const std::string& name : names) inputs.push_back(path(name));
    return tokenize_files(text_files(inputs), *test_tokenizer(), scratch / out, options);
  }
  NamedShard make(const std::string& name, const TokenizeOptions& options = {},
                  bool overwrite = false, const std::string& out = "out") const {
    const std::vector<Path> files = {scratch / name};
    return make_shard(files, *test_tokenizer(), scratch / out, options, overwrite);
  }
  // What make() says when it refuses, with its hint.
  std::string refused(const std::string& name, const TokenizeOptions& options = {}) const {
    const Error error = error_of([&] { make(name, options); });
    EXPECT_EQ(error.fault(), Fault::usage) << error.what();
    return std::string(error.what()) + " | " + error.hint();
  }
  ShardRecord record(const std::string& name, const TokenizeOptions& options = {}) const {
    const std::vector<Path> files = {scratch / name};
    return ShardRecord(files, scratch / "out", options);
  }
  bool has(const std::string& name) const { return std::filesystem::exists(scratch / name); }
  // The documents of the shard as text.
  std::vector<std::string> documents(bool keep_special = false) const {
    const auto shard = TokenShard::open(scratch / "out");
    std::vector<std::string> texts;
    for (int64_t d = 0; d < shard->documents(); ++d) {
      std::vector<int32_t> ids(
          static_cast<size_t>(shard->document_begin(d + 1) - shard->document_begin(d)));
      shard->read(shard->document_begin(d), ids, test_tokenizer()->vocab_size());
      texts.push_back(test_tokenizer()->decode(ids, {.keep_special = keep_special}));
    }
    return texts;
  }
};

// As of a file whose copy did not end.
inline std::string cut_off(const std::string& bytes) {
  return bytes.substr(0, bytes.size() * 2 / 3);
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// The three forms of tokenizer against vectors made with Hugging Face's tokenizers.
#include "tephra/text/tokenizer.h"

#include <gtest/gtest.h>

#include "tephra/base/files.h"
#include "tephra/base/json.h"
#include "tephra/base/parallel.h"

namespace tephra {
namespace {

class GoldenTokenizer : public testing::TestWithParam<const char*> {
 protected:
  struct Vector {
    std::string text;
    std::vector<int32_t> ids;
    std::string decoded;
  };

  Path folder() const { return Path(TEPHRA_GOLDEN_DIR) / GetParam(); }

  std::vector<Vector> vectors() const {
    const Json rows = Json::parse(read_file(folder() / "vectors.json"), "vectors.json");
    std::vector<Vector> result;
    for (const Json& row : rows.array()) {
      Vector v{row.find("text")->string(), {}, row.find("decoded")->string()};
      for (const Json& id : row.find("ids")->array()) {
        v.ids.push_back(static_cast<int32_t>(id.integer()));
      }
      result.push_back(v);
    }
    return result;
  }
};

TEST_P(GoldenTokenizer, EncodesEveryVector) {
  const Tokenizer tokenizer = Tokenizer::load(folder());
  Encoder encoder(tokenizer);
  for (const Vector& v : vectors()) {
    std::vector<int32_t> ids;
    encoder.encode(v.text, ids);
    EXPECT_EQ(ids, v.ids) << v.text;
  }
}

TEST_P(GoldenTokenizer, DecodesEveryVector) {
  const Tokenizer tokenizer = Tokenizer::load(folder());
  for (const Vector& v : vectors()) EXPECT_EQ(tokenizer.decode(v.ids), v.decoded);
}

TEST_P(GoldenTokenizer, EncodesBatchesAlikeOnAnyNumberOfThreads) {
  const Tokenizer tokenizer = Tokenizer::load(folder());
  const std::vector<Vector> all = vectors();
  std::vector<std::string_view> texts;
  for (int repeat = 0; repeat < 8; ++repeat) {
    for (const Vector& v : all) texts.push_back(v.text);
  }
  const int before = num_threads();
  for (const int threads : {1, 2, 3, 8}) {
    set_num_threads(threads);
    const auto batch = encode_batch(tokenizer, texts);
    for (size_t i = 0; i < texts.size(); ++i) ASSERT_EQ(batch[i], all[i % all.size()].ids);
  }
  set_num_threads(before);
}

INSTANTIATE_TEST_SUITE_P(Forms, GoldenTokenizer,
                         testing::Values("tokenizer-byte-level", "tokenizer-gemma-style",
                                         "tokenizer-llama-style"));

}  // namespace
}  // namespace tephra

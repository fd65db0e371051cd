// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/record_encoder.h"

#include "tephra/base/error.h"
#include "tephra/base/parallel.h"
#include "tephra/base/text.h"
#include "tephra/data/corpus/stage.h"

namespace tephra {
namespace {

constexpr int64_t kRecordGrain = 64;  // whatever the number of threads

}  // namespace

RecordEncoder::RecordEncoder(const Tokenizer& tokenizer, const TokenizeOptions& options)
    : options_(options), encoders_(tokenizer) {
  check_tokenize(tokenizer, options);
  if (options.append_eos) eos_ = end_token(tokenizer);
  if (options.prepend_bos) bos_ = *tokenizer.bos();
}

std::vector<EncodedRecord> RecordEncoder::encode(const std::vector<TextRecord>& records) {
  std::vector<EncodedRecord> results(records.size());
  parallel_for(std::ssize(records), kRecordGrain, [&](int64_t begin, int64_t end) {
    JsonLine parser;
    encoders_.use([&](Encoder& encoder) {
      for (int64_t i = begin; i < end; ++i) {
        const auto at = static_cast<size_t>(i);
        encode_one(records[at], parser, encoder, results[at]);
      }
    });
  });
  return results;
}

void RecordEncoder::encode_one(const TextRecord& record, JsonLine& parser, Encoder& encoder,
                               EncodedRecord& result) {
  std::string_view text = record.text;
  if (record.trouble != nullptr) {
    result.trouble = record.trouble;
    result.what = text;
    return;
  }
  try {
    if (record.json && trim(text).empty()) return;  // a blank line between objects
    if (record.json) text = parser.string_field(text, options_.text_field);
    require_data(is_utf8(text), "expected UTF-8 text, got other bytes");
  } catch (const Error& error) {
    result.trouble = counted::kBad;
    result.what = error.what();
    return;
  }
  if (text.empty()) return;
  if (options_.prepend_bos) result.tokens.push_back(bos_);
  encoder.encode(text, result.tokens);
  if (options_.append_eos) result.tokens.push_back(eos_);
  result.text_bytes = static_cast<int64_t>(text.size());
}

}  // namespace tephra

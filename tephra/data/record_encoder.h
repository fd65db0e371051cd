// SPDX-License-Identifier: Apache-2.0
// The tokens of many records at once, on all threads.
#pragma once

#include <string>
#include <vector>

#include "tephra/data/encoder_pool.h"
#include "tephra/data/json_line.h"
#include "tephra/data/text_records.h"
#include "tephra/data/tokenize.h"

namespace tephra {

// What became of a record.
struct EncodedRecord {
  std::vector<int32_t> tokens;
  int64_t text_bytes = 0;
  const char* trouble = nullptr;  // of counted::
  std::string what;               // is wrong with it
};

class RecordEncoder {
 public:
  RecordEncoder(const Tokenizer& tokenizer, const TokenizeOptions& options);

  std::vector<EncodedRecord> encode(const std::vector<TextRecord>& records);

 private:
  void encode_one(const TextRecord& record, JsonLine& parser, Encoder& encoder,
                  EncodedRecord& result);

  const TokenizeOptions& options_;
  EncoderPool encoders_;
  int32_t bos_ = 0, eos_ = 0;
};

}  // namespace tephra

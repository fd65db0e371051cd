// SPDX-License-Identifier: Apache-2.0
// Two kinds of input. One that starts with '{' is a tokenizer.json: what is accepted must encode
// and decode a few texts. Any other is text for the tokenizers of the three forms: byte-level BPE
// gives every valid text back (but for its normal form), decoding piece by piece equals decoding at
// once.
#include <cstdlib>
#include <vector>

#include "fuzz/fuzz.h"
#include "tephra/base/text.h"
#include "tephra/text/byte_tokenizer.h"
#include "tephra/text/tokenizer.h"

namespace {

using namespace tephra;

std::string decode_in_pieces(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  StreamDecoder decoder(tokenizer);
  std::string text;
  for (const int32_t id : ids) text += decoder.add(id);
  return text + decoder.finish();
}

std::string round_trip(const Tokenizer& tokenizer, std::string_view text) {
  const std::vector<int32_t> ids = tokenizer.encode(text);
  const std::string decoded = tokenizer.decode(ids);
  if (!is_utf8(decoded)) std::abort();
  if (decode_in_pieces(tokenizer, ids) != decoded) std::abort();
  for (const int32_t id : ids) {
    if (!tokenizer.has(id)) std::abort();
  }
  return decoded;
}

void read_file_and_use_it(std::string_view json) {
  fuzz::expect_reads_or_refuses([&] {
    const Tokenizer tokenizer = Tokenizer::parse(json, "tokenizer.json");
    for (const char* text : {"", "Hello, world 123", " \n\t a\xc3\xa9\xe2\x82\xac\xf0\x9f\x8c\x8b",
                             "<bos>a<eos>", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}) {
      round_trip(tokenizer, text);
    }
  });
}

// Any ids, as a model may say them: what a stream tells is whole characters, piece by piece.
void decode_any_ids(const Tokenizer& tokenizer, std::string_view bytes) {
  StreamDecoder decoder(tokenizer);
  std::string told;
  for (size_t i = 0; i + 1 < bytes.size(); i += 2) {
    const int id =
        static_cast<unsigned char>(bytes[i]) << 8 | static_cast<unsigned char>(bytes[i + 1]);
    told += decoder.add(static_cast<int32_t>(id % tokenizer.vocab_size()));
    if (!is_utf8(told)) std::abort();
  }
  told += decoder.finish();
  if (!is_utf8(told)) std::abort();
}

const std::vector<Tokenizer>& golden() {
  static const auto* const all = new std::vector<Tokenizer>([] {
    std::vector<Tokenizer> loaded;
    for (const char* form : {"gemma-style", "byte-level", "llama-style"}) {
      const std::string path = std::string(TEPHRA_GOLDEN_DIR) + "/tokenizer-" + form;
      loaded.push_back(Tokenizer::load(path));
    }
    return loaded;
  }());
  return *all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  if (text.starts_with("{")) {
    read_file_and_use_it(text);
    return 0;
  }
  for (const Tokenizer& tokenizer : golden()) {
    round_trip(tokenizer, text);
    decode_any_ids(tokenizer, text.substr(0, 256));
  }
  static const auto* const bytes = new Tokenizer(Tokenizer::parse(byte_tokenizer_json(), "bytes"));
  if (is_utf8(text) && round_trip(*bytes, text) != text) std::abort();
  return 0;
}

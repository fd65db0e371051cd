// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/tokenizer_check.h"

#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/base/text.h"

namespace tephra {
namespace {

TokenVector parse_vector(const Fields& row) {
  TokenVector vector;
  vector.text = row.string("text");
  for (const Json& id : row.array("ids")) {
    require_data(id.is_int() && id.integer() >= 0 && id.integer() <= INT32_MAX,
                 "{}: ids: expected token ids, got {}", row.where(), id.kind());
    vector.ids.push_back(static_cast<int32_t>(id.integer()));
  }
  if (row.has("decoded")) vector.decoded = row.string("decoded");
  return vector;
}

std::string id_at(const std::vector<int32_t>& ids, size_t at) {
  return at < ids.size() ? format("{}", ids[at]) : "the end";
}

std::optional<std::string> difference(const Tokenizer& tokenizer, Encoder& encoder,
                                      const TokenVector& v) {
  std::vector<int32_t> ids;
  encoder.encode(v.text, ids);
  if (ids != v.ids) {
    const auto at = static_cast<size_t>(
        std::mismatch(ids.begin(), ids.end(), v.ids.begin(), v.ids.end()).first - ids.begin());
    return format("encode '{}': token {}: expected {}, got {}", clipped(v.text, 60), at,
                  id_at(v.ids, at), id_at(ids, at));
  }
  if (!v.decoded) return std::nullopt;
  std::string streamed;
  StreamDecoder stream(tokenizer);
  for (const int32_t id : v.ids) streamed += stream.add(id);
  streamed += stream.finish();
  const std::string decoded = tokenizer.decode(v.ids);
  for (const std::string* got : {&decoded, static_cast<const std::string*>(&streamed)}) {
    if (*got == *v.decoded) continue;
    const auto [mine, theirs] =
        std::mismatch(got->begin(), got->end(), v.decoded->begin(), v.decoded->end());
    const auto at = static_cast<size_t>(mine - got->begin());
    return format("{} '{}': byte {}: expected '{}', got '{}'",
                  got == &decoded ? "decode" : "decode as a stream", clipped(v.text, 60), at,
                  clipped(std::string_view(*v.decoded).substr(at), 40),
                  clipped(std::string_view(*got).substr(at), 40));
  }
  return std::nullopt;
}

}  // namespace

std::vector<TokenVector> read_token_vectors(const Path& path) {
  const Json document = Json::parse(read_file(path), path.string());
  require_data(document.is_array(), "{}: expected an array of vectors, got {}", path.string(),
               document.kind());
  std::vector<TokenVector> vectors;
  for (const Json& row : document.array()) {
    vectors.push_back(parse_vector(Fields(row, format("{}[{}]", path.string(), vectors.size()))));
  }
  require_data(!vectors.empty(), "{}: expected vectors, the list is empty", path.string());
  return vectors;
}

VectorReport check_token_vectors(const Tokenizer& tokenizer,
                                 const std::vector<TokenVector>& vectors) {
  VectorReport report{.vectors = vectors.size()};
  Encoder encoder(tokenizer);
  for (size_t i = 0; i < vectors.size(); ++i) {
    if (auto what = difference(tokenizer, encoder, vectors[i])) {
      report.differences.push_back({i, std::move(*what)});
    }
  }
  return report;
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// Reading tokenizer.json, and the two files beside it that name the tokens around a text.
#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/base/text.h"
#include "tephra/text/tokenizer.h"

namespace tephra {

class TokenizerReader {
 public:
  TokenizerReader(const Fields& file, Tokenizer& tokenizer) : file_(file), t_(tokenizer) {}

  void read() {
    for (const char* key : {"truncation", "padding"}) {
      require_data(!file_.has(key), "{}: {} is not supported; set it to null", file_.where(), key);
    }
    if (file_.has("normalizer")) t_.normalizer_ = Normalizer(file_.object("normalizer"));
    if (file_.has("pre_tokenizer")) t_.pre_ = PreTokenizer(file_.object("pre_tokenizer"));
    t_.model_ = Bpe(file_.object("model"), t_.pre_.byte_level());
    if (file_.has("decoder")) t_.decoder_ = TokenDecoder(file_.object("decoder"));
    if (file_.has("post_processor")) {
      t_.post_ = parse_post_processor(file_.object("post_processor"));
    }
    t_.vocab_size_ = t_.model_.tokens().size();
    if (file_.has("added_tokens")) read_added();
    for (const std::vector<int32_t>& ids : {t_.post_.before, t_.post_.after}) {
      for (const int32_t id : ids) {
        require_data(t_.has(id), "{}: post_processor: no token has the id {}", file_.where(), id);
      }
    }
  }

 private:
  void read_added() {
    std::vector<AddedToken>& added = t_.added_;
    size_t i = 0;
    for (const Json& item : file_.array("added_tokens")) {
      added.push_back(
          parse_added_token(Fields(item, format("{}: added_tokens[{}]", file_.where(), i++))));
    }
    std::sort(added.begin(), added.end(),
              [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
    check_added();
    std::vector<AddedToken> raw, normal;
    NormalizerScratch scratch;
    for (const AddedToken& token : added) {
      t_.vocab_size_ = std::max<int64_t>(t_.vocab_size_, token.id + int64_t{1});
      (token.normalized ? normal : raw).push_back(token);
      if (!token.normalized) continue;
      normal.back().content = std::string(t_.normalizer_(token.content, scratch));
      if (normal.back().content.empty()) normal.pop_back();
    }
    t_.raw_added_ = AddedTokenFinder(std::move(raw));
    t_.normalized_added_ = AddedTokenFinder(std::move(normal));
  }

  void check_added() const {
    const TokenTable& tokens = t_.model_.tokens();
    for (size_t i = 0; i < t_.added_.size(); ++i) {
      const AddedToken& token = t_.added_[i];
      const int32_t in_vocabulary = tokens.find(token.content);
      require_data(in_vocabulary == TokenTable::kNone || in_vocabulary == token.id,
                   "{}: added_tokens: '{}' has the id {}, but {} in the vocabulary", file_.where(),
                   clipped(token.content, 40), token.id, in_vocabulary);
      require_data(!tokens.has(token.id) || in_vocabulary == token.id,
                   "{}: added_tokens: '{}' has the id {}, which is '{}' in the vocabulary",
                   file_.where(), clipped(token.content, 40), token.id,
                   tokens.has(token.id) ? clipped(tokens[token.id], 40) : "");
      require_data(i == 0 || t_.added_[i - 1].id != token.id,
                   "{}: added_tokens: the id {} appears twice", file_.where(), token.id);
    }
  }

  const Fields& file_;
  Tokenizer& t_;
};

namespace {

// "bos_token": "<bos>" or {"content": "<bos>", ...}.
std::optional<int32_t> named_token(const Tokenizer& tokenizer, const Fields& config,
                                   std::string_view key) {
  if (!config.has(key)) return std::nullopt;
  const Json& value = *config.json().find(key);
  const std::string name =
      value.is_object() ? config.object(key).string("content") : config.string(key);
  return tokenizer.find(name);
}

std::vector<int32_t> ids_in(const Fields& config, std::string_view key) {
  if (!config.has(key)) return {};
  const Json& value = *config.json().find(key);
  std::vector<int32_t> ids;
  for (const Json& id : value.is_array() ? value.array() : Json::Array{value}) {
    require_data(id.is_int() && id.integer() >= 0 && id.integer() <= INT32_MAX,
                 "{}: {}: expected token ids, got {}", config.where(), key, id.kind());
    ids.push_back(static_cast<int32_t>(id.integer()));
  }
  return ids;
}

}  // namespace

Tokenizer Tokenizer::parse(std::string_view json, const std::string& where) {
  const Json document = Json::parse(json, where);
  const Fields file(document, where);
  Tokenizer tokenizer;
  TokenizerReader(file, tokenizer).read();
  return tokenizer;
}

Tokenizer Tokenizer::load(const Path& path) {
  const bool folder = std::filesystem::is_directory(path);
  const Path file = folder ? path / "tokenizer.json" : path;
  if (!std::filesystem::exists(file)) {
    throw Error(Fault::usage,
                format("{}: {}; expected a tokenizer.json", file.string(),
                       folder ? "is missing" : "does not exist"),
                "give a folder that has one, or make one with `tephra tokenizer train`");
  }
  Tokenizer tokenizer = parse(read_file(file), file.string());
  const Path beside = folder ? path : file.parent_path();
  if (const Path config = beside / "tokenizer_config.json"; std::filesystem::exists(config)) {
    const Json document = Json::parse(read_file(config), config.string());
    const Fields fields(document, config.string());
    tokenizer.bos_ = named_token(tokenizer, fields, "bos_token");
    tokenizer.pad_ = named_token(tokenizer, fields, "pad_token");
    if (const auto eos = named_token(tokenizer, fields, "eos_token")) tokenizer.eos_ = {*eos};
  }
  // Generation's own list wins, as it does in transformers.
  if (const Path config = beside / "generation_config.json"; std::filesystem::exists(config)) {
    const Json document = Json::parse(read_file(config), config.string());
    const Fields fields(document, config.string());
    if (auto eos = ids_in(fields, "eos_token_id"); !eos.empty()) tokenizer.eos_ = std::move(eos);
    if (const auto bos = ids_in(fields, "bos_token_id"); !bos.empty()) tokenizer.bos_ = bos[0];
    if (const auto pad = ids_in(fields, "pad_token_id"); !pad.empty()) tokenizer.pad_ = pad[0];
  }
  return tokenizer;
}

}  // namespace tephra

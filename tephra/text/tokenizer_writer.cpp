// SPDX-License-Identifier: Apache-2.0
// The files of a trained tokenizer, in the structure that Hugging Face's libraries write.
#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/text/bpe_trainer.h"
#include "tephra/text/training_pattern.h"

namespace tephra {
namespace {

Json object(Json::Object entries) { return Json(std::move(entries)); }

Json pattern_of(const char* kind, std::string_view text) {
  return object({{kind, std::string(text)}});
}

Json replace(const char* from, const char* to) {
  return object({{"type", "Replace"}, {"pattern", pattern_of("String", from)}, {"content", to}});
}

Json byte_level(bool prefix_space, bool use_regex) {
  return object({{"type", "ByteLevel"},
                 {"add_prefix_space", prefix_space},
                 {"trim_offsets", true},
                 {"use_regex", use_regex}});
}

Json normalizer(TokenizerForm form) {
  if (form == TokenizerForm::byte_level) return object({{"type", "NFC"}});
  if (form == TokenizerForm::gemma) return replace(" ", "▁");
  const Json prepend = object({{"type", "Prepend"}, {"prepend", "▁"}});
  return object({{"type", "Sequence"}, {"normalizers", Json::Array{prepend, replace(" ", "▁")}}});
}

Json pre_tokenizer(TokenizerForm form) {
  if (form == TokenizerForm::llama) return {};
  const bool bytes = form == TokenizerForm::byte_level;
  const Json split = object(
      {{"type", "Split"},
       {"pattern", bytes ? pattern_of("Regex", kTrainingPattern) : pattern_of("String", " ")},
       {"behavior", bytes ? "Isolated" : "MergedWithPrevious"},
       {"invert", false}});
  if (!bytes) return split;
  return object(
      {{"type", "Sequence"}, {"pretokenizers", Json::Array{split, byte_level(false, false)}}});
}

Json decoder(TokenizerForm form) {
  if (form == TokenizerForm::byte_level) return byte_level(true, true);
  Json::Array steps = {replace("▁", " "), object({{"type", "ByteFallback"}}),
                       object({{"type", "Fuse"}})};
  if (form == TokenizerForm::llama) {
    steps.push_back(object({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}));
  }
  return object({{"type", "Sequence"}, {"decoders", steps}});
}

int64_t special_id(const BpeTrainOptions& o, const std::string& token) {
  const auto at = std::find(o.special_tokens.begin(), o.special_tokens.end(), token);
  require(at != o.special_tokens.end(), "special tokens: expected '{}' among them, it is not",
          token);
  return at - o.special_tokens.begin();
}

Json post_processor(const BpeTrainOptions& o, const TokenizerFileOptions& file) {
  if (!file.add_bos && !file.add_eos) return {};
  Json::Array single, pair;
  Json::Object specials;
  const auto text = [](const char* name, int type) {
    return object({{"Sequence", object({{"id", name}, {"type_id", type}})}});
  };
  const auto special = [&](const char* token, int type) {
    const int64_t id = special_id(o, token);
    if (std::none_of(specials.begin(), specials.end(), [&](auto& e) { return e.first == token; })) {
      specials.emplace_back(
          token, object({{"id", token}, {"ids", Json::Array{id}}, {"tokens", Json::Array{token}}}));
    }
    return object({{"SpecialToken", object({{"id", token}, {"type_id", type}})}});
  };
  for (const int type : {0, 1}) {
    for (Json::Array* list : {&single, &pair}) {
      if (type == 1 && list == &single) continue;
      if (file.add_bos) list->push_back(special("<bos>", type));
      list->push_back(text(type == 0 ? "A" : "B", type));
      if (file.add_eos) list->push_back(special("<eos>", type));
    }
  }
  return object({{"type", "TemplateProcessing"},
                 {"single", single},
                 {"pair", pair},
                 {"special_tokens", specials}});
}

Json added_tokens(const BpeTrainOptions& o) {
  Json::Array added;
  for (size_t id = 0; id < o.special_tokens.size(); ++id) {
    added.push_back(object({{"id", static_cast<int64_t>(id)},
                            {"content", o.special_tokens[id]},
                            {"single_word", false},
                            {"lstrip", false},
                            {"rstrip", false},
                            {"normalized", false},
                            {"special", true}}));
  }
  return added;
}

Json model(const TrainedBpe& trained, const BpeTrainOptions& o) {
  Json::Object vocab;
  for (size_t id = 0; id < trained.tokens.size(); ++id) {
    vocab.emplace_back(trained.tokens[id], static_cast<int64_t>(id));
  }
  Json::Array merges;
  for (const auto& [left, right] : trained.merges) {
    merges.push_back(Json::Array{trained.tokens[static_cast<size_t>(left)],
                                 trained.tokens[static_cast<size_t>(right)]});
  }
  const bool fallback = o.form != TokenizerForm::byte_level;
  if (fallback) special_id(o, "<unk>");  // the unknown token must exist
  return object({{"type", "BPE"},
                 {"dropout", Json()},
                 {"unk_token", fallback ? Json("<unk>") : Json()},
                 {"continuing_subword_prefix", Json()},
                 {"end_of_word_suffix", Json()},
                 {"fuse_unk", fallback},
                 {"byte_fallback", fallback},
                 {"ignore_merges", false},
                 {"vocab", vocab},
                 {"merges", merges}});
}

}  // namespace

Json tokenizer_json(const TrainedBpe& trained, const BpeTrainOptions& o,
                    const TokenizerFileOptions& file) {
  return object({{"version", "1.0"},
                 {"truncation", Json()},
                 {"padding", Json()},
                 {"added_tokens", added_tokens(o)},
                 {"normalizer", normalizer(o.form)},
                 {"pre_tokenizer", pre_tokenizer(o.form)},
                 {"post_processor", post_processor(o, file)},
                 {"decoder", decoder(o.form)},
                 {"model", model(trained, o)}});
}

Json tokenizer_config_json(const BpeTrainOptions& o) {
  Json::Object config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                         {"clean_up_tokenization_spaces", false}};
  for (const char* name : {"bos", "eos", "pad", "unk"}) {
    const std::string token = std::string("<") + name + ">";
    if (std::find(o.special_tokens.begin(), o.special_tokens.end(), token) !=
        o.special_tokens.end()) {
      config.emplace_back(std::string(name) + "_token", token);
    }
  }
  return config;
}

}  // namespace tephra

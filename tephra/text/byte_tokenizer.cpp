// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/byte_tokenizer.h"

#include "tephra/base/format.h"
#include "tephra/base/json.h"
#include "tephra/text/byte_alphabet.h"
#include "tephra/text/chatml.h"

namespace tephra {
namespace {

constexpr int64_t kFirstByte = 16;

std::string special_name(int64_t id) {
  constexpr const char* kNames[] = {"<pad>",      "<eos>",   "<bos>",   "<|im_start|>",
                                    "<|im_end|>", "<think>", "</think>"};
  constexpr int64_t kNamed = 7;
  return id < kNamed ? kNames[id] : format("<|reserved_{}|>", id);
}

Json special_token(int64_t id) {
  Json token;
  token["id"] = id;
  token["content"] = special_name(id);
  for (const char* flag : {"single_word", "lstrip", "rstrip", "normalized"}) token[flag] = false;
  token["special"] = true;
  return token;
}

Json byte_level(bool add_prefix_space) {
  Json step;
  step["type"] = "ByteLevel";
  step["add_prefix_space"] = add_prefix_space;
  step["trim_offsets"] = true;
  step["use_regex"] = false;
  return step;
}

}  // namespace

std::string byte_tokenizer_json() {
  Json json;
  json["version"] = "1.0";
  json["truncation"] = Json();
  json["padding"] = Json();
  Json vocab;
  for (int64_t id = 0; id < kFirstByte; ++id) {
    json["added_tokens"].push_back(special_token(id));
    vocab[special_name(id)] = id;
  }
  for (int64_t byte = 0; byte < 256; ++byte) {
    vocab[spelling_of_bytes(std::string(1, static_cast<char>(byte)))] = kFirstByte + byte;
  }
  json["normalizer"] = Json();
  json["pre_tokenizer"] = byte_level(false);
  json["post_processor"] = Json();
  json["decoder"] = byte_level(true);
  Json& model = json["model"];
  model["type"] = "BPE";
  model["dropout"] = Json();
  for (const char* key : {"unk_token", "continuing_subword_prefix", "end_of_word_suffix"}) {
    model[key] = Json();
  }
  model["fuse_unk"] = false;
  model["byte_fallback"] = false;
  model["ignore_merges"] = false;
  model["vocab"] = vocab;
  model["merges"] = Json(Json::Array{});
  return json.dump(2) + "\n";
}

void write_byte_tokenizer(const Path& folder) {
  Json config;
  config["bos_token"] = "<bos>";
  config["eos_token"] = "<eos>";
  config["pad_token"] = "<pad>";
  config["tokenizer_class"] = "PreTrainedTokenizerFast";
  // A text ends, or a turn of a chat.
  Json generation;
  generation["bos_token_id"] = int64_t{2};
  generation["eos_token_id"] = Json::Array{int64_t{1}, int64_t{4}};
  generation["pad_token_id"] = int64_t{0};
  write_file(folder / "tokenizer.json", byte_tokenizer_json());
  write_file(folder / "tokenizer_config.json", config.dump(2) + "\n");
  write_file(folder / "generation_config.json", generation.dump(2) + "\n");
  write_file(folder / "chat_template.jinja", kChatmlTemplate);
}

}  // namespace tephra

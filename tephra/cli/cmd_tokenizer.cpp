// SPDX-License-Identifier: Apache-2.0
// tokenizer encode, decode and check.
#include <charconv>
#include <cstdio>

#include "tephra/base/error.h"
#include "tephra/base/text.h"
#include "tephra/cli/command.h"
#include "tephra/cli/output.h"
#include "tephra/cli/text_input.h"
#include "tephra/text/tokenizer_check.h"

namespace tephra {
namespace {

constexpr const char* kTokenizerHelp = "folder with a tokenizer.json, or the file itself";

Json json_of(const std::vector<int32_t>& ids) {
  Json list = Json::Array{};
  for (const int32_t id : ids) list.push_back(int64_t{id});
  return list;
}

struct EncodeOptions {
  std::string tokenizer;
  std::optional<std::string> text;
  std::optional<std::string> file;
  bool special = false;
  bool json = false;
};

void describe_encode(Flags& flags, EncodeOptions& o) {
  flags.add("TEXT", o.text, "the text; without it and --file, what is piped in");
  flags.add("--tokenizer DIR", o.tokenizer, kTokenizerHelp).required();
  flags.add("--file FILE", o.file, "encode a file's text instead");
  flags.add("--special", o.special,
            "add what the tokenizer adds around a text (bos, eos); special tokens that are written "
            "in the text are always recognised");
  flags.add("--json", o.json, "one JSON document: ids and tokens");
  flags.example("tephra tokenizer encode --tokenizer tests/golden/tokenizer-byte-level 'Hello!'");
  flags.example("tephra tokenizer encode --tokenizer DIR --special < prompt.txt");
}

int encode(const EncodeOptions& o) {
  const Tokenizer tokenizer = Tokenizer::load(o.tokenizer);
  const std::string text = input_text(o.text, o.file);
  const std::vector<int32_t> ids =
      tokenizer.encode(text, o.special ? AddSpecial::all : AddSpecial::none);
  if (o.json) {
    Json tokens = Json::Array{};
    for (const int32_t id : ids) tokens.push_back(tokenizer.token(id));
    Json out;
    out["ids"] = json_of(ids);
    out["tokens"] = tokens;
    print_json(out);
    return 0;
  }
  std::string line;
  for (const int32_t id : ids) line += (line.empty() ? "" : ",") + std::to_string(id);
  print("{}", line);
  return 0;
}

struct DecodeCommandOptions {
  std::string tokenizer;
  std::vector<std::string> ids;
  bool special = false;
  bool json = false;
};

void describe_decode(Flags& flags, DecodeCommandOptions& o) {
  flags.add("IDS", o.ids, "token ids: 48,394,344 or 48 394 344; without them, what is piped in");
  flags.add("--tokenizer DIR", o.tokenizer, kTokenizerHelp).required();
  flags.add("--special", o.special, "keep special tokens; without it they are left out");
  flags.add("--json", o.json, "one JSON document: text and tokens");
  flags.example("tephra tokenizer decode --tokenizer tests/golden/tokenizer-byte-level 48,394,344");
  flags.example("tephra tokenizer decode --tokenizer DIR --special < ids.txt");
}

std::vector<int32_t> parse_ids(std::string_view text, const Tokenizer& tokenizer) {
  std::vector<int32_t> ids;
  constexpr std::string_view kBetween = ", \t\r\n";
  while ((text.remove_prefix(std::min(text.size(), text.find_first_not_of(kBetween))),
          !text.empty())) {
    const std::string_view word = text.substr(0, text.find_first_of(kBetween));
    int64_t id = -1;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    require(error == std::errc() && end == word.data() + word.size(),
            "IDS: id {}: expected a number, got '{}'", ids.size(), clipped(word, 40));
    require(tokenizer.has(id), "IDS: id {} is {}; the tokenizer has no such token, ids go to {}",
            ids.size(), id, tokenizer.vocab_size() - 1);
    ids.push_back(static_cast<int32_t>(id));
    text.remove_prefix(word.size());
  }
  return ids;
}

int decode(const DecodeCommandOptions& o) {
  const Tokenizer tokenizer = Tokenizer::load(o.tokenizer);
  std::optional<std::string> given;
  for (const std::string& word : o.ids) given = given.value_or("") + word + " ";
  const std::vector<int32_t> ids = parse_ids(input_text(given, std::nullopt), tokenizer);
  const std::string text = tokenizer.decode(ids, {.keep_special = o.special});
  if (o.json) {
    Json tokens = Json::Array{};
    for (const int32_t id : ids) tokens.push_back(tokenizer.token(id));
    Json out;
    out["text"] = text;
    out["tokens"] = tokens;
    print_json(out);
  } else {
    std::fwrite(text.data(), 1, text.size(), stdout);  // as it is: no newline of ours
  }
  return 0;
}

struct CheckOptions {
  std::string tokenizer;
  std::string vectors;
  bool json = false;
};

void describe_check(Flags& flags, CheckOptions& o) {
  flags.add("--tokenizer DIR", o.tokenizer, kTokenizerHelp).required();
  flags
      .add("--vectors FILE", o.vectors,
           "a JSON list of {text, ids, decoded}; ids without added special tokens, decoded with "
           "special tokens kept")
      .required();
  flags.add("--json", o.json, "one JSON document");
  flags.example(
      "tephra tokenizer check --tokenizer tests/golden/tokenizer-gemma-style --vectors "
      "tests/golden/tokenizer-gemma-style/vectors.json");
}

void print_report(const VectorReport& report) {
  Json differences = Json::Array{};
  for (const VectorDifference& d : report.differences) {
    Json row;
    row["vector"] = static_cast<int64_t>(d.vector);
    row["what"] = d.what;
    differences.push_back(row);
  }
  Json out;
  out["pass"] = report.differences.empty();
  out["vectors"] = static_cast<int64_t>(report.vectors);
  out["differences"] = differences;
  print_json(out);
}

int check(const CheckOptions& o) {
  const std::vector<TokenVector> vectors = read_token_vectors(o.vectors);
  const VectorReport report = check_token_vectors(Tokenizer::load(o.tokenizer), vectors);
  if (o.json) print_report(report);
  if (!report.differences.empty()) {
    const VectorDifference& first = report.differences[0];
    throw Error(Fault::data, format("{} of {} vectors differ; the first is {}[{}]: {}",
                                    report.differences.size(), report.vectors, o.vectors,
                                    first.vector, first.what));
  }
  if (!o.json) print("all {} vectors agree", report.vectors);
  return 0;
}

}  // namespace

Command tokenizer_encode_command() {
  return command<EncodeOptions>("tokenizer encode", "text to token ids", describe_encode, encode);
}

Command tokenizer_decode_command() {
  return command<DecodeCommandOptions>("tokenizer decode", "token ids to text", describe_decode,
                                       decode);
}

Command tokenizer_check_command() {
  return command<CheckOptions>("tokenizer check", "compare a tokenizer with reference vectors",
                               describe_check, check);
}

}  // namespace tephra

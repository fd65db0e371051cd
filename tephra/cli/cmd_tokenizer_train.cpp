// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "tephra/base/clock.h"
#include "tephra/base/error.h"
#include "tephra/base/log.h"
#include "tephra/base/new_folder.h"
#include "tephra/base/text.h"
#include "tephra/cli/command.h"
#include "tephra/cli/output.h"
#include "tephra/text/bpe_trainer.h"
#include "tephra/text/tokenizer.h"
#include "tephra/text/training_text.h"

namespace tephra {
namespace {

struct Options {
  std::vector<std::string> files;
  std::string form = "byte-level";
  std::string out;
  std::vector<std::string> special;
  BpeTrainOptions train;
  TokenizerFileOptions file;
  std::optional<int64_t> max_token_chars;
  bool json = false;
};

void describe(Flags& flags, Options& o) {
  flags.add("FILES", o.files, "text files; of *.jsonl the \"text\" field of each line").required();
  flags
      .add("--form", o.form,
           "byte-level (GPT-4's split pattern, NFC), gemma (byte fallback, ▁ for spaces) or llama "
           "(the same, ▁ before the text)")
      .choices({"byte-level", "gemma", "llama"});
  flags.add("--vocab-size", o.train.vocab_size, "tokens, special ones and bytes included")
      .range(257, 1 << 22);
  flags.add("--out DIR", o.out, "folder for tokenizer.json and tokenizer_config.json").required();
  flags.add(
      "--special-token TOKEN", o.special,
      "one more special token; after <pad>, <eos>, <bos>, <unk> (ids 0 to 3). May be repeated");
  flags.add("--min-count", o.train.min_count, "pairs rarer than this stay apart").range(1, 1e9);
  flags
      .add("--max-token-chars", o.max_token_chars,
           "no longer tokens (0: any); by default 16 for gemma and llama, any for byte-level")
      .range(0, 60000);
  flags
      .add("--coverage", o.train.coverage,
           "gemma and llama: share of the characters that get a token; bytes do the rest")
      .range(0, 1);
  flags.add("--add-bos", o.file.add_bos, "the tokenizer puts <bos> before a text");
  flags.add("--add-eos", o.file.add_eos, "the tokenizer puts <eos> after a text");
  flags.add("--json", o.json, "one JSON document");
  flags.example("tephra tokenizer train --vocab-size 32000 --out tokenizer corpus.txt");
  flags.example(
      "tephra tokenizer train --form gemma --vocab-size 64000 --special-token '<|user|>' "
      "--add-bos --out tokenizer part-*.jsonl");
}

BpeTrainOptions train_options(const Options& o) {
  BpeTrainOptions train = o.train;
  train.form = o.form == "byte-level" ? TokenizerForm::byte_level
               : o.form == "gemma"    ? TokenizerForm::gemma
                                      : TokenizerForm::llama;
  train.max_token_chars =
      o.max_token_chars.value_or(train.form == TokenizerForm::byte_level ? 0 : 16);
  for (const std::string& token : o.special) {
    require(!token.empty(), "--special-token: expected text, got nothing");
    for (const std::string& known : train.special_tokens) {
      require(token != known, "--special-token: '{}' is there already", token);
    }
    train.special_tokens.push_back(token);
  }
  return train;
}

int64_t total_bytes(const std::vector<std::string>& files) {
  int64_t total = 0;
  for (const std::string& file : files) {
    require(std::filesystem::is_regular_file(file), "{}: expected a text file, found none", file);
    total += static_cast<int64_t>(std::filesystem::file_size(file));
  }
  return total;
}

int run(const Options& o) {
  const BpeTrainOptions train = train_options(o);
  const int64_t bytes = total_bytes(o.files);
  NewFolder folder(o.out);
  const double start = steady_seconds();
  WordCounter counter(train.form);
  {
    Progress progress("counting words", bytes, "B");
    for (const std::string& file : o.files) count_file(file, counter, progress);
  }
  const std::vector<WordCount> words = counter.take();
  require_data(!words.empty(), "no words in {} files: nothing to train on", o.files.size());
  log_info("{} of text, {} different words", human_bytes(bytes),
           human_count(static_cast<int64_t>(words.size())));
  const TrainedBpe trained = train_bpe(words, train);
  const auto size = static_cast<int64_t>(trained.tokens.size());
  if (size < train.vocab_size) {
    log_warning("{} tokens instead of {}: no further pair appears {} times", size, train.vocab_size,
                train.min_count);
  }
  const std::string file = tokenizer_json(trained, train, o.file).dump(2) + "\n";
  Tokenizer::parse(file, "the trained tokenizer");  // what was written can be read
  folder.write("tokenizer_config.json", tokenizer_config_json(train).dump(2) + "\n");
  folder.write("tokenizer.json", file);
  folder.keep();
  const double seconds = steady_seconds() - start;
  if (o.json) {
    Json out;
    out["out"] = o.out;
    out["form"] = o.form;
    out["vocab_size"] = size;
    out["merges"] = static_cast<int64_t>(trained.merges.size());
    out["bytes"] = bytes;
    out["words"] = static_cast<int64_t>(words.size());
    out["seconds"] = seconds;
    print_json(out);
  } else {
    print("{}: {} tokens, {} merges", (Path(o.out) / "tokenizer.json").string(), size,
          trained.merges.size());
    log_info("{:.1f} s", seconds);
  }
  return 0;
}

}  // namespace

Command tokenizer_train_command() {
  return command<Options>("tokenizer train", "learn a BPE vocabulary from text", describe, run);
}

}  // namespace tephra

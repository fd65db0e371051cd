// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/tokenize.h"

#include "tephra/base/error.h"
#include "tephra/base/hash.h"
#include "tephra/data/corpus/output_lock.h"
#include "tephra/data/encoder_pool.h"
#include "tephra/data/shard_maker.h"
#include "tephra/data/shard_parts.h"
#include "tephra/data/shard_record.h"

namespace tephra {

void check_tokenize(const Tokenizer& tokenizer, const TokenizeOptions& options) {
  if (options.append_eos) end_token(tokenizer);
  if (!options.prepend_bos || tokenizer.bos()) return;
  throw Error(Fault::usage, "the tokenizer names no token that begins a text",
              "give \"bos_token\" in tokenizer_config.json beside tokenizer.json");
}

std::string mark_of_tokenizer(const Path& path) {
  const Path folder = std::filesystem::is_directory(path) ? path : path.parent_path();
  const Path main = std::filesystem::is_directory(path) ? path / "tokenizer.json" : path;
  std::string text;
  for (const Path& file :
       {main, folder / "tokenizer_config.json", folder / "generation_config.json"}) {
    if (std::filesystem::exists(file)) text += hash_text(xxh3(read_file(file)));
    text += '.';
  }
  return format("tokenizer={}", hash_text(xxh3(text)));
}

TokenizeReport tokenize_files(std::span<const Path> files, const Tokenizer& tokenizer,
                              const Path& out_prefix, const TokenizeOptions& options) {
  lock_shard(out_prefix);
  ShardMaker maker(files, tokenizer, out_prefix, options);
  maker.go_to(files.size());
  return maker.commit();
}

namespace {

// One of the processes that make a shard.
class ShardWork {
 public:
  ShardWork(std::span<const Path> files, const Tokenizer& tokenizer, const Path& prefix,
            const TokenizeOptions& options)
      : files_(files),
        tokenizer_(tokenizer),
        prefix_(prefix),
        options_(options),
        shard_(options.shard),
        whole_(files, prefix, options) {}

  // Whose the name is may be asked only by who holds it.
  NamedShard make(bool overwrite) {
    lock_shard(prefix_, shard_.count > 1);
    if (shard_.index == 0 && overwrite) whole_.begin_anew();
    if (shard_.index > 0) wait_for_first();
    if (const auto done = overwrite ? std::nullopt : whole_.done(tokenizer_.vocab_size())) {
      if (shard_.index == 0) whole_.finish();
      if (shard_.index == 0) wait_for_first();
      return {done->report, false};
    }
    if (!overwrite && (shard_.index == 0 || !shard_.ranks)) whole_.check_replaceable();
    return shard_.index == 0 ? make_first() : make_part();
  }

 private:
  // The others for the first rank; it only says that it has come so far.
  void wait_for_first() const {
    if (options_.ranks) options_.ranks->follow("who makes the tokens of which files");
  }

  // Who makes which files. The first rank says so; shards come when they come.
  ShardParts shared_parts(size_t from) const {
    if (shard_.ranks && shard_.index > 0) return parts_of_first();
    const ShardParts parts =
        ShardParts(files_, prefix_, from, shard_.count).agree(whole_, shard_.ranks);
    if (parts.count() == shard_.count) return parts;
    throw Error(Fault::usage,
                format("{}: holds the work of {} shards, not of {}",
                       ShardParts::folder(prefix_).string(), parts.count(), shard_.count),
                "the same command without --shard takes what is done of it and makes the rest");
  }

  ShardParts parts_of_first() const {
    whole_.check_parts();
    const std::optional<ShardParts> parts = ShardParts::read(files_, prefix_);
    require_data(parts && parts->count() == shard_.count, "{}: is gone while ranks work in it",
                 ShardParts::folder(prefix_).string());
    return *parts;
  }

  // What another process writes is not opened before its lock is held.
  NamedShard make_first() {
    std::optional<ShardParts> parts = ShardParts::read(files_, prefix_);
    if (shard_.count > 1) {
      parts = shared_parts(shard_.ranks ? whole_.next_file() : 0);
      lock_shard(parts->path(0));
    }
    ShardMaker maker(files_, tokenizer_, prefix_, options_);
    wait_for_first();
    maker.go_to(parts ? parts->end(0) : files_.size());
    if (shard_.count > 1 && !shard_.ranks) {
      maker.write_journal();
      return {maker.report(), true, false};
    }
    for (int64_t part = 1; parts && part < parts->count(); ++part) add_part(*parts, part, maker);
    if (options_.ranks) options_.ranks->gather("the tokens of all ranks");
    return {maker.commit()};
  }

  // As its process made it, or, where nobody does, here.
  void add_part(const ShardParts& parts, int64_t part, ShardMaker& maker) const {
    const size_t end = parts.end(part);
    if (!maker.is_at(parts.begin(part))) return maker.go_to(end);
    if (parts.begin(part) == end) return;
    const ShardRecord record(parts.files(part), parts.path(part), options_);
    std::optional<ShardProgress> made = record.done(tokenizer_.vocab_size());
    if (options_.ranks && !made) {
      options_.ranks->wait_for(part, "its tokens", [&] {
        made = record.done(tokenizer_.vocab_size());
        return made.has_value();
      });
    }
    if (made) {
      maker.join(parts.path(part), *made, end);
    } else {
      maker.go_to(end);
    }
  }

  NamedShard make_part() const {
    const ShardParts parts = shared_parts(0);
    NamedShard part{.report = {}, .made = true, .complete = false};
    if (parts.begin(shard_.index) < parts.end(shard_.index)) {
      const std::span<const Path> files = parts.files(shard_.index);
      const Path prefix = parts.path(shard_.index);
      const auto made = ShardRecord(files, prefix, options_).done(tokenizer_.vocab_size());
      part.report = made ? made->report : tokenize_files(files, tokenizer_, prefix, options_);
    }
    if (options_.ranks) options_.ranks->gather("the tokens of all ranks");
    return part;
  }

  std::span<const Path> files_;
  const Tokenizer& tokenizer_;
  const Path& prefix_;
  const TokenizeOptions& options_;
  const Shard& shard_;
  ShardRecord whole_;
};

}  // namespace

NamedShard make_shard(std::span<const Path> files, const Tokenizer& tokenizer,
                      const Path& out_prefix, const TokenizeOptions& options, bool overwrite) {
  return ShardWork(files, tokenizer, out_prefix, options).make(overwrite);
}

}  // namespace tephra

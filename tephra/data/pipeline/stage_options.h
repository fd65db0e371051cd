// SPDX-License-Identifier: Apache-2.0
// What stages can be told. Each setting is described once, and that serves both the flags of a
// stage's command and the keys of a pipeline file: --least-chars is `least_chars`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tephra/base/config.h"
#include "tephra/data/classify/classify_corpus.h"
#include "tephra/data/decontaminate/task_index.h"
#include "tephra/data/dedup/dedup_corpus.h"
#include "tephra/data/dedup/line_dedup.h"
#include "tephra/data/dedup/substring_dedup.h"
#include "tephra/data/filter/filter_corpus.h"
#include "tephra/data/mix/mix_corpus.h"

namespace tephra {

// What the stages of a command or a pipeline have in common.
struct CorpusContext {
  std::string text_field = "text";
  int64_t memory_bytes = int64_t{4} << 30;
};

struct FilterSettings {
  std::vector<std::string> preset = {"zyda1"};
  std::string mode = "fixed";
  std::optional<std::string> word_lists;
  std::vector<std::string> threshold;
  bool no_values = false;
  bool keep_dropped = false;

  template <class Visitor>
  void fields(Visitor& f) {
    f.read("preset", preset, "zyda1, gopher, c4, fineweb, or several, one after another",
           {.value_name = "NAMES"});
    f.read("mode", mode,
           "compat: as the originals compute, quirks included; fixed: as they were meant",
           {.choices = {"compat", "fixed"}});
    f.read("word_lists", word_lists,
           "of zyda1: profanity.json, sexual.json, zh_pornsignals.json, cursed_substrings.json",
           {.value_name = "DIR"});
    f.read("threshold", threshold,
           "another limit, such as zyda1.length_min=200, for each of several rules",
           {.value_name = "RULE=NUMBER"});
    f.read("no_values", no_values, "do not write the values of every document");
    f.read("keep_dropped", keep_dropped, "also write what is dropped, with the rules");
  }

  // These and those below: Fault::usage for what does not fit together, or has no effect.
  FilterOptions options(const CorpusContext& context) const;
};

struct DedupSettings {
  std::string unit = "document";
  int64_t least_chars = 20;
  int64_t least_bytes = 200;
  bool remove_all = false;
  std::string preset = "native";
  std::optional<double> similarity;
  std::string keep = "first";
  std::vector<std::string> rank, reference;
  bool across_sources = false;
  std::string score_field = "score";
  bool no_verify = false;
  double max_loss = 0.9;
  std::optional<std::string> against_index, save_index;
  std::string index_kind = "full";
  double bloom_rate = 1e-5;

  template <class Visitor>
  void fields(Visitor& f) {
    f.read("unit", unit,
           "what is compared; lines and paragraphs: equal ones, the first stays; substring: any "
           "stretch of text that repeats",
           {.choices = {"document", "line", "paragraph", "substring"}});
    f.read("least_chars", least_chars, "of unit line or paragraph: shorter ones always stay",
           {.min = 1, .max = 1e9});
    f.read("least_bytes", least_bytes, "of unit substring: shorter repeats stay",
           {.min = 16, .max = 1e6});
    f.read("remove_all", remove_all, "of unit substring: remove every copy, the first one too");
    f.read("preset", preset, "native (fast), exact, or signatures as others make them, bit for bit",
           {.choices = signature_preset_names()});
    f.read("similarity", similarity,
           "Jaccard similarity of shingles from which a document goes; default: the preset's",
           {.min = 0, .max = 1});
    f.read("keep", keep, "which document of a cluster stays, after the rank of its source",
           {.choices = {"first", "longest", "best"}});
    f.read("rank", rank, "sources from the best to the worst: books,web",
           {.value_name = "SOURCES"});
    f.read("reference", reference, "sources that are only compared with, and not written",
           {.value_name = "SOURCE"});
    f.read("across_sources", across_sources,
           "remove only what a better source also has, as Zyda-2 does");
    f.read("score_field", score_field, "of keep best: the key of a number");
    f.read("no_verify", no_verify, "remove all of a cluster but one without comparing them");
    f.read("max_loss", max_loss, "stop when a source would lose more than this share",
           {.min = 0, .max = 1});
    f.read("against_index", against_index,
           "also remove what resembles a document of this index, without its texts",
           {.value_name = "DIR"});
    f.read("save_index", save_index,
           "add the documents that are kept to this index; it is made if there is none",
           {.value_name = "DIR"});
    f.read("index_kind", index_kind,
           "of an index that is made: full names and compares what matches, bloom takes some 60 "
           "bytes a document and only knows that a band was seen",
           {.choices = {"full", "bloom"}});
    f.read("bloom_rate", bloom_rate,
           "of a bloom index that is made: share of new documents it may wrongly call known, for "
           "each time it was added to",
           {.min = 1e-12, .max = 0.1});
  }

  bool of_documents() const { return unit == "document"; }
  std::vector<std::string> references() const;  // sources that the stage leaves out
  void check() const;
  DedupOptions options(const CorpusContext& context) const;  // of_documents
  LineDedupOptions line_options(const CorpusContext& context) const;
  SubstringDedupOptions substring_options(const CorpusContext& context) const;
  // Whichever it is.
  StageRun run(std::span<const CorpusFile> files, const CorpusContext& context,
               const StageSettings& stage) const;
};

struct ClassifySettings {
  std::string model;
  std::string field = "label";
  std::vector<std::string> keep;
  double least = 0;
  int64_t sample_bytes = 2048;

  template <class Visitor>
  void fields(Visitor& f) {
    f.read("model", model, "a classifier in fastText's format, .bin or .ftz",
           {.required = true, .value_name = "FILE"});
    f.read("field", field, "gets the label, and FIELD_score its probability");
    f.read("keep", keep, "labels that stay; none given: all", {.value_name = "LABEL"});
    f.read("least", least, "probability below which a document is dropped", {.min = 0, .max = 1});
    f.read("sample_bytes", sample_bytes,
           "of a document that are looked at, in stretches; the whole text where they leave doubt, "
           "or with 0",
           {.min = 0, .max = 1e12});
  }

  ClassifyOptions options(const CorpusContext& context) const;
};

struct DecontaminateSettings {
  std::vector<std::string> task;
  int64_t words = 13;
  int64_t least = 8;

  template <class Visitor>
  void fields(Visitor& f) {
    f.read("task", task,
           "benchmarks as [NAME=]PATH: .jsonl (all their strings) or .txt (each line)",
           {.required = true, .value_name = "PATH"});
    f.read("words", words, "in a row that make a match", {.min = 1, .max = 1000});
    f.read("least", least, "words of a shorter string that is matched as a whole",
           {.min = 1, .max = 1000});
  }

  TaskIndex index() const;
};

struct MixSettings {
  std::vector<std::string> weight;
  std::string preset = "none";
  std::optional<std::string> size;
  double max_repeats = 4;
  int64_t seed = 0;

  template <class Visitor>
  void fields(Visitor& f) {
    f.read("weight", weight, "share of a source's text; only ratios count",
           {.value_name = "SOURCE=NUMBER"});
    f.read("preset", preset, "zyda2: dclm 4, fwe3 4, zyda 0.16, dolma-cc 0.24",
           {.choices = {"none", "zyda2"}});
    f.read("size", size,
           "bytes of text that come out, about: 2GB; default: until a source would be repeated");
    f.read("max_repeats", max_repeats, "of one source", {.min = 0, .max = 1e6});
    f.read("seed", seed, "of the choice of documents", {.min = 0, .max = 1e18});
  }

  MixOptions options(const CorpusContext& context) const;
};

// "stop" or "skip".
OnError on_error_setting(const std::string& text);

// "4GiB"; Fault::usage names the flag.
int64_t size_setting(const std::string& text, const char* flag);

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/dedup/signer.h"
#include "tephra/data/pipeline/pipeline.h"

namespace tephra {

void PipelineStage::fields(ConfigFields& f) {
  f.read("kind", kind, "what the stage does",
         {.choices = {"filter", "dedup", "classify", "decontaminate", "mix"}, .required = true});
  f.read("name", name, "of its folder below `out`; empty: its kind");
  f.read("output_format", output_format, "of the documents that it leaves",
         {.choices = {"jsonl", "parquet"}});
  f.read("presets", presets, "filter: presets, one after another",
         {.choices = {"zyda1", "gopher", "c4", "fineweb"}});
  f.read("mode", mode, "filter: as the originals compute or as they were meant",
         {.choices = {"compat", "fixed"}});
  f.read("word_lists", word_lists, "filter: folder with the lists of zyda1");
  f.read("thresholds", thresholds, "filter: other limits, as RULE=NUMBER");
  f.read("keep_values", keep_values, "filter: write every value of every document");
  f.read("unit", unit, "dedup: what is compared",
         {.choices = {"document", "line", "paragraph", "substring"}});
  f.read("least_bytes", least_bytes, "dedup by substring: shorter repeats stay",
         {.min = 16, .max = 1e6});
  f.read("remove_all", remove_all, "dedup by substring: remove every copy, the first one too");
  f.read("signature", signature, "dedup: preset of the signatures",
         {.choices = signature_preset_names()});
  f.read("similarity", similarity, "dedup: from which a document goes; default: the signature's",
         {.min = 0, .max = 1});
  f.read("keep", keep, "dedup: which document of a cluster stays, after `rank`",
         {.choices = {"first", "longest", "best"}});
  f.read("score_field", score_field, "dedup: key of the number for keep = \"best\"");
  f.read("rank", rank, "dedup: sources, the best first");
  f.read("references", references, "dedup: sources that are only compared with");
  f.read("across_sources", across_sources, "dedup: remove only what a better source also has");
  f.read("verify", verify, "dedup: compare each document with the one that stays");
  f.read("max_loss", max_loss, "dedup: share of a source that may go", {.min = 0, .max = 1});
  f.read("against_index", against_index, "dedup: remove what resembles a document of this index");
  f.read("save_index", save_index, "dedup: add the documents that are kept to this index");
  f.read("index_kind", index_kind, "dedup: of an index that is made",
         {.choices = {"full", "bloom"}});
  f.read("bloom_rate", bloom_rate, "dedup: of a bloom index that is made, share of wrong claims",
         {.min = 1e-12, .max = 0.1});
  f.read("model", model, "classify: fastText's, .bin or .ftz");
  f.read("label", label, "classify: key of the label; its probability is under this and _score");
  f.read("keep_labels", keep_labels, "classify: labels that stay; none: all");
  f.read("least", least, "classify: probability of the label from which a document stays",
         {.min = 0, .max = 1});
  f.read("tasks", tasks, "decontaminate: benchmarks, as [NAME=]PATH");
  f.read("words", words, "decontaminate: words in a row that make a match", {.min = 1});
  f.read("weights", weights, "mix: share of each source, as SOURCE=NUMBER");
  f.read("size", size, "mix: bytes of text that come out, about: \"2GB\"");
  f.read("max_repeats", max_repeats, "mix: of one source", {.min = 0});
  f.read("seed", seed, "mix: of the choice of documents", {.min = 0});
}

void PipelineTokens::fields(ConfigFields& f) {
  f.read("tokenizer", tokenizer, "tokenizer.json, or a folder with one", {.required = true});
  f.read("out", out, "prefix of the shard; empty: `out`/tokens/corpus");
  f.read("append_eos", append_eos, "end each document with the end-of-text token");
}

void PipelineConfig::fields(ConfigFields& f) {
  f.read("inputs", inputs, "documents, as PATH or SOURCE=PATH", {.required = true});
  f.read("out", out, "folder for all stages", {.required = true});
  f.read("text_field", text_field, "the key that holds the text");
  f.read("on_error", on_error, "what a document or file that cannot be read does",
         {.choices = {"stop", "skip"}});
  f.read("memory", memory, "what stages may use, about");
  f.read("level", level, "zstd's, of what is written", {.min = 1, .max = 19});
  f.read("samples", samples, "texts that reports keep for each reason", {.min = 0});
  f.read("keep_stages", keep_stages,
         "keep the documents of every stage, each in a pass of its own");
  f.list("stages", stages, "in the order they are done");
  f.table("tokens", tokens, "a token shard of what the last stage leaves");
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/pipeline/pipeline.h"

#include "tephra/base/format.h"

namespace tephra {

std::vector<std::string> pipeline_kinds() {
  return {"filter", "dedup", "classify", "decontaminate", "mix"};
}

void PipelineStage::fields(ConfigFields& f) {
  f.read("kind", kind, "what the stage does", {.choices = pipeline_kinds()});
  f.check(!kind.empty(), "kind",
          "expected one of filter, dedup, classify, decontaminate, mix; the key is missing");
  f.read("name", name, "of its folder below `out`; empty: its kind");
  f.read("output_format", output_format, "of the documents that it leaves",
         {.choices = {"jsonl", "parquet"}});
  if (kind == "filter") filter.fields(f);
  if (kind == "dedup") dedup.fields(f);
  if (kind == "classify") classify.fields(f);
  if (kind == "decontaminate") decontaminate.fields(f);
  if (kind == "mix") mix.fields(f);
}

void PipelineTokens::fields(ConfigFields& f) {
  f.read("tokenizer", tokenizer, "tokenizer.json, or a folder with one", {.required = true});
  f.read("out", out, "prefix of the shard; empty: `out`/tokens/corpus");
  f.read("append_eos", append_eos, "end each document with the end-of-text token");
  f.read("prepend_bos", prepend_bos, "begin each document with the first token");
}

void PipelineConfig::stage_fields(ConfigFields& f) {
  f.read("inputs", inputs, "documents, as PATH or SOURCE=PATH", {.required = true});
  f.read("text_field", text_field, "the key that holds the text");
  f.read("on_error", on_error, "what a document or file that cannot be read does",
         {.choices = {"stop", "skip"}});
  f.read("max_document", max_document, "longest line that is read");
  f.read("level", level, "zstd's, of what is written", {.min = 1, .max = 19});
  f.read("samples", samples, "texts that reports keep for each reason", {.min = 0, .max = 1000});
  f.list("stages", stages, "in the order they are done");
}

void PipelineConfig::fields(ConfigFields& f) {
  f.read("out", out, "folder for all stages", {.required = true});
  f.read("memory", memory, "what stages may use, about");
  f.read("keep_stages", keep_stages,
         "keep the documents of every stage, each in a pass of its own");
  stage_fields(f);
  f.table("tokens", tokens, "a token shard of what the last stage leaves");
}

std::string pipeline_reference() {
  std::string text =
      "# Every key of a data pipeline\n\n"
      "Made by `tephra data run --config-reference` from the declarations that read the file.\n"
      "`--set a.b=c` overrides a key of the file; `stages.0.preset` is one of the first stage.\n"
      "Sizes are strings such as \"4GiB\".\n\n" +
      config_markdown(describe_config<PipelineConfig>());
  for (const std::string& kind : pipeline_kinds()) {
    PipelineStage stage;
    stage.kind = kind;
    std::vector<ConfigEntry> entries = describe_config(stage);
    std::erase_if(entries, [](const ConfigEntry& entry) {  // of all kinds
      return entry.key == "kind" || entry.key == "name" || entry.key == "output_format";
    });
    text += format("\n## kind = \"{}\"\n\nThe flags of `tephra data {}`, with `_` for `-`.\n\n",
                   kind, kind) +
            config_markdown(entries);
  }
  return text;
}

}  // namespace tephra

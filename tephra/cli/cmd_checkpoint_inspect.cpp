// SPDX-License-Identifier: Apache-2.0
// tephra checkpoint inspect: what a model is and weighs, from its config and the headers of its
// files. Any other safetensors file is shown as a table of tensors, a training checkpoint by what
// it holds.
#include <map>

#include "tephra/base/text.h"
#include "tephra/cli/command.h"
#include "tephra/cli/output.h"
#include "tephra/cli/training_checkpoint.h"
#include "tephra/models/checkpoint.h"

namespace tephra {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string path;
  int64_t context = 4096;
  bool json = false;
};

void describe(Flags& flags, Options& o) {
  flags
      .add("PATH", o.path,
           "a model folder, a config.json, a .safetensors file, a step-N or a run folder")
      .required();
  flags.add("--context", o.context, "tokens of context for the FLOPs and the cache").range(1, 1e12);
  flags.add("--json", o.json, "one JSON document on stdout");
  flags.example("tephra checkpoint inspect models/zaya1-8b");
  flags.example("tephra checkpoint inspect configs/zaya1-8b.json --context 32768 --json");
  flags.example("tephra checkpoint inspect runs/a/checkpoints/step-1000");
  flags.example("tephra checkpoint inspect model-00001-of-00004.safetensors");
}

// What the path turned out to be; what is absent is empty.
struct Findings {
  std::optional<ModelFolder> model;
  std::vector<SafetensorsFile> files;
};

Findings examine(const Path& path) {
  require(fs::exists(path),
          "{}: does not exist; expected a model folder, a config.json or a "
          ".safetensors file",
          path.string());
  if (fs::is_directory(path)) {
    Findings f;
    if (fs::exists(path / "config.json")) f.model = open_model_folder(path);
    const bool holds_tensors =
        fs::exists(path / "model.safetensors") || fs::exists(path / "model.safetensors.index.json");
    if (holds_tensors || !f.model) f.files = TensorFolder::open(path).files();
    return f;
  }
  if (path.extension() == ".safetensors") return {{}, {SafetensorsFile::open(path)}};
  Findings f;
  f.model = ModelFolder{path, Json::parse(read_file(path), path.string()), path.string(), nullptr};
  f.model->kind = &model_kind(f.model->config, f.model->where);
  return f;
}

struct Amount {
  int64_t tensors = 0;
  int64_t values = 0;
  int64_t bytes = 0;
};

std::map<std::string, Amount> by_dtype(const std::vector<SafetensorsFile>& files) {
  std::map<std::string, Amount> amounts;
  for (const SafetensorsFile& file : files) {
    for (const TensorEntry& entry : file.entries()) {
      Amount& a = amounts[to_text(entry.dtype)];
      a.tensors += 1;
      a.values += entry.shape.numel();
      a.bytes += entry.end - entry.begin;
    }
  }
  return amounts;
}

std::map<std::string, Amount> by_kind(const ModelFolder& model) {
  std::map<std::string, Amount> amounts;
  for (const ParameterSpec& spec : model.kind->parameters(model.config, model.where)) {
    Amount& a = amounts[to_text(spec.kind)];
    a.tensors += 1;
    a.values += spec.shape.numel();
  }
  return amounts;
}

Json model_json(const ModelFolder& model, int64_t context) {
  const ModelFigures f = model.kind->figures(model.config, model.where, context);
  Json json, parameters;
  json["model"]["model_type"] = model.kind->model_type;
  json["model"]["summary"] = model.kind->summary;
  json["model"]["layout"] = model.kind->layout(model.config);
  const LayerKinds kinds = model.kind->layer_kinds(model.config, model.where);
  json["model"]["attention_type"] = kinds.attention;
  json["model"]["attention"] = kinds.attention_text;
  json["model"]["mlp_type"] = kinds.mlp;
  json["model"]["mlp"] = kinds.mlp_text;
  json["config"] = model.kind->native_config(model.config, model.where);
  if (const auto q = quantisation_of(model.config, model.where)) {
    json["quantization"] = quantisation_json(*q);
  }
  parameters["total"] = f.parameters;
  parameters["without_embedding"] = f.parameters_without_embedding;
  parameters["active_without_embedding"] = f.active_without_embedding;
  for (const auto& [kind, amount] : by_kind(model)) parameters["by_kind"][kind] = amount.values;
  json["parameters"] = parameters;
  json["context"] = f.context;
  json["kv_cache_bytes_per_token"] = f.kv_cache_bytes_per_token;
  json["kv_cache_bytes"] = f.kv_cache_bytes;
  json["fixed_state_bytes_per_sequence"] = f.fixed_state_bytes;
  json["train_flops_per_token"] = f.train_flops_per_token;
  json["decode_flops_per_token"] = f.decode_flops_per_token;
  return json;
}

Json files_json(const std::vector<SafetensorsFile>& files) {
  Json json{Json::Array{}};
  for (const SafetensorsFile& file : files) {
    Json row;
    row["file"] = file.path().filename().string();
    row["bytes"] = static_cast<int64_t>(fs::file_size(file.path()));
    row["tensors"] = static_cast<int64_t>(file.entries().size());
    json.push_back(row);
  }
  return json;
}

Json tensors_json(const std::vector<SafetensorsFile>& files) {
  Json json{Json::Array{}};
  for (const SafetensorsFile& file : files) {
    for (const TensorEntry& entry : file.entries()) {
      Json row;
      row["name"] = entry.name;
      row["dtype"] = to_text(entry.dtype);
      row["shape"] = Json::Array(entry.shape.dims().begin(), entry.shape.dims().end());
      row["file"] = file.path().filename().string();
      json.push_back(row);
    }
  }
  return json;
}

Json to_json(const Findings& f, int64_t context) {
  Json json = f.model ? model_json(*f.model, context) : Json(Json::Object{});
  if (f.files.empty()) return json;
  json["files"] = files_json(f.files);
  for (const auto& [dtype, amount] : by_dtype(f.files)) {
    json["dtypes"][dtype]["tensors"] = amount.tensors;
    json["dtypes"][dtype]["values"] = amount.values;
    json["dtypes"][dtype]["bytes"] = amount.bytes;
  }
  if (!f.model) json["tensors"] = tensors_json(f.files);
  return json;
}

// One line for a value of the config; a long list is given by what it counts.
std::string config_text(const Json& value) {
  if (!value.is_array()) return value.is_string() ? value.string() : value.dump();
  std::map<std::string, int64_t> counts;
  for (const Json& item : value.array())
    counts[item.is_string() ? item.string() : item.dump()] += 1;
  std::string text;
  for (const auto& [item, count] : counts) {
    text += (text.empty() ? "" : ", ") + (count == 1 ? item : format("{} x {}", count, item));
  }
  return text;
}

void print_model(const ModelFolder& model, int64_t context) {
  const ModelFigures f = model.kind->figures(model.config, model.where, context);
  Table table({Table::Align::left, Table::Align::left});
  table.add({"model", format("{} ({})", model.kind->model_type, model.kind->summary)});
  table.add({"layout", model.kind->layout(model.config)});
  const LayerKinds kinds = model.kind->layer_kinds(model.config, model.where);
  table.add({"attention", format("{}: {}", kinds.attention, kinds.attention_text)});
  table.add({"feed-forward", format("{}: {}", kinds.mlp, kinds.mlp_text)});
  if (const auto q = quantisation_of(model.config, model.where)) {
    table.add({"quantised", format("{}, embedding and head {}; groups of {}", to_text(q->body),
                                   to_text(q->head), cpu::kGroupColumns)});
  }
  table.add({"parameters", human_count(f.parameters)});
  table.add({"  without embedding", human_count(f.parameters_without_embedding)});
  table.add({"  active of these", human_count(f.active_without_embedding)});
  for (const auto& [kind, amount] : by_kind(model)) {
    table.add(
        {"  " + kind, format("{} in {} tensors", human_count(amount.values), amount.tensors)});
  }
  table.add({"KV cache per token", format("{} in bf16", human_bytes(f.kv_cache_bytes_per_token))});
  table.add({format("  of {} tokens", human_count(context)), human_bytes(f.kv_cache_bytes)});
  table.add({"fixed state per sequence", format("{} in f32", human_bytes(f.fixed_state_bytes))});
  table.add({"FLOPs per token", format("at {} tokens of context", human_count(context))});
  table.add({"  training", format("{:.3g} GFLOP", f.train_flops_per_token / 1e9)});
  table.add({"  decoding", format("{:.3g} GFLOP", f.decode_flops_per_token / 1e9)});
  table.add({"config", ""});
  const Json config = model.kind->native_config(model.config, model.where);
  for (const auto& [key, value] : config.object()) {
    table.add({"  " + key, config_text(value)});
  }
  table.print();
}

void print_files(const std::vector<SafetensorsFile>& files) {
  Table table({Table::Align::left, Table::Align::right, Table::Align::right});
  table.add({"file", "tensors", "size"});
  for (const SafetensorsFile& file : files) {
    table.add({file.path().filename().string(), format("{}", file.entries().size()),
               human_bytes(static_cast<int64_t>(fs::file_size(file.path())))});
  }
  for (const auto& [dtype, amount] : by_dtype(files)) {
    table.add({"in " + dtype, format("{}", amount.tensors), human_bytes(amount.bytes)});
  }
  table.print();
}

void print_tensors(const std::vector<SafetensorsFile>& files) {
  Table table({Table::Align::left, Table::Align::left, Table::Align::left});
  table.add({"tensor", "dtype", "shape"});
  for (const SafetensorsFile& file : files) {
    for (const TensorEntry& entry : file.entries()) {
      table.add({entry.name, to_text(entry.dtype), to_text(entry.shape)});
    }
  }
  table.print();
}

int run(const Options& o) {
  if (holds_training(o.path)) return inspect_training(o.path, o.json);
  const Findings f = examine(o.path);
  if (o.json) {
    print_json(to_json(f, o.context));
    return 0;
  }
  if (f.model) print_model(*f.model, o.context);
  if (!f.model) print_tensors(f.files);
  if (!f.files.empty()) print_files(f.files);
  return 0;
}

}  // namespace

Command checkpoint_inspect_command() {
  return command<Options>("checkpoint inspect", "what a model is and weighs", describe, run);
}

}  // namespace tephra

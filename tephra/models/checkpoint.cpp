// SPDX-License-Identifier: Apache-2.0
#include "tephra/models/checkpoint.h"

#include <algorithm>
#include <cmath>

#include "tephra/base/new_folder.h"
#include "tephra/base/progress.h"
#include "tephra/base/signals.h"
#include "tephra/io/replace_tensors.h"

namespace tephra {
namespace {

namespace fs = std::filesystem;

// What may lie beside the weights and belongs to the model.
constexpr const char* kSideFiles[] = {
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "added_tokens.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "chat_template.json",
    "vocab.json",
    "merges.txt",
    "preprocessor_config.json",
    "LICENSE",
};

void check_output(const Path& to, const NewFolder& folder, bool force) {
  if (!folder.was_empty() && !force) {
    throw Error(Fault::usage, format("{}: is not empty; nothing was written", to.string()),
                "give another folder, or --force to replace the model in it");
  }
}

void write_config(NewFolder& folder, Json config, DType dtype) {
  config["dtype"] = dtype == DType::bf16 ? "bfloat16" : dtype == DType::f16 ? "float16" : "float32";
  std::sort(config.object().begin(), config.object().end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  folder.write("config.json", config.dump(2) + "\n");
}

int64_t total_bytes(const std::vector<TensorEntry>& entries) {
  int64_t bytes = 0;
  for (const TensorEntry& entry : entries) bytes += entry.shape.numel() * size_of(entry.dtype);
  return bytes;
}

// Writes each of `entries` as `make` gives it.
void write_tensors(const Path& to, NewFolder& folder, const std::vector<TensorEntry>& entries,
                   int64_t max_shard_bytes, FunctionRef<Tensor(size_t i)> make) {
  Progress progress("writing " + to.string(), total_bytes(entries), "B");
  size_t next = 0;
  const auto produce = [&](const TensorEntry& entry) {
    stop_if_interrupted();
    TEPHRA_ASSERT(entry.name == entries[next].name, "tensors are asked for in order");
    Tensor value = make(next++);
    progress.add(value.bytes());
    return value;
  };
  // Without its config a folder is no model: it goes first and comes back last.
  const auto before_replacing = [&] { fs::remove(to / "config.json"); };
  for (const std::string& file :
       replace_tensor_folder(to, entries, max_shard_bytes, produce, before_replacing)) {
    folder.wrote(file);
  }
}

void make_lively(ParameterSpec& spec) {
  const int64_t row = spec.shape.numel() / std::max<int64_t>(1, spec.shape[0]);
  const auto inputs = static_cast<double>(row);
  switch (spec.kind) {
    case ParameterKind::vector:
      spec.init_std = spec.init_mean == 0 ? 0.05 : 0.1;
      return;
    case ParameterKind::buffer:
      spec.init_std = 0.05;
      spec.init_last = -0.02;
      return;
    case ParameterKind::embedding:
    case ParameterKind::head:
      spec.init_std = 0.5;
      return;
    case ParameterKind::experts:
      spec.init_std = 1 / std::sqrt(static_cast<double>(spec.shape.cols()));
      return;
    default:
      spec.init_std = 1 / std::sqrt(inputs);
  }
}

void write_generation_config(NewFolder& folder, const Json& config) {
  Json json;
  json["_from_model_config"] = true;
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    if (const Json* id = config.find(key)) json[key] = *id;
  }
  json["use_cache"] = true;
  folder.write("generation_config.json", json.dump(2) + "\n");
}

// What a config asks its weights to be stored as.
DType config_dtype(const Json& config) {
  for (const char* key : {"dtype", "torch_dtype"}) {
    const Json* name = config.find(key);
    if (!name || !name->is_string()) continue;
    if (const auto dtype = parse_dtype(name->string()); dtype && computes(*dtype)) return *dtype;
  }
  return DType::bf16;
}

bool is_packed(const ParameterSpec& spec, const WriteOptions& options) {
  return options.quantise && spec.narrowing == Narrowing::quantised;
}

// Packed tensors are multiples of 64 bytes: at the front of a file each begins on a cache line.
template <class T, class F>
void put_packed_first(std::vector<T>& items, const WriteOptions& options, F&& spec_of) {
  std::stable_partition(items.begin(), items.end(),
                        [&](const T& item) { return is_packed(spec_of(item), options); });
}

TensorEntry entry_of(const ParameterSpec& spec, DType dtype, const WriteOptions& options) {
  if (!is_packed(spec, options)) return {spec.name, dtype, spec.shape};
  return {spec.name, DType::u8, packed_shape(options.quantise->of(spec.kind), spec.shape)};
}

Tensor packed_if_wanted(const ParameterSpec& spec, const Tensor& value,
                        const WriteOptions& options) {
  if (!is_packed(spec, options)) return value;
  return pack_weight(value, options.quantise->of(spec.kind), /*search=*/true).blocks();
}

Json native_config(const ModelFolder& model, const WriteOptions& options) {
  Json config = model.kind->native_config(model.config, model.where);
  if (options.quantise) config["quantization_config"] = quantisation_json(*options.quantise);
  return config;
}

}  // namespace

ModelFolder open_model_folder(const Path& path) {
  require_folder(path, "a model folder");
  const Path config = path / "config.json";
  require(fs::exists(config), "{}: is no model folder: there is no config.json", path.string());
  ModelFolder folder = {path, Json::parse(read_file(config), config.string()), config.string(), {}};
  folder.kind = &model_kind(folder.config, folder.where);
  return folder;
}

void write_model_folder(const ModelSource& source, const Path& to, const WriteOptions& options,
                        FunctionRef<Tensor(size_t i)> make) {
  NewFolder folder(to);
  check_output(to, folder, options.force);
  write_tensors(to, folder, source.entries, options.max_shard_bytes, make);
  for (const char* name : kSideFiles) {
    const Path from = source.side_files / name;
    if (!source.side_files.empty() && fs::exists(from)) folder.write(name, read_file(from));
  }
  // Of what is not quantised, which comes last.
  write_config(folder, source.config, source.entries.back().dtype);
  folder.keep();
}

void convert_checkpoint(const Path& from, const Path& to, const WriteOptions& options) {
  const ModelFolder model = open_model_folder(from);
  const TensorFolder tensors = TensorFolder::open(from);
  WeightPlan plan = model.kind->weights(tensors, model.config, model.where);
  check_weights(tensors, plan);
  const bool requantised =
      options.quantise && quantisation_of(model.config, model.where).has_value();
  require(!requantised, "{}: is quantised already; quantise the model that it was made from",
          from.string());
  put_packed_first(plan.sources, options, [](const WeightSource& s) { return s.parameter; });
  ModelSource result{native_config(model, options), {}, from};
  for (const WeightSource& source : plan.sources) {
    const DType dtype = options.dtype ? *options.dtype : stored_dtype(tensors, source);
    result.entries.push_back(entry_of(source.parameter, dtype, options));
  }
  require(!fs::exists(to) || !fs::equivalent(from, to),
          "{}: is the folder to read; the model must be written to another", to.string());
  write_model_folder(result, to, options, [&](size_t i) {
    if (i > 0) release(tensors, plan.sources[i - 1]);  // it is written by now
    const WeightSource& source = plan.sources[i];
    const DType dtype = is_packed(source.parameter, options) ? stored_dtype(tensors, source)
                                                             : result.entries[i].dtype;
    return packed_if_wanted(source.parameter, read_weight(tensors, source, dtype), options);
  });
}

void write_random_checkpoint(const Json& config, const std::string& where, const Path& to,
                             uint64_t seed, RandomInit init, const WriteOptions& options) {
  const ModelKind& kind = model_kind(config, where);
  std::vector<ParameterSpec> specs = kind.parameters(config, where);
  const Json native = native_config({{}, config, where, &kind}, options);
  const DType dtype = options.dtype.value_or(config_dtype(config));
  put_packed_first(specs, options, [](const ParameterSpec& spec) { return spec; });
  std::vector<TensorEntry> entries;
  for (ParameterSpec& spec : specs) {
    if (init == RandomInit::lively) make_lively(spec);
    entries.push_back(entry_of(spec, dtype, options));
  }
  NewFolder folder(to);
  check_output(to, folder, options.force);
  write_tensors(to, folder, entries, options.max_shard_bytes, [&](size_t i) {
    Tensor value(specs[i].shape, dtype, kCpu, Purpose::workspace);
    initialise(specs[i], seed, value);
    return packed_if_wanted(specs[i], value, options);
  });
  write_generation_config(folder, native);
  write_config(folder, native, dtype);
  folder.keep();
}

}  // namespace tephra

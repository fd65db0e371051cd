// SPDX-License-Identifier: Apache-2.0
// What every model offers to training, inference and evaluation.
#pragma once

#include <memory>
#include <string>

#include "tephra/autograd/parameter.h"
#include "tephra/base/files.h"
#include "tephra/base/json.h"
#include "tephra/models/decode_step.h"
#include "tephra/models/weights.h"
#include "tephra/nn/state.h"

namespace tephra {

// Sizes and work that follow from a config alone.
struct ModelFigures {
  int64_t parameters = 0;
  int64_t parameters_without_embedding = 0;
  int64_t active_without_embedding = 0;  // that one token meets
  int64_t kv_cache_bytes_per_token = 0;  // in bf16, in all layers
  int64_t kv_cache_bytes = 0;            // of one sequence of `context`; a window bounds its layer
  int64_t fixed_state_bytes = 0;         // per sequence, in f32
  double train_flops_per_token = 0;   // forward + backward at `context`, head and causal attention
  double decode_flops_per_token = 0;  // forward with `context` keys, head included
  int64_t context = 4096;
};

// What its layers are made of: the names of the kinds, and their sizes in words.
struct LayerKinds {
  std::string attention, attention_text;
  std::string mlp, mlp_text;
};

struct TokenIds {
  int64_t vocab_size = 0;  // rows of the embedding
  int64_t usable = 0;      // ids from here on are padding and never sampled
  int64_t pad = 0, bos = 0;
  std::vector<int64_t> eos;
};

// A router whose choice is steered by biases that are trained by load, not by gradient.
struct BalancedRouter {
  std::string tap;   // of its choice, i32 [N]: an expert, or `experts` for skip
  std::string name;  // of the biases
  Tensor biases;     // [experts + 1], skip last
  int64_t experts = 0;
};

class Model {
 public:
  virtual ~Model() = default;

  virtual const TokenIds& tokens() const = 0;
  virtual int64_t context_limit() const = 0;
  virtual StateSpec state_spec() const = 0;
  virtual ParameterStore& parameters() = 0;
  virtual std::vector<BalancedRouter> routers() const { return {}; }
  // The config, in the layout that we write, of the model as it stands.
  virtual Json config_json() const = 0;

  // The base of the rotary embedding in the layers that see the whole context, from the next call
  // on; layers with a window keep theirs. For phases of training with a longer context; the
  // config says it from then on. Keys that a decoder holds do not change.
  virtual void set_rope_theta(double theta) = 0;

  // ids_N i32 -> final hidden states [N, H]. `decoding` is null in training.
  virtual Tensor forward(const Tensor& ids_N, const Segments& segments,
                         Decoding* decoding = nullptr) const = 0;
  // [N, H] -> [N, vocabulary] in the acc dtype. Not recorded.
  virtual Tensor logits(const Tensor& h_NH) const = 0;
  // Kernels of its own for feeding single tokens, on this memory, which the model and the caller
  // outlive; null where it has none for this device, dtype or shape.
  virtual std::unique_ptr<DecodeStep> decode_step(const DecodeMemory& memory) {
    (void)memory;
    return nullptr;
  }
  // scale * sum of the cross-entropies of targets_N (i32, -1: none); never holds all logits at
  // once.
  virtual Tensor loss(const Tensor& h_NH, const Tensor& targets_N, double scale) const = 0;
};

// Where weights lie that are used as they are stored: packed ones, and bf16 beside f32 arithmetic.
enum class WeightPlace {
  mapped,     // in the file: loading takes no time, and processes share the system's copy
  memory,     // in memory of our own, in large pages, which cores read faster than mapped files
  automatic,  // memory, if there is plenty of it and the system has large pages; else mapped
};
std::optional<WeightPlace> parse_weight_place(std::string_view text);  // "auto", "mapped", "memory"

struct LoadOptions {
  DType dtype = DType::f32;
  Device device;
  bool with_gradients = false;
  int64_t usable_tokens = 0;  // ids from here on are padding; 0: the model knows best
  // For inference in f32: matrices that are stored as bf16 stay in the mapped file and are widened
  // by the products that read them. With few rows the results are the same to the bit, with many
  // within rounding.
  bool mapped = false;
  WeightPlace place = WeightPlace::mapped;
  // What stays mapped and lies in the system's cache in small pages is copied into large ones:
  // loading takes longer, and every token after it less time. For many tokens.
  bool copy_small_pages = false;
  NamedWeights weights = {};  // that lie elsewhere; load_model finds them
};

// A kind of model: how its config is read, what tensors it has, how it is built.
struct ModelKind {
  const char* model_type;  // of config.json
  const char* summary;
  // The name of the layout that the config is in: "native", "legacy".
  std::string (*layout)(const Json& config);
  // All of its parameters by published name.
  std::vector<ParameterSpec> (*parameters)(const Json& config, const std::string& where);
  LayerKinds (*layer_kinds)(const Json& config, const std::string& where);
  ModelFigures (*figures)(const Json& config, const std::string& where, int64_t context);
  // The config in the layout that we write.
  Json (*native_config)(const Json& config, const std::string& where);
  // Which tensors of a checkpoint, in any layout it knows, make up which parameter. Not yet
  // checked.
  WeightPlan (*weights)(const TensorFolder& folder, const Json& config, const std::string& where);
  // Copies them into `store`; every tensor is accounted for.
  void (*load)(const TensorFolder& folder, const Json& config, const std::string& where,
               ParameterStore& store);
  std::unique_ptr<Model> (*create)(const Json& config, const std::string& where,
                                   const LoadOptions& options);
};

// The table of models; throws Fault::data naming the known ones when there is no such type.
const ModelKind& model_kind(const Json& config, const std::string& where);

// A config by name, for trying things out; Fault::usage naming the known ones.
Json preset_config(const std::string& name);
std::vector<std::string> preset_names();

// Reads config.json and the tensors of a Hugging Face folder.
std::unique_ptr<Model> load_model(const Path& folder, const LoadOptions& options);

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include "tephra/autograd/tape.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <unordered_map>

namespace tephra {
namespace {

thread_local Tape* current_tape = nullptr;
std::atomic<uint64_t> next_tape_id{1};

std::shared_ptr<Variable> root_of(const std::shared_ptr<Variable>& v) {
  return v && v->base ? v->base : v;
}

}  // namespace

// A tensor that backward will need: held, or found again by running its producer once more.
struct SavedTensor {
  Tensor held;
  std::shared_ptr<Variable> source;  // of the dropped tensor, a root
  ColumnRange columns{0, 0};
};

struct Node {
  std::string name;
  std::vector<std::shared_ptr<Variable>> inputs;  // null where no gradient is wanted
  std::vector<std::shared_ptr<Variable>> outputs;
  std::vector<SavedTensor> saved;
  Backward backward;

  bool recomputed = false;
  uint32_t always_kept = 0;
  Replay replay;
  std::vector<SavedTensor> replay_inputs;
  Tensors replayed;
};

struct Tape::Impl {
  uint64_t id = next_tape_id++;
  Recompute recompute;
  std::vector<std::unique_ptr<Node>> nodes;
  bool spent = false;

  SavedTensor save(const Tensor& t) const {
    const std::shared_ptr<Variable> root = root_of(t.variable());
    const Node* producer = root ? root->producer : nullptr;
    const bool droppable =
        producer && producer->recomputed && (producer->always_kept >> root->output & 1u) == 0;
    if (!droppable) return {t.detach(), nullptr, {}};
    const bool is_view = t.variable()->base != nullptr;
    return {{}, root, is_view ? t.variable()->view : ColumnRange{0, root->shape.cols()}};
  }

  Tensor materialise(const SavedTensor& s) {
    if (!s.source) return s.held;
    Node& producer = *s.source->producer;
    if (producer.replayed.empty()) {
      const NoGrad no_grad;
      Tensors inputs;
      for (const SavedTensor& in : producer.replay_inputs) inputs.push_back(materialise(in));
      producer.replayed = producer.replay(inputs);
    }
    const Tensor& whole = producer.replayed[static_cast<size_t>(s.source->output)];
    if (s.columns.begin == 0 && s.columns.end == whole.cols()) return whole;
    return whole.column_view(s.columns.begin, s.columns.end);
  }

  void run(Node& node) {
    Tensors dy;
    bool any = false;
    for (const auto& out : node.outputs) {
      dy.push_back(out->take_grad());
      any = any || dy.back().defined();
    }
    if (any) {
      Tensors saved;
      for (const SavedTensor& s : node.saved) saved.push_back(materialise(s));
      GradSink sink(node.inputs);
      const NoGrad no_grad;
      node.backward(saved, dy, sink);
    }
    for (const auto& out : node.outputs) {
      out->grad = {};
      out->written.clear();
    }
    node.saved.clear();
    node.replay_inputs.clear();
    node.replayed.clear();
  }
};

Tape::Tape(Recompute recompute) : impl_(new Impl), outer_(current_tape) {
  impl_->recompute = recompute;
  current_tape = this;
}

Tape::~Tape() { current_tape = outer_; }

Tape* Tape::current() { return current_tape; }

NoGrad::NoGrad() : outer_(current_tape) { current_tape = nullptr; }
NoGrad::~NoGrad() { current_tape = outer_; }

bool recording(std::initializer_list<const Tensor*> inputs) {
  return current_tape && std::any_of(inputs.begin(), inputs.end(),
                                     [](const Tensor* t) { return t->variable() != nullptr; });
}

std::optional<GradSink> forward_sink(const Tensors& inputs) {
  if (!current_tape) return std::nullopt;
  std::vector<std::shared_ptr<Variable>> leaves;
  bool any = false;
  for (const Tensor& t : inputs) {
    any = any || t.variable();
    leaves.push_back(t.variable() && t.variable()->leaf ? t.variable() : nullptr);
  }
  if (!any) return std::nullopt;
  return GradSink(leaves);
}

void record_node(const OpRecord& op, std::initializer_list<Tensor*> outputs, Backward backward,
                 Replay replay) {
  Tape::Impl& tape = *current_tape->impl_;
  TEPHRA_ASSERT(!tape.spent, "nothing is recorded after backward");
  auto node = std::make_unique<Node>();
  bool any = false;
  for (const Tensor& t : op.inputs) {
    const std::shared_ptr<Variable>& v = t.variable();
    if (v) {
      const Variable& root = *root_of(v);
      TEPHRA_ASSERT(root.leaf || root.tape == tape.id,
                    "an input comes from this tape or is a leaf");
    }
    any = any || v;
    node->inputs.push_back(v);
  }
  if (!any) return;

  node->name = op.name;
  node->backward = std::move(backward);
  node->always_kept = op.always_kept;
  for (const Tensor& t : op.saved) node->saved.push_back(tape.save(t));
  if (replay && tape.recompute.includes(op.op_class)) {
    node->recomputed = true;
    node->replay = std::move(replay);
    for (const Tensor& t : op.inputs) node->replay_inputs.push_back(tape.save(t));
  }
  int index = 0;
  for (Tensor* out : outputs) {
    auto v = std::make_shared<Variable>();
    v->shape = out->shape();
    v->grad_dtype = out->dtype();
    v->device = out->device();
    v->producer = node.get();
    v->output = index++;
    v->tape = tape.id;
    node->outputs.push_back(v);
    out->set_variable(std::move(v));
  }
  tape.nodes.push_back(std::move(node));
}

void Tape::backward(const Tensor& loss, const std::function<void(Variable&)>& on_ready) {
  require(loss.numel() == 1, "backward: expected a scalar loss, got {}", loss.shape());
  require(loss.variable() != nullptr,
          "backward: the loss was not recorded; compute it from leaves while the tape is alive");
  backward({loss}, {full(loss.shape(), loss.dtype(), 1)}, on_ready);
}

void Tape::backward(const Tensors& outputs, const Tensors& dy,
                    const std::function<void(Variable&)>& on_ready) {
  TEPHRA_ASSERT(!impl_->spent, "a tape is walked once");
  TEPHRA_ASSERT(outputs.size() == dy.size(), "each output comes with a gradient or an empty one");
  impl_->spent = true;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].variable() || !dy[i].defined()) continue;
    const Variable& root = *root_of(outputs[i].variable());
    require(root.leaf || root.tape == impl_->id,
            "backward: output {} was recorded on another tape, or on one that is gone", i);
    GradSink({outputs[i].variable()}).give(0, dy[i]);
  }
  std::unordered_map<Variable*, int> uses;  // of each leaf, its column views included
  for (const auto& node : impl_->nodes) {
    for (const auto& in : node->inputs) {
      if (in && in->leaf) ++uses[root_of(in).get()];
    }
  }
  for (auto it = impl_->nodes.rbegin(); it != impl_->nodes.rend(); ++it) {
    impl_->run(**it);
    for (const auto& in : (*it)->inputs) {
      if (!in || !in->leaf) continue;
      Variable& leaf = *root_of(in);
      if (--uses[&leaf] > 0) continue;
      leaf.complete_grad();
      if (on_ready) on_ready(leaf);
    }
  }
}

std::map<std::string, int64_t> Tape::saved_bytes() const {
  std::map<std::string, int64_t> bytes;
  std::set<std::pair<const void*, int64_t>> seen;
  const auto add = [&](const Node& node, const SavedTensor& s) {
    if (s.held.defined() && s.held.bytes() > 0 &&
        seen.insert({s.held.raw(), s.held.bytes()}).second) {
      bytes[node.name] += s.held.bytes();
    }
  };
  for (const auto& node : impl_->nodes) {
    for (const SavedTensor& s : node->saved) add(*node, s);
    for (const SavedTensor& s : node->replay_inputs) add(*node, s);
  }
  return bytes;
}

namespace {
constexpr std::pair<const char*, OpClass> kOpClasses[] = {{"embedding", OpClass::embedding},
                                                          {"linear", OpClass::linear},
                                                          {"norm", OpClass::norm},
                                                          {"activation", OpClass::activation},
                                                          {"convolution", OpClass::convolution},
                                                          {"qk", OpClass::qk},
                                                          {"attention", OpClass::attention},
                                                          {"router", OpClass::router},
                                                          {"dispatch", OpClass::dispatch},
                                                          {"experts", OpClass::experts},
                                                          {"loss", OpClass::loss}};
}  // namespace

std::optional<OpClass> parse_op_class(std::string_view name) {
  for (const auto& [known, op_class] : kOpClasses) {
    if (name == known) return op_class;
  }
  return {};
}

std::string op_class_names() {
  std::string names;
  for (const auto& [name, op_class] : kOpClasses) {
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  return names;
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include "tephra/train/run_state.h"

#include "tephra/base/error.h"

namespace tephra {
namespace {

Json to_json(const std::vector<SkippedSamples>& skipped) {
  Json out(Json::Array{});
  for (const SkippedSamples& range : skipped) {
    Json row;
    row["from"] = range.from;
    row["to"] = range.to;
    out.push_back(row);
  }
  return out;
}

std::vector<SkippedSamples> skipped_from(const Fields& state) {
  std::vector<SkippedSamples> skipped;
  for (const Json& row : state.array("skipped")) {
    const Fields fields(row, state.where() + ": skipped");
    skipped.push_back({fields.integer("from"), fields.integer("to")});
  }
  return skipped;
}

}  // namespace

std::vector<NamedTensor> RunState::tensors() const {
  std::vector<NamedTensor> all;
  const ParameterStore& store = model.parameters();
  for (size_t i = 0; i < store.specs().size(); ++i) {
    all.push_back({store.specs()[i].name, store.at(i)});
  }
  for (const StateTensor& s : optimizer.state()) all.push_back({s.name, s.tensor});
  for (const StateTensor& s : balance.state()) all.push_back({s.name, s.tensor});
  return all;
}

Json RunState::save(const std::string& config, const Json& model_config) const {
  Json state;
  state["config"] = config;
  state["model_config"] = model_config;
  state["optimizer_updates"] = optimizer.updates();
  state["balance_updates"] = balance.updates();
  state["guard"] = guard.state();
  state["skipped"] = to_json(skipped);
  return state;
}

void RunState::load(const Checkpoint& checkpoint) const {
  for (const NamedTensor& t : tensors()) checkpoint.load_into(t.name, t.value);
  const Fields state(checkpoint.state(), (checkpoint.folder() / "manifest.json").string());
  optimizer.set_updates(state.integer("optimizer_updates"));
  balance.set_updates(state.integer("balance_updates"));
  guard.restore(state.object("guard").json(), state.where() + ": guard");
  skipped = skipped_from(state);
}

}  // namespace tephra

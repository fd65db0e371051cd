// SPDX-License-Identifier: Apache-2.0
#include "tephra/cli/training_checkpoint.h"

#include <map>

#include "tephra/base/error.h"
#include "tephra/base/text.h"
#include "tephra/cli/output.h"
#include "tephra/train/checkpoint.h"
#include "tephra/train/checkpoint_export.h"

namespace tephra {
namespace {

using Align = Table::Align;

struct Amount {
  int64_t tensors = 0;
  int64_t values = 0;
  int64_t bytes = 0;
};

std::map<std::string, Amount> by_group(const Checkpoint& checkpoint) {
  std::map<std::string, Amount> amounts;
  for (const ManifestTensor& tensor : checkpoint.tensors()) {
    Amount& a = amounts[tensor_group(tensor.name)];
    a.tensors += 1;
    a.values += tensor.shape.numel();
    a.bytes += tensor.bytes();
  }
  return amounts;
}

Json to_json(const Checkpoint& checkpoint) {
  Json json;
  json["step"] = checkpoint.step();
  json["bytes"] = checkpoint.bytes();
  for (const auto& [group, amount] : by_group(checkpoint)) {
    json["groups"][group]["tensors"] = amount.tensors;
    json["groups"][group]["values"] = amount.values;
    json["groups"][group]["bytes"] = amount.bytes;
  }
  json["files"] = Json::Array{};
  for (const ManifestFile& file : checkpoint.files()) {
    Json row;
    row["file"] = file.name;
    row["bytes"] = file.bytes;
    json["files"].push_back(row);
  }
  json["tensors"] = Json::Array{};
  for (const ManifestTensor& tensor : checkpoint.tensors()) {
    Json row;
    row["name"] = tensor.name;
    row["dtype"] = to_text(tensor.dtype);
    row["shape"] = Json::Array(tensor.shape.dims().begin(), tensor.shape.dims().end());
    row["pieces"] = static_cast<int64_t>(tensor.pieces.size());
    json["tensors"].push_back(row);
  }
  json["state"] = checkpoint.state();
  return json;
}

void print_checkpoint(const Checkpoint& checkpoint) {
  print("training checkpoint of step {}, {} in {} files", human_count(checkpoint.step()),
        human_bytes(checkpoint.bytes()), checkpoint.files().size());
  Table table({Align::left, Align::right, Align::right, Align::right});
  table.add({"tensors", "number", "values", "size"});
  for (const auto& [group, amount] : by_group(checkpoint)) {
    table.add({group, format("{}", amount.tensors), human_count(amount.values),
               human_bytes(amount.bytes)});
  }
  table.print();
  if (!checkpoint.state().is_object()) return;
  Table state({Align::left, Align::left});
  state.add({"state", ""});
  for (const auto& [key, value] : checkpoint.state().object()) {
    state.add({"  " + key, clipped(value.dump(), 100)});
  }
  state.print();
}

void print_run(const Path& path) {
  const std::vector<CheckpointInfo> all = list_checkpoints(path);
  print("{}: {} checkpoints", path.string(), all.size());
  if (all.empty()) return;
  Table table({Align::right, Align::right, Align::right});
  table.add({"step", "tensors", "size"});
  for (const CheckpointInfo& info : all) {
    const Checkpoint checkpoint = Checkpoint::open(info.folder);
    table.add({human_count(info.step), format("{}", checkpoint.tensors().size()),
               human_bytes(checkpoint.bytes())});
  }
  table.print();
}

struct Verified {
  CheckpointInfo info;
  int64_t tensors = 0;
  int64_t bytes = 0;
  std::vector<std::string> problems;
};

Verified verify(const CheckpointInfo& info) {
  Verified result{info, 0, 0, {}};
  try {
    const Checkpoint checkpoint = Checkpoint::open(info.folder);
    result.tensors = static_cast<int64_t>(checkpoint.tensors().size());
    result.bytes = checkpoint.bytes();
    result.problems = checkpoint.problems();
    if (checkpoint.step() != info.step) {
      result.problems.push_back(
          format("{}: its manifest is that of step {}", info.folder.string(), checkpoint.step()));
    }
  } catch (const Error& error) {
    if (error.fault() != Fault::data) throw;
    result.problems.emplace_back(error.what());
  }
  return result;
}

Json to_json(const Verified& verified) {
  Json json;
  json["pass"] = verified.problems.empty();
  json["step"] = verified.info.step;
  json["tensors"] = verified.tensors;
  json["bytes"] = verified.bytes;
  json["problems"] = Json::Array(verified.problems.begin(), verified.problems.end());
  return json;
}

void print_verified(const Verified& verified) {
  if (verified.problems.empty()) {
    print("{}: {} tensors, {}, every hash is right", verified.info.folder.string(),
          verified.tensors, human_bytes(verified.bytes));
    return;
  }
  print("{}: {} problems", verified.info.folder.string(), verified.problems.size());
  for (const std::string& problem : verified.problems) print("  {}", problem);
}

// A step-N is known by its folder's name; its manifest may be what is wrong.
Verified verify_one(const Path& path) {
  CheckpointInfo info{0, path};
  try {
    info.step = Checkpoint::open(path).step();
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): verify() says it
  }
  return verify(info);
}

}  // namespace

bool holds_training(const Path& path) {
  return is_training_checkpoint(path) || is_run_folder(path);
}

int inspect_training(const Path& path, bool json) {
  if (is_training_checkpoint(path)) {
    const Checkpoint checkpoint = Checkpoint::open(path);
    json ? print_json(to_json(checkpoint)) : print_checkpoint(checkpoint);
    return 0;
  }
  if (!json) {
    print_run(path);
    return 0;
  }
  Json document;
  document["checkpoints"] = Json::Array{};
  for (const CheckpointInfo& info : list_checkpoints(path)) {
    const Checkpoint checkpoint = Checkpoint::open(info.folder);
    Json row;
    row["step"] = info.step;
    row["folder"] = info.folder.string();
    row["tensors"] = static_cast<int64_t>(checkpoint.tensors().size());
    row["bytes"] = checkpoint.bytes();
    document["checkpoints"].push_back(row);
  }
  print_json(document);
  return 0;
}

int verify_training(const Path& path, bool json) {
  std::vector<Verified> all;
  if (is_training_checkpoint(path)) {
    all.push_back(verify_one(path));
  } else {
    for (const CheckpointInfo& info : list_checkpoints(path)) all.push_back(verify(info));
    for (const CheckpointInfo& info : list_without_manifest(path)) {
      all.push_back(
          {info, 0, 0, {format("{} is missing", (info.folder / kManifestName).string())}});
    }
    require(!all.empty(), "{}: holds no checkpoint", path.string());
  }
  bool pass = true;
  Json document;
  document["pass"] = true;
  for (const Verified& verified : all) {
    pass = pass && verified.problems.empty();
    document["checkpoints"].push_back(to_json(verified));
    if (!json) print_verified(verified);
  }
  document["pass"] = pass;
  if (json) print_json(document);
  return pass ? 0 : exit_code(Fault::data);
}

}  // namespace tephra

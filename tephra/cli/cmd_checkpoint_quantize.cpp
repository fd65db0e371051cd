// SPDX-License-Identifier: Apache-2.0
// tephra checkpoint quantize: the same model in 8 or 4 bits a weight, for inference.
#include "tephra/base/log.h"
#include "tephra/base/text.h"
#include "tephra/cli/checkpoint_options.h"

namespace tephra {
namespace {

struct Options {
  std::string model;
  std::string out;
  WriteFlags write{.bits = 8};
};

void describe(Flags& flags, Options& o) {
  flags.add("--model DIR", o.model, "model folder to read").required();
  flags.add("--out DIR", o.out, "folder to write").required();
  o.write.describe_bits(flags, "of the attention's projections and the experts: 8 or 4");
  o.write.describe(flags, "of what is not quantised; default: as stored");
  flags.example("tephra checkpoint quantize --model models/zaya1-8b --bits 8 --out models/8bit");
  flags.example(
      "tephra checkpoint quantize --model models/zaya1-8b --bits 4 --head-bits 8 --out "
      "models/4bit");
  flags.example("tephra eval --model models/4bit --against models/zaya1-8b --text held-out.txt");
}

int64_t tensor_bytes(const Path& folder) {
  const TensorFolder tensors = TensorFolder::open(folder);
  int64_t bytes = 0;
  for (const std::string& name : tensors.names()) {
    bytes += tensors.entry(name).end - tensors.entry(name).begin;
  }
  return bytes;
}

int run(const Options& o) {
  require(o.write.bits > 0, "--bits: expected 8 or 4, got 0");
  const WriteOptions options = o.write.options();
  convert_checkpoint(o.model, o.out, options);
  log_info("{}: written, {} where {} has {}", o.out, human_bytes(tensor_bytes(o.out)), o.model,
           human_bytes(tensor_bytes(o.model)));
  return 0;
}

}  // namespace

Command checkpoint_quantize_command() {
  return command<Options>("checkpoint quantize", "write a model in 8 or 4 bits a weight", describe,
                          run);
}

}  // namespace tephra

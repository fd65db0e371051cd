// SPDX-License-Identifier: Apache-2.0
// tephra bench attention: compressed convolutional attention beside multi-head attention.
#include "tephra/base/progress.h"
#include "tephra/cli/bench_attention.h"
#include "tephra/cli/command.h"
#include "tephra/cli/model_device.h"
#include "tephra/cli/output.h"

namespace tephra {
namespace {

struct Options {
  std::vector<int64_t> tokens, heads;
  int64_t width = 2048;
  std::string device = "auto", dtype = "bf16";
  double seconds = 0.2;
  bool json = false;
};

void describe(Flags& flags, Options& o) {
  flags
      .add("--tokens N,N,...", o.tokens,
           "lengths of the sequence; default 512 to 32768 on a GPU, 512 on a CPU")
      .range(1, 1 << 24);
  flags.add("--head-dim N,N,...", o.heads, "sizes of a head; default 64,128,256").range(2, 1 << 16);
  flags.add("--width", o.width, "of the stream").range(8, 1 << 16);
  describe_device(flags, o.device);
  flags.add("--dtype", o.dtype, "of weights and activations").choices({"bf16", "f32"});
  flags.add("--seconds", o.seconds, "for each figure").range(0, 600);
  flags.add("--json", o.json, "one JSON document on stdout");
  flags.example("tephra bench attention --device gpu");
  flags.example("tephra bench attention --tokens 16384 --head-dim 128 --json");
  flags.example("tephra bench attention --device cpu --width 256 --head-dim 16 --tokens 64");
}

// Milliseconds that the CCA paper (arXiv 2510.04476) gives for 16,384 tokens and a stream of 2,048
// on an H100: causal forward, and backward, which is not causal there.
struct Published {
  const char* form;
  int64_t head_dim;
  double forward, backward;
};
constexpr Published kPublished[] = {
    {"MHA", 64, 2.325, 11.598},       {"MHA", 128, 1.785, 9.800},
    {"MHA", 256, 1.713, 8.012},       {"CCA 2x/8x", 64, 1.665, 9.928},
    {"CCA 2x/8x", 128, 1.413, 8.690}, {"CCA 2x/8x", 256, 1.388, 6.661},
    {"CCA 4x", 64, 1.430, 9.820},     {"CCA 4x", 128, 1.330, 8.600},
    {"CCA 4x", 256, 1.255, 6.090}};

const Published* published(const std::string& form, int64_t head_dim, int64_t tokens,
                           int64_t width) {
  if (tokens != 16384 || width != 2048) return nullptr;
  for (const Published& p : kPublished) {
    if (form == p.form && head_dim == p.head_dim) return &p;
  }
  return nullptr;
}

struct Row {
  std::string form;
  int64_t head_dim, tokens;
  AttentionSpeed speed, mha;
};

std::string times(double ratio) { return format("x {:.2f}", ratio); }

void print_rows(const std::vector<Row>& rows, const Options& o) {
  using enum Table::Align;
  Table table({right, right, left, right, right, right, right, right, right, right});
  table.add({"head", "tokens", "form", "forward ms", "TFLOP/s", "MHA's over it", "backward ms",
             "TFLOP/s", "MHA's over it", "the paper's two"});
  for (const Row& r : rows) {
    const Published* own = published(r.form, r.head_dim, r.tokens, o.width);
    const Published* mha = published("MHA", r.head_dim, r.tokens, o.width);
    table.add({format("{}", r.head_dim), format("{}", r.tokens), r.form,
               format("{:.3f}", 1e3 * r.speed.forward_seconds),
               format("{:.1f}", r.speed.forward_flops / r.speed.forward_seconds / 1e12),
               times(r.mha.forward_seconds / r.speed.forward_seconds),
               format("{:.3f}", 1e3 * r.speed.backward_seconds),
               format("{:.1f}", r.speed.backward_flops / r.speed.backward_seconds / 1e12),
               times(r.mha.backward_seconds / r.speed.backward_seconds),
               own ? times(mha->forward / own->forward) + " " + times(mha->backward / own->backward)
                   : ""});
  }
  table.print();
}

Json to_json(const std::vector<Row>& rows, const Options& o) {
  Json json;
  json["width"] = o.width;
  json["dtype"] = o.dtype;
  json["rows"] = Json::Array{};
  for (const Row& r : rows) {
    Json row;
    row["form"] = r.form;
    row["head_dim"] = r.head_dim;
    row["tokens"] = r.tokens;
    row["forward_seconds"] = r.speed.forward_seconds;
    row["backward_seconds"] = r.speed.backward_seconds;
    row["forward_flops"] = r.speed.forward_flops;
    row["backward_flops"] = r.speed.backward_flops;
    row["forward_ratio"] = r.mha.forward_seconds / r.speed.forward_seconds;
    row["backward_ratio"] = r.mha.backward_seconds / r.speed.backward_seconds;
    if (const Published* p = published(r.form, r.head_dim, r.tokens, o.width)) {
      row["paper"]["forward_seconds"] = p->forward / 1e3;
      row["paper"]["backward_seconds"] = p->backward / 1e3;
    }
    json["rows"].push_back(row);
  }
  return json;
}

std::vector<Row> measure(const Options& o, Device device) {
  const AttentionBenchOptions options{
      .device = device, .dtype = *parse_dtype(o.dtype), .width = o.width, .seconds = o.seconds};
  const std::vector<AttentionForm> forms = attention_forms();
  const auto layers = static_cast<int64_t>(o.heads.size() * o.tokens.size() * forms.size());
  Progress progress("measuring attention", layers, "layers");
  std::vector<Row> rows;
  for (const int64_t head : o.heads) {
    for (const int64_t tokens : o.tokens) {
      const size_t first = rows.size();
      for (const AttentionForm& form : forms) {
        rows.push_back(
            {form.name, head, tokens, measure_attention(form, head, tokens, options), {}});
        rows.back().mha = rows[first].speed;
        progress.add(1);
      }
    }
  }
  return rows;
}

int run(const Options& given) {
  Options o = given;
  const Device device = parse_device(o.device);
  if (o.heads.empty()) o.heads = {64, 128, 256};
  if (o.tokens.empty() && device.kind == Device::Kind::cpu) o.tokens = {512};
  if (o.tokens.empty()) o.tokens = {512, 1024, 2048, 4096, 8192, 16384, 32768};
  const std::vector<Row> rows = measure(o, device);
  if (o.json) {
    print_json(to_json(rows, o));
  } else {
    print_rows(rows, o);
  }
  return 0;
}

}  // namespace

Command bench_attention_command() {
  return command<Options>("bench attention",
                          "compressed convolutional attention beside multi-head attention",
                          describe, run);
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/attention.h"

#include <cmath>
#include <limits>

#include "tephra/ops/op_spec.h"

namespace tephra {
namespace {

struct Heads {
  int64_t query, kv, dim;
  int64_t own_value_dim = 0;  // 0: dim

  int64_t value_dim() const { return own_value_dim > 0 ? own_value_dim : dim; }

  double scale() const { return 1 / std::sqrt(static_cast<double>(dim)); }
};

using Ranges = std::vector<std::pair<int32_t, int32_t>>;

KeyRanges to_tensors(const Ranges& ranges) {
  std::vector<int32_t> first, last;
  for (const auto& [begin, end] : ranges) {
    first.push_back(begin);
    last.push_back(end);
  }
  const Shape shape{static_cast<int64_t>(ranges.size())};
  return {from_values(shape, first), from_values(shape, last)};
}

Tensors outputs(const AttentionOutput& out) { return {out.o, out.lse}; }

// in: q, k, v, first, last.
Tensors naive(const Tensors& in, Heads heads) {
  const Tensor &q = in[0], &k = in[1], &v = in[2];
  const int64_t d = heads.dim, dv = heads.value_dim(), group = heads.query / heads.kv;
  Tensor o = zeros({q.rows(), heads.query * dv}, DType::f64);
  Tensor lse({q.rows(), heads.query}, DType::f64);
  for (int64_t i = 0; i < q.rows(); ++i) {
    const auto first = static_cast<int64_t>(in[3].at(i)), last = static_cast<int64_t>(in[4].at(i));
    for (int64_t h = 0; h < heads.query; ++h) {
      const int64_t of_q = i * q.cols() + h * d, of_kv = h / group * d;
      std::vector<double> scores;
      double top = -std::numeric_limits<double>::infinity();
      for (int64_t j = first; j < last; ++j) {
        double dot = 0;
        for (int64_t c = 0; c < d; ++c) dot += q.at(of_q + c) * k.at(j * k.cols() + of_kv + c);
        scores.push_back(dot * heads.scale());
        top = std::max(top, scores.back());
      }
      double sum = 0;
      for (double s : scores) sum += std::exp(s - top);
      for (int64_t j = first; j < last; ++j) {
        const double p = std::exp(scores[static_cast<size_t>(j - first)] - top) / sum;
        for (int64_t c = 0; c < dv; ++c) {
          const int64_t at = i * o.cols() + h * dv + c;
          o.set(at, o.at(at) + p * v.at(j * v.cols() + h / group * dv + c));
        }
      }
      lse.set(i * heads.query + h, top + std::log(sum));
    }
  }
  return {o, lse};
}

OpCase attention_case(const std::string& name, Heads heads, const KeyRanges& ranges, int64_t keys) {
  const int64_t queries = ranges.first_N.numel();
  return {.name = name,
          .inputs = {{.shape = {queries, heads.query * heads.dim}},
                     {.shape = {keys, heads.kv * heads.dim}},
                     {.shape = {keys, heads.kv * heads.value_dim()}},
                     InputSpec::index(ranges.first_N),
                     InputSpec::index(ranges.last_N)},
          .run =
              [heads](const Tensors& in) {
                return outputs(
                    attention(in[0], in[1], in[2], {in[3], in[4]}, heads.dim, heads.scale()));
              },
          .naive = [heads](const Tensors& in) { return naive(in, heads); }};
}

OpCase causal_case(const std::string& name, Heads heads, const std::vector<int64_t>& lengths,
                   int64_t window = 0) {
  const Segments segments = Segments::packed(lengths);
  return attention_case(name, heads, causal_ranges(segments, window), segments.tokens());
}

// q, k and v are columns of one tensor, as a fused projection gives them.
OpCase fused_case(const std::string& name, Heads heads, int64_t tokens) {
  OpCase c = causal_case(name, heads, {tokens});
  const int64_t q_end = heads.query * heads.dim, k_end = q_end + heads.kv * heads.dim,
                v_end = k_end + heads.kv * heads.value_dim();
  const auto split = [=](const Tensors& in) -> Tensors {
    return {slice_columns(in[0], 0, q_end), slice_columns(in[0], q_end, k_end),
            slice_columns(in[0], k_end, v_end), in[1], in[2]};
  };
  c.inputs = {{.shape = {tokens, v_end}}, c.inputs[3], c.inputs[4]};
  c.run = [split, run = c.run](const Tensors& in) { return run(split(in)); };
  c.naive = [split, heads](const Tensors& in) {
    Tensors dense = split(in);
    for (size_t i = 0; i < 3; ++i) dense[i] = clone(dense[i]);
    return naive(dense, heads);
  };
  return c;
}

OpBench attention_bench(const std::string& name, Heads heads, const KeyRanges& ranges,
                        int64_t keys) {
  const OpCase c = attention_case(name, heads, ranges, keys);
  const int64_t queries = ranges.first_N.numel();
  double pairs = 0;
  for (int64_t i = 0; i < queries; ++i) pairs += ranges.last_N.at(i) - ranges.first_N.at(i);
  const double head_pairs = pairs * static_cast<double>(heads.query * heads.dim);
  const double q_bytes = 4.0 * static_cast<double>(queries * heads.query * heads.dim);
  const double kv_bytes = 4.0 * static_cast<double>(2 * keys * heads.kv * heads.dim);
  const double lse_bytes = 4.0 * static_cast<double>(queries * heads.query);
  return {.name = name,
          .inputs = c.inputs,
          .run = c.run,
          .forward_flops = 4 * head_pairs,
          .backward_flops = 10 * head_pairs,
          .forward_read_bytes = q_bytes + kv_bytes,
          .forward_write_bytes = q_bytes + lse_bytes,
          .backward_read_bytes = 3 * q_bytes + kv_bytes + 2 * lse_bytes,
          .backward_write_bytes = q_bytes + kv_bytes};
}

OpBench causal_bench(const std::string& name, Heads heads, int64_t documents, int64_t tokens) {
  return attention_bench(name, heads, causal_ranges(Segments::batch(documents, tokens)),
                         documents * tokens);
}

// One query for each of `sequences`, at the end of `keys` cached tokens of its own.
OpBench decode_bench(const std::string& name, Heads heads, int32_t sequences, int32_t keys) {
  Ranges ranges;
  for (int32_t i = 0; i < sequences; ++i) ranges.push_back({i * keys, (i + 1) * keys});
  return attention_bench(name, heads, to_tensors(ranges), int64_t{sequences} * keys);
}

}  // namespace

OpSpec attention_spec() {
  return {
      .name = "attention",
      .cases = {causal_case("a causal batch", {4, 2, 16}, {12, 12, 12}),
                causal_case("documents of odd lengths", {4, 2, 8}, {1, 37, 3, 50, 7}),
                causal_case("a sliding window", {2, 1, 8}, {70, 9}, 5),
                causal_case("one KV head", {6, 1, 8}, {21}),
                causal_case("as many KV heads as query heads", {3, 3, 8}, {21}),
                causal_case("a head no vector divides", {2, 1, 5}, {19}),
                causal_case("several tiles and a remainder", {2, 1, 8}, {7, 300}),
                causal_case("a window across tiles", {2, 2, 8}, {333}, 140),
                attention_case("decode steps on a cache", {4, 2, 16},
                               to_tensors({{0, 33}, {40, 41}, {41, 90}, {64, 90}, {10, 20}}), 96),
                attention_case("decode steps over several parts of keys", {6, 2, 5, 3},
                               to_tensors({{0, 200}, {200, 201}, {205, 300}}), 300),
                attention_case("a chunk on a cache", {4, 1, 8},
                               to_tensors({{3, 60}, {3, 61}, {3, 62}, {3, 63}}), 64),
                attention_case("more keys than a tile", {4, 2, 8},
                               to_tensors({{0, 700}, {0, 3}, {690, 700}}), 701),
                causal_case("a single token", {4, 2, 8}, {1}),
                attention_case("no tokens", {4, 2, 8}, to_tensors({}), 0),
                attention_case("no keys at all", {4, 2, 8}, to_tensors({{0, 0}, {0, 0}}), 0),
                attention_case("rows that see nothing", {4, 2, 8},
                               to_tensors({{5, 5}, {0, 4}, {4, 4}, {1, 5}, {0, 0}, {9, 9}}), 9),
                causal_case("values narrower than keys", {4, 2, 12, 5}, {1, 37, 3, 140}),
                causal_case("values wider than keys, a window", {3, 3, 8, 20}, {150}, 9),
                attention_case("decode steps, values narrower than keys", {4, 1, 16, 12},
                               to_tensors({{0, 33}, {40, 41}, {41, 90}, {10, 10}}), 96),
                fused_case("views of one tensor", {4, 2, 8}, 45),
                fused_case("views of one tensor, values narrower", {4, 2, 8, 3}, 45)},
      .benches = {causal_bench("2048 tokens, 8 / 2 heads of 128", {8, 2, 128}, 1, 2048),
                  causal_bench("4 x 512 tokens, 8 / 2 heads of 128", {8, 2, 128}, 4, 512),
                  decode_bench("8 decode steps on 4096 keys, 8 / 2 heads of 128", {8, 2, 128}, 8,
                               4096)},
  };
}

}  // namespace tephra

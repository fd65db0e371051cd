// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/embedding.h"

#include "tephra/autograd/variable.h"
#include "tephra/ops/op_spec.h"

namespace tephra {
namespace {

Tensors run(const Tensors& in) { return {embedding(in[0], in[1])}; }

Tensors naive(const Tensors& in) {
  const Tensor &ids = in[0], &table = in[1];
  Tensor y({ids.numel(), table.cols()}, DType::f64);
  for (int64_t i = 0; i < y.numel(); ++i) {
    const auto id = static_cast<int64_t>(ids.at(i / table.cols()));
    y.set(i, table.at(id * table.cols() + i % table.cols()));
  }
  return {y};
}

// Ids that go through the vocabulary in steps; a small vocabulary repeats many of them.
Tensor stepping_ids(int64_t tokens, int64_t vocabulary, int64_t step) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < tokens; ++i) {
    ids.push_back(static_cast<int32_t>((i * step + i / 7) % vocabulary));
  }
  return from_values({tokens}, ids);
}

OpCase embedding_case(const std::string& name, const Tensor& ids, int64_t vocabulary,
                      int64_t width) {
  return {.name = name,
          .inputs = {InputSpec::index(ids), InputSpec::parameter({vocabulary, width})},
          .run = run,
          .naive = naive};
}

// Only the right half of a wide table is the embedding.
OpCase strided_case() {
  OpCase c = embedding_case("a table that is a column view", stepping_ids(40, 9, 4), 9, 24);
  c.run = [](const Tensors& in) -> Tensors {
    return {embedding(in[0], slice_columns(in[1], 11, 24))};
  };
  c.naive = [](const Tensors& in) -> Tensors {
    return naive({in[0], clone(in[1].column_view(11, 24))});
  };
  return c;
}

}  // namespace

OpSpec embedding_spec() {
  constexpr int64_t kN = 16384, kV = 8192, kH = 512;
  constexpr double kBytes = double(kN) * kH * 4, kTable = double(kV) * kH * 4;
  return {
      .name = "embedding",
      .cases = {embedding_case("one token", stepping_ids(1, 5, 1), 5, 8),
                embedding_case("most rows unused", stepping_ids(6, 300, 41), 300, 5),
                embedding_case("few ids, many tokens", stepping_ids(300, 3, 2), 3, 300),
                embedding_case("one id only", stepping_ids(200, 1, 1), 1, 7),
                embedding_case("an id in several thousands of tokens", stepping_ids(2600, 41, 7),
                               41, 3),
                embedding_case("no tokens", stepping_ids(0, 4, 1), 4, 6), strided_case()},
      // Backward zeroes the table's gradient, then reads and writes the rows in use.
      .benches = {{.name = "16384 tokens, 8192 x 512",
                   .inputs = {InputSpec::index(stepping_ids(kN, kV, 5003)),
                              InputSpec::parameter({kV, kH})},
                   .run = run,
                   .forward_read_bytes = kTable,
                   .forward_write_bytes = kBytes,
                   .backward_read_bytes = kBytes,
                   .backward_write_bytes = kTable}},
  };
}

}  // namespace tephra

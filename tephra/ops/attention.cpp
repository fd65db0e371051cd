// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/attention.h"

#include <cmath>

#include "tephra/autograd/tape.h"
#include "tephra/device/launch.h"

namespace tephra {
namespace {

void check_shapes(const Tensor& q, const Tensor& k, const Tensor& v, int64_t head_dim) {
  require(q.ndim() == 2 && k.ndim() == 2 && v.ndim() == 2,
          "attention: q, k and v must be [tokens, heads * head_dim], got {}, {} and {}", q.shape(),
          k.shape(), v.shape());
  require(k.rows() == v.rows(), "attention: k and v must have as many rows, got {} and {}",
          k.shape(), v.shape());
  require(q.dtype() == k.dtype() && q.dtype() == v.dtype(),
          "attention: q, k and v must have one dtype, got {}, {} and {}", q.dtype(), k.dtype(),
          v.dtype());
  require(head_dim > 0, "attention: head_dim must be positive, got {}", head_dim);
  require(q.cols() > 0 && q.cols() % head_dim == 0,
          "attention: q has {} columns, which is not a number of heads of {}", q.cols(), head_dim);
  require(k.cols() > 0 && k.cols() % head_dim == 0,
          "attention: k has {} columns, which is not a number of heads of {}", k.cols(), head_dim);
  require(q.cols() % k.cols() == 0,
          "attention: {} query heads cannot share {} KV heads evenly; one must divide the other",
          q.cols() / head_dim, k.cols() / head_dim);
  const int64_t kv_heads = k.cols() / head_dim;
  require(v.cols() > 0 && v.cols() % kv_heads == 0,
          "attention: v has {} columns, which do not divide into the {} heads of k", v.cols(),
          kv_heads);
}

// The rows that ranges may number, given how many the keys have.
int64_t numbered_rows(const KeyRanges& ranges, int64_t keys) {
  if (!ranges.pages) return keys;
  require(ranges.pages.dtype() == DType::i32 && ranges.page_rows > 0,
          "attention: pages must be i32, of 1 row or more, got {} of {}", ranges.pages.dtype(),
          ranges.page_rows);
  if (ranges.pages.device().kind == Device::Kind::cpu) {
    for (int64_t i = 0; i < ranges.pages.numel(); ++i) {
      const int64_t page = ranges.pages.data<int32_t>()[i];
      require(page >= 0 && (page + 1) * ranges.page_rows <= keys,
              "attention: page {} is {}, which has no {} rows among the {} of k", i, page,
              ranges.page_rows, keys);
    }
  }
  return ranges.pages.numel() * ranges.page_rows;
}

void check_ranges(const KeyRanges& ranges, int64_t queries, int64_t key_rows) {
  const int64_t keys = numbered_rows(ranges, key_rows);
  const Shape one_each{queries};
  require(ranges.first_N.shape() == one_each && ranges.last_N.shape() == one_each,
          "attention: ranges must be {} to match the rows of q, got {} and {}", one_each,
          ranges.first_N.shape(), ranges.last_N.shape());
  require(ranges.first_N.dtype() == DType::i32 && ranges.last_N.dtype() == DType::i32,
          "attention: ranges must be i32, got {} and {}", ranges.first_N.dtype(),
          ranges.last_N.dtype());
  if (ranges.first_N.device().kind != Device::Kind::cpu) return;
  const int32_t* first = ranges.first_N.data<int32_t>();
  const int32_t* last = ranges.last_N.data<int32_t>();
  for (int64_t i = 0; i < queries; ++i) {
    require(0 <= first[i] && first[i] <= last[i] && last[i] <= keys,
            "attention: query {} sees keys [{}, {}), which is no range within the {} rows of k", i,
            first[i], last[i], keys);
  }
}

}  // namespace

AttentionOutput attention(const Tensor& q, const Tensor& k, const Tensor& v, const KeyRanges& given,
                          int64_t head_dim, double scale) {
  check_shapes(q, k, v, head_dim);
  check_ranges(given, q.rows(), k.rows());
  const KeyRanges ranges = to_device(given, q.device());
  require(std::isfinite(scale) && scale > 0, "attention: scale must be positive, got {}", scale);

  const int64_t heads = q.cols() / head_dim, value_dim = v.cols() / (k.cols() / head_dim);
  AttentionOutput out{Tensor({q.rows(), heads * value_dim}, q.dtype(), q.device()),
                      Tensor({q.rows(), heads}, acc_dtype(q.dtype()), q.device())};
  launch(q.device(), "attention",
         kernel::Attention{q, k, v, ranges, head_dim, scale, out.o, out.lse});

  if (!Tape::current()) return out;
  require(!ranges.pages || !recording({&q, &k, &v}),
          "attention: keys in pages have no gradient; expected none to be wanted");
  // No replay: o and lse are kept, being dear to compute and all that the backward pass needs
  // beside its inputs.
  record({.name = "attention",
          .op_class = OpClass::attention,
          .inputs = {q, k, v, ranges.first_N, ranges.last_N},
          .saved = {q, k, v, out.o, out.lse, ranges.first_N, ranges.last_N},
          .always_kept = 0b11},
         {&out.o, &out.lse},
         [head_dim, scale](const Tensors& saved, const Tensors& dy, GradSink& sink) {
           GradTarget grads[3];
           for (size_t i = 0; i < 3; ++i) {
             if (sink.wants(i)) grads[i] = sink.target(i);
           }
           launch(saved[0].device(), "attention",
                  kernel::AttentionGrad{dy[0], dy[1], saved[0], saved[1], saved[2], saved[3],
                                        saved[4], KeyRanges{saved[5], saved[6]}, head_dim, scale,
                                        grads[0], grads[1], grads[2]});
         });
  return out;
}

}  // namespace tephra

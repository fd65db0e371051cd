// SPDX-License-Identifier: Apache-2.0
// A tensor is a handle on device memory: shape, dtype, and one stride between its rows. Elements of
// a row are contiguous and leading dimensions are dense over rows, so that a block of columns is a
// view and a transpose is a flag of the matrix product, never a view. Copies share memory.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tephra/core/dtype.h"
#include "tephra/core/shape.h"
#include "tephra/device/memory.h"

namespace tephra {

struct Variable;  // autograd/variable.h: what the tape knows about this value

class Tensor {
 public:
  Tensor() = default;  // undefined: "no tensor here"
  Tensor(const Shape& shape, DType dtype, Device device = kCpu,
         Purpose purpose = Purpose::activations);
  // A dense view of `storage` from `byte_offset`.
  Tensor(std::shared_ptr<Storage> storage, int64_t byte_offset, const Shape& shape, DType dtype);

  bool defined() const { return storage_ != nullptr; }
  explicit operator bool() const { return defined(); }

  const Shape& shape() const { return shape_; }
  int ndim() const { return shape_.ndim(); }
  int64_t dim(int i) const { return shape_[i]; }
  int64_t numel() const { return shape_.numel(); }
  int64_t rows() const { return shape_.rows(); }
  int64_t cols() const { return shape_.cols(); }
  int64_t row_stride() const { return row_stride_; }  // in elements
  bool dense() const { return row_stride_ == cols() || rows() <= 1; }
  DType dtype() const { return dtype_; }
  Device device() const { return storage_ ? storage_->device() : kCpu; }
  int64_t bytes() const { return numel() * size_of(dtype_); }

  // First element. Constness is the handle's, not the memory's.
  template <class T>
  T* data() const {
    TEPHRA_ASSERT(dtype_of<T>() == dtype_, "a kernel asks for the dtype it was dispatched on");
    return static_cast<T*>(raw());
  }
  template <class T>
  T* row(int64_t r) const {
    return data<T>() + r * row_stride_;
  }
  void* raw() const;
  // Whether no other handle shares its memory.
  bool sole_owner() const { return storage_.use_count() == 1; }

  // One element by its index in row-major order, any dtype. Slow: for tests and small reads.
  double at(int64_t i) const;
  void set(int64_t i, double value) const;

  // Same memory, other extents; dense tensors only. Not recorded: no gradient flows through it.
  Tensor view(const Shape& shape) const;
  // Rows [begin, end) of the flattened leading dimensions. Not recorded.
  Tensor slice_rows(int64_t begin, int64_t end) const;
  // The same value without its place on the tape.
  Tensor detach() const;

  const std::shared_ptr<Variable>& variable() const { return variable_; }
  void set_variable(std::shared_ptr<Variable> variable) { variable_ = std::move(variable); }

  // Columns [begin, end) without the variable; autograd's slice_columns adds it.
  Tensor column_view(int64_t begin, int64_t end) const;

 private:
  std::shared_ptr<Storage> storage_;
  int64_t offset_ = 0;  // in bytes
  Shape shape_;
  int64_t row_stride_ = 0;
  DType dtype_ = DType::f32;
  std::shared_ptr<Variable> variable_;
};

using Tensors = std::vector<Tensor>;

Tensor empty_like(const Tensor& x);
Tensor zeros(const Shape& shape, DType dtype, Device device = kCpu,
             Purpose purpose = Purpose::activations);
Tensor full(const Shape& shape, DType dtype, double value);
template <class T>
Tensor from_values(const Shape& shape, const std::vector<T>& values);

// Element-wise copy with conversion between any two dtypes, from and to any device; shapes must
// agree. Not recorded.
void copy_into(const Tensor& to, const Tensor& from);
Tensor to_device(const Tensor& x, Device device);  // x itself when it is there; undefined stays so
Tensor to_dtype(const Tensor& x, DType dtype);     // x itself when it already has it
Tensor clone(const Tensor& x);                     // dense
void fill(const Tensor& x, double value);

// Same shape, dtype and bits.
bool same_bits(const Tensor& a, const Tensor& b);

namespace kernel {

// to = from, converted.
struct Convert {
  const Tensor& to;
  const Tensor& from;

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;  // f32 and bf16
};

struct Fill {
  const Tensor& x;
  double value;

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

}  // namespace kernel
}  // namespace tephra

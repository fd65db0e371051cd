// SPDX-License-Identifier: Apache-2.0
#include "tephra/core/tensor.h"

#include <cstring>

#include "tephra/base/parallel.h"
#include "tephra/device/launch.h"

namespace tephra {
namespace {

bool on_host(const Tensor& x) { return x.device().kind == Device::Kind::cpu; }

template <class F>
decltype(auto) visit_any(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f64:
      return f.template operator()<double>();
    case DType::f32:
      return f.template operator()<float>();
    case DType::bf16:
      return f.template operator()<bf16>();
    case DType::f16:
      return f.template operator()<f16>();
    case DType::fp8_e4m3:
      return f.template operator()<fp8_e4m3>();
    case DType::i64:
      return f.template operator()<int64_t>();
    case DType::i32:
      return f.template operator()<int32_t>();
    case DType::i16:
      return f.template operator()<int16_t>();
    case DType::i8:
      return f.template operator()<int8_t>();
    case DType::u8:
      return f.template operator()<uint8_t>();
    case DType::boolean:
      return f.template operator()<bool>();
  }
  throw Error(Fault::internal, "unknown dtype");
}

template <class To, class From>
To convert(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_same_v<To, fp8_e4m3>) {
    throw Error(Fault::usage, "fp8 is a storage type: converting to it is not supported");
  } else if constexpr (std::is_same_v<To, bf16> || std::is_same_v<To, f16>) {
    return To(static_cast<float>(value));
  } else {
    return static_cast<To>(value);
  }
}

constexpr int64_t kGrain = 1 << 16;  // elements per piece of an element-wise loop

}  // namespace

Tensor::Tensor(const Shape& shape, DType dtype, Device device, Purpose purpose)
    : storage_(Storage::allocate(device, shape.numel() * size_of(dtype), purpose)),
      shape_(shape),
      row_stride_(shape.cols()),
      dtype_(dtype) {}

Tensor::Tensor(std::shared_ptr<Storage> storage, int64_t byte_offset, const Shape& shape,
               DType dtype)
    : storage_(std::move(storage)),
      offset_(byte_offset),
      shape_(shape),
      row_stride_(shape.cols()),
      dtype_(dtype) {
  TEPHRA_ASSERT(byte_offset >= 0 && byte_offset + bytes() <= storage_->bytes(),
                "a tensor lies within its storage");
}

void* Tensor::raw() const {
  TEPHRA_ASSERT(defined(), "only a defined tensor has data");
  if (storage_->data() == nullptr) return nullptr;
  return static_cast<char*>(storage_->data()) + offset_;
}

double Tensor::at(int64_t i) const {
  TEPHRA_ASSERT(i >= 0 && i < numel(), "index within the tensor");
  const int64_t place = i / cols() * row_stride_ + i % cols();
  return visit_any(dtype_, [&]<class T>() {
    const T* element = static_cast<const T*>(raw()) + place;
    if (on_host(*this)) return static_cast<double>(*element);
    T value;
    gpu::copy(device(), gpu::Direction::to_host, &value, element, sizeof value);
    return static_cast<double>(value);
  });
}

void Tensor::set(int64_t i, double value) const {
  TEPHRA_ASSERT(i >= 0 && i < numel(), "index within the tensor");
  const int64_t place = i / cols() * row_stride_ + i % cols();
  visit_any(dtype_, [&]<class T>() {
    const T converted = convert<T>(value);
    T* element = static_cast<T*>(raw()) + place;
    if (on_host(*this)) {
      *element = converted;
    } else {
      gpu::copy(device(), gpu::Direction::to_device, element, &converted, sizeof converted);
    }
  });
}

Tensor Tensor::view(const Shape& shape) const {
  require(dense(), "view: expected a dense tensor, got rows of {} with stride {}", cols(),
          row_stride_);
  require(shape.numel() == numel(), "view: {} has {} elements, {} has {}", shape_, numel(), shape,
          shape.numel());
  Tensor t = detach();
  t.shape_ = shape;
  t.row_stride_ = shape.cols();
  return t;
}

Tensor Tensor::slice_rows(int64_t begin, int64_t end) const {
  require(0 <= begin && begin <= end && end <= rows(), "slice_rows: [{}, {}) is not within {} rows",
          begin, end, rows());
  Tensor t = detach();
  t.shape_ = Shape{end - begin, cols()};
  t.offset_ += begin * row_stride_ * size_of(dtype_);
  return t;
}

Tensor Tensor::column_view(int64_t begin, int64_t end) const {
  require(0 <= begin && begin <= end && end <= cols(), "columns [{}, {}) are not within {}", begin,
          end, shape_);
  Tensor t = detach();
  t.shape_ = Shape{rows(), end - begin};
  t.offset_ += begin * size_of(dtype_);
  return t;
}

Tensor Tensor::detach() const {
  Tensor t = *this;
  t.variable_ = nullptr;
  return t;
}

Tensor empty_like(const Tensor& x) { return Tensor(x.shape(), x.dtype(), x.device()); }

Tensor zeros(const Shape& shape, DType dtype, Device device, Purpose purpose) {
  Tensor t(shape, dtype, device, purpose);
  if (t.bytes() == 0) return t;
  if (on_host(t)) {
    std::memset(t.raw(), 0, static_cast<size_t>(t.bytes()));
  } else {
    gpu::fill_bytes(device, t.raw(), 0, t.bytes());
  }
  return t;
}

Tensor full(const Shape& shape, DType dtype, double value) {
  Tensor t(shape, dtype);
  fill(t, value);
  return t;
}

template <class T>
Tensor from_values(const Shape& shape, const std::vector<T>& values) {
  require(shape.numel() == static_cast<int64_t>(values.size()), "from_values: {} needs {}, got {}",
          shape, shape.numel(), values.size());
  Tensor t(shape, dtype_of<T>());
  if (!values.empty()) std::memcpy(t.raw(), values.data(), values.size() * sizeof(T));
  return t;
}
template Tensor from_values(const Shape&, const std::vector<double>&);
template Tensor from_values(const Shape&, const std::vector<float>&);
template Tensor from_values(const Shape&, const std::vector<int32_t>&);
template Tensor from_values(const Shape&, const std::vector<int64_t>&);

void kernel::Convert::on_cpu() const {
  const int64_t cols = to.cols();
  visit_any(to.dtype(), [&]<class To>() {
    visit_any(from.dtype(), [&]<class From>() {
      parallel_for(to.rows(), std::max<int64_t>(1, kGrain / cols), [&](int64_t r0, int64_t r1) {
        for (int64_t r = r0; r < r1; ++r) {
          To* out = to.row<To>(r);
          const From* in = from.row<From>(r);
          if constexpr (std::is_same_v<To, From>) {
            std::memcpy(static_cast<void*>(out), in, static_cast<size_t>(cols) * sizeof(To));
          } else {
            for (int64_t c = 0; c < cols; ++c) out[c] = convert<To>(in[c]);
          }
        }
      });
    });
  });
}

namespace {

// Of one dtype, at least one of them on a GPU.
void copy_bytes(const Tensor& to, const Tensor& from) {
  const int64_t size = size_of(to.dtype());
  const gpu::Direction direction = on_host(from) ? gpu::Direction::to_device
                                   : on_host(to) ? gpu::Direction::to_host
                                                 : gpu::Direction::on_device;
  gpu::copy_rows(on_host(to) ? from.device() : to.device(), direction,
                 {to.raw(), to.row_stride() * size, from.raw(), from.row_stride() * size,
                  to.cols() * size, to.rows()});
}

bool converts_on_gpu(DType dtype) { return dtype == DType::f32 || dtype == DType::bf16; }

}  // namespace

void copy_into(const Tensor& to, const Tensor& from) {
  require(to.numel() == from.numel() && to.cols() == from.cols(),
          "copy_into: cannot copy {} into {}", from.shape(), to.shape());
  if (to.numel() == 0) return;
  const bool same_device = to.device() == from.device();
  if (same_device && on_host(to)) return kernel::Convert{to, from}.on_cpu();
  if (to.dtype() == from.dtype()) return copy_bytes(to, from);
  if (same_device && converts_on_gpu(to.dtype()) && converts_on_gpu(from.dtype())) {
    return launch(to.device(), "copy_into", kernel::Convert{to, from});
  }
  // Through the host.
  if (!on_host(from)) return copy_into(to, to_device(from, kCpu));
  const Tensor converted(from.shape(), to.dtype(), kCpu, Purpose::workspace);
  kernel::Convert{converted, from}.on_cpu();
  copy_bytes(to, converted);
}

Tensor to_device(const Tensor& x, Device device) {
  if (!x.defined() || x.device() == device) return x;
  const Tensor y(x.shape(), x.dtype(), device);
  copy_into(y, x);
  return y;
}

Tensor to_dtype(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  Tensor y(x.shape(), dtype, x.device());
  copy_into(y, x);
  return y;
}

Tensor clone(const Tensor& x) {
  Tensor y = empty_like(x);
  copy_into(y, x);
  return y;
}

void kernel::Fill::on_cpu() const {
  visit_any(x.dtype(), [&]<class T>() {
    const T v = convert<T>(value);
    for (int64_t r = 0; r < x.rows(); ++r) std::fill_n(x.row<T>(r), x.cols(), v);
  });
}

void fill(const Tensor& x, double value) {
  if (x.numel() > 0) launch(x.device(), "fill", kernel::Fill{x, value});
}

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  if (!on_host(a) || !on_host(b)) return same_bits(to_device(a, kCpu), to_device(b, kCpu));
  const size_t row_bytes = static_cast<size_t>(a.cols() * size_of(a.dtype()));
  const int64_t size = size_of(a.dtype());
  if (a.numel() == 0) return true;
  for (int64_t r = 0; r < a.rows(); ++r) {
    const char* pa = static_cast<const char*>(a.raw()) + r * a.row_stride() * size;
    const char* pb = static_cast<const char*>(b.raw()) + r * b.row_stride() * size;
    if (std::memcmp(pa, pb, row_bytes) != 0) return false;
  }
  return true;
}

}  // namespace tephra

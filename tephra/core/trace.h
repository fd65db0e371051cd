// SPDX-License-Identifier: Apache-2.0
// Named intermediates. Models tap their values as they compute them; while a Trace is alive on this
// thread it keeps them in call order, so that a golden file, a debugger or a report can look
// inside.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tephra/core/tensor.h"

namespace tephra {

class Trace {
 public:
  // Keeps the taps whose names it `wanted`; all of them when no choice is given.
  explicit Trace(std::function<bool(std::string_view name)> wanted = {});
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  const std::vector<std::pair<std::string, Tensor>>& taps() const { return taps_; }
  const Tensor* find(std::string_view name) const;  // null when nothing has that name

 private:
  friend void tap(const std::string& name, const Tensor& value);
  std::function<bool(std::string_view name)> wanted_;
  std::vector<std::pair<std::string, Tensor>> taps_;
  Trace* outer_;
};

void tap(const std::string& name, const Tensor& value);

}  // namespace tephra

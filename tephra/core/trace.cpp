// SPDX-License-Identifier: Apache-2.0
#include "tephra/core/trace.h"

namespace tephra {
namespace {

thread_local Trace* current_trace = nullptr;

}  // namespace

Trace::Trace(std::function<bool(std::string_view name)> wanted)
    : wanted_(std::move(wanted)), outer_(current_trace) {
  current_trace = this;
}
Trace::~Trace() { current_trace = outer_; }

const Tensor* Trace::find(std::string_view name) const {
  for (const auto& [tap_name, value] : taps_) {
    if (tap_name == name) return &value;
  }
  return nullptr;
}

void tap(const std::string& name, const Tensor& value) {
  if (current_trace == nullptr) return;
  if (current_trace->wanted_ && !current_trace->wanted_(name)) return;
  current_trace->taps_.emplace_back(name, value.detach());
}

}  // namespace tephra

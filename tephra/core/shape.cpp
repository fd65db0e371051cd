// SPDX-License-Identifier: Apache-2.0
#include "tephra/core/shape.h"

namespace tephra {

std::string to_text(const Shape& shape) {
  std::string text = "[";
  for (int i = 0; i < shape.ndim(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

}  // namespace tephra

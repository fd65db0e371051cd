// SPDX-License-Identifier: Apache-2.0
#include "tephra/cli/output.h"

namespace tephra {

void Table::print() const { print_text(text()); }

}  // namespace tephra

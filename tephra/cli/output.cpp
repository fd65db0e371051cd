// SPDX-License-Identifier: Apache-2.0
#include "tephra/cli/output.h"

namespace tephra {

void Table::print() const { std::fputs(text().c_str(), stdout); }

}  // namespace tephra

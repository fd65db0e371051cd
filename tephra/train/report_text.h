// SPDX-License-Identifier: Apache-2.0
// The fixed parts of the report page.
#pragma once

#include <string_view>

namespace tephra {

extern const std::string_view kReportStyle;   // report_style.cpp
extern const std::string_view kReportScript;  // report_script.cpp

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// The chat page, chat_page.html, as it was when the binary was built.
#pragma once

#include "tephra/serve/api.h"

namespace tephra {

// At "/". Its headers let the browser run the page's own script and style and nothing else, talk to
// this server alone, and show it in no other page's frame.
StaticPage chat_page();

}  // namespace tephra

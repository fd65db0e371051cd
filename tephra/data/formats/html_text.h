// SPDX-License-Identifier: Apache-2.0
// The readable text of an HTML page: tags gone, entities resolved, spaces joined, a line for each
// block. Scripts, styles, menus, side columns, footers and form fields are left out. One pass
// without a tree, so time and memory are linear in the page, whatever it holds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tephra {

struct HtmlText {
  std::string title;
  std::string text;
};

// Of valid UTF-8; gives valid UTF-8.
HtmlText html_text(std::string_view page);

// The code point of an entity of HTML 4 ("eacute"); 0 when there is none.
uint32_t html_entity(std::string_view name);

}  // namespace tephra

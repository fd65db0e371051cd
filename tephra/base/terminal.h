// SPDX-License-Identifier: Apache-2.0
// Standard error, shared by the log and the progress bar: whole lines, and at most one live line
// that stays below them on a terminal.
#pragma once

#include <string_view>

namespace tephra {

bool stdin_is_terminal();
bool stdout_is_terminal();
bool stdout_has_color();
bool stderr_is_terminal();
bool stderr_has_color();  // a terminal, and neither NO_COLOR nor TERM=dumb
int terminal_width();

// Each is one write, so lines of several threads and processes do not mix.
void write_line(std::string_view text);
void set_live_line(std::string_view text);  // replaces the live line; empty removes it

}  // namespace tephra

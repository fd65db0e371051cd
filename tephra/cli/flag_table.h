// SPDX-License-Identifier: Apache-2.0
// What a command said about its flags: written by flags.cpp, read by parse.cpp.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <vector>

namespace tephra {

struct FlagSpec {
  std::string name;         // "--model", or "FILES" for a positional argument
  std::string placeholder;  // of its value in --help; empty for a switch
  std::string help;
  std::string shown_default;
  bool list = false;
  bool required = false;
  bool alone = false;           // with it nothing is required
  std::vector<std::string> of;  // the flags without all of which it changes nothing
  // Each is called with every value given; a value that does not fit is a Fault::usage.
  std::vector<std::function<void(const std::string& value)>> checks;
  std::function<void(const std::string& value)> take;
  int times_given = 0;
  std::vector<std::string>* noted_in = nullptr;  // gets the name when the flag is given

  bool positional() const { return !name.starts_with("--"); }
  bool takes_value() const { return !placeholder.empty(); }
};

struct FlagTable {
  std::deque<FlagSpec> flags;  // a deque: Flag points into it
  std::vector<std::string> examples;
  std::vector<std::string>* note_in = nullptr;  // for the next flags

  FlagSpec& add() {
    flags.emplace_back().noted_in = note_in;
    return flags.back();
  }
};

}  // namespace tephra

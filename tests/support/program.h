// SPDX-License-Identifier: Apache-2.0
// Runs a program as a person would, and keeps what it said.
#pragma once

#include <string>
#include <vector>

namespace tephra {

struct Ran {
  int code;  // exit code; 128 + signal when it was killed, as a shell says
  std::string out;
  std::string err;
};

struct Program {
  std::string path;
  std::vector<std::string> environment;  // "NAME=value", beside the test's own
  std::string input;                     // its stdin
  std::string out_path;                  // where its stdout goes instead of Ran::out, if given
  bool closed_pipe = false;              // its stdout is a pipe that nobody reads

  Ran operator()(const std::vector<std::string>& arguments) const;
};

}  // namespace tephra

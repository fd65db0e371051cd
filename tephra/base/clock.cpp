// SPDX-License-Identifier: Apache-2.0
#include "tephra/base/clock.h"

#include <unistd.h>

#include <ctime>
#include <fstream>
#include <sstream>
#include <string>

namespace tephra {
namespace {

const double kLoaded = steady_seconds();  // for systems that do not say when a process began

// Seconds after the machine's start at which this process began; negative when not known. In
// /proc/self/stat it is the 20th word after the program's name, which may itself hold anything.
double began() {
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return -1;
  std::istringstream words(text.substr(name_end + 1));
  std::string word;
  for (int i = 0; i < 20; ++i) words >> word;
  double ticks = -1;
  std::istringstream(word) >> ticks;
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

double process_seconds() {
  timespec now{};
  const double start = began();
  if (start < 0 || clock_gettime(CLOCK_BOOTTIME, &now) != 0) return steady_seconds() - kLoaded;
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec) - start;
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include "tests/support/program.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "tephra/base/error.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

std::string contents(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// In the child: `descriptor` becomes this file, or the child ends with 127.
void redirect(int descriptor, const std::string& path, int flags) {
  const int file = ::open(path.c_str(), flags, 0600);
  if (file < 0 || ::dup2(file, descriptor) < 0) ::_exit(127);
}

void redirect_to_closed_pipe(int descriptor) {
  int ends[2];
  if (::pipe(ends) != 0 || ::dup2(ends[1], descriptor) < 0) ::_exit(127);
  ::close(ends[0]);
  ::close(ends[1]);
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> list;
  for (std::string& word : words) list.push_back(word.data());
  list.push_back(nullptr);
  return list;
}

}  // namespace

Ran Program::operator()(const std::vector<std::string>& arguments) const {
  const Scratch scratch;
  const std::string in = scratch / "in", err = scratch / "err";
  const std::string out = out_path.empty() ? std::string(scratch / "out") : out_path;
  std::ofstream(in, std::ios::binary) << input;
  std::vector<std::string> words = {path}, variables = environment;
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv = pointers(words), added = pointers(variables);

  const pid_t child = ::fork();
  TEPHRA_ASSERT(child >= 0, "a test may start a process");
  if (child == 0) {
    redirect(0, in, O_RDONLY);
    redirect(1, out, O_WRONLY | O_CREAT);
    redirect(2, err, O_WRONLY | O_CREAT);
    if (closed_pipe) redirect_to_closed_pipe(1);
    for (size_t i = 0; added[i] != nullptr; ++i) ::putenv(added[i]);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  int status = 0;
  TEPHRA_ASSERT(::waitpid(child, &status, 0) == child, "it is our child");
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return {code, out_path.empty() ? contents(out) : "", contents(err)};
}

}  // namespace tephra

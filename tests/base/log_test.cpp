// SPDX-License-Identifier: Apache-2.0
// The log, the progress bar and the signals: what reaches the person at the terminal.
#include "tephra/base/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "tephra/base/clock.h"
#include "tephra/base/files.h"
#include "tephra/base/progress.h"
#include "tephra/base/signals.h"
#include "tephra/base/terminal.h"
#include "tests/support/error_of.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

// What `call` writes to stderr when that is a file.
std::string plain_output(FunctionRef<void()> call) {
  ::testing::internal::CaptureStderr();
  call();
  return ::testing::internal::GetCapturedStderr();
}

// The same when it is a terminal.
std::string terminal_output(FunctionRef<void()> call) {
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (master < 0 || ::grantpt(master) != 0 || ::unlockpt(master) != 0) {
    ADD_FAILURE() << "no pseudo terminal";
    return "";
  }
  const int before = ::dup(STDERR_FILENO);
  const int slave = ::open(::ptsname(master), O_RDWR | O_NOCTTY);
  ::dup2(slave, STDERR_FILENO);
  call();
  ::dup2(before, STDERR_FILENO);
  ::close(before);
  ::fcntl(master, F_SETFL, O_NONBLOCK);
  std::string text;
  char chunk[4096];
  for (ssize_t size; (size = ::read(master, chunk, sizeof chunk)) > 0;) {
    text.append(chunk, static_cast<size_t>(size));
  }
  ::close(slave);
  ::close(master);
  return text;
}

TEST(Log, DropsLinesBelowTheLevelAndFormatsTheOthers) {
  std::vector<std::string> lines;
  const LogCapture capture([&](LogLevel, std::string_view text) { lines.emplace_back(text); });
  log_info("{} files", 3);
  set_log_level(LogLevel::warning);
  log_info("dropped");
  log_warning("kept {}", "too");
  log_error("and {}", "this");
  set_log_level(LogLevel::info);
  EXPECT_EQ(lines, (std::vector<std::string>{"3 files", "kept too", "and this"}));
}

TEST(Log, IsPlainInAFileAndColouredOnATerminal) {
  ::unsetenv("NO_COLOR");
  ::setenv("TERM", "xterm", 1);
  const auto speak = [] {
    log_info("one");
    log_warning("two");
    log_error("three");
  };
  EXPECT_EQ(plain_output(speak), "one\nwarning: two\nerror: three\n");
  EXPECT_EQ(terminal_output(speak),
            "one\r\n\x1b[33mwarning:\x1b[0m two\r\n\x1b[31merror:\x1b[0m three\r\n");
  ::setenv("NO_COLOR", "1", 1);
  EXPECT_EQ(terminal_output(speak), "one\r\nwarning: two\r\nerror: three\r\n");
  ::unsetenv("NO_COLOR");
}

TEST(Log, WarnsOncePerKey) {
  const std::string text = plain_output([] {
    for (int i = 0; i < 3; ++i) {
      warn_once("log-test-a", "a {}", i);
      warn_once("log-test-b", "b {}", i);
    }
  });
  EXPECT_EQ(text, "warning: a 0\nwarning: b 0\n");
}

TEST(Log, LinesOfThreadsStayWhole) {
  const std::string text = plain_output([] {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([t] {
        for (int i = 0; i < 200; ++i) log_info("{}", std::string(50, static_cast<char>('a' + t)));
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
  ASSERT_EQ(text.size(), 4u * 200 * 51);
  for (size_t at = 0; at < text.size(); at += 51) {
    ASSERT_EQ(text.substr(at, 51), std::string(50, text[at]) + "\n");
  }
}

TEST(Progress, OfQuickWorkSaysNothing) {
  std::vector<std::string> lines;
  const LogCapture capture([&](LogLevel, std::string_view text) { lines.emplace_back(text); });
  {
    Progress progress("reading", 10, "tensors");
    progress.add(10);
  }
  EXPECT_TRUE(lines.empty());
}

TEST(Progress, TextsSayHowFarHowFastAndHowLong) {
  EXPECT_EQ(progress_line({"reading", "docs", 1234, 4000, 2}),
            "reading: 30 %, 1,234 of 4,000 docs, 617 docs/s, 4.5 s left");
  EXPECT_EQ(progress_line({"reading", "B", 3 << 20, 6 << 20, 2}),
            "reading: 50 %, 3.0 MiB of 6.0 MiB, 1.5 MiB/s, 2.0 s left");
  EXPECT_EQ(progress_line({"reading", "docs", 5, 0, 2}), "reading: 5 docs, 2.50 docs/s");
  EXPECT_EQ(progress_line({"reading", "docs", 0, 10, 2}),
            "reading: 0 %, 0 of 10 docs, 0.00 docs/s");
  EXPECT_EQ(progress_line({"reading", "docs", 999, 1000, 1}).substr(0, 13), "reading: 99 %");
  EXPECT_EQ(
      progress_bar({"reading", "docs", 5, 10, 1}, 100),
      "[###############---------------] reading: 50 %, 5 of 10 docs, 5.00 docs/s, 1.0 s left");
  for (const int width : {20, 40, 60, 80, 200}) {
    EXPECT_LT(progress_bar({"reading", "docs", 5, 10, 1}, width).size(), size_t(width));
  }
  EXPECT_EQ(progress_bar({"signatures", "B", 45 << 20, 72 << 20, 10}, 45),
            "signatures: 62 %, 4.5 MiB/s, 6.0 s left");
  EXPECT_EQ(progress_summary({"reading", "docs", 3000, 3000, 6}),
            "reading: 3,000 docs in 6.0 s, 500 docs/s");
  EXPECT_EQ(human_seconds(59.94), "59.9 s");
  EXPECT_EQ(human_seconds(185), "3:05");
  EXPECT_EQ(human_seconds(7200), "2:00:00");
}

const auto work_for_a_while = [] {
  Progress progress("reading", 30, "docs");
  for (int i = 0; i < 30; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    progress.add();
    if (i == 20) log_info("a line");
  }
};

TEST(Progress, IsALiveLineOnATerminalOnly) {
  std::string text;
  const double seconds = seconds_of([&] { text = terminal_output(work_for_a_while); });
  size_t redraws = 0;
  for (size_t at = 0; (at = text.find("\r\x1b[K[", at)) != text.npos; ++at) ++redraws;
  EXPECT_GE(redraws, 1u);
  EXPECT_LE(static_cast<double>(redraws), 10 * seconds + 1);
  EXPECT_NE(text.find("\r\x1b[Ka line\r\n["), text.npos) << text;  // the bar moves below the line
  EXPECT_NE(text.find("\r\x1b[Kreading: 30 docs in "), text.npos) << text;
  EXPECT_EQ(plain_output(work_for_a_while), "a line\n");
  set_log_level(LogLevel::warning);
  EXPECT_EQ(terminal_output(work_for_a_while), "");
  set_log_level(LogLevel::info);
}

// In a process of its own, for a signal cannot be taken back. Gives the exit code.
int exit_code_of_child(FunctionRef<int()> child) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(child());
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

TEST(Signals, TheFirstAsksToStop) {
  for (const int signal : {SIGINT, SIGTERM}) {
    EXPECT_EQ(exit_code_of_child([&] {
                install_signal_handlers();
                stop_if_interrupted();
                if (interrupted()) return 1;
                ::raise(signal);
                if (!interrupted()) return 2;
                return error_of([] { stop_if_interrupted(); }).fault() == Fault::interrupted ? 0
                                                                                             : 3;
              }),
              0);
  }
}

// A file over the limit on its size is told as a full disk is.
TEST(Signals, NoneEndsAWriteThatIsTooLong) {
  const Scratch scratch;
  EXPECT_EQ(exit_code_of_child([&] {
              install_signal_handlers();
              const rlimit limit = {1000, 1000};
              ::setrlimit(RLIMIT_FSIZE, &limit);
              const std::string text(2000, 'a');
              return error_of([&] { write_file(scratch / "a", text); }).fault() == Fault::data ? 0
                                                                                               : 1;
            }),
            0);
}

TEST(Signals, TheSecondEndsAtOnce) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer knows no fork of a process with several threads";
#endif
  EXPECT_EQ(exit_code_of_child([] {
              install_signal_handlers();
              ::raise(SIGINT);
              std::this_thread::sleep_for(std::chrono::milliseconds(150));
              ::raise(SIGINT);
              return 1;
            }),
            130);
}

// As supervisors send it, to the process and to its group.
TEST(Signals, OneRequestMayComeMoreThanOnce) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer knows no fork of a process with several threads";
#endif
  for (const int signal : {SIGINT, SIGTERM}) {
    EXPECT_EQ(exit_code_of_child([&] {
                install_signal_handlers();
                for (int i = 0; i < 3; ++i) ::raise(signal);
                if (!interrupted()) return 1;
                // One that was forgotten is no first one.
                if (take_interrupt() != (signal == SIGINT)) return 2;
                std::this_thread::sleep_for(std::chrono::milliseconds(150));
                if (signal == SIGINT) ::raise(signal);
                return interrupted() ? 0 : 3;
              }),
              0);
  }
}

TEST(Signals, ABlockedReadReturns) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer knows no fork of a process with several threads";
#endif
  EXPECT_EQ(exit_code_of_child([] {
              install_signal_handlers();
              int ends[2];
              if (::pipe(ends) != 0) return 1;
              ::alarm(20);
              const pid_t self = ::getpid();
              std::thread([self] {
                std::this_thread::sleep_for(std::chrono::milliseconds(50));
                ::kill(self, SIGINT);
              }).detach();
              char byte = 0;
              return ::read(ends[0], &byte, 1) == -1 && interrupted() ? 0 : 2;
            }),
            0);
}

}  // namespace
}  // namespace tephra

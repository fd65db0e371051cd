// SPDX-License-Identifier: Apache-2.0
#include "tephra/eval/answer_journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "tephra/base/clock.h"
#include "tephra/base/error.h"
#include "tephra/base/hash.h"
#include "tephra/base/log.h"
#include "tephra/base/text.h"

namespace tephra {
namespace {

constexpr const char* kJournalFormat = "tephra-answers";
constexpr double kFlushSeconds = 1, kFlushAgainSeconds = 60;

// Whether the open file is still the one of that name: its writer may just have removed it.
bool is_at(int fd, const Path& path) {
  struct stat open_one = {}, named = {};
  return ::fstat(fd, &open_one) == 0 && ::stat(path.c_str(), &named) == 0 &&
         open_one.st_dev == named.st_dev && open_one.st_ino == named.st_ino;
}

// "seed was 5 and is 6, questions", or nothing where all are the same.
std::string differences(const Json& before, const Json& now) {
  std::string all;
  const auto told = [](const Json* value) {
    return value && !value->is_null() ? clipped(value->dump(), 40) : "not given";
  };
  const auto look_at = [&](const std::string& name) {
    const Json *a = before.find(name), *b = now.find(name);
    if (a && b && a->dump() == b->dump()) return;
    all += format("{}{} was {} and is {}", all.empty() ? "" : ", ", name, told(a), told(b));
  };
  for (const auto& [name, value] : now.object()) look_at(name);
  for (const auto& [name, value] : before.object()) {
    if (!now.find(name)) look_at(name);
  }
  return all;
}

// Weights of another training differ nearly everywhere, so a block of each MiB tells them apart,
// and 16 GB of them take 16,000 short reads. What is small is read whole.
std::string mark_of_content(const Path& path) {
  constexpr int64_t kWhole = int64_t{8} << 20, kEvery = int64_t{1} << 20, kBlock = 4096;
  const FileReader reader(path);
  const int64_t size = reader.size();
  const int64_t block = size <= kWhole ? kEvery : kBlock;
  std::vector<std::byte> bytes(static_cast<size_t>(block));
  Xxh3 hash;
  const auto add = [&](int64_t begin, int64_t end) {
    const auto part = std::span(bytes).first(static_cast<size_t>(end - begin));
    reader.read(begin, part);
    hash.add(part);
  };
  for (int64_t at = 0; at < size; at += kEvery) add(at, std::min(at + block, size));
  add(std::max<int64_t>(0, size - kBlock), size);
  return format("{} {}", size, hash_text(hash.value()));
}

}  // namespace

std::string mark_of_model(const Path& folder) {
  std::vector<Path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string kind = entry.path().extension().string();
    const bool of_model = kind == ".json" || kind == ".safetensors" || kind == ".jinja";
    if (of_model && entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::string text;
  for (const Path& file : files) {
    text += format("{} {}\n", file.filename().string(), mark_of_content(file));
  }
  return hash_text(xxh3(text));
}

// Makes the file where it is missing.
AnswerJournal::FileLock::FileLock(const Path& path) {
  for (;;) {
    fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) {
      throw Error(Fault::usage,
                  format("{}: cannot be written: {}", path.string(), std::strerror(errno)));
    }
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      ::close(std::exchange(fd, -1));
      throw Error(Fault::usage, format("{}: another process writes it", path.string()),
                  "wait until it has ended, or give another --out");
    }
    if (is_at(fd, path)) return;
    ::close(fd);
  }
}

AnswerJournal::FileLock::~FileLock() {
  if (fd >= 0) ::close(fd);
}

AnswerJournal::AnswerJournal(const Path& path, const Json& settings, bool overwrite)
    : path_(path), lock_(path) {
  Left left = read();
  const Json* before = left.head ? left.head->find("settings") : nullptr;
  const std::string other = before && before->is_object() ? differences(*before, settings) : "";
  if (!other.empty() && !left.answers.empty() && !overwrite) {
    throw Error(
        Fault::usage,
        format("{}: of a run with other settings, which has not ended: {}", path.string(), other),
        "repeat its command to go on with it, give --overwrite to begin anew, or give another "
        "--out");
  }
  if (!other.empty()) left = {};
  file_.emplace(path, left.bytes);
  found_ = std::move(left.answers);
  if (!left.head) write_head(Json::Object{{"format", kJournalFormat}, {"settings", settings}});
}

AnswerJournal::~AnswerJournal() {
  std::error_code ignored;
  if (size() == 0) std::filesystem::remove(path_, ignored);
}

// Whole lines from the beginning on. What follows the first that is not whole was being written
// when the run was killed or the power went.
AnswerJournal::Left AnswerJournal::read() const {
  Left left;
  const std::string text = read_file(path_, int64_t{1} << 40);
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    try {
      Json line = Json::parse(std::string_view(text).substr(begin, end - begin), path_.string());
      if (left.head) {
        left.answers.push_back(std::move(line));
      } else {
        const Json* kind = line.is_object() ? line.find("format") : nullptr;
        if (!kind || !kind->is_string() || kind->string() != kJournalFormat) break;
        left.head = std::move(line);
      }
    } catch (const Error&) {
      break;
    }
  }
  left.bytes = static_cast<int64_t>(begin);
  const size_t lost = text.size() - begin;
  const std::string opening = format("{{\"format\":\"{}\"", kJournalFormat);
  require(left.head || opening.starts_with(std::string_view(text).substr(0, opening.size())),
          "{}: was not written by this command; remove it, or give another --out", path_.string());
  if (lost > 0 && left.head) {
    log_info("{}: the last {} bytes are of an answer that was not written to its end",
             path_.string(), lost);
  }
  return left;
}

void AnswerJournal::write_head(const Json& head) {
  file_->append(head.dump() + "\n");
  flush_now_and_then();
  flush_folder(std::filesystem::absolute(path_).parent_path());
}

void AnswerJournal::add(const Json& answer) {
  file_->append(answer.dump() + "\n");
  ++added_;
  flush_now_and_then();
}

// Answers may be many a second, and each flush takes milliseconds.
void AnswerJournal::flush_now_and_then() {
  if (steady_seconds() < next_flush_) return;
  next_flush_ = steady_seconds() + kFlushSeconds;
  try {
    file_->flush();
  } catch (const Error& error) {  // the run goes on, and so may the disk
    log_warning("{}", error.what());
    next_flush_ = steady_seconds() + kFlushAgainSeconds;
  }
}

void AnswerJournal::remove() { std::filesystem::remove(path_); }

}  // namespace tephra

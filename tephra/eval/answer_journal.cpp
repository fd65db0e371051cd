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
#include "tephra/base/temporary_name.h"
#include "tephra/base/text.h"
#include "tephra/data/corpus/journal.h"

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

constexpr const char* kLineHint =
    "remove that line: what it answered is then answered again; or give --overwrite to begin anew";
constexpr const char* kHeadHint =
    "which run the answers are of is not known: give --overwrite to begin anew, or another --out";

Json read_line(std::string_view line, const std::string& where, const char* hint) {
  const std::optional<std::string_view> text = checked_line(line);
  if (!text) throw Error(Fault::data, format("{}: is damaged: its hash is another", where), hint);
  return Json::parse(*text, where);
}

Error not_ours(const std::string& path) {
  return {Fault::usage,
          format("{}: was not written by this command; remove it, or give another --out", path)};
}

bool may_be_cut_head(std::string_view text) {
  const std::string opening = format(" {{\"format\":\"{}\"", kJournalFormat);
  const std::string_view hash = text.substr(0, 16), rest = text.substr(hash.size());
  return hash.find_first_not_of("0123456789abcdef") == std::string_view::npos &&
         opening.starts_with(rest.substr(0, opening.size()));
}

bool begins_with_head(std::string_view text) {
  const size_t end = text.find('\n');
  if (end == std::string_view::npos) return may_be_cut_head(text);
  return text.substr(0, end).find(kJournalFormat) != std::string_view::npos;
}

// Whether some of its lines are a journal's, though the first is not; or whether it is all zeros,
// as a power cut may leave one.
bool has_lost_its_head(std::string_view text) {
  for (const std::string_view line : split(text, '\n')) {
    if (checked_line(line)) return true;
  }
  return !text.empty() && text.find_first_not_of('\0') == std::string_view::npos;
}

Json read_head(std::string_view line, const std::string& path) {
  Json head = read_line(line, path + ":1", kHeadHint);
  const Json* settings = head.is_object() ? head.find("settings") : nullptr;
  if (settings && settings->is_object()) return head;
  throw Error(Fault::data, format("{}:1: has no settings", path), kHeadHint);
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

void remove_unnamed(const Path& file) {
  const Path folder = std::filesystem::absolute(file).parent_path();
  std::error_code ignored;  // they only take room
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (is_temporary_name(entry.path().filename().string(), file.filename().string())) {
      std::filesystem::remove(entry.path(), ignored);
    }
  }
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

AnswerJournal::AnswerJournal(const Path& path, const Json& settings, bool overwrite,
                             const std::function<void()>& check_results)
    : path_(path),
      lock_(path),
      overwrite_(overwrite),
      head_(Json::Object{{"format", kJournalFormat}, {"settings", settings}}) {
  Left left = left_by_others();
  const std::string other =
      left.head ? differences(*left.head->find("settings"), settings) : std::string();
  if (!other.empty() && !left.answers.empty() && !overwrite) {
    throw Error(
        Fault::usage,
        format("{}: of a run with other settings, which has not ended: {}", path.string(), other),
        "repeat its command to go on with it, give --overwrite to begin anew, or give another "
        "--out");
  }
  if (!other.empty()) left = {};
  if (left.answers.empty() && !overwrite && check_results) begin_only_if(check_results);
  begin_with(std::move(left));
  flush_folder(std::filesystem::absolute(path_).parent_path());
}

AnswerJournal::~AnswerJournal() {
  std::error_code ignored;
  if (!file_holds_answers_) std::filesystem::remove(path_, ignored);
}

void AnswerJournal::begin_only_if(const std::function<void()>& allowed) const {
  try {
    allowed();
  } catch (const Error&) {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);  // it holds no answer
    throw;
  }
}

void AnswerJournal::begin_with(Left left) {
  kept_bytes_ = left.bytes;
  found_ = std::move(left.answers);
  size_ = std::ssize(found_);
}

bool AnswerJournal::may_begin_anew(const Error& error) const {
  if (!overwrite_ || error.fault() != Fault::data) return false;
  log_warning("{}; it is begun anew", error.what());
  return true;
}

AnswerJournal::Left AnswerJournal::left_by_others() {
  try {
    Left left = read();
    file_holds_answers_ = !left.answers.empty();
    return left;
  } catch (const Error& error) {
    if (!may_begin_anew(error)) throw;
    return {};
  }
}

// Every whole line must be as it was written. What follows the last newline was being written when
// the run was killed or the power went.
AnswerJournal::Left AnswerJournal::read() const {
  Left left;
  const std::string text = read_file(path_, int64_t{1} << 40);
  if (!begins_with_head(text)) {
    if (!has_lost_its_head(text)) throw not_ours(path_.string());
    throw Error(Fault::data, format("{}:1: is not the head of a journal", path_.string()),
                kHeadHint);
  }
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    if (left.head) {
      left.answers.push_back(read_line(line, where(left.answers.size()), kLineHint));
    } else {
      left.head = read_head(line, path_.string());
    }
  }
  left.bytes = static_cast<int64_t>(begin);
  if (left.head && begin < text.size()) {
    log_info("{}: the last {} bytes are of an answer that was not written to its end",
             path_.string(), text.size() - begin);
  }
  return left;
}

std::string AnswerJournal::where(size_t answer) const {
  return format("{}:{}", path_.string(), answer + 2);  // behind the head, from 1 on
}

bool AnswerJournal::take_found(
    const std::function<void(const Json&, const std::string& where)>& take) {
  try {
    for (size_t i = 0; i < found_.size(); ++i) take(std::exchange(found_[i], {}), where(i));
  } catch (const Error& error) {
    if (!may_begin_anew(error)) throw Error(error.fault(), error.what(), kLineHint);
    begin_with({});
    return false;
  }
  found_.clear();
  return true;
}

void AnswerJournal::add(const Json& answer) {
  if (!file_) begin_to_write();
  file_->append(hashed_line(answer.dump()));
  file_holds_answers_ = true;
  ++size_;
  flush_now_and_then();
}

void AnswerJournal::begin_to_write() {
  file_.emplace(path_, kept_bytes_);
  if (kept_bytes_ == 0) file_->append(hashed_line(head_.dump()));
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

int64_t AnswerJournal::unwritten() {
  if (!file_) return 0;
  try {
    file_->flush();
    return 0;
  } catch (const Error&) {  // told by whoever asks
    const std::string text = read_file(path_, int64_t{1} << 40);
    return size_ + 1 - std::max<int64_t>(1, std::count(text.begin(), text.end(), '\n'));
  }
}

void AnswerJournal::remove() { std::filesystem::remove(path_); }

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/corpus/ranks.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <random>

#include "tephra/base/error.h"
#include "tephra/base/hash.h"
#include "tephra/base/json.h"
#include "tephra/base/log.h"
#include "tephra/base/signals.h"

namespace tephra {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr milliseconds kFirstLook{10};  // then ever rarer, up to RankTimes::look
constexpr size_t kHashDigits = 16;

std::optional<int64_t> environment_number(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  int64_t value = 0;
  const char* end = text + std::strlen(text);
  const auto [at, error] = std::from_chars(text, end, value);
  if (error != std::errc() || at != end) return std::nullopt;
  return value;
}

// Of Slurm what srun alone sets: SLURM_NTASKS is there in the batch script, too, which is one
// process.
Shard shard_of_rank() {
  constexpr std::pair<const char*, const char*> kNames[] = {
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
      {"PMI_RANK", "PMI_SIZE"},
      {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}};
  for (const auto& [rank_name, size_name] : kNames) {
    const std::optional<int64_t> rank = environment_number(rank_name),
                                 size = environment_number(size_name);
    if (rank && size && *rank >= 0 && *rank < *size) return {*rank, *size, *size > 1};
  }
  return {};
}

// No other process has the same, nor one of an earlier run.
std::string fresh_token() {
  std::random_device random;
  return format("{:08x}{:08x}", random(), random());
}

Json to_json(const std::vector<std::string>& texts) {
  Json list = Json::Array{};
  for (const std::string& text : texts) list.push_back(text);
  return list;
}

// The whole of it in one call, so that who reads meanwhile nearly always finds one state; the hash
// tells when not. In place, for a file system that is slow to show new names. Where it fails, errno
// says why.
bool write_in_place(const Path& path, const std::string& text, bool create) {
  const int flags = O_WRONLY | O_CLOEXEC | (create ? O_CREAT | O_TRUNC : 0);
  const int fd = ::open(path.c_str(), flags, 0666);
  if (fd < 0) return false;
  const ssize_t written = ::pwrite(fd, text.data(), text.size(), 0);
  const bool whole = written == static_cast<ssize_t>(text.size());
  const int error = written < 0 ? errno : ENOSPC;  // a disk may take a part before it is full
  const bool closed = ::close(fd) == 0;
  if (!whole) errno = error;
  return whole && closed;
}

}  // namespace

Shard parse_shard(std::string_view text) {
  if (text == "auto") return shard_of_rank();
  Shard shard;
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, shard.index);
  bool ok = first.ec == std::errc() && first.ptr != end && *first.ptr == '/';
  if (ok) {
    const auto second = std::from_chars(first.ptr + 1, end, shard.count);
    ok = second.ec == std::errc() && second.ptr == end;
  }
  require(ok && shard.index >= 0 && shard.index < shard.count,
          "--shard: expected I/N with 0 <= I < N, or auto, got '{}'", text);
  return shard;
}

Ranks::Ranks(const Path& folder, const Shard& shard, std::string plan, const RankTimes& times)
    : folder_(folder), shard_(shard), times_(times), exceptions_(std::uncaught_exceptions()) {
  make_writable_folder(folder_);
  own_.token = fresh_token();
  if (first()) {
    own_.plan = std::move(plan);
    own_.tokens.resize(static_cast<size_t>(shard.count));
  }
  {
    const std::lock_guard lock(mutex_);
    write_locked(true);
  }
  beating_ = std::thread([this] { keep_beating(); });
  try {
    find_each_other();
  } catch (...) {
    stop_beating();
    change([](Mark& mark) { mark.state = "failed"; });
    throw;
  }
  met_ = true;
}

Ranks::~Ranks() {
  stop_beating();
  if (std::uncaught_exceptions() > exceptions_) {
    change([](Mark& mark) { mark.state = "failed"; });
  } else if (first()) {
    std::error_code ignored;  // all others have come to their end
    fs::remove_all(folder_, ignored);
  }
}

// A file may be of an earlier run. So the first rank lists the processes that it sees, until each
// has found itself in the list and says so by the first one's token, which no earlier run knew.
void Ranks::find_each_other() {
  if (first()) {
    for (int64_t rank = 1; rank < shard_.count; ++rank) {
      wait_for(rank, "it to begin", [&] {
        list_others();
        return mark_of(rank).seen == own_.token;
      });
    }
    return;
  }
  Mark head;
  wait_for(0, "it to begin", [&] {
    head = mark_of(0);
    const auto own = static_cast<size_t>(shard_.index);
    return own < head.tokens.size() && head.tokens[own] == own_.token;
  });
  change([&](Mark& mark) {
    mark.seen = head.token;
    mark.plan = head.plan;
  });
}

void Ranks::list_others() {
  std::vector<std::string> tokens = own_.tokens;
  for (int64_t rank = 1; rank < shard_.count; ++rank) {
    std::string token = mark_of(rank).token;
    if (!token.empty()) tokens[static_cast<size_t>(rank)] = std::move(token);
  }
  if (tokens != own_.tokens) change([&](Mark& mark) { mark.tokens = tokens; });
}

void Ranks::wait_for(int64_t rank, std::string_view what, FunctionRef<bool()> is_so) {
  std::string last;
  milliseconds waited{0}, same{0}, pause = kFirstLook, say = times_.say;
  while (!is_so()) {
    // Only the time between looks counts: a file system that hangs hangs for all.
    std::string now = read(rank);
    same = now == last ? same + pause : milliseconds{0};
    last = std::move(now);
    const Mark mark = parse(last);
    const bool failed = met_ && mark.state == "failed";
    if (failed || same >= (met_ ? times_.gone : times_.missing)) give_up(rank, what, mark);
    if (waited >= say) {
      say_waiting(rank, what, mark);
      say *= 2;
    }
    stop_if_interrupted();
    std::this_thread::sleep_for(pause);
    waited += pause;
    pause = std::min(times_.look, 2 * pause);
  }
}

void Ranks::say_waiting(int64_t rank, std::string_view what, const Mark& mark) const {
  if (met_ || mark.seen == own_.token) {
    log_info("rank {} of {} waits for rank {}: {}", shard_.index, shard_.count, rank, what);
    return;
  }
  log_warning(
      "rank {} of {} waits for rank {}, which has not begun; `--shard 0/1`, or a start without "
      "mpirun and srun, is for a process that runs alone",
      shard_.index, shard_.count, rank);
}

void Ranks::give_up(int64_t rank, std::string_view what, const Mark& mark) const {
  constexpr const char* kAgain = "the same command goes on from what is done";
  if (!met_) {
    throw Error(Fault::peer, format("rank {} of {} has not come", rank, shard_.count),
                format("all ranks must see {}; `--shard 0/1`, or a start without mpirun and srun, "
                       "is for a process that runs alone",
                       folder_.string()));
  }
  if (mark.state == "failed") {
    throw Error(Fault::peer,
                format("rank {} of {} ended with an error; it was waited for: {}", rank,
                       shard_.count, what),
                format("what went wrong is in its own messages; {}", kAgain));
  }
  throw Error(Fault::peer,
              format("rank {} of {} has shown no sign of life for {} s; it was waited for: {}",
                     rank, shard_.count, times_.gone.count() / 1000, what),
              format("was it killed? {}", kAgain));
}

void Ranks::gather(std::string_view what) {
  const int64_t step = ++steps_;
  if (!first()) return change([&](Mark& mark) { mark.steps = step; });
  for (int64_t rank = 1; rank < shard_.count; ++rank) {
    wait_for(rank, what, [&] { return mark_of(rank).steps >= step; });
  }
}

void Ranks::follow(std::string_view what) {
  const int64_t step = ++steps_;
  if (first()) return change([&](Mark& mark) { mark.steps = step; });
  wait_for(0, what, [&] { return mark_of(0).steps >= step; });
}

Path Ranks::path(int64_t rank) const { return folder_ / format("rank-{}", rank); }

std::string Ranks::read(int64_t rank) const {
  try {
    return read_file(path(rank));
  } catch (const Error&) {  // not there yet, or going
    return {};
  }
}

Ranks::Mark Ranks::parse(const std::string& text) {
  const size_t end = text.find('\n');
  if (end == std::string::npos || end < kHashDigits) return {};
  const std::string_view body = std::string_view(text).substr(kHashDigits, end - kHashDigits);
  if (format("{:016x}", xxh3(body)) != text.substr(0, kHashDigits)) return {};
  const Json json = Json::parse(body, "a rank's file");
  const Fields fields(json, "a rank's file");
  Mark mark;
  mark.token = fields.string("token");
  mark.seen = fields.string("seen");
  for (const Json& token : fields.array("tokens")) mark.tokens.push_back(token.string());
  mark.plan = fields.string("plan");
  mark.state = fields.string("state");
  mark.steps = fields.integer("steps");
  mark.beats = fields.integer("beats");
  return mark;
}

void Ranks::write_locked(bool create) {
  Json json;
  json["token"] = own_.token;
  json["seen"] = own_.seen;
  json["tokens"] = to_json(own_.tokens);
  json["plan"] = own_.plan;
  json["state"] = own_.state;
  json["steps"] = own_.steps;
  json["beats"] = own_.beats;
  const std::string body = json.dump();
  std::string text = format("{:016x}{}\n", xxh3(body), body);
  if (text.size() < written_) text.resize(written_, ' ');
  written_ = text.size();
  const bool ok = write_in_place(path(shard_.index), text, create);
  require_data(ok || !create, "{}: cannot be written: {}", path(shard_.index).string(),
               std::strerror(errno));
}

void Ranks::change(FunctionRef<void(Mark&)> edit) {
  const std::lock_guard lock(mutex_);
  edit(own_);
  write_locked(false);
}

void Ranks::keep_beating() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, times_.beat, [this] { return stopping_; })) {
    ++own_.beats;
    write_locked(false);
  }
}

void Ranks::stop_beating() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (beating_.joinable()) beating_.join();
}

}  // namespace tephra

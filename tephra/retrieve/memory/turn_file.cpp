// SPDX-License-Identifier: Apache-2.0
#include "tephra/retrieve/memory/turn_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "tephra/base/error.h"
#include "tephra/base/hash.h"
#include "tephra/base/log.h"

namespace tephra {
namespace {

static_assert(std::endian::native == std::endian::little, "the file's numbers are little-endian");

constexpr std::string_view kMagic = "TEPHMEM\n";
constexpr uint32_t kVersion = 1;
constexpr size_t kHeaderBytes = 16;      // magic, version, hash
constexpr size_t kRecordHeadBytes = 24;  // payload bytes, rows, hash of the head, of the payload
constexpr size_t kRowBytes = 8 + 4 + 2 + 4;  // time, session, bytes of the name and of the text
constexpr uint32_t kMaxPayload = 1u << 30;
constexpr int kLockTries = 50;
constexpr useconds_t kLockWait = 100'000;

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
T get(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

std::string header() {
  std::string out(kMagic);
  put(out, kVersion);
  put(out, static_cast<uint32_t>(xxh3(out)));
  return out;
}

// Bound to its place, so that a record that was moved or doubled is found out.
uint64_t head_hash(uint64_t offset, uint32_t bytes, uint32_t rows) {
  std::string head;
  put(head, offset);
  put(head, bytes);
  put(head, rows);
  return xxh3(head);
}

void check_header(std::span<const std::byte> file, const std::string& where) {
  const std::string_view start(reinterpret_cast<const char*>(file.data()), file.size());
  require_data(start.starts_with(kMagic),
               "{}: is no memory file: expected it to begin with TEPHMEM; "
               "`tephra memory add` makes one",
               where);
  const auto version = get<uint32_t>(file.data() + kMagic.size());
  const auto hash = get<uint32_t>(file.data() + kMagic.size() + 4);
  require_data(hash == static_cast<uint32_t>(xxh3(start.substr(0, kMagic.size() + 4))),
               "{}: is corrupted: the hash of its header does not fit; restore it from a copy",
               where);
  require_data(
      version == kVersion,
      "{}: is from another version: expected format {}, got {}; use the tephra that wrote it",
      where, kVersion, version);
}

bool all_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

struct Head {
  uint32_t bytes;
  uint32_t rows;
  uint64_t hash;
};

[[noreturn]] void corrupted(const std::string& where, int64_t offset, int64_t rows,
                            const std::string& what) {
  throw Error(Fault::data,
              format("{}: is corrupted in the record at byte {} (after {} turns): {}", where,
                     offset, rows, what),
              "restore it from a copy, or keep the turns before it: tephra memory check FILE "
              "--rescue NEW_FILE");
}

// The turns of one payload, whose hash was found right.
void read_payload(std::span<const std::byte> payload, uint32_t rows, const std::string& where,
                  int64_t offset, TurnTable& table) {
  const std::byte* times = payload.data();
  const std::byte* sessions = times + size_t{8} * rows;
  const std::byte* name_sizes = sessions + size_t{4} * rows;
  const std::byte* text_sizes = name_sizes + size_t{2} * rows;
  uint64_t names = 0, texts = 0;
  for (size_t i = 0; i < rows; ++i) {
    names += get<uint16_t>(name_sizes + 2 * i);
    texts += get<uint32_t>(text_sizes + 4 * i);
  }
  if (kRowBytes * rows + names + texts != payload.size()) {
    corrupted(where, offset, table.rows(), "its sizes do not add up");
  }
  const char* name = reinterpret_cast<const char*>(payload.data() + kRowBytes * rows);
  const char* text = name + names;
  for (size_t i = 0; i < rows; ++i) {
    const size_t name_size = get<uint16_t>(name_sizes + 2 * i);
    const size_t text_size = get<uint32_t>(text_sizes + 4 * i);
    const Turn turn{get<int64_t>(times + 8 * i), get<int32_t>(sessions + 4 * i),
                    std::string(name, name_size), std::string(text, text_size)};
    if (const auto problem = table.problem_with(turn)) {
      corrupted(where, offset, table.rows(), *problem);
    }
    table.append(turn);
    name += name_size;
    text += text_size;
  }
}

std::string payload_of(std::span<const Turn> turns) {
  std::string out;
  for (const Turn& t : turns) put(out, t.time);
  for (const Turn& t : turns) put(out, t.session);
  for (const Turn& t : turns) put(out, static_cast<uint16_t>(t.speaker.size()));
  for (const Turn& t : turns) put(out, static_cast<uint32_t>(t.text.size()));
  for (const Turn& t : turns) out += t.speaker;
  for (const Turn& t : turns) out += t.text;
  return out;
}

}  // namespace

TurnFileState read_turns(std::span<const std::byte> file, const std::string& where,
                         TurnTable& table) {
  // A crash may leave a new file empty, or with a part of its header.
  const std::string whole = header();
  if (file.empty() ||
      (file.size() < kHeaderBytes && std::memcmp(whole.data(), file.data(), file.size()) == 0)) {
    return {.torn_bytes = static_cast<int64_t>(file.size())};
  }
  require_data(file.size() >= kHeaderBytes, "{}: is no memory file: it has {} bytes", where,
               file.size());
  check_header(file, where);
  TurnFileState state{.good_bytes = kHeaderBytes};
  for (size_t at = kHeaderBytes; at < file.size();) {
    const std::span<const std::byte> rest = file.subspan(at);
    state.torn_bytes = static_cast<int64_t>(rest.size());
    if (rest.size() < kRecordHeadBytes || all_zero(rest)) break;
    const Head head{get<uint32_t>(rest.data()), get<uint32_t>(rest.data() + 4),
                    get<uint64_t>(rest.data() + 8)};
    if (head.hash != head_hash(at, head.bytes, head.rows)) {
      corrupted(where, state.good_bytes, table.rows(), "the hash of its head does not fit");
    }
    if (head.rows == 0 || head.bytes > kMaxPayload || head.bytes / kRowBytes < head.rows) {
      corrupted(where, state.good_bytes, table.rows(), "its sizes make no sense");
    }
    if (rest.size() - kRecordHeadBytes < head.bytes) break;
    const std::span<const std::byte> payload = rest.subspan(kRecordHeadBytes, head.bytes);
    if (get<uint64_t>(rest.data() + 16) != xxh3(payload)) {
      corrupted(where, state.good_bytes, table.rows(), "the hash of its turns does not fit");
    }
    read_payload(payload, head.rows, where, state.good_bytes, table);
    at += kRecordHeadBytes + head.bytes;
    state.good_bytes = static_cast<int64_t>(at);
    state.torn_bytes = 0;
    ++state.records;
  }
  return state;
}

TurnWriter::TurnWriter(const Path& path, TurnTable& table) : path_(path) {
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0) {
    throw Error(Fault::usage,
                format("{}: cannot be written: {}", path.string(), std::strerror(errno)));
  }
  try {
    lock();
    const std::shared_ptr<MappedFile> file = MappedFile::open(path);
    state_ = read_turns(file->bytes(), path.string(), table);
    if (state_.torn_bytes > 0 && state_.good_bytes > 0) {
      log_warning("{}: left out {} bytes at its end, of a turn that was never acknowledged",
                  path.string(), state_.torn_bytes);
    }
    if (::ftruncate(fd_, state_.good_bytes) != 0) fail("cutting off an unfinished record", errno);
    state_.torn_bytes = 0;
    if (state_.good_bytes == 0) {
      write_at_end(header());
      flush_folder(path.has_parent_path() ? path.parent_path() : Path("."));
    }
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

TurnWriter::~TurnWriter() { ::close(fd_); }

void TurnWriter::lock() {
  for (int i = 0; i < kLockTries; ++i) {
    if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) return;
    if (errno != EWOULDBLOCK && errno != EINTR) fail("locking", errno);
    ::usleep(kLockWait);
  }
  throw Error(Fault::usage, format("{}: another process is writing to it", path_.string()),
              "let that process add the turn, or stop it");
}

void TurnWriter::fail(const char* what, int error) {
  throw Error(Fault::data, format("{}: {} failed: {}; nothing was added", path_.string(), what,
                                  std::strerror(error)));
}

void TurnWriter::write_at_end(std::string_view bytes) {
  int64_t at = state_.good_bytes;
  int error = 0;
  for (std::string_view rest = bytes; !rest.empty() && error == 0;) {
    const ssize_t put = ::pwrite(fd_, rest.data(), rest.size(), at);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      error = errno;
    } else {
      at += put;
      rest.remove_prefix(static_cast<size_t>(put));
    }
  }
  if (error == 0 && ::fdatasync(fd_) != 0 && errno != EINVAL) error = errno;
  if (error != 0) {
    broken_ = ::ftruncate(fd_, state_.good_bytes) != 0;
    fail("writing", error);
  }
  state_.good_bytes = at;
}

void TurnWriter::append(std::span<const Turn> turns) {
  if (turns.empty()) return;
  require_data(!broken_, "{}: an earlier write failed halfway; open it again", path_.string());
  const std::string payload = payload_of(turns);
  require(payload.size() <= kMaxPayload, "{}: expected at most {} bytes of turns at once, got {}",
          path_.string(), kMaxPayload, payload.size());
  const auto bytes = static_cast<uint32_t>(payload.size());
  const auto rows = static_cast<uint32_t>(turns.size());
  std::string record;
  record.reserve(kRecordHeadBytes + payload.size());
  put(record, bytes);
  put(record, rows);
  put(record, head_hash(static_cast<uint64_t>(state_.good_bytes), bytes, rows));
  put(record, xxh3(payload));
  record += payload;
  write_at_end(record);
  ++state_.records;
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// The encodings: protocol buffers give each field a tag, (number << 3) | wire type, and write
// numbers as varints, fixed little-endian words, or bytes behind their length.
#include "tephra/train/event_file.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstring>

#include "tephra/base/error.h"
#include "tephra/base/host_name.h"

namespace tephra {
namespace {

enum Wire : uint64_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

// Field numbers of tensorflow's event.proto and summary.proto.
namespace event {
constexpr uint64_t kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
}
namespace summary {
constexpr uint64_t kValue = 1;
constexpr uint64_t kTag = 1, kSimpleValue = 2;  // of a value
}  // namespace summary
namespace session_log {
constexpr uint64_t kStatus = 1;
constexpr uint64_t kStart = 1;
}  // namespace session_log

constexpr uint32_t kMaskDelta = 0xa282ead8;

template <class T>
void put_fixed(std::string& out, T value) {
  static_assert(std::endian::native == std::endian::little);
  char raw[sizeof value];
  std::memcpy(raw, &value, sizeof value);
  out.append(raw, sizeof raw);
}

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void put_tag(std::string& out, uint64_t field, Wire wire) { put_varint(out, field << 3 | wire); }

void put_bytes(std::string& out, uint64_t field, std::string_view value) {
  put_tag(out, field, Wire::bytes);
  put_varint(out, value.size());
  out += value;
}

std::string event_head(double wall_time, int64_t step) {
  std::string out;
  put_tag(out, event::kWallTime, Wire::fixed64);
  put_fixed(out, wall_time);
  put_tag(out, event::kStep, Wire::varint);
  put_varint(out, static_cast<uint64_t>(step));
  return out;
}

// The Castagnoli polynomial, bits reversed.
constexpr std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    table[i] = crc;
  }
  return table;
}

uint32_t masked_crc(std::string_view data) { return std::rotr(crc32c(data), 15) + kMaskDelta; }

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// TensorBoard reads the files of a folder in the order of their names, so the time comes first.
Path new_name(const Path& folder) {
  static std::atomic<int> counter{0};
  make_writable_folder(folder);
  return folder / format("events.out.tfevents.{:010}.{}.{}.{}", static_cast<int64_t>(now()),
                         host_name(), ::getpid(), counter.fetch_add(1));
}

}  // namespace

uint32_t crc32c(std::string_view data) {
  static constexpr auto kTable = crc_table();
  uint32_t crc = ~0u;
  for (const char c : data) crc = crc >> 8 ^ kTable[(crc ^ static_cast<uint8_t>(c)) & 0xff];
  return ~crc;
}

std::string tfrecord(std::string_view data) {
  std::string out;
  put_fixed(out, uint64_t{data.size()});
  put_fixed(out, masked_crc(out));
  out += data;
  put_fixed(out, masked_crc(data));
  return out;
}

std::string version_event(double wall_time) {
  std::string out;
  put_tag(out, event::kWallTime, Wire::fixed64);
  put_fixed(out, wall_time);
  put_bytes(out, event::kFileVersion, "brain.Event:2");
  return out;
}

std::string start_event(double wall_time, int64_t step) {
  std::string log;
  put_tag(log, session_log::kStatus, Wire::varint);
  put_varint(log, session_log::kStart);
  std::string out = event_head(wall_time, step);
  put_bytes(out, event::kSessionLog, log);
  return out;
}

std::string scalars_event(double wall_time, int64_t step, std::span<const Scalar> scalars) {
  std::string values;
  for (const auto& [tag, value] : scalars) {
    std::string one;
    put_bytes(one, summary::kTag, tag);
    put_tag(one, summary::kSimpleValue, Wire::fixed32);
    put_fixed(one, static_cast<float>(value));
    put_bytes(values, summary::kValue, one);
  }
  std::string out = event_head(wall_time, step);
  put_bytes(out, event::kSummary, values);
  return out;
}

EventFile::EventFile(const Path& folder, int64_t first_step) : file_(new_name(folder), 0) {
  file_.append(tfrecord(version_event(now())));
  if (first_step > 0) file_.append(tfrecord(start_event(now(), first_step)));
}

void EventFile::add(int64_t step, std::span<const Scalar> scalars) {
  file_.append(tfrecord(scalars_event(now(), step, scalars)));
}

void EventFile::flush() { file_.flush(); }

}  // namespace tephra

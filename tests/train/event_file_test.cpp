// SPDX-License-Identifier: Apache-2.0
// Event files, read back by a decoder that shares nothing with the encoder: its checksum goes bit
// by bit, and it walks the wire format without knowing the messages.
#include "tephra/train/event_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "tephra/base/error.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

uint32_t crc_bit_by_bit(std::string_view bytes) {
  uint32_t crc = 0xffffffff;
  for (const char c : bytes) {
    for (int bit = 0; bit < 8; ++bit) {
      const bool feedback =
          ((crc ^ static_cast<uint32_t>(static_cast<uint8_t>(c) >> bit)) & 1) != 0;
      crc = (crc >> 1) ^ (feedback ? 0x82f63b78u : 0u);
    }
  }
  return crc ^ 0xffffffff;
}

uint32_t unmasked(uint32_t masked) {
  const uint32_t rotated = masked - 0xa282ead8u;
  return (rotated >> 17) | (rotated << 15);
}

template <class T>
T take(std::string_view& from) {
  T value;
  if (from.size() < sizeof value) throw Error(Fault::data, "cut short");
  std::memcpy(&value, from.data(), sizeof value);
  from.remove_prefix(sizeof value);
  return value;
}

// The records of a file; throws where a checksum is wrong.
std::vector<std::string> records_of(std::string_view file) {
  std::vector<std::string> records;
  while (!file.empty()) {
    const std::string_view head = file.substr(0, 8);
    const auto length = take<uint64_t>(file);
    if (unmasked(take<uint32_t>(file)) != crc_bit_by_bit(head)) {
      throw Error(Fault::data, "checksum of the length");
    }
    const std::string_view data = file.substr(0, length);
    file.remove_prefix(length);
    if (unmasked(take<uint32_t>(file)) != crc_bit_by_bit(data)) {
      throw Error(Fault::data, "checksum of the data");
    }
    records.emplace_back(data);
  }
  return records;
}

uint64_t take_varint(std::string_view& from) {
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = take<uint8_t>(from);
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
}

// The fields of a message: numbers as they are, fixed words as their bits, messages as bytes.
struct Message {
  std::multimap<uint64_t, uint64_t> numbers;
  std::multimap<uint64_t, std::string> parts;

  explicit Message(std::string_view bytes) {
    while (!bytes.empty()) {
      const uint64_t tag = take_varint(bytes);
      switch (tag & 7) {
        case 0:
          numbers.emplace(tag >> 3, take_varint(bytes));
          break;
        case 1:
          numbers.emplace(tag >> 3, take<uint64_t>(bytes));
          break;
        case 2: {
          const uint64_t length = take_varint(bytes);
          parts.emplace(tag >> 3, bytes.substr(0, length));
          bytes.remove_prefix(length);
          break;
        }
        case 5:
          numbers.emplace(tag >> 3, take<uint32_t>(bytes));
          break;
        default:
          throw Error(Fault::data, "wire type");
      }
    }
  }
  uint64_t number(uint64_t field) const { return numbers.find(field)->second; }
  const std::string& part(uint64_t field) const { return parts.find(field)->second; }
};

template <class To, class From>
To bits_as(From from) {
  To to;
  static_assert(sizeof to == sizeof from);
  std::memcpy(&to, &from, sizeof to);
  return to;
}

// Known answers of RFC 3720, appendix B.4.
TEST(Crc32c, GivesThePublishedValues) {
  std::string up, down;
  for (int i = 0; i < 32; ++i) {
    up += static_cast<char>(i);
    down += static_cast<char>(31 - i);
  }
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(crc32c(up), 0x46dd794eu);
  EXPECT_EQ(crc32c(down), 0x113fdb5cu);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(""), 0u);
}

TEST(EventFile, EncodesEventsByteForByte) {
  const auto raw = [](std::initializer_list<int> bytes) {
    std::string text;
    for (int byte : bytes) text += static_cast<char>(byte);
    return text;
  };
  // wall_time 1.5 is 0x3ff8000000000000; step 300 is the varint ac 02; 0.25f is 0x3e800000.
  EXPECT_EQ(version_event(1.5),
            raw({0x09, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f, 0x1a, 13}) + "brain.Event:2");
  EXPECT_EQ(start_event(1.5, 300),
            raw({0x09, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f, 0x10, 0xac, 0x02, 0x3a, 2, 0x08, 1}));
  const Scalar loss[] = {{"loss", 0.25}};
  EXPECT_EQ(scalars_event(1.5, 300, loss), raw({0x09, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f, 0x10, 0xac,
                                                0x02, 0x2a, 13, 0x0a, 11, 0x0a, 4}) +
                                               "loss" + raw({0x15, 0, 0, 0x80, 0x3e}));
}

TEST(EventFile, HasFramedRecordsWithMaskedChecksums) {
  const std::string record = tfrecord("tephra");
  ASSERT_EQ(record.size(), 8u + 4 + 6 + 4);
  EXPECT_EQ(record.substr(0, 8), std::string("\6\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(record.substr(12, 6), "tephra");
  EXPECT_EQ(records_of(record + tfrecord("")), (std::vector<std::string>{"tephra", ""}));
  for (size_t i = 8; i < record.size(); ++i) {
    std::string wrong = record;
    wrong[i] = static_cast<char>(wrong[i] ^ 1);
    EXPECT_THROW(records_of(wrong), Error) << i;
  }
}

TEST(EventFile, CanBeReadWhileItIsWritten) {
  const Scratch run;
  EventFile file(run / "tensorboard", 0);
  const Scalar first[] = {{"train/loss", 2.5}, {"train/lr", 1e-3}};
  file.add(1, first);
  const auto records = records_of(read_file(file.path()));
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(Message(records[0]).part(3), "brain.Event:2");
  const Message event(records[1]);
  EXPECT_EQ(event.number(2), 1u);
  EXPECT_GT(bits_as<double>(event.number(1)), 1.6e9);
  std::map<std::string, float> scalars;
  const Message summary(event.part(5));
  for (auto [at, end] = summary.parts.equal_range(1); at != end; ++at) {
    const Message value(at->second);
    scalars[value.part(1)] = bits_as<float>(static_cast<uint32_t>(value.number(2)));
  }
  EXPECT_EQ(scalars, (std::map<std::string, float>{{"train/loss", 2.5f}, {"train/lr", 1e-3f}}));
  EXPECT_TRUE(file.path().filename().string().starts_with("events.out.tfevents."));
}

TEST(EventFile, OfAResumedRunTellsWhatToForget) {
  const Scratch run;
  const EventFile first(run / "tensorboard", 0);
  const EventFile second(run / "tensorboard", 41);
  EXPECT_NE(first.path(), second.path());
  EXPECT_EQ(records_of(read_file(first.path())).size(), 1u);
  const auto records = records_of(read_file(second.path()));
  ASSERT_EQ(records.size(), 2u);
  const Message start(records[1]);
  EXPECT_EQ(start.number(2), 41u);
  EXPECT_EQ(Message(start.part(7)).number(1), 1u);  // SessionLog.START
}

}  // namespace
}  // namespace tephra

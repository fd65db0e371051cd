// SPDX-License-Identifier: Apache-2.0
// Files made to do harm: each is refused with a message that says what is wrong.
#include <gtest/gtest.h>

#include <fstream>

#include "tephra/io/safetensors.h"
#include "tests/support/error_of.h"
#include "tests/support/raw_safetensors.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

struct HostileFile {
  std::string bytes;
  std::string message;  // after the path
};

// One tensor 'x' with these fields, over `data_bytes` bytes of data.
HostileFile with_fields(const std::string& fields, size_t data_bytes, const std::string& message) {
  return {raw_safetensors("{\"x\":" + fields + "}", std::string(data_bytes, '\0')),
          ": tensor 'x': " + message};
}

HostileFile with_header(const std::string& header, const std::string& message) {
  return {raw_safetensors(header, ""), message};
}

std::string u8_entry(int64_t begin, int64_t end) {
  return format(R"({{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}})", end - begin, begin, end);
}

std::string f32_entry(const std::string& shape, const std::string& offsets) {
  return R"({"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

std::vector<HostileFile> bad_headers() {
  const std::string twice = "{\"x\":" + u8_entry(0, 4) + ",\"x\":" + u8_entry(0, 4) + "}";
  return {
      {"", ": is not a safetensors file: 0 bytes, expected at least 8"},
      {"1234567", ": is not a safetensors file: 7 bytes, expected at least 8"},
      {raw_safetensors(3, "{}", ""), ": is cut short: the header has 3 bytes, only 2 follow"},
      {raw_safetensors(100'000'001, "{}", ""),
       ": is not a safetensors file: its first 8 bytes give a header of 100000001 bytes, the "
       "format "
       "allows 100000000"},
      {raw_safetensors(UINT64_MAX, "{}", ""),
       ": is not a safetensors file: its first 8 bytes give a header of 18446744073709551615 "
       "bytes, "
       "the format allows 100000000"},
      with_header("", ": the header must begin with {"),
      with_header("[]", ": the header must begin with {"),
      with_header(" {}", ": the header must begin with {"),
      with_header(
          "{\"x\":",
          ": header: line 1, column 5: syntax error while parsing value - unexpected end of "
          "input; expected '[', '{', or a literal"),
      with_header("{} x",
                  ": header: line 1, column 4: syntax error while parsing value - invalid literal"),
      with_header(std::string("{}\0\0", 4),
                  ": header: line 1, column 3: a NUL byte, which JSON does not allow"),
      with_header("{\"\xff\":1}",
                  ": header: line 1, column 3: syntax error while parsing object key - invalid "
                  "string: ill-formed UTF-8 byte"),
      with_header("{\"x\":[[[[[[[[[]]]]]]]]]}",
                  ": header: line 1, column 13: nested deeper than 8 levels"),
      with_header(twice, ": header: line 1, column 56: the key 'x' appears twice in one object"),
      with_header(R"({"__metadata__":[]})", ": __metadata__: expected an object, got an array"),
      with_header(R"({"__metadata__":{"a":1}})",
                  ": __metadata__: key 'a': expected a string, got an integer (1)"),
  };
}

std::vector<HostileFile> bad_entries() {
  return {
      with_fields("7", 0, "expected an object, got an integer (7)"),
      with_fields("{}", 0, "key 'dtype': expected a string, but the key is missing"),
      with_fields(R"({"dtype":32})", 0, "key 'dtype': expected a string, got an integer (32)"),
      with_fields(R"({"dtype":"F32","shape":[],"data_offsets":[0,4],"extra":1})", 4,
                  "unknown key 'extra'; expected dtype, shape and data_offsets"),
      with_fields(R"({"dtype":"F8_E5M2","shape":[],"data_offsets":[0,1]})", 1,
                  "unsupported dtype F8_E5M2"),
      with_fields(R"({"dtype":"f32","shape":[],"data_offsets":[0,4]})", 4, "unsupported dtype f32"),
      with_fields(f32_entry("4", "[0,4]"), 4, "key 'shape': expected an array, got an integer (4)"),
      with_fields(f32_entry("[-1]", "[0,4]"), 4, "a dimension cannot be negative, got -1"),
      with_fields(f32_entry("[1.0]", "[0,4]"), 4, "expected a shape of integers, got 1.0"),
      with_fields(f32_entry("[18446744073709551615]", "[0,4]"), 4,
                  "expected a shape of integers, got 1.8446744073709552e+19"),
      with_fields(f32_entry("[1,1,1,1,1]", "[0,4]"), 4, "a tensor has at most 4 dimensions, got 5"),
      with_fields(f32_entry("[4611686018427387904]", "[0,0]"), 0,
                  "a tensor has at most 2^56 elements, got 1 x 4611686018427387904"),
      with_fields(f32_entry("[4294967296,4294967296]", "[0,0]"), 0,
                  "a tensor has at most 2^56 elements, got 4294967296 x 4294967296"),
      with_fields(f32_entry("[0,4294967296,4294967296]", "[0,0]"), 0,
                  "a tensor has at most 2^56 elements, got 4294967296 x 4294967296"),
      with_fields(f32_entry("[1]", "[0]"), 4, "expected data_offsets of two integers, got [0]"),
      with_fields(f32_entry("[1]", "[0,4,8]"), 4,
                  "expected data_offsets of two integers, got [0,4,8]"),
      with_fields(f32_entry("[1]", "[0,\"4\"]"), 4,
                  "expected data_offsets of two integers, got [0,\"4\"]"),
      with_fields(f32_entry("[1]", "[-4,0]"), 4,
                  "data_offsets [-4, 0] are not within the 4 bytes of data"),
      with_fields(f32_entry("[1]", "[4,0]"), 4,
                  "data_offsets [4, 0] are not within the 4 bytes of data"),
      with_fields(f32_entry("[1]", "[0,5]"), 4,
                  "data_offsets [0, 5] are not within the 4 bytes of data"),
      with_fields(f32_entry("[1]", "[9223372036854775800,9223372036854775804]"), 4,
                  "data_offsets [9223372036854775800, 9223372036854775804] are not within the 4 "
                  "bytes of data"),
      with_fields(f32_entry("[2]", "[0,4]"), 4, "F32 [2] takes 8 bytes, but data_offsets span 4"),
      with_fields(f32_entry("[0]", "[0,4]"), 4, "F32 [0] takes 0 bytes, but data_offsets span 4"),
  };
}

std::vector<HostileFile> bad_coverage() {
  const auto two = [](const std::string& a, const std::string& b, const std::string& data) {
    return raw_safetensors("{\"a\":" + a + ",\"b\":" + b + "}", data);
  };
  return {
      with_fields(u8_entry(2, 4), 4, "begins at 2, which leaves a hole from 0"),
      {two(u8_entry(0, 4), u8_entry(3, 5), "12345"),
       ": tensor 'b': overlaps the tensor before it: begins at 3, not 4"},
      {two(u8_entry(0, 4), u8_entry(0, 4), "1234"),
       ": tensor 'b': overlaps the tensor before it: begins at 0, not 4"},
      {two(u8_entry(0, 1), u8_entry(3, 5), "12345"),
       ": tensor 'b': begins at 3, which leaves a hole from 1"},
      {two(u8_entry(0, 1), u8_entry(1, 4), "12345"),
       ": the tensors end at byte 4 of 5 bytes of data"},
      {raw_safetensors("{}", "1"), ": the tensors end at byte 0 of 1 bytes of data"},
  };
}

TEST(HostileSafetensors, EachIsRefusedWithItsReason) {
  const Scratch folder;
  const std::string path = (folder / "x").string();
  for (const auto& table : {bad_headers(), bad_entries(), bad_coverage()}) {
    for (const HostileFile& file : table) {
      write_file(path, file.bytes);
      const Error error = error_of([&] { SafetensorsFile::open(path); });
      EXPECT_EQ(error.fault(), Fault::data);
      EXPECT_EQ(error.what(), path + file.message);
    }
  }
}

// Opens a file that may be damaged and reads all that it offers.
bool opens_and_reads(const Path& path) {
  try {
    const SafetensorsFile file = SafetensorsFile::open(path);
    double sum = 0;
    for (const TensorEntry& entry : file.entries()) {
      const Tensor x = file.tensor(entry.name);
      for (int64_t i = 0; i < x.numel(); ++i) sum += x.at(i);
    }
    [[maybe_unused]] const volatile double read = sum;
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::data) << error.what();
    return false;
  }
}

// A valid file of exactly one page, so that a read beyond it leaves the mapping.
std::string small_file() {
  const std::string header =
      R"({"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("b":{"dtype":"BOOL","shape":[],"data_offsets":[24,25]},)"
      R"("c":{"dtype":"I16","shape":[0,7],"data_offsets":[25,25]},)"
      R"("d":{"dtype":"U8","shape":[7],"data_offsets":[25,32]}})";
  return raw_safetensors(header + std::string(4096 - 8 - 32 - header.size(), ' '),
                         std::string(32, '\1'));
}

// All of it but most of the padding, where every byte is alike.
bool worth_damaging(size_t at) { return at < 400 || at >= 4000 || at % 97 == 0; }

TEST(HostileSafetensors, AFileCutAtAnyByteIsRefused) {
  const Scratch folder;
  const std::string whole = small_file();
  ASSERT_EQ(whole.size(), 4096u);
  write_file(folder / "x", whole);
  ASSERT_TRUE(opens_and_reads(folder / "x"));
  for (size_t size = whole.size(); size-- > 0;) {
    if (!worth_damaging(size)) continue;
    std::filesystem::resize_file(folder / "x", size);
    ASSERT_FALSE(opens_and_reads(folder / "x")) << size;
  }
}

TEST(HostileSafetensors, AnyFlippedBitIsRefusedOrHarmless) {
  const Scratch folder;
  const std::string whole = small_file();
  write_file(folder / "x", whole);
  std::fstream file(folder / "x", std::ios::in | std::ios::out | std::ios::binary);
  const auto put = [&](size_t at, char byte) {
    file.seekp(static_cast<std::streamoff>(at)).put(byte).flush();
    ASSERT_TRUE(file.good());
  };
  int refused = 0;
  for (size_t at = 0; at < whole.size(); ++at) {
    if (!worth_damaging(at)) continue;
    for (int bit = 0; bit < 8; ++bit) {
      put(at, static_cast<char>(whole[at] ^ (1 << bit)));
      refused += !opens_and_reads(folder / "x");
    }
    put(at, whole[at]);
  }
  EXPECT_GT(refused, 1000);
  EXPECT_TRUE(opens_and_reads(folder / "x"));  // all was put back
}

}  // namespace
}  // namespace tephra

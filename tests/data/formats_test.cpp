// SPDX-License-Identifier: Apache-2.0
// Parquet files that DuckDB wrote, WET files, and what is cut off or damaged.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>

#include "tephra/base/json.h"
#include "tephra/base/text.h"
#include "tephra/data/corpus/corpus_files.h"
#include "tephra/data/formats/document_reader.h"
#include "tephra/data/formats/parquet_meta.h"
#include "tephra/data/formats/parquet_values.h"
#include "tephra/data/formats/thrift_writer.h"
#include "tests/support/compress.h"
#include "tests/support/error_of.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

const Path kParquet = TEPHRA_GOLDEN_DIR "/parquet";

std::string all_of(const Path& path) {
  const std::unique_ptr<ByteReader> reader = open_documents(path);
  std::string all, part(1000, '\0');
  while (const size_t got = reader->read(part)) all.append(part, 0, got);
  EXPECT_EQ(reader->file_bytes(), static_cast<int64_t>(std::filesystem::file_size(path)));
  return all;
}

std::vector<std::string> lines_of_text(std::string_view text) {
  std::vector<std::string> lines;
  for (const std::string_view line : split(text, '\n')) {
    if (!line.empty()) lines.push_back(Json::parse(line, "line").dump());
  }
  return lines;
}

// Whole numbers lose their point: 1.0 is written as 1.
std::string without_points(std::string text) {
  for (size_t at = text.find(".0"); at != std::string::npos; at = text.find(".0", at + 1)) {
    const char next = at + 2 < text.size() ? text[at + 2] : ',';
    if (next == ',' || next == ']' || next == '}') text.erase(at, 2);
  }
  return text;
}

TEST(Parquet, ReadsWhatDuckDbWroteInEveryCodecAndVersion) {
  const std::vector<std::string> want = lines_of_text(read_file(kParquet / "rows.jsonl"));
  ASSERT_EQ(want.size(), 300u);
  for (const char* name :
       {"uncompressed", "snappy", "gzip", "brotli", "zstd", "lz4_raw", "v2", "v2-delta"}) {
    SCOPED_TRACE(name);
    const std::vector<std::string> got =
        lines_of_text(all_of(kParquet / (std::string(name) + ".parquet")));
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      // Whole numbers lose their point: 1.0 is written as 1.
      const Json a = Json::parse(got[i], "got"), b = Json::parse(want[i], "want");
      for (const auto& [key, value] : b.object()) {
        const Json* found = a.find(key);
        ASSERT_NE(found, nullptr);
        if (value.is_number()) {
          ASSERT_TRUE(found->is_number()) << i << key;
          EXPECT_EQ(found->number(), value.number()) << i << key;
        } else {
          EXPECT_EQ(found->dump(), value.dump()) << i << key;
        }
      }
    }
  }
}

TEST(Parquet, ReadsSeveralRowGroups) {
  const std::vector<std::string> groups = lines_of_text(all_of(kParquet / "groups.parquet"));
  ASSERT_EQ(groups.size(), 5000u);
  EXPECT_EQ(groups[4321], R"({"i":4321})");
}

// Lists of numbers, strings, lists and structs, with nothing at every level.
TEST(Parquet, ReadsWhatNestsAsDuckDbDoes) {
  std::string want = read_file(kParquet / "nested.jsonl");
  for (const char* name : {"nested.parquet", "nested-v2.parquet"}) {
    SCOPED_TRACE(name);
    const std::vector<std::string> got = lines_of_text(all_of(kParquet / name));
    const std::vector<std::string_view> lines = split(want, '\n');
    ASSERT_EQ(got.size() + 1, lines.size());  // a newline ends the last
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(without_points(got[i]), without_points(Json::parse(lines[i], "want").dump()));
    }
  }
  EXPECT_EQ(all_of(kParquet / "map.parquet"),
            "{\"m\":[{\"key\":\"k\",\"value\":1},{\"key\":\"l\",\"value\":null}]}\n");
}

TEST(Parquet, NumbersThatAreNotFiniteAreNamed) {
  EXPECT_EQ(all_of(kParquet / "not-finite.parquet"),
            "{\"d\":1.5,\"f\":0.10000000149011612}\n{\"d\":\"NaN\",\"f\":\"-Infinity\"}\n"
            "{\"d\":\"Infinity\",\"f\":\"NaN\"}\n{\"d\":null,\"f\":2}\n");
}

TEST(Parquet, ReadsBytesByTheirMeaning) {
  EXPECT_EQ(all_of(kParquet / "bytes.parquet"),
            "{\"u\":\"12345678-9abc-def0-1234-56789abcdef0\","
            "\"d\":-12345678901234567890123456789.125,\"z\":0.00,\"b\":\"0x00ff\",\"p\":\"plain\","
            "\"n\":\"2024-02-29T23:59:58.000000025\"}\n");
}

// A column of a file that is made by hand: one page of plain values, all there.
struct HandColumn {
  ParquetType type;
  std::string values;
  int count = 1;
  int length = 0;
  std::function<void(ThriftWriter&)> logical = [](ThriftWriter&) {};  // field 10
  int repetition = 0;
  std::string levels = "";  // before the values
  int codec = 0;
};

std::string parquet_by_hand(const std::vector<HandColumn>& columns, int rows = 1) {
  std::string file = "PAR1", footer;
  std::vector<size_t> offsets;
  for (const HandColumn& column : columns) {
    offsets.push_back(file.size());
    const auto bytes = static_cast<int64_t>(column.levels.size() + column.values.size());
    ThriftWriter page(file);
    page.begin_struct();
    page.integer(1, 0);
    page.integer(2, bytes);
    page.integer(3, bytes);
    page.begin_struct(5);
    page.integer(1, column.count);
    for (const int field : {2, 3, 4}) page.integer(field, field == 2 ? 0 : 3);
    page.end_struct();
    page.end_struct();
    file += column.levels + column.values;
  }
  offsets.push_back(file.size());
  ThriftWriter out(footer);
  out.begin_struct();
  out.begin_list(2, ThriftReader::structure, columns.size() + 1);
  out.begin_struct();
  out.text(4, "root");
  out.integer(5, static_cast<int64_t>(columns.size()));
  out.end_struct();
  for (size_t c = 0; c < columns.size(); ++c) {
    out.begin_struct();
    out.integer(1, static_cast<int64_t>(columns[c].type));
    out.integer(2, columns[c].length);
    out.integer(3, columns[c].repetition);
    out.text(4, std::string(1, static_cast<char>('a' + c)));
    columns[c].logical(out);
    out.end_struct();
  }
  out.integer(3, rows, ThriftReader::i64);
  out.begin_list(4, ThriftReader::structure, 1);
  out.begin_struct();
  out.begin_list(1, ThriftReader::structure, columns.size());
  for (size_t c = 0; c < columns.size(); ++c) {
    out.begin_struct();
    out.begin_struct(3);
    out.integer(4, columns[c].codec);
    out.integer(5, columns[c].count, ThriftReader::i64);
    out.integer(7, static_cast<int64_t>(offsets[c + 1] - offsets[c]), ThriftReader::i64);
    out.integer(9, static_cast<int64_t>(offsets[c]), ThriftReader::i64);
    out.end_struct();
    out.end_struct();
  }
  out.integer(3, rows, ThriftReader::i64);
  out.end_struct();
  out.end_struct();
  const auto size = static_cast<uint32_t>(footer.size());
  return file + footer + std::string(reinterpret_cast<const char*>(&size), 4) + "PAR1";
}

template <class T>
std::string bytes_of(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// Calls `inner` within the structure of a logical type.
std::function<void(ThriftWriter&)> logical(
    int kind, const std::function<void(ThriftWriter&)>& inner = [](ThriftWriter&) {}) {
  return [kind, inner](ThriftWriter& out) {
    out.begin_struct(10);
    out.begin_struct(kind);
    inner(out);
    out.end_struct();
    out.end_struct();
  };
}

std::function<void(ThriftWriter&)> time_unit(int unit) {
  return [unit](ThriftWriter& out) {
    out.boolean(1, true);
    out.begin_struct(2);
    out.begin_struct(unit);
    out.end_struct();
    out.end_struct();
  };
}

TEST(Parquet, KnowsLogicalTypesWithoutConvertedOnes) {
  using enum ParquetType;
  const auto decimal = [](ThriftWriter& out) {
    out.integer(1, 2);
    out.integer(2, 9);
  };
  const auto is_unsigned = [](ThriftWriter& out) { out.boolean(2, false); };
  const std::string latin = bytes_of(uint32_t{1}) + "\xe9";
  const std::vector<HandColumn> columns = {
      {bytes, latin, 1, 0, logical(1)},  // STRING: no UTF-8, for the stage to judge
      {bytes, latin},                    // no type: bytes
      {i32, bytes_of(int32_t{19782}), 1, 0, logical(6)},
      {i64, bytes_of(int64_t{-1}), 1, 0, logical(8, time_unit(1))},
      {i64, bytes_of(int64_t{1'500'000}), 1, 0, logical(8, time_unit(2))},
      {i64, bytes_of(INT64_MIN), 1, 0, logical(8, time_unit(3))},
      {i64, bytes_of(int64_t{1}), 1, 0, logical(7, time_unit(3))},
      {i64, bytes_of(int64_t{-1}), 1, 0, logical(10, is_unsigned)},
      {i32, bytes_of(int32_t{-5}), 1, 0, logical(5, decimal)},
      {fixed, std::string("\xff\x38", 2), 1, 2, logical(5, decimal)},
      {fixed, std::string("\x00\xc0", 2), 1, 2, logical(15)},
      {i96, bytes_of(int64_t{1'000'000'000}) + bytes_of(uint32_t{2440589})},
      {bytes, bytes_of(uint32_t{4}) + "[1,2", 1, 0, logical(12)},
      // Meanings that need a fixed length, of bytes without one.
      {bytes, bytes_of(uint32_t{1}) + "u", 1, 16, logical(14)},
      {bytes, bytes_of(uint32_t{1}) + "h", 1, 2, logical(15)},
      {bytes, bytes_of(uint32_t{0}), 1, 0, logical(5, decimal)},
  };
  const Scratch scratch;
  write_file(scratch / "a.parquet", parquet_by_hand(columns));
  EXPECT_EQ(
      all_of(scratch / "a.parquet"),
      "{\"a\":\"\xe9\",\"b\":\"0xe9\",\"c\":\"2024-02-29\",\"d\":\"1969-12-31T23:59:59.999\","
      "\"e\":\"1970-01-01T00:00:01.500000\",\"f\":\"1677-09-21T00:12:43.145224192\","
      "\"g\":\"00:00:00.000000001\",\"h\":18446744073709551615,\"i\":-0.05,\"j\":-2.00,\"k\":-2,"
      "\"l\":\"1970-01-02T00:00:01\",\"m\":\"[1,2\",\"n\":\"u\",\"o\":\"h\",\"p\":0.00}\n");
}

TEST(Parquet, ReadsRepeatedFieldsAndRefusesWhatDoesNotBelongTogether) {
  using enum ParquetType;
  const Scratch scratch;
  // Levels: three entries in a bit-packed group. Two rows, [7,8] and [9].
  const auto levels = [](char repetitions, char definitions) {
    const std::string head = bytes_of(uint32_t{2}) + "\x03";
    return head + repetitions + head + definitions;
  };
  const std::string numbers = bytes_of(int32_t{7}) + bytes_of(int32_t{8}) + bytes_of(int32_t{9});
  HandColumn list{i32, numbers, 3, 0, [](ThriftWriter&) {}, 2, levels(0b010, 0b111)};
  const auto read = [&](int rows) {
    write_file(scratch / "a.parquet", parquet_by_hand({list}, rows));
    return all_of(scratch / "a.parquet");
  };
  EXPECT_EQ(read(2), "{\"a\":[7,8]}\n{\"a\":[9]}\n");
  EXPECT_EQ(error_of([&] { read(1); }).fault(), Fault::data);  // a value would be lost
  EXPECT_EQ(error_of([&] { read(3); }).fault(), Fault::data);
  list.levels = levels(0b011, 0b111);  // a row that begins within a list
  EXPECT_EQ(error_of([&] { read(2); }).fault(), Fault::data);
  list.codec = 5;
  EXPECT_NE(std::string(error_of([&] { read(2); }).what())
                .find("column a (INT32): is compressed with LZ4 with Hadoop's framing"),
            std::string::npos);
}

TEST(Parquet, KeepsTheMeaningOfUnsignedIntegersAndDecimals) {
  EXPECT_EQ(all_of(kParquet / "meanings.parquet"),
            "{\"u\":18446744073709551615,\"v\":4294967295,\"d\":1.25,\"e\":-0.05,\"i\":-7}\n");
}

TEST(Parquet, WritesDatesAndTimesAsPeopleReadThem) {
  EXPECT_EQ(all_of(kParquet / "moments.parquet"),
            "{\"text\":\"abcd\",\"d\":\"1969-12-30\",\"t\":\"2024-02-29T23:59:58.250000\","
            "\"c\":\"07:08:09\",\"q\":[1.5,2.5]}\n");
}

TEST(Parquet, TextThatIsNoUtf8IsForTheStageToJudge) {
  const Scratch scratch;
  std::string bytes = read_file(kParquet / "moments.parquet");
  for (size_t at = bytes.find("abcd"); at != std::string::npos; at = bytes.find("abcd", at)) {
    bytes.replace(at, 4, "ab\xff\xfe");
  }
  write_file(scratch / "a.parquet", bytes);
  EXPECT_NE(all_of(scratch / "a.parquet").find("\"ab\xff\xfe\""), std::string::npos);
}

TEST(Parquet, RefusesWhatIsCutOffOrDamaged) {
  const Scratch scratch;
  for (const char* name :
       {"snappy.parquet", "lz4_raw.parquet", "v2-delta.parquet", "zstd.parquet", "brotli.parquet",
        "nested.parquet", "nested-v2.parquet", "bytes.parquet"}) {
    const std::string whole = read_file(kParquet / name);
    for (size_t size = 0; size < whole.size(); size += 1 + whole.size() / 7) {
      write_file(scratch / "a.parquet", whole.substr(0, size));
      EXPECT_EQ(error_of([&] { open_documents(scratch / "a.parquet"); }).fault(), Fault::data);
    }
    // Any byte may be wrong: then it is read, or refused as data, and nothing else. The footer, at
    // the end, says the most in the fewest bytes.
    const size_t footer = whole.size() - std::min<size_t>(whole.size(), 1500);
    for (size_t at = 0; at < whole.size(); at += at < footer ? 149 : 11) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
      // Not write_file: thousands of flushes to disk would take longer than the test.
      std::ofstream(scratch / "a.parquet", std::ios::binary) << damaged;
      try {
        const std::unique_ptr<ByteReader> reader = open_documents(scratch / "a.parquet");
        std::string part(1 << 16, '\0');
        while (reader->read(part) > 0) {
        }
      } catch (const Error& error) {
        EXPECT_EQ(error.fault(), Fault::data) << error.what();
      }
    }
  }
}

TEST(ParquetValues, UnpackRunsAndDeltas) {
  std::vector<uint32_t> values;
  EXPECT_EQ(decode_hybrid(std::string_view("\x06\x05", 2), 3, 3, values, "t"), 2u);
  EXPECT_EQ(values, (std::vector<uint32_t>{5, 5, 5}));
  // The standard's example: 0 to 7 in three bits each.
  EXPECT_EQ(decode_hybrid(std::string_view("\x03\x88\xc6\xfa", 4), 3, 8, values, "t"), 4u);
  EXPECT_EQ(values, (std::vector<uint32_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(error_of([&] { decode_hybrid("", 3, 8, values, "t"); }).fault(), Fault::data);
}

std::string record(const std::string& type, const std::string& body) {
  return "WARC/1.0\r\nWARC-Type: " + type +
         "\r\nWARC-Target-URI: http://a.b/\r\ncontent-length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body + "\r\n\r\n";
}

TEST(Wet, GivesTheTextsOfConversions) {
  const Scratch scratch;
  const std::string text = record("warcinfo", "software: x") +
                           record("conversion", "Hello\nyou\n") +
                           record("conversion", "bad \xff byte");
  const std::string want =
      "{\"text\":\"Hello\\nyou\",\"url\":\"http://a.b/\"}\n"
      "{\"text\":\"bad \xef\xbf\xbd byte\",\"url\":\"http://a.b/\"}\n";
  write_file(scratch / "a.warc.wet", text);
  EXPECT_EQ(all_of(scratch / "a.warc.wet"), want);
  // One member of gzip for each record, as Common Crawl has it.
  write_file(scratch / "b.warc.wet.gz", gzipped(text.substr(0, 200)) + gzipped(text.substr(200)));
  EXPECT_EQ(all_of(scratch / "b.warc.wet.gz"), want);
  const auto files = corpus_files(std::vector<std::string>{scratch.path().string()});
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[1].name, "b");
  for (size_t size = 1; size + 4 < text.size(); size += 11) {
    write_file(scratch / "c.wet", text.substr(0, size));
    try {
      all_of(scratch / "c.wet");
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::data);
    }
  }
  write_file(scratch / "d.wet", "HTTP/1.1 200 OK\r\n\r\n");
  EXPECT_NE(
      std::string(error_of([&] { all_of(scratch / "d.wet"); }).what()).find("expected WARC/1.0"),
      std::string::npos);
}

}  // namespace
}  // namespace tephra

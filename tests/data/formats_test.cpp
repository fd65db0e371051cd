// SPDX-License-Identifier: Apache-2.0
// Parquet files that DuckDB wrote, WET files, and what is cut off or damaged.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "tephra/base/json.h"
#include "tephra/base/text.h"
#include "tephra/data/corpus/corpus_files.h"
#include "tephra/data/formats/document_reader.h"
#include "tephra/data/formats/parquet_values.h"
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

TEST(Parquet, ReadsWhatDuckDbWroteInEveryCodecAndVersion) {
  const std::vector<std::string> want = lines_of_text(read_file(kParquet / "rows.jsonl"));
  ASSERT_EQ(want.size(), 300u);
  for (const char* name : {"uncompressed", "snappy", "gzip", "zstd", "lz4_raw", "v2", "v2-delta"}) {
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

TEST(Parquet, ReadsSeveralRowGroupsAndLeavesNestedColumnsOut) {
  const std::vector<std::string> groups = lines_of_text(all_of(kParquet / "groups.parquet"));
  ASSERT_EQ(groups.size(), 5000u);
  EXPECT_EQ(groups[4321], R"({"i":4321})");
  const std::vector<std::string> nested = lines_of_text(all_of(kParquet / "nested.parquet"));
  EXPECT_EQ(nested, (std::vector<std::string>{R"({"source":"web"})", R"({"source":"books"})",
                                              R"({"source":"web"})"}));
  const Error brotli = error_of([] { all_of(kParquet / "brotli.parquet"); });
  EXPECT_NE(std::string(brotli.what()).find("Brotli, which is not supported"), std::string::npos);
}

TEST(Parquet, KeepsTheMeaningOfUnsignedIntegersAndDecimals) {
  EXPECT_EQ(all_of(kParquet / "meanings.parquet"),
            "{\"u\":18446744073709551615,\"v\":4294967295,\"d\":1.25,\"e\":-0.05,\"i\":-7}\n");
}

TEST(Parquet, WritesDatesAndTimesAsPeopleReadThem) {
  EXPECT_EQ(all_of(kParquet / "moments.parquet"),
            "{\"text\":\"abcd\",\"d\":\"1969-12-30\",\"t\":\"2024-02-29T23:59:58.250000\","
            "\"c\":\"07:08:09\"}\n");
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
       {"snappy.parquet", "lz4_raw.parquet", "v2-delta.parquet", "zstd.parquet"}) {
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

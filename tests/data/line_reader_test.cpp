// SPDX-License-Identifier: Apache-2.0
// Lines of plain and compressed files, whole, joined and cut off.
#include <gtest/gtest.h>

#include "tephra/data/line_reader.h"
#include "tests/support/compress.h"
#include "tests/support/error_of.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

std::vector<std::string> lines_of(const Path& path) {
  LineReader reader(path);
  std::vector<std::string> lines;
  std::string_view line;
  while (reader.next(line)) lines.emplace_back(line);
  EXPECT_EQ(reader.line_number(), static_cast<int64_t>(lines.size()));
  EXPECT_EQ(reader.file_bytes(), static_cast<int64_t>(std::filesystem::file_size(path)));
  return lines;
}

// Longer than every buffer, with lines of many lengths.
std::string long_text(std::vector<std::string>& lines) {
  std::string text;
  for (int i = 0; i < 3000; ++i) {
    lines.emplace_back(static_cast<size_t>(i * 7919 % 997), static_cast<char>('a' + i % 26));
    text += lines.back() + "\n";
  }
  return text;
}

TEST(LineReader, ReadsPlainAndCompressedFilesAlike) {
  const Scratch scratch;
  std::vector<std::string> lines;
  const std::string text = long_text(lines);
  const std::string half = text.substr(0, text.size() / 2), rest = text.substr(text.size() / 2);
  write_file(scratch / "a.txt", text);
  write_file(scratch / "a.txt.gz", gzipped(text));
  write_file(scratch / "b.txt.gz", gzipped(half) + gzipped(rest));
  write_file(scratch / "a.txt.zst", zstd_compressed(text));
  write_file(scratch / "b.txt.zst", zstd_compressed(half) + zstd_compressed(rest));
  write_file(scratch / "a.txt.lz4", lz4_compressed(text));
  write_file(scratch / "b.txt.lz4", lz4_compressed(half) + lz4_compressed(rest));
  for (const std::string& name : scratch.names())
    EXPECT_EQ(lines_of(scratch / name), lines) << name;
  EXPECT_EQ(read_decompressed(scratch / "b.txt.zst", 1 << 24), text);
}

TEST(LineReader, KnowsWhereALineEnds) {
  const Scratch scratch;
  const auto lines = [&](const std::string& text) {
    write_file(scratch / "a", text);
    return lines_of(scratch / "a");
  };
  EXPECT_EQ(lines(""), std::vector<std::string>{});
  EXPECT_EQ(lines("\n"), std::vector<std::string>{""});
  EXPECT_EQ(lines("a\r\n\nb"), (std::vector<std::string>{"a", "", "b"}));
}

TEST(LineReader, RefusesWhatIsCutOffOrDamaged) {
  const Scratch scratch;
  std::vector<std::string> unused;
  const std::string text = long_text(unused);
  for (const char* name : {"a.gz", "a.zst", "a.lz4"}) {
    const std::string whole = name[2] == 'g'   ? gzipped(text)
                              : name[2] == 'z' ? zstd_compressed(text)
                                               : lz4_compressed(text);
    for (const size_t size : {size_t{5}, whole.size() / 2, whole.size() - 1}) {
      write_file(scratch / name, whole.substr(0, size));
      const Error error = error_of([&] { lines_of(scratch / name); });
      EXPECT_EQ(error.fault(), Fault::data) << name << " " << size;
      EXPECT_NE(std::string(error.what()).find("cut off"), std::string::npos) << error.what();
    }
    std::string damaged = whole;
    for (size_t i = 20; i < 60; ++i) damaged[i] = static_cast<char>(~damaged[i]);
    write_file(scratch / name, damaged);
    EXPECT_EQ(error_of([&] { lines_of(scratch / name); }).fault(), Fault::data) << name;
    write_file(scratch / name, "plain text");
    EXPECT_NE(std::string(error_of([&] { lines_of(scratch / name); }).what()).find("is damaged"),
              std::string::npos);
  }
  EXPECT_EQ(error_of([&] { lines_of(scratch / "none"); }).fault(), Fault::usage);
}

TEST(LineReader, HoldsLinesToTheirLimit) {
  const Scratch scratch;
  write_file(scratch / "a", "short\n" + std::string(1 << 20, 'x'));
  LineReader reader(scratch / "a", 1000);
  std::string_view line;
  EXPECT_TRUE(reader.next(line));
  EXPECT_EQ(std::string(error_of([&] { reader.next(line); }).what()),
            (scratch / "a").string() + ":2: expected lines of at most 1000 B");
}

TEST(LineReader, PassesOverLinesThatAreTooLong) {
  const Scratch scratch;
  const std::string fits(1000, 'f'), above(1001, 'a'), huge(1 << 20, 'h');
  write_file(scratch / "a", huge + "\n" + fits + "\n" + above + "\n\nlast\n" + huge);
  LineReader reader(scratch / "a", ByteReader::open(scratch / "a"), 1000, LongLines::empty);
  std::vector<std::string> lines;
  std::string_view line;
  while (reader.next(line)) lines.push_back(reader.too_long() ? "too long" : std::string(line));
  EXPECT_EQ(lines,
            (std::vector<std::string>{"too long", fits, "too long", "", "last", "too long"}));
  EXPECT_EQ(reader.line_number(), 6);
}

}  // namespace
}  // namespace tephra

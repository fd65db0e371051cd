// SPDX-License-Identifier: Apache-2.0
// Files read in windows of lines: where they are cut, and what becomes of long and damaged lines.
#include "tephra/data/corpus/line_windows.h"

#include <gtest/gtest.h>

#include "tephra/data/line_reader.h"
#include "tests/support/compress.h"
#include "tests/support/error_of.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

// The lines of all windows, with their rows; rows of long lines as "-ROW".
std::vector<std::string> window_lines(LineWindows& windows, std::string* damage = nullptr) {
  std::vector<std::string> lines;
  for (bool last = false; !last;) {
    const LineWindow window = windows.next();
    for (const Line& line : window.lines) {
      lines.push_back(std::to_string(line.row) + ":" + std::string(window.text(line)));
    }
    for (const int64_t row : window.long_rows) lines.push_back("-" + std::to_string(row));
    if (damage != nullptr) *damage += window.damage;
    last = window.last;
  }
  return lines;
}

TEST(LineWindows, CutAtLinesAndGoOnWhereTheyWere) {
  const Scratch scratch;
  std::string text;
  for (int i = 1; i <= 2000; ++i) text += std::string(static_cast<size_t>(i % 50), 'x') + "\n";
  write_file(scratch / "a.jsonl", text);
  LineWindows whole(scratch / "a.jsonl", 1000, 1 << 20);
  const std::vector<std::string> all = window_lines(whole);
  EXPECT_EQ(all.size(), 2000u - 40u);  // blank ones left out
  LineWindows first(scratch / "a.jsonl", 1000, 1 << 20);
  const LineWindow window = first.next();
  EXPECT_EQ(text[static_cast<size_t>(window.end_offset) - 1], '\n');
  LineWindows rest(scratch / "a.jsonl", 1000, 1 << 20);
  rest.skip_to(window.end_offset, window.end_row);
  EXPECT_EQ(window.lines.size() + window_lines(rest).size(), all.size());
}

TEST(LineWindows, EndAtTheSamePlacesWhereverTheyGoOn) {
  const Scratch scratch;
  std::string text;
  for (size_t i = 0; i < 60000; ++i) {
    const size_t size = i == 9000 ? 3 << 20 : i == 30000 ? 6 << 20 : i * 7919 % 200;
    text.append(size, 'x') += '\n';
  }
  write_file(scratch / "a.jsonl", text);
  write_file(scratch / "b.jsonl.zst", zstd_compressed(text));
  for (const char* name : {"a.jsonl", "b.jsonl.zst"}) {
    for (const size_t bytes : {size_t{1000}, size_t{1} << 20, size_t{5} << 19}) {
      LineWindows whole(scratch / name, bytes, 4 << 20);
      int windows = 0;
      for (LineWindow before = whole.next(); !before.last; ++windows) {
        LineWindows rest(scratch / name, bytes, 4 << 20);
        rest.skip_to(before.end_offset, before.end_row);
        before = whole.next();
        const LineWindow after = rest.next();
        EXPECT_EQ(after.end_offset, before.end_offset);
        EXPECT_EQ(after.end_row, before.end_row);
        EXPECT_EQ(after.long_rows, before.long_rows);
        EXPECT_TRUE(after.bytes == before.bytes) << name << " " << bytes;
      }
      EXPECT_GT(windows, 2);
    }
  }
}

// Pieces as "row-row" by a reading in windows of that size.
std::vector<std::string> pieces_in(const Path& path, size_t window_bytes, size_t max_line) {
  LineWindows windows(path, window_bytes, max_line);
  std::vector<std::string> pieces;
  for (bool last = false; !last;) {
    const LineWindow window = windows.next();
    size_t begin = 0;
    for (const size_t end : window.piece_ends) {
      pieces.push_back(std::to_string(window.lines[begin].row) + "-" +
                       std::to_string(window.lines[end - 1].row));
      begin = end;
    }
    EXPECT_EQ(begin, window.lines.size());
    last = window.last;
  }
  return pieces;
}

TEST(LineWindows, CutPiecesThatDoNotDependOnTheirSize) {
  const Scratch scratch;
  std::string text;
  for (size_t i = 0; i < 60000; ++i) {
    const size_t size = i == 900 ? 3 << 20 : i % 20011 == 5 ? 5 << 20 : i * 7919 % 300;
    text.append(size, 'x') += '\n';
  }
  text += "an end without a newline";
  write_file(scratch / "a.jsonl", text);
  const std::vector<std::string> want = pieces_in(scratch / "a.jsonl", 1 << 26, 4 << 20);
  EXPECT_GT(want.size(), 8u);
  for (const size_t bytes : {size_t{10}, size_t{1} << 20, size_t{3} << 20, size_t{9} << 20}) {
    EXPECT_EQ(pieces_in(scratch / "a.jsonl", bytes, 4 << 20), want) << bytes;
  }
  // The same of bytes that are given in portions.
  LineWindows given("", 0, 4 << 20);
  std::vector<std::string> pieces;
  for (size_t at = 0; at < text.size(); at += 1234567) {
    given.given() += std::string_view(text).substr(at, 1234567);
    const bool end = at + 1234567 >= text.size();
    LineWindow used;
    while (const auto window = given.next_given(end, used)) {
      size_t begin = 0;
      for (const size_t piece : window->piece_ends) {
        pieces.push_back(std::to_string(window->lines[begin].row) + "-" +
                         std::to_string(window->lines[piece - 1].row));
        begin = piece;
      }
      if (window->last) break;
    }
  }
  EXPECT_EQ(pieces, want);
}

TEST(LineWindows, PassOverLinesThatAreTooLong) {
  const Scratch scratch;
  const std::string big(5 << 20, 'x');
  write_file(scratch / "a.jsonl", "one\n" + big + "\ntwo\n" + big + "\n" + big);
  for (const size_t window : {size_t{10}, size_t{1} << 26}) {
    LineWindows windows(scratch / "a.jsonl", window, 1 << 20);
    std::vector<std::string> lines = window_lines(windows);
    std::sort(lines.begin(), lines.end());
    EXPECT_EQ(lines, (std::vector<std::string>{"-2", "-4", "-5", "1:one", "3:two"}));
  }
}

TEST(LineWindows, GiveTheLinesBeforeDamage) {
  const Scratch scratch;
  std::string text;
  for (int64_t i = 0; i < 60000; ++i) text += "line " + std::to_string(i * 7919) + "\n";
  for (const char* name : {"a.jsonl.gz", "a.jsonl.zst"}) {
    const std::string whole = name[8] == 'g' ? gzipped(text) : zstd_compressed(text);
    write_file(scratch / name, whole.substr(0, whole.size() / 2));
    std::string damage;
    LineWindows windows(scratch / name, 1 << 16, 1 << 20);
    const std::vector<std::string> lines = window_lines(windows, &damage);
    EXPECT_NE(damage.find("cut off"), std::string::npos) << damage;
    EXPECT_GT(lines.size(), 1000u);
    EXPECT_EQ(lines[5], "6:line 39595");
  }
  std::string damage;
  LineWindows none(scratch / "none.jsonl", 1 << 16, 1 << 20);
  EXPECT_TRUE(window_lines(none, &damage).empty());
  EXPECT_NE(damage, "");
}

}  // namespace
}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/corpus/line_windows.h"

#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/base/text.h"
#include "tephra/data/formats/document_reader.h"
#include "tephra/data/line_reader.h"

namespace tephra {
namespace {

constexpr size_t kReadBytes = size_t{1} << 20;

}  // namespace

void LineWindow::clear(size_t most_bytes) {
  LineWindow empty;
  if (bytes.capacity() <= most_bytes) {
    empty.bytes.swap(bytes);
    empty.lines.swap(lines);
    empty.bytes.clear();
    empty.lines.clear();
  }
  *this = std::move(empty);
}

void LineWindows::skip_to(int64_t offset, int64_t row) {
  skip_ = offset_ = offset;
  row_ = row;
}

bool LineWindows::read_more(std::string& to) {
  if (at_end_) return false;
  if (!reader_) reader_ = open_documents(path_);
  const size_t before = to.size();
  // What is passed over is read in the same blocks as at first: where blocks end decides where
  // windows end, and a run that goes on must cut the same ones.
  for (;;) {
    size_t got = 0;
    to.resize(before + kReadBytes);
    try {
      got = reader_->read(std::span(to).subspan(before));
    } catch (...) {
      to.resize(before);
      throw;
    }
    to.resize(before + got);
    at_end_ = got == 0;
    if (at_end_) break;
    const size_t passed = std::min(got, static_cast<size_t>(skip_));
    skip_ -= static_cast<int64_t>(passed);
    to.erase(before, passed);
    if (passed < got) return true;
  }
  require_data(skip_ == 0, "{}: is shorter than when its reading began; it was changed",
               path_.string());
  return false;
}

// Reads until the window has its size and a whole piece.
void LineWindows::fill(LineWindow& window, Scan& scan) {
  std::string& bytes = window.bytes;
  bytes.reserve(window_bytes_ + kReadBytes + LineWindow::kPadding);
  bytes = rest_;
  rest_.clear();
  while (scan_lines(window, scan) && (bytes.size() < window_bytes_ || cut_.bytes == 0)) {
    if (bytes.size() > max_line_bytes_ && scan.line == 0) {
      skip_long_line(window);
      scan = {};
      cut_ = {0, 0, window.long_rows.size(), row_};
    } else if (!read_more(bytes)) {
      return;
    }
  }
}

bool LineWindows::scan_lines(LineWindow& window, Scan& scan) {
  const std::string_view bytes = window.bytes;
  for (;;) {
    const size_t newline = bytes.find('\n', scan.searched);
    const size_t end = std::min(newline, bytes.size());
    scan.searched = end;
    if (end - scan.line > max_line_bytes_) {
      if (scan.line > scan.piece) end_piece(window, scan, scan.line);
      if (scan.line > 0) return false;  // in the next window it stands at the beginning
    }
    if (newline == std::string_view::npos) return true;
    const bool too_long = newline - scan.line > max_line_bytes_;
    take_line(window, scan.line, newline);
    scan.line = scan.searched = newline + 1;
    if (too_long || scan.line - scan.piece >= kPieceBytes) end_piece(window, scan, scan.line);
  }
}

void LineWindows::take_line(LineWindow& window, size_t begin, size_t end) {
  Line line{begin, end - begin, ++row_};
  if (line.row == 1) {
    const size_t mark = byte_order_mark(window.text(line));
    line.begin += mark;
    line.size -= mark;
  }
  if (line.size > max_line_bytes_) {
    window.long_rows.push_back(line.row);
  } else if (!trim(window.text(line)).empty()) {
    window.lines.push_back(line);
  }
}

void LineWindows::end_piece(const LineWindow& window, Scan& scan, size_t at) {
  cut_ = {at, window.lines.size(), window.long_rows.size(), row_};
  scan.piece = at;
  piece_ends_.push_back(window.lines.size());
}

// `bytes` is the beginning of one line that is too long: passes over it, keeps what comes after.
void LineWindows::skip_long_line(LineWindow& window) {
  std::string& bytes = window.bytes;
  window.long_rows.push_back(++row_);
  do {
    const size_t newline = bytes.find('\n');
    const size_t passed = newline == std::string::npos ? bytes.size() : newline + 1;
    offset_ += static_cast<int64_t>(passed);
    bytes.erase(0, passed);
    if (newline != std::string::npos) return;
  } while (read_more(bytes));
}

void LineWindows::begin() {
  cut_ = {0, 0, 0, row_};
  piece_ends_.clear();
}

// At the end of the file all lines belong to the window, before it those of whole pieces.
void LineWindows::finish(LineWindow& window, Scan& scan) {
  std::string& bytes = window.bytes;
  if (at_end_ && scan.line < bytes.size()) {
    take_line(window, scan.line, bytes.size());
    scan.line = bytes.size();
  }
  if (at_end_) end_piece(window, scan, bytes.size());
  window.lines.resize(cut_.lines);
  window.long_rows.resize(cut_.long_rows);
  row_ = cut_.row;
  rest_.assign(bytes, cut_.bytes);
  bytes.resize(cut_.bytes);
  offset_ += static_cast<int64_t>(cut_.bytes);
  // Pieces of blank lines are none.
  for (const size_t end : piece_ends_) {
    const size_t before = window.piece_ends.empty() ? 0 : window.piece_ends.back();
    if (end > before) window.piece_ends.push_back(end);
  }
  bytes.reserve(bytes.size() + LineWindow::kPadding);
  window.end_offset = offset_;
  window.end_row = row_;
  window.file_bytes = reader_ ? reader_->file_bytes() : 0;
  window.last = at_end_ && rest_.empty();
  if (window.last && reader_) window.left_out = reader_->left_out();
}

LineWindow LineWindows::next(LineWindow window) {
  window.clear(2 * window_bytes_);
  Scan scan;
  begin();
  try {
    fill(window, scan);
  } catch (const Error& error) {
    if (error.fault() != Fault::data && error.fault() != Fault::usage) throw;
    window.damage = error.what();
    at_end_ = true;
    window.bytes.resize(scan.line);  // whole lines before the damage are good; a beginning is not
  }
  finish(window, scan);
  return window;
}

std::optional<LineWindow> LineWindows::next_given(bool end, LineWindow& used) {
  LineWindow window;
  Scan scan;
  begin();
  used.clear(2 * window_bytes_);
  window.lines.swap(used.lines);
  window.bytes.swap(rest_);
  rest_.swap(used.bytes);
  at_end_ = scan_lines(window, scan) && end;
  finish(window, scan);
  if (!window.bytes.empty() || window.last) return window;
  used = std::move(window);
  return std::nullopt;
}

}  // namespace tephra

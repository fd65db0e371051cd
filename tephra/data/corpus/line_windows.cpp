// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/corpus/line_windows.h"

#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/base/text.h"
#include "tephra/data/formats/document_reader.h"

namespace tephra {
namespace {

constexpr size_t kReadBytes = size_t{1} << 20;

}  // namespace

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

// Reads until the window has its size and a whole line; what is after the last line stays back.
void LineWindows::fill(LineWindow& window) {
  std::string& bytes = window.bytes;
  bytes.swap(rest_);
  bytes.reserve(window_bytes_ + kReadBytes + LineWindow::kPadding);
  rest_.clear();
  size_t newline = bytes.rfind('\n');
  size_t searched = bytes.size();
  while (bytes.size() < window_bytes_ || newline == std::string::npos) {
    if (newline == std::string::npos && bytes.size() > max_line_bytes_) {
      skip_long_line(window);
      newline = std::string::npos;
      searched = bytes.size();
      if (at_end_ && bytes.empty()) return;
      newline = bytes.rfind('\n');
      continue;
    }
    if (!read_more(bytes)) break;
    const size_t found = bytes.rfind('\n');
    if (found != std::string::npos && found >= searched) newline = found;
    searched = bytes.size();
  }
  const size_t end = at_end_ ? bytes.size() : newline + 1;
  cut_lines(window, end);
  if (end < bytes.size()) rest_.assign(bytes, end);
  bytes.resize(end);
}

// `bytes` is the beginning of one line that is too long: passes over it, keeps what comes after.
void LineWindows::skip_long_line(LineWindow& window) {
  std::string& bytes = window.bytes;
  offset_ += static_cast<int64_t>(bytes.size());
  bytes.clear();
  window.long_rows.push_back(++row_);
  while (read_more(bytes)) {
    const size_t newline = bytes.find('\n');
    const size_t passed = newline == std::string::npos ? bytes.size() : newline + 1;
    offset_ += static_cast<int64_t>(passed);
    bytes.erase(0, passed);
    if (newline != std::string::npos) return;
  }
}

void LineWindows::cut_lines(LineWindow& window, size_t end) {
  const std::string_view bytes = window.bytes;
  for (size_t at = 0; at < end;) {
    const size_t newline = std::min(bytes.find('\n', at), end);
    Line line{at, newline - at, ++row_};
    if (line.size > max_line_bytes_) {
      window.long_rows.push_back(line.row);
    } else if (!trim(bytes.substr(line.begin, line.size)).empty()) {
      window.lines.push_back(line);
    }
    at = newline + 1;
  }
  offset_ += static_cast<int64_t>(end);
}

LineWindow LineWindows::next() {
  LineWindow window;
  try {
    fill(window);
  } catch (const Error& error) {
    if (error.fault() != Fault::data && error.fault() != Fault::usage) throw;
    window.damage = error.what();
    at_end_ = true;
    // Whole lines before the damage are good; a beginning is not.
    const size_t newline = window.bytes.rfind('\n');
    const size_t end = newline == std::string::npos ? 0 : newline + 1;
    cut_lines(window, end);
    window.bytes.resize(end);
  }
  window.bytes.reserve(window.bytes.size() + LineWindow::kPadding);
  window.end_offset = offset_;
  window.end_row = row_;
  window.file_bytes = reader_ ? reader_->file_bytes() : 0;
  window.last = at_end_ && rest_.empty();
  return window;
}

}  // namespace tephra

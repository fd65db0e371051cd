// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/line_reader.h"

#include "tephra/base/error.h"
#include "tephra/base/text.h"

namespace tephra {
namespace {

constexpr size_t kBlockBytes = size_t{1} << 18;

}  // namespace

LineReader::LineReader(const Path& path, size_t max_line_bytes)
    : LineReader(path, ByteReader::open(path), max_line_bytes) {}

LineReader::LineReader(const Path& path, std::unique_ptr<ByteReader> reader, size_t max_line_bytes,
                       LongLines long_lines)
    : path_(path),
      max_line_bytes_(max_line_bytes),
      long_lines_(long_lines),
      reader_(std::move(reader)) {}

std::string LineReader::where() const { return format("{}:{}", path_.string(), line_number_); }

// Drops the lines that were handed out and reads on; false when nothing comes.
bool LineReader::refill() {
  buffer_.erase(0, begin_);
  scanned_ -= begin_;
  begin_ = 0;
  require_data(buffer_.size() <= max_line_bytes_, "{}:{}: expected lines of at most {}",
               path_.string(), line_number_ + 1,
               human_bytes(static_cast<int64_t>(max_line_bytes_)));
  const size_t before = buffer_.size();
  buffer_.resize(before + kBlockBytes);
  const size_t got = reader_->read(std::span(buffer_).subspan(before));
  buffer_.resize(before + got);
  return got > 0;
}

void LineReader::drop_if_long(size_t end) {
  if (long_lines_ == LongLines::refuse || (!too_long_ && end - begin_ <= max_line_bytes_)) return;
  too_long_ = true;
  begin_ = end;
}

bool LineReader::next(std::string_view& line) {
  too_long_ = false;
  size_t end = buffer_.find('\n', scanned_);
  while (end == std::string::npos) {
    scanned_ = buffer_.size();
    drop_if_long(scanned_);
    if (!refill()) break;
    end = buffer_.find('\n', scanned_);
  }
  if (end == std::string::npos && begin_ == buffer_.size() && !too_long_) return false;
  const size_t stop = end == std::string::npos ? buffer_.size() : end;
  drop_if_long(stop);
  line = std::string_view(buffer_).substr(begin_, stop - begin_);
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line_number_ == 0) line.remove_prefix(byte_order_mark(line));
  begin_ = scanned_ = end == std::string::npos ? stop : stop + 1;
  ++line_number_;
  return true;
}

std::string read_decompressed(const Path& path, size_t max_bytes) {
  const std::unique_ptr<ByteReader> reader = ByteReader::open(path);
  std::string text;
  for (;;) {
    const size_t before = text.size();
    text.resize(before + kBlockBytes);
    const size_t got = reader->read(std::span(text).subspan(before));
    text.resize(before + got);
    if (got == 0) return text;
    require_data(text.size() <= max_bytes, "{}: expected at most {} in one document", path.string(),
                 human_bytes(static_cast<int64_t>(max_bytes)));
  }
}

}  // namespace tephra

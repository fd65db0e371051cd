// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/formats/warc_records.h"

#include <algorithm>
#include <charconv>

#include "tephra/base/error.h"
#include "tephra/base/text.h"

namespace tephra {
namespace {

constexpr size_t kWarcBlockBytes = size_t{1} << 18;
constexpr size_t kMaxHeaderBytes = size_t{1} << 16;
constexpr size_t kMaxRecordBytes = size_t{1} << 30;  // that is held

}  // namespace

bool same_name(std::string_view a, std::string_view lower) {
  if (a.size() != lower.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    const char c = a[i] >= 'A' && a[i] <= 'Z' ? static_cast<char>(a[i] - 'A' + 'a') : a[i];
    if (c != lower[i]) return false;
  }
  return true;
}

const char* left_out_record(std::string_view type) {
  if (type == "warcinfo" || type == "request" || type == "metadata") return nullptr;
  for (const char* known : {"response", "revisit", "resource", "conversion", "continuation"}) {
    if (type == known) return known;
  }
  return "other_record";
}

std::string WarcRecords::where() const { return format("{}: record {}", path_.string(), records_); }

bool WarcRecords::more() {
  buffer_.erase(0, at_);
  at_ = 0;
  const size_t before = buffer_.size();
  buffer_.resize(before + kWarcBlockBytes);
  const size_t got = bytes_->read(std::span(buffer_).subspan(before));
  buffer_.resize(before + got);
  return got > 0;
}

// A line of the header, without its end.
std::string_view WarcRecords::line() {
  size_t searched = 0;
  for (;;) {
    const size_t end = buffer_.find('\n', at_ + searched);
    if (end != std::string::npos) {
      std::string_view line = std::string_view(buffer_).substr(at_, end - at_);
      at_ = end + 1;
      if (line.ends_with('\r')) line.remove_suffix(1);
      return line;
    }
    searched = buffer_.size() - at_;
    require_data(searched < kMaxHeaderBytes, "{}: its header has a line above 64 KiB", where());
    require_data(more(), "{}: ends within its header; the file is cut off", where());
  }
}

bool WarcRecords::next(WarcHeader& header) {
  for (;;) {  // blank lines stand between records
    while (at_ < buffer_.size() && (buffer_[at_] == '\r' || buffer_[at_] == '\n')) ++at_;
    if (at_ < buffer_.size()) break;
    if (!more()) return false;
  }
  ++records_;
  header = {};
  const std::string_view version = line();
  require_data(version.starts_with("WARC/"), "{}: expected WARC/1.0, got '{}'", where(),
               clipped(version, 40));
  bool sized = false;
  for (std::string_view each = line(); !each.empty(); each = line()) {
    if (each.front() == ' ' || each.front() == '\t') continue;  // a long value goes on
    const size_t colon = each.find(':');
    require_data(colon != std::string_view::npos, "{}: expected NAME: VALUE, got '{}'", where(),
                 clipped(each, 40));
    take_field(each.substr(0, colon), trim(each.substr(colon + 1)), header, sized);
  }
  require_data(sized, "{}: has no Content-Length", where());
  return true;
}

void WarcRecords::take_field(std::string_view name, std::string_view value, WarcHeader& header,
                             bool& sized) {
  if (same_name(name, "warc-type")) header.type = value;
  if (same_name(name, "warc-target-uri")) header.url = value;
  if (same_name(name, "warc-date")) header.date = value;
  if (same_name(name, "warc-truncated")) header.truncated = value;
  if (!same_name(name, "content-length")) return;
  const char* end = value.data() + value.size();
  const auto [at, error] = std::from_chars(value.data(), end, header.length);
  require_data(error == std::errc() && at == end, "{}: Content-Length: expected a number, got '{}'",
               where(), clipped(value, 40));
  sized = true;
}

std::string_view WarcRecords::body(const WarcHeader& header) {
  require_data(header.length <= kMaxRecordBytes, "{}: is longer than 1 GiB", where());
  while (buffer_.size() - at_ < header.length) {
    require_data(more(), "{}: ends within its text; the file is cut off", where());
  }
  const std::string_view body = std::string_view(buffer_).substr(at_, header.length);
  at_ += header.length;
  return body;
}

void WarcRecords::skip_body(const WarcHeader& header) {
  for (size_t left = header.length; left > 0;) {
    const size_t part = std::min(left, buffer_.size() - at_);
    at_ += part;
    left -= part;
    if (left > 0) {
      require_data(more(), "{}: ends within its text; the file is cut off", where());
    }
  }
}

}  // namespace tephra

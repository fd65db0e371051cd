// SPDX-License-Identifier: Apache-2.0
// Common Crawl's extracted text: WARC files (ISO 28500) with records of type "conversion".
#include <charconv>
#include <optional>

#include "tephra/base/error.h"
#include "tephra/base/text.h"
#include "tephra/data/corpus/json_text.h"
#include "tephra/data/formats/document_reader.h"
#include "tephra/text/unicode.h"

namespace tephra {
namespace {

constexpr size_t kWetBlockBytes = size_t{1} << 18;
constexpr size_t kMaxHeaderBytes = size_t{1} << 16;
constexpr size_t kMaxRecordBytes = size_t{1} << 30;

bool same_name(std::string_view a, std::string_view lower) {
  if (a.size() != lower.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    const char c = a[i] >= 'A' && a[i] <= 'Z' ? static_cast<char>(a[i] - 'A' + 'a') : a[i];
    if (c != lower[i]) return false;
  }
  return true;
}

struct WarcHeader {
  std::string type, url, date;
  std::optional<size_t> length;
};

class WetReader : public ConvertingReader {
 public:
  explicit WetReader(const Path& path) : path_(path), bytes_(ByteReader::open(path)) {}

  int64_t file_bytes() const override { return bytes_->file_bytes(); }

 protected:
  bool next_line(std::string& out) override {
    for (;;) {
      WarcHeader header;
      if (!read_header(header)) return false;
      const std::string_view body = take(*header.length);
      ++records_;
      if (header.type != "conversion") continue;
      out += "{\"text\":";
      // Bytes that are no UTF-8 cannot stand in JSON.
      if (is_utf8(body)) {
        append_json_string(out, trim(body));
      } else {
        append_json_string(out, lossy_utf8(trim(body)));
      }
      put(out, "url", header.url);
      put(out, "date", header.date);
      out += "}\n";
      return true;
    }
  }

 private:
  static void put(std::string& out, const char* name, const std::string& value) {
    if (value.empty()) return;
    out += format(",\"{}\":", name);
    append_json_string(out, is_utf8(value) ? value : lossy_utf8(value));
  }

  std::string where() const { return format("{}: record {}", path_.string(), records_ + 1); }

  bool more() {
    buffer_.erase(0, at_);
    at_ = 0;
    const size_t before = buffer_.size();
    buffer_.resize(before + kWetBlockBytes);
    const size_t got = bytes_->read(std::span(buffer_).subspan(before));
    buffer_.resize(before + got);
    return got > 0;
  }

  // A line of the header, without its end.
  std::string_view header_line() {
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

  // False at the end of the file.
  bool read_header(WarcHeader& header) {
    for (;;) {  // blank lines stand between records
      while (at_ < buffer_.size() && (buffer_[at_] == '\r' || buffer_[at_] == '\n')) ++at_;
      if (at_ < buffer_.size()) break;
      if (!more()) return false;
    }
    const std::string_view version = header_line();
    require_data(version.starts_with("WARC/"), "{}: expected WARC/1.0, got '{}'", where(),
                 clipped(version, 40));
    for (std::string_view line = header_line(); !line.empty(); line = header_line()) {
      const size_t colon = line.find(':');
      require_data(colon != std::string_view::npos, "{}: expected NAME: VALUE, got '{}'", where(),
                   clipped(line, 40));
      take_field(line.substr(0, colon), trim(line.substr(colon + 1)), header);
    }
    require_data(header.length.has_value(), "{}: has no Content-Length", where());
    require_data(*header.length <= kMaxRecordBytes, "{}: is longer than 1 GiB", where());
    return true;
  }

  void take_field(std::string_view name, std::string_view value, WarcHeader& header) const {
    if (same_name(name, "warc-type")) header.type = value;
    if (same_name(name, "warc-target-uri")) header.url = value;
    if (same_name(name, "warc-date")) header.date = value;
    if (!same_name(name, "content-length")) return;
    size_t length = 0;
    const char* end = value.data() + value.size();
    const auto [at, error] = std::from_chars(value.data(), end, length);
    require_data(error == std::errc() && at == end,
                 "{}: Content-Length: expected a number, got '{}'", where(), clipped(value, 40));
    header.length = length;
  }

  std::string_view take(size_t length) {
    while (buffer_.size() - at_ < length) {
      require_data(more(), "{}: ends within its text; the file is cut off", where());
    }
    const std::string_view body = std::string_view(buffer_).substr(at_, length);
    at_ += length;
    return body;
  }

  Path path_;
  std::unique_ptr<ByteReader> bytes_;
  std::string buffer_;
  size_t at_ = 0;
  int64_t records_ = 0;
};

}  // namespace

std::unique_ptr<ByteReader> open_wet(const Path& path) { return std::make_unique<WetReader>(path); }

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// Crawled pages: WARC files with records of type "response", of which the HTML becomes text.
#include <charconv>
#include <optional>

#include "tephra/base/text.h"
#include "tephra/data/corpus/json_text.h"
#include "tephra/data/formats/charset.h"
#include "tephra/data/formats/document_reader.h"
#include "tephra/data/formats/html_text.h"
#include "tephra/data/formats/warc_records.h"
#include "tephra/io/content_coding.h"

namespace tephra {
namespace {

constexpr size_t kMaxPageBytes = size_t{64} << 20;

struct HttpResponse {
  int status = 0;
  std::string_view type, transfer;
  std::string encoding;  // in lower case
  std::string_view body;
};

std::string_view take_http_line(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::string lower_ascii(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

HttpResponse read_response(std::string_view text) {
  HttpResponse response;
  const std::string_view status = take_http_line(text);
  const size_t space = status.find(' ');
  if (status.starts_with("HTTP/") && space != std::string_view::npos) {
    std::from_chars(status.data() + space + 1, status.data() + status.size(), response.status);
  }
  while (!text.empty()) {
    const std::string_view line = take_http_line(text);
    if (line.empty()) break;
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view name = line.substr(0, colon), value = trim(line.substr(colon + 1));
    if (same_name(name, "content-type")) response.type = value;
    if (same_name(name, "transfer-encoding")) response.transfer = value;
    if (same_name(name, "content-encoding")) response.encoding = lower_ascii(value);
  }
  response.body = text;
  return response;
}

// Chunks put together, of a body that is cut as far as it goes; nothing when it is not that, as in
// crawls that undo it but keep the header.
std::optional<std::string> without_chunks(std::string_view body, bool cut) {
  std::string out;
  for (;;) {
    const std::string_view head = take_http_line(body);
    size_t size = 0;
    const auto [end, error] = std::from_chars(head.data(), head.data() + head.size(), size, 16);
    const bool chunk = error == std::errc() && end != head.data();
    if (!chunk || size > body.size()) {
      if (!cut || (!chunk && out.empty())) return std::nullopt;
      return out += chunk ? body : "";
    }
    if (size == 0) return out;
    out += body.substr(0, size);
    body.remove_prefix(size);
    take_http_line(body);
  }
}

bool is_html(std::string_view type) {
  const std::string_view kind = trim(type.substr(0, type.find(';')));
  return same_name(kind, "text/html") || same_name(kind, "application/xhtml+xml");
}

class WarcReader : public ConvertingReader {
 public:
  explicit WarcReader(const Path& path) : records_(path) {}

  int64_t file_bytes() const override { return records_.file_bytes(); }

 protected:
  bool next_line(std::string& out) override {
    WarcHeader header;
    while (records_.next(header)) {
      const bool page = header.type == "response";
      const char* reason = page ? "too_long" : left_out_record(header.type);
      if (page && header.length <= kMaxPageBytes) {
        reason = append_page(header, records_.body(header), out);
        if (reason == nullptr) return true;
      } else {
        records_.skip_body(header);
      }
      if (reason != nullptr) leave_out(reason);
    }
    return false;
  }

 private:
  // Why there is none; null when it was appended.
  static const char* append_page(const WarcHeader& header, std::string_view record,
                                 std::string& out) {
    const HttpResponse response = read_response(record);
    if (response.status == 0) return "no_http";
    if (response.status < 200 || response.status >= 300) return "status";
    if (!is_html(response.type)) return "no_html";
    std::string_view body = response.body;
    const bool cut = !header.truncated.empty();
    std::optional<std::string> joined;
    if (!response.transfer.empty()) joined = without_chunks(body, cut);
    if (joined) body = *joined;
    DecodedContent unpacked;
    if (!response.encoding.empty()) {
      using End = DecodedContent::End;
      unpacked = decode_content(response.encoding, body, kMaxPageBytes);
      if (unpacked.end == End::too_long) return "too_long";
      if (unpacked.end == End::whole || (unpacked.end == End::cut && cut)) {
        body = unpacked.body;
      } else if (!trim(body).starts_with('<')) {  // some crawls undo it, too, but keep the header
        return "compressed";
      }
    }
    const HtmlText page = html_text(page_as_utf8(body, find_charset(response.type)));
    if (page.text.empty()) return "no_text";
    out += "{\"text\":";
    append_json_string(out, page.text);
    append_text_field(out, "title", page.title);
    append_text_field(out, "url", header.url);
    append_text_field(out, "date", header.date);
    append_text_field(out, "truncated", header.truncated);
    out += "}\n";
    return nullptr;
  }

  WarcRecords records_;
};

}  // namespace

std::unique_ptr<ByteReader> open_warc(const Path& path) {
  return std::make_unique<WarcReader>(path);
}

}  // namespace tephra

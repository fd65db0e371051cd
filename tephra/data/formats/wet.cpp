// SPDX-License-Identifier: Apache-2.0
// Common Crawl's extracted text: WARC files with records of type "conversion".
#include "tephra/base/text.h"
#include "tephra/data/corpus/json_text.h"
#include "tephra/data/formats/document_reader.h"
#include "tephra/data/formats/warc_records.h"
#include "tephra/text/unicode.h"

namespace tephra {
namespace {

class WetReader : public ConvertingReader {
 public:
  explicit WetReader(const Path& path) : records_(path) {}

  int64_t file_bytes() const override { return records_.file_bytes(); }

 protected:
  bool next_line(std::string& out) override {
    WarcHeader header;
    while (records_.next(header)) {
      if (header.type != "conversion") {
        if (const char* reason = left_out_record(header.type)) leave_out(reason);
        records_.skip_body(header);
        continue;
      }
      const std::string_view body = trim(records_.body(header));
      if (body.empty()) {
        leave_out("no_text");
        continue;
      }
      out += "{\"text\":";
      // Bytes that are no UTF-8 cannot stand in JSON.
      append_json_string(out, is_utf8(body) ? body : lossy_utf8(body));
      append_text_field(out, "url", header.url);
      append_text_field(out, "date", header.date);
      out += "}\n";
      return true;
    }
    return false;
  }

 private:
  WarcRecords records_;
};

}  // namespace

void append_text_field(std::string& out, std::string_view name, std::string_view value) {
  if (value.empty()) return;
  out += ',';
  append_json_string(out, name);
  out += ':';
  append_json_string(out, is_utf8(value) ? value : lossy_utf8(value));
}

std::unique_ptr<ByteReader> open_wet(const Path& path) { return std::make_unique<WetReader>(path); }

}  // namespace tephra

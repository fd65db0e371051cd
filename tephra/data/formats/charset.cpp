// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/formats/charset.h"

#include <iconv.h>

#include <algorithm>
#include <cctype>
#include <cerrno>

#include "tephra/base/text.h"
#include "tephra/text/unicode.h"

namespace tephra {
namespace {

constexpr size_t kLookedAt = 1024;  // where HTML wants the encoding to be named
constexpr std::string_view kReplacement = "\xef\xbf\xbd";

class Converter {
 public:
  explicit Converter(const std::string& from) : state_(::iconv_open("UTF-8", from.c_str())) {}
  ~Converter() {
    if (ok()) ::iconv_close(state_);
  }
  Converter(const Converter&) = delete;
  Converter& operator=(const Converter&) = delete;

  bool ok() const { return state_ != reinterpret_cast<iconv_t>(-1); }

  std::string convert(std::string_view bytes) const {
    std::string out(2 * bytes.size() + 16, '\0');
    char* from = const_cast<char*>(bytes.data());
    size_t left = bytes.size(), filled = 0;
    while (left > 0) {
      char* to = out.data() + filled;
      size_t room = out.size() - filled;
      const size_t code = ::iconv(state_, &from, &left, &to, &room);
      filled = out.size() - room;
      if (code != static_cast<size_t>(-1)) break;
      if (errno != E2BIG) {  // a byte that is none of the encoding, or a character cut off
        out.replace(filled, std::min(kReplacement.size(), out.size() - filled), kReplacement);
        filled += kReplacement.size();
        ++from;
        --left;
        ::iconv(state_, nullptr, nullptr, nullptr, nullptr);
      }
      if (out.size() - filled < 16) out.resize(2 * out.size());
    }
    out.resize(filled);
    return out;
  }

 private:
  iconv_t state_;
};

// Names that browsers read as something else than what they say, or that iconv does not know.
std::string iconv_name(std::string_view name) {
  std::string lower;
  for (const char c : name.substr(0, 40)) {
    lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  if (lower == "iso-8859-1" || lower == "latin1" || lower == "us-ascii" || lower == "ascii") {
    return "windows-1252";
  }
  if (lower == "gb2312" || lower == "gbk" || lower == "x-gbk") return "gb18030";
  if (lower == "shift_jis" || lower == "x-sjis" || lower == "sjis") return "cp932";
  if (lower == "ks_c_5601-1987" || lower == "euc-kr") return "cp949";
  if (lower == "iso-8859-9") return "windows-1254";
  return lower;
}

}  // namespace

std::string_view find_charset(std::string_view text) {
  constexpr std::string_view kKey = "charset";
  for (size_t at = 0; at + kKey.size() < text.size(); ++at) {
    bool same = true;
    for (size_t i = 0; i < kKey.size() && same; ++i) {
      same = std::tolower(static_cast<unsigned char>(text[at + i])) == kKey[i];
    }
    if (!same) continue;
    std::string_view rest = trim(text.substr(at + kKey.size()));
    if (!rest.starts_with('=')) continue;
    rest = trim(rest.substr(1));
    if (rest.starts_with('"') || rest.starts_with('\'')) rest.remove_prefix(1);
    size_t size = 0;
    while (size < rest.size() &&
           (std::isalnum(static_cast<unsigned char>(rest[size])) != 0 ||
            std::string_view("-_:.").find(rest[size]) != std::string_view::npos)) {
      ++size;
    }
    return rest.substr(0, size);
  }
  return {};
}

std::string page_as_utf8(std::string_view page, std::string_view header_charset) {
  if (page.starts_with("\xef\xbb\xbf")) page.remove_prefix(3);
  if (is_utf8(page)) return std::string(page);
  std::string_view charset = header_charset;
  if (charset.empty()) charset = find_charset(page.substr(0, kLookedAt));
  const std::string name = charset.empty() ? "windows-1252" : iconv_name(charset);
  if (name == "utf-8" || name == "utf8") return lossy_utf8(page);
  const Converter converter(name);
  if (converter.ok()) {
    const std::string text = converter.convert(page);
    return is_utf8(text) ? text : lossy_utf8(text);
  }
  return lossy_utf8(Converter("windows-1252").convert(page));
}

}  // namespace tephra

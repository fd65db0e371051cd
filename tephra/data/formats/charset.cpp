// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/formats/charset.h"

#include <iconv.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <vector>

#include "tephra/base/text.h"
#include "tephra/text/unicode.h"

namespace tephra {
namespace {

constexpr size_t kLookedAt = 1024;  // where HTML wants the encoding to be named
constexpr std::string_view kReplacement = "\xef\xbf\xbd";

bool is_utf16(std::string_view name) { return name.starts_with("utf-16"); }

class Converter {
 public:
  explicit Converter(const std::string& from)
      : state_(::iconv_open("UTF-8", from.c_str())), unit_(is_utf16(from) ? 2 : 1) {}
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
        const size_t passed = std::min(unit_, left);
        from += passed;
        left -= passed;
        ::iconv(state_, nullptr, nullptr, nullptr, nullptr);
      }
      if (out.size() - filled < 16) out.resize(2 * out.size());
    }
    out.resize(filled);
    return out;
  }

 private:
  iconv_t state_;
  size_t unit_;  // bytes that are passed over at least
};

// Names that browsers read as something else than what they say, or that iconv does not know. The
// first of a row is iconv's.
constexpr std::string_view kCharsets[] = {
    "utf-8 utf8 unicode-1-1-utf-8 x-unicode20utf8",
    "windows-1252 iso-8859-1 iso8859-1 iso_8859-1 latin1 l1 us-ascii ascii ansi_x3.4-1968 cp1252 "
    "cp819 ibm819 x-cp1252",
    "windows-1250 x-cp1250",
    "windows-1251 x-cp1251 win-1251",
    "windows-1253 x-cp1253",
    "windows-1254 iso-8859-9 iso8859-9 latin5 l5 x-cp1254",
    "windows-1255 x-cp1255",
    "windows-1256 x-cp1256",
    "cp874 windows-874 tis-620 iso-8859-11 dos-874",
    "iso-8859-6 iso-8859-6-i iso-8859-6-e",
    "iso-8859-8 iso-8859-8-i iso-8859-8-e logical visual",
    "koi8-r koi koi8 koi8_r",
    "koi8-u koi8-ru",
    "gb18030 gb2312 gbk x-gbk gb_2312-80 gb_2312 chinese csgb2312",
    "cp932 shift_jis shift-jis sjis x-sjis ms_kanji windows-31j ms932",
    "euc-jp x-euc-jp",
    "cp949 euc-kr ks_c_5601-1987 ks_c_5601-1989 ksc5601 korean windows-949",
    "big5-hkscs big5 x-x-big5 cn-big5 csbig5",
    "macintosh mac x-mac-roman",
    "maccyrillic x-mac-cyrillic x-mac-ukrainian",
    "utf-16le utf-16 unicode ucs-2 iso-10646-ucs-2 csunicode unicodefeff",
    "utf-16be unicodefffe",
};

std::string iconv_name(std::string_view name) {
  std::string lower;
  for (const char c : name.substr(0, 40)) {
    lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  for (const std::string_view row : kCharsets) {
    const std::vector<std::string_view> names = split(row, ' ');
    if (std::find(names.begin(), names.end(), lower) != names.end()) return std::string(names[0]);
  }
  return lower;
}

// Bytes of these can look like ASCII and mean something else, so that they are believed.
bool hides_in_ascii(std::string_view name) { return is_utf16(name) || name == "iso-2022-jp"; }

// What the first bytes tell: a byte order mark, or a tag with zeros between.
std::string charset_by_bytes(std::string_view page) {
  if (page.starts_with("\xef\xbb\xbf")) return "utf-8";
  if (page.starts_with("\xff\xfe") || page.starts_with(std::string_view("<\0", 2))) {
    return "utf-16le";
  }
  if (page.starts_with("\xfe\xff") || page.starts_with(std::string_view("\0<", 2))) {
    return "utf-16be";
  }
  return {};
}

// The one that a <meta> names. A page that can be read so far is no UTF-16, whatever it says.
std::string charset_by_page(std::string_view page) {
  page = page.substr(0, kLookedAt);
  const auto same = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
  constexpr std::string_view kMeta = "<meta";
  for (;;) {
    const auto found = std::search(page.begin(), page.end(), kMeta.begin(), kMeta.end(), same);
    if (found == page.end()) return {};
    page.remove_prefix(static_cast<size_t>(found - page.begin()) + kMeta.size());
    const std::string name = iconv_name(find_charset(page.substr(0, page.find('>'))));
    if (!name.empty()) return is_utf16(name) ? "utf-8" : name;
  }
}

std::string charset_of(std::string_view page, std::string_view header_charset) {
  std::string name = charset_by_bytes(page);
  if (name.empty()) name = iconv_name(header_charset);
  // What is UTF-8 is so, whatever a page says.
  if (!hides_in_ascii(name) && is_utf8(page)) {
    if (name.empty()) name = charset_by_page(page);
    return hides_in_ascii(name) ? name : "utf-8";
  }
  if (name.empty()) name = charset_by_page(page);
  return name.empty() ? "windows-1252" : name;
}

std::string valid_utf8(std::string text) { return is_utf8(text) ? text : lossy_utf8(text); }

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
  const std::string name = charset_of(page, header_charset);
  std::string text;
  if (name == "utf-8") {
    text = valid_utf8(std::string(page));
  } else {
    const Converter named(name);
    text = valid_utf8(named.ok() ? named.convert(page) : Converter("windows-1252").convert(page));
  }
  if (text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);
  return text;
}

}  // namespace tephra

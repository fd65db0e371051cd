// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/formats/charset.h"

#include <iconv.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <vector>

#include "tephra/base/log.h"
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

// The encodings of the web's standard and their names there. The first of a row is iconv's. Others
// are not tried: iconv knows many that no page is in and that were never made for hostile bytes.
constexpr std::string_view kCharsets[] = {
    "utf-8 utf8 unicode-1-1-utf-8 x-unicode20utf8",
    "windows-1252 iso-8859-1 iso8859-1 iso_8859-1 latin1 l1 us-ascii ascii cp1252 x-cp1252 cp819",
    "iso-8859-2 iso8859-2 iso_8859-2 latin2 l2",
    "iso-8859-3 iso8859-3 iso_8859-3 latin3 l3",
    "iso-8859-4 iso8859-4 iso_8859-4 latin4 l4",
    "iso-8859-5 iso8859-5 iso_8859-5 cyrillic",
    "iso-8859-6 iso8859-6 iso_8859-6 iso-8859-6-i iso-8859-6-e arabic",
    "iso-8859-7 iso8859-7 iso_8859-7 greek",
    "iso-8859-8 iso8859-8 iso_8859-8 iso-8859-8-i iso-8859-8-e hebrew logical visual",
    "iso-8859-10 iso8859-10 iso_8859-10 latin6 l6",
    "iso-8859-13 iso8859-13 iso_8859-13",
    "iso-8859-14 iso8859-14 iso_8859-14",
    "iso-8859-15 iso8859-15 iso_8859-15 latin9 l9",
    "iso-8859-16 iso8859-16 iso_8859-16",
    "windows-1250 cp1250 x-cp1250",
    "windows-1251 cp1251 x-cp1251 win-1251",
    "windows-1253 cp1253 x-cp1253",
    "windows-1254 cp1254 x-cp1254 iso-8859-9 iso8859-9 iso_8859-9 latin5 l5",
    "windows-1255 cp1255 x-cp1255",
    "windows-1256 cp1256 x-cp1256",
    "windows-1257 cp1257 x-cp1257",
    "windows-1258 cp1258 x-cp1258",
    "cp874 windows-874 tis-620 iso-8859-11 iso8859-11 dos-874",
    "cp866 ibm866 866",
    "koi8-r koi koi8 koi8_r",
    "koi8-u koi8-ru",
    "gb18030 gb2312 gbk x-gbk gb_2312-80 gb_2312 chinese csgb2312",
    "cp932 shift_jis shift-jis sjis x-sjis ms_kanji windows-31j ms932",
    "euc-jp x-euc-jp",
    "iso-2022-jp csiso2022jp",
    "cp949 euc-kr ks_c_5601-1987 ks_c_5601-1989 ksc5601 korean windows-949",
    "big5-hkscs big5 x-x-big5 cn-big5 csbig5",
    "macintosh mac x-mac-roman",
    "maccyrillic x-mac-cyrillic x-mac-ukrainian",
    "utf-16le utf-16 unicode ucs-2 iso-10646-ucs-2 csunicode unicodefeff",
    "utf-16be unicodefffe",
};

// Empty for a name that is none of them.
std::string iconv_name(std::string_view name) {
  std::string lower;
  for (const char c : name.substr(0, 40)) {
    lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  for (const std::string_view row : kCharsets) {
    const std::vector<std::string_view> names = split(row, ' ');
    if (std::find(names.begin(), names.end(), lower) != names.end()) return std::string(names[0]);
  }
  return {};
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

// Without iconv: so are all pages read that name no encoding.
std::string from_windows_1252(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      text += c;
    } else {
      text += to_utf8(windows_1252(byte));
    }
  }
  return text;
}

std::string from_iconv(const std::string& name, std::string_view bytes) {
  const Converter converter(name);
  if (converter.ok()) return converter.convert(bytes);
  warn_once("charset " + name,
            "this machine's iconv has no {}; such pages are read as windows-1252", name);
  return from_windows_1252(bytes);
}

}  // namespace

uint32_t windows_1252(unsigned char byte) {
  constexpr uint32_t kMiddle[32] = {0x20ac, 0x81,   0x201a, 0x0192, 0x201e, 0x2026, 0x2020, 0x2021,
                                    0x02c6, 0x2030, 0x0160, 0x2039, 0x0152, 0x8d,   0x017d, 0x8f,
                                    0x90,   0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014,
                                    0x02dc, 0x2122, 0x0161, 0x203a, 0x0153, 0x9d,   0x017e, 0x0178};
  return byte >= 0x80 && byte < 0xa0 ? kMiddle[byte - 0x80] : byte;
}

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
  std::string text(page);
  if (name == "windows-1252") {
    text = from_windows_1252(page);
  } else if (name != "utf-8") {
    text = from_iconv(name, page);
  }
  if (!is_utf8(text)) text = lossy_utf8(text);
  if (text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);
  return text;
}

}  // namespace tephra

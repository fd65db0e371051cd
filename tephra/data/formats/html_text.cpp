// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/formats/html_text.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <vector>

#include "tephra/base/text.h"
#include "tephra/data/formats/charset.h"
#include "tephra/text/unicode.h"

namespace tephra {
namespace {

constexpr size_t kMaxOpen = 512;  // elements; deeper ones count as flat
constexpr size_t kMaxName = 20;   // longer names are nobody's
constexpr size_t kMaxTitle = 1000;

bool is_one_of(std::string_view name, std::string_view list) {
  if (name.empty()) return false;
  for (size_t at = list.find(name); at != std::string_view::npos; at = list.find(name, at + 1)) {
    const size_t end = at + name.size();
    if ((at == 0 || list[at - 1] == ' ') && (end == list.size() || list[end] == ' ')) return true;
  }
  return false;
}

// Text in these is not for readers, or is the same on every page.
bool is_left_out(std::string_view name) {
  return is_one_of(name,
                   "script style noscript template iframe object svg math canvas audio video nav "
                   "aside footer select button textarea datalist head");
}

// Their content is no markup, up to their end tag.
bool is_raw(std::string_view name) {
  return is_one_of(name, "script style textarea title iframe xmp noembed noframes");
}

bool is_block(std::string_view name) {
  return is_one_of(
      name,
      "p div section article main header footer nav aside h1 h2 h3 h4 h5 h6 ul ol li dl "
      "dt dd table caption thead tbody tr blockquote pre hr br figure figcaption address "
      "fieldset legend details summary form body html title");
}

bool is_cell(std::string_view name) { return is_one_of(name, "td th option"); }

bool is_of_head(std::string_view name) {
  return is_one_of(name, "head title meta link base script style noscript template");
}

// Elements that have no end tag, or need none: they are not kept open.
bool is_not_kept_open(std::string_view name) {
  return is_one_of(
      name,
      "area base br col embed hr img input link meta param source track wbr p li dt dd "
      "tr td th thead tbody option colgroup html body");
}

bool is_html_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Joins spaces and puts at most one newline between blocks.
class TextBuilder {
 public:
  void put(std::string_view piece) {
    for (const char c : piece) {
      if (is_html_space(c)) {
        if (preformatted && c == '\n') {
          newline();
        } else {
          space_ = true;
        }
      } else if (static_cast<unsigned char>(c) >= 0x20 && c != '\x7f') {
        begin_word();
        out += c;
      }
    }
  }
  void put(uint32_t code_point) {
    if (code_point == 0xa0) {
      space_ = true;
    } else {
      put(to_utf8(code_point));
    }
  }
  void space() { space_ = true; }
  void newline() { newline_ = true; }

  bool preformatted = false;
  std::string out;

 private:
  void begin_word() {
    if (!out.empty() && newline_) {
      out += '\n';
    } else if (!out.empty() && space_) {
      out += ' ';
    }
    space_ = newline_ = false;
  }

  bool space_ = false, newline_ = false;
};

// Windows-1252 by number, as browsers read it; surrogates and numbers beyond Unicode become U+FFFD.
uint32_t numbered_character(uint32_t number) {
  if (number >= 0x80 && number < 0xa0) return windows_1252(static_cast<unsigned char>(number));
  if (number == 0 || number > 0x10ffff || (number >= 0xd800 && number < 0xe000)) return 0xfffd;
  return number;
}

struct Entity {
  uint32_t code_point = 0;
  size_t bytes = 0;  // with the ampersand; 0: it is none
};

Entity numbered_entity(std::string_view text) {
  const bool hex = text.size() > 2 && (text[2] == 'x' || text[2] == 'X');
  const size_t begin = hex ? 3 : 2;
  if (begin >= text.size()) return {};
  uint32_t number = 0;
  const char* from = text.data() + begin;
  const char* last = text.data() + std::min(text.size(), begin + 10);
  const auto [end, error] = std::from_chars(from, last, number, hex ? 16 : 10);
  if (end == from) return {};
  if (error != std::errc()) number = 0;
  auto bytes = static_cast<size_t>(end - text.data());
  if (bytes < text.size() && text[bytes] == ';') ++bytes;
  return {numbered_character(number), bytes};
}

// Of text that begins with an ampersand.
Entity read_entity(std::string_view text) {
  if (text.size() > 1 && text[1] == '#') return numbered_entity(text);
  size_t end = 1;
  const auto is_alnum = [](char c) { return is_name_start(c) || (c >= '0' && c <= '9'); };
  while (end < text.size() && end < 12 && is_alnum(text[end])) ++end;
  const uint32_t code_point = html_entity(text.substr(1, end - 1));
  if (code_point == 0) return {};
  return {code_point, end < text.size() && text[end] == ';' ? end + 1 : end};
}

class PageReader {
 public:
  explicit PageReader(std::string_view page) : page_(page) {}

  HtmlText read() {
    while (at_ < page_.size()) {
      const size_t next = std::min(page_.find_first_of("<&", at_), page_.size());
      put(page_.substr(at_, next - at_));
      at_ = next;
      if (at_ == page_.size()) break;
      if (page_[at_] == '&') {
        take_entity();
      } else {
        take_markup();
      }
    }
    if (title_.out.size() > kMaxTitle) {
      title_.out.resize(kMaxTitle);
      title_.out.resize(title_.out.size() - incomplete_utf8_tail(title_.out));
    }
    return {std::move(title_.out), std::move(text_.out)};
  }

 private:
  template <class Piece>
  void put(Piece piece) {
    if (left_out_ == 0) text_.put(piece);
  }

  void take_entity() {
    const Entity entity = read_entity(page_.substr(at_));
    if (entity.bytes == 0) {
      put(std::string_view("&"));
      ++at_;
    } else {
      put(entity.code_point);
      at_ += entity.bytes;
    }
  }

  void skip_past(std::string_view end) {
    const size_t found = page_.find(end, at_);
    at_ = found == std::string_view::npos ? page_.size() : found + end.size();
  }

  void take_markup() {
    const std::string_view rest = page_.substr(at_);
    if (rest.starts_with("<!--")) {
      at_ += 2;  // <!--> is a comment, too
      skip_past("-->");
    } else if (rest.starts_with("<!") || rest.starts_with("<?")) {
      skip_past(">");
    } else if (rest.starts_with("</") && rest.size() > 2 && is_name_start(rest[2])) {
      at_ += 2;
      const std::string name = take_name();
      skip_attributes();
      close(name);
    } else if (rest.size() > 1 && is_name_start(rest[1])) {
      at_ += 1;
      const std::string name = take_name();
      const bool empty = skip_attributes();
      open(name, empty);
    } else {
      put(std::string_view("<"));
      ++at_;
    }
  }

  // In lower case; of a name that is too long, nothing.
  std::string take_name() {
    std::string name;
    const size_t begin = at_;
    while (at_ < page_.size() && !is_html_space(page_[at_]) && page_[at_] != '>' &&
           page_[at_] != '/') {
      const char c = page_[at_++];
      if (name.size() < kMaxName) {
        name += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
      }
    }
    return at_ - begin > kMaxName ? std::string() : name;
  }

  // To the end of the tag; quotes hold '>' only as values. True for <br/>.
  bool skip_attributes() {
    bool slash = false, value = false;
    while (at_ < page_.size()) {
      const char c = page_[at_];
      if (c == '>') {
        ++at_;
        return slash;
      }
      if (value && (c == '"' || c == '\'')) {
        const size_t end = page_.find(c, at_ + 1);
        at_ = end == std::string_view::npos ? page_.size() : end + 1;
        value = slash = false;
        continue;
      }
      slash = c == '/';
      if (!is_html_space(c)) value = c == '=';
      ++at_;
    }
    return slash;
  }

  void open(const std::string& name, bool empty) {
    if (is_block(name)) text_.newline();
    if (is_cell(name)) text_.space();
    if (!is_of_head(name)) leave_head();
    if (is_raw(name)) {
      take_raw(name);
      return;
    }
    if (name == "plaintext") return;
    if (empty || name.empty() || is_not_kept_open(name) || open_.size() == kMaxOpen) return;
    if (name == "pre") text_.preformatted = true;
    const bool out = is_left_out(name);
    left_out_ += out;
    open_.push_back({name, out});
    ++count_[name];
  }

  // The text of a title is kept, other raw text is not.
  void take_raw(const std::string& name) {
    const size_t begin = at_;
    size_t end = begin;
    for (;; ++end) {
      end = std::min(page_.find("</", end), page_.size());
      if (end == page_.size()) break;
      at_ = end + 2;
      if (take_name() == name) break;
    }
    const std::string_view raw = page_.substr(begin, end - begin);
    at_ = end;
    if (end < page_.size()) skip_past(">");
    if (name != "title" || !title_.out.empty() || !in_page_title()) return;
    for (size_t i = 0; i < raw.size() && title_.out.size() <= kMaxTitle;) {
      const size_t next = std::min(raw.find('&', i), raw.size());
      title_.put(raw.substr(i, next - i));
      i = next;
      if (i == raw.size()) break;
      const Entity entity = read_entity(raw.substr(i));
      if (entity.bytes == 0) title_.put(std::string_view("&"));
      if (entity.bytes != 0) title_.put(entity.code_point);
      i += std::max<size_t>(entity.bytes, 1);
    }
  }

  // Pictures have titles of their own.
  bool in_page_title() const { return !count_.contains("svg") || count_.at("svg") == 0; }

  void close(const std::string& name) {
    if (is_block(name)) text_.newline();
    if (is_cell(name)) text_.space();
    const auto found = count_.find(name);
    if (found == count_.end() || found->second == 0) return;
    while (open_.back().name != name) pop();
    pop();
  }

  void pop() {
    const Open& last = open_.back();
    if (last.name == "pre") text_.preformatted = false;
    left_out_ -= last.left_out;
    --count_[last.name];
    open_.pop_back();
  }

  // Whatever does not belong there ends a head that nobody ended.
  void leave_head() {
    if (open_.size() == 1 && open_[0].name == "head") close("head");
  }

  struct Open {
    std::string name;
    bool left_out;
  };

  std::string_view page_;
  size_t at_ = 0;
  TextBuilder text_, title_;
  std::vector<Open> open_;
  std::map<std::string, int> count_;  // of open elements by name
  int left_out_ = 0;                  // of them whose text is
};

}  // namespace

HtmlText html_text(std::string_view page) { return PageReader(page).read(); }

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/jinja_lexer.h"

#include <algorithm>
#include <charconv>

#include "tephra/base/text.h"
#include "tephra/text/jinja_budget.h"
#include "tephra/text/jinja_strings.h"

namespace tephra::jinja {
namespace {

// "\r\n" and "\r" become "\n", and one newline at the very end goes, as jinja2 has it.
std::string normalized(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalized(source)), rest_(source_) {}

  std::vector<Token> run() {
    while (!rest_.empty()) next_part();
    add(TokenKind::end, "");
    return std::move(tokens_);
  }

 private:
  template <class... Args>
  [[noreturn]] void error(FormatString<Args...> message, const Args&... args) const {
    fail("line {}: {}", line_, tephra::format<Args...>(message, args...));
  }

  void add(TokenKind kind, std::string_view text, Value value = {}) {
    tokens_.push_back({kind, line_, std::string(text), std::move(value)});
  }

  std::string_view take(size_t count) {
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    line_ += static_cast<int>(std::count(taken.begin(), taken.end(), '\n'));
    if (!taken.empty()) line_starting_ = taken.back() == '\n';
    return taken;
  }

  void take_space() { take(rest_.size() - stripped_left(rest_).size()); }

  bool take_if(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    take(text.size());
    return true;
  }

  size_t find_tag() const {
    for (size_t at = rest_.find('{'); at != rest_.npos; at = rest_.find('{', at + 1)) {
      if (at + 1 < rest_.size() && std::string_view("%{#").find(rest_[at + 1]) != rest_.npos) {
        return at;
      }
    }
    return rest_.npos;
  }

  // Text up to the next tag, then the tag.
  void next_part() {
    const size_t at = find_tag();
    if (at == rest_.npos) {
      add(TokenKind::data, rest_);
      take(rest_.size());
      return;
    }
    const char kind = rest_[at + 1];
    const char sign = at + 2 < rest_.size() ? rest_[at + 2] : '\0';
    add_data(rest_.substr(0, at), sign, kind == '{');
    take(at);
    take(sign == '-' || sign == '+' ? 3 : 2);
    if (kind == '#') return comment();
    if (kind == '%' && raw()) return;
    add(kind == '%' ? TokenKind::block_begin : TokenKind::variable_begin, "");
    inside(kind == '%' ? '%' : '}');
  }

  // The text before a tag, without what the tag's sign or lstrip_blocks takes away.
  void add_data(std::string_view text, char sign, bool variable) {
    if (sign == '-') {
      text = stripped_right(text);
    } else if (sign != '+' && !variable) {
      const size_t begin = text.rfind('\n') + 1;  // npos + 1 is 0
      const std::string_view tail = text.substr(begin);
      if ((begin > 0 || line_starting_) && stripped_left(tail).empty()) {
        text = text.substr(0, begin);
      }
    }
    if (!text.empty()) add(TokenKind::data, text);
  }

  void comment() {
    if (rest_.empty()) return;  // jinja2 says nothing either
    const size_t end = rest_.find("#}");
    if (end == rest_.npos) error("a comment '{{#' has no end '#}}'");
    const char sign = end > 0 ? rest_[end - 1] : '\0';
    take(end + 2);
    after_tag(sign);
  }

  // Behind a block's or a comment's end: "-" takes all white space, "+" nothing, else one newline.
  void after_tag(char sign) {
    if (sign == '-') {
      take_space();
    } else if (sign != '+') {
      take_if("\n");
    }
  }

  // A whole {% raw %}...{% endraw %}; false when the tag is another one. Behind the first tag
  // only "-" takes anything.
  bool raw() {
    std::string_view tag = stripped_left(rest_);
    if (!tag.starts_with("raw")) return false;
    tag = stripped_left(tag.substr(3));
    const bool trimmed = tag.starts_with("-%}");
    if (!trimmed && !tag.starts_with("%}")) return false;
    take(rest_.size() - tag.size() + (trimmed ? 3 : 2));
    if (trimmed) take_space();
    if (rest_.empty()) return true;
    for (size_t at = 0; (at = rest_.find("{%", at)) != rest_.npos; at += 2) {
      if (end_raw(at)) return true;
    }
    error("a raw block has no {{% endraw %}}");
  }

  bool end_raw(size_t at) {
    std::string_view tag = rest_.substr(at + 2);
    const char sign = tag.starts_with('-') || tag.starts_with('+') ? tag[0] : '\0';
    if (sign != '\0') tag.remove_prefix(1);
    tag = stripped_left(tag);
    if (!tag.starts_with("endraw")) return false;
    tag = stripped_left(tag.substr(6));
    const char end_sign = tag.starts_with('-') || tag.starts_with('+') ? tag[0] : '\0';
    if (end_sign != '\0') tag.remove_prefix(1);
    if (!tag.starts_with("%}")) return false;
    const size_t length = rest_.size() - tag.size() + 2;
    add_data(rest_.substr(0, at), sign, false);
    take(length);
    after_tag(end_sign);
    return true;
  }

  // The tokens of a tag up to its end, "%}" or "}}".
  void inside(char closer) {
    brackets_.clear();
    const std::string end = {closer, '}'};
    while (true) {
      take_space();
      if (rest_.empty()) return;  // the parser says what is missing
      if (brackets_.empty() && ends_tag(closer, end)) return;
      if (is_digit(rest_[0])) {
        number();
      } else if (rest_[0] == '\'' || rest_[0] == '"') {
        string();
      } else if (const size_t length = name_length(rest_); length > 0) {
        add(TokenKind::name, rest_.substr(0, length));
        take(length);
      } else {
        op();
      }
    }
  }

  bool ends_tag(char closer, const std::string& end) {
    const bool block = closer == '%';
    const char sign = rest_[0];
    const bool plain = rest_.starts_with(end);
    if (!plain && !(sign == '-' || (block && sign == '+'))) return false;
    if (!plain && !rest_.substr(1).starts_with(end)) return false;
    add(block ? TokenKind::block_end : TokenKind::variable_end, "");
    take(plain ? 2 : 3);
    if (block) {
      after_tag(plain ? '\0' : sign);
    } else if (!plain) {
      take_space();
    }
    return true;
  }

  // Digits that single underscores may part.
  size_t digits(size_t at, std::string_view allowed = "0123456789") const {
    size_t end = at;
    while (end < rest_.size()) {
      const bool parted = rest_[end] == '_' && end > at && end + 1 < rest_.size();
      const size_t next = end + (parted ? 1 : 0);
      const char c = static_cast<char>(rest_[next] | (rest_[next] >= 'A' ? 0x20 : 0));
      if (allowed.find(c) == allowed.npos) break;
      end = next + 1;
    }
    return end - at;
  }

  void number() {
    if (const size_t length = real_length(); length > 0) return real(length);
    if (rest_[0] == '0' && rest_.size() > 2) {
      const char mark = static_cast<char>(rest_[1] | 0x20);
      const char* allowed = mark == 'b'   ? "01"
                            : mark == 'o' ? "01234567"
                            : mark == 'x' ? "0123456789abcdef"
                                          : nullptr;
      const size_t begin = rest_[2] == '_' ? 3 : 2;
      if (allowed != nullptr && digits(begin, allowed) > 0) {
        return integer(begin, digits(begin, allowed), mark == 'b' ? 2 : mark == 'o' ? 8 : 16);
      }
    }
    integer(0, rest_[0] == '0' ? digits(0, "0") : digits(0), 10);
  }

  void integer(size_t begin, size_t length, int base) {
    std::string plain(rest_.substr(begin, length));
    std::erase(plain, '_');
    int64_t value = 0;
    const auto [end, problem] =
        std::from_chars(plain.data(), plain.data() + plain.size(), value, base);
    if (problem != std::errc()) error("the integer {} does not fit 64 bits", clipped(plain, 60));
    add(TokenKind::integer, "", value);
    take(begin + length);
  }

  size_t exponent_length(size_t at) const {
    if (at >= rest_.size() || (rest_[at] | 0x20) != 'e') return 0;
    const size_t sign = at + 1 < rest_.size() && (rest_[at + 1] == '+' || rest_[at + 1] == '-');
    const size_t length = digits(at + 1 + sign);
    return length > 0 ? 1 + sign + length : 0;
  }

  size_t real_length() const {
    const size_t whole = digits(0);
    size_t end = whole;
    if (end < rest_.size() && rest_[end] == '.') {
      const size_t fraction = digits(end + 1);
      if (fraction > 0) end += 1 + fraction;
    }
    end += exponent_length(end);
    return end > whole ? end : 0;
  }

  void real(size_t length) {
    std::string plain(rest_.substr(0, length));
    std::erase(plain, '_');
    add(TokenKind::real, "", parse_float(plain).value());
    take(length);
  }

  void string() {
    const char quote = rest_[0];
    size_t end = 1;
    while (end < rest_.size() && rest_[end] != quote) end += rest_[end] == '\\' ? 2 : 1;
    if (end >= rest_.size()) error("a string that starts with {} has no end", quote);
    try {
      std::string content = unescaped(rest_.substr(1, end - 1));
      add(TokenKind::string, content, Value::text(content));
    } catch (const Failure& failure) {
      error("{}", failure.what());
    }
    take(end + 1);
  }

  void op() {
    constexpr std::string_view kDouble[] = {"//", "**", "==", "!=", ">=", "<="};
    size_t length = 1;
    for (const std::string_view two : kDouble) {
      if (rest_.starts_with(two)) length = 2;
    }
    const std::string_view text = rest_.substr(0, length);
    if (length == 1 && std::string_view("+-/*%~[](){}><=.:|,;").find(text) == text.npos) {
      error("unexpected character {}", python_quoted(rest_.substr(0, utf8_sequence(rest_))));
    }
    balance(text);
    add(TokenKind::op, text);
    take(length);
  }

  // A "}}" inside of brackets closes a dict, not the tag.
  void balance(std::string_view text) {
    constexpr std::string_view kOpen = "{([", kClose = "})]";
    if (const size_t at = kOpen.find(text); text.size() == 1 && at != kOpen.npos) {
      brackets_ += kClose[at];
    } else if (text.size() == 1 && kClose.find(text) != kClose.npos) {
      if (brackets_.empty()) error("unexpected '{}'", text);
      if (brackets_.back() != text[0]) {
        error("unexpected '{}', expected '{}'", text, brackets_.back());
      }
      brackets_.pop_back();
    }
  }

  std::string source_;
  std::string_view rest_;
  std::vector<Token> tokens_;
  std::string brackets_;
  int line_ = 1;
  bool line_starting_ = true;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace tephra::jinja

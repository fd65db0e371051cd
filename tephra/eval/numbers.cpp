// SPDX-License-Identifier: Apache-2.0
#include "tephra/eval/numbers.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace tephra {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// "007.50" as "7.5", "-0" as "0".
std::string canonical(bool negative, std::string whole, std::string part) {
  whole.erase(0, std::min(whole.find_first_not_of('0'), whole.size()));
  part.erase(part.find_last_not_of('0') + 1);
  if (whole.empty()) whole = "0";
  std::string text = part.empty() ? whole : whole + "." + part;
  return negative && text != "0" ? "-" + text : text;
}

double to_double(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  // Only a value out of range can fail here: nothing that a tolerance could judge.
  return error == std::errc() ? value : std::nan("");
}

// Reads one number from the front of a text.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  size_t at() const { return at_; }

  std::optional<Number> number() {
    const bool outer = sign();
    currency();
    const bool negative = sign() || outer;
    Number n;
    if (!latex_fraction(n) && !decimal(n)) return std::nullopt;
    if (negative) {
      n.value = -n.value;
      if (!n.decimal.empty() && n.decimal != "0") n.decimal = "-" + n.decimal;
    }
    n.text = text_.substr(0, at_);
    return n;
  }

 private:
  bool take(std::string_view piece) {
    if (!text_.substr(at_).starts_with(piece)) return false;
    at_ += piece.size();
    return true;
  }
  char peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }

  // Whether there is a minus; a plus is read over.
  bool sign() { return take("-") || take("\u2212") || (take("+") && false); }
  void currency() {
    for (const char* mark : {"\\$", "$", "\u20ac", "\u00a3"}) {
      if (take(mark)) return;
    }
  }

  std::string digits() {
    const size_t begin = at_;
    while (is_digit(peek())) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  // Exactly three digits after a separator of thousands.
  bool thousands(std::string& whole) {
    const size_t before = at_;
    if (!take(",") && !take("{,}") && !take("\\,")) return false;
    const std::string group = digits();
    if (group.size() == 3) {
      whole += group;
      return true;
    }
    at_ = before;
    return false;
  }

  std::string whole_part() {
    std::string whole = digits();
    const size_t plain = at_;
    if (whole.empty() || whole.size() > 3) return whole;
    std::string grouped = whole;
    while (thousands(grouped)) {
    }
    // "1,234,5" is a list of numbers that starts with 1.
    if (peek() == ',' && is_digit(peek(1))) {
      at_ = plain;
      return whole;
    }
    return grouped;
  }

  bool decimal(Number& n) {
    const std::string whole = whole_part();
    std::string part;
    if (peek() == '.' && is_digit(peek(1))) {
      ++at_;
      part = digits();
    }
    if (whole.empty() && part.empty()) return false;
    n.decimal = canonical(false, whole, part);
    n.value = to_double(n.decimal);
    if (part.empty() && slash(n)) return true;
    exponent(n);
    return true;
  }

  void exponent(Number& n) {
    const size_t before = at_;
    if (!take("e") && !take("E")) return;
    std::string power = take("-") ? "-" : (take("+"), "");
    const std::string figures = digits();
    if (figures.empty() || is_letter(peek())) {
      at_ = before;
      return;
    }
    n.value = to_double(n.decimal + "e" + power + figures);
    n.decimal.clear();
  }

  // "3/4", but not the start of a date: "3/4/2024".
  bool slash(Number& n) {
    const size_t before = at_;
    take(" ");
    if (take("/")) {
      take(" ");
      const std::string below = digits();
      if (!below.empty() && to_double(below) != 0 && peek() != '/') {
        n.value /= to_double(below);
        n.decimal.clear();
        return true;
      }
    }
    at_ = before;
    return false;
  }

  bool latex_fraction(Number& n) {
    const size_t before = at_;
    if (take("\\frac") || take("\\dfrac") || take("\\tfrac")) {
      const std::optional<double> above = braces(), below = above ? braces() : std::nullopt;
      if (below && *below != 0) {
        n.value = *above / *below;
        return true;
      }
    }
    at_ = before;
    return false;
  }

  std::optional<double> braces() {
    if (!take("{")) return std::nullopt;
    Reader inner(text_.substr(at_));
    const std::optional<Number> number = inner.number();
    if (!number) return std::nullopt;
    at_ += inner.at();
    return take("}") ? std::optional(number->value) : std::nullopt;
  }

  std::string_view text_;
  size_t at_ = 0;
};

// Whether a number may start after this character.
bool opens(char before) { return !is_digit(before) && !is_letter(before); }

bool is_minus(std::string_view text) {
  return text.starts_with('-') || text.starts_with('+') || text.starts_with("\u2212");
}

}  // namespace

std::vector<Number> numbers_in(std::string_view text) {
  std::vector<Number> numbers;
  for (size_t i = 0; i < text.size();) {
    const char before = i > 0 ? text[i - 1] : ' ';
    const std::string_view rest = text.substr(i);
    const bool joins = is_minus(rest) && (before == ')' || before == '}' || before == ']');
    Reader reader(rest);
    if (opens(before) && !joins) {
      if (std::optional<Number> number = reader.number()) {
        numbers.push_back(std::move(*number));
        i += reader.at();
        continue;
      }
    }
    // The rest of a name or of an unreadable number is skipped whole.
    if (is_digit(rest[0])) {
      while (i < text.size() && is_digit(text[i])) ++i;
    } else {
      ++i;
    }
  }
  return numbers;
}

bool same_number(const Number& got, const Number& want, double tolerance) {
  if (!got.decimal.empty() && got.decimal == want.decimal) return true;
  if (got.integer() && want.integer()) return false;
  return std::abs(got.value - want.value) <= tolerance * std::abs(want.value);
}

}  // namespace tephra

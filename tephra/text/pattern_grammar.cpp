// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/pattern_grammar.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <vector>

#include "tephra/base/error.h"
#include "tephra/base/text.h"

namespace tephra {
namespace {

using Place = ByteGrammar::Place;
constexpr uint32_t kLastCharacter = 0x10ffff;
constexpr int kMostRepeats = 1024;
constexpr int kMostDepth = 50;

struct Range {
  uint32_t low, high;
};
using Characters = std::vector<Range>;

Characters sorted(Characters set) {
  std::sort(set.begin(), set.end(), [](Range a, Range b) { return a.low < b.low; });
  Characters joined;
  for (const Range r : set) {
    if (!joined.empty() && r.low <= joined.back().high + 1) {
      joined.back().high = std::max(joined.back().high, r.high);
    } else {
      joined.push_back(r);
    }
  }
  return joined;
}

Characters opposite(const Characters& set) {
  Characters result;
  uint32_t from = 0;
  for (const Range r : sorted(set)) {
    if (r.low > from) result.push_back({from, r.low - 1});
    from = r.high + 1;
  }
  if (from <= kLastCharacter) result.push_back({from, kLastCharacter});
  return result;
}

const Characters kDigits = {{'0', '9'}};
const Characters kWord = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const Characters kSpace = {{'\t', '\r'}, {' ', ' '}, {0xa0, 0xa0}, {0x2028, 0x2029}};
const Characters kNewlines = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

struct Node {
  enum class Kind { characters, sequence, choice, repeat } kind = Kind::sequence;
  Characters characters = {};
  std::vector<Node> parts = {};
  int least = 0, most = -1;  // of a repeat; -1: no end
};

class PatternParser {
 public:
  PatternParser(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  struct Whole {
    Node node;
    bool from_start, to_end;
  };

  Whole parse() {
    Whole whole{.node = {}, .from_start = take('^'), .to_end = false};
    // A lone alternative at the top cannot be anchored on one side alone.
    whole.node = alternatives(0);
    whole.to_end = take('$');
    check(text_.empty(), "unexpected");
    const bool several = whole.node.kind == Node::Kind::choice;
    check(!several || (!whole.from_start && !whole.to_end), "put alternatives into a group");
    return whole;
  }

 private:
  void check(bool ok, const char* what) const {
    require(ok, "schema {}: pattern: {} before '{}'; see docs/serving.md for what is understood",
            where_, what, clipped(text_, 40));
  }
  bool take(char c) {
    if (!text_.starts_with(c)) return false;
    text_.remove_prefix(1);
    return true;
  }

  Node alternatives(int depth) {
    check(depth < kMostDepth, "too many groups");
    Node choice{.kind = Node::Kind::choice};
    do {
      choice.parts.push_back(sequence(depth));
    } while (take('|'));
    return choice.parts.size() == 1 ? choice.parts[0] : choice;
  }

  Node sequence(int depth) {
    Node all;
    while (!text_.empty() && text_[0] != '|' && text_[0] != ')' && text_[0] != '$') {
      all.parts.push_back(repeated(depth));
    }
    return all;
  }

  Node repeated(int depth) {
    Node one = atom(depth);
    int least = 1, most = 1;
    if (take('*')) {
      least = 0;
      most = -1;
    } else if (take('+')) {
      most = -1;
    } else if (take('?')) {
      least = 0;
    } else if (text_.starts_with('{')) {
      counts(least, most);
    } else {
      return one;
    }
    take('?');  // which match is preferred does not matter here
    check(text_.empty() || std::string_view("*+?{").find(text_[0]) == std::string_view::npos,
          "a repeat of a repeat");
    return {.kind = Node::Kind::repeat, .parts = {std::move(one)}, .least = least, .most = most};
  }

  void counts(int& least, int& most) {
    take('{');
    check(number(least), "expected a count");
    most = least;
    if (take(',')) {
      if (!number(most)) most = -1;
    }
    check(take('}') && (most < 0 || least <= most), "expected {m}, {m,} or {m,n}");
  }
  bool number(int& value) {
    if (text_.empty() || text_[0] < '0' || text_[0] > '9') return false;
    value = 0;
    while (!text_.empty() && text_[0] >= '0' && text_[0] <= '9') {
      value = value * 10 + (text_[0] - '0');
      text_.remove_prefix(1);
      check(value <= kMostRepeats, "too many repeats");
    }
    return true;
  }

  Node atom(int depth) {
    if (take('(')) {
      check(!text_.starts_with("?") || text_.starts_with("?:"), "look-around or a named group");
      if (take('?')) take(':');
      Node inside = alternatives(depth + 1);
      check(take(')'), "expected )");
      return inside;
    }
    if (take('.')) return characters(opposite(kNewlines));
    if (take('[')) return characters(char_class());
    check(std::string_view("*+?{}])^").find(text_[0]) == std::string_view::npos, "unexpected");
    if (take('\\')) return characters(escape());
    return characters({{character(), last_}});
  }
  static Node characters(Characters set) {
    return {.kind = Node::Kind::characters, .characters = sorted(std::move(set))};
  }

  // The next character; it is kept in last_, too.
  uint32_t character() {
    const size_t bytes = utf8_sequence(text_);
    check(bytes > 0, "expected a character");
    const auto at = [&](size_t i) { return static_cast<unsigned char>(text_[i]); };
    static constexpr uint32_t kMask[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    last_ = at(0) & kMask[bytes];
    for (size_t i = 1; i < bytes; ++i) last_ = last_ << 6 | (at(i) & 0x3f);
    text_.remove_prefix(bytes);
    return last_;
  }

  Characters escape() {
    check(!text_.empty(), "expected something behind \\");
    const char c = text_[0];
    text_.remove_prefix(1);
    switch (c) {
      case 'd':
        return kDigits;
      case 'D':
        return opposite(kDigits);
      case 'w':
        return kWord;
      case 'W':
        return opposite(kWord);
      case 's':
        return kSpace;
      case 'S':
        return opposite(kSpace);
      case 'n':
        return {{'\n', '\n'}};
      case 'r':
        return {{'\r', '\r'}};
      case 't':
        return {{'\t', '\t'}};
      case 'f':
        return {{'\f', '\f'}};
      case 'v':
        return {{'\v', '\v'}};
      case 'x':
        return code_point(2);
      case 'u':
        return code_point(4);
      default:
        break;
    }
    const bool punctuation = (c >= '!' && c <= '/') || (c >= ':' && c <= '@') ||
                             (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
    check(punctuation, "an escape that is not understood");
    const auto code = static_cast<uint32_t>(static_cast<unsigned char>(c));
    return {{code, code}};
  }

  // The digits of \xHH or \uHHHH.
  Characters code_point(size_t digits) {
    uint32_t code = 0;
    const char* end = text_.data() + std::min(digits, text_.size());
    const auto [at, error] = std::from_chars(text_.data(), end, code, 16);
    check(text_.size() >= digits && error == std::errc() && at == end,
          digits == 2 ? "expected two hexadecimal digits" : "expected four hexadecimal digits");
    check(code < 0xd800 || code > 0xdfff, "half of a surrogate pair; write the character itself");
    text_.remove_prefix(digits);
    return {{code, code}};
  }

  Characters char_class() {
    const bool negated = take('^');
    Characters set;
    while (!take(']')) {
      check(!text_.empty(), "expected ]");
      Characters part = class_part();
      const bool range = text_.size() > 1 && text_[0] == '-' && text_[1] != ']';
      if (range) {
        take('-');
        const Characters end = class_part();
        check(part.size() == 1 && part[0].low == part[0].high && end.size() == 1 &&
                  end[0].low == end[0].high && part[0].low <= end[0].low,
              "expected a range from a smaller character to a larger");
        part[0].high = end[0].high;
      }
      set.insert(set.end(), part.begin(), part.end());
    }
    return negated ? opposite(set) : set;
  }
  Characters class_part() {
    if (take('\\')) return escape();
    const uint32_t c = character();
    return {{c, c}};
  }

  std::string_view text_;
  const std::string& where_;
  uint32_t last_ = 0;
};

class PatternWriter {
 public:
  PatternWriter(ByteGrammar& g, bool escape_less) : g_(g) {
    if (escape_less) escaped_.push_back({'<', '<'});
    plain_ = escaped_;
    plain_.push_back({0xd800, 0xdfff});  // surrogates
    plain_ = opposite(plain_);
  }

  Place write(const Node& node, Place next) {
    switch (node.kind) {
      case Node::Kind::characters:
        return write_characters(node.characters, next);
      case Node::Kind::sequence:
        for (size_t i = node.parts.size(); i-- > 0;) next = write(node.parts[i], next);
        return next;
      case Node::Kind::choice: {
        std::vector<Place> places;
        for (const Node& part : node.parts) places.push_back(write(part, next));
        return g_.any_of(places);
      }
      case Node::Kind::repeat:
        return write_repeat(node, next);
    }
    return next;
  }

 private:
  Place write_repeat(const Node& node, Place next) {
    const Node& one = node.parts[0];
    Place rest = next;
    if (node.most < 0) {
      const Place loop = g_.later();
      g_.set(loop, g_.either(next, write(one, loop)));
      rest = loop;
    }
    for (int i = node.least; i < node.most; ++i) rest = g_.either(next, write(one, rest));
    for (int i = 0; i < node.least; ++i) rest = write(one, rest);
    return rest;
  }

  // As a JSON string spells them: some only escaped, the others as they are.
  Place write_characters(const Characters& set, Place next) {
    std::vector<Place> places;
    for (const Range r : set) {
      for (const Range part : common(r, escaped_)) {
        for (uint32_t c = part.low; c <= part.high; ++c) places.push_back(escaped(c, next));
      }
      for (const Range part : common(r, plain_)) utf8(part, next, places);
    }
    return places.empty() ? g_.never() : g_.any_of(places);
  }

  static Characters common(Range r, const Characters& set) {
    Characters parts;
    for (const Range each : set) {
      const Range part{std::max(r.low, each.low), std::min(r.high, each.high)};
      if (part.low <= part.high) parts.push_back(part);
    }
    return parts;
  }

  Place escaped(uint32_t c, Place next) {
    const char* short_form = c == '"'    ? "\\\""
                             : c == '\\' ? "\\\\"
                             : c == '\n' ? "\\n"
                             : c == '\r' ? "\\r"
                             : c == '\t' ? "\\t"
                                         : nullptr;
    return g_.literal(short_form != nullptr ? short_form : format("\\u{:04x}", c), next);
  }

  // Ranges of equal length in bytes whose encodings form a box.
  void utf8(Range r, Place next, std::vector<Place>& places) {
    static constexpr uint32_t kLast[] = {0x7f, 0x7ff, 0xffff, kLastCharacter};
    for (const uint32_t last : kLast) {
      if (r.low <= last && r.high > last) {
        utf8({r.low, last}, next, places);
        return utf8({last + 1, r.high}, next, places);
      }
    }
    if (r.high <= 0x7f) {
      places.push_back(
          g_.byte(static_cast<unsigned char>(r.low), static_cast<unsigned char>(r.high), next));
      return;
    }
    for (const int bits : {6, 12, 18}) {
      const uint32_t mask = (1u << bits) - 1;
      if (r.high >> bits == r.low >> bits) break;
      if ((r.low & mask) != 0) {
        utf8({r.low, r.low | mask}, next, places);
        return utf8({(r.low | mask) + 1, r.high}, next, places);
      }
      if ((r.high & mask) != mask) {
        utf8({r.low, (r.high & ~mask) - 1}, next, places);
        return utf8({r.high & ~mask, r.high}, next, places);
      }
    }
    const std::string low = encoded(r.low), high = encoded(r.high);
    for (size_t i = low.size(); i-- > 0;) {
      next = g_.byte(static_cast<unsigned char>(low[i]), static_cast<unsigned char>(high[i]), next);
    }
    places.push_back(next);
  }

  static std::string encoded(uint32_t c) {
    const auto tail = [&](int shift) { return static_cast<char>(0x80 | (c >> shift & 0x3f)); };
    if (c <= 0x7ff) return {static_cast<char>(0xc0 | c >> 6), tail(0)};
    if (c <= 0xffff) return {static_cast<char>(0xe0 | c >> 12), tail(6), tail(0)};
    return {static_cast<char>(0xf0 | c >> 18), tail(12), tail(6), tail(0)};
  }

  ByteGrammar& g_;
  Characters escaped_ = {{0, 0x1f}, {'"', '"'}, {'\\', '\\'}}, plain_;
};

#define TEPHRA_DATE                                                                            \
  "[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(" \
  "0[1-9]|1[0-9]|2[0-8]))"
#define TEPHRA_TIME                                                                         \
  "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5]" \
  "[0-9])"

}  // namespace

Place pattern_grammar(ByteGrammar& g, std::string_view pattern, const std::string& where,
                      const PatternText& text, Place next) {
  const PatternParser::Whole whole = PatternParser(pattern, where).parse();
  if (!whole.to_end) next = g.call(text.any, next);
  const Place inside = PatternWriter(g, text.escape_less).write(whole.node, next);
  return whole.from_start ? inside : g.call(text.any, inside);
}

std::string_view pattern_of_format(std::string_view format) {
  if (format == "date") return "^" TEPHRA_DATE "$";
  if (format == "time") return "^" TEPHRA_TIME "$";
  if (format == "date-time") return "^" TEPHRA_DATE "T" TEPHRA_TIME "$";
  if (format == "uuid") {
    return "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$";
  }
  if (format == "email") {
    return "^[A-Za-z0-9_+-]{1,30}(\\.[A-Za-z0-9_+-]{1,30})?@[A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z0-"
           "9])?(\\.[A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?){1,3}$";
  }
  if (format == "ipv4") {
    return "^((25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\\.){3}(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-"
           "9]?[0-9])$";
  }
  return {};
}

#undef TEPHRA_DATE
#undef TEPHRA_TIME

}  // namespace tephra

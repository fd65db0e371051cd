// SPDX-License-Identifier: Apache-2.0
// The parts that every JSON text is made of.
#include "tephra/text/json_grammar.h"

#include <limits>

#include "tephra/text/integer_range.h"
#include "tephra/text/schema_compiler.h"

namespace tephra {

using Place = ByteGrammar::Place;
constexpr Place kDone = ByteGrammar::kReturn;

JsonGrammar::JsonGrammar(ByteGrammar& grammar, std::vector<std::string> never)
    : g_(grammar),
      never_(std::move(never)),
      space_(g_.new_rule()),
      character_(g_.new_rule()),
      text_(g_.new_rule()),
      free_(g_.new_rule()),
      string_(g_.new_rule()),
      integer_(g_.new_rule()),
      number_(g_.new_rule()),
      value_(g_.new_rule()),
      object_(g_.new_rule()),
      array_(g_.new_rule()) {
  define_basics();
  define_string();
  define_number();
  define_containers();
}

JsonGrammar::Rule JsonGrammar::value_of(const Json& schema, const Json& root,
                                        const std::string& where) {
  return SchemaCompiler(*this, root).compile(schema, where);
}

// One space, or a new line with some indentation: enough for every style, and no endless run of
// blanks that a model could fall into.
void JsonGrammar::define_basics() {
  constexpr int kIndentation = 32;
  Place blanks = kDone;
  for (int i = 0; i < kIndentation; ++i) {
    blanks = g_.either(kDone, g_.any_of({g_.byte(' ', ' ', blanks), g_.byte('\t', '\t', blanks)}));
  }
  g_.define(space_, g_.any_of({kDone, g_.byte(' ', ' ', kDone), g_.byte('\n', '\n', blanks)}));
}

namespace {

Place hex_digits(ByteGrammar& g, int count, Place next) {
  for (int i = 0; i < count; ++i) {
    next = g.any_of({g.byte('0', '9', next), g.byte('a', 'f', next), g.byte('A', 'F', next)});
  }
  return next;
}

}  // namespace

// One character of a string: UTF-8 (no overlong form, no surrogate), or an escape.
Place JsonGrammar::characters_without(const std::set<unsigned char>& ascii) const {
  const Place tail1 = g_.byte(0x80, 0xbf, kDone);
  const Place tail2 = g_.byte(0x80, 0xbf, tail1);
  const Place tail3 = g_.byte(0x80, 0xbf, tail2);
  std::vector<Place> escapes = {g_.byte(
      'u', 'u',
      g_.any_of(
          {g_.byte('0', '9', hex_digits(g_, 3, kDone)), g_.byte('a', 'c', hex_digits(g_, 3, kDone)),
           g_.byte('A', 'C', hex_digits(g_, 3, kDone)), g_.byte('e', 'f', hex_digits(g_, 3, kDone)),
           g_.byte('E', 'F', hex_digits(g_, 3, kDone)),
           g_.literal("d", g_.byte('0', '7', hex_digits(g_, 2, kDone))),
           g_.literal("D", g_.byte('0', '7', hex_digits(g_, 2, kDone)))}))};
  for (const char* c = "\"\\/bfnrt"; *c != '\0'; ++c) {
    escapes.push_back(g_.literal(std::string_view(c, 1), kDone));
  }
  std::vector<Place> places = {
      g_.byte(0xc2, 0xdf, tail1),
      g_.byte(0xe0, 0xe0, g_.byte(0xa0, 0xbf, tail1)),
      g_.byte(0xe1, 0xec, tail2),
      g_.byte(0xed, 0xed, g_.byte(0x80, 0x9f, tail1)),
      g_.byte(0xee, 0xef, tail2),
      g_.byte(0xf0, 0xf0, g_.byte(0x90, 0xbf, tail2)),
      g_.byte(0xf1, 0xf3, tail3),
      g_.byte(0xf4, 0xf4, g_.byte(0x80, 0x8f, tail2)),
      g_.byte('\\', '\\', g_.any_of(escapes)),
  };
  std::set<unsigned char> gaps = ascii;
  gaps.insert({'"', '\\', 0x80});
  unsigned char from = 0x20;
  for (const unsigned char gap : gaps) {
    if (from < gap) places.push_back(g_.byte(from, static_cast<unsigned char>(gap - 1), kDone));
    from = static_cast<unsigned char>(gap + 1);
  }
  return g_.any_of(places);
}

void JsonGrammar::define_string() {
  std::set<unsigned char> escaped, own;
  if (escapes('<')) escaped = {'<'};
  for (const std::string& marker : never_) own.insert(marker.begin(), marker.end());
  g_.define(character_, characters_without(escaped));
  const Place loop = g_.later();
  g_.set(loop, g_.either(kDone, g_.call(character_, loop)));
  g_.define(text_, loop);
  if (never_.empty()) {
    g_.define(free_, loop);
  } else {
    const Rule other = g_.new_rule();
    g_.define(other, characters_without(own));
    g_.define(free_, g_.without(never_, other, kDone));
  }
  g_.define(string_, g_.literal("\"", string_body(g_.literal("\"", kDone))));
}

Place JsonGrammar::string_body(Place next) const { return g_.call(free_, next); }

std::string JsonGrammar::spelled(const Json& value) const {
  std::string text;
  for (const char c : value.dump()) {
    if (escapes(static_cast<unsigned char>(c))) {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

// Every reader's numbers: integers of 64 bits, and what a double holds.
void JsonGrammar::define_number() {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  g_.define(integer_, integer_range(g_, -kMost, kMost, kDone));
  const auto digit = [&](Place next) { return g_.byte('0', '9', next); };
  const Place two = digit(g_.either(kDone, digit(kDone)));  // one or two, that is
  // At most 10^289 times the 19 digits before the point.
  const Place large = g_.any_of({two, g_.literal("1", digit(digit(kDone))),
                                 g_.literal("2", g_.byte('0', '8', digit(kDone)))});
  const Place small = digit(g_.either(kDone, two));
  const Place sign = g_.any_of({large, g_.literal("+", large), g_.literal("-", small)});
  const Place power = g_.any_of({kDone, g_.literal("e", sign), g_.literal("E", sign)});
  const Place fraction = g_.later();
  g_.set(fraction, g_.either(power, digit(fraction)));
  const Place behind = g_.either(power, g_.literal(".", digit(fraction)));
  constexpr int kDigits = 19;
  Place whole = behind;
  for (int i = 1; i < kDigits; ++i) whole = g_.either(behind, digit(whole));
  const Place natural = g_.either(g_.literal("0", behind), g_.byte('1', '9', whole));
  g_.define(number_, g_.either(natural, g_.literal("-", natural)));
}

void JsonGrammar::define_containers() {
  const auto member = [&](Place next) {
    return g_.call(string_, g_.literal(":", g_.call(space_, g_.call(value_, next))));
  };
  const auto list = [&](const char* open, const char* close, auto&& item) {
    const Place end = g_.call(space_, g_.literal(close, kDone));
    const Place more = g_.later();
    g_.set(more, g_.either(end, g_.literal(",", g_.call(space_, item(more)))));
    const Place first = g_.call(space_, item(more));
    return g_.literal(open, g_.either(end, first));
  };
  g_.define(object_, list("{", "}", member));
  g_.define(array_, list("[", "]", [&](Place next) { return g_.call(value_, next); }));
  g_.define(value_,
            g_.any_of({g_.call(object_, kDone), g_.call(array_, kDone), g_.call(string_, kDone),
                       g_.call(number_, kDone), g_.literal("true", kDone),
                       g_.literal("false", kDone), g_.literal("null", kDone)}));
}

}  // namespace tephra

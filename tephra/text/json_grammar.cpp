// SPDX-License-Identifier: Apache-2.0
// The parts that every JSON text is made of.
#include "tephra/text/json_grammar.h"

#include "tephra/text/schema_compiler.h"

namespace tephra {

using Place = ByteGrammar::Place;
constexpr Place kDone = ByteGrammar::kReturn;

JsonGrammar::JsonGrammar(ByteGrammar& grammar)
    : g_(grammar),
      space_(g_.new_rule()),
      character_(g_.new_rule()),
      text_(g_.new_rule()),
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
void JsonGrammar::define_string() {
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
  g_.define(character_,
            g_.any_of({g_.byte(0x20, '"' - 1, kDone), g_.byte('"' + 1, '\\' - 1, kDone),
                       g_.byte('\\' + 1, 0x7f, kDone), g_.byte(0xc2, 0xdf, tail1),
                       g_.byte(0xe0, 0xe0, g_.byte(0xa0, 0xbf, tail1)), g_.byte(0xe1, 0xec, tail2),
                       g_.byte(0xed, 0xed, g_.byte(0x80, 0x9f, tail1)), g_.byte(0xee, 0xef, tail2),
                       g_.byte(0xf0, 0xf0, g_.byte(0x90, 0xbf, tail2)), g_.byte(0xf1, 0xf3, tail3),
                       g_.byte(0xf4, 0xf4, g_.byte(0x80, 0x8f, tail2)),
                       g_.byte('\\', '\\', g_.any_of(escapes))}));
  g_.define(text_, string_body(kDone));
  g_.define(string_, g_.literal("\"", string_body(g_.literal("\"", kDone))));
}

Place JsonGrammar::string_body(Place next) const {
  const Place loop = g_.later();
  g_.set(loop, g_.either(next, g_.call(character_, loop)));
  return loop;
}

void JsonGrammar::define_number() {
  const auto digits = [&](Place next) {  // one or more
    const Place more = g_.later();
    g_.set(more, g_.either(next, g_.byte('0', '9', more)));
    return g_.byte('0', '9', more);
  };
  const auto whole = [&](Place next) {
    const Place more = g_.later();
    g_.set(more, g_.either(next, g_.byte('0', '9', more)));
    const Place unsigned_part = g_.either(g_.literal("0", next), g_.byte('1', '9', more));
    return g_.either(unsigned_part, g_.literal("-", unsigned_part));
  };
  g_.define(integer_, whole(kDone));
  const Place power_digits = digits(kDone);
  const Place sign =
      g_.any_of({power_digits, g_.literal("+", power_digits), g_.literal("-", power_digits)});
  const Place power = g_.any_of({kDone, g_.literal("e", sign), g_.literal("E", sign)});
  g_.define(number_, whole(g_.either(power, g_.literal(".", digits(power)))));
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

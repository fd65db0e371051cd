// SPDX-License-Identifier: Apache-2.0
// What a template may not do, and how it is told: hostile templates end in an error, and errors
// name line, thing and nearest known thing.
#include <gtest/gtest.h>

#include "tephra/base/json.h"
#include "tephra/text/chat_template.h"
#include "tests/support/error_of.h"

namespace tephra {
namespace {

std::string render(const std::string& source, const ChatOptions& options = {}) {
  return ChatTemplate::parse(source, "t").render_variables(Json::Object{}, options);
}

std::string repeated(const std::string& part, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += part;
  return out;
}

void expect_fault(const std::string& source, Fault fault, const std::string& words,
                  const ChatOptions& options = {}) {
  SCOPED_TRACE(source.substr(0, 200));
  try {
    const std::string text = render(source, options);
    ADD_FAILURE() << "rendered: " << text.substr(0, 200);
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), fault);
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

TEST(JinjaErrors, NameLineThingAndNearestName) {
  expect_fault("a\n{{ x | uper }}", Fault::data,
               "t: line 2: there is no filter 'uper'; did you mean 'upper'?");
  expect_fault("\n\n{{ x is definde }}", Fault::data,
               "line 3: there is no test 'definde'; did you mean 'defined'?");
  expect_fault("{% fro x in y %}", Fault::data,
               "line 1: there is no tag 'fro'; did you mean 'for'?");
  expect_fault("{{ 'a'.uper() }}", Fault::data,
               "a str has no attribute 'uper'; did you mean 'upper'?");
  expect_fault("{{ nowhere.x }}", Fault::data, "'nowhere' is undefined");
  expect_fault("{% include 'x' %}", Fault::data, "the tag 'include' is not supported");
  expect_fault("{{ 'a' | pprint }}", Fault::data, "the filter 'pprint' is not supported");
  expect_fault("{{ 'a'.encode() }}", Fault::data,
               "the attribute 'encode' of a str is not supported");
  expect_fault("a\nb{% if true %}\n", Fault::data,
               "line 2: the block that starts here has no {% endif %}");
  expect_fault("{% for x in [] %}{% endif %}", Fault::data,
               "unexpected tag 'endif'; the innermost open block ends with 'endfor'");
  expect_fault("{{ [].append(1) }}", Fault::data, "'append' would change a list");
  expect_fault("{{ 'a' + 1 }}", Fault::data,
               "'+' is not defined between str and int; '~' joins anything as text");
  expect_fault("{{ 'x' | indent(nope=1) }}", Fault::data, "'indent' has no argument named 'nope'");
  expect_fault("{{ 1 +\n\n }}", Fault::data, "line 3: expected an expression");
  expect_fault("{{ raise_exception('Roles must alternate') }}", Fault::usage,
               "t: line 1: Roles must alternate");
  expect_fault("{{ 9223372036854775807 + 1 }}", Fault::data, "does not fit 64 bits");
  expect_fault("{{ 99999999999999999999 }}", Fault::data, "does not fit 64 bits");
}

// Limits that are reached at once also under a sanitizer.
ChatOptions small() {
  ChatOptions options;
  options.max_steps = 300'000;
  options.max_value_bytes = 16 << 20;
  options.max_output_bytes = 1 << 20;
  return options;
}

TEST(JinjaLimits, WorkIsBounded) {
  expect_fault("{% for a in range(9999) %}{% for b in range(999) %}{% endfor %}{% endfor %}",
               Fault::data, "more than", small());
  expect_fault("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", Fault::data, "nest too deep",
               small());
  expect_fault("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", Fault::data,
               "nest too deep", small());
  expect_fault("{{ range(10000000) }}", Fault::data, "'range' of more than 100000 numbers",
               small());
  expect_fault("{{ range(-9223372036854775807, 9223372036854775807) }}", Fault::data,
               "'range' of more than", small());
  expect_fault(
      "{% set ns = namespace(x=0) %}{% for i in range(100) %}{% for j in range(100000) %}{% set "
      "ns.x = ns.x + 1 %}{% endfor %}{% endfor %}",
      Fault::data, "steps", small());
}

TEST(JinjaLimits, ReadingATextCountsAlsoWhereNothingIsMadeOfIt) {
  for (const char* reading :
       {"s|length", "s|wordcount", "s|int", "s|trim", "s|truncate(5)", "s is lower", "s[9999999]",
        "'a'.strip(s)", "'a'[s]", "s.isspace()"}) {
    expect_fault(std::string("{% set s = ' ' * 100000 %}{% for i in range(9999) %}{% set x = ") +
                     reading + " %}{% endfor %}",
                 Fault::data, "more than", small());
  }
  EXPECT_EQ(render("{{ ('a' * 200000).strip('b' * 200000 ~ 'a') }}", small()), "");
}

TEST(JinjaLimits, MemoryIsBounded) {
  const char* bytes = "values of more than";
  expect_fault("{{ 'a' * 999999999999 }}", Fault::data, "", small());
  expect_fault("{{ ('a' * 1000000) * 9223372036854 }}", Fault::data, "", small());
  expect_fault("{{ [1] * 999999999 }}", Fault::data, bytes, small());
  expect_fault(
      "{% set ns = namespace(s='aaaaaaaaaa') %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s "
      "%}{% endfor %}",
      Fault::data, bytes, small());
  expect_fault(
      "{% set ns = namespace(s=['aaaaaaaaaa']) %}{% for i in range(60) %}{% set ns.s = [ns.s, "
      "ns.s] %}{% endfor %}{{ ns.s }}",
      Fault::data, "", small());
  expect_fault(
      "{% set ns = namespace(s=['aaaaaaaaaa']) %}{% for i in range(60) %}{% set ns.s = [ns.s, "
      "ns.s] %}{% endfor %}{{ ns.s == ns.s + [] }}{{ [ns.s] == [[ns.s[0], ns.s[0]]] }}",
      Fault::data, "", small());
  expect_fault(
      "{% set ns = namespace(s='a') %}{% for i in range(2000) %}{% set ns.s = [ns.s] %}{% endfor "
      "%}",
      Fault::data, "values nested deeper than 100 levels", small());
  expect_fault("{{ 'aaaa'.replace('', 'b' * 100000).replace('', 'c' * 1000000) }}", Fault::data,
               bytes, small());
  expect_fault("{{ 'a'.ljust(99999999999) }}", Fault::data, bytes, small());
  expect_fault("{{ 'a'.zfill(99999999999) }}", Fault::data, bytes, small());
  expect_fault("{{ '%99999999999d' % 1 }}", Fault::data, "width", small());
  expect_fault("{{ '{:99999999999}'.format(1) }}", Fault::data, "width", small());
  expect_fault("{{ 'a\n' | indent(99999999999) }}", Fault::data, bytes, small());
  expect_fault("{{ [1] | tojson(indent=99999999999) }}", Fault::data, bytes, small());
  expect_fault("{{ [1] | batch(99999999999, 0) | list }}", Fault::data, bytes, small());
  expect_fault("{{ [] | slice(99999999999) | list }}", Fault::data, "", small());
  expect_fault("{% set a = 'a' * 100000 %}{% for i in range(100) %}{{ a }}{% endfor %}",
               Fault::data, "writes more than 1.0 MiB", small());
}

TEST(JinjaLimits, SyntaxIsBounded) {
  expect_fault("{{ " + repeated("(", 5000) + "1" + repeated(")", 5000) + " }}", Fault::data,
               "nests deeper");
  expect_fault("{{ " + repeated("[", 5000) + repeated("]", 5000) + " }}", Fault::data,
               "nests deeper");
  expect_fault("{{ " + repeated("not ", 5000) + "1 }}", Fault::data, "nests deeper");
  expect_fault("{{ " + repeated("-", 5000) + "1 }}", Fault::data, "nests deeper");
  expect_fault("{{ x" + repeated(".x", 5000) + " }}", Fault::data, "in a row");
  expect_fault("{{ 1" + repeated("+1", 5000) + " }}", Fault::data, "in a row");
  expect_fault("{{ 1" + repeated(" if 1 else 1", 5000) + " }}", Fault::data, "nests deeper");
  expect_fault("{{ 'x'" + repeated("|upper", 5000) + " }}", Fault::data, "in a row");
  expect_fault(repeated("{% if 1 %}", 5000), Fault::data, "nest deeper");
  EXPECT_EQ(render("{{ " + repeated("(", 50) + "1" + repeated(")", 50) + " }}"), "1");
  EXPECT_EQ(render("{{ 1" + repeated("+1", 150) + " }}"), "151");
  EXPECT_EQ(render("{{ ''" + repeated("~'a'", 5000) + " }}"), repeated("a", 5000));
  std::string chain = "{% if 0 %}";
  chain += repeated("{% elif 0 %}", 5000) + "{% else %}x{% endif %}";
  EXPECT_EQ(render(chain), "x");
}

TEST(JinjaLimits, CyclesThroughNamespacesAndMacrosAreFreed) {
  EXPECT_EQ(render("{% set ns = namespace() %}{% set ns.me = ns %}{% set ns.list = [ns] %}"
                   "{% macro m() %}x{% endmacro %}{% set ns.m = m %}{{ ns.me.me.m() }}"),
            "x");
  EXPECT_EQ(render("{% set ns = namespace(head=none) %}{% for i in range(50000) %}"
                   "{% set ns.head = namespace(next=ns.head) %}{% endfor %}ok"),
            "ok");
  EXPECT_EQ(render("{% for x in [1] %}{% if loop.changed(loop, [loop]) %}y{% endif %}{% endfor %}"),
            "y");
}

// Every prefix of a template, and every template with one byte gone, ends in text or in an Error.
TEST(JinjaLimits, BrokenTemplatesEndInErrors) {
  const std::string source =
      "{%- macro m(a, b=[1, 'x']) -%}{{ a ~ b | join(',') }}{%- endmacro %}\n"
      "{% for k, v in {'a': (1, 2.5e3)}.items() if v is not none %}{{ loop.index }}{{ k[::-1] }}\n"
      "{% else %}{# c #}{% endfor %}{% set x %}{{ m(1, b=['é']) }}{% endset %}{{ x if x else 1 }}"
      "{% raw %}{{ }}{% endraw %}{{ '%s' % (x,) }}{{ '{:>5}'.format(1) }}";
  ASSERT_FALSE(render(source).empty());
  int rendered = 0, failed = 0;
  const auto try_it = [&](const std::string& text) {
    try {
      (void)render(text);
      ++rendered;
    } catch (const Error& error) {
      EXPECT_NE(error.fault(), Fault::internal) << text;
      ++failed;
    }
  };
  for (size_t i = 0; i < source.size(); ++i) {
    try_it(source.substr(0, i));
    try_it(source.substr(0, i) + source.substr(i + 1));
  }
  EXPECT_GT(rendered, 20);
  EXPECT_GT(failed, 200);
}

TEST(JinjaLimits, LimitsAreTheCallers) {
  ChatOptions tight;
  tight.max_steps = 100;
  expect_fault("{% for x in range(99) %}{{ x }}{% endfor %}", Fault::data, "more than 100 steps",
               tight);
  ChatOptions narrow;
  narrow.max_output_bytes = 10;
  expect_fault("12345678901", Fault::data, "writes more than 10 B", narrow);
  EXPECT_EQ(render("1234567890", narrow), "1234567890");
}

}  // namespace
}  // namespace tephra

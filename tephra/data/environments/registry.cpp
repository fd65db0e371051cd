// SPDX-License-Identifier: Apache-2.0
// The table of environments: one row each, made in a file of that name.
#include "tephra/base/error.h"
#include "tephra/base/text.h"
#include "tephra/data/environments/environment.h"

namespace tephra {

Task make_addition(Draw& draw, int64_t level);
Task make_base_conversion(Draw& draw, int64_t level);
Task make_brackets(Draw& draw, int64_t level);
Task make_comparison(Draw& draw, int64_t level);
Task make_counting(Draw& draw, int64_t level);
Task make_dates(Draw& draw, int64_t level);
Task make_division(Draw& draw, int64_t level);
Task make_latin_square(Draw& draw, int64_t level);
Task make_liars(Draw& draw, int64_t level);
Task make_logic(Draw& draw, int64_t level);
Task make_maze(Draw& draw, int64_t level);
Task make_modular(Draw& draw, int64_t level);
Task make_multiplication(Draw& draw, int64_t level);
Task make_progression(Draw& draw, int64_t level);
Task make_reversing(Draw& draw, int64_t level);
Task make_rewriting(Draw& draw, int64_t level);
Task make_sets(Draw& draw, int64_t level);
Task make_sorting(Draw& draw, int64_t level);
Task make_subtraction(Draw& draw, int64_t level);
Task make_walk(Draw& draw, int64_t level);

std::span<const Environment> environments() {
  static constexpr Environment kTable[] = {
      {"addition", "two numbers, digit by digit", make_addition, same_integer},
      {"subtraction", "two numbers, the result may be negative", make_subtraction, same_integer},
      {"multiplication", "a long number by a shorter one", make_multiplication, same_integer},
      {"division", "a long number by a small one, with remainder", make_division, same_text},
      {"modular", "a sum of a product modulo a small number", make_modular, same_integer},
      {"comparison", "which of two numbers is larger", make_comparison, same_text},
      {"base_conversion", "a decimal number in another base", make_base_conversion, same_text},
      {"progression", "the next term of a polynomial sequence", make_progression, same_integer},
      {"sorting", "numbers in rising order", make_sorting, same_text},
      {"reversing", "a word backwards", make_reversing, same_text},
      {"counting", "how often a letter occurs", make_counting, same_integer},
      {"brackets", "the brackets that close what is open", make_brackets, same_text},
      {"rewriting", "rewriting a word by rules until none applies", make_rewriting, same_text},
      {"sets", "union, intersection and differences", make_sets, same_words_in_any_order},
      {"dates", "the date some days later", make_dates, same_text},
      {"logic", "the value of a formula", make_logic, same_text},
      {"liars", "who lies, by what each says of the next", make_liars, same_words_in_any_order},
      {"walk", "where a walk on a grid ends", make_walk, same_text},
      {"maze", "the length of the shortest way through a grid", make_maze, same_text},
      {"latin_square", "the missing number of a Latin square", make_latin_square, same_integer},
  };
  return kTable;
}

const Environment& find_environment(std::string_view name) {
  std::vector<std::string> names;
  for (const Environment& environment : environments()) {
    if (environment.name == name) return environment;
    names.emplace_back(environment.name);
  }
  const auto near = nearest(name, names);
  throw Error(Fault::usage,
              format("there is no environment '{}'{}", clipped(name, 60),
                     near ? format("; did you mean {}?", *near) : ""),
              "`tephra data environments list` lists them");
}

}  // namespace tephra

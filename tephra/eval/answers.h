// SPDX-License-Identifier: Apache-2.0
// The answer in what a model wrote, and whether it is the right one. docs/evaluation.md states the
// rules.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tephra/eval/numbers.h"
#include "tephra/eval/problem.h"

namespace tephra {

enum class Match { numeric, exact };

// The first of these that holds a number: the last \boxed{}; the line after the last "####"; after
// the last "answer:" or "answer is"; the last number of the text.
std::optional<Number> numeric_answer(std::string_view text);

// The first of these that is there: the last \boxed{}; the line after the last "####"; the line
// after the last "answer:"; the whole text. Spaces are evened out and a final full stop dropped.
std::string exact_answer(std::string_view text);

// Grades a text against another, of which the answer is taken by the same rules. Tolerance is
// relative and only for numbers that are not both integers.
Grade grade_answer(std::string_view text, std::string_view right, Match match, double tolerance);

}  // namespace tephra

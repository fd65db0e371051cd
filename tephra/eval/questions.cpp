// SPDX-License-Identifier: Apache-2.0
#include "tephra/eval/questions.h"

#include <set>

#include "tephra/base/error.h"
#include "tephra/base/json.h"
#include "tephra/base/text.h"

namespace tephra {
namespace {

// A string, or a number written without quotes.
std::string text_of(const Fields& fields, const char* key) {
  const Json* value = fields.json().find(key);
  return value && value->is_number() ? value->dump() : fields.string(key);
}

Question read_question(std::string_view line, const std::string& where, int64_t number) {
  const Json json = Json::parse(line, where);
  require_data(json.is_object(), "{}: expected an object, got {}", where, json.kind());
  const Fields fields(json, where);
  const bool whole = fields.has("prompt");
  require_data(whole != fields.has("question"), "{}: expected \"question\" or \"prompt\", got {}",
               where, whole ? "both" : "neither");
  Question q{.where = where,
             .id = fields.has("id") ? text_of(fields, "id") : format("{}", number),
             .text = fields.string(whole ? "prompt" : "question"),
             .whole = whole,
             .answer = text_of(fields, "answer")};
  require_data(!trim(q.text).empty(), "{}: the {} is empty", where, whole ? "prompt" : "question");
  return q;
}

void check_answer(const Question& q, Match match) {
  const bool usable =
      match == Match::numeric ? numeric_answer(q.answer).has_value() : !trim(q.answer).empty();
  if (usable) return;
  throw Error(Fault::data,
              format("{}: answer: expected {}, got '{}'", q.where,
                     match == Match::numeric ? "a number" : "a text", clipped(q.answer, 60)),
              match == Match::numeric ? "for answers that are no numbers: --match exact" : "");
}

}  // namespace

std::vector<Question> read_questions(const Path& path, Match match) {
  const std::string file = read_file(path);
  std::vector<Question> questions;
  std::set<std::string> ids;
  int64_t number = 0;
  for (const std::string_view line : split(file, '\n')) {
    ++number;
    if (trim(line).empty()) continue;
    Question q = read_question(line, format("{}:{}", path.string(), number), number);
    check_answer(q, match);
    require_data(ids.insert(q.id).second, "{}: the id '{}' is taken by a line before", q.where,
                 clipped(q.id, 60));
    questions.push_back(std::move(q));
  }
  require_data(!questions.empty(), "{}: expected a question a line, got none", path.string());
  return questions;
}

QuestionScore evaluate_questions(Model& model, const Tokenizer& tokenizer,
                                 std::span<const Question> questions,
                                 const QuestionOptions& options) {
  require(options.tolerance >= 0, "tolerance: expected 0 or more, got {}", options.tolerance);
  require(options.max_new_tokens >= 1, "expected 1 or more new tokens, got {}",
          options.max_new_tokens);
  QuestionScore result;
  for (const Question& q : questions) {
    result.ids.push_back(q.id);
    result.problems.push_back({.where = q.where,
                               .prompt = q.whole ? q.text : options.form(q.text),
                               .answer = q.answer,
                               .max_new_tokens = options.max_new_tokens,
                               .attempts = {},
                               .special = q.whole ? AddSpecial::before : options.form.special});
  }
  solve(model, tokenizer, result.problems, options.solve,
        [&](const Problem& p, std::string_view text) {
          return grade_answer(text, p.answer, options.match, options.tolerance);
        });
  result.score = summarize(result.problems, options.ks);
  return result;
}

std::function<std::string(const std::string&)> prompt_template(const std::string& text) {
  constexpr std::string_view kMark = "{question}";
  std::string unescaped;
  for (size_t i = 0; i < text.size(); ++i) {
    const char next = text[i] == '\\' && i + 1 < text.size() ? text[i + 1] : '\0';
    const bool escape = next == 'n' || next == 't' || next == '\\';
    unescaped += next == 'n' ? '\n' : next == 't' ? '\t' : text[i];
    if (escape) ++i;
  }
  const size_t at = unescaped.find(kMark);
  require(at != std::string::npos,
          "template: expected a text with {{question}} in it, as in 'Question: "
          "{{question}}\\nAnswer:', got '{}'",
          clipped(text, 60));
  return [before = unescaped.substr(0, at), after = unescaped.substr(at + kMark.size())](
             const std::string& question) { return before + question + after; };
}

}  // namespace tephra

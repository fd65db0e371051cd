// SPDX-License-Identifier: Apache-2.0
#include "tephra/eval/attempt_journal.h"

#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/base/text.h"

namespace tephra {
namespace {

FinishReason finish_in(const Fields& fields) {
  const std::string text = fields.string("finish");
  for (const FinishReason reason :
       {FinishReason::eos, FinishReason::length, FinishReason::stopped}) {
    if (to_text(reason) == text) return reason;
  }
  throw Error(Fault::data,
              format("{}: no attempt ends by '{}'", fields.where(), clipped(text, 40)));
}

}  // namespace

AttemptJournal::AttemptJournal(const Path& path, const Json& settings, bool overwrite,
                               const std::function<void()>& check_results)
    : journal_(path, settings, overwrite, check_results) {
  const bool all = journal_.take_found([&](const Json& line, const std::string& where) {
    const Fields fields(line, where);
    const Key key{fields.string("group"), fields.integer("problem"), fields.integer("sample")};
    const int64_t tokens = fields.integer("tokens");
    require_data(std::get<1>(key) >= 0 && std::get<2>(key) >= 0 && tokens >= 0,
                 "{}: expected no negative numbers", where);
    const bool is_new = known_
                            .emplace(key, Attempt{.text = fields.string("completion"),
                                                  .given = {},
                                                  .tokens = tokens,
                                                  .finish = finish_in(fields)})
                            .second;
    require_data(is_new, "{}: this attempt is there already", where);
  });
  if (!all) known_.clear();
}

int64_t AttemptJournal::known(const std::string& group) const {
  return std::count_if(known_.begin(), known_.end(),
                       [&](const auto& each) { return std::get<0>(each.first) == group; });
}

void AttemptJournal::attach(SolveOptions& options, const std::string& group) {
  options.known = [this, group](size_t problem, size_t number) -> std::optional<Attempt> {
    const auto found =
        known_.find(Key{group, static_cast<int64_t>(problem), static_cast<int64_t>(number)});
    return found == known_.end() ? std::nullopt : std::optional(found->second);
  };
  options.on_attempt = [this, group, then = std::move(options.on_attempt)](
                           size_t problem, size_t number, const Attempt& made) {
    journal_.add(Json::Object{{"group", group},
                              {"problem", static_cast<int64_t>(problem)},
                              {"sample", static_cast<int64_t>(number)},
                              {"completion", made.text},
                              {"tokens", made.tokens},
                              {"finish", to_text(made.finish)}});
    if (then) then(problem, number, made);
  };
}

}  // namespace tephra

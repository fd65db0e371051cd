// SPDX-License-Identifier: Apache-2.0
#include "tephra/infer/recommended_sampling.h"

#include "tephra/base/error.h"
#include "tephra/base/json.h"

namespace tephra {

Sampling recommended_sampling(const Path& folder) {
  Sampling s;
  s.temperature = 1;
  const Path file = folder / "generation_config.json";
  if (!std::filesystem::exists(file)) return s;
  const Json json = Json::parse(read_file(file), file.string());
  const Fields fields(json, file.string());
  if (!fields.boolean_or("do_sample", true)) s.temperature = 0;
  s.temperature = fields.number_or("temperature", s.temperature);
  s.top_p = fields.number_or("top_p", s.top_p);
  s.top_k = fields.integer_or("top_k", s.top_k);
  s.min_p = fields.number_or("min_p", s.min_p);
  s.repetition = fields.number_or("repetition_penalty", s.repetition);
  try {
    check_sampling(s);
  } catch (const Error& e) {
    throw Error(Fault::data, format("{}: {}", file.string(), e.what()));
  }
  return s;
}

}  // namespace tephra

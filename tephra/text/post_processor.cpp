// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/post_processor.h"

#include "tephra/base/error.h"
#include "tephra/text/text_step.h"

namespace tephra {
namespace {

int32_t checked_id(const Json& id, const std::string& where) {
  require_data(id.is_int() && id.integer() >= 0 && id.integer() <= INT32_MAX,
               "{}: expected a token id, got {}", where, id.kind());
  return static_cast<int32_t>(id.integer());
}

void append_special(const Fields& step, const std::string& name, std::vector<int32_t>& ids) {
  const Fields special = step.object("special_tokens").object(name);
  for (const Json& id : special.array("ids")) ids.push_back(checked_id(id, special.where()));
}

PostProcessor parse_template(const Fields& step) {
  PostProcessor result;
  bool after = false;
  for (const Fields& item : sequence_of(step, "single")) {
    if (item.has("Sequence")) {
      require_data(!after, "{}: expected one Sequence in single, got another", item.where());
      after = true;
    } else {
      const std::string name = item.object("SpecialToken").string("id");
      append_special(step, name, after ? result.after : result.before);
    }
  }
  require_data(after, "{}: single: expected a Sequence, got none", step.where());
  return result;
}

// ["[SEP]", 102]
int32_t named_id(const Fields& step, std::string_view key) {
  const Json::Array& pair = step.array(key);
  require_data(pair.size() == 2, "{}: {}: expected a token and its id", step.where(), key);
  return checked_id(pair[1], step.where());
}

}  // namespace

PostProcessor parse_post_processor(const Fields& step) {
  const std::string type = step.string("type");
  if (type == "ByteLevel") return {};
  if (type == "TemplateProcessing") return parse_template(step);
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    return {{named_id(step, "cls")}, {named_id(step, "sep")}};
  }
  if (type != "Sequence") unsupported_step(step, "post_processor");
  // Each wraps what the one before it made.
  PostProcessor result;
  for (const Fields& inner : sequence_of(step, "processors")) {
    const PostProcessor next = parse_post_processor(inner);
    result.before.insert(result.before.begin(), next.before.begin(), next.before.end());
    result.after.insert(result.after.end(), next.after.begin(), next.after.end());
  }
  return result;
}

}  // namespace tephra

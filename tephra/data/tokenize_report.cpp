// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/tokenize_report.h"

namespace tephra {

void TokenizeReport::add(const TokenizeReport& part) {
  documents += part.documents;
  tokens += part.tokens;
  text_bytes += part.text_bytes;
  empty += part.empty;
  troubles.add(part.troubles);
}

Json TokenizeReport::to_json() const {
  Json json;
  json["files"] = files;
  json["documents"] = documents;
  json["tokens"] = tokens;
  json["text_bytes"] = text_bytes;
  json["empty"] = empty;
  const Json tally = troubles.to_json();
  for (const auto& [key, value] : tally.object()) json[key] = value;
  return json;
}

TokenizeReport TokenizeReport::from_json(const Json& json, const std::string& where) {
  const Fields fields(json, where);
  TokenizeReport report;
  report.files = fields.integer("files");
  report.documents = fields.integer("documents");
  report.tokens = fields.integer("tokens");
  report.text_bytes = fields.integer("text_bytes");
  report.empty = fields.integer("empty");
  report.troubles = Tally::from_json(json, where, 0);
  return report;
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include "tephra/serve/api_fields.h"

#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/base/text.h"
#include "tephra/serve/api_error.h"

namespace tephra {

ApiFields::ApiFields(const Json& object, std::string where)
    : object_(&object), where_(std::move(where)) {
  const std::string name = where_.empty() ? "the body" : where_;
  require_field(object.is_object(), name, "expected an object, got {}", object.kind());
}

std::string ApiFields::name_of(std::string_view name) const {
  return where_.empty() ? std::string(name) : where_ + "." + std::string(name);
}

void ApiFields::allow(const std::vector<std::string>& names) const {
  for (const auto& [name, value] : object_->object()) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    const std::string shown = clipped(name, 60);
    const auto near = nearest(name.substr(0, 60), names);
    throw ApiError(400,
                   format("{}: there is no such field{}", name_of(shown),
                          near ? "; did you mean " + *near + "?" : ""),
                   name_of(shown), "unknown_parameter");
  }
}

const Json* ApiFields::find(std::string_view name) const {
  const Json* found = object_->find(name);
  return found != nullptr && !found->is_null() ? found : nullptr;
}

std::string ApiFields::string(std::string_view name) const {
  const Json* found = find(name);
  require_field(found != nullptr && found->is_string(), name_of(name), "expected a string, got {}",
                found != nullptr ? found->kind() : "nothing");
  return found->string();
}

std::string ApiFields::string_or(std::string_view name, const std::string& fallback) const {
  return find(name) != nullptr ? string(name) : fallback;
}

bool ApiFields::boolean(std::string_view name, bool fallback) const {
  const Json* found = find(name);
  if (found == nullptr) return fallback;
  require_field(found->is_bool(), name_of(name), "expected true or false, got {}", found->kind());
  return found->boolean();
}

int64_t ApiFields::integer(std::string_view name, int64_t fallback, int64_t least,
                           int64_t most) const {
  const Json* found = find(name);
  if (found == nullptr) return fallback;
  require_field(found->is_int(), name_of(name), "expected an integer, got {}", found->kind());
  const int64_t value = found->integer();
  require_field(value >= least && value <= most, name_of(name),
                "expected an integer from {} to {}, got {}", least, most, value);
  return value;
}

double ApiFields::number(std::string_view name, double fallback, double least, double most) const {
  const Json* found = find(name);
  if (found == nullptr) return fallback;
  require_field(found->is_number(), name_of(name), "expected a number, got {}", found->kind());
  const double value = found->number();
  require_field(value >= least && value <= most, name_of(name),
                "expected a number from {} to {}, got {}", least, most, value);
  return value;
}

ApiFields ApiFields::object(std::string_view name) const {
  const Json* found = find(name);
  require_field(found != nullptr, name_of(name), "expected an object, got nothing");
  return {*found, name_of(name)};
}

namespace {

bool is_json(std::string_view content_type) {
  return ascii_lower(trim(content_type.substr(0, content_type.find(';')))) == "application/json";
}

}  // namespace

void require_method(const HttpRequest& request, const std::string& allowed) {
  for (const std::string_view method : split(allowed, ',')) {
    if (trim(method) == request.method) return;
  }
  throw ApiError::wrong_method(
      format("{} does not take {}", clipped(request.path, 100), clipped(request.method, 60)),
      allowed);
}

Json parse_json_body(const HttpRequest& request) {
  const std::string* type = request.header("content-type");
  if (type == nullptr || !is_json(*type)) {
    throw ApiError(415, format("expected a body of type application/json, got {}",
                               type == nullptr ? "no content-type" : clipped(*type, 60)));
  }
  const std::string* coding = request.header("content-encoding");
  if (coding != nullptr && ascii_lower(*coding) != "identity") {
    throw ApiError(415, format("expected a body as it is, got one in content-encoding {}",
                               clipped(*coding, 60)));
  }
  try {
    return Json::parse(request.body, "the body");
  } catch (const Error& e) {
    throw ApiError(400, e.what(), "", "invalid_json");
  }
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include "tephra/serve/api_error.h"

namespace tephra {
namespace {

const char* type_of(int status) {
  if (status == 401) return "authentication_error";
  if (status == 404) return "not_found_error";
  if (status == 429) return "rate_limit_error";
  return status < 500 ? "invalid_request_error" : "server_error";
}

}  // namespace

Json ApiError::json() const {
  const Json param = param_.empty() ? Json() : Json(param_);
  const Json code = code_.empty() ? Json() : Json(code_);
  Json error = Json::Object{
      {"message", what()}, {"type", type_of(status_)}, {"param", param}, {"code", code}};
  return Json::Object{{"error", std::move(error)}};
}

}  // namespace tephra

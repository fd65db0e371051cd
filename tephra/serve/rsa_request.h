// SPDX-License-Identifier: Apache-2.0
// The "rsa" field of a chat: {"n", "c", "rounds", "beta", "tau"}, each of which may be left out.
#pragma once

#include "tephra/infer/rsa.h"
#include "tephra/serve/api_request.h"

namespace tephra {

// The options as far as the request says them: beta and tau are 0 where it does not. ApiError when
// they make no sense, exceed what the server allows, or come with fields that have no meaning with
// several traces.
RsaOptions read_rsa(const ChatRequest& request, const ApiLimits& limits);

// Beta and tau filled in, within `room` tokens beside a prompt of `prompt` and within the limit of
// all traces. ApiError when they do not fit.
RsaOptions fit_rsa(const RsaOptions& options, const ApiLimits& limits, int64_t room,
                   int64_t prompt);

}  // namespace tephra

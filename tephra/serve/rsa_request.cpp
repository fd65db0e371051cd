// SPDX-License-Identifier: Apache-2.0
#include "tephra/serve/rsa_request.h"

#include <algorithm>

#include "tephra/serve/api_error.h"
#include "tephra/serve/api_fields.h"

namespace tephra {
namespace {

constexpr int64_t kMostTraceTokens = 1 << 30;

void refuse_with_rsa(const ChatRequest& r) {
  require_field(r.n == 1, "n",
                "one answer is made of all traces; leave n out, rsa.n is their number");
  require_field(r.tools.is_null() || r.tool_choice == ToolChoice::none, "tools",
                "cannot be called by traces that are aggregated; leave rsa or tools out");
  require_field(r.form == OutputForm::text, "response_format", "is not for requests with rsa");
  require_field(r.top_logprobs < 0, "logprobs", "are not told of requests with rsa");
  require_field(!r.continue_final_message, "continue_final_message",
                "is not for requests with rsa");
  require_field(!r.ignore_eos, "ignore_eos", "is not for requests with rsa");
}

// Without later rounds nobody reads a tail, and the answer has none.
void refuse_without_rounds(const ApiFields& fields) {
  for (const char* name : {"c", "tau"}) {
    require_field(fields.find(name) == nullptr, format("rsa.{}", name),
                  "is for later rounds; it needs rounds above 0");
  }
}

int64_t all_traces(const RsaOptions& o) { return o.traces * (o.rounds + 1); }

}  // namespace

RsaOptions read_rsa(const ChatRequest& r, const ApiLimits& limits) {
  if (limits.rsa_tokens == 0) throw ApiError(400, "this server does no RSA", "rsa");
  const ApiFields fields(r.rsa, "rsa");
  fields.allow({"n", "c", "rounds", "beta", "tau"});
  refuse_with_rsa(r);
  RsaOptions o;
  o.traces = fields.integer("n", o.traces, 1, limits.choices);
  o.candidates = fields.integer("c", std::min(o.candidates, o.traces), 1, o.traces);
  o.rounds = fields.integer("rounds", o.rounds, 0, limits.rsa_rounds);
  if (o.rounds == 0) refuse_without_rounds(fields);
  const int64_t most = r.max_tokens.value_or(kMostTraceTokens);
  require_field(most >= 1, "max_tokens", "expected 1 or more tokens for a trace");
  o.trace_tokens = fields.integer("beta", r.max_tokens.value_or(0), r.max_tokens ? 1 : 0, most);
  const int64_t longest = o.trace_tokens > 0 ? o.trace_tokens : kMostTraceTokens;
  o.tail_tokens = fields.integer("tau", 0, 0, longest);
  require_field(all_traces(o) * std::max<int64_t>(1, o.trace_tokens) <= limits.rsa_tokens, "rsa",
                "{} traces of {} tokens are more than the {} tokens that this server allows in all",
                all_traces(o), std::max<int64_t>(1, o.trace_tokens), limits.rsa_tokens);
  o.sampling = r.sampling;
  require_field(o.traces == 1 || o.sampling.temperature > 0, "temperature",
                "at 0 all traces would be the same");
  o.stop = r.stop;
  return o;
}

RsaOptions fit_rsa(const RsaOptions& o, const ApiLimits& limits, int64_t room, int64_t prompt) {
  if (const auto error = no_room_for_a_trace(o, room, prompt)) {
    throw ApiError(400, format("{}; {}", error->what(), error->hint()), "rsa",
                   "context_length_exceeded");
  }
  RsaOptions f = fitted(o, room, prompt);
  const int64_t share = std::max<int64_t>(1, limits.rsa_tokens / all_traces(f));
  if (o.trace_tokens == 0 && share < f.trace_tokens) {
    f.trace_tokens = share;
    if (o.tail_tokens == 0) f.tail_tokens = std::min(f.tail_tokens, (share + 1) / 2);
    require_field(f.tail_tokens <= share, "rsa.tau",
                  "expected at most the {} tokens that each of {} traces has of the {} that this "
                  "server allows in all, got {}",
                  share, all_traces(f), limits.rsa_tokens, f.tail_tokens);
  }
  const bool one = f.candidates == 1;
  require_field(f.tail_tokens <= f.trace_tokens, "rsa.tau",
                "{} {} of {} tokens {} room for traces of {}, which are to be as long at least",
                f.candidates, one ? "tail" : "tails", f.tail_tokens, one ? "leaves" : "leave",
                f.trace_tokens);
  const int64_t tails = f.rounds > 0 ? f.candidates * f.tail_tokens : 0;
  if (prompt + tails + f.trace_tokens > room) {
    throw ApiError(
        400,
        format("a prompt of {} tokens with {} tails of {} and a trace of {} do not fit "
               "this server's {}; ask for a smaller beta or tau",
               prompt, f.rounds > 0 ? f.candidates : 0, f.tail_tokens, f.trace_tokens, room - 1),
        "rsa", "context_length_exceeded");
  }
  return f;
}

}  // namespace tephra

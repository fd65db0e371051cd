// SPDX-License-Identifier: Apache-2.0
#include "tephra/eval/problem.h"

#include <algorithm>
#include <optional>

#include "tephra/base/error.h"
#include "tephra/base/hash.h"
#include "tephra/text/text_stream.h"

namespace tephra {
namespace {

std::vector<std::vector<int32_t>> encode_prompts(const Model& model, const Tokenizer& tokenizer,
                                                 std::span<const Problem> problems) {
  std::vector<std::vector<int32_t>> prompts(problems.size());
  Encoder encoder(tokenizer);
  for (size_t i = 0; i < problems.size(); ++i) {
    encoder.encode(problems[i].prompt, prompts[i], problems[i].special);
  }
  const int64_t limit = model.context_limit();
  for (size_t i = 0; i < prompts.size(); ++i) {
    const auto size = static_cast<int64_t>(prompts[i].size());
    require(size > 0, "{}: expected a prompt, got nothing to begin with", problems[i].where);
    require(size <= limit, "{}: a prompt of {} tokens does not fit the model's limit of {}",
            problems[i].where, size, limit);
  }
  return prompts;
}

// The streams of a prompt's attempts are its own, wherever it stands in a file.
uint32_t stream_of_attempt(const std::string& prompt, int64_t attempt) {
  return static_cast<uint32_t>(xxh3(prompt)) + static_cast<uint32_t>(attempt);
}

// An attempt that is still to be made.
struct OpenAttempt {
  size_t problem, number;
};

std::vector<GenerateRequest> make_requests(const Model& model, std::span<const Problem> problems,
                                           const std::vector<std::vector<int32_t>>& prompts,
                                           std::span<const OpenAttempt> open) {
  std::vector<GenerateRequest> requests;
  for (const auto& [i, k] : open) {
    const int64_t room = model.context_limit() + 1 - static_cast<int64_t>(prompts[i].size());
    requests.push_back({.prompt = prompts[i],
                        .max_new_tokens = std::min(problems[i].max_new_tokens, room),
                        .stream = stream_of_attempt(problems[i].prompt, static_cast<int64_t>(k))});
  }
  return requests;
}

void check_vocabulary(const Model& model, const Tokenizer& tokenizer) {
  require(tokenizer.vocab_size() <= model.tokens().vocab_size,
          "the tokenizer has ids up to {}, the model's vocabulary ends at {}; is this its "
          "tokenizer.json?",
          tokenizer.vocab_size() - 1, model.tokens().vocab_size - 1);
}

// Text of a request as it grows, where stop strings must be watched for.
class WatchedTexts {
 public:
  WatchedTexts(const Tokenizer& tokenizer, const std::vector<std::string>& stop, size_t count)
      : tokenizer_(tokenizer), stop_(stop), streams_(stop.empty() ? 0 : count) {}

  bool watching() const { return !streams_.empty(); }

  bool add(size_t request, int32_t token) {
    auto& [stream, text] = streams_[request];
    if (!stream) stream.emplace(tokenizer_, stop_, DecodeOptions{.keep_special = false});
    text += stream->add(token);
    return !stream->stopped_by();
  }

  std::string finish(size_t request, const std::vector<int32_t>& tokens) {
    if (!watching()) return tokenizer_.decode(tokens, {.keep_special = false});
    auto& [stream, text] = streams_[request];
    if (stream) text += stream->finish();
    stream.reset();
    return std::move(text);
  }

 private:
  const Tokenizer& tokenizer_;
  const std::vector<std::string>& stop_;
  std::vector<std::pair<std::optional<TextStream>, std::string>> streams_;
};

}  // namespace

void check_solve_options(const SolveOptions& options) {
  check_sampling(options.sampling);
  require(options.samples >= 1, "expected 1 or more samples of each problem, got {}",
          options.samples);
  require(options.samples == 1 || options.sampling.temperature > 0,
          "{} samples of each problem would all be the same at temperature 0; give a temperature",
          options.samples);
}

void solve(Model& model, const Tokenizer& tokenizer, std::span<Problem> problems,
           const SolveOptions& options, const Grader& grade) {
  check_solve_options(options);
  check_vocabulary(model, tokenizer);
  const auto prompts = encode_prompts(model, tokenizer, problems);
  const auto samples = static_cast<size_t>(options.samples);
  const auto keep = [&](size_t i, size_t k, Attempt attempt) {
    Grade graded = grade(problems[i], attempt.text);
    attempt.given = std::move(graded.given);
    attempt.right = graded.right;
    problems[i].attempts[k] = std::move(attempt);
  };
  std::vector<OpenAttempt> open;
  for (size_t i = 0; i < problems.size(); ++i) {
    problems[i].attempts.assign(samples, {});
    for (size_t k = 0; k < samples; ++k) {
      auto known = options.known ? options.known(i, k) : std::nullopt;
      if (known) {
        keep(i, k, std::move(*known));
      } else {
        open.push_back({i, k});
      }
    }
  }
  const auto requests = make_requests(model, problems, prompts, open);

  WatchedTexts texts(tokenizer, options.stop, requests.size());
  BatchOptions batch{
      .sampling = options.sampling, .end_tokens = tokenizer.eos(), .sequences = options.sequences};
  if (texts.watching()) {
    batch.on_token = [&](size_t request, int32_t token) { return texts.add(request, token); };
  }
  batch.on_finish = [&](size_t request, const BatchGeneration& result) {
    const auto [i, k] = open[request];
    keep(i, k,
         {.text = texts.finish(request, result.tokens),
          .given = {},
          .tokens = static_cast<int64_t>(result.tokens.size()),
          .finish = result.finish});
    if (options.on_attempt) options.on_attempt(i, k, problems[i].attempts[k]);
  };
  batch_generate(model, requests, batch);
}

}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/environment_source.h"

#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/text/aggregation.h"

namespace tephra {
namespace {

double unit_draw(Draw& draw) {
  const uint64_t bits = draw.bits();
  return unit_interval(static_cast<uint32_t>(bits >> 32), static_cast<uint32_t>(bits));
}

}  // namespace

EnvironmentSource::EnvironmentSource(std::string name, const EnvironmentOptions& options,
                                     std::shared_ptr<const Tokenizer> tokenizer, uint64_t seed)
    : TokenSource(std::move(name)),
      options_(options),
      tokenizer_(std::move(tokenizer)),
      seed_(seed),
      end_(end_token(*tokenizer_)),
      encoders_(*tokenizer_) {
  require(options.min_level >= 1 && options.min_level <= options.max_level,
          "source '{}': expected levels from 1 on, the lower first, got {} to {}", this->name(),
          options.min_level, options.max_level);
  require(
      options.aggregation >= 0 && options.aggregation <= 1 && options.candidates >= 1 &&
          options.tail_tokens >= 1,
      "source '{}': expected a share of aggregation from 0 to 1, with 1 or more candidates of 1 "
      "or more tokens, got {}, {} and {}",
      this->name(), options.aggregation, options.candidates, options.tail_tokens);
  for (const std::string& kind : options.kinds) kinds_.push_back(&find_environment(kind));
  if (kinds_.empty()) {
    for (const Environment& environment : environments()) kinds_.push_back(&environment);
  }
}

EnvironmentSource::Document EnvironmentSource::document(uint64_t number, Encoder& encoder) const {
  Draw draw({seed_ ^ number, stream_of(name()), 0}, 0);
  const auto which = static_cast<size_t>(draw.between(0, static_cast<int64_t>(kinds_.size()) - 1));
  const int64_t level = draw.between(options_.min_level, options_.max_level);
  const TaskOrigin origin{kinds_[which], level, draw.bits(), options_.split};
  Task task = generate(*origin.environment, level, origin.seed, origin.split);
  if (options_.aggregation > 0 && unit_draw(draw) < options_.aggregation) {
    const AggregationForm form{.candidates = options_.candidates,
                               .tail = [&](const std::string& attempt) {
                                 std::vector<int32_t> ids;
                                 encoder.encode(attempt, ids);
                                 return tail_text(*tokenizer_, ids, options_.tail_tokens);
                               }};
    task = with_attempts(origin, task, form);
  }
  Document document;
  encoder.encode(posed(task.prompt), document.tokens, AddSpecial::before);
  document.prompt = static_cast<int64_t>(document.tokens.size());
  encoder.encode(solution(task), document.tokens);
  document.tokens.push_back(end_);
  return document;
}

Sample EnvironmentSource::sample(int64_t position, int64_t context) const {
  Sample sample;
  const size_t size = static_cast<size_t>(context);
  // Numbers of documents: random for each sample, so that they meet no other sample's.
  Draw numbers({seed_, stream_of(format("{}/{}", name(), context)), 0}, 0);
  numbers = Draw({static_cast<uint64_t>(position) ^ numbers.bits(), stream_of(name()), 1}, 0);
  encoders_.use([&](Encoder& encoder) {
    while (sample.inputs.size() < size) {
      const Document d = document(numbers.bits(), encoder);
      const size_t used = std::min(d.tokens.size(), size - sample.inputs.size());
      for (size_t i = 0; i < used; ++i) {
        const bool counts = i + 1 < d.tokens.size() &&
                            (options_.loss_on_prompts || static_cast<int64_t>(i) + 1 >= d.prompt);
        sample.inputs.push_back(d.tokens[i]);
        sample.targets.push_back(counts ? d.tokens[i + 1] : kNoTarget);
      }
      sample.lengths.push_back(static_cast<int64_t>(used));
    }
  });
  return sample;
}

std::string EnvironmentSource::identity() const {
  std::string kinds;
  for (const Environment* kind : kinds_) kinds += format("{},", kind->name);
  const std::string aggregation =
      options_.aggregation > 0 ? format(" aggregation {} of {} tails of {}", options_.aggregation,
                                        options_.candidates, options_.tail_tokens)
                               : std::string();
  return format(
      "environments {} levels {} to {} {} prompts {} seed {} vocabulary {}{}", kinds,
      options_.min_level, options_.max_level, options_.split == Split::train ? "train" : "held_out",
      options_.loss_on_prompts ? "learnt" : "given", seed_, tokenizer_->vocab_size(), aggregation);
}

}  // namespace tephra

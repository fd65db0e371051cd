// SPDX-License-Identifier: Apache-2.0
// Many clients at once against a server, each with one stream after another, and what they saw.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tephra {

struct StreamLoadOptions {
  std::string host = "127.0.0.1";
  int port = 8080;
  std::string api_key;
  int64_t streams = 64;  // side by side
  double seconds = 60;   // no new stream after so long; open ones finish
  int64_t prompt_tokens = 128;
  int64_t new_tokens = 64;
  int64_t vocab_size = 256;  // prompts are random ids below
  double shared = 0.5;       // this share of each prompt is the same for all
  double temperature = 1;    // of each answer
  uint64_t seed = 1;
};

struct StreamLoadReport {
  int64_t streams = 0;     // that were asked for
  int64_t lost = 0;        // refused, broken off, or with other than the tokens asked for
  std::string first_loss;  // why
  int64_t tokens = 0, cached_tokens = 0, prompt_tokens = 0;
  double seconds = 0;
  std::vector<double> first_token;  // seconds, sorted
  // From one event of a stream to the next, sorted; events that came in one piece are one.
  std::vector<double> between;
};

// Fault::interrupted when the program is to stop; streams that are open then are given up.
StreamLoadReport load_server(const StreamLoadOptions& options);

// Tokens after the first of each stream, over the time in which they came, of `at_once` streams
// together: prompts, and streams that wait for their turn, do not count. As the clients saw it: of
// few events, whatever number of tokens is in them, it would say how fast the network is, and there
// is none.
std::optional<double> answer_rate(const StreamLoadReport& report, int64_t at_once);

// The value that a share of the sorted values does not exceed; 0 when there are none.
double percentile(const std::vector<double>& sorted, double share);

}  // namespace tephra

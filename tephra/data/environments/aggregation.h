// SPDX-License-Identifier: Apache-2.0
// The aggregation form of a task: the problem with the ends of attempts at it in the prompt, some
// wrong, some cut off, to be solved as ever. What Markovian RSA asks of a model in its later rounds
// (docs/rsa.md).
#pragma once

#include <functional>

#include "tephra/data/environments/environment.h"

namespace tephra {

struct AggregationForm {
  int64_t candidates = 4;
  // The end of an attempt that the prompt shows; unset: all of it.
  std::function<std::string(const std::string& attempt)> tail;
};

// Where a task comes from: what decides its attempts.
struct TaskOrigin {
  const Environment* environment;
  int64_t level;
  uint64_t seed;
  Split split;
};

// The task with attempts in its prompt. Problem, solution and split stay what they were; attempts
// that answer another problem take one of the same split. A pure function, as generate.
Task with_attempts(const TaskOrigin& origin, const Task& task, const AggregationForm& form);

// The attempts by themselves, whole. Between none and all of them are right.
std::vector<std::string> attempts_at(const TaskOrigin& origin, const Task& task,
                                     int64_t candidates);

}  // namespace tephra

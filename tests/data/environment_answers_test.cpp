// SPDX-License-Identifier: Apache-2.0
// Answers of the environments against other ways to find them, from the prompt alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <set>
#include <sstream>

#include "tephra/base/text.h"
#include "tephra/data/environments/environment.h"

namespace tephra {
namespace {

std::string answer_to_sum(const Task& t, char op) {
  long long a = 0, b = 0;
  EXPECT_EQ(std::sscanf(t.prompt.c_str(), "What is %lld %*c %lld", &a, &b), 2);
  return std::to_string(op == '+' ? a + b : op == '-' ? a - b : a * b);
}

std::string answer_to_division(const Task& t) {
  long long a = 0, b = 0;
  EXPECT_EQ(std::sscanf(t.prompt.c_str(), "Divide %lld by %lld", &a, &b), 2);
  return std::to_string(a / b) + " remainder " + std::to_string(a % b);
}

std::string answer_to_modular(const Task& t) {
  long long a = 0, b = 0, c = 0, m = 0;
  EXPECT_EQ(std::sscanf(t.prompt.c_str(), "What is (%lld * %lld + %lld) mod %lld", &a, &b, &c, &m),
            4);
  return std::to_string((a * b + c) % m);
}

std::string answer_to_comparison(const Task& t) {
  long long a = 0, b = 0;
  EXPECT_EQ(std::sscanf(t.prompt.c_str(), "Compare %lld and %lld", &a, &b), 2);
  return a < b ? "<" : a > b ? ">" : "=";
}

std::string answer_to_base(const Task& t) {
  long long a = 0;
  int base = 0;
  EXPECT_EQ(std::sscanf(t.prompt.c_str(), "Write %lld in base %d", &a, &base), 2);
  EXPECT_EQ(std::stoll(t.answer, nullptr, base), a);
  return t.answer;
}

std::vector<long long> numbers_after(const std::string& text, char mark) {
  std::istringstream in(text.substr(text.find(mark) + 1));
  std::vector<long long> numbers;
  for (long long n = 0; in >> n;) numbers.push_back(n);
  return numbers;
}

std::string listed(const std::vector<long long>& numbers) {
  std::string text;
  for (const long long n : numbers) text += (text.empty() ? "" : " ") + std::to_string(n);
  return text;
}

// sum over i of (-1)^(n-1-i) C(n, i) x_i: exact for polynomials of degree below n.
std::string answer_to_progression(const Task& t) {
  const std::vector<long long> x = numbers_after(t.prompt, '?');
  const auto n = static_cast<long long>(x.size());
  long long next = 0, choose = 1;
  for (long long i = 0; i < n; ++i) {
    next += ((n - 1 - i) % 2 == 0 ? 1 : -1) * choose * x[static_cast<size_t>(i)];
    choose = choose * (n - i) / (i + 1);
  }
  return std::to_string(next);
}

std::string answer_to_sorting(const Task& t) {
  std::vector<long long> x = numbers_after(t.prompt, ':');
  std::sort(x.begin(), x.end());
  return listed(x);
}

std::string last_word(const std::string& text) { return text.substr(text.rfind(' ') + 1); }

std::string answer_to_reversing(const Task& t) {
  const std::string word = last_word(t.prompt);
  return {word.rbegin(), word.rend()};
}

std::string answer_to_counting(const Task& t) {
  const std::string word = last_word(t.prompt);
  return std::to_string(std::count(word.begin(), word.end(), t.prompt[15]));
}

// The answer closes everything: matched pairs vanish until nothing is left.
std::string answer_to_brackets(const Task& t) {
  std::string all = last_word(t.prompt) + t.answer;
  for (bool changed = true; changed;) {
    changed = false;
    for (const char* pair : {"()", "[]", "{}"}) {
      const size_t at = all.find(pair);
      if (at == std::string::npos) continue;
      all.erase(at, 2);
      changed = true;
    }
  }
  EXPECT_EQ(all, "") << t.prompt;
  return t.answer;
}

std::set<long long> braces_after(const std::string& text, size_t& at) {
  at = text.find('{', at) + 1;
  const std::vector<long long> all = numbers_after("!" + text.substr(at), '!');
  return {all.begin(), all.end()};
}

std::string answer_to_sets(const Task& t) {
  size_t at = 0;
  const std::set<long long> a = braces_after(t.prompt, at), b = braces_after(t.prompt, at);
  std::vector<long long> out;
  const auto into = std::back_inserter(out);
  if (t.prompt.starts_with("What is the union")) {
    std::set_union(a.begin(), a.end(), b.begin(), b.end(), into);
  } else if (t.prompt.starts_with("What is the intersection")) {
    std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), into);
  } else if (t.prompt.starts_with("What is the difference")) {
    std::set_difference(a.begin(), a.end(), b.begin(), b.end(), into);
  } else {
    std::set_symmetric_difference(a.begin(), a.end(), b.begin(), b.end(), into);
  }
  return out.empty() ? "empty" : listed(out);
}

std::string answer_to_dates(const Task& t) {
  int n = 0, y = 0;
  unsigned m = 0, d = 0;
  EXPECT_EQ(std::sscanf(t.prompt.c_str(), "Which date is %d days after %d-%u-%u", &n, &y, &m, &d),
            4);
  using namespace std::chrono;
  const year_month_day then(sys_days(year(y) / month(m) / day(d)) + days(n));
  char text[32];
  std::snprintf(text, sizeof text, "%d-%02u-%02u", int(then.year()), unsigned(then.month()),
                unsigned(then.day()));
  return text;
}

// Recursive descent.
bool value_of(const std::string& text, size_t& at) {
  const char c = text[at++];
  if (c == '!') return !value_of(text, at);
  if (c != '(') return c == 'T';
  const bool a = value_of(text, at);
  const char op = text[at++];
  const bool b = value_of(text, at);
  ++at;  // the closing bracket
  return op == '&' ? a && b : a || b;
}

std::string answer_to_logic(const Task& t) {
  size_t at = std::string("Evaluate ").size();
  return value_of(t.prompt, at) ? "T" : "F";
}

// Distances by relaxing every cell until nothing changes.
std::string answer_to_maze(const Task& t) {
  std::vector<std::string> grid;
  std::istringstream in(t.prompt.substr(t.prompt.find('\n') + 1));
  for (std::string line; std::getline(in, line);) grid.push_back(line);
  const int n = static_cast<int>(grid.size());
  const int far = n * n + 1;
  std::vector<int> distance(static_cast<size_t>(n * n), far);
  distance[0] = 0;
  for (int round = 0; round < n * n; ++round) {
    for (int i = 0; i < n * n; ++i) {
      if (grid[static_cast<size_t>(i / n)][static_cast<size_t>(i % n)] == '#') continue;
      const auto relax = [&](bool inside, int j) {
        if (!inside) return;
        int& here = distance[static_cast<size_t>(i)];
        here = std::min(here, distance[static_cast<size_t>(j)] + 1);
      };
      relax(i % n > 0, i - 1);
      relax(i % n < n - 1, i + 1);
      relax(i / n > 0, i - n);
      relax(i / n < n - 1, i + n);
    }
  }
  return distance.back() >= far ? "none" : std::to_string(distance.back());
}

std::string answer_to_walk(const Task& t) {
  int x = 0, y = 0;
  EXPECT_EQ(std::sscanf(t.prompt.c_str(), "Start at (%d,%d)", &x, &y), 2);
  std::istringstream in(t.prompt.substr(t.prompt.find("Go ") + 3));
  std::string way;
  for (int steps = 0; in >> way >> steps; in.ignore(1)) {
    if (way == "north") y += steps;
    if (way == "south") y -= steps;
    if (way == "east") x += steps;
    if (way == "west") x -= steps;
  }
  return "(" + std::to_string(x) + "," + std::to_string(y) + ")";
}

// Everyone's word is checked against who lies by the answer.
std::string answer_to_liars(const Task& t) {
  const auto lies = [&](int person) {
    return (" " + t.answer + " ").find(" P" + std::to_string(person) + " ") != std::string::npos;
  };
  const int first = std::atoi(t.prompt.c_str() + 1);
  EXPECT_EQ(lies(first), t.prompt.starts_with("P" + std::to_string(first) + " always"));
  for (size_t at = 0; (at = t.prompt.find(" says: ", at)) != std::string::npos; ++at) {
    int who = 0, whom = 0;
    char word[8] = {};
    const size_t begin = t.prompt.rfind('P', at);
    EXPECT_EQ(std::sscanf(t.prompt.c_str() + begin, "P%d says: P%d %7s", &who, &whom, word), 3);
    EXPECT_EQ(lies(whom) == (std::string(word) == "always"), !lies(who)) << t.prompt;
  }
  return t.answer;
}

TEST(EnvironmentAnswers, AgreeWithAnotherWayToFindThem) {
  const std::pair<const char*, std::string (*)(const Task&)> solvers[] = {
      {"addition", [](const Task& t) { return answer_to_sum(t, '+'); }},
      {"subtraction", [](const Task& t) { return answer_to_sum(t, '-'); }},
      {"multiplication", [](const Task& t) { return answer_to_sum(t, '*'); }},
      {"division", answer_to_division},
      {"modular", answer_to_modular},
      {"comparison", answer_to_comparison},
      {"base_conversion", answer_to_base},
      {"progression", answer_to_progression},
      {"sorting", answer_to_sorting},
      {"reversing", answer_to_reversing},
      {"counting", answer_to_counting},
      {"brackets", answer_to_brackets},
      {"sets", answer_to_sets},
      {"dates", answer_to_dates},
      {"logic", answer_to_logic},
      {"maze", answer_to_maze},
      {"walk", answer_to_walk},
      {"liars", answer_to_liars},
  };
  for (const auto& [name, solve] : solvers) {
    for (const int64_t level : {1, 2, 3, 5, 8, 11}) {
      for (uint64_t seed = 0; seed < 30; ++seed) {
        const Task task = generate(find_environment(name), level, seed, Split::train);
        EXPECT_EQ(task.answer, solve(task)) << name << " level " << level << ": " << task.prompt;
      }
    }
  }
}

// Degrees rise without end. Modulo a prime the formula above holds for terms of any length.
TEST(EnvironmentAnswers, HoldForSequencesOfAnyDegree) {
  constexpr int64_t kPrime = 1'000'003;
  const auto reduced = [](std::string_view number) {
    const bool minus = number.starts_with('-');
    int64_t rest = 0;
    for (const char c : number.substr(minus ? 1 : 0)) rest = (rest * 10 + (c - '0')) % kPrime;
    return minus ? (kPrime - rest) % kPrime : rest;
  };
  const Task task = generate(find_environment("progression"), 401, 1, Split::train);
  std::vector<int64_t> terms;
  const std::string_view prompt = task.prompt;
  for (const std::string_view word : split(prompt.substr(prompt.find('?') + 2), ' ')) {
    terms.push_back(reduced(word));
  }
  ASSERT_EQ(terms.size(), 104u) << "of degree 101";
  EXPECT_GT(task.answer.size(), 25u);
  // The differences are taken anew: their last row is constant.
  int64_t next = 0;
  while (terms.size() > 1) {
    next = (next + terms.back()) % kPrime;
    for (size_t i = 0; i + 1 < terms.size(); ++i) {
      terms[i] = (terms[i + 1] - terms[i] + kPrime) % kPrime;
    }
    terms.pop_back();
  }
  EXPECT_EQ(reduced(task.answer), next) << "the last row, of one number, is zero: " << terms[0];
  EXPECT_EQ(terms[0], 0);
}

// Numbers too long for the machine: (a + b) - b = a, and a sum as long as its longest term.
TEST(EnvironmentAnswers, HoldForNumbersOfAnyLength) {
  const Task task = generate(find_environment("addition"), 60, 3, Split::train);
  EXPECT_GE(task.answer.size(), 61u);
  EXPECT_LE(task.answer.size(), 62u);
}

}  // namespace
}  // namespace tephra

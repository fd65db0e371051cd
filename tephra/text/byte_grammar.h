// SPDX-License-Identifier: Apache-2.0
// Texts of a given form, byte by byte. A grammar is a small program for a machine with a stack,
// made backwards: each piece is told what follows it. An automaton runs all of its choices at once
// and remembers where it has been, so that the same step costs one look-up.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tephra {

class ByteGrammar {
 public:
  using Place = int32_t;  // a point in the program
  using Rule = int32_t;

  ByteGrammar();

  static constexpr Place kReturn = 0;  // the end of a rule

  Place byte(unsigned char low, unsigned char high, Place next);
  Place literal(std::string_view text, Place next);
  Place either(Place a, Place b);
  Place any_of(const std::vector<Place>& places);  // at least one
  // Any bytes up to and including the first `marker`.
  Place until(std::string_view marker, Place next);
  // Text that holds none of the markers, none of which holds another. It is made of the markers'
  // bytes and of texts of `other`, which have none of them.
  Place without(const std::vector<std::string>& markers, Rule other, Place next);
  // A place to be filled in later, for loops.
  Place later();
  void set(Place later, Place target);
  Place never() { return later(); }  // no text goes on here

  // A rule can be called before it is known.
  Rule new_rule();
  void define(Rule rule, Place place);
  Place call(Rule rule, Place next);

  size_t size() const { return program_.size(); }

 private:
  friend class ByteAutomaton;
  enum class Op : uint8_t { finish, byte, either, jump, call };
  struct Instruction {
    Op op;
    unsigned char low = 0, high = 0;
    int32_t next = 0, other = 0;  // other: the second choice, or the rule
  };
  Place add(const Instruction& instruction);
  // For each place whether some text leads from it to the end of its rule.
  std::vector<bool> ending() const;

  std::vector<Instruction> program_;
  std::vector<Place> rules_;
};

class ByteAutomaton {
 public:
  using State = int32_t;
  static constexpr State kDead = -1;

  // Starts with this rule. Fault::data when it allows no text at all.
  ByteAutomaton(ByteGrammar grammar, ByteGrammar::Rule start);

  State start() const { return start_; }
  State step(State state, unsigned char byte);  // kDead when no text goes on like this
  State step(State state, std::string_view bytes);
  bool accepts(State state) const { return states_[static_cast<size_t>(state)].accepts; }
  bool accepts(std::string_view whole);
  size_t states() const { return states_.size(); }

 private:
  struct Thread {
    int32_t place, stack;
    bool operator==(const Thread&) const = default;
    auto operator<=>(const Thread&) const = default;
  };
  struct Frame {
    int32_t place, below, depth;
  };
  struct StateData {
    std::vector<Thread> threads;  // all at a byte instruction
    bool accepts = false;
    std::array<State, 256> next;
  };
  struct ThreadsHash {
    size_t operator()(const std::vector<Thread>& threads) const;
  };

  int32_t push(int32_t place, int32_t below);
  void close(std::vector<Thread> open, std::vector<Thread>& at_bytes, bool& accepts);
  State state_of(std::vector<Thread> open);

  static constexpr State kUnknown = -2;
  ByteGrammar grammar_;
  std::vector<bool> ending_;  // places that lead to an end; the others are never entered
  size_t kept_threads_ = 0;   // of all states
  std::vector<Frame> frames_;
  std::unordered_map<uint64_t, int32_t> frame_of_;
  std::vector<StateData> states_;
  std::unordered_map<std::vector<Thread>, std::vector<State>, ThreadsHash> state_of_;
  State start_;
};

}  // namespace tephra

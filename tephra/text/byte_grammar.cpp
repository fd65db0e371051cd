// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/byte_grammar.h"

#include <algorithm>
#include <map>
#include <set>

#include "tephra/base/error.h"
#include "tephra/base/hash.h"

namespace tephra {
namespace {

constexpr size_t kMostInstructions = 1 << 20;
constexpr size_t kMostStates = 1 << 16;
constexpr size_t kMostThreads = 1 << 14;      // choices that are open at once
constexpr size_t kMostKeptThreads = 1 << 22;  // those of all states: tens of megabytes, a second
constexpr int32_t kMostDepth = 1024;          // of calls: deeper texts are not allowed
constexpr int32_t kEmptyStack = -1;

}  // namespace

ByteGrammar::ByteGrammar() { program_.push_back({.op = Op::finish}); }

ByteGrammar::Place ByteGrammar::add(const Instruction& instruction) {
  require_data(program_.size() < kMostInstructions, "grammar: more than {} steps; make it smaller",
               kMostInstructions);
  program_.push_back(instruction);
  return static_cast<Place>(program_.size() - 1);
}

ByteGrammar::Place ByteGrammar::byte(unsigned char low, unsigned char high, Place next) {
  return add({.op = Op::byte, .low = low, .high = high, .next = next});
}

ByteGrammar::Place ByteGrammar::literal(std::string_view text, Place next) {
  for (size_t i = text.size(); i-- > 0;) {
    const auto c = static_cast<unsigned char>(text[i]);
    next = byte(c, c, next);
  }
  return next;
}

ByteGrammar::Place ByteGrammar::either(Place a, Place b) {
  return add({.op = Op::either, .next = a, .other = b});
}

ByteGrammar::Place ByteGrammar::any_of(const std::vector<Place>& places) {
  TEPHRA_ASSERT(!places.empty(), "a choice has something to choose from");
  Place all = places.back();
  for (size_t i = places.size() - 1; i-- > 0;) all = either(places[i], all);
  return all;
}

// Knuth, Morris and Pratt: a state for each length of the marker's beginning that was just read.
ByteGrammar::Place ByteGrammar::until(std::string_view marker, Place next) {
  std::vector<Place> states;
  for (size_t i = 0; i < marker.size(); ++i) states.push_back(later());
  states.push_back(next);
  const auto after = [&](size_t read, char c) {
    std::string text(marker.substr(0, read));
    text += c;
    while (!marker.starts_with(text)) text.erase(0, 1);
    return states[text.size()];
  };
  std::set<unsigned char> own(marker.begin(), marker.end());
  for (size_t i = 0; i < marker.size(); ++i) {
    std::vector<Place> choices;
    int from = 0;
    for (const int c : own) {
      if (from < c)
        choices.push_back(
            byte(static_cast<unsigned char>(from), static_cast<unsigned char>(c - 1), states[0]));
      choices.push_back(byte(static_cast<unsigned char>(c), static_cast<unsigned char>(c),
                             after(i, static_cast<char>(c))));
      from = c + 1;
    }
    if (from <= 255) choices.push_back(byte(static_cast<unsigned char>(from), 255, states[0]));
    set(states[i], any_of(choices));
  }
  return states[0];
}

// Aho and Corasick: a state for each beginning of a marker that was just read.
ByteGrammar::Place ByteGrammar::without(const std::vector<std::string>& markers, Rule other,
                                        Place next) {
  std::map<std::string, Place> states;
  std::set<unsigned char> own;
  for (const std::string& marker : markers) {
    own.insert(marker.begin(), marker.end());
    for (size_t i = 0; i < marker.size(); ++i) states.try_emplace(marker.substr(0, i), 0);
  }
  for (auto& [begun, place] : states) place = later();
  for (const auto& [begun, place] : states) {
    std::vector<Place> choices = {next, call(other, states.at(""))};
    for (const unsigned char c : own) {
      std::string text = begun + static_cast<char>(c);
      if (std::find(markers.begin(), markers.end(), text) != markers.end()) continue;
      while (!states.contains(text)) text.erase(0, 1);
      choices.push_back(byte(c, c, states.at(text)));
    }
    set(place, any_of(choices));
  }
  return states.at("");
}

ByteGrammar::Place ByteGrammar::later() { return add({.op = Op::jump, .next = -1}); }

void ByteGrammar::set(Place later, Place target) {
  program_[static_cast<size_t>(later)].next = target;
}

ByteGrammar::Rule ByteGrammar::new_rule() {
  rules_.push_back(-1);
  return static_cast<Rule>(rules_.size() - 1);
}

void ByteGrammar::define(Rule rule, Place place) { rules_[static_cast<size_t>(rule)] = place; }

ByteGrammar::Place ByteGrammar::call(Rule rule, Place next) {
  return add({.op = Op::call, .next = next, .other = rule});
}

// Backwards from the ends, each place once. A call leads to an end when both its rule and what
// follows it do.
std::vector<bool> ByteGrammar::ending() const {
  struct Need {
    Place of, by;  // `by` needs that `of` leads to an end
  };
  std::vector<Need> needs;
  const auto need = [&](Place of, size_t by) {
    if (of >= 0) needs.push_back({of, static_cast<Place>(by)});
  };
  std::vector<uint8_t> missing(program_.size(), 1);
  for (size_t i = 0; i < program_.size(); ++i) {
    const Instruction& in = program_[i];
    if (in.op == Op::finish) continue;
    need(in.next, i);
    if (in.op == Op::either) need(in.other, i);
    if (in.op == Op::call) {
      need(rules_[static_cast<size_t>(in.other)], i);
      missing[i] = 2;
    }
  }
  std::sort(needs.begin(), needs.end(), [](Need a, Need b) { return a.of < b.of; });
  std::vector<bool> ends(program_.size(), false);
  ends[kReturn] = true;
  std::vector<Place> open = {kReturn};
  while (!open.empty()) {
    const Place place = open.back();
    open.pop_back();
    auto n = std::lower_bound(needs.begin(), needs.end(), place,
                              [](Need a, Place of) { return a.of < of; });
    for (; n != needs.end() && n->of == place; ++n) {
      const auto by = static_cast<size_t>(n->by);
      if (ends[by] || --missing[by] > 0) continue;
      ends[by] = true;
      open.push_back(n->by);
    }
  }
  return ends;
}

ByteAutomaton::ByteAutomaton(ByteGrammar grammar, ByteGrammar::Rule start)
    : grammar_(std::move(grammar)), ending_(grammar_.ending()) {
  start_ = state_of({{grammar_.rules_[static_cast<size_t>(start)], kEmptyStack}});
  require_data(start_ != kDead, "grammar: no text has this form");
}

size_t ByteAutomaton::ThreadsHash::operator()(const std::vector<Thread>& threads) const {
  return xxh3(std::as_bytes(std::span(threads)));
}

// Equal stacks have one number. A call at the end of a rule needs no frame.
int32_t ByteAutomaton::push(int32_t place, int32_t below) {
  if (place == ByteGrammar::kReturn) return below;
  const uint64_t key =
      static_cast<uint64_t>(static_cast<uint32_t>(place)) << 32 | static_cast<uint32_t>(below);
  const auto [at, fresh] = frame_of_.try_emplace(key, static_cast<int32_t>(frames_.size()));
  if (fresh) {
    const int32_t depth = below == kEmptyStack ? 0 : frames_[static_cast<size_t>(below)].depth;
    frames_.push_back({place, below, depth + 1});
  }
  return at->second;
}

// Follows everything that reads no byte.
void ByteAutomaton::close(std::vector<Thread> open, std::vector<Thread>& at_bytes, bool& accepts) {
  std::set<Thread> seen;
  while (!open.empty()) {
    const Thread t = open.back();
    open.pop_back();
    if (!ending_[static_cast<size_t>(t.place)] || !seen.insert(t).second) continue;
    require_data(seen.size() < kMostThreads, "grammar: too many choices at once; make it smaller");
    const ByteGrammar::Instruction& in = grammar_.program_[static_cast<size_t>(t.place)];
    switch (in.op) {
      case ByteGrammar::Op::byte:
        at_bytes.push_back(t);
        break;
      case ByteGrammar::Op::either:
        open.push_back({in.other, t.stack});
        open.push_back({in.next, t.stack});
        break;
      case ByteGrammar::Op::jump:
        open.push_back({in.next, t.stack});
        break;
      case ByteGrammar::Op::call: {
        const int32_t stack = push(in.next, t.stack);
        if (stack != kEmptyStack && frames_[static_cast<size_t>(stack)].depth > kMostDepth) break;
        open.push_back({grammar_.rules_[static_cast<size_t>(in.other)], stack});
        break;
      }
      case ByteGrammar::Op::finish:
        if (t.stack == kEmptyStack) {
          accepts = true;
        } else {
          const Frame& f = frames_[static_cast<size_t>(t.stack)];
          open.push_back({f.place, f.below});
        }
        break;
    }
  }
}

ByteAutomaton::State ByteAutomaton::state_of(std::vector<Thread> open) {
  StateData data;
  close(std::move(open), data.threads, data.accepts);
  if (data.threads.empty() && !data.accepts) return kDead;
  std::sort(data.threads.begin(), data.threads.end());
  std::vector<State>& known = state_of_[data.threads];
  for (const State s : known) {
    if (accepts(s) == data.accepts) return s;
  }
  kept_threads_ += data.threads.size();
  require_data(states_.size() < kMostStates && kept_threads_ < kMostKeptThreads,
               "grammar: the form is too involved to follow; make it smaller");
  data.next.fill(kUnknown);
  known.push_back(static_cast<State>(states_.size()));
  states_.push_back(std::move(data));
  return known.back();
}

ByteAutomaton::State ByteAutomaton::step(State state, unsigned char byte) {
  const StateData& from = states_[static_cast<size_t>(state)];
  if (from.next[byte] != kUnknown) return from.next[byte];
  std::vector<Thread> open;
  for (const Thread& t : from.threads) {
    const ByteGrammar::Instruction& in = grammar_.program_[static_cast<size_t>(t.place)];
    if (byte >= in.low && byte <= in.high) open.push_back({in.next, t.stack});
  }
  const State next = open.empty() ? kDead : state_of(std::move(open));
  states_[static_cast<size_t>(state)].next[byte] = next;
  return next;
}

ByteAutomaton::State ByteAutomaton::step(State state, std::string_view bytes) {
  for (const char c : bytes) {
    if (state == kDead) return kDead;
    state = step(state, static_cast<unsigned char>(c));
  }
  return state;
}

bool ByteAutomaton::accepts(std::string_view whole) {
  const State end = step(start_, whole);
  return end != kDead && accepts(end);
}

}  // namespace tephra

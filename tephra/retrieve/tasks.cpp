// SPDX-License-Identifier: Apache-2.0
#include "tephra/retrieve/tasks.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "tephra/base/error.h"
#include "tephra/core/rng.h"

namespace tephra {
namespace {

// A run of numbers from a seed.
class Dice {
 public:
  Dice(uint64_t seed, std::string_view what) : key_{.seed = seed, .stream = stream_of(what)} {}
  int below(size_t n) { return static_cast<int>(uniform(key_, next_++) * static_cast<double>(n)); }
  template <class List>
  const auto& pick(const List& list) {
    return list[static_cast<size_t>(below(list.size()))];
  }
  template <class T>
  void shuffle(std::vector<T>& list) {
    for (size_t i = list.size(); i > 1; --i) {
      std::swap(list[i - 1], list[static_cast<size_t>(below(i))]);
    }
  }
  std::string letters(int count, char first) {
    std::string word;
    for (int i = 0; i < count; ++i) word += static_cast<char>(first + below(26));
    return word;
  }
  std::string number() { return format("{}", 1000000 + below(9000000)); }

 private:
  RngKey key_;
  uint64_t next_ = 0;
};

// Filler with `facts` strewn in, in their order; gold are the lines of the facts named.
void hide(RetrievalTask& task, const TaskOptions& o, const std::vector<std::string>& facts,
          const std::vector<size_t>& gold, Dice& dice) {
  TEPHRA_ASSERT(o.filler != nullptr && !o.filler->empty(), "stories need filler");
  std::vector<size_t> places(facts.size());
  for (size_t& place : places)
    place = static_cast<size_t>(dice.below(static_cast<size_t>(o.lines)));
  std::sort(places.begin(), places.end());
  const auto first = static_cast<size_t>(dice.below(o.filler->size()));
  std::vector<uint32_t> line_of(facts.size());
  size_t fact = 0;
  for (size_t i = 0; i < static_cast<size_t>(o.lines); ++i) {
    for (; fact < facts.size() && places[fact] == i; ++fact) {
      line_of[fact] = static_cast<uint32_t>(task.lines.size());
      task.lines.push_back(facts[fact]);
    }
    task.lines.push_back((*o.filler)[(first + i) % o.filler->size()]);
  }
  for (const size_t g : gold) task.gold.push_back(line_of[g]);
}

constexpr std::array<const char*, 4> kPeople = {"Mary", "John", "Daniel", "Sandra"};
constexpr std::array<const char*, 6> kPlaces = {"bathroom", "bedroom", "garden",
                                                "hallway",  "kitchen", "office"};
constexpr std::array<const char*, 3> kThings = {"football", "apple", "milk"};
constexpr std::array<const char*, 5> kGo = {"went to", "journeyed to", "moved to", "travelled to",
                                            "went back to"};
constexpr std::array<const char*, 4> kTake = {"got", "grabbed", "picked up", "took"};
constexpr std::array<const char*, 4> kDrop = {"dropped", "discarded", "left", "put down"};

// A small world: who is where, who holds what, and which facts say so.
class World {
 public:
  explicit World(Dice& dice) : dice_(dice) { thing_place_.fill(-1); }

  void step() {
    const auto who = static_cast<size_t>(dice_.below(kPeople.size()));
    const int what = dice_.below(10);
    if (what < 6 || moves_[who].empty()) return go(who);
    const auto thing = static_cast<size_t>(dice_.below(kThings.size()));
    if (holder_[thing] == static_cast<int>(who)) return drop(who, thing);
    const int place = thing_place_[thing];
    if (holder_[thing] < 0 && (place < 0 || place == moves_[who].back().place)) {
      return take(who, thing);
    }
    go(who);
  }

  // Facts that say where a thing is: who has it (or left it), and where that person went last.
  std::vector<size_t> two_facts(size_t thing) const {
    if (taken_[thing].empty() || holder_[thing] < 0) return {};
    return {taken_[thing].back(), moves_[static_cast<size_t>(holder_[thing])].back().fact};
  }

  // Facts that say where a thing was before it came to its last place, and that place.
  std::vector<size_t> three_facts(size_t thing, int& place) const {
    if (holder_[thing] < 0) return {};
    const auto& moves = moves_[static_cast<size_t>(holder_[thing])];
    const size_t taken = taken_[thing].back();
    if (moves.size() < 2 || moves.back().fact < taken) return {};
    place = moves.back().place;
    return {taken, moves[moves.size() - 2].fact, moves.back().fact};
  }

  const std::vector<std::string>& facts() const { return facts_; }

 private:
  struct Move {
    int place;
    size_t fact;
  };

  void go(size_t who) {
    int place = dice_.below(kPlaces.size());
    if (!moves_[who].empty() && moves_[who].back().place == place) {
      place = (place + 1) % static_cast<int>(kPlaces.size());
    }
    moves_[who].push_back({place, facts_.size()});
    facts_.push_back(format("{} {} the {}.", kPeople[who], dice_.pick(kGo),
                            kPlaces[static_cast<size_t>(place)]));
  }
  void take(size_t who, size_t thing) {
    holder_[thing] = static_cast<int>(who);
    taken_[thing].push_back(facts_.size());
    facts_.push_back(format("{} {} the {}.", kPeople[who], dice_.pick(kTake), kThings[thing]));
  }
  void drop(size_t who, size_t thing) {
    holder_[thing] = -1;
    thing_place_[thing] = moves_[who].back().place;
    facts_.push_back(format("{} {} the {}.", kPeople[who], dice_.pick(kDrop), kThings[thing]));
  }

  Dice& dice_;
  std::vector<std::string> facts_;
  std::array<std::vector<Move>, kPeople.size()> moves_;
  std::array<std::vector<size_t>, kThings.size()> taken_;
  std::array<int, kThings.size()> holder_ = {-1, -1, -1};
  std::array<int, kThings.size()> thing_place_;
};

std::string capital_word(Dice& dice) {
  std::string word = dice.letters(5, 'A');
  return word;
}

}  // namespace

RetrievalTask two_fact_story(const TaskOptions& o, int events) {
  Dice dice(o.seed, "two facts");
  World world(dice);
  for (int i = 0;; ++i) {
    world.step();
    const auto thing = static_cast<size_t>(dice.below(kThings.size()));
    const std::vector<size_t> gold = world.two_facts(thing);
    if (i + 1 < events || gold.empty()) continue;
    RetrievalTask task;
    task.question = format("Where is the {}?", kThings[thing]);
    hide(task, o, world.facts(), gold, dice);
    return task;
  }
}

RetrievalTask three_fact_story(const TaskOptions& o, int events) {
  Dice dice(o.seed, "three facts");
  World world(dice);
  for (int i = 0;; ++i) {
    world.step();
    const auto thing = static_cast<size_t>(dice.below(kThings.size()));
    int place = 0;
    const std::vector<size_t> gold = world.three_facts(thing, place);
    if (i + 1 < events || gold.empty()) continue;
    RetrievalTask task;
    task.question = format("Where was the {} before the {}?", kThings[thing],
                           kPlaces[static_cast<size_t>(place)]);
    hide(task, o, world.facts(), gold, dice);
    return task;
  }
}

RetrievalTask hash_hop(const TaskOptions& o, int hops) {
  Dice dice(o.seed, "hash hop");
  RetrievalTask task;
  std::vector<size_t> of_first;  // lines of the first chain, before they are shuffled
  while (task.lines.size() < static_cast<size_t>(o.lines)) {
    std::string from = dice.letters(16, 'a');
    const bool first = task.lines.empty();
    if (first) task.question = format("Which hashes follow from {}?", from);
    for (int h = 0; h < hops; ++h) {
      std::string to = dice.letters(16, 'a');
      if (first) of_first.push_back(task.lines.size());
      task.lines.push_back(format("{} = {}", from, to));
      from = to;
    }
  }
  std::vector<size_t> order(task.lines.size());
  std::iota(order.begin(), order.end(), size_t{0});
  dice.shuffle(order);
  std::vector<std::string> shuffled(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    shuffled[i] = task.lines[order[i]];
    if (order[i] < of_first.size()) task.gold.push_back(static_cast<uint32_t>(i));
  }
  task.lines = std::move(shuffled);
  return task;
}

RetrievalTask needle(const TaskOptions& o, const NeedleShape& shape) {
  Dice dice(o.seed, "needle");
  std::vector<std::string> facts;
  std::string asked;
  for (int k = 0; k < shape.keys + shape.distractors; ++k) {
    const std::string key = format("{}-{}", dice.letters(7, 'a'), dice.letters(6, 'a'));
    if (k < shape.keys) asked += (asked.empty() ? "" : ", ") + key;
    for (int v = 0; v < shape.values; ++v) {
      facts.push_back(
          format("One of the special magic numbers for {} is: {}.", key, dice.number()));
    }
  }
  std::vector<size_t> order(facts.size()), gold;
  std::iota(order.begin(), order.end(), size_t{0});
  dice.shuffle(order);
  std::vector<std::string> shuffled;
  for (size_t i = 0; i < order.size(); ++i) {
    shuffled.push_back(facts[order[i]]);
    if (order[i] < static_cast<size_t>(shape.keys) * static_cast<size_t>(shape.values))
      gold.push_back(i);
  }
  RetrievalTask task;
  task.question = format("What are all the special magic numbers for {} mentioned above?", asked);
  hide(task, o, shuffled, gold, dice);
  return task;
}

RetrievalTask variable_tracking(const TaskOptions& o, int hops, int chains) {
  Dice dice(o.seed, "variables");
  std::vector<std::string> facts;
  std::string asked;
  std::vector<std::vector<std::string>> lists;
  for (int c = 0; c < chains; ++c) {
    const std::string value = dice.number();
    if (c == 0) asked = value;
    std::string name = capital_word(dice);
    lists.push_back({format("VAR {} = {}", name, value)});
    for (int h = 0; h < hops; ++h) {
      const std::string next = capital_word(dice);
      lists.back().push_back(format("VAR {} = VAR {}", next, name));
      name = next;
    }
  }
  std::vector<size_t> gold;
  for (size_t left = lists.size() * lists[0].size(); left > 0; --left) {  // chains interleave
    std::vector<size_t> open;
    for (size_t c = 0; c < lists.size(); ++c) {
      if (!lists[c].empty()) open.push_back(c);
    }
    const size_t c = dice.pick(open);
    if (c == 0) gold.push_back(facts.size());
    facts.push_back(lists[c].front());
    lists[c].erase(lists[c].begin());
  }
  RetrievalTask task;
  task.question = format("Find all variables that are assigned the value {} in the text.", asked);
  hide(task, o, facts, gold, dice);
  return task;
}

RetrievalTask common_words(const TaskOptions& o) {
  Dice dice(o.seed, "common words");
  constexpr int kCommon = 10, kOften = 30, kRare = 3;
  constexpr size_t kInLine = 10;
  RetrievalTask task;
  std::vector<std::string> words;
  for (int w = 0; w < kCommon; ++w) {
    task.counted.push_back(dice.letters(6, 'a'));
    for (int i = 0; i < kOften; ++i) words.push_back(task.counted.back());
  }
  while (words.size() < static_cast<size_t>(o.lines) * kInLine) {
    const std::string word = dice.letters(6, 'a');
    for (int i = 0; i < kRare; ++i) words.push_back(word);
  }
  dice.shuffle(words);
  for (size_t i = 0; i < words.size(); i += kInLine) {
    std::string line;
    for (size_t j = i; j < std::min(i + kInLine, words.size()); ++j) {
      line += (line.empty() ? "" : " ") + words[j];
    }
    task.lines.push_back(line);
  }
  task.question = "What are the 10 most common words in the above list?";
  return task;
}

}  // namespace tephra

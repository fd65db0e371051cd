// SPDX-License-Identifier: Apache-2.0
#include "tephra/retrieve/tasks.h"

#include <algorithm>
#include <numeric>

#include "tephra/base/error.h"
#include "tephra/retrieve/task_dice.h"

namespace tephra {
namespace {

// Filler with `facts` strewn in, in their order; gold are the lines of the facts named.
void hide(RetrievalTask& task, const TaskOptions& o, const std::vector<std::string>& facts,
          const std::vector<size_t>& gold, TaskDice& dice) {
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

// What a story is told with, and how it is asked about a THING and a PLACE.
struct StoryLexicon {
  std::vector<std::string> people, places, things, go, take, drop, where, before;
};

// bAbI's words, and others that share none with them.
const StoryLexicon& lexicon(StoryWords words) {
  static const StoryLexicon kBabi = {
      {"Mary", "John", "Daniel", "Sandra"},
      {"bathroom", "bedroom", "garden", "hallway", "kitchen", "office"},
      {"football", "apple", "milk"},
      {"went to", "journeyed to", "moved to", "travelled to", "went back to"},
      {"got", "grabbed", "picked up", "took"},
      {"dropped", "discarded", "left", "put down"},
      {"Where is the THING?"},
      {"Where was the THING before the PLACE?"}};
  static const StoryLexicon kOther = {
      {"Amara", "Kenji", "Lotte", "Pavel", "Ines"},
      {"attic", "library", "courtyard", "cellar", "balcony", "workshop", "stable"},
      {"lantern", "umbrella", "violin", "basket"},
      {"walked over to", "headed for", "hurried into", "strolled to"},
      {"lifted", "collected", "snatched", "carried off"},
      {"set aside", "abandoned", "released"},
      {"Can you tell me which room the THING is in now?",
       "I am looking for the THING. Where did it end up?",
       "What is the current location of the THING?"},
      {"In which room was the THING until it was brought to the PLACE?",
       "From where did the THING come to the PLACE?",
       "The THING is in the PLACE now; name the room where it used to be."}};
  return words == StoryWords::babi ? kBabi : kOther;
}

std::string worded(std::string form, const std::string& thing, const std::string& place) {
  const auto put = [&](std::string_view mark, const std::string& word) {
    const size_t at = form.find(mark);
    if (at != std::string::npos) form.replace(at, mark.size(), word);
  };
  put("THING", thing);
  put("PLACE", place);
  return form;
}

// A small world: who is where, who holds what, and which facts say so.
class World {
 public:
  World(const StoryLexicon& words, TaskDice& dice)
      : words_(words),
        dice_(dice),
        moves_(words.people.size()),
        taken_(words.things.size()),
        holder_(words.things.size(), -1),
        thing_place_(words.things.size(), -1) {}

  void step() {
    const auto who = static_cast<size_t>(dice_.below(words_.people.size()));
    const int what = dice_.below(10);
    if (what < 6 || moves_[who].empty()) return go(who);
    const auto thing = static_cast<size_t>(dice_.below(words_.things.size()));
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
    int place = dice_.below(words_.places.size());
    if (!moves_[who].empty() && moves_[who].back().place == place) {
      place = (place + 1) % static_cast<int>(words_.places.size());
    }
    moves_[who].push_back({place, facts_.size()});
    facts_.push_back(format("{} {} the {}.", words_.people[who], dice_.pick(words_.go),
                            words_.places[static_cast<size_t>(place)]));
  }
  void take(size_t who, size_t thing) {
    holder_[thing] = static_cast<int>(who);
    taken_[thing].push_back(facts_.size());
    facts_.push_back(
        format("{} {} the {}.", words_.people[who], dice_.pick(words_.take), words_.things[thing]));
  }
  void drop(size_t who, size_t thing) {
    holder_[thing] = -1;
    thing_place_[thing] = moves_[who].back().place;
    facts_.push_back(
        format("{} {} the {}.", words_.people[who], dice_.pick(words_.drop), words_.things[thing]));
  }

  const StoryLexicon& words_;
  TaskDice& dice_;
  std::vector<std::string> facts_;
  std::vector<std::vector<Move>> moves_;    // by person
  std::vector<std::vector<size_t>> taken_;  // by thing
  std::vector<int> holder_, thing_place_;   // by thing; -1: nobody, nowhere
};

std::string capital_word(TaskDice& dice) {
  std::string word = dice.letters(5, 'A');
  return word;
}

}  // namespace

RetrievalTask two_fact_story(const TaskOptions& o, int events, StoryWords words) {
  TaskDice dice(o.seed, "two facts");
  const StoryLexicon& lex = lexicon(words);
  World world(lex, dice);
  for (int i = 0;; ++i) {
    world.step();
    const auto thing = static_cast<size_t>(dice.below(lex.things.size()));
    const std::vector<size_t> gold = world.two_facts(thing);
    if (i + 1 < events || gold.empty()) continue;
    RetrievalTask task;
    task.question = worded(lex.where[o.seed % lex.where.size()], lex.things[thing], "");
    hide(task, o, world.facts(), gold, dice);
    return task;
  }
}

RetrievalTask three_fact_story(const TaskOptions& o, int events, StoryWords words) {
  TaskDice dice(o.seed, "three facts");
  const StoryLexicon& lex = lexicon(words);
  World world(lex, dice);
  for (int i = 0;; ++i) {
    world.step();
    const auto thing = static_cast<size_t>(dice.below(lex.things.size()));
    int place = 0;
    const std::vector<size_t> gold = world.three_facts(thing, place);
    if (i + 1 < events || gold.empty()) continue;
    RetrievalTask task;
    task.question = worded(lex.before[o.seed % lex.before.size()], lex.things[thing],
                           lex.places[static_cast<size_t>(place)]);
    hide(task, o, world.facts(), gold, dice);
    return task;
  }
}

RetrievalTask hash_hop(const TaskOptions& o, int hops) {
  TaskDice dice(o.seed, "hash hop");
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
  TaskDice dice(o.seed, "needle");
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
  TaskDice dice(o.seed, "variables");
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
  TaskDice dice(o.seed, "common words");
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

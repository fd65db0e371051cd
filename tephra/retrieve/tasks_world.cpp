// SPDX-License-Identifier: Apache-2.0
// Multi-hop questions over a made-up world. Every passage looks like thousands of others; only
// names lead from one to the next, and most are in no passage but the two or three that they join.
#include <algorithm>
#include <array>
#include <numeric>
#include <set>

#include "tephra/base/error.h"
#include "tephra/retrieve/task_dice.h"
#include "tephra/retrieve/tasks.h"

namespace tephra {
namespace {

constexpr std::array kStarts = {"Ba",   "Cor", "Del", "Fen", "Gar", "Hol", "Il",
                                "Jor",  "Kel", "Lum", "Mar", "Nor", "Os",  "Pel",
                                "Quin", "Rav", "Sel", "Tor", "Ul",  "Ver"};
constexpr std::array kMiddles = {"a",  "be", "di", "ga", "ka", "li",
                                 "mo", "ne", "pi", "ra", "so", "ti"};
constexpr std::array kEnds = {"den", "ford", "holm", "lin", "mere", "nor",
                              "ra",  "rin",  "sk",   "ton", "va",   "wick"};
constexpr std::array kFirms = {"Works", "Brothers", "Company", "and Sons"};
constexpr std::array kTrades = {"carpenter", "surveyor", "chemist",
                                "weaver",    "printer",  "engineer"};
constexpr std::array kGoods = {"clocks",  "ladders", "dyes",   "bicycles",
                               "kettles", "lenses",  "carpets"};
constexpr std::array kHobbies = {"chess", "beekeeping", "opera", "mountain walks", "old maps"};

class WorldMaker {
 public:
  WorldMaker(TaskDice& dice, size_t each) : dice_(dice), each_(each) {}

  RetrievalTask make(int hops) {
    for (size_t i = 0; i < each_; ++i) {
      firms_.push_back(name() + " " + dice_.pick(kFirms));
      people_.push_back(name() + " " + name());
      towns_.push_back(name());
      rivers_.push_back(name());
    }
    const auto home = shuffled(), bank = shuffled(), owner = shuffled();
    for (size_t i = 0; i < each_; ++i) {
      add(firm_passage(firms_[i], people_[owner[i]]));
      add(person_passage(people_[i], towns_[home[i]]));
      add(town_passage(towns_[i], rivers_[bank[i]]));
      add(river_passage(rivers_[i]));
    }
    const auto asked = static_cast<size_t>(dice_.below(each_));
    const size_t founder = owner[asked], birthplace = home[founder];
    std::vector<size_t> gold = {4 * asked, 4 * founder + 1};
    if (hops == 3) gold.push_back(4 * birthplace + 2);
    task_.question = question(firms_[asked], hops);
    shuffle_lines(gold);
    return std::move(task_);
  }

 private:
  // A name that nothing else has.
  std::string name() {
    for (;;) {
      std::string word = dice_.pick(kStarts);
      word.append(dice_.pick(kMiddles)).append(dice_.pick(kMiddles)).append(dice_.pick(kEnds));
      if (names_.insert(word).second) return word;
    }
  }
  std::vector<size_t> shuffled() {
    std::vector<size_t> order(each_);
    std::iota(order.begin(), order.end(), size_t{0});
    dice_.shuffle(order);
    return order;
  }
  void add(std::string passage) { task_.lines.push_back(std::move(passage)); }

  std::string firm_passage(const std::string& firm, const std::string& person) {
    const char* goods = dice_.pick(kGoods);
    switch (dice_.below(3)) {
      case 0:
        return format("{} makes {} and was founded by {} in {}.", firm, goods, person, year());
      case 1:
        return format("It was {} who set up {}, today known for its {}.", person, firm, goods);
      default:
        return format("Since {} {} has sold {}; its founder is {}.", year(), firm, goods, person);
    }
  }
  std::string person_passage(const std::string& person, const std::string& town) {
    const char* trade = dice_.pick(kTrades);
    switch (dice_.below(3)) {
      case 0:
        return format("{} was born in {} and trained as a {}.", person, town, trade);
      case 1:
        return format("A {} by trade, {} came from {} and loved {}.", trade, person, town,
                      dice_.pick(kHobbies));
      default:
        return format("The birthplace of {} is {}, where the family kept a shop.", person, town);
    }
  }
  std::string town_passage(const std::string& town, const std::string& river) {
    switch (dice_.below(2)) {
      case 0:
        return format("{} lies on the river {} and has {} inhabitants.", town, river,
                      100 + dice_.below(90000));
      default:
        return format("Through {} flows the {}, which floods its market every spring.", town,
                      river);
    }
  }
  std::string river_passage(const std::string& river) {
    return format("The {} rises in the hills and runs for {} kilometres.", river,
                  20 + dice_.below(900));
  }
  std::string question(const std::string& firm, int hops) {
    const bool first = dice_.below(2) == 0;
    if (hops == 2 && first) return format("In which town was the founder of {} born?", firm);
    if (hops == 2) return format("Where does the person behind {} come from?", firm);
    if (first)
      return format("Which river flows through the birthplace of the founder of {}?", firm);
    return format("On what river is the home town of the one who started {}?", firm);
  }
  int year() { return 1790 + dice_.below(200); }

  void shuffle_lines(const std::vector<size_t>& gold) {
    std::vector<size_t> order(task_.lines.size());
    std::iota(order.begin(), order.end(), size_t{0});
    dice_.shuffle(order);
    std::vector<std::string> lines(order.size());
    for (size_t i = 0; i < order.size(); ++i) {
      lines[i] = std::move(task_.lines[order[i]]);
      if (std::count(gold.begin(), gold.end(), order[i]) > 0) {
        task_.gold.push_back(static_cast<uint32_t>(i));
      }
    }
    task_.lines = std::move(lines);
  }

  TaskDice& dice_;
  size_t each_;
  std::set<std::string> names_;
  std::vector<std::string> firms_, people_, towns_, rivers_;
  RetrievalTask task_;
};

}  // namespace

RetrievalTask invented_world(const TaskOptions& o, int hops) {
  TEPHRA_ASSERT(hops == 2 || hops == 3, "the world has questions of 2 and 3 hops");
  TaskDice dice(o.seed, "invented world");
  return WorldMaker(dice, static_cast<size_t>(o.lines) / 4).make(hops);
}

}  // namespace tephra

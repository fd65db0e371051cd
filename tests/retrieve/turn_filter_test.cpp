// SPDX-License-Identifier: Apache-2.0
#include "tephra/retrieve/memory/turn_filter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/retrieve/sample_memory.h"
#include "tests/support/error_of.h"

namespace tephra {
namespace {

int64_t value_of(const TurnTable& table, int64_t row, Column column) {
  const int64_t time = table.time(row);
  const int32_t day = day_of(time);
  const CivilDate date = civil_date(day);
  switch (column) {
    case Column::response:
      return row;
    case Column::session:
      return table.session(row);
    case Column::speaker:
      return table.speaker(row);
    case Column::date:
      return day;
    case Column::month:
      return int64_t{date.year} * 12 + date.month - 1;
    case Column::week:
      return day - weekday_of(day) + 1;
    case Column::weekday:
      return weekday_of(day);
    case Column::clock:
      return second_of_day(time);
    default:
      return time;
  }
}

// Row by row, without knowing that anything is sorted.
std::vector<int64_t> naive(const TurnTable& table, const Operator& op) {
  std::vector<int64_t> rows;
  for (int64_t row = 0; row < table.rows(); ++row) {
    const int64_t value = value_of(table, row, op.column);
    bool kept = false;
    if (op.kind == Operator::Kind::value) {
      kept = std::find(op.values.begin(), op.values.end(), value) != op.values.end();
    } else if (op.values[0] <= op.values[1]) {
      kept = op.values[0] <= value && value <= op.values[1];
    } else if (op.column == Column::clock) {
      kept = value >= op.values[0] || value <= op.values[1];
    }
    if (kept) rows.push_back(row);
  }
  return rows;
}

std::vector<int64_t> rows_in(const RowSet& set) {
  std::vector<int64_t> rows;
  for (const RowRange& r : set) {
    for (int64_t row = r.begin; row < r.end; ++row) rows.push_back(row);
  }
  return rows;
}

TurnTable made_table(std::mt19937& random, int64_t rows) {
  TurnTable table;
  int64_t time = int64_t{19000} * kDaySeconds;
  int32_t session = 1;
  for (int64_t i = 0; i < rows; ++i) {
    if (random() % 5 == 0) {
      time += static_cast<int64_t>(random() % (5 * kDaySeconds));
      session += 1 + (random() % 7 == 0 ? 2 : 0);
    }
    time += static_cast<int64_t>(random() % 100);
    table.append({time, session, random() % 2 == 0 ? "Ann" : "Ben", "x"});
  }
  return table;
}

TEST(TurnFilter, KeepsWhatALookAtEveryRowKeeps) {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    const TurnTable table = made_table(random, 1 + static_cast<int64_t>(random() % 120));
    for (const Column column : {Column::response, Column::session, Column::date, Column::month,
                                Column::week, Column::weekday, Column::clock, Column::timestamp}) {
      const auto pick = [&] {
        return value_of(table, static_cast<int64_t>(random() % static_cast<uint64_t>(table.rows())),
                        column);
      };
      const Operator values = f_value(column, {pick(), pick(), pick()});
      const Operator range = f_between(column, pick(), pick());
      ASSERT_EQ(rows_in(keep(table, all_rows(table), values)), naive(table, values));
      if (column == Column::week && range.values[0] > range.values[1]) continue;
      ASSERT_EQ(rows_in(keep(table, all_rows(table), range)), naive(table, range))
          << to_text(range);
    }
  }
}

TEST(TurnFilter, AChainKeepsLessAndAStepOfTwoKeepsMore) {
  const Memory memory = sample_memory();
  const TurnTable& table = memory.table();
  const Chain chain = {{f_between(Column::session, 3, 5)}, {f_speaker({"ann"})}};
  EXPECT_EQ(rows_in(keep(table, all_rows(table), chain)), (std::vector<int64_t>{4, 6, 8, 9}));
  const Step either = {f_value(Column::session, {1}), f_between(Column::response, 1, 3)};
  EXPECT_EQ(rows_in(keep(table, all_rows(table), either)), (std::vector<int64_t>{0, 1, 2, 3}));
}

TEST(TurnFilter, JsonGoesThereAndBack) {
  const Chain chain = {{f_between(Column::date, 19500, 19510)},
                       {f_value(Column::session, {3, 5}), f_speaker({"Ann"})},
                       {f_value(Column::month, {2023 * 12 + 9})},
                       {f_value(Column::week, {day_number({2023, 10, 16})})},
                       {f_between(Column::weekday, 6, 7)},
                       {f_between(Column::clock, 3600, 7200)},
                       {f_between(Column::timestamp, 1'600'000'000, 1'700'000'000)}};
  EXPECT_EQ(chain_from_json(to_json(chain), "chain"), chain);
  EXPECT_EQ(to_text(chain[1]), "f_value(session, [3, 5]) or f_value(speaker, [Ann])");
  EXPECT_EQ(to_text(chain[3]), "f_value(week, [2023-W42])");
}

std::string problem_of(const char* json) {
  return error_of([&] { chain_from_json(Json::parse(json, "text"), "chain"); }).what();
}

TEST(TurnFilter, TakesTheLargestNumbersThereAre) {
  const Memory memory = sample_memory();
  const TurnTable& table = memory.table();
  for (const Column column : {Column::response, Column::session, Column::timestamp}) {
    const RowSet rows = keep(table, all_rows(table), f_between(column, 0, INT64_MAX));
    EXPECT_EQ(row_count(rows), table.rows()) << column_name(column);
    EXPECT_EQ(row_count(keep(table, all_rows(table), f_value(column, {INT64_MAX}))), 0);
  }
}

TEST(TurnFilter, BoundsWhatAModelMayAskFor) {
  const auto problem = [](const std::string& op, int count) {
    std::string list;
    for (int i = 0; i < count; ++i) list += (i > 0 ? "," : "") + op;
    return std::string(
        error_of([&] { chain_from_json(Json::parse("[" + list + "]", "x"), "chain"); }).what());
  };
  std::string many = "1";
  for (int i = 0; i < 1000; ++i) many += ",1";
  EXPECT_EQ(problem(R"({"op": "f_value", "column": "session", "values": [)" + many + "]}", 1),
            "chain[0]: values: expected 1 to 1000 of them, got 1001");
  EXPECT_EQ(problem(R"({"op": "f_value", "column": "session", "values": [1]})", 33),
            "chain: expected at most 32 operators, got 33");
  const Chain chain = chain_from_json(
      Json::parse(R"([{"op": "f_value", "column": "session", "values": [3, 1, 3]}])", "x"),
      "chain");
  EXPECT_EQ(to_text(chain[0]), "f_value(session, [1, 3])");
}

TEST(TurnFilter, SaysWhatIsWrongWithAnOperator) {
  EXPECT_EQ(problem_of(R"({"op": "f_value"})"),
            "chain: expected a list of operators, got an object");
  EXPECT_EQ(problem_of(R"([{"op": "f_near", "column": "date", "values": [1]}])"),
            "chain[0]: op: expected f_value or f_between, got 'f_near'");
  EXPECT_EQ(problem_of(R"([{"op": "f_value", "column": "sesion", "values": [1]}])"),
            "chain[0]: column: expected one of response, session, speaker, date, month, week, "
            "weekday, clock, timestamp, got 'sesion'; session?");
  EXPECT_EQ(problem_of(R"([{"op": "f_value", "column": "date", "values": ["2023-02-30"]}])"),
            "chain[0]: values: expected a date like \"2023-10-22\" for the column date, got "
            "\"2023-02-30\"");
  EXPECT_EQ(problem_of(R"([{"op": "f_between", "column": "session", "values": [3]}])"),
            "chain[0]: values: f_between takes two, the lowest and the highest, got 1");
}

}  // namespace
}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// Operators as text for people and as JSON for models.
#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "tephra/base/error.h"
#include "tephra/base/text.h"
#include "tephra/retrieve/memory/civil_time.h"
#include "tephra/retrieve/memory/turn_filter.h"

namespace tephra {
namespace {

constexpr std::array kColumns = {"response", "session", "speaker", "date",     "month",
                                 "week",     "weekday", "clock",   "timestamp"};
constexpr std::array kExpected = {"a number from 0",
                                  "a number from 1",
                                  "a name",
                                  "a date like \"2023-10-22\"",
                                  "a month like \"2023-10\"",
                                  "a week like \"2023-W42\"",
                                  "a day's name like \"Monday\"",
                                  "a time of day like \"10:55\"",
                                  "a time like \"2023-10-22T10:55:05\""};

// A chain comes from a model or from a client: it is bounded, since each step may read all rows.
constexpr size_t kMaxValues = 1000, kMaxSteps = 32;

std::string value_text(Column column, int64_t value) {
  const auto small = static_cast<int32_t>(value);
  switch (column) {
    case Column::date:
      return date_text(small);
    case Column::month:
      return format("{:04}-{:02}", value / 12, value % 12 + 1);
    case Column::week: {
      return format("{:04}-W{:02}", civil_date(small + 3).year, iso_week_of(small));
    }
    case Column::weekday:
      return weekday_name(small);
    case Column::clock:
      return clock_text(small);
    case Column::timestamp:
      return time_text(value);
    default:
      return format("{}", value);
  }
}

std::optional<int32_t> number_in(std::string_view text) {
  int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<int64_t> month_value(std::string_view text) {
  const auto day = parse_time(std::string(text) + "-01");
  if (!day) return std::nullopt;
  const CivilDate date = civil_date(day_of(*day));
  return int64_t{date.year} * 12 + date.month - 1;
}

std::optional<int64_t> week_value(std::string_view text) {
  const size_t w = text.find("-W");
  if (w != 4) return std::nullopt;
  const auto year = number_in(text.substr(0, 4));
  const auto week = number_in(text.substr(6));
  if (!year || !week || *year < 1 || *year > 9999 || *week < 1 || *week > 53) return std::nullopt;
  const int32_t fourth = day_number({*year, 1, 4});  // always in week 1
  return fourth - weekday_of(fourth) + 1 + 7 * (*week - 1);
}

std::optional<int64_t> weekday_value(std::string_view text) {
  for (int32_t day = 1; day <= 7; ++day) {
    const std::string_view name = weekday_name(day);
    if (text.size() >= 3 && name.starts_with(text)) return day;
  }
  return std::nullopt;
}

std::optional<int64_t> clock_value(std::string_view text) {
  const auto time = parse_time("1970-01-01T" + std::string(text));
  return time ? std::optional<int64_t>(*time) : std::nullopt;
}

std::optional<int64_t> value_from(Column column, const Json& json) {
  if (column == Column::response || column == Column::session) {
    if (!json.is_int() || json.integer() < 0) return std::nullopt;
    return json.integer();
  }
  if (!json.is_string()) return std::nullopt;
  const std::string& text = json.string();
  switch (column) {
    case Column::date: {
      const auto time = text.size() == 10 ? parse_time(text) : std::nullopt;
      return time ? std::optional<int64_t>(day_of(*time)) : std::nullopt;
    }
    case Column::month:
      return month_value(text);
    case Column::week:
      return week_value(text);
    case Column::weekday:
      return weekday_value(text);
    case Column::clock:
      return clock_value(text);
    default:
      return parse_time(text);
  }
}

Operator operator_from_json(const Json& json, const std::string& where) {
  const Fields fields(json, where);
  const std::string kind = fields.string("op");
  require_data(kind == "f_value" || kind == "f_between",
               "{}: op: expected f_value or f_between, got '{}'", where, clipped(kind, 40));
  const std::string name = fields.string("column");
  const auto* column = std::find(kColumns.begin(), kColumns.end(), name);
  if (column == kColumns.end()) {
    const auto near = nearest(name, column_names());
    throw Error(Fault::data, format("{}: column: expected one of response, session, speaker, date, "
                                    "month, week, weekday, clock, timestamp, got '{}'{}",
                                    where, clipped(name, 40), near ? "; " + *near + "?" : ""));
  }
  Operator op{kind == "f_value" ? Operator::Kind::value : Operator::Kind::between,
              static_cast<Column>(column - kColumns.begin()),
              {},
              {}};
  const Json::Array& values = fields.array("values");
  require_data(!values.empty() && values.size() <= kMaxValues,
               "{}: values: expected 1 to {} of them, got {}", where, kMaxValues, values.size());
  require_data(kind == "f_value" || values.size() == 2,
               "{}: values: f_between takes two, the lowest and the highest, got {}", where,
               values.size());
  for (const Json& value : values) {
    if (op.column == Column::speaker && value.is_string() && op.kind == Operator::Kind::value) {
      op.names.push_back(value.string());
      continue;
    }
    const auto number = op.column == Column::speaker ? std::nullopt : value_from(op.column, value);
    require_data(number.has_value(), "{}: values: expected {} for the column {}, got {}", where,
                 kExpected[static_cast<size_t>(op.column)], name, clipped(value.dump(), 60));
    op.values.push_back(*number);
  }
  if (op.kind == Operator::Kind::value) {
    std::sort(op.values.begin(), op.values.end());
    op.values.erase(std::unique(op.values.begin(), op.values.end()), op.values.end());
  }
  return op;
}

}  // namespace

const char* column_name(Column column) { return kColumns.at(static_cast<size_t>(column)); }

std::vector<std::string> column_names() { return {kColumns.begin(), kColumns.end()}; }

std::string to_text(const Operator& op) {
  std::string values;
  for (const int64_t value : op.values) {
    values += (values.empty() ? "" : ", ") + value_text(op.column, value);
  }
  for (const std::string& name : op.names) values += (values.empty() ? "" : ", ") + name;
  return format("{}({}, [{}])", op.kind == Operator::Kind::value ? "f_value" : "f_between",
                column_name(op.column), values);
}

std::string to_text(const Step& step) {
  std::string out;
  for (const Operator& op : step) out += (out.empty() ? "" : " or ") + to_text(op);
  return out;
}

Json to_json(const Operator& op) {
  Json values = Json::Array{};
  const bool plain = op.column == Column::response || op.column == Column::session;
  for (const int64_t value : op.values) {
    values.push_back(plain ? Json(value) : Json(value_text(op.column, value)));
  }
  for (const std::string& name : op.names) values.push_back(name);
  Json out;
  out["op"] = op.kind == Operator::Kind::value ? "f_value" : "f_between";
  out["column"] = column_name(op.column);
  out["values"] = values;
  return out;
}

Json to_json(const Chain& chain) {
  Json out = Json::Array{};
  for (const Step& step : chain) {
    if (step.size() == 1) {
      out.push_back(to_json(step[0]));
      continue;
    }
    Json list = Json::Array{};
    for (const Operator& op : step) list.push_back(to_json(op));
    Json any;
    any["any"] = list;
    out.push_back(any);
  }
  return out;
}

Chain chain_from_json(const Json& json, const std::string& where) {
  require_data(json.is_array(), "{}: expected a list of operators, got {}", where, json.kind());
  require_data(json.array().size() <= kMaxSteps, "{}: expected at most {} operators, got {}", where,
               kMaxSteps, json.array().size());
  Chain chain;
  for (const Json& item : json.array()) {
    const std::string place = format("{}[{}]", where, chain.size());
    require_data(item.is_object(), "{}: expected an object, got {}", place, item.kind());
    Step step;
    if (const Json* any = item.find("any")) {
      require_data(any->is_array() && !any->array().empty() && any->array().size() <= kMaxSteps,
                   "{}.any: expected a list of 1 to {} operators, got {}", place, kMaxSteps,
                   any->kind());
      for (const Json& op : any->array()) {
        require_data(op.is_object(), "{}.any: expected objects, got {}", place, op.kind());
        step.push_back(operator_from_json(op, place));
      }
    } else {
      step.push_back(operator_from_json(item, place));
    }
    chain.push_back(std::move(step));
  }
  return chain;
}

}  // namespace tephra

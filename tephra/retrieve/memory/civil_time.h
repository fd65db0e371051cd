// SPDX-License-Identifier: Apache-2.0
// Dates and times as clocks on a wall show them, without zones: days and seconds since 1970-01-01.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tephra {

constexpr int64_t kDaySeconds = 86400;

struct CivilDate {
  int32_t year = 1970;
  int32_t month = 1;  // 1 to 12
  int32_t day = 1;

  bool operator==(const CivilDate& other) const = default;
};

int32_t days_in_month(int32_t year, int32_t month);
bool is_date(const CivilDate& date);

int32_t day_number(const CivilDate& date);  // days since 1970-01-01, negative before
CivilDate civil_date(int32_t day_number);
CivilDate add_months(const CivilDate& date, int32_t months);  // the day is cut to the month's last
int32_t weekday_of(int32_t day_number);                       // 1 Monday to 7 Sunday
int32_t iso_week_of(int32_t day_number);                      // 1 to 53
int32_t easter_day(int32_t year);                             // Easter Sunday, western

inline int32_t day_of(int64_t time) {
  return static_cast<int32_t>((time >= 0 ? time : time - (kDaySeconds - 1)) / kDaySeconds);
}
inline int32_t second_of_day(int64_t time) {
  return static_cast<int32_t>(time - int64_t{day_of(time)} * kDaySeconds);
}

// "2023-10-22T10:55:05", with a space instead of the T, without seconds or without a time; a zone
// (Z, +02:00) is read and left aside: what the wall showed is what people remember.
std::optional<int64_t> parse_time(std::string_view text);
int64_t wall_clock();  // now, in the machine's time zone

std::string date_text(int32_t day_number);  // 2023-10-22
std::string time_text(int64_t time);        // 2023-10-22T10:55:05
std::string clock_text(int32_t second);     // 10:55
const char* weekday_name(int32_t weekday);  // 1: Monday
const char* month_name(int32_t month);      // 1: January

}  // namespace tephra

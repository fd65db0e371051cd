// SPDX-License-Identifier: Apache-2.0
#include "tephra/retrieve/memory/civil_time.h"

#include <array>
#include <charconv>
#include <ctime>

#include "tephra/base/format.h"

namespace tephra {
namespace {

constexpr std::array kMonthNames = {"January",   "February", "March",    "April",
                                    "May",       "June",     "July",     "August",
                                    "September", "October",  "November", "December"};
constexpr std::array kDayNames = {"Monday", "Tuesday",  "Wednesday", "Thursday",
                                  "Friday", "Saturday", "Sunday"};

bool is_leap(int32_t year) { return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0); }

// Reads fixed-width numbers and single characters off the front.
struct Reader {
  std::string_view text;

  bool number(size_t digits, int32_t& value) {
    if (text.size() < digits) return false;
    for (size_t i = 0; i < digits; ++i) {
      if (text[i] < '0' || text[i] > '9') return false;
    }
    std::from_chars(text.data(), text.data() + digits, value);
    text.remove_prefix(digits);
    return true;
  }
  bool one_of(std::string_view set) {
    if (text.empty() || set.find(text[0]) == std::string_view::npos) return false;
    text.remove_prefix(1);
    return true;
  }
};

bool read_zone(Reader& in) {
  int32_t hours = 0, minutes = 0;
  if (in.text.empty() || in.one_of("Zz")) return true;
  if (!in.one_of("+-") || !in.number(2, hours)) return false;
  in.one_of(":");
  return in.text.empty() || in.number(2, minutes);
}

}  // namespace

int32_t days_in_month(int32_t year, int32_t month) {
  constexpr std::array<int32_t, 12> kDays = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return month == 2 && is_leap(year) ? 29 : kDays[static_cast<size_t>(month - 1)];
}

bool is_date(const CivilDate& d) {
  return d.year >= 1 && d.year <= 9999 && d.month >= 1 && d.month <= 12 && d.day >= 1 &&
         d.day <= days_in_month(d.year, d.month);
}

// Years that begin in March put the leap day at their end; 400 of them have 146,097 days.
int32_t day_number(const CivilDate& d) {
  const int32_t y = d.month <= 2 ? d.year - 1 : d.year;
  const int32_t era = (y >= 0 ? y : y - 399) / 400;
  const int32_t year_of_era = y - era * 400;
  const int32_t day_of_year = (153 * (d.month + (d.month > 2 ? -3 : 9)) + 2) / 5 + d.day - 1;
  const int32_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
  return era * 146097 + day_of_era - 719468;
}

CivilDate civil_date(int32_t number) {
  const int32_t z = number + 719468;
  const int32_t era = (z >= 0 ? z : z - 146096) / 146097;
  const int32_t doe = z - era * 146097;
  const int32_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
  const int32_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
  const int32_t mp = (5 * doy + 2) / 153;
  const int32_t month = mp < 10 ? mp + 3 : mp - 9;
  return {yoe + era * 400 + (month <= 2 ? 1 : 0), month, doy - (153 * mp + 2) / 5 + 1};
}

CivilDate add_months(const CivilDate& date, int32_t months) {
  const int32_t index = date.year * 12 + date.month - 1 + months;
  const int32_t year = index >= 0 ? index / 12 : (index - 11) / 12;
  const int32_t month = index - year * 12 + 1;
  const int32_t last = days_in_month(year, month);
  return {year, month, date.day < last ? date.day : last};
}

int32_t weekday_of(int32_t number) {
  const int32_t r = (number + 3) % 7;  // 1970-01-01 was a Thursday
  return (r < 0 ? r + 7 : r) + 1;
}

int32_t iso_week_of(int32_t number) {
  const int32_t thursday = number - weekday_of(number) + 4;  // decides the year of its week
  const int32_t first = day_number({civil_date(thursday).year, 1, 1});
  return (thursday - first) / 7 + 1;
}

int32_t easter_day(int32_t year) {  // the Gregorian computus
  const int32_t a = year % 19, b = year / 100, c = year % 100;
  const int32_t h = (19 * a + b - b / 4 - (b - (b + 8) / 25 + 1) / 3 + 15) % 30;
  const int32_t l = (32 + 2 * (b % 4) + 2 * (c / 4) - h - c % 4) % 7;
  const int32_t m = (a + 11 * h + 22 * l) / 451;
  const int32_t n = h + l - 7 * m + 114;
  return day_number({year, n / 31, n % 31 + 1});
}

std::optional<int64_t> parse_time(std::string_view text) {
  Reader in{text};
  CivilDate date;
  int32_t hour = 0, minute = 0, second = 0;
  if (!in.number(4, date.year) || !in.one_of("-/") || !in.number(2, date.month) ||
      !in.one_of("-/") || !in.number(2, date.day) || !is_date(date)) {
    return std::nullopt;
  }
  if (!in.text.empty()) {
    if (!in.one_of("Tt ") || !in.number(2, hour) || !in.one_of(":") || !in.number(2, minute)) {
      return std::nullopt;
    }
    if (in.one_of(":") && !in.number(2, second)) return std::nullopt;
    if (in.one_of(".,")) {
      while (in.one_of("0123456789")) {
      }
    }
    if (!read_zone(in)) return std::nullopt;
  }
  if (!in.text.empty() || hour > 23 || minute > 59 || second > 60) return std::nullopt;
  return int64_t{day_number(date)} * kDaySeconds + hour * 3600 + minute * 60 +
         (second < 60 ? second : 59);
}

int64_t wall_clock() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  return int64_t{day_number({local.tm_year + 1900, local.tm_mon + 1, local.tm_mday})} *
             kDaySeconds +
         local.tm_hour * 3600 + local.tm_min * 60 + local.tm_sec;
}

std::string date_text(int32_t number) {
  const CivilDate d = civil_date(number);
  return format("{:04}-{:02}-{:02}", d.year, d.month, d.day);
}

std::string time_text(int64_t time) {
  const int32_t s = second_of_day(time);
  return format("{}T{:02}:{:02}:{:02}", date_text(day_of(time)), s / 3600, s / 60 % 60, s % 60);
}

std::string clock_text(int32_t second) {
  return format("{:02}:{:02}", second / 3600, second / 60 % 60);
}

const char* weekday_name(int32_t weekday) { return kDayNames.at(static_cast<size_t>(weekday - 1)); }

const char* month_name(int32_t month) { return kMonthNames.at(static_cast<size_t>(month - 1)); }

}  // namespace tephra

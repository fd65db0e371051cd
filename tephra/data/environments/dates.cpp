// SPDX-License-Identifier: Apache-2.0
// The date some days later, month by month in the Gregorian calendar.
#include "tephra/data/environments/environment.h"
#include "tephra/data/environments/lines.h"

namespace tephra {
namespace {

struct Date {
  int64_t year, month, day;
};

int64_t days_in(const Date& d) {
  constexpr int64_t kDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  const bool leap = d.year % 4 == 0 && (d.year % 100 != 0 || d.year % 400 == 0);
  return d.month == 2 && leap ? 29 : kDays[d.month - 1];
}

std::string to_text(const Date& d) { return format("{}-{:02}-{:02}", d.year, d.month, d.day); }

}  // namespace

Task make_dates(Draw& draw, int64_t level) {
  Date date{draw.between(1900, 2099), draw.between(1, 12), 1};
  date.day = draw.between(1, days_in(date));
  int64_t left = draw.between(1, 30 * level);
  const std::string prompt = format("Which date is {} days after {}?", left, to_text(date));
  Lines lines;
  while (date.day + left > days_in(date)) {
    const int64_t used = days_in(date) - date.day + 1;  // to the first of the next month
    const std::string month = format("{}-{:02} has {} days", date.year, date.month, days_in(date));
    left -= used;
    date = date.month == 12 ? Date{date.year + 1, 1, 1} : Date{date.year, date.month + 1, 1};
    lines.add("{}: {} days to {}, {} left", month, used, to_text(date), left);
  }
  lines.add("{}+{}={}", date.day, left, date.day + left);
  date.day += left;
  return {prompt, lines.text(), to_text(date), ""};
}

}  // namespace tephra

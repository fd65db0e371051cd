// SPDX-License-Identifier: Apache-2.0
#include "tephra/retrieve/memory/civil_time.h"

#include <gtest/gtest.h>

#include <chrono>

namespace tephra {
namespace {

// The standard library's calendar is the oracle.
TEST(CivilTime, AgreesWithTheStandardCalendar) {
  namespace c = std::chrono;
  for (int32_t day = -719162; day < 2932896; day += 137) {
    const c::year_month_day ymd{c::sys_days{c::days{day}}};
    const CivilDate date = civil_date(day);
    ASSERT_EQ(date.year, int{ymd.year()});
    ASSERT_EQ(date.month, static_cast<int32_t>(unsigned{ymd.month()}));
    ASSERT_EQ(date.day, static_cast<int32_t>(unsigned{ymd.day()}));
    ASSERT_EQ(day_number(date), day);
    ASSERT_EQ(weekday_of(day),
              static_cast<int32_t>(c::weekday{c::sys_days{c::days{day}}}.iso_encoding()));
  }
}

TEST(CivilTime, KnowsWeeksMonthsAndEaster) {
  EXPECT_EQ(iso_week_of(day_number({2021, 1, 3})), 53);
  EXPECT_EQ(iso_week_of(day_number({2024, 12, 30})), 1);
  EXPECT_EQ(add_months({2024, 3, 31}, -1), (CivilDate{2024, 2, 29}));
  EXPECT_EQ(add_months({2023, 1, 15}, -13), (CivilDate{2021, 12, 15}));
  EXPECT_EQ(date_text(easter_day(2023)), "2023-04-09");
  EXPECT_EQ(date_text(easter_day(2024)), "2024-03-31");
}

TEST(CivilTime, ReadsTimesAndRefusesWhatIsNone) {
  const auto time = parse_time("2023-10-22T10:55:05");
  ASSERT_TRUE(time.has_value());
  EXPECT_EQ(time_text(*time), "2023-10-22T10:55:05");
  EXPECT_EQ(parse_time("2023-10-22 10:55:05Z"), time);
  EXPECT_EQ(parse_time("2023-10-22T10:55:05.123+02:00"), time);
  EXPECT_EQ(time_text(*parse_time("2023-10-22")), "2023-10-22T00:00:00");
  EXPECT_EQ(time_text(*parse_time("1969-12-31T23:59:59")), "1969-12-31T23:59:59");
  for (const char* bad : {"", "2023", "2023-02-29", "2023-13-01", "2023-10-22T25:00", "22.10.2023",
                          "2023-10-22T10", "2023-10-22T10:55:05 noon"}) {
    EXPECT_FALSE(parse_time(bad).has_value()) << bad;
  }
}

}  // namespace
}  // namespace tephra

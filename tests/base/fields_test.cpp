// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tephra/base/json.h"
#include "tests/support/error_of.h"

namespace tephra {
namespace {

const Json& sample() {
  static const Json json = Json::parse(
      R"({"hidden_size": "2048", "layers": 40, "eps": 1e-5, "theta": 10000, "width": 2048.0,
          "tie": true, "name": "zaya", "rope_scaling": false, "none": null, "big": 1e30,
          "list": [1, 2], "rope": {"factor": "x"}})",
      "config.json");
  return json;
}

std::string fields_error(FunctionRef<void(const Fields&)> use) {
  const Fields fields(sample(), "config.json");
  const Error error = error_of([&] { use(fields); });
  EXPECT_EQ(error.fault(), Fault::data);
  return error.what();
}

TEST(Fields, GiveTypedValues) {
  const Fields fields(sample(), "config.json");
  EXPECT_EQ(fields.integer("layers"), 40);
  EXPECT_EQ(fields.number("eps"), 1e-5);
  EXPECT_EQ(fields.number("theta"), 10000.0);
  EXPECT_TRUE(fields.boolean("tie"));
  EXPECT_EQ(fields.string("name"), "zaya");
  EXPECT_EQ(fields.array("list").size(), 2u);
  EXPECT_EQ(fields.object("rope").string("factor"), "x");
  EXPECT_TRUE(fields.has("rope_scaling"));
  EXPECT_FALSE(fields.has("none"));
  EXPECT_FALSE(fields.has("absent"));
}

TEST(Fields, FallBackOnlyWhenAbsentOrNull) {
  const Fields fields(sample(), "config.json");
  EXPECT_EQ(fields.integer_or("absent", 7), 7);
  EXPECT_EQ(fields.integer_or("none", 7), 7);
  EXPECT_EQ(fields.integer_or("layers", 7), 40);
  EXPECT_EQ(fields.number_or("none", 0.5), 0.5);
  EXPECT_EQ(fields.boolean_or("absent", true), true);
  EXPECT_EQ(fields.string_or("absent", "x"), "x");
  EXPECT_EQ(fields_error([](const Fields& f) { f.integer_or("hidden_size", 7); }),
            "config.json: key 'hidden_size': expected an integer, got a string (\"2048\")");
}

TEST(Fields, SayWhereKeyExpectedAndGot) {
  EXPECT_EQ(fields_error([](const Fields& f) { f.integer("absent"); }),
            "config.json: key 'absent': expected an integer, but the key is missing");
  EXPECT_EQ(fields_error([](const Fields& f) { f.integer("none"); }),
            "config.json: key 'none': expected an integer, got null");
  EXPECT_EQ(fields_error([](const Fields& f) { f.integer("width"); }),
            "config.json: key 'width': expected an integer, got a number (2048.0)");
  EXPECT_EQ(fields_error([](const Fields& f) { f.integer("big"); }),
            "config.json: key 'big': expected an integer, got a number (1e+30)");
  EXPECT_EQ(fields_error([](const Fields& f) { f.number("name"); }),
            "config.json: key 'name': expected a number, got a string (\"zaya\")");
  EXPECT_EQ(fields_error([](const Fields& f) { f.boolean("layers"); }),
            "config.json: key 'layers': expected true or false, got an integer (40)");
  EXPECT_EQ(fields_error([](const Fields& f) { f.object("rope_scaling"); }),
            "config.json: key 'rope_scaling': expected an object, got a boolean (false)");
  EXPECT_EQ(fields_error([](const Fields& f) { f.string("list"); }),
            "config.json: key 'list': expected a string, got an array");
  EXPECT_EQ(fields_error([](const Fields& f) { f.object("rope").number("factor"); }),
            "config.json: rope: key 'factor': expected a number, got a string (\"x\")");
  const Json list = Json::Array{};
  EXPECT_STREQ(error_of([&] { Fields(list, "config.json"); }).what(),
               "config.json: expected an object, got an array");
}

}  // namespace
}  // namespace tephra

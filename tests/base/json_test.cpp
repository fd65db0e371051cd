// SPDX-License-Identifier: Apache-2.0
#include "tephra/base/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "tests/support/error_of.h"

namespace tephra {
namespace {

std::string parse_error(std::string_view text, int max_depth = 64) {
  const Error error = error_of([&] { Json::parse(text, "x.json", max_depth); });
  EXPECT_EQ(error.fault(), Fault::data);
  return error.what();
}

TEST(Json, ReadsEveryKindAndKeepsTheOrderOfKeys) {
  const Json json =
      Json::parse(R"( {"b": [1, -2.5, "é\u00e9\n", true, null, {}], "a": {"c": []}} )", "x.json");
  ASSERT_TRUE(json.is_object());
  EXPECT_EQ(json.object()[0].first, "b");
  EXPECT_EQ(json.object()[1].first, "a");
  const Json::Array& items = json.find("b")->array();
  EXPECT_EQ(items[0].integer(), 1);
  EXPECT_EQ(items[0].number(), 1.0);
  EXPECT_EQ(items[1].number(), -2.5);
  EXPECT_EQ(items[2].string(), "éé\n");
  EXPECT_TRUE(items[3].boolean());
  EXPECT_TRUE(items[4].is_null());
  EXPECT_TRUE(items[5].is_object());
  EXPECT_EQ(json.find("z"), nullptr);
}

TEST(Json, DumpsWhatItReads) {
  for (const char* text :
       {"null", "true", "[]", "{}", "0", "-1", "9223372036854775807", "-9223372036854775808", "1.0",
        "-0.0", "0.1", "1e-05", "0.0001", "5000000.0", "1e+16", "1.7976931348623157e+308", "5e-324",
        R"("a\"b\\c\n\r\t\u0001é😀")", R"({"b":[1,2,{"c":null}],"a":1.5})"}) {
    EXPECT_EQ(Json::parse(text, "x.json").dump(), text);
  }
}

TEST(Json, DumpIndents) {
  Json json;
  json["a"] = 1;
  json["b"].push_back(2.5);
  json["b"].push_back("x");
  json["c"] = Json::Object();
  json["a"] = 3;
  EXPECT_EQ(json.dump(2), "{\n  \"a\": 3,\n  \"b\": [\n    2.5,\n    \"x\"\n  ],\n  \"c\": {}\n}");
  EXPECT_EQ(json.dump(), R"({"a":3,"b":[2.5,"x"],"c":{}})");
}

TEST(Json, DumpHasNoNanAndOnlyUtf8) {
  EXPECT_EQ(Json(std::numeric_limits<double>::quiet_NaN()).dump(), "null");
  EXPECT_EQ(Json(std::numeric_limits<double>::infinity()).dump(), "null");
  EXPECT_EQ(Json(std::string("a\xff\xc3(")).dump(), "\"a\xef\xbf\xbd\xef\xbf\xbd(\"");
}

TEST(Json, DoublesReadBackToTheSameBits) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 20000; ++i) {
    const double value = std::bit_cast<double>(random());
    if (!std::isfinite(value)) continue;
    const Json back = Json::parse(Json(value).dump(), "x.json");
    ASSERT_FALSE(back.is_int());
    ASSERT_EQ(std::bit_cast<uint64_t>(back.number()), std::bit_cast<uint64_t>(value)) << value;
  }
}

TEST(Json, IntegersBeyondInt64BecomeDoubles) {
  EXPECT_FALSE(Json::parse("9223372036854775808", "x.json").is_int());
  EXPECT_EQ(Json::parse("18446744073709551615", "x.json").number(), 18446744073709551615.0);
  EXPECT_EQ(Json::parse("1000000000000000019884624838656", "x.json").number(), 1e30);
}

TEST(Json, TakesTheLastOfRepeatedKeysWhereAsked) {
  const std::string text = R"({"a": 1, "b": {"": 1, "": 2}, "a": [{"a": 3}], "c": null, "a": 4})";
  EXPECT_EQ(Json::parse(text, "x.json", 64, Json::Repeats::last).dump(),
            R"({"a":4,"b":{"":2},"c":null})");
}

TEST(Json, SaysWhereAndWhyTextIsRefused) {
  EXPECT_EQ(parse_error(""), "x.json: line 1, column 1: the text is empty");
  EXPECT_EQ(parse_error("{\n  \"a\": 1,\n  \"a\": 2\n}"),
            "x.json: line 3, column 5: the key 'a' appears twice in one object");
  EXPECT_EQ(parse_error("{\"a\": nope}"),
            "x.json: line 1, column 8: syntax error while parsing value - invalid literal");
  EXPECT_EQ(parse_error(std::string_view("{}\0{}", 5)),
            "x.json: line 1, column 3: a NUL byte, which JSON does not allow");
  EXPECT_EQ(parse_error("[[[[]]]]", 3), "x.json: line 1, column 4: nested deeper than 3 levels");
  EXPECT_EQ(Json::parse("[[[]]]", "x.json", 3).dump(), "[[[]]]");
}

TEST(Json, RefusesWhatIsNotJson) {
  const std::string deep(100000, '[');
  for (const std::string_view text : {std::string_view("{"),
                                      std::string_view("[1,]"),
                                      std::string_view("{\"a\":1,}"),
                                      std::string_view("{a:1}"),
                                      std::string_view("{'a':1}"),
                                      std::string_view("[1] 2"),
                                      std::string_view("NaN"),
                                      std::string_view("[Infinity]"),
                                      std::string_view("-Infinity"),
                                      std::string_view("01"),
                                      std::string_view("1."),
                                      std::string_view("+1"),
                                      std::string_view("1e999"),
                                      std::string_view("\"\xff\""),
                                      std::string_view("\"\xc0\x80\""),
                                      std::string_view("\"\xed\xa0\x80\""),
                                      std::string_view("\"\\ud800\""),
                                      std::string_view("\"a\nb\""),
                                      std::string_view("\"\\x\""),
                                      std::string_view("\"abc"),
                                      std::string_view("// c\n1"),
                                      std::string_view("tru"),
                                      std::string_view("   "),
                                      std::string_view("\xff\xfe{"),
                                      std::string_view(deep)}) {
    const std::string message = parse_error(text);
    EXPECT_TRUE(message.starts_with("x.json: line ")) << message;
    EXPECT_EQ(message.find("json.exception"), message.npos) << message;
    EXPECT_LT(message.size(), 250u);
  }
}

TEST(Json, ManyKeysAreCheckedForDuplicatesQuickly) {
  std::string text = "{";
  for (int i = 0; i < 100000; ++i) text += "\"key" + std::to_string(i) + "\":0,";
  EXPECT_EQ(Json::parse(text + "\"last\":0}", "x.json").object().size(), 100001u);
  EXPECT_NE(parse_error(text + "\"key5\":0}").find("'key5' appears twice"), std::string::npos);
}

// Mutated text is either read or refused as data; what is read survives a round trip.
TEST(Json, MutatedTextNeverDoesHarm) {
  const std::string base =
      R"({"a":[1,-2.5e3,"x\u00e9\ud83d\ude00",true,false,null],"b":{"c":{}, "d":"é"}})";
  std::mt19937 random(1);
  int read = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = base;
    const int edits = 1 + static_cast<int>(random() % 3);
    for (int e = 0; e < edits; ++e) {
      const size_t at = random() % text.size();
      if (random() % 4 == 0) {
        text.erase(at, 1 + random() % 4);
      } else {
        text[at] = random() % 2 ? "{}[]\",:0e.-\\u"[random() % 13] : static_cast<char>(random());
      }
      if (text.empty()) break;
    }
    try {
      const std::string once = Json::parse(text, "x.json").dump();
      EXPECT_EQ(Json::parse(once, "x.json").dump(), once);
      ++read;
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::data);
    }
  }
  EXPECT_GT(read, 100);
}

}  // namespace
}  // namespace tephra

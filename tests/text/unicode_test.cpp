// SPDX-License-Identifier: Apache-2.0
// Normal forms against utf8proc on whole texts, and text that is not UTF-8.
#include "tephra/text/unicode.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include <cstdlib>
#include <random>

namespace tephra {
namespace {

std::string whole(std::string_view text, NormalForm form) {
  const std::string copy(text);
  const auto* c = reinterpret_cast<const utf8proc_uint8_t*>(copy.c_str());
  utf8proc_uint8_t* result = form == NormalForm::nfc    ? utf8proc_NFC(c)
                             : form == NormalForm::nfd  ? utf8proc_NFD(c)
                             : form == NormalForm::nfkc ? utf8proc_NFKC(c)
                                                        : utf8proc_NFKD(c);
  std::string out(reinterpret_cast<char*>(result));
  std::free(result);
  return out;
}

constexpr NormalForm kForms[] = {NormalForm::nfc, NormalForm::nfd, NormalForm::nfkc,
                                 NormalForm::nfkd};

TEST(Unicode, NormalisesEveryCharacterAlone) {
  for (const NormalForm form : kForms) {
    int differ = 0;
    std::string scratch;
    for (uint32_t c = 1; c < 0x30000; ++c) {
      if (c >= 0xd800 && c < 0xe000) continue;
      const std::string text = to_utf8(c);
      differ += normalized(text, form, scratch) != whole(text, form);
    }
    EXPECT_EQ(differ, 0);
  }
}

TEST(Unicode, NormalisesTextAsIfAllAtOnce) {
  const std::vector<uint32_t> hard = {
      'a',    'e',    'A',    0x300,  0x301,   0x323,   0x345, 0xe9,   0x1e69, 0x212b, 0x2126,
      0xfb01, 0x1100, 0x1161, 0x11a8, 0xac00,  0xac01,  0x9c7, 0x9be,  0xf73,  0xf71,  0x344,
      0x3099, 0x304b, 0x2460, 0xbd,   0x1d157, 0x1d165, ' ',   0x4e00, 0xf900, 0x958};
  std::mt19937 random(5);
  for (int round = 0; round < 4000; ++round) {
    std::string text, scratch;
    for (auto n = random() % 12; n > 0; --n) append_utf8(text, hard[random() % hard.size()]);
    for (const NormalForm form : kForms) {
      ASSERT_EQ(normalized(text, form, scratch), whole(text, form)) << text;
    }
  }
}

TEST(Unicode, DoesNotCopyTextThatIsInTheForm) {
  std::string scratch;
  for (const std::string_view text : {"plain ASCII", "café 物理 🙂 한국어"}) {
    EXPECT_EQ(normalized(text, NormalForm::nfc, scratch).data(), text.data());
  }
}

TEST(Unicode, ReplacesWhatIsNotUtf8AsPythonDoes) {
  EXPECT_EQ(lossy_utf8("a\xff\xfe"
                       "b"),
            "a\xef\xbf\xbd\xef\xbf\xbd"
            "b");
  EXPECT_EQ(lossy_utf8("\xe2\x82"), "\xef\xbf\xbd");  // one start of a character
  EXPECT_EQ(lossy_utf8("\xe2\x82"
                       "a"),
            "\xef\xbf\xbd"
            "a");
  EXPECT_EQ(lossy_utf8("\xf0\x9f\x99"), "\xef\xbf\xbd");
  EXPECT_EQ(lossy_utf8("\xed\xa0\x80"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");  // a surrogate
  EXPECT_EQ(lossy_utf8("\xc0\xaf"), "\xef\xbf\xbd\xef\xbf\xbd");                  // overlong
  EXPECT_EQ(lossy_utf8("ok é"), "ok é");
}

TEST(Unicode, FindsTheFirstByteThatIsNotUtf8) {
  std::string text(100, 'a');
  EXPECT_EQ(find_invalid_utf8(text), text.npos);
  for (size_t at = 0; at < text.size(); ++at) {
    std::string bad = text;
    bad[at] = '\x80';
    EXPECT_EQ(find_invalid_utf8(bad), at);
  }
}

}  // namespace
}  // namespace tephra

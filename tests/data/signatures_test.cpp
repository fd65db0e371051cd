// SPDX-License-Identifier: Apache-2.0
// Hashes, minima and signatures against published values and plain loops.
#include <gtest/gtest.h>

#include <random>

#include "tephra/base/hash.h"
#include "tephra/data/dedup/minhash.h"
#include "tephra/data/dedup/murmur3.h"
#include "tephra/data/dedup/permutations.h"
#include "tephra/data/dedup/sha1.h"
#include "tephra/data/dedup/signer.h"
#include "tephra/data/dedup/survivors.h"
#include "tephra/data/dedup/xxh64_lanes.h"
#include "tephra/device/machine.h"
#include "tests/data/random_sentence.h"

namespace tephra {
namespace {

constexpr const char* kWords =
    "the quick brown fox jumps over the lazy dog while seven wizards watch quietly from afar";

TEST(Permutations, MeetThoseOfDatasketchDatatroveAndNemo) {
  const Affine sketch = datasketch_family(128, 1);
  EXPECT_EQ(sketch.a[0], 775169054918279404u);
  EXPECT_EQ(sketch.b[0], 1758426461858698312u);
  EXPECT_EQ(sketch.a[1], 2109959069025162u);
  EXPECT_EQ(sketch.b[1], 965365488286768773u);
  EXPECT_EQ(sketch.a[2], 401325382989534145u);
  EXPECT_EQ(sketch.b[2], 1703346441743126657u);
  const Affine trove = datatrove_family(112, 1);
  EXPECT_EQ(trove.a[0], 775169054918279404u);
  EXPECT_EQ(trove.a[1], 1758426461858698313u);
  EXPECT_EQ(trove.a[2], 2109959069025162u);
  EXPECT_EQ(trove.b[0], 1062448801025099917u);
  EXPECT_EQ(trove.b[1], 1324811268927594100u);
  EXPECT_EQ(trove.b[2], 1217488311597731462u);
  const Affine nemo = nemo_family(128, 10);
  EXPECT_EQ(nemo.a[0], 1165313290u);
  EXPECT_EQ(nemo.b[0], 1283169405u);
  EXPECT_EQ(nemo.a[2], 574014785u);
  EXPECT_EQ(nemo.b[2], 1902734705u);
  EXPECT_EQ(nemo_family(3, 42).a[2], 996406379u);
  EXPECT_EQ(nemo_seeds(6, 10),
            (std::vector<uint32_t>{345353, 760957, 881167, 443712, 617841, 105595}));
  EXPECT_EQ(nemo_seeds(3, 42), (std::vector<uint32_t>{121958, 671155, 131932}));
}

TEST(Sha1, IsTheStandardsOnBothPaths) {
  EXPECT_EQ(sha1("abc"),
            (std::array<uint32_t, 5>{0xa9993e36, 0x4706816a, 0xba3e2571, 0x7850c26c, 0x9cd0d89d}));
  EXPECT_EQ(sha1("")[0], 0xda39a3eeu);
  std::mt19937 random(3);
  for (int i = 0; i < 100; ++i) {
    std::array<uint8_t, 64> block;
    for (uint8_t& byte : block) byte = static_cast<uint8_t>(random());
    std::array<uint32_t, 5> plain = {1, 2, 3, 4, static_cast<uint32_t>(i)}, fast = plain;
    sha1_detail::plain_block(plain, block.data());
    if (sha1_detail::has_fast_block()) {
      sha1_detail::fast_block(fast, block.data());
      EXPECT_EQ(plain, fast);
    }
  }
  for (const size_t size : {size_t{55}, size_t{56}, size_t{63}, size_t{64}, size_t{119}}) {
    EXPECT_NE(sha1(std::string(size, 'a')), sha1(std::string(size + 1, 'a')));
  }
}

TEST(Sha1, OfManyIsThatOfEach) {
  std::mt19937 random(9);
  for (size_t count = 0; count < 80; ++count) {
    std::vector<std::string> texts(count);
    std::vector<std::string_view> views;
    for (std::string& text : texts) {
      text.resize(count % 3 == 0 ? 40 + count : random() % 320);  // the same blocks, or one to six
      for (char& c : text) c = static_cast<char>(random());
      views.push_back(text);
    }
    std::vector<uint32_t> want, lanes(count), pairs(count);
    for (const std::string& text : texts) want.push_back(sha1_prefix(text));
    sha1_prefixes(views, lanes.data());
    sha1_detail::pair_prefixes(views, pairs.data());
    EXPECT_EQ(lanes, want) << count;
    EXPECT_EQ(pairs, want) << count;
  }
}

TEST(Xxh64, OfManyIsThatOfEach) {
  std::mt19937 random(11);
  std::string buffer(1000, '\0');
  for (char& c : buffer) c = static_cast<char>(random());
  for (size_t count = 0; count < 300; ++count) {
    std::vector<std::string_view> texts(count % 40);
    const size_t most = 1 + count;  // up to beyond what lanes take
    for (std::string_view& text : texts) {
      const size_t begin = random() % 600;
      text = std::string_view(buffer).substr(begin, random() % most);
    }
    std::vector<uint64_t> want, got(texts.size());
    for (const std::string_view text : texts) want.push_back(xxh64(text, 0));
    xxh64_each(texts, got.data());
    EXPECT_EQ(got, want) << count;
  }
}

TEST(Signatures, OfZyda1AreDatasketchsBitForBit) {
  Signer signer(signature_preset("zyda1"));
  const std::vector<uint64_t> values = signer.signature(kWords);
  EXPECT_EQ(signer.hashes32(),
            (std::vector<uint32_t>{485229813, 1336790325, 2744856518, 2157093221}));
  ASSERT_EQ(values.size(), 128u);
  const std::vector<uint64_t> first(values.begin(), values.begin() + 6);
  EXPECT_EQ(first, (std::vector<uint64_t>{96347689, 949268807, 71709820, 1063367786, 365727100,
                                          348402167}));
  EXPECT_EQ(values[127], 558389785u);
}

TEST(Signatures, OfFineWebAreDatatrovesBitForBit) {
  const std::vector<uint64_t> values = Signer(signature_preset("fineweb")).signature(kWords);
  ASSERT_EQ(values.size(), 112u);
  EXPECT_EQ(values[0], 85330943174081874u);
  EXPECT_EQ(values[1], 663359892825767826u);
  EXPECT_EQ(values[2], 75136383357891897u);
}

TEST(Signatures, OfZyda2AreCudfsBitForBit) {
  const Mersenne32 family({{1, 2, 3}, {4, 5, 6}});
  const auto minima = [&](std::string_view text) {
    std::vector<uint32_t> hashes, values(3);
    for (size_t i = 0; i + 5 <= text.size(); ++i) hashes.push_back(murmur3(text.substr(i, 5), 0));
    family.minima(hashes, values);
    return values;
  };
  EXPECT_EQ(minima("this is my"), (std::vector<uint32_t>{1305480171, 462824409, 74608232}));
  EXPECT_EQ(minima("favorite book"), (std::vector<uint32_t>{32665388, 65330773, 97996158}));
}

TEST(Minhash, KernelsGiveThePlainMinima) {
  std::mt19937_64 random(5);
  const Mersenne32 low(datasketch_family(128, 7));
  const Mersenne32 nemo(nemo_family(128, 10));
  const Mersenne64 wide(datatrove_family(112, 7));
  const Native32 own(native_family(128, 7));
  for (const size_t count :
       {size_t{1}, size_t{2}, size_t{15}, size_t{16}, size_t{17}, size_t{900}}) {
    std::vector<uint32_t> hashes;
    std::vector<uint64_t> hashes64;
    for (size_t i = 0; i < count; ++i) {
      hashes.push_back(static_cast<uint32_t>(random()));
      hashes64.push_back(random());
    }
    std::vector<uint32_t> a(128), b(128), c(128);
    std::vector<uint64_t> d(112);
    low.minima(hashes, a);
    nemo.minima(hashes, b);
    own.minima(hashes, c);
    wide.minima(hashes64, d);
    ASSERT_EQ(hashes.size(), count);
    for (size_t i = 0; i < 128; ++i) {
      uint32_t want_a = UINT32_MAX, want_b = UINT32_MAX, want_c = UINT32_MAX;
      for (const uint32_t hash : hashes) {
        want_a = std::min(want_a, low.value(i, hash));
        want_b = std::min(want_b, nemo.value(i, hash));
        want_c = std::min(want_c, own.value(i, hash));
      }
      EXPECT_EQ(a[i], want_a);
      EXPECT_EQ(b[i], want_b);
      EXPECT_EQ(c[i], want_c);
      if (i >= 112) continue;
      uint64_t want_d = UINT64_MAX;
      for (const uint64_t hash : hashes64) want_d = std::min(want_d, wide.value(i, hash));
      EXPECT_EQ(d[i], want_d);
    }
  }
}

// Values around multiples of the prime, where the low word is corrected by the quotient.
TEST(Minhash, IsExactAroundThePrime) {
  for (uint64_t q = 0; q <= 8; ++q) {
    for (uint64_t off = 0; off < 24; ++off) {
      const uint64_t v = q * kMersenne61 + off - 12;
      const Mersenne32 family({{1}, {v}});
      std::vector<uint32_t> zero = {0}, value(1);
      family.minima(zero, value);
      EXPECT_EQ(value[0], static_cast<uint32_t>(v % kMersenne61)) << v;
      // Also as a later hash, behind the filter: a large value first, then this one.
      const Mersenne32 two({{uint64_t{1} << 32}, {v}});
      std::vector<uint32_t> hashes(40, 0);
      hashes[0] = 12345;
      two.minima(hashes, value);
      EXPECT_EQ(value[0], std::min(two.value(0, 12345), two.value(0, 0))) << v;
    }
  }
}

// The same for all 61 bits, and for a value that only seems to be the least: it wraps around.
TEST(Minhash, WideIsExactAroundThePrime) {
  for (uint64_t q = 0; q <= 8; ++q) {
    for (uint64_t off = 0; off < 40; ++off) {
      const uint64_t v = q * kMersenne61 + off - 20;
      const Mersenne64 family(
          {std::vector<uint64_t>(8, uint64_t{1} << 40), std::vector<uint64_t>(8, v)});
      for (const size_t place : {0, 1, 17, 1500}) {
        std::vector<uint64_t> hashes(1600);
        for (size_t i = 0; i < hashes.size(); ++i) hashes[i] = 12345 + i;
        hashes[place] = 0;
        std::vector<uint64_t> got(8);
        family.minima(hashes, got);
        uint64_t want = UINT64_MAX;
        for (const uint64_t hash : hashes) want = std::min(want, family.value(0, hash));
        EXPECT_EQ(got[3], want) << v;
      }
    }
  }
}

// Words at the edges of what is estimated of their product, with AVX2 and with all there is; as
// many permutations as fill no vector.
TEST(Minhash, WideIsExactWhereProductsAreEstimated) {
  std::mt19937_64 random(11);
  const auto edge = [&] {
    constexpr uint64_t kHalves[] = {0, 1, 0x7fff, 0x8000, 0xfffe, 0xffff};
    uint64_t value = 0;
    for (int half = 0; half < 4; ++half) {
      const uint64_t pick = random() % 8;
      value = value << 16 | (pick < 6 ? kHalves[pick] : random() & 0xffff);
    }
    return value;
  };
  for (const bool avx2 : {true, false}) {
    use_avx2_at_most(avx2);
    for (int round = 0; round < 300; ++round) {
      Affine edges;
      for (int i = 0; i < 5; ++i) {
        edges.a.push_back(edge() % kMersenne61);
        edges.b.push_back(edge() % kMersenne61);
      }
      const Mersenne64 family(edges);
      std::vector<uint64_t> hashes(1 + random() % 200), got(family.size());
      for (uint64_t& hash : hashes) hash = edge();
      family.minima(hashes, got);
      for (size_t i = 0; i < got.size(); ++i) {
        uint64_t want = UINT64_MAX;
        for (const uint64_t hash : hashes) want = std::min(want, family.value(i, hash));
        ASSERT_EQ(got[i], want) << avx2 << " " << round;
      }
    }
  }
}

TEST(Minhash, WindowHashesAreThoseOfEachWindow) {
  for (const std::string text :
       {"short", "Größe: a text of some length, 你好 and so on, und nochmals 你好 zum Schluss.",
        "plain text only, but long enough for more than one whole vector of windows in a row"}) {
    std::vector<uint32_t> got;
    murmur_window_hashes(text, 25, 77, got);
    std::vector<size_t> starts;
    for (size_t i = 0; i <= text.size(); ++i) {
      if (i == text.size() || (static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) {
        starts.push_back(i);
      }
    }
    std::vector<uint32_t> want;
    if (starts.size() <= 25) want.push_back(murmur3(text, 77));
    for (size_t w = 0; w + 25 < starts.size(); ++w) {
      want.push_back(murmur3(text.substr(starts[w], starts[w + 25] - starts[w]), 77));
    }
    EXPECT_EQ(got, want) << text;
  }
}

TEST(Minhash, SeededMurmurIsTheMinimumOverWindows) {
  const std::string text = "Größe: a text of some length, 你好 and so on.";
  std::vector<uint32_t> seeds = nemo_seeds(16, 10), got(16);
  seeded_murmur_minima(text, 25, seeds, got);
  std::vector<size_t> starts;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (static_cast<unsigned char>(text[i]) & 0xc0) != 0x80)
      starts.push_back(i);
  }
  for (size_t s = 0; s < seeds.size(); ++s) {
    uint32_t want = UINT32_MAX;
    for (size_t w = 0; w + 25 < starts.size(); ++w) {
      want = std::min(want, murmur3(text.substr(starts[w], starts[w + 25] - starts[w]), seeds[s]));
    }
    EXPECT_EQ(got[s], want);
  }
  seeded_murmur_minima("", 25, seeds, got);
  EXPECT_EQ(got[3], 0u);
}

TEST(NormalWords, AreLoweredWithoutPunctuation) {
  NormalWords words;
  words.set("  Don't  STOP -- the \"Größe\"\tnow.", Normalization::zyda1);
  EXPECT_EQ(words.text(), "dont stop the größe now");
  EXPECT_EQ(words.size(), 5u);
  EXPECT_EQ(words.words(1, 3), "stop the größe");
  EXPECT_EQ(words.words(4, 1), "now");
  words.set("Café 1,234 x2", Normalization::fineweb);
  EXPECT_EQ(words.text(), "cafe 0 0 x0");
  words.set("你好 World世界", Normalization::zyda1);
  EXPECT_EQ(words.text(), "你 好 world 世 界");
  words.set("... !!", Normalization::zyda1);
  EXPECT_EQ(words.size(), 0u);
}

// Character by character, of a few kinds that are easily told.
std::string plain_words(const std::vector<std::string>& text, bool fineweb) {
  std::string out;
  bool gap = true, digit = false;
  const auto put = [&](const std::string& c) {
    if (gap && !out.empty()) out += ' ';
    gap = false;
    out += c;
  };
  for (const std::string& c : text) {
    const bool ascii_digit = c[0] >= '0' && c[0] <= '9', arabic_digit = c == "٣";
    if (c == " " || c == "\n" || (fineweb && (c == "." || c == "“"))) {
      gap = true;
      digit = false;
    } else if (fineweb && (ascii_digit || arabic_digit)) {
      if (!digit) put("0");
      digit = true;
    } else if (c == "你") {
      gap = true;
      put(c);
      gap = true;
      digit = false;
    } else if (c != ".") {
      put(c == "A" ? "a" : c);
      digit = false;
    }
  }
  return out;
}

TEST(NormalWords, AreThoseOfThePlainLoop) {
  const std::vector<std::string> kinds = {"a", "A", "b",  " ", "\n", ".",
                                          "1", "2", "你", "ß", "“",  "٣"};
  std::mt19937 random(13);
  NormalWords words;
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> text;
    std::string joined;
    const size_t length = random() % 200, used = 3 + random() % (kinds.size() - 2);
    for (size_t i = 0; i < length; ++i) {
      text.push_back(kinds[random() % (round % 2 == 0 ? kinds.size() : used)]);
      joined += text.back();
    }
    for (const bool fineweb : {false, true}) {
      words.set(joined, fineweb ? Normalization::fineweb : Normalization::zyda1);
      ASSERT_EQ(words.text(), plain_words(text, fineweb)) << joined;
      std::string by_word;
      for (size_t i = 0; i < words.size(); ++i) {
        by_word += (i > 0 ? " " : "") + std::string(words.words(i, 1));
      }
      ASSERT_EQ(by_word, words.text());
    }
  }
}

TEST(Signatures, FindPlantedPairsAsOftenAsTheoryPredicts) {
  std::mt19937 random(17);
  const SignaturePreset preset = signature_preset("native");
  Signer signer(preset);
  constexpr int kPairs = 10000;
  double predicted = 0, found = 0;
  for (int pair = 0; pair < kPairs; ++pair) {
    const std::string a = random_sentence(random, 120);
    std::string b = a;
    // Each replaced word changes five shingles.
    for (int edit = 0; edit < 4; ++edit) {
      size_t at = b.find(' ', random() % (b.size() - 10)) + 1;
      if (at < b.size()) b[at] = 'q';
    }
    std::vector<uint64_t> sa, sb, ka(16), kb(16);
    signer.shingle_set(a, 100000, sa);
    signer.shingle_set(b, 100000, sb);
    signer.band_keys(a, ka);
    signer.band_keys(b, kb);
    bool shared = false;
    for (size_t band = 0; band < 16; ++band) shared |= ka[band] == kb[band];
    found += shared;
    predicted += candidate_chance(set_similarity(sa, sb, 100000), preset.bands, preset.rows);
  }
  // Three standard errors: a pair's is about 0.44.
  EXPECT_NEAR(found / kPairs, predicted / kPairs, 0.0132);
  EXPECT_GT(predicted / kPairs, 0.2);
  EXPECT_LT(predicted / kPairs, 0.9);
}

}  // namespace
}  // namespace tephra

// SPDX-License-Identifier: Apache-2.0
// Signatures against published values, clusters against brute force, and whole runs on texts with
// planted copies.
#include <gtest/gtest.h>

#include <future>
#include <map>
#include <random>
#include <set>

#include "tephra/base/hash.h"
#include "tephra/base/json.h"
#include "tephra/base/parallel.h"
#include "tephra/base/text.h"
#include "tephra/data/corpus/corpus_files.h"
#include "tephra/data/corpus/output_folder.h"
#include "tephra/data/dedup/band_join.h"
#include "tephra/data/dedup/dedup_corpus.h"
#include "tephra/data/dedup/minhash.h"
#include "tephra/data/dedup/murmur3.h"
#include "tephra/data/dedup/permutations.h"
#include "tephra/data/dedup/sha1.h"
#include "tephra/data/dedup/signer.h"
#include "tephra/data/dedup/survivors.h"
#include "tephra/data/dedup/xxh64_lanes.h"
#include "tephra/data/line_reader.h"
#include "tephra/device/machine.h"
#include "tests/support/error_of.h"
#include "tests/support/scratch.h"

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

TEST(BandJoin, JoinsEqualKeysAsBruteForceDoes) {
  std::mt19937_64 random(11);
  for (const size_t count : {size_t{1}, size_t{50}, size_t{20000}}) {
    std::vector<BandRecord> records;
    std::vector<uint64_t> pool;
    for (size_t i = 0; i < std::max<size_t>(1, count / 3); ++i) pool.push_back(random());
    for (uint32_t d = 0; d < count; ++d) records.push_back({pool[random() % pool.size()], d});
    std::map<uint64_t, uint32_t> first;
    UnionFind want(count), got(count);
    for (const BandRecord& record : records) {
      want.join(record.document,
                first.emplace(uint64_t{record.key}, uint32_t{record.document}).first->second);
    }
    BandJoin().join(records, got);
    for (uint32_t d = 0; d < count; ++d) ASSERT_EQ(got.root(d), want.root(d));
  }
}

TEST(Survivors, FollowRankLengthScoreAndNumber) {
  const std::vector<Member> members = {{0, 0, 10, 1}, {1, 1, 20, 5}, {2, 1, 30, 2}};
  const auto same = [](size_t, size_t) { return 1.0; };
  const auto kept = [&](Keep keep, std::vector<uint32_t> rank, bool across) {
    SurvivorRules rules;
    rules.keep = keep;
    rules.rank = std::move(rank);
    rules.untouched = {false, false};
    rules.across_sources = across;
    std::set<uint32_t> left = {0, 1, 2};
    for (const Removal& removal : resolve_cluster(members, rules, same).removals) {
      left.erase(removal.document);
    }
    return left;
  };
  using Set = std::set<uint32_t>;
  EXPECT_EQ(kept(Keep::first, {1, 1}, false), Set{0});
  EXPECT_EQ(kept(Keep::longest, {1, 1}, false), Set{2});
  EXPECT_EQ(kept(Keep::best, {1, 1}, false), Set{1});
  EXPECT_EQ(kept(Keep::first, {2, 1}, false), Set{1});
  EXPECT_EQ(kept(Keep::first, {2, 1}, true), (Set{1, 2}));
}

TEST(Survivors, RemoveOnlyWhatResemblesOneThatStays) {
  // A chain: 0 is like 1, 1 like 2, but 0 is not like 2.
  const std::vector<Member> chain = {{0, 0, 1, 0}, {1, 0, 1, 0}, {2, 0, 1, 0}};
  SurvivorRules rules;
  rules.rank = {1};
  rules.untouched = {false};
  const ClusterResult result = resolve_cluster(
      chain, rules, [](size_t a, size_t b) { return (a > b ? a - b : b - a) == 1 ? 0.9 : 0.1; });
  ASSERT_EQ(result.removals.size(), 1u);
  EXPECT_EQ(result.removals[0], (Removal{1, 0, 0.9f, 0}));
  EXPECT_EQ(result.compared, 2);
  EXPECT_EQ(result.refused, 1);
}

TEST(Survivors, CompareSetsExactlyOrByTheirSmallest) {
  const std::vector<uint64_t> a = {1, 2, 3, 4}, b = {3, 4, 5, 6};
  EXPECT_DOUBLE_EQ(set_similarity(a, b, 10), 2.0 / 6);
  EXPECT_DOUBLE_EQ(set_similarity(a, b, 4), 2.0 / 4);  // of 1 2 3 4, two are in both
  EXPECT_DOUBLE_EQ(set_similarity({}, {}, 4), 1);
}

// Two word lists with Jaccard similarity near s of their shingles of five words, planted by
// replacing words far apart.
// Words of letters alone: FineWeb takes all numbers for the same one, also inside words.
std::string sentence(std::mt19937& random, size_t words) {
  std::string text;
  for (size_t i = 0; i < words; ++i) {
    text += 'w';
    for (const char digit : std::to_string(random() % 50000)) {
      text += static_cast<char>('a' + (digit - '0'));
    }
    text += ' ';
  }
  return text;
}

TEST(Signatures, FindPlantedPairsAsOftenAsTheoryPredicts) {
  std::mt19937 random(17);
  const SignaturePreset preset = signature_preset("native");
  Signer signer(preset);
  constexpr int kPairs = 10000;
  double predicted = 0, found = 0;
  for (int pair = 0; pair < kPairs; ++pair) {
    const std::string a = sentence(random, 120);
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

struct DedupCorpus {
  Scratch scratch;

  void add(const std::string& source, const std::vector<std::string>& texts) {
    std::string lines;
    for (const std::string& text : texts) {
      Json document;
      document["text"] = text;
      lines += document.dump() + "\n";
    }
    std::filesystem::create_directories(scratch / source);
    write_file(scratch / source / "a.jsonl", lines);
    inputs.push_back((scratch / source).string());
  }

  StageRun run(const std::string& out, DedupOptions options, const Shard& shard = {}) const {
    StageSettings stage;
    stage.out = scratch / out;
    stage.shard = shard;
    return dedup_corpus(corpus_files(inputs), options, stage);
  }

  std::string bytes(const std::string& out) {
    std::string all;
    for (const CorpusFile& file :
         corpus_files(std::vector<std::string>{(scratch / out).string()})) {
      all += file.title() + "\n" + read_file(file.path);
    }
    return all + read_file(scratch / out / "report.json");
  }

  std::vector<std::string> inputs;
};

DedupOptions with_preset(const std::string& name) {
  DedupOptions options;
  options.preset = signature_preset(name);
  options.max_source_loss = 1;
  return options;
}

TEST(Dedup, KeepsOneOfEachOnEveryPresetAndThreadCount) {
  std::mt19937 random(23);
  std::vector<std::string> texts;
  for (int i = 0; i < 300; ++i) {
    texts.push_back(sentence(random, 150));
    if (i % 3 == 0) texts.push_back("  " + texts.back() + "!");  // alike after normalisation
  }
  const int before = num_threads();
  for (const char* preset :
       {"native", "zyda1", "zyda1-xxh3", "fineweb", "zyda2", "zyda2-2024", "native-chars"}) {
    DedupCorpus corpus;
    corpus.add("web", texts);
    std::string first;
    for (const int threads : {1, 3}) {
      set_num_threads(threads);
      const std::string out = "out" + std::to_string(threads);
      const StageRun run = corpus.run(out, with_preset(preset));
      EXPECT_EQ(run.tally["kept"], 300) << preset;
      EXPECT_EQ(run.tally["removed"], 100) << preset;
      if (first.empty()) first = corpus.bytes(out);
      EXPECT_EQ(corpus.bytes(out), first);
    }
  }
  set_num_threads(before);
}

TEST(Dedup, ExactTakesOnlyEqualTexts) {
  DedupCorpus corpus;
  corpus.add("web", {"one text", "another text", "one text", "one text "});
  EXPECT_EQ(corpus.run("out", with_preset("exact")).tally["kept"], 3);
}

TEST(Dedup, KeepsDistinctChineseAndShortTexts) {
  std::mt19937 random(29);
  std::vector<std::string> texts;
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    const size_t length = 100 + random() % 200;
    for (size_t c = 0; c < length; ++c) {
      const auto point = static_cast<unsigned>(0x4e00 + random() % 3000);
      text += static_cast<char>(0xe0 | point >> 12);
      text += static_cast<char>(0x80 | (point >> 6 & 63));
      text += static_cast<char>(0x80 | (point & 63));
    }
    texts.push_back(text);
  }
  for (int i = 0; i < 200; ++i) texts.push_back("short " + std::to_string(i));
  for (const char* preset : {"native", "zyda1", "fineweb"}) {
    DedupCorpus corpus;
    corpus.add("zh", texts);
    const StageRun run = corpus.run("out", with_preset(preset));
    // Numbers become 0 for FineWeb, so its short texts are the same by definition.
    EXPECT_EQ(run.tally["kept"], preset == std::string("fineweb") ? 2001 : 2200) << preset;
  }
}

TEST(Dedup, RanksSourcesAndNamesWhatWasKept) {
  std::mt19937 random(31);
  const std::string shared = sentence(random, 100), own = sentence(random, 100);
  DedupCorpus corpus;
  corpus.add("web", {shared, own, own});
  corpus.add("books", {sentence(random, 100), shared});
  DedupOptions options = with_preset("native");
  options.rank = {"books", "web"};
  EXPECT_EQ(corpus.run("all", options).tally["source.web.removed"], 2);
  const std::string removed =
      read_decompressed(corpus.scratch / "all" / "removed" / "web" / "a.jsonl.zst", 1 << 20);
  EXPECT_NE(removed.find(R"("place":"web/a:1","kept":"books/a:2")"), std::string::npos) << removed;
  options.across_sources = true;
  EXPECT_EQ(corpus.run("across", options).tally["removed"], 1);
  options.across_sources = false;
  options.references = {"books"};
  const StageRun against = corpus.run("against", options);
  EXPECT_EQ(against.tally["kept"], 1);
  const Path out = corpus.scratch / "against";
  const Path books = out / "documents" / "books";
  EXPECT_FALSE(std::filesystem::exists(books));
  // As a kill right after the report leaves it: nobody reads that, and a repeated command clears
  // up.
  std::filesystem::create_directories(books);
  write_file(books / "a.jsonl", "{\"text\":\"one\"}\n");
  std::filesystem::create_directories(out / ".work");
  EXPECT_NE(std::string(error_of([&] { documents_of(out); }).what()).find("is not finished"),
            std::string::npos);
  EXPECT_NE(
      std::string(error_of([&] { prepare_output(out, false); }).what()).find("finished output"),
      std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(books));
  EXPECT_EQ(documents_of(out), out / "documents");
  options.rank = {"bocks"};
  EXPECT_EQ(error_of([&] { corpus.run("wrong", options); }).hint(), "did you mean books?");
}

TEST(Dedup, NamesWhatWasKeptByItsIdNotByItsRow) {
  std::mt19937 random(33);
  const std::string text = sentence(random, 100);
  const Scratch scratch;
  std::filesystem::create_directory(scratch / "in");
  // As a filter leaves it: rows are no longer those of the first input.
  write_file(scratch / "in/a.jsonl", "{\"text\":\"" + text + "\",\"tephra_id\":\"web/one:7\"}\n" +
                                         "{\"text\":\"" + text +
                                         "\",\"tephra_id\":\"web/one:9\"}\n");
  for (const bool verify : {true, false}) {
    DedupOptions options = with_preset("native");
    options.verify = verify;
    StageSettings stage;
    stage.out = scratch / (verify ? "verified" : "not");
    dedup_corpus(corpus_files(std::vector<std::string>{(scratch / "in").string()}), options, stage);
    const std::string removed = read_decompressed(stage.out / "removed/in/a.jsonl.zst", 1 << 20);
    EXPECT_NE(removed.find(
                  R"("id":"web/one:9","place":"in/a:2","kept":"web/one:7","cluster":"web/one:7")"),
              std::string::npos)
        << removed;
  }
}

// Whether a document has an id is a matter of its own keys alone.
TEST(Dedup, GivesAnIdToEveryDocumentThatHasNone) {
  const Scratch scratch;
  std::filesystem::create_directory(scratch / "in");
  const std::vector<std::string> without = {
      R"({"text":"one says \"tephra_id\" in its text"})",
      R"({"text":"two names it in a list","keys":["tephra_id"]})",
      R"({"text":"three has it deeper","a":{"tephra_id":"x"}})",
      R"({"text":"four looks alike at its end,\"tephra_id\":\"x"})"};
  const std::vector<std::string> with = {R"({"text":"five","tephra_id":"web/a:5"})",
                                         R"({"tephra_id":"web/a:6","text":"six"})",
                                         R"({"text":"seven", "tephra_id" : "web/a:7" })",
                                         R"({"text":"eight","t\u0065phra_id":"web/a:8"})",
                                         R"({"text":"nine","tephra_id":"web/\"a:9"})"};
  std::string in, want;
  for (const std::string& line : without) {
    in += line + "\n";
    const int64_t row = std::count(in.begin(), in.end(), '\n');
    want +=
        line.substr(0, line.size() - 1) + ",\"tephra_id\":\"in/a:" + std::to_string(row) + "\"}\n";
  }
  for (const std::string& line : with) in += line + "\n", want += line + "\n";
  write_file(scratch / "in/a.jsonl", in + "{\"text\":\"ten\",\"tephra_id\":10}\n");
  StageSettings stage;
  stage.out = scratch / "out";
  stage.on_error = OnError::skip;
  const StageRun run =
      dedup_corpus(corpus_files(std::vector<std::string>{(scratch / "in").string()}),
                   with_preset("native"), stage);
  EXPECT_EQ(read_decompressed(stage.out / "documents/in/a.jsonl.zst", 1 << 20), want);
  EXPECT_EQ(run.tally[counted::kBad], 1) << "as in every other stage";
}

TEST(Dedup, StopsWhenASourceWouldLoseTooMuch) {
  std::mt19937 random(37);
  DedupCorpus corpus;
  corpus.add("web", std::vector<std::string>(20, sentence(random, 100)));
  DedupOptions options = with_preset("native");
  options.max_source_loss = 0.9;
  const Error error = error_of([&] { corpus.run("out", options); });
  EXPECT_EQ(error.fault(), Fault::data);
  EXPECT_NE(std::string(error.what()).find("source web would lose 95.0 %"), std::string::npos)
      << error.what();
  options.max_source_loss = 1;
  EXPECT_EQ(corpus.run("out", options).tally["kept"], 1);
}

TEST(Dedup, GivesTheSameClustersInLittleMemory) {
  std::mt19937_64 random(41);
  DedupCorpus corpus;
  std::mt19937 words(43);
  std::vector<std::string> texts;
  for (int i = 0; i < 200; ++i) texts.push_back(i % 4 == 3 ? texts.back() : sentence(words, 30));
  corpus.add("web", texts);
  DedupOptions options = with_preset("native");
  const std::string plenty = (corpus.run("a", options), corpus.bytes("a"));
  options.memory_bytes = 1;
  EXPECT_EQ((corpus.run("b", options), corpus.bytes("b")), plenty);
}

TEST(Dedup, ShardsMayClusterAtTheSameTimeInLittleMemory) {
  DedupCorpus corpus;
  std::mt19937 words(47);
  std::vector<std::string> texts;
  for (int i = 0; i < 1500; ++i) texts.push_back(i % 4 == 3 ? texts.back() : sentence(words, 20));
  corpus.add("web", texts);
  corpus.add("books", texts);
  DedupOptions options = with_preset("native");
  const std::string want = (corpus.run("alone", options), corpus.bytes("alone"));
  options.memory_bytes = 1;
  for (const int64_t index : {0, 1, 0}) corpus.run("shards", options, {index, 2});
  for (int again = 0; again < 5; ++again) {  // nothing but the clusters is left to be made twice
    const auto shard = [&](int64_t index) {
      return std::async(std::launch::async, [&, index] {
        return corpus.run("shards", options, {index, 2});
      });
    };
    std::future<StageRun> first = shard(0), second = shard(1);
    first.get();
    second.get();
  }
  EXPECT_EQ((corpus.run("shards", options), corpus.bytes("shards")), want);
}

}  // namespace
}  // namespace tephra

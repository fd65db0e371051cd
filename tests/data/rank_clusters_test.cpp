// SPDX-License-Identifier: Apache-2.0
// Clusters by ranks that join a range of keys each, against the union of all keys; and the files by
// which they exchange records. Each rank is a thread here.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <random>

#include "tephra/base/error.h"
#include "tephra/data/dedup/band_exchange.h"
#include "tephra/data/dedup/band_files.h"
#include "tephra/data/dedup/clusters.h"
#include "tests/data/quick_ranks.h"
#include "tests/support/error_of.h"
#include "tests/support/file_limit.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

constexpr size_t kTestBands = 3;
constexpr uint64_t kLast = UINT64_MAX, kStep = kLast / 2000;

using Keys = std::vector<std::array<uint64_t, kTestBands>>;  // by document

// Keys on disk as signing leaves them, in files of very different size, one of them empty.
struct KeyCorpus {
  Scratch scratch;
  std::vector<CorpusFile> files;

  explicit KeyCorpus(const Keys& keys) {
    const size_t ends[] = {keys.size() / 2, keys.size() / 2, keys.size() * 2 / 3,
                           keys.size() * 3 / 4, keys.size()};
    size_t begin = 0;
    for (const size_t end : ends) {
      const std::string name(1, static_cast<char>('a' + files.size()));
      files.push_back({"web", name, name + ".jsonl"});
      write("bands", files.back(), keys.data() + begin, (end - begin) * sizeof(keys[0]));
      const std::vector<DocumentRecord> records(end - begin);
      write("records", files.back(), records.data(), records.size() * sizeof(DocumentRecord));
      begin = end;
    }
  }

  void write(const char* kind, const CorpusFile& file, const void* data, size_t bytes) const {
    const Path path = scratch / "signatures" / kind / (file.title() + ".bin");
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary)
        .write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
  }

  SignatureFiles signatures() const {
    return SignatureFiles(files, scratch / "signatures", kTestBands);
  }
};

std::vector<uint32_t> roots(UnionFind sets) {
  std::vector<uint32_t> result;
  for (uint32_t d = 0; d < sets.size(); ++d) result.push_back(sets.root(d));
  return result;
}

std::vector<uint32_t> plain_roots(const Keys& keys, const std::vector<bool>& gone) {
  UnionFind sets(keys.size());
  std::map<std::pair<size_t, uint64_t>, uint32_t> first;
  for (uint32_t d = 0; d < keys.size(); ++d) {
    if (!gone.empty() && gone[d]) continue;
    for (size_t b = 0; b < kTestBands; ++b) {
      sets.join(d, first.emplace(std::pair(b, keys[d][b]), d).first->second);
    }
  }
  return roots(std::move(sets));
}

Keys make_keys(size_t documents, uint32_t seed, const std::function<uint64_t(uint64_t)>& key) {
  std::mt19937_64 random(seed);
  Keys keys(documents);
  for (auto& each : keys) {
    for (uint64_t& k : each) k = key(random());
  }
  return keys;
}

// Runs `work` as each of the ranks and gives what they came to.
template <class Result>
std::vector<Result> as_ranks(const Path& folder, int64_t count,
                             const std::function<Result(const RankLists&)>& work) {
  std::vector<std::future<Result>> running;
  for (int64_t rank = 0; rank < count; ++rank) {
    running.push_back(std::async(std::launch::async, [&, rank] {
      const Shard shard{rank, count, true};
      Ranks ranks(folder / "ranks", shard, "", kQuickRanks);
      const RankLists lists(folder / "exchange", shard, ranks);
      Result result = work(lists);
      ranks.gather("the end");  // the first one takes the ranks' files away
      return result;
    }));
  }
  std::vector<Result> results;
  for (auto& each : running) results.push_back(each.get());
  return results;
}

struct Joined {
  std::vector<uint32_t> roots;
  int64_t records = 0;
};

std::vector<Joined> join_as_ranks(const KeyCorpus& corpus, int64_t count, int64_t memory,
                                  const std::vector<bool>& gone) {
  return as_ranks<Joined>(corpus.scratch.path(), count, [&](const RankLists& lists) {
    const SignatureFiles signatures = corpus.signatures();
    const BandExchange exchange(signatures, lists, memory);
    return Joined{roots(find_clusters(exchange, lists, signatures.documents(), gone)),
                  exchange.records()};
  });
}

TEST(RankClusters, AreThoseOfAllKeysInOneSet) {
  const std::map<std::string, Keys> cases = {
      {"random",
       make_keys(3000, 1, [](uint64_t r) { return (r % 4000 + 1) * 0x9e3779b97f4a7c15; })},
      {"extremes",
       make_keys(500, 2,
                 [](uint64_t r) {
                   const uint64_t half = uint64_t{1} << 63, few = r % 100;
                   return std::array{few, kLast - few, half + few, half - 1 - few, r}[r / 128 % 5];
                 })},
      {"skewed", make_keys(2000, 3, [](uint64_t r) { return r % 4 == 0 ? 77 : r % 3000; })},
      {"one key", make_keys(700, 4, [](uint64_t) { return kLast; })},
      {"no documents", {}},
  };
  for (const auto& [name, keys] : cases) {
    const KeyCorpus corpus(keys);
    std::vector<bool> gone(keys.size());
    for (size_t d = 0; d < gone.size(); ++d) gone[d] = d % 5 == 1;
    for (const int64_t memory : {int64_t{1}, int64_t{1} << 30}) {
      const std::vector<bool> out = memory == 1 ? gone : std::vector<bool>();
      const std::vector<uint32_t> want = plain_roots(keys, out);
      const SignatureFiles signatures = corpus.signatures();
      EXPECT_EQ(roots(find_clusters(signatures, corpus.scratch / "alone", memory, out)), want);
      for (const int64_t count : {1, 2, 7}) {
        int64_t records = 0;
        for (const Joined& rank : join_as_ranks(corpus, count, memory, out)) {
          EXPECT_EQ(rank.roots, want) << name << ", " << count << " ranks, memory " << memory;
          records += rank.records;
        }
        EXPECT_EQ(records, static_cast<int64_t>(keys.size() * kTestBands)) << name;
      }
    }
  }
}

TEST(RankClusters, EachReadsItsShareOfTheRecords) {
  const Keys keys = make_keys(20000, 5, [](uint64_t r) { return r; });
  const KeyCorpus corpus(keys);
  const double share = static_cast<double>(keys.size() * kTestBands) / 7;
  for (const Joined& rank : join_as_ranks(corpus, 7, int64_t{1} << 30, {})) {
    EXPECT_NEAR(static_cast<double>(rank.records), share, 0.1 * share);
  }
}

TEST(RankClusters, LeaveNoRecordsAndTakeNoneOfAnEarlierRun) {
  const Keys keys = make_keys(300, 6, [](uint64_t r) { return r % 500 << 50; });
  const KeyCorpus corpus(keys);
  const Path old = corpus.scratch / "exchange" / "0123456789abcdef";
  std::filesystem::create_directories(old);
  for (const char* name : {"0-to-1.bands", "1-to-0.bands", "forest-1.list"}) {
    std::ofstream(old / name) << "what a killed run left";
  }
  for (const Joined& rank : join_as_ranks(corpus, 2, int64_t{1} << 30, {})) {
    EXPECT_EQ(rank.roots, plain_roots(keys, {}));
  }
  EXPECT_FALSE(std::filesystem::exists(old));
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(corpus.scratch / "exchange")) {
    EXPECT_NE(entry.path().extension(), ".bands") << entry.path();
  }
}

// Of two ranks, both written here.
struct TwoRanks {
  Scratch scratch;
  BandPlan plan{.folder = scratch.path(), .run = "now", .ranks = 2, .ranges = 2, .bands = 2};

  void spread(const BandPlan& by, size_t from) const {
    BandSpread spread(by, from, 1);
    for (uint32_t d = 0; d < 2000; ++d) {
      for (size_t b = 0; b < 2; ++b) spread.add(b, {kStep * d + kStep / 2 + b, d});
    }
    spread.finish();
  }

  Error refusal() const {
    return error_of([&] {
      const BandShare share(plan, 1);
      std::vector<BandRecord> records;
      for (size_t part = 0; part < plan.parts(); ++part) share.read(part, records);
    });
  }
};

TEST(BandFiles, GiveEachRankItsRangeByBand) {
  const TwoRanks two;
  for (const size_t from : {size_t{0}, size_t{1}}) two.spread(two.plan, from);
  for (const size_t to : {size_t{0}, size_t{1}}) {
    const BandShare share(two.plan, to);
    EXPECT_EQ(share.records(), 4000);
    std::vector<BandRecord> records;
    for (size_t part = 0; part < two.plan.parts(); ++part) {
      share.read(part, records);
      ASSERT_EQ(records.size(), 1000u);
      for (const BandRecord& record : records) {
        ASSERT_EQ(record.key - kStep * record.document - kStep / 2, part / two.plan.ranges);
        ASSERT_EQ(two.plan.range_of(record.key), to * two.plan.ranges + part % two.plan.ranges);
      }
    }
  }
}

TEST(BandFiles, AreRefusedWhenCutDamagedOrOfAnotherRun) {
  const TwoRanks two;
  two.spread(two.plan, 0);
  const Path path = two.plan.path(1, 1);
  EXPECT_EQ(two.refusal().fault(), Fault::usage);  // the other rank's is not there
  two.spread(two.plan, 1);
  const std::string whole = read_file(path);
  const auto refused = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    const Error error = two.refusal();
    EXPECT_EQ(error.fault(), Fault::data);
    EXPECT_NE(std::string(error.what()).find(path.string()), std::string::npos) << error.what();
  };
  for (const size_t left : {size_t{0}, size_t{12}, whole.size() - 12, whole.size() - 1}) {
    refused(whole.substr(0, left));
  }
  refused(whole + std::string(12, '\0'));
  for (const size_t at : {size_t{5}, whole.size() - 40, whole.size() - 1}) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    refused(damaged);
  }
  BandPlan other = two.plan;
  other.run = "before";
  two.spread(other, 1);
  refused(read_file(path));
  other = two.plan;
  other.ranges = 3;  // of another --memory
  two.spread(other, 1);
  refused(read_file(path));
  std::ofstream(path, std::ios::binary) << whole;
  EXPECT_EQ(BandShare(two.plan, 1).records(), 4000);
}

TEST(BandFiles, EndWithAnErrorAndNoFilesOnAFullDisk) {
  const TwoRanks two;
  const Error error = error_of([&] {
    const FileLimit limit(20000);
    two.spread(two.plan, 0);
  });
  EXPECT_EQ(error.fault(), Fault::data);
  EXPECT_TRUE(two.scratch.names().empty());
}

TEST(RankLists, AreRefusedWhenCutOrOfAnotherRank) {
  const Scratch scratch;
  as_ranks<int>(scratch.path(), 2, [&](const RankLists& lists) {
    lists.give<uint32_t>("numbers", {7, 8, static_cast<uint32_t>(lists.shard().index)});
    lists.ranks().meet("the numbers");
    if (lists.shard().index == 1) return 0;
    EXPECT_EQ(lists.take<uint32_t>("numbers", 1), (std::vector<uint32_t>{7, 8, 1}));
    const Path path = lists.folder() / "numbers-1.list";
    const std::string whole = read_file(path), other = read_file(lists.folder() / "numbers-0.list");
    for (const std::string& bytes : {std::string(), whole.substr(0, whole.size() - 4),
                                     whole.substr(4), "1234" + whole.substr(4), other}) {
      std::ofstream(path, std::ios::binary) << bytes;
      const Error error = error_of([&] { lists.take<uint32_t>("numbers", 1); });
      EXPECT_EQ(error.fault(), Fault::data) << error.what();
    }
    return 0;
  });
}

}  // namespace
}  // namespace tephra

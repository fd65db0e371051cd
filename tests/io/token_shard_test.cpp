// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>

#include "tephra/base/files.h"
#include "tephra/io/token_shard.h"
#include "tests/support/error_of.h"
#include "tests/support/file_limit.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

template <class T>
std::string raw(std::initializer_list<T> values) {
  std::string bytes;
  for (const T value : values) bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
  return bytes;
}

// An index by hand: every field can be wrong.
struct RawIndex {
  std::string magic{"MMIDIDX\0\0", 9};
  uint64_t version = 1;
  uint8_t code = 4;
  std::vector<int32_t> lengths{3, 0, 2};
  std::vector<int64_t> pointers{0, 12, 12};
  std::vector<int64_t> documents{0, 1, 3};
  std::optional<uint64_t> sequences, entries;
  std::string tail;

  std::string bytes() const {
    std::string all = magic + raw({version}) + raw({code}) +
                      raw({sequences.value_or(lengths.size())}) +
                      raw({entries.value_or(documents.size())});
    for (const int32_t length : lengths) all += raw({length});
    for (const int64_t pointer : pointers) all += raw({pointer});
    for (const int64_t document : documents) all += raw({document});
    return all + tail;
  }
};

struct Files {
  Scratch scratch;
  Path prefix = scratch / "shard";
  std::string bin = raw<int32_t>({7, 8, 9, 10, 11});

  void write(const RawIndex& index) const {
    write_file(prefix.string() + ".idx", index.bytes());
    write_file(prefix.string() + ".bin", bin);
  }
  std::string open_error(const RawIndex& index) const {
    write(index);
    const Error error = error_of([&] { TokenShard::open(prefix); });
    EXPECT_EQ(error.fault(), Fault::data);
    const std::string text = error.what();
    const std::string where = prefix.string() + ".idx: ";
    EXPECT_EQ(text.rfind(where, 0), 0u) << text;
    return text.substr(std::min(text.size(), where.size()));
  }
};

std::vector<int32_t> tokens_of(const TokenShard& shard, int64_t vocab_size = 1 << 20) {
  std::vector<int32_t> tokens(static_cast<size_t>(shard.tokens()));
  shard.read(0, tokens, vocab_size);
  return tokens;
}

TEST(TokenShard, ReadsTheLayoutOfMegatron) {
  const Files files;
  files.write({});
  const auto shard = TokenShard::open(files.prefix);
  EXPECT_EQ(shard->tokens(), 5);
  EXPECT_EQ(shard->documents(), 2);
  EXPECT_EQ(tokens_of(*shard), (std::vector<int32_t>{7, 8, 9, 10, 11}));
  EXPECT_EQ(shard->document_begin(0), 0);
  EXPECT_EQ(shard->document_begin(1), 3);
  EXPECT_EQ(shard->document_begin(2), 5);
  EXPECT_EQ(shard->document_of(2), 0);
  EXPECT_EQ(shard->document_of(3), 1);
  EXPECT_EQ(TokenShard::open(files.prefix.string() + ".bin")->tokens(), 5);
}

TEST(TokenShard, ReadsEveryIntegerType) {
  Files files;
  const std::vector<std::pair<uint8_t, std::string>> types = {
      {1, raw<uint8_t>({1, 2, 250})}, {2, raw<int8_t>({1, 2, 127})},
      {3, raw<int16_t>({1, 2, 250})}, {4, raw<int32_t>({1, 2, 250})},
      {5, raw<int64_t>({1, 2, 250})}, {8, raw<uint16_t>({1, 2, 65535})}};
  for (const auto& [code, bin] : types) {
    files.bin = bin;
    files.write({.code = code, .lengths = {3}, .pointers = {0}, .documents = {0, 1}});
    const auto shard = TokenShard::open(files.prefix);
    const int32_t last = code == 2 ? 127 : code == 8 ? 65535 : 250;
    EXPECT_EQ(tokens_of(*shard), (std::vector<int32_t>{1, 2, last})) << int{code};
  }
}

TEST(TokenShard, WritesWhatItReads) {
  for (const int64_t vocab : {65536, 65537}) {
    const Scratch scratch;
    TokenShardWriter writer(scratch / "a", vocab);
    writer.add_document(std::vector<int32_t>{1, 2, 65535});
    writer.add_document({});
    writer.add_document(std::vector<int32_t>{5});
    EXPECT_EQ(writer.tokens(), 4);
    writer.commit();
    const auto shard = TokenShard::open(scratch / "a");
    EXPECT_EQ(shard->type(), vocab == 65536 ? TokenType::u16 : TokenType::i32);
    EXPECT_EQ(tokens_of(*shard, vocab), (std::vector<int32_t>{1, 2, 65535, 5}));
    EXPECT_EQ(shard->documents(), 3);
    EXPECT_EQ(shard->document_of(2), 0);
    EXPECT_EQ(shard->document_of(3), 2) << "the empty one in between holds nothing";
    EXPECT_EQ(scratch.names(), (std::vector<std::string>{"a.bin", "a.idx"}));
  }
}

TEST(TokenShard, WritesTheseBytes) {
  const Scratch scratch;
  TokenShardWriter writer(scratch / "a", 100);
  writer.add_document(std::vector<int32_t>{3, 4});
  writer.add_document(std::vector<int32_t>{5});
  writer.commit();
  EXPECT_EQ(read_file(scratch / "a.bin"), raw<uint16_t>({3, 4, 5}));
  const RawIndex index{.code = 8, .lengths = {2, 1}, .pointers = {0, 4}, .documents = {0, 1, 2}};
  EXPECT_EQ(read_file(scratch / "a.idx"), index.bytes());
}

TEST(TokenShard, LeavesNothingWhenNotCommitted) {
  const Scratch scratch;
  { TokenShardWriter(scratch / "a", 100).add_document(std::vector<int32_t>{1}); }
  EXPECT_TRUE(scratch.names().empty());
}

TEST(TokenShard, AWriterGoesOnWhereAnotherWasStopped) {
  const Scratch scratch;
  TokenShardState state;
  {
    TokenShardWriter writer(scratch / "a", 70000);
    writer.add_document(std::vector<int32_t>{3, 69999});
    writer.add_document({});
    state = writer.flush();
    writer.add_document(std::vector<int32_t>{4});  // lost, as in a kill
  }
  EXPECT_EQ(scratch.names(), (std::vector<std::string>{"a.bin.partial", "a.len.partial"}));
  const auto can_go_on = [&](const TokenShardState& from) {
    return TokenShardWriter::go_on(scratch / "a", 70000, from) != nullptr;
  };
  EXPECT_TRUE(can_go_on(state));
  EXPECT_FALSE(can_go_on({3, 3, state.hash}));
  for (const char* name : {"a.len.partial", "a.bin.partial"}) {
    const std::string good = read_file(scratch / name);
    for (const size_t at : {size_t{0}, good.size() - 1}) {
      std::string bad = good;
      bad[at] ^= 1;
      write_file(scratch / name, bad);
      EXPECT_FALSE(can_go_on(state)) << name << " " << at;
    }
    write_file(scratch / name, good.substr(0, good.size() - 1));
    EXPECT_FALSE(can_go_on(state)) << name;
    write_file(scratch / name, good);
  }
  const auto writer = TokenShardWriter::go_on(scratch / "a", 70000, state);
  writer->add_document(std::vector<int32_t>{5});
  writer->commit();
  EXPECT_EQ(scratch.names(), (std::vector<std::string>{"a.bin", "a.idx"}));
  const auto shard = TokenShard::open(scratch / "a");
  EXPECT_EQ(tokens_of(*shard, 70000), (std::vector<int32_t>{3, 69999, 5}));
  EXPECT_EQ(shard->documents(), 3);
}

TEST(TokenShard, AWriterTakesAllOfAnother) {
  const Scratch scratch;
  TokenShardState part;
  {
    TokenShardWriter writer(scratch / "part", 100);
    for (const auto& tokens : {std::vector<int32_t>{4, 5, 6}, {}, {7}}) writer.add_document(tokens);
    part = writer.flush();
    writer.commit();
  }
  TokenShardWriter writer(scratch / "a", 100);
  writer.add_document(std::vector<int32_t>{3});
  const TokenShardState taken = writer.add_shard(*TokenShard::open(scratch / "part"));
  EXPECT_EQ(taken.hash, part.hash);
  EXPECT_EQ(taken.tokens, 4);
  writer.add_document(std::vector<int32_t>{8});
  writer.flush();
  writer.commit();
  const auto shard = TokenShard::open(scratch / "a");
  EXPECT_EQ(tokens_of(*shard, 100), (std::vector<int32_t>{3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(shard->documents(), 5);
}

// Of many short documents the index is far larger than the tokens.
TEST(TokenShard, AFullDiskLeavesTheShardThatWasThere) {
  const Scratch folder;
  const auto write = [&](int documents) {
    TokenShardWriter writer(folder / "s", 100);
    for (int i = 0; i < documents; ++i) writer.add_document(std::vector<int32_t>{7});
    writer.commit();
  };
  write(3);
  const Error error = error_of([&] {
    const FileLimit limit(10'000);
    write(2000);
  });
  EXPECT_EQ(error.fault(), Fault::data) << error.what();
  EXPECT_EQ(TokenShard::open(folder / "s")->documents(), 3);
}

TEST(TokenShard, MayBeEmpty) {
  const Scratch scratch;
  TokenShardWriter(scratch / "a", 100).commit();
  const auto shard = TokenShard::open(scratch / "a");
  EXPECT_EQ(shard->tokens(), 0);
  EXPECT_EQ(shard->documents(), 0);
}

TEST(TokenShard, RefusesHostileFiles) {
  const Files files;
  const std::string none = "expected an index that starts with MMIDIDX; this is no token shard";
  EXPECT_EQ(files.open_error({.magic = std::string("MMIDIDY\0\0", 9)}), none);
  EXPECT_EQ(files.open_error({.version = 2}), "expected version 1, got 2");
  EXPECT_EQ(files.open_error({.code = 7}),
            "expected tokens of an integer type (code 1 to 5, or 8), got code 7");
  EXPECT_EQ(files.open_error({.sequences = 4}),
            "4 sequences and 3 document entries take 106 bytes, but the file has 94");
  EXPECT_EQ(files.open_error({.sequences = ~0ull}),
            "18446744073709551615 sequences and 3 document entries take far more bytes, but the "
            "file has 94");
  EXPECT_EQ(files.open_error({.tail = "x"}),
            "3 sequences and 3 document entries take 94 bytes, but the file has 95");
  EXPECT_EQ(files.open_error({.documents = {}}), "the document table is empty; it starts with 0");
  EXPECT_EQ(files.open_error({.lengths = {3, -1, 2}}), "sequence 1 has length -1");
  EXPECT_EQ(files.open_error({.pointers = {0, 8, 12}}),
            "sequence 1 is at byte 8, but the one before ends at 12");
  EXPECT_EQ(files.open_error({.lengths = {3, 0, 3}}),
            "sequence 2 ends at byte 24 of a .bin of 20 bytes");
  EXPECT_EQ(files.open_error({.lengths = {3, 0, 1}}), "covers 16 bytes, but the .bin has 20");
  EXPECT_EQ(files.open_error({.documents = {0, 2, 1}}),
            "document entry 2 is sequence 1; expected a rising list from 0 to 3");
  EXPECT_EQ(files.open_error({.documents = {1, 3}}),
            "document entry 0 is sequence 1; expected a rising list from 0 to 3");
  EXPECT_EQ(files.open_error({.documents = {0, 4}}),
            "document entry 1 is sequence 4; expected a rising list from 0 to 3");
  EXPECT_EQ(files.open_error({.documents = {0, 2}}), "the documents end at sequence 2 of 3");
}

TEST(TokenShard, RefusesEveryTruncation) {
  const Files files;
  files.write({});
  const std::string whole = RawIndex{}.bytes();
  for (size_t size = 0; size < whole.size(); ++size) {
    write_file(files.prefix.string() + ".idx", whole.substr(0, size));
    EXPECT_EQ(error_of([&] { TokenShard::open(files.prefix); }).fault(), Fault::data) << size;
  }
}

TEST(TokenShard, RefusesTokensOutsideTheVocabulary) {
  const Files files;
  files.write({});
  const auto shard = TokenShard::open(files.prefix);
  const Error error = error_of([&] { tokens_of(*shard, 11); });
  EXPECT_EQ(error.fault(), Fault::data);
  EXPECT_EQ(error.what(),
            files.prefix.string() + ".bin: token 4 is 11; the vocabulary has ids 0 to 10");
  EXPECT_EQ(error_of([] { TokenShard::open("/nonexistent/a"); }).fault(), Fault::usage);
}

}  // namespace
}  // namespace tephra

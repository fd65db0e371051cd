// SPDX-License-Identifier: Apache-2.0
#include "tephra/io/safetensors.h"

#include <gtest/gtest.h>

#include "tephra/base/large_pages.h"
#include "tests/support/error_of.h"
#include "tests/support/raw_safetensors.h"
#include "tests/support/scratch.h"
#include "tests/support/small_pieces.h"

namespace tephra {
namespace {

using Named = std::vector<std::pair<std::string, Tensor>>;

constexpr DType kAllTypes[] = {DType::f64, DType::f32,     DType::bf16,    DType::f16,
                               DType::i64, DType::i32,     DType::i16,     DType::i8,
                               DType::u8,  DType::boolean, DType::fp8_e4m3};

// Every byte another value, but 0 and 1 for booleans.
Tensor counting(const Shape& shape, DType dtype) {
  const Tensor x(shape, dtype);
  auto* bytes = static_cast<uint8_t*>(x.raw());
  for (int64_t i = 0; i < x.bytes(); ++i) {
    bytes[i] = static_cast<uint8_t>(dtype == DType::boolean ? i % 2 : i * 37 + 11);
  }
  return x;
}

Named one_of_each() {
  Named tensors;
  for (const DType dtype : kAllTypes) {
    const std::string name = to_text(dtype);
    tensors.emplace_back(name + ".matrix", counting({3, 5}, dtype));
    tensors.emplace_back(name + ".scalar", counting({}, dtype));
    tensors.emplace_back(name + ".empty", counting({4, 0, 2}, dtype));
    tensors.emplace_back(name + ".four", counting({1, 2, 3, 1}, dtype));
  }
  return tensors;
}

TEST(Safetensors, EveryTypeAndShapeComesBackInOrder) {
  const Scratch folder;
  const Named tensors = one_of_each();
  write_safetensors(folder / "x.safetensors", tensors, {{"format", "pt"}, {"made by", "é"}});
  const SafetensorsFile file = SafetensorsFile::open(folder / "x.safetensors");
  EXPECT_EQ(file.metadata(), (Metadata{{"format", "pt"}, {"made by", "é"}}));
  ASSERT_EQ(file.entries().size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& [name, x] = tensors[i];
    EXPECT_EQ(file.entries()[i].name, name);
    EXPECT_TRUE(file.contains(name));
    EXPECT_TRUE(same_bits(file.tensor(name), x)) << name;
    const auto address = reinterpret_cast<uintptr_t>(file.tensor(name).raw());
    EXPECT_EQ(address % static_cast<uintptr_t>(size_of(x.dtype())), 0u) << name;
  }
}

TEST(Safetensors, TensorsOutliveTheFile) {
  const Scratch folder;
  const Tensor x = counting({100, 3}, DType::f32);
  write_safetensors(folder / "x", Named{{"x", x}});
  const Tensor back = SafetensorsFile::open(folder / "x").tensor("x");
  std::filesystem::remove(folder / "x");
  EXPECT_TRUE(same_bits(back, x));
}

TEST(Safetensors, WritesExactlyTheseBytes) {
  const Scratch folder;
  const Tensor x = from_values<int32_t>({2}, {1, -2});
  write_safetensors(folder / "x", Named{{"a\"b", x}, {"e", Tensor(Shape{0}, DType::bf16)}},
                    {{"k", "value"}});
  const std::string header =
      R"({"__metadata__":{"k":"value"},"a\"b":{"dtype":"I32","shape":[2],"data_offsets":[0,8]},)"
      R"("e":{"dtype":"BF16","shape":[0],"data_offsets":[8,8]}})";
  ASSERT_NE(header.size() % 8, 0u);
  const std::string padded = header + std::string(8 - header.size() % 8, ' ');
  EXPECT_EQ(read_file(folder / "x"),
            raw_safetensors(padded, std::string("\1\0\0\0\xfe\xff\xff\xff", 8)));
}

TEST(Safetensors, AFileWithoutTensorsIsFine) {
  const Scratch folder;
  write_safetensors(folder / "x", Named{});
  EXPECT_TRUE(SafetensorsFile::open(folder / "x").entries().empty());
}

// Tensors around 2 MiB, the unit in which a file is handed to the system.
TEST(Safetensors, LargeTensorsComeBackWhateverTheirSizes) {
  const Scratch folder;
  Named tensors;
  for (const int64_t size : {int64_t{1}, kLargePage - 1, kLargePage, 3 * kLargePage + 5,
                             int64_t{70000}, 2 * kLargePage, int64_t{0}, int64_t{9}}) {
    tensors.emplace_back(std::to_string(tensors.size()), counting({size}, DType::u8));
  }
  write_safetensors(folder / "a", tensors);
  const SafetensorsFile file = SafetensorsFile::open(folder / "a");
  const auto expect_all = [&] {
    for (const auto& [name, x] : tensors) EXPECT_TRUE(same_bits(file.tensor(name), x)) << name;
  };
  expect_all();
  file.copy_blocks({0, 2, 3}, [](int64_t) {});
  expect_all();
}

TEST(Safetensors, SmallBlocksAreThoseOfTheTensorsAskedFor) {
  const Scratch folder(std::filesystem::current_path());  // of files in memory there are none
  Named tensors;
  for (const char* name : {"a", "b", "c"}) {
    tensors.emplace_back(name, counting({2 * kLargePage}, DType::u8));
  }
  write_safetensors(folder / "x", tensors);
  write_in_small_pieces(folder / "x", read_file(folder / "x"));
  if (MappedFile::open(folder / "x")->small_blocks().size() != 6) {
    GTEST_SKIP() << "the system does not tell, or has the file in large pages";
  }
  const SafetensorsFile file = SafetensorsFile::open(folder / "x");
  using Blocks = std::vector<int64_t>;  // the header pushes each tensor into a third one
  EXPECT_EQ(file.small_blocks({"b", "none"}), (Blocks{2, 3, 4}));
  EXPECT_EQ(file.small_blocks({"a", "c"}), (Blocks{0, 1, 2, 4, 5}));
  EXPECT_EQ(file.small_blocks({}), Blocks{});
}

TEST(Safetensors, WritesColumnViewsDensely) {
  const Scratch folder;
  const Tensor view = counting({4, 6}, DType::bf16).column_view(1, 4);
  write_safetensors(folder / "x", Named{{"view", view}});
  EXPECT_TRUE(same_bits(SafetensorsFile::open(folder / "x").tensor("view"), view));
}

TEST(Safetensors, MisalignedTensorsAreCopiedToAnAlignedPlace) {
  const Scratch folder;
  const std::string eight("\0\0\x80\x3f\0\0\0\x40", 8);  // 1.0f, 2.0f
  for (size_t padding = 0; padding < 8; ++padding) {
    const std::string header =
        R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})" + std::string(padding, ' ');
    write_file(folder / "x", raw_safetensors(header, eight));
    const Tensor x = SafetensorsFile::open(folder / "x").tensor("x");
    EXPECT_EQ(reinterpret_cast<uintptr_t>(x.raw()) % 4, 0u);
    EXPECT_EQ(x.data<float>()[0], 1.0f);
    EXPECT_EQ(x.data<float>()[1], 2.0f);
  }
}

TEST(Safetensors, OrderIsThatOfTheDataNotOfTheHeader) {
  const Scratch folder;
  write_file(folder / "x",
             raw_safetensors(R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},)"
                             R"("a":{"data_offsets":[0,1],"shape":[1],"dtype":"U8"}})",
                             "\x05\x06"));
  const SafetensorsFile file = SafetensorsFile::open(folder / "x");
  EXPECT_EQ(file.entries()[0].name, "a");
  EXPECT_EQ(file.tensor("b").at(0), 6);
}

TEST(Safetensors, AMissingTensorIsNamedWithItsNearest) {
  const Scratch folder;
  write_safetensors(folder / "x", Named{{"model.norm.weight", counting({2}, DType::f32)}});
  const SafetensorsFile file = SafetensorsFile::open(folder / "x");
  const Error error = error_of([&] { file.tensor("model.norm.wieght"); });
  EXPECT_EQ(error.fault(), Fault::data);
  EXPECT_EQ(error.what(), (folder / "x").string() +
                              ": has no tensor 'model.norm.wieght'; did you mean "
                              "'model.norm.weight'?");
}

TEST(Safetensors, BooleansOtherThanZeroAndOneAreRefused) {
  const Scratch folder;
  write_file(
      folder / "x",
      raw_safetensors(R"({"x":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})", "\x01\x02"));
  const SafetensorsFile file = SafetensorsFile::open(folder / "x");
  EXPECT_EQ(error_of([&] { file.tensor("x"); }).what(),
            (folder / "x").string() + ": tensor 'x': a BOOL is a byte 0 or 1");
}

TEST(Safetensors, TheWriterRefusesWhatCannotBeReadAndLeavesNothing) {
  const Scratch folder;
  const Tensor x = counting({2}, DType::f32);
  const auto expect = [&](const Named& tensors, const std::string& what) {
    const Error error = error_of([&] { write_safetensors(folder / "x", tensors); });
    EXPECT_EQ(error.fault(), Fault::usage);
    EXPECT_EQ(error.what(), (folder / "x").string() + what);
  };
  expect({{"a", x}, {"a", x}}, ": two tensors have the name 'a'");
  expect({{"__metadata__", x}}, ": '__metadata__' cannot be the name of a tensor");
  expect({{"\xff", x}}, ": '\xff' cannot be the name of a tensor");
  const std::vector<TensorEntry> announced = {{"a", DType::f32, {3}}};
  const Error error = error_of([&] {
    write_safetensors(folder / "x", announced, {}, [&](const TensorEntry&) { return x; });
  });
  EXPECT_EQ(error.fault(), Fault::internal);
  EXPECT_TRUE(folder.names().empty());
}

}  // namespace
}  // namespace tephra

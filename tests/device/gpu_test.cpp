// SPDX-License-Identifier: Apache-2.0
// Devices by name, and what a GPU's memory and copies do. Suites named Gpu are skipped where there
// is none.
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "tephra/base/error.h"
#include "tephra/device/device_name.h"
#include "tephra/device/gpu/datasheet.h"
#include "tephra/device/gpu/runtime.h"
#include "tephra/device/gpu/settings.h"
#include "tephra/device/gpu/usable.h"
#include "tephra/device/memory.h"
#include "tephra/device/memory_shortage.h"

namespace tephra {
namespace {

Fault fault_of(const std::string& device) {
  try {
    parse_device(device);
  } catch (const Error& error) {
    return error.fault();
  }
  ADD_FAILURE() << device << " was taken for a device";
  return Fault::internal;
}

TEST(DeviceNames, AreReadBackAsTheyAreWritten) {
  EXPECT_EQ(parse_device("cpu"), kCpu);
  EXPECT_EQ(to_text(kCpu), "cpu");
  EXPECT_EQ(to_text(Device{Device::Kind::gpu, 3}), "gpu:3");
  for (const char* name : {"", "tpu", "gpu1", "GPU"}) EXPECT_EQ(fault_of(name), Fault::usage);
  for (const char* name : {"gpu:", "gpu:x", "gpu:1x", "gpu:-1"}) {
    EXPECT_EQ(fault_of(name), Fault::usage) << name;
  }
  EXPECT_EQ(fault_of("gpu:4096"), Fault::device);
}

TEST(DeviceNames, CanBePlannedForElsewhere) {
  EXPECT_EQ(device_named("gpu"), (Device{Device::Kind::gpu, 0}));
  EXPECT_EQ(device_named("gpu:4096"), (Device{Device::Kind::gpu, 4096}));
  EXPECT_EQ(device_named("cpu"), kCpu);
}

std::string complaint_about(const std::string& device) {
  try {
    device_named(device);
  } catch (const Error& error) {
    EXPECT_FALSE(error.hint().empty());
    return error.what();
  }
  return "none";
}

TEST(DeviceNames, AreExplainedWhenTheyAreWrong) {
  EXPECT_EQ(complaint_about("cuda"), "device: expected cpu, gpu, gpu:N or auto, got 'cuda'");
  EXPECT_EQ(complaint_about("gpu:x"), "device: expected a number from 0 after gpu:, got 'gpu:x'");
  EXPECT_EQ(complaint_about("gpu:99999999999"),
            "device: the number of 'gpu:99999999999' is too large");
}

// A variable of the environment, while it is there.
class Variable {
 public:
  explicit Variable(const char* value, const char* name = kName) : name_(name) {
    ::setenv(name, value, 1);
  }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

  static constexpr const char* kName = "TEPHRA_TEST_SETTING";

 private:
  const char* name_;
};

template <class Read>
std::string complaint_of(const char* value, const Read& read) {
  const Variable variable(value);
  try {
    read();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::usage);
    return error.what();
  }
  return "none";
}

TEST(DeviceSettings, AreReadStrictly) {
  const auto on_or_off = [] { return gpu::switch_setting(Variable::kName, true); };
  const auto count = [] { return gpu::count_setting(Variable::kName); };
  EXPECT_TRUE(on_or_off());
  EXPECT_EQ(count(), 0);
  {
    const Variable none("");
    EXPECT_TRUE(on_or_off());
    EXPECT_EQ(count(), 0);
  }
  {
    const Variable off("0");
    EXPECT_FALSE(on_or_off());
  }
  {
    const Variable many("2000");
    EXPECT_EQ(count(), 2000);
    EXPECT_EQ(gpu::file_setting(Variable::kName), "2000");
  }
  EXPECT_EQ(complaint_of("off", on_or_off), "TEPHRA_TEST_SETTING: expected 0 or 1, got 'off'");
  EXPECT_EQ(complaint_of("abc", count),
            "TEPHRA_TEST_SETTING: expected a whole number from 1, got 'abc'");
  for (const char* value : {"0", "-1", "3x", " 3", "99999999999999999999"}) {
    EXPECT_NE(complaint_of(value, count), "none") << value;
  }
}

TEST(DeviceSettings, RefuseAnErrorWithoutTheOpThatHasIt) {
  const Variable as("719", "TEPHRA_GPU_FAIL_AS");
  EXPECT_EQ(complaint_of("", gpu::fail_setting),
            "TEPHRA_GPU_FAIL_AS has no effect without TEPHRA_GPU_FAIL_AT, which says when");
  const Variable at("2000", "TEPHRA_GPU_FAIL_AT");
  EXPECT_EQ(gpu::fail_setting().at, 2000);
  EXPECT_EQ(gpu::fail_setting().as, 719);
}

TEST(DeviceNames, AreToldApartByWhatABuildCouldHaveForThem) {
  for (const char* old : {"sm_50", "sm_75"}) {
    EXPECT_EQ(gpu::no_kernels_for(old),
              "GPUs before Ampere (sm_80) are not supported; use --device cpu");
  }
  for (const char* other : {"sm_80", "sm_120", "gfx90a"}) {
    EXPECT_EQ(
        gpu::no_kernels_for(other),
        format("this build has no kernels for {}; docs/gpu.md says how to build them", other));
  }
}

TEST(DeviceNames, HaveTheDatasheetsPeakWhereItIsKnown) {
  EXPECT_EQ(gpu::datasheet_flops("NVIDIA H200"), 989.5e12);
  EXPECT_EQ(gpu::datasheet_flops("NVIDIA H200 NVL"), 835.5e12);
  EXPECT_EQ(gpu::datasheet_flops("NVIDIA H100 80GB HBM3"), 989.5e12);
  EXPECT_EQ(gpu::datasheet_flops("NVIDIA A100-SXM4-80GB"), 312e12);
  EXPECT_EQ(gpu::datasheet_flops("AMD Instinct MI300X"), 1307.4e12);
  EXPECT_EQ(gpu::datasheet_flops("emulated on this CPU"), 0);
}

// "auto" where the GPUs have these reasons not to be used.
AutoDevice chosen_of(const std::vector<std::string>& reasons, int most_asked) {
  int asked = 0;
  const auto why = [&](int index) -> const std::string& {
    EXPECT_EQ(index, asked++);
    return reasons[static_cast<size_t>(index)];
  };
  const AutoDevice chosen = auto_device(static_cast<int>(reasons.size()), why);
  EXPECT_EQ(asked, most_asked) << "a device that is asked is set up";
  return chosen;
}

TEST(DeviceNames, AutoIsTheFirstGpuThatCanBeUsed) {
  EXPECT_EQ(chosen_of({}, 0).device, kCpu);
  EXPECT_EQ(chosen_of({}, 0).why_cpu, "");
  EXPECT_EQ(chosen_of({"", "", ""}, 1).device, (Device{Device::Kind::gpu, 0}));
  const AutoDevice second = chosen_of({"no kernels", "", ""}, 2);
  EXPECT_EQ(second.device, (Device{Device::Kind::gpu, 1}));
  EXPECT_EQ(second.why_cpu, "");
  const AutoDevice none = chosen_of({"no kernels", "busy"}, 2);
  EXPECT_EQ(none.device, kCpu);
  EXPECT_EQ(none.why_cpu, "gpu:0: no kernels; gpu:1: busy");
}

MemoryShortage shortage(Purpose purpose) {
  MemoryShortage s{.device = {Device::Kind::gpu, 0},
                   .bytes = int64_t{144} << 30,
                   .purpose = purpose,
                   .memory = {.free_bytes = int64_t{40} << 30, .total_bytes = int64_t{140} << 30},
                   .in_use = {}};
  return s;
}

TEST(MemoryShortage, SaysWhatIsFreeAndWhoHasTheRest) {
  MemoryShortage s = shortage(Purpose::weights);
  EXPECT_EQ(s.text(),
            "out of memory on gpu:0: 144.00 GiB for weights do not fit; of 140.00 GiB, 40.00 are "
            "free, 100.00 in use by others and the driver");
  s.in_use[static_cast<size_t>(Purpose::cache)].bytes = int64_t{30} << 30;
  s.in_use[static_cast<size_t>(Purpose::activations)].bytes = int64_t{70} << 30;
  s.in_use[kNumPurposes].bytes = int64_t{100} << 30;
  EXPECT_EQ(s.text(),
            "out of memory on gpu:0: 144.00 GiB for weights do not fit; of 140.00 GiB, 40.00 are "
            "free, 70.00 for activations, 30.00 for cache");
}

TEST(MemoryShortage, HintsAtWhatHelpsItsPurpose) {
  const auto helps = [](Purpose purpose, const char* what) {
    return shortage(purpose).hint().find(what) != std::string::npos;
  };
  EXPECT_FALSE(helps(Purpose::weights, "micro-batch"));
  EXPECT_TRUE(helps(Purpose::weights, "smaller model"));
  EXPECT_TRUE(helps(Purpose::optimizer, "smaller model"));
  EXPECT_TRUE(helps(Purpose::cache, "shorter sequences"));
  EXPECT_TRUE(helps(Purpose::activations, "micro-batch"));
}

TEST(DeviceNames, AutoIsAGpuWhereThereIsOne) {
  const gpu::Status& found = gpu::status();
  bool usable = false;
  for (size_t i = 0; i < found.devices.size(); ++i) {
    usable |= gpu::why_unusable(static_cast<int>(i)).empty();
  }
  EXPECT_EQ(parse_device("auto").kind == Device::Kind::gpu, usable);
  EXPECT_EQ(found.why_none.empty(), !found.devices.empty());
  if (found.devices.empty()) {
    EXPECT_EQ(fault_of("gpu"), Fault::device);
  }
}

// What a device runs does not follow from what another one does.
TEST(GpuCode, IsHoppersOwnOnEveryHopperOfABuildThatHasIt) {
  const gpu::Status& found = gpu::status();
  if (found.devices.empty()) GTEST_SKIP() << found.why_none;
  for (size_t i = 0; i < found.devices.size(); ++i) {
    const int index = static_cast<int>(i);
    const std::string& architecture = found.devices[i].architecture;
    if (!gpu::why_unusable(index).empty()) continue;
    if (architecture == "sm_90" && gpu::has_hopper_code()) {
      EXPECT_TRUE(gpu::starts_kernels_early(index)) << "gpu:" << i;
    }
    if (architecture.starts_with("sm_8")) {
      EXPECT_FALSE(gpu::starts_kernels_early(index)) << "gpu:" << i << ", " << architecture;
    }
  }
}

class GpuMemory : public testing::Test {
 protected:
  void SetUp() override {
    if (gpu::status().devices.empty()) GTEST_SKIP() << gpu::status().why_none;
  }
  Device device_{Device::Kind::gpu, 0};
};

TEST_F(GpuMemory, CopiesRowsBothWays) {
  const std::vector<int32_t> from = {1, 2, 3, 4, 5, 6};
  std::vector<int32_t> to(4, 0);
  const auto block = Storage::allocate(device_, 24, Purpose::workspace);
  gpu::copy(device_, gpu::Direction::to_device, block->data(), from.data(), 24);
  // The first two of each three.
  gpu::copy_rows(device_, gpu::Direction::to_host, {to.data(), 8, block->data(), 12, 8, 2});
  EXPECT_EQ(to, (std::vector<int32_t>{1, 2, 4, 5}));
}

TEST_F(GpuMemory, IsCountedByPurposeApartFromTheHosts) {
  const auto in_use = [](Device::Kind kind) {
    return memory_use(kind)[static_cast<size_t>(Purpose::cache)].bytes;
  };
  const int64_t host = in_use(Device::Kind::cpu), before = in_use(Device::Kind::gpu);
  const auto block = Storage::allocate(device_, 1 << 20, Purpose::cache);
  EXPECT_EQ(in_use(Device::Kind::gpu) - before, 1 << 20);
  EXPECT_EQ(in_use(Device::Kind::cpu), host);
}

TEST_F(GpuMemory, SaysWhatDidNotFitAndGoesOn) {
  const auto weights = Storage::allocate(device_, 3 << 20, Purpose::weights);
  try {
    Storage::allocate(device_, int64_t{1} << 50, Purpose::activations);
    FAIL() << "a pebibyte fitted";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::device);
    const std::string text = error.what();
    EXPECT_NE(text.find("out of memory on gpu:0: 1048576.00 GiB for activations"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("for weights"), std::string::npos) << text;
  }
  const auto after = Storage::allocate(device_, 1 << 20, Purpose::activations);
  gpu::fill_bytes(device_, after->data(), 7, 1 << 20);
  gpu::synchronize(device_);
}

}  // namespace
}  // namespace tephra

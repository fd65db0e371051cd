// SPDX-License-Identifier: Apache-2.0
// Dense products through the vendor's library, opened at run time: the program starts without it.
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "tephra/device/device_failure.h"
#include "tephra/device/gpu/gemm.h"
#include "tephra/device/gpu/gemm_library.h"
#include "tephra/device/gpu/settings.h"
#include "tephra/device/memory.h"

namespace tephra::gpu {
namespace {

// The prototype table.
struct Library {
#define TEPHRA_PROTOTYPE(name) decltype(&TEPHRA_LT(name)) name = nullptr;
  TEPHRA_LT_FUNCTIONS(TEPHRA_PROTOTYPE)
#undef TEPHRA_PROTOTYPE
  bool found = false;
};

void* open_library() {
  if (const std::string given = file_setting(lt::kSetting); !given.empty()) {
    void* const handle = dlopen(given.c_str(), RTLD_NOW | RTLD_LOCAL);
    require(handle != nullptr, "{}: expected the file of {}: {}", lt::kSetting, lt::kName,
            handle ? "" : dlerror());
    return handle;
  }
  for (const char* name : lt::kPlaces) {
    if (void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return handle;
  }
  return nullptr;
}

Library load() {
  Library lib;
  void* const handle = open_library();
  if (!handle) return lib;
  lib.found = true;
  const auto bind = [&](auto& function, const std::string& name) {
    using Function = std::remove_reference_t<decltype(function)>;
    function = reinterpret_cast<Function>(dlsym(handle, (lt::kPrefix + name).c_str()));
    lib.found = lib.found && function;
  };
#define TEPHRA_BIND(name) bind(lib.name, #name);
  TEPHRA_LT_FUNCTIONS(TEPHRA_BIND)
#undef TEPHRA_BIND
  const std::string given = file_setting(lt::kSetting);
  require(lib.found || given.empty(), "{}: {} is no {} of this version", lt::kSetting, given,
          lt::kName);
  return lib;
}

const Library& library() {
  static const Library found = load();
  return found;
}

void check_blas(lt::Status status, const char* what) {
  if (status == lt::kDone) return;
  check(TEPHRA_GPU_API(DeviceSynchronize)(), what);  // names a kernel that failed before
  throw DeviceFailure(
      format("{}: {} failed with status {}", lt::kName, what, static_cast<int>(status)),
      "TEPHRA_GPU_SYNC=1 tells whether an earlier kernel was the cause");
}

// What decides the algorithm: the shape, the types, and how far pointers are aligned.
using Key = std::array<int64_t, 18>;

uint32_t alignment_of(const void* p, int64_t stride_bytes, int64_t step_bytes) {
  const auto bits = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(p)) |
                    static_cast<uint64_t>(stride_bytes) | static_cast<uint64_t>(step_bytes);
  for (uint32_t bytes = 256; bytes > 1; bytes /= 2) {
    if (bits % bytes == 0) return bytes;
  }
  return 1;
}

auto type_of(Number number) { return number == Number::f32 ? lt::kF32 : lt::kBf16; }

struct Plan {
  lt::Operation operation = nullptr;
  lt::Layout a = nullptr, b = nullptr, c = nullptr;
  std::optional<lt::Algorithm> algorithm;  // none: the library knows none
};

lt::Layout layout(Number number, int64_t rows, int64_t cols, int64_t ld, int64_t batch,
                  int64_t step) {
  const Library& lib = library();
  lt::Layout made = nullptr;
  check_blas(lib.MatrixLayoutCreate(&made, type_of(number), static_cast<uint64_t>(rows),
                                    static_cast<uint64_t>(cols), ld),
             "describing a matrix");
  if (batch > 1) {
    const auto count = static_cast<int32_t>(batch);
    check_blas(lib.MatrixLayoutSetAttribute(made, lt::kBatch, &count, sizeof count),
               "describing a batch");
    check_blas(lib.MatrixLayoutSetAttribute(made, lt::kStep, &step, sizeof step),
               "describing a batch");
  }
  return made;
}

// The operands change places, see make_plan.
lt::Alignments alignments(const Gemm& g) {
  const int64_t in = g.in == Number::f32 ? 4 : 2, out = g.out == Number::f32 ? 4 : 2;
  return {alignment_of(g.b, g.ldb * in, g.b_step * in),
          alignment_of(g.a, g.lda * in, g.a_step * in),
          std::min(alignment_of(g.c, g.ldc * out, g.c_step * out),
                   g.addend ? alignment_of(g.addend, 0, 0) : 256u)};
}

void set_bias(lt::Operation operation, const void* bias) {
  check_blas(library().MatmulDescSetAttribute(operation, lt::kBias, &bias, sizeof bias),
             "describing a bias");
}

// Row-major C is column-major C^T = op(B)^T op(A)^T: the operands change places.
Plan make_plan(lt::Handle handle, const Gemm& g) {
  const Library& lib = library();
  Plan plan;
  check_blas(lib.MatmulDescCreate(&plan.operation, lt::kCompute, lt::kF32), "describing a product");
  const auto describe = [&](auto attribute, const auto& value) {
    check_blas(lib.MatmulDescSetAttribute(plan.operation, attribute, &value, sizeof value),
               "describing a product");
  };
  describe(lt::kFirst, g.transpose_b ? lt::kTransposed : lt::kAsItIs);
  describe(lt::kSecond, g.transpose_a ? lt::kTransposed : lt::kAsItIs);
  if (g.bias) {  // along the rows of C^T
    describe(lt::kEpilogue, lt::kAddBias);
    describe(lt::kBiasType, type_of(g.out));
    set_bias(plan.operation, g.bias);
  }
  plan.a =
      layout(g.in, g.transpose_b ? g.k : g.n, g.transpose_b ? g.n : g.k, g.ldb, g.batch, g.b_step);
  plan.b =
      layout(g.in, g.transpose_a ? g.m : g.k, g.transpose_a ? g.k : g.m, g.lda, g.batch, g.a_step);
  plan.c = layout(g.out, g.n, g.m, g.ldc, g.batch, g.c_step);

  lt::Preference preference = nullptr;
  check_blas(lib.MatmulPreferenceCreate(&preference), "choosing an algorithm");
  lt::prefer(
      [&](auto attribute, const auto& value) {
        check_blas(lib.MatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
                   "choosing an algorithm");
      },
      alignments(g));
  lt::Choice best{};
  int count = 0;
  const lt::Status status = lib.MatmulAlgoGetHeuristic(
      handle, plan.operation, plan.a, plan.b, plan.c, plan.c, preference, 1, &best, &count);
  if (status == lt::kDone && count > 0 && best.state == lt::kDone) plan.algorithm = best.algo;
  (void)lib.MatmulPreferenceDestroy(preference);
  return plan;
}

// One for each device; never destroyed.
struct Context {
  lt::Handle handle = nullptr;
  std::shared_ptr<Storage> workspace;
  std::map<Key, Plan> plans;

  explicit Context(Device device)
      : workspace(Storage::allocate(device, lt::kWorkspaceBytes, Purpose::workspace)) {
    check_blas(library().Create(&handle), "starting the library");
  }
};

std::mutex mutex;

Context& context_of(Device device) {
  static auto* const contexts = new std::map<int, std::unique_ptr<Context>>;
  std::unique_ptr<Context>& found = (*contexts)[device.index];
  if (!found) found = std::make_unique<Context>(device);
  return *found;
}

Plan& plan_for(Context& context, const Gemm& g) {
  const lt::Alignments aligned = alignments(g);
  const Key key = {g.m,
                   g.n,
                   g.k,
                   g.lda,
                   g.ldb,
                   g.ldc,
                   g.transpose_a,
                   g.transpose_b,
                   static_cast<int64_t>(g.in),
                   static_cast<int64_t>(g.out),
                   g.batch,
                   g.a_step,
                   g.b_step,
                   g.c_step,
                   aligned.first,
                   aligned.second,
                   aligned.result,
                   g.bias ? alignment_of(g.bias, 0, 0) : 0};
  const auto found = context.plans.find(key);
  if (found != context.plans.end()) return found->second;
  return context.plans.emplace(key, make_plan(context.handle, g)).first->second;
}

}  // namespace

std::string gemm_library_name() { return lt::kName; }

std::string gemm_library_version() { return library().found ? lt::version_of(library()) : ""; }

bool gemm_by_library(Stream& stream, const Gemm& g) {
  if (!library().found) return false;
  const std::lock_guard lock(mutex);
  Context& context = context_of(stream.device());
  const Plan& plan = plan_for(context, g);
  if (!plan.algorithm) return false;
  if (g.bias) set_bias(plan.operation, g.bias);
  check_blas(
      library().Matmul(context.handle, plan.operation, &g.alpha, g.b, plan.a, g.a, plan.b, &g.beta,
                       g.addend ? g.addend : g.c, plan.c, g.c, plan.c, &*plan.algorithm,
                       context.workspace->data(), lt::kWorkspaceBytes, stream.raw()),
      "a matrix product");
  return true;
}

}  // namespace tephra::gpu

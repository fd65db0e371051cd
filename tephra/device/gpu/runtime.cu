// SPDX-License-Identifier: Apache-2.0
#include "tephra/device/gpu/runtime.h"

#include <cxxabi.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>

#include "tephra/device/device_failure.h"
#include "tephra/device/gpu/platform.h"
#include "tephra/device/gpu/settings.h"
#include "tephra/device/gpu/usable.h"

namespace tephra::gpu {
namespace {

std::string version_text(int version) {
  if (version == 0) return "";
#if defined(__HIP__)
  return format("{}.{}", version / 10000000, version / 100000 % 100);
#else
  return format("{}.{}", version / 1000, version % 1000 / 10);
#endif
}

std::string architecture_of(const Properties& properties) {
#if defined(__HIP__)
  return properties.gcnArchName;
#else
  return format("sm_{}{}", properties.major, properties.minor);
#endif
}

Info info_of(int index) {
  Properties properties;
  if (TEPHRA_GPU_API(GetDeviceProperties)(&properties, index) != kSuccess) return {};
  return {properties.name, architecture_of(properties),
          static_cast<int64_t>(properties.totalGlobalMem), properties.multiProcessorCount};
}

void explain(Status& s, Result result, int driver) {
  if (driver == 0) {
    s.why_none = "no GPU driver is installed";
    s.hint = "use --device cpu, or install the vendor's driver";
  } else if (result == TEPHRA_GPU_API(ErrorInsufficientDriver)) {
    s.why_none = format("the GPU driver is too old: it offers {} {}, this build needs {}", kBackend,
                        s.driver, s.backend);
    s.hint = "update the driver, or use --device cpu";
  } else {
    s.why_none = format("no GPU was found ({})", TEPHRA_GPU_API(GetErrorString)(result));
    s.hint = "use --device cpu; nvidia-smi or rocminfo shows what the driver sees";
  }
}

Status look() {
  Status s;
  int version = 0, driver = 0, count = 0;
  (void)TEPHRA_GPU_API(RuntimeGetVersion)(&version);
  (void)TEPHRA_GPU_API(DriverGetVersion)(&driver);
  s.backend = format("{} {}", kBackend, version_text(version));
  s.driver = version_text(driver);
  const Result result = TEPHRA_GPU_API(GetDeviceCount)(&count);
  (void)TEPHRA_GPU_API(GetLastError)();  // a failure to look is not a failure of the next call
  if (result != kSuccess || count == 0) {
    explain(s, result, driver);
    return s;
  }
  for (int i = 0; i < count; ++i) s.devices.push_back(info_of(i));
  return s;
}

void require_device(Device device) {
  const Status& s = status();
  if (device.index >= 0 && device.index < static_cast<int>(s.devices.size())) return;
  if (s.devices.empty()) throw Error(Fault::device, s.why_none, s.hint);
  throw Error(Fault::device,
              format("device {}: this machine has {} GPU{}", device, s.devices.size(),
                     s.devices.size() == 1 ? "" : "s"),
              format("use gpu:0 to gpu:{}", s.devices.size() - 1));
}

// The (mangled) name of the op that runs on this thread, for errors.
thread_local const char* current_op = nullptr;

// "tephra::kernel::RmsNorm" -> "RmsNorm"
std::string op_name(const char* mangled) {
  int status_code = 0;
  char* plain = abi::__cxa_demangle(mangled, nullptr, nullptr, &status_code);
  std::string name = status_code == 0 ? plain : mangled;
  std::free(plain);
  const size_t colon = name.rfind("::");
  return colon == std::string::npos ? name : name.substr(colon + 2);
}

// The device itself is gone or broken, whatever ran on it.
bool is_lost(Result result) {
#if defined(__HIP__)
  return result == hipErrorNoDevice || result == hipErrorECCNotCorrectable;
#else
  return result == cudaErrorNoDevice || result == cudaErrorDevicesUnavailable ||
         result == cudaErrorECCUncorrectable || result == cudaErrorNvlinkUncorrectable ||
         result == cudaErrorSystemNotReady || result == cudaErrorHardwareStackError ||
         result == cudaErrorContained || result == cudaErrorUnknown;
#endif
}

// A kernel did what it must not; after it every call fails.
bool is_kernel_fault(Result result) {
#if !defined(__HIP__)
  if (result == cudaErrorLaunchTimeout || result == cudaErrorMisalignedAddress ||
      result == cudaErrorIllegalInstruction || result == cudaErrorInvalidAddressSpace ||
      result == cudaErrorInvalidPc) {
    return true;
  }
#endif
  return result == TEPHRA_GPU_API(ErrorIllegalAddress) ||
         result == TEPHRA_GPU_API(ErrorLaunchFailure);
}

__global__ void fail_here() {
#if defined(__HIP__)
  __builtin_trap();
#else
  __trap();
#endif
}

// Whether the device has code of one of our kernels: all are compiled for the same architectures.
std::string ask_why_unusable(int index) {
  TEPHRA_GPU_API(FuncAttributes) attributes;
  Result result = TEPHRA_GPU_API(SetDevice)(index);
  if (result == kSuccess) {
    result =
        TEPHRA_GPU_API(FuncGetAttributes)(&attributes, reinterpret_cast<const void*>(&fail_here));
  }
  (void)TEPHRA_GPU_API(GetLastError)();  // told here, so not by the next call as well
  if (result == kSuccess) return "";
  if (result == kNotCompiledForDevice || result == TEPHRA_GPU_API(ErrorInvalidDeviceFunction)) {
    return no_kernels_for(status().devices[static_cast<size_t>(index)].architecture);
  }
  return format("it cannot be used now: {}", TEPHRA_GPU_API(GetErrorString)(result));
}

// Whether copies may read the host's pageable memory where it lies, after the call has returned:
// where the device shares the host's page tables. Elsewhere the driver stages what they read.
bool reads_pageable_memory(Device device) {
#if defined(__HIP__)
  constexpr auto kAttribute = hipDeviceAttributePageableMemoryAccessUsesHostPageTables;
#else
  constexpr auto kAttribute = cudaDevAttrPageableMemoryAccessUsesHostPageTables;
#endif
  int reads = 0;
  check(TEPHRA_GPU_API(DeviceGetAttribute)(&reads, kAttribute, device.index),
        "asking how memory is copied");
  return reads != 0;
}

const FailSetting& asked_failure() {
  static const FailSetting asked = fail_setting();
  return asked;
}

void fail_when_asked(Stream& stream) {
  const FailSetting& asked = asked_failure();
  static std::atomic<int64_t> left{asked.at};
  if (asked.at == 0) return;
  const int64_t after = --left;
  if (asked.as != 0) {
    if (after <= 0) fail(static_cast<Result>(asked.as), "starting a kernel");
  } else if (after == 0) {
    stream.launch(fail_here, {.blocks = 1, .threads = 1});
  }
}

}  // namespace

#if !defined(__HIP__)
int code_version(int device) {
  static std::mutex mutex;
  static auto* const versions = new std::map<int, int>;  // never destroyed
  const std::lock_guard lock(mutex);
  const auto known = versions->find(device);
  if (known != versions->end()) return known->second;
  cudaFuncAttributes attributes;
  check(cudaSetDevice(device), "choosing a device");
  check(cudaFuncGetAttributes(&attributes, fail_here), "asking which code a device runs");
  return versions->emplace(device, attributes.ptxVersion).first->second;
}
#endif

bool has_hopper_code() {
#ifdef TEPHRA_HOPPER_CODE
  return true;
#else
  return false;
#endif
}

bool starts_kernels_early(int index) { return can_start_early(index); }

void fail(Result result, const char* what) {
  const char* reason = TEPHRA_GPU_API(GetErrorString)(result);
  std::string where = what;
  if (current_op) where = format("{} ({})", what, op_name(current_op));
  current_op = nullptr;
  (void)TEPHRA_GPU_API(GetLastError)();  // told here, so not by the next launch as well
  if (result == TEPHRA_GPU_API(ErrorMemoryAllocation)) {
    throw Error(Fault::device, format("out of memory on the GPU while {}", where),
                "use a smaller micro-batch or context, recompute more, or a narrower dtype");
  }
  if (result == kNotCompiledForDevice) {
    throw DeviceFailure(format("{}: {}: the kernels were not compiled for it", where, reason),
                        "build with -DTEPHRA_CUDA_ARCHITECTURES set to this GPU's");
  }
  if (is_lost(result)) {
    throw DeviceFailure(
        format("the GPU was lost while {}: {}", where, reason),
        "nvidia-smi or rocm-smi and the system's log (dmesg) say why; checkpoints already "
        "written are whole, and the same command goes on from the last");
  }
  if (is_kernel_fault(result)) {
    throw DeviceFailure(
        format("a kernel failed on the GPU, found while {}: {}", where, reason),
        "TEPHRA_GPU_SYNC=1 waits after each and names the one; checkpoints already written "
        "are whole");
  }
  throw DeviceFailure(format("{} failed on the GPU: {}", where, reason),
                      "earlier kernels may be the cause: TEPHRA_GPU_SYNC=1 names the one; "
                      "checkpoints already written are whole");
}

const Status& status() {
  static const Status found = look();
  return found;
}

const std::string& why_unusable(int index) {
  static std::mutex mutex;
  static auto* const answers = new std::map<int, std::string>;  // never destroyed
  const std::lock_guard lock(mutex);
  const auto known = answers->find(index);
  if (known != answers->end()) return known->second;
  return answers->emplace(index, ask_why_unusable(index)).first->second;
}

namespace {
std::atomic<bool>& portable_alone() {
  static std::atomic<bool> alone{switch_setting("TEPHRA_GPU_PORTABLE", false)};
  return alone;
}
}  // namespace

bool only_portable() { return portable_alone(); }
void use_only_portable(bool on) { portable_alone() = on; }

Stream::Stream(Device device) : device_(device) {
  (void)asked_failure();  // what is wrong with a setting is told before the first op
  (void)only_portable();
  starts_early_ = switch_setting("TEPHRA_GPU_EARLY", true) && can_start_early(device.index);
  synchronous_ = switch_setting("TEPHRA_GPU_SYNC", false);
  enter();
  check(TEPHRA_GPU_API(StreamCreateWithFlags)(&raw_, TEPHRA_GPU_API(StreamNonBlocking)),
        "creating a stream");
  check(TEPHRA_GPU_API(Malloc)(reinterpret_cast<void**>(&counter_), sizeof *counter_),
        "reserving a stream's counter");
  check(TEPHRA_GPU_API(MemsetAsync)(counter_, 0, sizeof *counter_, raw_),
        "clearing a stream's counter");
}

void Stream::enter() const {
  check(TEPHRA_GPU_API(SetDevice)(device_.index), "choosing the device");
}

void Stream::synchronize() const {
  check(TEPHRA_GPU_API(StreamSynchronize)(raw_), "waiting for the device");
}

RawEvent Stream::new_event() const {
  RawEvent event = nullptr;
  check(TEPHRA_GPU_API(EventCreate)(&event), "creating an event");
  return event;
}

void Stream::begin(const char* name) {
  if (depth_ == 0) {
    enter();
    current_op = name;
    fail_when_asked(*this);
    if (profiling_) {
      timed_.push_back({name, new_event(), new_event()});
      check(TEPHRA_GPU_API(EventRecord)(timed_.back().begin, raw_), "timing a kernel");
    }
  }
  ++depth_;  // not of one that could not begin
}

void Stream::end() {
  if (--depth_ > 0) return;
  if (profiling_) check(TEPHRA_GPU_API(EventRecord)(timed_.back().end, raw_), "timing a kernel");
  if (synchronous_) synchronize();
  current_op = nullptr;
}

void Stream::abandon() {
  depth_ = 0;
  profiling_ = false;
  current_op = nullptr;
  // A stream that is being recorded would do nothing else any more; one that is not says so.
  RawGraph recorded = nullptr;
  (void)TEPHRA_GPU_API(StreamEndCapture)(raw_, &recorded);
  if (recorded) (void)TEPHRA_GPU_API(GraphDestroy)(recorded);
  (void)TEPHRA_GPU_API(GetLastError)();
}

HostRoom::HostRoom(int64_t bytes) {
  const auto size = static_cast<size_t>(bytes);
#if defined(__HIP__)
  check(hipHostMalloc(&data_, size, hipHostMallocPortable | hipHostMallocMapped),
        "taking host memory for kernels");
#else
  check(cudaHostAlloc(&data_, size, cudaHostAllocPortable | cudaHostAllocMapped),
        "taking host memory for kernels");
#endif
}

HostRoom::~HostRoom() {
#if defined(__HIP__)
  (void)hipHostFree(data_);
#else
  (void)cudaFreeHost(data_);
#endif
}

Graph::~Graph() {
  if (exec_) (void)TEPHRA_GPU_API(GraphExecDestroy)(exec_);
}

void Graph::begin(Stream& stream) {
  stream.enter();
  check(TEPHRA_GPU_API(StreamBeginCapture)(stream.raw(),
                                           TEPHRA_GPU_API(StreamCaptureModeThreadLocal)),
        "recording a graph");
}

void Graph::end(Stream& stream) {
  RawGraph graph = nullptr;
  check(TEPHRA_GPU_API(StreamEndCapture)(stream.raw(), &graph), "recording a graph");
  const Result result = TEPHRA_GPU_API(GraphInstantiateWithFlags)(&exec_, graph, 0);
  (void)TEPHRA_GPU_API(GraphDestroy)(graph);
  check(result, "building a graph");
}

void Graph::launch(Stream& stream) const {
  stream.enter();
  check(TEPHRA_GPU_API(GraphLaunch)(exec_, stream.raw()), "launching a graph");
}

Stream& stream(Device device) {
  static std::mutex mutex;
  static auto* const streams = new std::map<int, std::unique_ptr<Stream>>;  // never destroyed
  const std::lock_guard lock(mutex);
  std::unique_ptr<Stream>& found = (*streams)[device.index];
  if (!found) {
    require_device(device);
    found = std::make_unique<Stream>(device);
    RawPool pool = nullptr;
    check(TEPHRA_GPU_API(DeviceGetDefaultMemPool)(&pool, device.index), "finding the memory pool");
    uint64_t keep = UINT64_MAX;  // freed blocks stay with us
    check(TEPHRA_GPU_API(MemPoolSetAttribute)(pool, TEPHRA_GPU_API(MemPoolAttrReleaseThreshold),
                                              &keep),
          "setting up the memory pool");
  }
  return *found;
}

void* allocate(Device device, int64_t bytes) {
  Stream& s = stream(device);
  s.enter();
  void* data = nullptr;
  const Result result = TEPHRA_GPU_API(MallocAsync)(&data, static_cast<size_t>(bytes), s.raw());
  if (result == TEPHRA_GPU_API(ErrorMemoryAllocation)) {
    (void)TEPHRA_GPU_API(GetLastError)();
    return nullptr;
  }
  check(result, "allocating memory");
  return data;
}

void release(Device device, void* data) {
  // The process may be ending, or unwinding from a failed kernel: nothing to do about it here.
  (void)TEPHRA_GPU_API(SetDevice)(device.index);
  (void)TEPHRA_GPU_API(FreeAsync)(data, stream(device).raw());
}

void trim(Device device) {
  Stream& s = stream(device);
  s.enter();
  s.synchronize();
  RawPool pool = nullptr;
  check(TEPHRA_GPU_API(DeviceGetDefaultMemPool)(&pool, device.index), "finding the memory pool");
  check(TEPHRA_GPU_API(MemPoolTrimTo)(pool, 0), "trimming the memory pool");
}

Memory memory(Device device) {
  stream(device).enter();
  size_t free = 0, total = 0;
  check(TEPHRA_GPU_API(MemGetInfo)(&free, &total), "asking for free memory");
  return {static_cast<int64_t>(free), static_cast<int64_t>(total)};
}

void copy(Device device, Direction direction, void* to, const void* from, int64_t bytes) {
  copy_rows(device, direction, {to, bytes, from, bytes, bytes, 1});
}

void copy_rows(Device device, Direction direction, const RowCopy& c) {
  if (c.bytes == 0 || c.rows == 0) return;
  Stream& s = stream(device);
  s.enter();
  const auto kind = direction == Direction::to_device ? TEPHRA_GPU_API(MemcpyHostToDevice)
                    : direction == Direction::to_host ? TEPHRA_GPU_API(MemcpyDeviceToHost)
                                                      : TEPHRA_GPU_API(MemcpyDeviceToDevice);
  if (c.rows == 1 || (c.to_stride == c.bytes && c.from_stride == c.bytes)) {
    check(TEPHRA_GPU_API(MemcpyAsync)(c.to, c.from, static_cast<size_t>(c.bytes * c.rows), kind,
                                      s.raw()),
          "copying memory");
  } else {
    check(TEPHRA_GPU_API(Memcpy2DAsync)(
              c.to, static_cast<size_t>(c.to_stride), c.from, static_cast<size_t>(c.from_stride),
              static_cast<size_t>(c.bytes), static_cast<size_t>(c.rows), kind, s.raw()),
          "copying memory");
  }
  // What comes from pageable memory of the host has been taken when the call returns: the driver
  // stages it, except where the device reads it itself. A HostRoom is read later.
  const bool from_host = direction == Direction::to_device;
  if (direction == Direction::to_host || (from_host && reads_pageable_memory(device))) {
    s.synchronize();
  }
}

void fill_bytes(Device device, void* to, int value, int64_t bytes) {
  if (bytes == 0) return;
  Stream& s = stream(device);
  s.enter();
  check(TEPHRA_GPU_API(MemsetAsync)(to, value, static_cast<size_t>(bytes), s.raw()),
        "filling memory");
}

void synchronize(Device device) {
  Stream& s = stream(device);
  s.enter();
  s.synchronize();
}

void begin_op(Stream& stream, const char* name) { stream.begin(name); }
void end_op(Stream& stream) { stream.end(); }
void abandon_op(Stream& stream) { stream.abandon(); }

void start_profile(Device device) {
  Stream& s = stream(device);
  s.timed_.clear();
  s.profiling_ = true;
}

std::vector<KernelTime> finish_profile(Device device) {
  Stream& s = stream(device);
  s.profiling_ = false;
  s.synchronize();
  std::map<std::string, KernelTime> by_name;
  for (const Stream::Timed& t : s.timed_) {
    float milliseconds = 0;
    check(TEPHRA_GPU_API(EventElapsedTime)(&milliseconds, t.begin, t.end), "timing a kernel");
    (void)TEPHRA_GPU_API(EventDestroy)(t.begin);
    (void)TEPHRA_GPU_API(EventDestroy)(t.end);
    KernelTime& sum = by_name[op_name(t.name)];
    sum.name = op_name(t.name);
    ++sum.calls;
    sum.milliseconds += double(milliseconds);
  }
  s.timed_.clear();
  std::vector<KernelTime> list;
  for (auto& [name, time] : by_name) list.push_back(time);
  std::sort(list.begin(), list.end(), [](const KernelTime& a, const KernelTime& b) {
    return a.milliseconds > b.milliseconds;
  });
  return list;
}

}  // namespace tephra::gpu

// SPDX-License-Identifier: Apache-2.0
// The runtime behind hip/hip_runtime.h. There is a device when EMULATED_GPU=1 is set; its memory is
// that of the process, EMULATED_GPU_MEMORY bytes of it (4 GiB unless set). Calls are carried out at
// once, one launch at a time, its blocks one after another. A kernel that traps fails every call
// after it, as on a GPU.
#include <hip/hip_runtime.h>

#include <algorithm>
#include <boost/context/detail/fcontext.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace emulated_gpu {

struct Graph {
  std::vector<std::function<void()>> calls;
};
struct Stream {
  std::unique_ptr<Graph> recorded;  // while it is being recorded
};
struct Event {
  std::chrono::steady_clock::time_point at;
};
struct Pool {};

namespace {

namespace context = boost::context::detail;

constexpr size_t kStackBytes = 256 << 10;
constexpr size_t kMostThreads = 1024, kMostShared = 64 << 10;  // of gfx942
constexpr int kUnwritten = 0xff;                               // NaN in every float

thread_local hipError_t last_error = hipSuccess;
hipError_t lasting_error = hipSuccess;  // of a kernel that failed

hipError_t told(hipError_t error) {
  if (error != hipSuccess) last_error = error;
  return error;
}

// --- lanes ------------------------------------------------------------------------------------

enum class State { ready, at_block, at_32, at_64, ended };

struct Block;

struct Lane {
  Block* block = nullptr;
  State state = State::ended;
  int index = 0;  // in the block
  dim3 thread;
  Place place{};
  bool says = false;
  const void* data = nullptr;  // what it hands over
  size_t bytes = 0;
  unsigned char handed[kMostBytes];  // what it handed over when lanes met last

  std::unique_ptr<unsigned char[]> stack;
  context::fcontext_t fiber = nullptr;
  void* fake_stack = nullptr;  // of AddressSanitizer

  void begin();
  void resume();
  void wait(State for_what, Place where);
};

// The block that runs, and its lanes, which are kept for the next one.
struct Block {
  const std::function<void()>* lane_work = nullptr;
  std::vector<std::unique_ptr<Lane>> lanes;
  int live = 0;  // lanes of this block, the first ones of `lanes`
  std::vector<int> wave_order;
  bool backwards = false;  // within a wave
  Lane* running = nullptr;
  context::fcontext_t scheduler = nullptr;
  bool failed = false;
  std::unique_ptr<unsigned char[]> shared;
  uint64_t launches = 0;

  bool run();
  bool run_wave(int wave);
  bool meet(int first, int count, State state);
  [[noreturn]] void explain_and_abort() const;
};

Block& the_block() {
  static auto* const block = new Block;
  return *block;
}

#if defined(__SANITIZE_ADDRESS__)
const void* scheduler_stack = nullptr;
size_t scheduler_bytes = 0;
#endif

void arrived_on(void* fake_stack, bool from_scheduler) {
#if defined(__SANITIZE_ADDRESS__)
  const void* bottom = nullptr;
  size_t size = 0;
  __sanitizer_finish_switch_fiber(fake_stack, &bottom, &size);
  if (from_scheduler) scheduler_stack = bottom, scheduler_bytes = size;
#else
  (void)fake_stack, (void)from_scheduler;
#endif
}

void back_to_scheduler(Lane& lane) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&lane.fake_stack, scheduler_stack, scheduler_bytes);
#endif
  lane.block->scheduler = context::jump_fcontext(lane.block->scheduler, nullptr).fctx;
  arrived_on(lane.fake_stack, true);
}

void run_lane(context::transfer_t from) {
  Lane& lane = *static_cast<Lane*>(from.data);
  lane.block->scheduler = from.fctx;
  arrived_on(nullptr, true);
  while (true) {
    (*lane.block->lane_work)();
    lane.state = State::ended;
    back_to_scheduler(lane);
  }
}

void Lane::begin() {
  if (!stack) stack.reset(new unsigned char[kStackBytes]);
  if (!fiber) fiber = context::make_fcontext(stack.get() + kStackBytes, kStackBytes, run_lane);
  state = State::ready;
  std::memset(handed, kUnwritten, sizeof handed);
}

void Lane::resume() {
  block->running = this;
  threadIdx = thread;
#if defined(__SANITIZE_ADDRESS__)
  void* own_fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&own_fake_stack, stack.get(), kStackBytes);
#endif
  fiber = context::jump_fcontext(fiber, this).fctx;
#if defined(__SANITIZE_ADDRESS__)
  arrived_on(own_fake_stack, false);
#endif
}

void Lane::wait(State for_what, Place where) {
  state = for_what;
  place = where;
  back_to_scheduler(*this);
}

bool same(const Place& a, const Place& b) {
  return a.line == b.line && std::strcmp(a.file, b.file) == 0;
}

// All of these lanes that have not ended wait in this state, in one place: they hand over what they
// brought, and go on. False as long as one of them is elsewhere.
bool Block::meet(int first, int count, State state) {
  const Lane* some = nullptr;
  const int end = std::min(first + count, live);
  for (int i = first; i < end; ++i) {
    const Lane& lane = *lanes[static_cast<size_t>(i)];
    if (lane.state == State::ended) continue;
    if (lane.state != state) return false;
    if (!some) some = &lane;
    if (!same(lane.place, some->place)) explain_and_abort();
  }
  if (!some) return false;
  for (int i = first; i < end; ++i) {
    Lane& lane = *lanes[static_cast<size_t>(i)];
    std::memset(lane.handed, kUnwritten, sizeof lane.handed);
    if (lane.state == State::ended) continue;
    std::memcpy(lane.handed, lane.data, lane.bytes);
    lane.state = State::ready;
  }
  return true;
}

// Until its lanes have ended or wait for the block, or for what never comes.
bool Block::run_wave(int wave) {
  bool ran = false;
  for (bool again = true; again && !failed;) {
    again = false;
    for (int i = 0; i < warpSize && !failed; ++i) {
      const int index = wave * warpSize + (backwards ? warpSize - 1 - i : i);
      if (index >= live || lanes[static_cast<size_t>(index)]->state != State::ready) continue;
      lanes[static_cast<size_t>(index)]->resume();
      ran = true;
    }
    const int first = wave * warpSize;
    for (const int half : {first, first + 32}) again = meet(half, 32, State::at_32) || again;
    again = meet(first, 64, State::at_64) || again;
  }
  return ran;
}

bool Block::run() {
  for (int i = 0; i < live; ++i) lanes[static_cast<size_t>(i)]->begin();
  while (true) {
    bool ran = false;
    for (const int wave : wave_order) ran = run_wave(wave) || ran;
    if (failed) return false;
    int ended = 0, waiting = 0;
    bool says = false;
    const Lane* first = nullptr;
    for (int i = 0; i < live; ++i) {
      const Lane& lane = *lanes[static_cast<size_t>(i)];
      ended += lane.state == State::ended;
      if (lane.state != State::at_block) continue;
      if (!first) first = &lane;
      // A barrier of AMD's is met by whole waves.
      if (!same(lane.place, first->place)) explain_and_abort();
      ++waiting;
      says = says || lane.says;
    }
    if (ended == live) return true;
    if (ended + waiting != live || !ran) explain_and_abort();
    for (int i = 0; i < live; ++i) {
      Lane& lane = *lanes[static_cast<size_t>(i)];
      if (lane.state != State::at_block) continue;
      lane.says = says;
      lane.state = State::ready;
    }
  }
}

void Block::explain_and_abort() const {
  std::map<std::string, std::vector<int>> waiting;
  constexpr const char* kNames[] = {"can run", "wait for the block", "wait for 32 neighbours",
                                    "wait for 64 neighbours", "have ended"};
  for (int i = 0; i < live; ++i) {
    const Lane& lane = *lanes[static_cast<size_t>(i)];
    std::string text = kNames[static_cast<int>(lane.state)];
    if (lane.state != State::ended)
      text += std::string(" at ") + lane.place.file + ":" + std::to_string(lane.place.line);
    waiting[text].push_back(i);
  }
  std::fprintf(stderr, "emulated GPU: lanes of block %u,%u,%u wait for each other:\n", blockIdx.x,
               blockIdx.y, blockIdx.z);
  for (const auto& [text, which] : waiting) {
    std::fprintf(stderr, "  %zu lanes, %d to %d, %s\n", which.size(), which.front(), which.back(),
                 text.c_str());
  }
  std::abort();
}

// --- launches ---------------------------------------------------------------------------------

uint64_t mixed(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

template <class T>
void shuffle(std::vector<T>& list, uint64_t seed) {
  for (size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[mixed(seed + i) % i]);
}

void run_grid(const std::function<void()>& lane_work, dim3 grid, dim3 threads,
              size_t shared_bytes) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  Block& block = the_block();
  const uint64_t seed = mixed(++block.launches * 0x9e3779b97f4a7c15u);
  block.lane_work = &lane_work;
  block.live = static_cast<int>(threads.x * threads.y * threads.z);
  block.backwards = seed % 2 == 1;
  while (static_cast<int>(block.lanes.size()) < block.live) {
    block.lanes.push_back(std::make_unique<Lane>());
    block.lanes.back()->block = &block;
    block.lanes.back()->index = static_cast<int>(block.lanes.size()) - 1;
  }
  for (int i = 0; i < block.live; ++i) {
    const auto at = static_cast<uint32_t>(i);
    block.lanes[at]->thread = {at % threads.x, at / threads.x % threads.y,
                               at / threads.x / threads.y};
  }
  block.wave_order.resize(static_cast<size_t>((block.live + warpSize - 1) / warpSize));
  std::iota(block.wave_order.begin(), block.wave_order.end(), 0);
  shuffle(block.wave_order, seed);
  gridDim = grid;
  blockDim = threads;
  block.shared.reset(new unsigned char[std::max<size_t>(shared_bytes, 1)]);
  const uint64_t blocks = uint64_t{grid.x} * grid.y * grid.z;
  // Blocks come in one of four orders that visit all of them.
  const uint64_t start = (seed >> 8) % blocks;
  const bool downwards = (seed >> 2) % 2 == 1;
  for (uint64_t n = 0; n < blocks; ++n) {
    const uint64_t at = (start + (downwards ? blocks - n : n)) % blocks;
    blockIdx = {static_cast<uint32_t>(at % grid.x), static_cast<uint32_t>(at / grid.x % grid.y),
                static_cast<uint32_t>(at / grid.x / grid.y)};
    std::memset(block.shared.get(), kUnwritten, shared_bytes);
    if (block.run()) continue;
    lasting_error = hipErrorLaunchFailure;
    for (auto& lane : block.lanes) lane->fiber = nullptr;  // where they were is forgotten
    block.failed = false;
    return;
  }
}

// Now, or when the graph that is being recorded is launched.
hipError_t carry_out(hipStream_t stream, std::function<void()> call) {
  if (stream && stream->recorded) {
    stream->recorded->calls.push_back(std::move(call));
    return hipSuccess;
  }
  if (lasting_error != hipSuccess) return told(lasting_error);
  call();
  return hipSuccess;
}

// --- memory -----------------------------------------------------------------------------------

struct Memory {
  std::mutex mutex;
  std::map<void*, size_t> blocks;
  size_t used = 0;
};
Memory& memory() {
  static auto* const all = new Memory;
  return *all;
}

size_t total_memory() {
  static const size_t total = [] {
    const char* given = std::getenv("EMULATED_GPU_MEMORY");
    return given ? std::strtoull(given, nullptr, 10) : size_t{4} << 30;
  }();
  return total;
}

bool is_there() {
  static const bool there = [] {
    const char* asked = std::getenv("EMULATED_GPU");
    return asked && std::string(asked) == "1";
  }();
  return there;
}

}  // namespace

bool wait_for_block(bool says, Place place) {
  Lane& lane = *the_block().running;
  lane.says = says;
  lane.wait(State::at_block, place);
  return lane.says;
}

void meet_neighbours(int lanes, const void* data, size_t bytes, Place place) {
  Lane& lane = *the_block().running;
  lane.data = data;
  lane.bytes = bytes;
  lane.wait(lanes == 32 ? State::at_32 : State::at_64, place);
}

int lane_in_wave() { return the_block().running->index % warpSize; }

const void* handed_over(int lane) {
  static const auto* const nothing = [] {
    static unsigned char bytes[kMostBytes];
    std::memset(bytes, kUnwritten, sizeof bytes);
    return bytes;
  }();
  const Block& block = the_block();
  const int at = block.running->index / warpSize * warpSize + lane;
  return at < block.live ? block.lanes[static_cast<size_t>(at)]->handed : nothing;
}

void* dynamic_shared() { return the_block().shared.get(); }

void trap() {
  Block& block = the_block();
  block.failed = true;
  while (true) back_to_scheduler(*block.running);
}

void launch(const std::function<void()>& lane, dim3 grid, dim3 block, size_t shared_bytes,
            void* stream) {
  const size_t threads = size_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > kMostThreads || shared_bytes > kMostShared || grid.y > 65535 ||
      grid.z > 65535) {
    told(hipErrorInvalidValue);
    return;
  }
  (void)carry_out(static_cast<Stream*>(stream), [=] { run_grid(lane, grid, block, shared_bytes); });
}

}  // namespace emulated_gpu

using namespace emulated_gpu;  // NOLINT(google-build-using-namespace): the rest is HIP's

// --- devices ----------------------------------------------------------------------------------

hipError_t hipGetDeviceCount(int* count) {
  *count = is_there() ? 1 : 0;
  return is_there() ? hipSuccess : told(hipErrorNoDevice);
}
hipError_t hipGetDeviceProperties(hipDeviceProp_t* properties, int device) {
  if (!is_there() || device != 0) return told(hipErrorInvalidDevice);
  *properties = {"emulated on this CPU", "gfx942", total_memory(), 8};
  return hipSuccess;
}
hipError_t hipDeviceGetAttribute(int* value, hipDeviceAttribute_t attribute, int) {
  *value = attribute == hipDeviceAttributeMaxSharedMemoryPerBlock ? int{kMostShared} : 0;
  return hipSuccess;
}
hipError_t hipSetDevice(int device) {
  return is_there() && device == 0 ? hipSuccess : told(hipErrorInvalidDevice);
}
hipError_t hipRuntimeGetVersion(int* version) {
  *version = 60000000;
  return hipSuccess;
}
hipError_t hipDriverGetVersion(int* version) { return hipRuntimeGetVersion(version); }
hipError_t hipGetLastError() { return std::exchange(last_error, hipSuccess); }
const char* hipGetErrorString(hipError_t error) {
  switch (error) {
    case hipSuccess:
      return "no error";
    case hipErrorInvalidValue:
      return "invalid argument";
    case hipErrorMemoryAllocation:
      return "out of memory";
    case hipErrorInsufficientDriver:
      return "the driver is too old";
    case hipErrorInvalidDeviceFunction:
      return "invalid device function";
    case hipErrorNoDevice:
      return "there is no device: EMULATED_GPU=1 makes one";
    case hipErrorInvalidDevice:
      return "invalid device ordinal";
    case hipErrorNoBinaryForGpu:
      return "no code for this device";
    case hipErrorECCNotCorrectable:
      return "uncorrectable ECC error";
    case hipErrorNotReady:
      return "not ready";
    case hipErrorIllegalAddress:
      return "illegal memory access";
    case hipErrorLaunchFailure:
      return "a kernel trapped";
  }
  return "unknown error";
}
hipError_t hipFuncGetAttributes(hipFuncAttributes*, const void*) { return hipSuccess; }
hipError_t hipFuncSetAttribute(const void*, hipFuncAttribute, int value) {
  return value <= int{kMostShared} ? hipSuccess : told(hipErrorInvalidValue);
}

// --- memory -----------------------------------------------------------------------------------

hipError_t hipMalloc(void** data, size_t bytes) {
  if (lasting_error != hipSuccess) return told(lasting_error);
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  if (bytes > total_memory() - all.used ||
      posix_memalign(data, 256, std::max<size_t>(bytes, 1)) != 0) {
    return told(hipErrorMemoryAllocation);
  }
  std::memset(*data, kUnwritten, bytes);
  all.blocks[*data] = bytes;
  all.used += bytes;
  return hipSuccess;
}
hipError_t hipFree(void* data) {
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  const auto found = all.blocks.find(data);
  if (found == all.blocks.end()) return told(hipErrorInvalidValue);
  all.used -= found->second;
  all.blocks.erase(found);
  std::free(data);
  return hipSuccess;
}
hipError_t hipMallocAsync(void** data, size_t bytes, hipStream_t stream) {
  if (stream->recorded) return told(hipErrorInvalidValue);  // nothing is allocated in a graph
  return hipMalloc(data, bytes);
}
hipError_t hipFreeAsync(void* data, hipStream_t) { return hipFree(data); }
hipError_t hipHostMalloc(void** data, size_t bytes, unsigned) {
  return posix_memalign(data, 4096, std::max<size_t>(bytes, 1)) == 0
             ? hipSuccess
             : told(hipErrorMemoryAllocation);
}
hipError_t hipHostFree(void* data) {
  std::free(data);
  return hipSuccess;
}
hipError_t hipMemGetInfo(size_t* free_bytes, size_t* total) {
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  *total = total_memory();
  *free_bytes = *total - all.used;
  return hipSuccess;
}
hipError_t hipDeviceGetDefaultMemPool(hipMemPool_t* pool, int) {
  static Pool only;
  *pool = &only;
  return hipSuccess;
}
hipError_t hipMemPoolSetAttribute(hipMemPool_t, hipMemPoolAttr, void*) { return hipSuccess; }
hipError_t hipMemPoolTrimTo(hipMemPool_t, size_t) { return hipSuccess; }

hipError_t hipMemcpyAsync(void* to, const void* from, size_t bytes, hipMemcpyKind,
                          hipStream_t stream) {
  return carry_out(stream, [=] { std::memcpy(to, from, bytes); });
}
hipError_t hipMemcpy2DAsync(void* to, size_t to_stride, const void* from, size_t from_stride,
                            size_t bytes, size_t rows, hipMemcpyKind, hipStream_t stream) {
  return carry_out(stream, [=] {
    for (size_t r = 0; r < rows; ++r) {
      std::memcpy(static_cast<char*>(to) + r * to_stride,
                  static_cast<const char*>(from) + r * from_stride, bytes);
    }
  });
}
hipError_t hipMemsetAsync(void* to, int value, size_t bytes, hipStream_t stream) {
  return carry_out(stream, [=] { std::memset(to, value, bytes); });
}

// --- streams, graphs, events ------------------------------------------------------------------

hipError_t hipStreamCreateWithFlags(hipStream_t* stream, unsigned) {
  *stream = new Stream;  // for good
  return hipSuccess;
}
hipError_t hipStreamSynchronize(hipStream_t) { return told(lasting_error); }
hipError_t hipDeviceSynchronize() { return told(lasting_error); }
hipError_t hipStreamQuery(hipStream_t) { return told(lasting_error); }
hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode) {
  if (stream->recorded) return told(hipErrorInvalidValue);
  stream->recorded = std::make_unique<Graph>();
  return hipSuccess;
}
hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t* graph) {
  if (!stream->recorded) return told(hipErrorInvalidValue);
  *graph = stream->recorded.release();
  return hipSuccess;
}
hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t* exec, hipGraph_t graph, uint64_t) {
  *exec = new Graph(*graph);
  return hipSuccess;
}
hipError_t hipGraphLaunch(hipGraphExec_t exec, hipStream_t) {
  for (const auto& call : exec->calls) {
    if (lasting_error != hipSuccess) return told(lasting_error);
    call();
  }
  return hipSuccess;
}
hipError_t hipLaunchHostFunc(hipStream_t stream, void (*function)(void*), void* data) {
  return carry_out(stream, [=] { function(data); });
}
hipError_t hipGraphDestroy(hipGraph_t graph) {
  delete graph;
  return hipSuccess;
}
hipError_t hipGraphExecDestroy(hipGraphExec_t exec) { return hipGraphDestroy(exec); }
hipError_t hipEventCreate(hipEvent_t* event) {
  *event = new Event;
  return hipSuccess;
}
hipError_t hipEventDestroy(hipEvent_t event) {
  delete event;
  return hipSuccess;
}
hipError_t hipEventRecord(hipEvent_t event, hipStream_t) {
  event->at = std::chrono::steady_clock::now();
  return told(lasting_error);
}
hipError_t hipEventElapsedTime(float* milliseconds, hipEvent_t begin, hipEvent_t end) {
  *milliseconds = std::chrono::duration<float, std::milli>(end->at - begin->at).count();
  return hipSuccess;
}

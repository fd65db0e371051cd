// SPDX-License-Identifier: Apache-2.0
// A decode step as a graph: for each number of rows that is a power of two the phases are recorded
// once, and once more for long sequences, and then run as one. Everything that changes from step to
// step is read from device memory.
#include <atomic>
#include <bit>
#include <map>
#include <thread>

#include "tephra/models/zaya1/decode_gpu.h"
#include "tephra/models/zaya1/decode_pass_gpu.h"

namespace tephra::zaya1 {
namespace {

constexpr uint64_t kNotTold = ~uint64_t{0};  // in the place of a token and its logit

// Whether all that was launched has ended; throws if it failed.
bool has_ended(const gpu::Stream& stream) {
  const auto state = TEPHRA_GPU_API(StreamQuery)(stream.raw());
  if (state == TEPHRA_GPU_API(ErrorNotReady)) return false;
  gpu::check(state, "waiting for the device");
  return true;
}

class GraphDecodeStep : public DecodeStep {
 public:
  explicit GraphDecodeStep(DecodePlan plan)
      : plan_(std::move(plan)), inputs_(room({3, kDecodeRows}, DType::i32)) {
    const DecodeSizes& s = plan_.sizes;
    const auto layers = static_cast<int64_t>(plan_.layers.size());
    const auto thetas = static_cast<int64_t>(plan_.thetas.size());
    logits_ = room({kDecodeRows, s.vocabulary}, DType::f32);
    likeliest_ = room({kDecodeRows, 2}, DType::i32);
    chosen_ = room({layers, kDecodeRows}, DType::i32);
    replayed_ = room({layers, kDecodeRows}, DType::i32);
    fill(replayed_, -1);
    const int64_t part = int64_t{s.group()} * (kDecodeHeadDim + 2);
    int32_t* inputs = inputs_.data<int32_t>();
    work_ = {.tokens = inputs,
             .positions = inputs + kDecodeRows,
             .slots = inputs + 2 * kDecodeRows,
             .tables = plan_.memory.tables.data<int32_t>(),
             .frequencies = take<float>(thetas * s.rotary_dim),
             .rotary = take<float>(thetas * s.rotary_dim),
             .stream = take<float>(s.hidden),
             .normed = take<bf16>(s.hidden),
             .latents = take<bf16>(s.channels() + s.values()),
             .convolved = take<bf16>(s.channels()),
             .attended = take<bf16>(s.queries()),
             .router = take<bf16>(kDecodeRouter),
             .activated = take<bf16>(s.expert_hidden),
             .chosen_weight = take<float>(1),
             .chosen = chosen_.data<int32_t>(),
             .replayed = replayed_.data<int32_t>(),
             .parts = take<float>(s.kv_heads * kDecodeParts * part),
             .arrived = take<int32_t>(s.kv_heads),
             .logits = logits_.data<float>(),
             .best_logit = take<float>(kDecodeBestPieces),
             .best_token = take<int32_t>(kDecodeBestPieces),
             .likeliest = static_cast<Likeliest*>(likeliest_.raw()),
             .told = static_cast<uint64_t*>(told_.data()),
             .ordered = take<bf16>(s.hidden)};
    gpu::Stream& stream = gpu::stream(plan_.device);
    stream.enter();
    decode_prepare(stream, plan_, work_);
    if constexpr (gpu::kHasFastPaths) {
      constexpr int64_t kEach = sizeof(DecodeLayer) / sizeof(int32_t);
      letters_ = room({gpu::blocks_for(decode_pass_bytes(), 4)}, DType::i32);
      layers_ = room({layers, kEach}, DType::i32);
      gpu::copy(plan_.device, gpu::Direction::to_device, layers_.raw(), plan_.layers.data(),
                layers_.bytes());
    }
  }

  int64_t most_rows() const override { return kDecodeRows; }

  void run(std::span<const Row> rows) override {
    require(!rows.empty() && std::ssize(rows) <= kDecodeRows,
            "decode step: expected 1 to {} rows, got {}", kDecodeRows, rows.size());
    // The step before reads what it was given, and tells.
    if (rows_ > 0 && !(tells_ && has_told())) gpu::synchronize(plan_.device);
    rows_ = static_cast<int>(rows.size());
    farthest_ = 0;
    for (const Row& row : rows) farthest_ = std::max<int64_t>(farthest_, row.position);
    const int count = graph_rows();
    // Rows that make the number up are the filler's, at its first place.
    auto* given = static_cast<int32_t*>(given_.data());
    for (int i = 0; i < count; ++i) {
      const Row row = i < rows_ ? rows[static_cast<size_t>(i)]
                                : Row{0, 0, static_cast<int32_t>(plan_.memory.filler_slot)};
      given[i] = row.token;
      given[kDecodeRows + i] = row.position;
      given[2 * kDecodeRows + i] = row.slot;
      work_.told[i] = kNotTold;
    }
    gpu::copy(plan_.device, gpu::Direction::to_device, inputs_.raw(), given, inputs_.bytes());
    tells_ = true;
    launch();
  }

  void run_on(bool recorded) override {
    TEPHRA_ASSERT(rows_ > 0, "a step goes on from another");
    gpu::Stream& stream = gpu::stream(plan_.device);
    stream.enter();
    decode_go_on(stream, plan_, work_, rows_);
    ++farthest_;
    tells_ = false;
    if (recorded) return launch();
    phases(stream, graph_rows());
  }

  void replay(const Tensor& experts) override {
    fill(replayed_, -1);
    if (!experts) return;
    require(experts.dtype() == DType::i32 && experts.rows() == replayed_.rows() &&
                experts.cols() <= kDecodeRows,
            "decode step: expected experts i32 [{}, rows] to replay, got {} {}", replayed_.rows(),
            experts.dtype(), experts.shape());
    copy_into(replayed_.column_view(0, experts.cols()), experts);
  }

  Tensor logits() const override { return logits_.slice_rows(0, rows_); }
  Tensor experts() const override { return chosen_.column_view(0, rows_); }
  std::vector<Likeliest> likeliest() const override {
    if (tells_) {
      wait_until_told();
    } else {
      gpu::synchronize(plan_.device);
    }
    std::vector<Likeliest> result;
    for (int i = 0; i < rows_; ++i) result.push_back(std::bit_cast<Likeliest>(told(i)));
    return result;
  }

  std::vector<std::optional<std::vector<Likeliest>>> at_least(
      std::span<const float> least) override {
    require(std::ssize(least) == rows_, "decode step: expected {} least logits, got {}", rows_,
            least.size());
    gpu::Stream& stream = gpu::stream(plan_.device);
    stream.enter();
    const Tensor bounds({rows_}, DType::f32, plan_.device, Purpose::workspace);
    const Tensor counts = zeros({rows_}, DType::i32, plan_.device, Purpose::workspace);
    const Tensor found({rows_, 2 * kMostCandidates}, DType::i32, plan_.device, Purpose::workspace);
    gpu::copy(plan_.device, gpu::Direction::to_device, bounds.raw(), least.data(), bounds.bytes());
    decode_find(
        stream, plan_, work_, rows_,
        {bounds.data<float>(), counts.data<int32_t>(), static_cast<Likeliest*>(found.raw())});
    const Tensor host = to_device(counts, kCpu);
    const auto fits = [](int64_t count) { return count <= kMostCandidates; };
    int64_t widest = 0;
    for (int64_t r = 0; r < rows_; ++r) {
      const int64_t count = host.data<int32_t>()[r];
      if (fits(count)) widest = std::max(widest, count);
    }
    std::vector<Likeliest> all(static_cast<size_t>(rows_ * widest));  // in one copy
    constexpr int64_t kEach = sizeof(Likeliest);
    gpu::copy_rows(
        plan_.device, gpu::Direction::to_host,
        {all.data(), widest * kEach, found.raw(), kMostCandidates * kEach, widest * kEach, rows_});
    std::vector<std::optional<std::vector<Likeliest>>> result;
    for (int64_t r = 0; r < rows_; ++r) {
      const int64_t count = host.data<int32_t>()[r];
      result.emplace_back();
      const auto first = all.begin() + r * widest;
      if (fits(count)) result.back().emplace(first, first + count);
    }
    return result;
  }

 private:
  Tensor room(const Shape& shape, DType dtype) const {
    return zeros(shape, dtype, plan_.device, Purpose::workspace);
  }
  // Room for `width` elements of each row; zeros.
  template <class T>
  T* take(int64_t width) {
    rooms_.push_back(room({kDecodeRows, width}, dtype_of<T>()));
    return rooms_.back().template data<T>();
  }

  // Whether the tokens of a step are in the host's memory: those of the filler's rows, too, which
  // must not come after the next one has begun.
  bool has_told() const {
    for (int i = 0; i < graph_rows(); ++i) {
      if (told(i) == kNotTold) return false;
    }
    return true;
  }
  uint64_t told(int row) const {
    return std::atomic_ref(work_.told[row]).load(std::memory_order_acquire);
  }

  // They are there before the driver has seen the graph's end. A step that failed tells nothing, so
  // now and then the driver is asked.
  void wait_until_told() const {
    constexpr int kLooks = 256;
    const gpu::Stream& stream = gpu::stream(plan_.device);
    stream.enter();
    for (int64_t looks = 1; !has_told(); ++looks) {
      if (looks % kLooks == 0 && has_ended(stream)) break;
      std::this_thread::yield();
    }
    if (!has_told()) {
      throw Error(Fault::device, "decode step: its kernels ended without a token, or never began");
    }
  }

  int graph_rows() const { return static_cast<int>(std::bit_ceil(static_cast<unsigned>(rows_))); }

  // Whether no row sees more than kDecodeNearKeys.
  bool near() const { return farthest_ < kDecodeNearKeys; }

  void launch() {
    gpu::Stream& stream = gpu::stream(plan_.device);
    stream.enter();
    if (stream.synchronous()) return phases(stream, graph_rows());  // a recording cannot wait
    gpu::Graph& graph = graphs_[{graph_rows(), near()}];
    if (!graph.recorded()) {
      graph.begin(stream);
      phases(stream, graph_rows());
      graph.end(stream);
    }
    graph.launch(stream);
  }

  // Ends the recording, too, when one of them throws.
  void phases(gpu::Stream& stream, int rows) const {
    try {
      run_phases(stream, rows);
    } catch (...) {
      stream.abandon();
      throw;
    }
  }

  void run_phases(gpu::Stream& stream, int rows) const {
    // A phase by its name, for the profile and for errors.
    const auto run = [&](const char* name, const auto& phase, const auto&... more) {
      stream.begin(name);
      phase(stream, plan_, work_, rows, more...);
      stream.end();
    };
    run("decode_enter", decode_enter);
    if (passes(stream, rows)) {
      if constexpr (gpu::kHasFastPaths) {
        run("decode_pass", decode_pass,
            DecodePassMemory{static_cast<const DecodeLayer*>(layers_.raw()), letters_.raw()});
      }
    } else {
      layer_phases(run, rows);
    }
    run("decode_norm", decode_norm, plan_.final_norm);
    run("decode_head", decode_head);
  }

  bool passes(const gpu::Stream& stream, int rows) const {
    if constexpr (gpu::kHasFastPaths) return decode_passes(stream, plan_, rows);
    return false;
  }

  template <class Run>
  void layer_phases(const Run& run, int rows) const {
    const bool many = rows > kDecodeNormedRows, mixes = decode_mixes(plan_, rows);
    for (size_t i = 0; i < plan_.layers.size(); ++i) {
      const DecodeLayer& layer = plan_.layers[i];
      const int64_t row = static_cast<int64_t>(i) * kDecodeRows;
      const int32_t* replayed = work_.replayed + row;
      int32_t* chosen = work_.chosen + row;
      if (many) run("decode_norm", decode_norm, layer.input_norm);
      run("decode_project", decode_project, layer);
      if (mixes && (near() || (layer.window > 0 && layer.window <= kDecodeNearKeys))) {
        run("decode_mix", decode_mix, layer);
      } else {
        run("decode_convolve", decode_convolve, layer);
        run("decode_attend", decode_attend, layer);
      }
      run("decode_return", decode_return, layer);
      if (many) run("decode_norm", decode_norm, layer.mlp_norm);
      run("decode_narrow", decode_narrow, layer);
      run("decode_choose", decode_choose, layer, replayed, chosen);
      run("decode_expert_up", decode_expert_up, layer, chosen);
      run("decode_expert_down", decode_expert_down, layer, chosen);
    }
  }

  DecodePlan plan_;
  Tensor inputs_, logits_, likeliest_, chosen_, replayed_;
  gpu::HostRoom given_{3 * kDecodeRows * sizeof(int32_t)};
  gpu::HostRoom told_{kDecodeRows * sizeof(uint64_t)};
  Tensor layers_, letters_;  // of a pass
  Tensors rooms_;
  DecodeWork work_{};
  std::map<std::pair<int, bool>, gpu::Graph> graphs_;  // by number of rows, and near()
  int rows_ = 0;
  int64_t farthest_ = 0;  // position of them
  bool tells_ = false;    // the last step, and none before it, will have told its tokens
};

}  // namespace

std::unique_ptr<DecodeStep> make_decode_step(DecodePlan plan) {
  return std::make_unique<GraphDecodeStep>(std::move(plan));
}

}  // namespace tephra::zaya1

// lstm, its gradient, and the gradient of its recurrent weights.
//
// Positions are computed one after the other, each by one parallel loop: a task computes some
// units of some rows, first their matmul with all states of the previous position (in the
// gradient, with all dgates of the next one), then their cells. So threads synchronize once
// per position, and a thread mostly has the same units, whose weights stay in its cache.
// Weights are packed once per pass. The operand of the next matmul is also in the scratch,
// row by row: in the sequences themselves rows are far apart, often by a power of two, and
// would evict each other from the caches.

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "cpu/kernel.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/gemm.h"
#include "cpu/kernels/vec.h"
#include "math/activations.h"

namespace stowage::cpu {
namespace {

constexpr int64_t kGates = 4;

// Units of a task: with two registers of columns a strip of weights of 256 units is
// 32 KiB, which stay in the first cache for all rows.
template <typename T>
constexpr int64_t kTaskUnits = 2 * Vec<T>::kLanes;

// Sizes, and how the work is cut.
struct Cells {
  // `gates` (B, T, 4H).
  Cells(const Shape& gates, const Attrs& attrs)
      : batch(gates[0]),
        time(gates[1]),
        hidden(gates[2] / kGates),
        reverse(attrs.Int("reverse") == 1) {}

  // The place of the position that is `step`-th.
  int64_t At(int64_t step) const { return reverse ? time - 1 - step : step; }

  int64_t Blocks(int64_t units) const { return CeilDiv(hidden, units); }
  // Per task.
  int64_t Rows(int64_t units) const {
    constexpr int64_t kMax = 32, kMin = 16, kTasks = 16;
    int64_t rows = kMax;
    while (rows > kMin && CeilDiv(batch, rows) * Blocks(units) < kTasks) {
      rows /= 2;
    }
    return rows;
  }

  int64_t batch, time, hidden;
  bool reverse;
};

// Packed weights: for each block of units and each gate, a strip of `hidden` rows and
// kTaskUnits columns.
template <typename T>
struct PackedWeights {
  static constexpr int64_t kUnits = kTaskUnits<T>;

  static int64_t Elements(const Cells& cells) {
    return cells.Blocks(kUnits) * kGates * cells.hidden * kUnits;
  }
  T* Strip(int64_t block, int64_t gate) const {
    return data + (block * kGates + gate) * hidden * kUnits;
  }
  // Packs from `b`, the gate's matrix with all units as columns.
  template <typename F>
  void PackAll(ThreadPool& pool, const Cells& cells, const F& b) const {
    pool.ParallelFor(cells.Blocks(kUnits) * kGates, [&](int64_t strip, int) {
      const int64_t block = strip / kGates, gate = strip % kGates;
      const int64_t unit = block * kUnits;
      Pack<T>(hidden, std::min(kUnits, hidden - unit), b(gate).At(0, unit),
              Strip(block, gate), kUnits);
    });
  }

  T* data;
  int64_t hidden;
};

// A task: units [unit, unit + count) of rows [row, row + rows).
struct Part {
  int64_t block, unit, count;
  int64_t row, rows;
};

template <typename T, typename F>
void ForParts(ThreadPool& pool, const Cells& cells, const F& f) {
  constexpr int64_t kUnits = kTaskUnits<T>;
  const int64_t rows = cells.Rows(kUnits);
  const int64_t chunks = CeilDiv(cells.batch, rows);
  pool.ParallelFor(cells.Blocks(kUnits) * chunks,
                   [&](int64_t task, int thread) {
                     const int64_t block = task / chunks;
                     const int64_t unit = block * kUnits;
                     const int64_t row = task % chunks * rows;
                     f(Part{block, unit, std::min(kUnits, cells.hidden - unit),
                            row, std::min(rows, cells.batch - row)},
                       thread);
                   });
}

// c = a b, or c += with `accumulate`, of the rows of a part, one strip and its depth.
template <typename T>
void MultiplyPart(const Part& part, int64_t depth, Strided<T> a, const T* strip,
                  Rows<T> c, bool accumulate) {
  constexpr int64_t kUnits = kTaskUnits<T>;
  for (int64_t p = 0; p < depth; p += kBlockDepth<T>) {
    MultiplyStrip<T>(part.rows, part.count, std::min(kBlockDepth<T>, depth - p),
                     a.At(0, p), {strip + p * kUnits, kUnits, /*padded=*/true},
                     c, p > 0 ? Into::kSum : Chains(accumulate));
  }
}

// --- Forward ---

template <typename T>
struct ForwardScratch {
  explicit ForwardScratch(const Cells& cells)
      : weights(PackedWeights<T>::Elements(cells)),
        states(cells.batch * cells.hidden),
        tile(kGates * cells.Rows(kTaskUnits<T>) * kTaskUnits<T>) {}
  // For the states of this position and of the one before, and a tile a thread.
  Bytes bytes(int threads) const {
    return (weights + 2 * states + threads * tile) *
           static_cast<Bytes>(sizeof(T));
  }
  int64_t weights, states, tile;
};

// The cells of one row, for ForEachVec. `sums` are the shares of the states.
template <typename T>
struct RowOfCells {
  int64_t hidden;
  const T* given;
  const T* sums;
  int64_t sums_step;  // from one gate to the next
  const T* c_before;
  T* gates;
  T* h;
  T* c;
  T* state;  // h, for the next position

  template <typename Place>
  void operator()(Place at) const {
    const auto sum = [&](int64_t gate) {
      return at.Load(given + gate * hidden) + at.Load(sums + gate * sums_step);
    };
    const Vec<T> i = math::Sigmoid(sum(0));
    const Vec<T> f = math::Sigmoid(sum(1));
    const Vec<T> g = Tanh(sum(2));
    const Vec<T> o = math::Sigmoid(sum(3));
    const Vec<T> cell = MulAdd(f, at.Load(c_before), i * g);
    const Vec<T> out = o * Tanh(cell);
    at.Store(gates, i);
    at.Store(gates + hidden, f);
    at.Store(gates + 2 * hidden, g);
    at.Store(gates + 3 * hidden, o);
    at.Store(c, cell);
    at.Store(h, out);
    at.Store(state, out);
  }
};

template <typename T>
void RunTyped(const Launch& launch, ThreadPool& pool) {
  constexpr int64_t kUnits = kTaskUnits<T>;
  const TensorView& given = launch.inputs[0];
  const T* const h0 = launch.inputs[1].as<const T>();
  const T* const c0 = launch.inputs[2].as<const T>();
  const T* const w = launch.inputs[3].as<const T>();
  T* const gates = launch.outputs[0].as<T>();
  T* const h = launch.outputs[1].as<T>();
  T* const c = launch.outputs[2].as<T>();
  const Cells cells(given.shape(), *launch.attrs);
  const int64_t hidden = cells.hidden, width = kGates * hidden;
  const ForwardScratch<T> scratch(cells);
  const PackedWeights<T> weights = {
      reinterpret_cast<T*>(launch.workspace.data()), hidden};
  T* const states = weights.data + scratch.weights;
  T* const tiles = states + 2 * scratch.states;

  weights.PackAll(pool, cells, [&](int64_t gate) {
    return Strided<T>{w + gate * hidden * hidden, 1, hidden};
  });
  for (int64_t step = 0; step < cells.time; ++step) {
    const int64_t at = cells.At(step);
    const T* const before =
        step == 0 ? h0 : states + (step - 1) % 2 * scratch.states;
    T* const after = states + step % 2 * scratch.states;
    ForParts<T>(pool, cells, [&](const Part& part, int thread) {
      T* const tile = tiles + thread * scratch.tile;
      const int64_t sums_step = scratch.tile / kGates;
      for (int64_t gate = 0; gate < kGates; ++gate) {
        MultiplyPart<T>(part, hidden, {before + part.row * hidden, hidden, 1},
                        weights.Strip(part.block, gate),
                        {tile + gate * sums_step, kUnits},
                        /*accumulate=*/false);
      }
      for (int64_t i = 0; i < part.rows; ++i) {
        const int64_t row = part.row + i;
        const int64_t place = row * cells.time + at;
        const T* const c_before =
            step == 0 ? c0 + row * hidden
                      : c + (row * cells.time + cells.At(step - 1)) * hidden;
        ForEachVec<T>(part.count,
                      RowOfCells<T>{.hidden = hidden,
                                    .given = given.as<const T>() +
                                             row * given.strides[0] +
                                             at * given.strides[1] + part.unit,
                                    .sums = tile + i * kUnits,
                                    .sums_step = sums_step,
                                    .c_before = c_before + part.unit,
                                    .gates = gates + place * width + part.unit,
                                    .h = h + place * hidden + part.unit,
                                    .c = c + place * hidden + part.unit,
                                    .state = after + row * hidden + part.unit});
      }
    });
  }
}

StepCode RunLstm(const Launch& launch, ThreadPool& pool) noexcept {
  OnFloat(launch.outputs[0].dtype(),
          [&](auto zero) { RunTyped<decltype(zero)>(launch, pool); });
  return StepCode::kOk;
}

// --- The gradient ---

template <typename T>
struct GradScratch {
  explicit GradScratch(const Cells& cells)
      : weights(PackedWeights<T>::Elements(cells)),
        dgates(cells.batch * kGates * cells.hidden),
        tile(cells.Rows(kTaskUnits<T>) * kTaskUnits<T>) {}
  // For the dgates of this position and of the next, and a tile per thread.
  Bytes bytes(int threads) const {
    return (weights + 2 * dgates + threads * tile) *
           static_cast<Bytes>(sizeof(T));
  }
  int64_t weights, dgates, tile;
};

// The gradients of one row, for ForEachVec. The values of the next position, `dh_behind` and
// `dc_carried`, are absent for the last; `dc` may be null.
template <typename T>
struct RowOfGrads {
  int64_t hidden;
  bool is_last;
  const T* gates;
  const T* c_before;
  const T* c;
  const T* dh;
  const T* dh_behind;
  const T* dc;
  T* dc_carried;
  T* dgates;
  T* row;  // dgates, for the next product

  template <typename Place>
  void operator()(Place at) const {
    using V = Vec<T>;
    const V i = at.Load(gates);
    const V f = at.Load(gates + hidden);
    const V g = at.Load(gates + 2 * hidden);
    const V o = at.Load(gates + 3 * hidden);
    const V tanh_c = Tanh(at.Load(c));
    V d_h = at.Load(dh);
    if (!is_last) d_h += at.Load(dh_behind);
    V d_c = d_h * o * math::TanhDerivativeFromOutput(tanh_c);
    if (!is_last) d_c += at.Load(dc_carried);
    if (dc != nullptr) d_c += at.Load(dc);
    const auto store = [&](int64_t gate, V value) {
      at.Store(dgates + gate * hidden, value);
      at.Store(row + gate * hidden, value);
    };
    store(0, d_c * g * math::SigmoidDerivativeFromOutput(i));
    store(1, d_c * at.Load(c_before) * math::SigmoidDerivativeFromOutput(f));
    store(2, d_c * i * math::TanhDerivativeFromOutput(g));
    store(3, d_h * tanh_c * math::SigmoidDerivativeFromOutput(o));
    at.Store(dc_carried, d_c * f);
  }
};

template <typename T>
void RunGradTyped(const Launch& launch, ThreadPool& pool) {
  constexpr int64_t kUnits = kTaskUnits<T>;
  const T* const gates = launch.inputs[0].as<const T>();
  const T* const c0 = launch.inputs[1].as<const T>();
  const T* const w = launch.inputs[2].as<const T>();
  const T* const c = launch.inputs[3].as<const T>();
  const TensorView& dh = launch.inputs[4];
  const TensorView* const dc =
      launch.inputs.size() > 5 ? &launch.inputs[5] : nullptr;
  T* const dgates = launch.outputs[0].as<T>();
  T* const dh0 = launch.outputs[1].as<T>();
  T* const dc0 = launch.outputs[2].as<T>();  // carried there from the last on
  const Cells cells(launch.inputs[0].shape(), *launch.attrs);
  const int64_t hidden = cells.hidden, width = kGates * hidden;
  const GradScratch<T> scratch(cells);
  const PackedWeights<T> weights = {
      reinterpret_cast<T*>(launch.workspace.data()), hidden};
  T* const rows = weights.data + scratch.weights;
  T* const tiles = rows + 2 * scratch.dgates;

  weights.PackAll(pool, cells, [&](int64_t gate) {
    return Strided<T>{w + gate * hidden * hidden, hidden, 1};
  });
  // The share of a position's dgates in the gradient of the previous state.
  const auto multiply = [&](const Part& part, const T* from, Rows<T> to) {
    for (int64_t gate = 0; gate < kGates; ++gate) {
      MultiplyPart<T>(part, hidden,
                      {from + part.row * width + gate * hidden, width, 1},
                      weights.Strip(part.block, gate), to,
                      /*accumulate=*/gate > 0);
    }
  };
  for (int64_t step = cells.time - 1; step >= 0; --step) {
    const bool is_last = step == cells.time - 1;
    const int64_t at = cells.At(step);
    const T* const behind = rows + (step + 1) % 2 * scratch.dgates;
    T* const now = rows + step % 2 * scratch.dgates;
    ForParts<T>(pool, cells, [&](const Part& part, int thread) {
      T* const tile = tiles + thread * scratch.tile;
      if (!is_last) multiply(part, behind, {tile, kUnits});
      for (int64_t i = 0; i < part.rows; ++i) {
        const int64_t row = part.row + i;
        const int64_t place = row * cells.time + at;
        const T* const c_before =
            step == 0 ? c0 + row * hidden
                      : c + (row * cells.time + cells.At(step - 1)) * hidden;
        const auto of = [&](const TensorView& x) {
          return x.as<const T>() + row * x.strides[0] + at * x.strides[1] +
                 part.unit;
        };
        ForEachVec<T>(
            part.count,
            RowOfGrads<T>{.hidden = hidden,
                          .is_last = is_last,
                          .gates = gates + place * width + part.unit,
                          .c_before = c_before + part.unit,
                          .c = c + place * hidden + part.unit,
                          .dh = of(dh),
                          .dh_behind = tile + i * kUnits,
                          .dc = dc == nullptr ? nullptr : of(*dc),
                          .dc_carried = dc0 + row * hidden + part.unit,
                          .dgates = dgates + place * width + part.unit,
                          .row = now + row * width + part.unit});
      }
    });
  }
  ForParts<T>(pool, cells, [&](const Part& part, int) {
    multiply(part, rows, {dh0 + part.row * hidden + part.unit, hidden});
  });
}

StepCode RunLstmGrad(const Launch& launch, ThreadPool& pool) noexcept {
  OnFloat(launch.outputs[0].dtype(),
          [&](auto zero) { RunGradTyped<decltype(zero)>(launch, pool); });
  return StepCode::kOk;
}

template <template <typename> typename Scratch>
Bytes Workspace(const OpArgs& args, std::span<const TensorType>, int threads) {
  return OnFloat(args.type(0).dtype, [&](auto zero) {
    return Scratch<decltype(zero)>(Cells(args.shape(0), args.attrs))
        .bytes(threads);
  });
}

// --- The gradient of the weights ---

// The states before rows [first, first + count) of (B T), and of these columns
// [column, column + n), packed.
template <typename T>
void PackStates(const Cells& cells, const T* h0, const T* h, int64_t first,
                int64_t count, int64_t column, int64_t n, T* packed) {
  const int64_t start = cells.At(0);
  const int64_t back = cells.reverse ? 1 : -1;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = first + i;
    const T* const from = row % cells.time == start
                              ? h0 + row / cells.time * cells.hidden
                              : h + (row + back) * cells.hidden;
    Pack<T>(1, n, {from + column, cells.hidden, 1},
            packed + i * kStripColumns<T>, kStripColumns<T>);
  }
}

template <typename T>
void RunWeightGradTyped(const Launch& launch, ThreadPool& pool) {
  const T* const dgates = launch.inputs[0].as<const T>();
  const T* const h0 = launch.inputs[1].as<const T>();
  const T* const h = launch.inputs[2].as<const T>();
  T* const dw = launch.outputs[0].as<T>();
  const Cells cells(launch.inputs[0].shape(), *launch.attrs);
  const int64_t hidden = cells.hidden, width = kGates * hidden;
  const int64_t depth = cells.batch * cells.time;
  const int64_t strips = CeilDiv(hidden, kStripColumns<T>);
  const int64_t task_rows = RowsPerTask(width, strips, pool.threads());
  pool.ParallelFor(
      CeilDiv(width, task_rows) * strips, [&](int64_t task, int thread) {
        T* const packed = reinterpret_cast<T*>(launch.workspace.data()) +
                          thread * StripElements<T>(depth);
        const int64_t column = task % strips * kStripColumns<T>;
        const int64_t row = task / strips * task_rows;
        const int64_t m = std::min(task_rows, width - row);
        const int64_t n = std::min(kStripColumns<T>, hidden - column);
        for (int64_t p = 0; p < depth; p += kBlockDepth<T>) {
          const int64_t count = std::min(kBlockDepth<T>, depth - p);
          PackStates(cells, h0, h, p, count, column, n, packed);
          MultiplyStrip<T>(m, n, count, {dgates + p * width + row, 1, width},
                           {packed, kStripColumns<T>, /*padded=*/true},
                           {dw + row * hidden + column, hidden},
                           p > 0 ? Into::kSum : Into::kNew);
        }
      });
}

StepCode RunLstmWeightGrad(const Launch& launch, ThreadPool& pool) noexcept {
  OnFloat(launch.outputs[0].dtype(),
          [&](auto zero) { RunWeightGradTyped<decltype(zero)>(launch, pool); });
  return StepCode::kOk;
}

Bytes WeightGradWorkspace(const OpArgs& args, std::span<const TensorType>,
                          int threads) {
  return OnFloat(args.type(0).dtype, [&](auto zero) -> Bytes {
    using T = decltype(zero);
    const Shape& dgates = args.shape(0);
    return threads * StripElements<T>(dgates[0] * dgates[1]) *
           static_cast<Bytes>(sizeof(T));
  });
}

}  // namespace

namespace kernels {

constinit const CpuKernel Lstm = {.run = RunLstm,
                                  .workspace = Workspace<ForwardScratch>};
constinit const CpuKernel LstmGrad = {.run = RunLstmGrad,
                                      .workspace = Workspace<GradScratch>};
constinit const CpuKernel LstmWeightGrad = {.run = RunLstmWeightGrad,
                                            .workspace = WeightGradWorkspace};

}  // namespace kernels
}  // namespace stowage::cpu

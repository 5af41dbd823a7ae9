// lstm, its gradient, and the gradient of its recurrent weights. A position is two launches:
// the matmul of the states before it (in the gradient, of the dgates after it), and a thread
// for each of its cells. The gradient of the weights is one matmul over all positions, of the
// states shifted by one. Sums that the cells read have the operands' element type; the carried
// gradient of c is f32.

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/matmul.h"
#include "gpu/queue.h"
#include "gpu/simt.h"
#include "math/activations.h"

namespace stowage::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kGates = 4;

struct Cells {
  // `gates` (B, T, 4H).
  Cells(const TensorType& gates, const Attrs& attrs)
      : dtype(gates.dtype),
        batch(gates.shape[0]),
        time(gates.shape[1]),
        hidden(gates.shape[2] / kGates),
        reverse(attrs.Int("reverse") == 1) {}

  // The place of the position that is `step`-th.
  int64_t At(int64_t step) const { return reverse ? time - 1 - step : step; }
  int64_t width() const { return kGates * hidden; }
  // Bytes of so many elements, rounded up to the next alignment.
  Bytes Span(int64_t elements) const {
    return AlignUp(elements * SizeOf(dtype), kSlotAlignment);
  }

  DType dtype;
  int64_t batch, time, hidden;
  bool reverse;
};

// A sequence or a state: its first element at a position, and the elements from row to row.
struct RowsAt {
  std::byte* data;
  int64_t stride;
};
RowsAt Position(const TensorView& x, int64_t at) {
  return {x.data + at * x.strides[1] * SizeOf(x.dtype()), x.strides[0]};
}
RowsAt State(const TensorView& x) { return {x.data, x.shape()[1]}; }

// h or c of the position before the `step`-th.
RowsAt Before(const Cells& cells, const TensorView& first,
              const TensorView& sequence, int64_t step) {
  return step == 0 ? State(first) : Position(sequence, cells.At(step - 1));
}

// --- Forward ---

struct CellParams {
  int64_t batch, hidden;
  const void* given;  // what the inputs add to the gates
  int64_t given_row;
  const void* sums;  // what the states add: (batch, 4 hidden)
  const void* c_before;
  int64_t c_before_row;
  void* gates;
  int64_t gates_row;
  void* h;
  void* c;
  int64_t row;  // of h and c
};

// All is read before anything is written: gates may overwrite `given`.
template <typename T>
STOWAGE_KERNEL(kThreads)
LstmKernel(STOWAGE_PARAMS(CellParams) p) {
  const int64_t cell = int64_t{BlockId()} * kThreads + ThreadId();
  if (cell >= p.batch * p.hidden) return;
  const int64_t row = cell / p.hidden, unit = cell % p.hidden;
  const T* given = static_cast<const T*>(p.given) + row * p.given_row + unit;
  const T* sums =
      static_cast<const T*>(p.sums) + row * kGates * p.hidden + unit;
  float sum[kGates];
  STOWAGE_UNROLL
  for (int gate = 0; gate < kGates; ++gate) {
    sum[gate] =
        ToFloat(given[gate * p.hidden]) + ToFloat(sums[gate * p.hidden]);
  }
  const float before =
      ToFloat(static_cast<const T*>(p.c_before)[row * p.c_before_row + unit]);
  const float i = math::Sigmoid(sum[0]);
  const float f = math::Sigmoid(sum[1]);
  const float g = ::tanhf(sum[2]);
  const float o = math::Sigmoid(sum[3]);
  const float c = f * before + i * g;
  T* gates = static_cast<T*>(p.gates) + row * p.gates_row + unit;
  gates[0] = FromFloat<T>(i);
  gates[p.hidden] = FromFloat<T>(f);
  gates[2 * p.hidden] = FromFloat<T>(g);
  gates[3 * p.hidden] = FromFloat<T>(o);
  static_cast<T*>(p.c)[row * p.row + unit] = FromFloat<T>(c);
  static_cast<T*>(p.h)[row * p.row + unit] = FromFloat<T>(o * ::tanhf(c));
}

// The scratch of matmuls, after `elements` of the workspace.
struct Scratch {
  Scratch(const Cells& cells, int64_t elements, int64_t results)
      : first(cells.Span(elements)), product(MatMulWorkspace(results)) {}
  Bytes bytes() const { return first + product; }
  Bytes first, product;
};

// The sums of a position.
Scratch ForwardScratch(const Cells& cells) {
  const int64_t sums = cells.batch * cells.width();
  return Scratch(cells, sums, sums);
}

void EnqueueLstm(const Launch& launch, Queue& queue) {
  const TensorView& given = launch.inputs[0];
  const TensorView& gates = launch.outputs[0];
  const TensorView& h = launch.outputs[1];
  const TensorView& c = launch.outputs[2];
  const Cells cells(given.type, *launch.attrs);
  const Scratch scratch = ForwardScratch(cells);
  std::byte* const sums = launch.workspace.data();
  for (int64_t step = 0; step < cells.time; ++step) {
    const int64_t at = cells.At(step);
    const RowsAt before = Before(cells, launch.inputs[1], h, step);
    queue.MatMul({.dtype = cells.dtype,
                  .m = cells.batch,
                  .n = cells.width(),
                  .k = cells.hidden,
                  .a = {.data = before.data, .stride = before.stride},
                  .b = {.data = launch.inputs[3].data,
                        .stride = cells.hidden,
                        .transposed = true},
                  .c = sums,
                  .c_stride = cells.width(),
                  .workspace = sums + scratch.first,
                  .workspace_bytes = scratch.product});
    const RowsAt c_before = Before(cells, launch.inputs[2], c, step);
    const CellParams p = {.batch = cells.batch,
                          .hidden = cells.hidden,
                          .given = Position(given, at).data,
                          .given_row = given.strides[0],
                          .sums = sums,
                          .c_before = c_before.data,
                          .c_before_row = c_before.stride,
                          .gates = Position(gates, at).data,
                          .gates_row = gates.strides[0],
                          .h = Position(h, at).data,
                          .c = Position(c, at).data,
                          .row = h.strides[0]};
    OnFloat(cells.dtype, [&](auto zero) {
      LaunchKernel(queue, "lstm", LstmKernel<decltype(zero)>, p,
                   {.x = BlocksFor(cells.batch * cells.hidden, kThreads)},
                   kThreads);
    });
  }
}

// --- The gradient ---

struct CellGradParams {
  int64_t batch, hidden;
  const void* gates;
  const void* c_before;
  int64_t c_before_row;
  const void* c;
  const void* dh;
  int64_t dh_row;
  const void* dc;  // or null
  int64_t dc_row;
  const void* dh_behind;  // (batch, hidden); null for the last position
  float* dc_carried;      // (batch, hidden)
  void* dgates;
  int64_t gates_row;  // of gates and dgates
  int64_t c_row;
  void* dc0;  // (batch, hidden), for the first position; else null
};

// All is read before anything is written: dgates may overwrite gates.
template <typename T>
STOWAGE_KERNEL(kThreads)
LstmGradKernel(STOWAGE_PARAMS(CellGradParams) p) {
  const int64_t cell = int64_t{BlockId()} * kThreads + ThreadId();
  if (cell >= p.batch * p.hidden) return;
  const int64_t row = cell / p.hidden, unit = cell % p.hidden;
  const auto load = [&](const void* x, int64_t offset) {
    return ToFloat(static_cast<const T*>(x)[offset]);
  };
  const int64_t gate = row * p.gates_row + unit;
  const float i = load(p.gates, gate);
  const float f = load(p.gates, gate + p.hidden);
  const float g = load(p.gates, gate + 2 * p.hidden);
  const float o = load(p.gates, gate + 3 * p.hidden);
  const float tanh_c = ::tanhf(load(p.c, row * p.c_row + unit));
  const float before = load(p.c_before, row * p.c_before_row + unit);
  float dh = load(p.dh, row * p.dh_row + unit);
  if (p.dh_behind != nullptr) dh += load(p.dh_behind, cell);
  float dc = dh * o * math::TanhDerivativeFromOutput(tanh_c);
  if (p.dh_behind != nullptr) dc += p.dc_carried[cell];
  if (p.dc != nullptr) dc += load(p.dc, row * p.dc_row + unit);
  T* dgates = static_cast<T*>(p.dgates) + gate;
  dgates[0] = FromFloat<T>(dc * g * math::SigmoidDerivativeFromOutput(i));
  dgates[p.hidden] =
      FromFloat<T>(dc * before * math::SigmoidDerivativeFromOutput(f));
  dgates[2 * p.hidden] =
      FromFloat<T>(dc * i * math::TanhDerivativeFromOutput(g));
  dgates[3 * p.hidden] =
      FromFloat<T>(dh * tanh_c * math::SigmoidDerivativeFromOutput(o));
  p.dc_carried[cell] = dc * f;
  if (p.dc0 != nullptr) static_cast<T*>(p.dc0)[cell] = FromFloat<T>(dc * f);
}

// A position's gradient of the previous states, of h and, in f32, of c.
struct GradScratch {
  explicit GradScratch(const Cells& cells)
      : dh(cells.Span(cells.batch * cells.hidden)),
        dc(AlignUp(cells.batch * cells.hidden * SizeOf(DType::kF32),
                   kSlotAlignment)),
        product(MatMulWorkspace(cells.batch * cells.hidden)) {}
  Bytes bytes() const { return dh + dc + product; }
  Bytes dh, dc, product;
};

void EnqueueLstmGrad(const Launch& launch, Queue& queue) {
  const TensorView& gates = launch.inputs[0];
  const TensorView& c = launch.inputs[3];
  const TensorView& dh = launch.inputs[4];
  const TensorView* const dc =
      launch.inputs.size() > 5 ? &launch.inputs[5] : nullptr;
  const TensorView& dgates = launch.outputs[0];
  const Cells cells(gates.type, *launch.attrs);
  const GradScratch scratch(cells);
  std::byte* const dh_behind = launch.workspace.data();
  std::byte* const dc_carried = dh_behind + scratch.dh;
  for (int64_t step = cells.time - 1; step >= 0; --step) {
    const int64_t at = cells.At(step);
    const RowsAt c_before = Before(cells, launch.inputs[1], c, step);
    const CellGradParams p = {
        .batch = cells.batch,
        .hidden = cells.hidden,
        .gates = Position(gates, at).data,
        .c_before = c_before.data,
        .c_before_row = c_before.stride,
        .c = Position(c, at).data,
        .dh = Position(dh, at).data,
        .dh_row = dh.strides[0],
        .dc = dc == nullptr ? nullptr : Position(*dc, at).data,
        .dc_row = dc == nullptr ? 0 : dc->strides[0],
        .dh_behind = step == cells.time - 1 ? nullptr : dh_behind,
        .dc_carried = reinterpret_cast<float*>(dc_carried),
        .dgates = Position(dgates, at).data,
        .gates_row = gates.strides[0],
        .c_row = c.strides[0],
        .dc0 = step == 0 ? launch.outputs[2].data : nullptr};
    OnFloat(cells.dtype, [&](auto zero) {
      LaunchKernel(queue, "lstm_grad", LstmGradKernel<decltype(zero)>, p,
                   {.x = BlocksFor(cells.batch * cells.hidden, kThreads)},
                   kThreads);
    });
    const RowsAt rows = Position(dgates, at);
    queue.MatMul({.dtype = cells.dtype,
                  .m = cells.batch,
                  .n = cells.hidden,
                  .k = cells.width(),
                  .a = {.data = rows.data, .stride = rows.stride},
                  .b = {.data = launch.inputs[2].data, .stride = cells.hidden},
                  .c = step == 0 ? launch.outputs[1].data : dh_behind,
                  .c_stride = cells.hidden,
                  .workspace = dc_carried + scratch.dc,
                  .workspace_bytes = scratch.product});
  }
}

// --- The gradient of the weights ---

struct ShiftParams {
  const void* first;     // (batch, hidden)
  const void* sequence;  // (batch, time, hidden)
  void* to;
  int64_t elements, time, hidden;
  int64_t reverse;  // 0 or 1; a bool would be followed by bytes of no value
};

// The states before all positions, in the places of these.
template <typename T>
STOWAGE_KERNEL(kThreads)
LstmStatesBeforeKernel(STOWAGE_PARAMS(ShiftParams) p) {
  const int64_t at = int64_t{BlockId()} * kThreads + ThreadId();
  if (at >= p.elements) return;
  const int64_t row = at / p.hidden, unit = at % p.hidden;
  const int64_t position = row % p.time;
  const bool is_first = position == (p.reverse ? p.time - 1 : 0);
  const int64_t step = p.reverse ? p.hidden : -p.hidden;
  static_cast<T*>(p.to)[at] =
      is_first ? static_cast<const T*>(p.first)[row / p.time * p.hidden + unit]
               : static_cast<const T*>(p.sequence)[at + step];
}

Scratch WeightGradScratch(const Cells& cells) {
  return Scratch(cells, cells.batch * cells.time * cells.hidden,
                 cells.width() * cells.hidden);
}

void EnqueueLstmWeightGrad(const Launch& launch, Queue& queue) {
  const TensorView& h = launch.inputs[2];
  const Cells cells(launch.inputs[0].type, *launch.attrs);
  const Scratch scratch = WeightGradScratch(cells);
  std::byte* const before = launch.workspace.data();
  const ShiftParams p = {.first = launch.inputs[1].data,
                         .sequence = h.data,
                         .to = before,
                         .elements = h.size(),
                         .time = cells.time,
                         .hidden = cells.hidden,
                         .reverse = cells.reverse};
  OnFloat(cells.dtype, [&](auto zero) {
    LaunchKernel(queue, "lstm_states_before",
                 LstmStatesBeforeKernel<decltype(zero)>, p,
                 {.x = BlocksFor(p.elements, kThreads)}, kThreads);
  });
  queue.MatMul({.dtype = cells.dtype,
                .m = cells.width(),
                .n = cells.hidden,
                .k = cells.batch * cells.time,
                .a = {.data = launch.inputs[0].data,
                      .stride = cells.width(),
                      .transposed = true},
                .b = {.data = before, .stride = cells.hidden},
                .c = launch.outputs[0].data,
                .c_stride = cells.hidden,
                .workspace = before + scratch.first,
                .workspace_bytes = scratch.product});
}

Bytes LstmWorkspace(const OpArgs& args, std::span<const TensorType>) {
  return ForwardScratch(Cells(args.type(0), args.attrs)).bytes();
}
Bytes LstmGradWorkspace(const OpArgs& args, std::span<const TensorType>) {
  return GradScratch(Cells(args.type(0), args.attrs)).bytes();
}
Bytes LstmWeightGradWorkspace(const OpArgs& args, std::span<const TensorType>) {
  return WeightGradScratch(Cells(args.type(0), args.attrs)).bytes();
}

}  // namespace

namespace kernels {

constinit const GpuKernel Lstm = {.enqueue = EnqueueLstm,
                                  .workspace = LstmWorkspace};
constinit const GpuKernel LstmGrad = {.enqueue = EnqueueLstmGrad,
                                      .workspace = LstmGradWorkspace};
constinit const GpuKernel LstmWeightGrad = {
    .enqueue = EnqueueLstmWeightGrad, .workspace = LstmWeightGradWorkspace};

}  // namespace kernels
}  // namespace stowage::gpu

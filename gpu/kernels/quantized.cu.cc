// Weights in other formats than the matmul's: quantized_matmul and quantized_gather read a
// frozen matrix in the quantized blocks of its file; join_weight and split_update convert
// between f32 and split master weights (math/optimizer.h).
//
// quantized_matmul dequantizes a panel of rows at a time into the workspace and multiplies
// by it. If w's rows are the depth of the matmul, the panels' shares are added to y as it is
// stored: in f16 and bf16 every panel after the first rounds it once more.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/elementwise.h"
#include "gpu/kernels/matmul.h"
#include "gpu/queue.h"
#include "gpu/simt.h"
#include "ir/weight_type.h"
#include "math/optimizer.h"
#include "math/small_floats.h"
#include "math/weight_blocks.h"

namespace stowage::gpu {
namespace {

constexpr int kThreads = 128;

struct NumbersParams {
  const uint8_t* blocks;
  void* to;
  int64_t count;  // of blocks
};

// The formats as types, for templates.
#define STOWAGE_WEIGHT_TYPE(format, count, size)                     \
  struct Blocks##format {                                            \
    static constexpr int kNumbers = count;                           \
    static constexpr int kBytes = size;                              \
    template <typename Put>                                          \
    STOWAGE_DEVICE static void Read(const uint8_t* block, Put put) { \
      math::format(block, put);                                      \
    }                                                                \
  };
#include "ir/weight_types.def"

// A block a thread.
template <typename Format, typename T>
STOWAGE_KERNEL(kThreads)
Numbers(STOWAGE_PARAMS(NumbersParams) p) {
  const int64_t block = int64_t{BlockId()} * kThreads + ThreadId();
  if (block >= p.count) return;
  T* to = static_cast<T*>(p.to) + block * Format::kNumbers;
  Format::Read(p.blocks + block * Format::kBytes,
               [to](int i, float number) { to[i] = FromFloat<T>(number); });
}

struct GatherParams {
  const uint8_t* table;
  float* y;
  Indices indices;
  int64_t count;  // of indices
  int64_t table_rows;
  int64_t row_blocks;
  FaultSlot fault;
};

// A thread per block. A row whose index is out of range becomes zeros.
template <typename Format>
STOWAGE_KERNEL(kThreads)
GatherNumbers(STOWAGE_PARAMS(GatherParams) p) {
  const int64_t unit = int64_t{BlockId()} * kThreads + ThreadId();
  const int64_t row = unit / p.row_blocks;
  const int64_t block = unit % p.row_blocks;
  if (row >= p.count) return;
  const int64_t index = p.indices.At(row);
  const bool good = index >= 0 && index < p.table_rows;
  if (!good && block == 0) ReportFault(p.fault);
  float* to = p.y + unit * Format::kNumbers;
  Format::Read(
      p.table + ((good ? index : 0) * p.row_blocks + block) * Format::kBytes,
      [to, good](int i, float number) { to[i] = good ? number : 0.0f; });
}

// Calls f with the format's type, such as BlocksQ4_1().
template <typename F>
void OnFormat(WeightType type, F&& f) {
  switch (type) {
#define STOWAGE_WEIGHT_TYPE(name, numbers, bytes) \
  case WeightType::k##name:                       \
    return f(Blocks##name{});
#include "ir/weight_types.def"
  }
}

// Sizes and the layout of the workspace: a panel, then the matmuls' scratch.
struct Work {
  Work(int64_t m, int64_t rows, int64_t columns, bool transposed, DType dtype)
      : panel_bytes(PanelBytes(rows, columns, dtype)),
        scratch_bytes(MatMulWorkspace(
            m * (transposed ? PanelRows(rows, columns) : columns))) {}
  Bytes bytes() const { return panel_bytes + scratch_bytes; }

  Bytes panel_bytes, scratch_bytes;
};

void EnqueueMatMul(const Launch& launch, Queue& queue) {
  const TensorView& x = launch.inputs[0];
  const TensorView& y = launch.outputs[0];
  const BlockMatrix w(launch.inputs[1], *launch.attrs);
  const bool transposed = launch.attrs->Int("transpose_w") == 1;
  const int64_t depth = x.shape().back(), n = y.shape().back();
  const int64_t m = x.size() / depth;
  const Bytes element = SizeOf(x.dtype());
  const Work work(m, w.rows, w.columns, transposed, x.dtype());
  std::byte* panel = launch.workspace.data();
  ForPanels(w.rows, w.columns, [&](int64_t first, int64_t count) {
    EnqueueNumbers(w, first, count, x.dtype(), panel, queue);
    MatMulCall call = {.dtype = x.dtype(),
                       .m = m,
                       .n = transposed ? count : n,
                       .k = transposed ? depth : count,
                       .a = {.data = x.data, .stride = depth},
                       .b = {.data = panel, .stride = w.columns},
                       .c = y.data,
                       .c_stride = n,
                       .workspace = panel + work.panel_bytes,
                       .workspace_bytes = work.scratch_bytes};
    call.b.transposed = transposed;
    if (transposed) {
      call.c += first * element;
    } else {
      call.a.data += first * element;
      call.accumulate = first > 0;
    }
    queue.MatMul(call);
  });
}

Bytes MatMulBytes(const OpArgs& args, std::span<const TensorType>) {
  const auto type = static_cast<WeightType>(args.attrs.Int("blocks"));
  const int64_t m =
      args.type(0).shape.num_elements() / args.type(0).shape.back();
  return Work(m, args.shape(1)[0], *NumbersOf(type, args.shape(1)[1]),
              args.attrs.Int("transpose_w") == 1, args.type(0).dtype)
      .bytes();
}

void EnqueueGather(const Launch& launch, Queue& queue) {
  const BlockMatrix table(launch.inputs[0], *launch.attrs);
  OnFormat(table.type, [&](auto format) {
    using Format = decltype(format);
    const GatherParams params = {
        .table = reinterpret_cast<const uint8_t*>(table.data),
        .y = launch.outputs[0].as<float>(),
        .indices = Indices(launch.inputs[1]),
        .count = launch.inputs[1].size(),
        .table_rows = table.rows,
        .row_blocks = table.columns / Format::kNumbers,
        .fault = queue.fault()};
    LaunchKernel(queue, "quantized_gather", GatherNumbers<Format>, params,
                 {.x = BlocksFor(params.count * params.row_blocks, kThreads)},
                 kThreads);
  });
}

}  // namespace

void EnqueueNumbers(const BlockMatrix& w, int64_t first, int64_t count,
                    DType dtype, std::byte* to, Queue& queue) {
  OnFormat(w.type, [&](auto format) {
    using Format = decltype(format);
    const NumbersParams params = {
        .blocks =
            reinterpret_cast<const uint8_t*>(w.data) + first * w.row_bytes,
        .to = to,
        .count = count * (w.columns / Format::kNumbers)};
    OnFloat(dtype, [&](auto zero) {
      LaunchKernel(queue, "dequantize", Numbers<Format, decltype(zero)>, params,
                   {.x = BlocksFor(params.count, kThreads)}, kThreads);
    });
  });
}

namespace {

// The float of a bf16, exact as a float, and its delta.
struct JoinFn {
  STOWAGE_DEVICE float operator()(RoughFloat weight, int16_t delta) const {
    const uint32_t upper = math::FloatBits(static_cast<float>(weight));
    return math::BitsFloat(upper + static_cast<uint32_t>(int32_t{delta}));
  }
};

void EnqueueJoinWeight(const Launch& launch, Queue& queue) {
  EnqueueMap<JoinFn, float, BF16, int16_t>(
      "join_weight", queue, launch.outputs[0],
      {&launch.inputs[0], &launch.inputs[1]});
}

constexpr int kSplitThreads = 256;

struct SplitParams {
  const float* x;
  BF16* w;
  int16_t* delta;
  int64_t n;
};

// A thread splits kWidth neighbouring elements.
template <int kWidth>
STOWAGE_KERNEL(kSplitThreads)
SplitKernel(STOWAGE_PARAMS(SplitParams) p) {
  const int64_t i = (int64_t{BlockId()} * kSplitThreads + ThreadId()) * kWidth;
  if (i >= p.n) return;
  const auto x = LoadElementsOnce<float, kWidth>(p.x + i);
  Elements<BF16, kWidth> w;
  Elements<int16_t, kWidth> delta;
  for (int e = 0; e < kWidth; ++e) {
    const math::SplitMaster parts = math::Split(x.value[e]);
    w.value[e] = {parts.weight};
    delta.value[e] = parts.delta;
  }
  StoreElementsOnce(p.w + i, w);
  StoreElementsOnce(p.delta + i, delta);
}

bool IsAligned(const TensorView& view, size_t bytes) {
  return reinterpret_cast<uintptr_t>(view.data) % bytes == 0;
}

void EnqueueSplitUpdate(const Launch& launch, Queue& queue) {
  const TensorView& x = launch.inputs[2];
  const SplitParams params = {.x = x.as<const float>(),
                              .w = launch.outputs[0].as<BF16>(),
                              .delta = launch.outputs[1].as<int16_t>(),
                              .n = x.size()};
  const bool is_wide = params.n % 4 == 0 && IsAligned(x, 16) &&
                       IsAligned(launch.outputs[0], 8) &&
                       IsAligned(launch.outputs[1], 8);
  const Grid grid = {
      .x = BlocksFor(is_wide ? params.n / 4 : params.n, kSplitThreads)};
  if (is_wide) {
    LaunchKernel(queue, "split_update", SplitKernel<4>, params, grid,
                 kSplitThreads);
  } else {
    LaunchKernel(queue, "split_update", SplitKernel<1>, params, grid,
                 kSplitThreads);
  }
}

}  // namespace

namespace kernels {

constinit const GpuKernel QuantizedMatMul = {.enqueue = EnqueueMatMul,
                                             .workspace = MatMulBytes};
constinit const GpuKernel QuantizedGather = {.enqueue = EnqueueGather,
                                             .supports = SupportsAll};

constinit const GpuKernel JoinWeight = {.enqueue = EnqueueJoinWeight,
                                        .supports = SupportsAll};
constinit const GpuKernel SplitUpdate = {.enqueue = EnqueueSplitUpdate,
                                         .supports = SupportsAll};

}  // namespace kernels
}  // namespace stowage::gpu

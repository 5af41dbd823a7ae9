// quantized_matmul, quantized_gather: a frozen matrix read in the bytes of its file.
//
// A product turns a panel of rows at a time into numbers, in the workspace, and
// multiplies by those. Where w's rows are the depth of the product, the shares of its
// panels are added to y as it is stored: in f16 and bf16 each panel but the first
// rounds it once more.

#include <algorithm>
#include <cstdint>

#include "base/result.h"
#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/indices.h"
#include "gpu/kernels/matmul.h"
#include "gpu/kernels/weight_blocks.h"
#include "gpu/queue.h"
#include "gpu/simt.h"
#include "ir/weight_type.h"
#include "math/weight_blocks.h"

namespace stowage::gpu {
namespace {

constexpr int kThreads = 128;

struct NumbersParams {
  const uint8_t* blocks;
  void* to;
  int64_t count;  // of blocks
};

// What one format is, for templates.
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

// A block a thread. A row whose index is out of range becomes zeros.
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

// f(BlocksQ4_1()) and the like.
template <typename F>
void OnFormat(WeightType type, F&& f) {
  switch (type) {
#define STOWAGE_WEIGHT_TYPE(name, numbers, bytes) \
  case WeightType::k##name:                       \
    return f(Blocks##name{});
#include "ir/weight_types.def"
  }
}

// Sizes, and where in the workspace things lie: a panel, the products' scratch.
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

namespace kernels {

constinit const GpuKernel QuantizedMatMul = {.enqueue = EnqueueMatMul,
                                             .workspace = MatMulBytes};
constinit const GpuKernel QuantizedGather = {.enqueue = EnqueueGather,
                                             .supports = SupportsAll};

}  // namespace kernels
}  // namespace stowage::gpu

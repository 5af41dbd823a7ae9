#ifndef STOWAGE_GPU_QUEUE_H_
#define STOWAGE_GPU_QUEUE_H_

// What the host side of a kernel may ask of a device: grids of threads, matrix
// products, fills and copies, and messages to and from other ranks' devices, one after
// the other. A queue is filled once, when a program is bound, and what was put in is
// replayed at every step; so nothing here may depend on what the arena holds.
//
//   struct ScaleParams { float* x; int64_t n; float factor; };
//   STOWAGE_KERNEL(256) Scale(STOWAGE_PARAMS(ScaleParams) p) { ... }
//
//   LaunchKernel(queue, "scale", Scale, ScaleParams{x, n, 2.0f},
//                {.x = BlocksFor(n, 256)}, 256);
//
// A kernel takes one struct of params by value, trivially copyable and at most
// kMaxParamBytes: so that a queue can keep it, and an emulated device call it.

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/bytes.h"
#include "base/result.h"
#include "gpu/attention_algorithms.h"
#include "gpu/tensor_map.h"
#include "ir/tensor_type.h"

namespace stowage {
struct Launch;  // runtime/kernel.h
}  // namespace stowage

namespace stowage::gpu {

/// Blocks of a grid.
struct Grid {
  uint32_t x = 1, y = 1;
};

inline constexpr size_t kMaxParamBytes = 4000;  // CUDA takes 4096
/// Blocks a grid may have along y.
inline constexpr int64_t kMaxGridY = 65535;

/// One grid. Blocks are one-dimensional.
struct KernelCall {
  const char* name = "";  // for errors and profiles; a literal
  const void* function = nullptr;
  const void* params = nullptr;  // copied by the queue
  size_t params_bytes = 0;
  /// Calls `function` with the params, for devices that are emulated; they lie at a
  /// multiple of 64 then, as a tensor map wants it.
  void (*invoke)(const void* function, const void* params) = nullptr;
  Grid grid;
  uint32_t threads = 0;         // a block, a multiple of 32
  uint32_t dynamic_shared = 0;  // bytes a block
};

/// A matrix as it lies in memory: rows are `stride` elements apart, their
/// elements adjacent; `transposed` if the product wants its transpose; the
/// matrices of a batch are `batch_stride` elements apart (0: one for all).
struct MatrixOperand {
  const std::byte* data = nullptr;
  int64_t stride = 0;
  int64_t batch_stride = 0;
  bool transposed = false;
};

/// What is done to a product's sums before they are rounded; of several, in this order.
/// Last, sums of the operands, which are no part of the product. What is null is not
/// there. Elements are of the product's type.
struct MatMulEpilogue {
  const std::byte* bias = nullptr;    // n elements, added to every row
  const std::byte* addend = nullptr;  // a matrix that lies as c does
  const std::byte* gelu_x =
      nullptr;  // such a one: times gelu_tanh's derivative there
  /// Sums over k of the operands as the product reads them, rounded to the product's type:
  /// of a's rows, m elements, and of b's columns, n elements. Results, not operands.
  std::byte* a_sums = nullptr;
  std::byte* b_sums = nullptr;

  /// Whether there is more than an addend, which every library takes: the rest one may
  /// lack.
  bool beyond_addend() const {
    return bias != nullptr || gelu_x != nullptr || a_sums != nullptr ||
           b_sums != nullptr;
  }
};

/// c (m, n) = a (m, k) b (k, n), or c += it, `batch` times; products of f16 and
/// bf16 are summed in f32 and rounded once, behind the epilogue.
struct MatMulCall {
  DType dtype = DType::kF32;  // of a, b and c: f32, f16 or bf16
  int64_t m = 0, n = 0, k = 0;
  int64_t batch = 1;
  MatrixOperand a, b;
  std::byte* c = nullptr;
  int64_t c_stride = 0;
  int64_t c_batch_stride = 0;
  bool accumulate = false;  // goes with no addend
  MatMulEpilogue epilogue = {};
  std::byte* workspace = nullptr;
  Bytes workspace_bytes = 0;
};

/// What this rank's device sends to that of another rank, and what it receives from
/// there: bytes in the memory of both, none where a span is empty. The two ends of a
/// message agree on its size.
struct PeerMessages {
  int peer = 0;  // its rank
  std::span<const std::byte> sent = {};
  std::span<std::byte> received = {};
};

/// What a fault word says while all indices of a step were in range.
inline constexpr uint32_t kNoFault = 0xFFFFFFFF;

/// Where a kernel reports that an index is out of range; see ReportFault in
/// gpu/simt.h. The smallest launch index wins. What outlives a step is left as it
/// is once the word is set.
struct FaultSlot {
  uint32_t* word = nullptr;
  uint32_t launch = 0;
};

class Queue {
 public:
  virtual ~Queue() = default;

  // What fails is kept: the first error is returned when the program is bound.
  virtual void Launch(const KernelCall& call) = 0;
  virtual void MatMul(const MatMulCall& call) = 0;
  /// Whether MatMul takes the call: not every library has every epilogue. An addend by
  /// itself is always taken. Whoever asks for a step asks before, in the same order.
  virtual bool Takes(const MatMulCall& call) {
    return !call.epilogue.beyond_addend();
  }
  virtual void Fill(std::byte* to, uint8_t value, Bytes bytes) = 0;
  virtual void Copy(std::byte* to, const std::byte* from, Bytes bytes) = 0;

  /// By which of `ways`, each of which takes it, a launch of attention is computed: for one
  /// launch always by the same. Precondition: some way.
  virtual AttentionAlgorithm ChooseAttention(const stowage::Launch&,
                                             AttentionAlgorithms ways) {
    return ways.first();
  }
  /// An array as bulk copies are told of it (gpu/bulk_copy.h), for the params of a kernel;
  /// what it is after an error does not matter, since nothing is launched then. Only where
  /// the device has tensor maps.
  virtual TensorMap Encode(const TensorMapSpec&) {
    STOWAGE_CHECK(false);
    return {};
  }

  /// This rank, of those whose step the queue is for.
  virtual int rank() const { return 0; }
  /// Sends and receives all of it, at once: at most one entry for each other rank. All
  /// ranks ask for the same exchanges in the same order. A queue for one rank has none.
  virtual void Exchange(std::span<const PeerMessages> messages) {
    STOWAGE_CHECK(messages.empty());
  }

  /// The slot of the launch that is being enqueued.
  virtual FaultSlot fault() const = 0;
};

/// Blocks of `threads` that give each of `n` items a thread; at least 1.
constexpr uint32_t BlocksFor(int64_t n, int64_t threads) {
  const int64_t blocks = (n + threads - 1) / threads;
  return static_cast<uint32_t>(blocks < 1 ? 1 : blocks);
}

/// Enqueues one grid of `kernel`.
template <typename Params>
void LaunchKernel(Queue& queue, const char* name, void (*kernel)(Params),
                  const std::type_identity_t<Params>& params, Grid grid,
                  uint32_t threads, uint32_t dynamic_shared = 0) {
  static_assert(std::is_trivially_copyable_v<Params>);
  static_assert(sizeof(Params) <= kMaxParamBytes);
  queue.Launch({.name = name,
                .function = reinterpret_cast<const void*>(kernel),
                .params = &params,
                .params_bytes = sizeof(Params),
                .invoke =
                    [](const void* function, const void* bytes) {
                      reinterpret_cast<void (*)(Params)>(const_cast<void*>(
                          function))(*static_cast<const Params*>(bytes));
                    },
                .grid = grid,
                .threads = threads,
                .dynamic_shared = dynamic_shared});
}

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_QUEUE_H_

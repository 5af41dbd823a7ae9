#ifndef STOWAGE_GPU_QUEUE_H_
#define STOWAGE_GPU_QUEUE_H_

// A queue of work for a device, which the host side of a kernel fills: kernel launches,
// matmuls, fills and copies, and messages to and from other ranks' devices, in order. A
// queue is filled once, when a program is bound, and its contents are replayed at every step;
// so nothing here may depend on the contents of the arena.
//
//   struct ScaleParams { float* x; int64_t n; float factor; };
//   STOWAGE_KERNEL(256) Scale(STOWAGE_PARAMS(ScaleParams) p) { ... }
//
//   LaunchKernel(queue, "scale", Scale, ScaleParams{x, n, 2.0f},
//                {.x = BlocksFor(n, 256)}, 256);
//
// A kernel takes one struct of params by value, trivially copyable and at most
// kMaxParamBytes, so that a queue can keep it and an emulated device can pass it.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <type_traits>

#include "base/bytes.h"
#include "base/result.h"
#include "gpu/tensor_map.h"
#include "ir/tensor_type.h"

namespace stowage {
struct Launch;  // runtime/kernel.h
}  // namespace stowage

namespace stowage::gpu {

/// The blocks of a kernel launch.
struct Grid {
  uint32_t x = 1, y = 1;
};

inline constexpr size_t kMaxParamBytes = 4000;  // CUDA takes 4096
/// The most blocks along y.
inline constexpr int64_t kMaxGridY = 65535;

/// A kernel launch. Blocks are one-dimensional.
struct KernelCall {
  const char* name = "";  // for errors and profiles; a literal
  const void* function = nullptr;
  const void* params = nullptr;  // copied by the queue
  size_t params_bytes = 0;
  /// Calls `function` with the params, for emulated devices; params are aligned to 64, as
  /// tensor maps need.
  void (*invoke)(const void* function, const void* params) = nullptr;
  Grid grid;
  uint32_t threads = 0;         // a block, a multiple of 32
  uint32_t dynamic_shared = 0;  // bytes a block
};

/// A matrix in memory: rows of adjacent elements, `stride` elements apart; `transposed` if
/// the matmul uses its transpose; the matrices of a batch are `batch_stride` elements apart
/// (0: one for all).
struct MatrixOperand {
  const std::byte* data = nullptr;
  int64_t stride = 0;
  int64_t batch_stride = 0;
  bool transposed = false;
};

/// Operations on the sums of a matmul before they are rounded, in this order, and sums of
/// its operands. Null members are absent. Elements are of the matmul's type.
struct MatMulEpilogue {
  const std::byte* bias = nullptr;    // n elements, added to every row
  const std::byte* addend = nullptr;  // a matrix with c's layout
  /// A matrix with c's layout: multiplied by gelu_tanh's derivative there.
  const std::byte* gelu_x = nullptr;
  /// Results: sums over k of the operands as the matmul reads them, of a's rows (m elements)
  /// and of b's columns (n elements).
  std::byte* a_sums = nullptr;
  std::byte* b_sums = nullptr;

  /// Whether there is more than an addend, which every library supports.
  bool beyond_addend() const {
    return bias != nullptr || gelu_x != nullptr || a_sums != nullptr ||
           b_sums != nullptr;
  }
};

/// c (m, n) = a (m, k) b (k, n), or c += a b, `batch` times. f16 and bf16 are summed in f32
/// and rounded once, after the epilogue.
struct MatMulCall {
  DType dtype = DType::kF32;  // of a, b and c: f32, f16 or bf16
  int64_t m = 0, n = 0, k = 0;
  int64_t batch = 1;
  MatrixOperand a, b;
  std::byte* c = nullptr;
  int64_t c_stride = 0;
  int64_t c_batch_stride = 0;
  bool accumulate = false;  // excludes an addend
  MatMulEpilogue epilogue = {};
  std::byte* workspace = nullptr;
  Bytes workspace_bytes = 0;
};

/// The messages to and from one other rank's device: bytes in device memory, none if a span
/// is empty. Both ends of a message must agree on its size.
struct PeerMessages {
  int peer = 0;  // its rank
  std::span<const std::byte> sent = {};
  std::span<std::byte> received = {};
};

/// The value of a fault word while all indices of a step were in range.
inline constexpr uint32_t kNoFault = 0xFFFFFFFF;

/// Where a kernel reports that an index is out of range (ReportFault in gpu/simt.h). The
/// smallest launch index is kept. Once the word is set, a step no longer writes values that
/// outlive it.
struct FaultSlot {
  uint32_t* word = nullptr;
  uint32_t launch = 0;
};

/// The tensor-core algorithms of 16-bit attention and its gradient. All of them round alike,
/// but they may add in different orders, so an algorithm is chosen once per launch and kept
/// (gpu/attention_autotuner.h). Of equally fast ones the first is chosen.
///
/// A new algorithm is a name here, a row of the table in attention_autotuner.cc, and its
/// functions in rows of the tables in gpu/kernels/attention.cu.cc.
enum class AttentionAlgorithm : uint8_t {
  kWarps,         // matmuls by warps (mma.sync), which every device has
  kWarpgroups,    // matmuls by warpgroups (wgmma)
  kFiveProducts,  // of the gradient only: by warps, each matmul computed once
};
inline constexpr int kNumAttentionAlgorithms = 3;

/// A set of algorithms:
///
///   AttentionAlgorithms algorithms = {AttentionAlgorithm::kWarps};
///   algorithms.Add(AttentionAlgorithm::kWarpgroups);
///   algorithms.first() == AttentionAlgorithm::kWarps;
class AttentionAlgorithms {
 public:
  constexpr AttentionAlgorithms() = default;
  constexpr AttentionAlgorithms(
      std::initializer_list<AttentionAlgorithm> algorithms) {
    for (const AttentionAlgorithm algorithm : algorithms) Add(algorithm);
  }

  constexpr void Add(AttentionAlgorithm algorithm) { bits_ |= Bit(algorithm); }
  constexpr bool Has(AttentionAlgorithm algorithm) const {
    return (bits_ & Bit(algorithm)) != 0;
  }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr int size() const { return std::popcount(bits_); }
  /// Precondition: not empty.
  constexpr AttentionAlgorithm first() const {
    return static_cast<AttentionAlgorithm>(std::countr_zero(bits_));
  }
  constexpr AttentionAlgorithms operator&(AttentionAlgorithms other) const {
    other.bits_ &= bits_;
    return other;
  }
  /// The set as a number.
  constexpr uint32_t bits() const { return bits_; }

  friend constexpr bool operator==(AttentionAlgorithms,
                                   AttentionAlgorithms) = default;

 private:
  static constexpr uint32_t Bit(AttentionAlgorithm algorithm) {
    return uint32_t{1} << static_cast<uint32_t>(algorithm);
  }
  uint32_t bits_ = 0;
};

inline constexpr AttentionAlgorithms kAllAttentionAlgorithms = {
    AttentionAlgorithm::kWarps, AttentionAlgorithm::kWarpgroups,
    AttentionAlgorithm::kFiveProducts};
static_assert(kAllAttentionAlgorithms.size() == kNumAttentionAlgorithms);

class Queue {
 public:
  virtual ~Queue() = default;

  // Errors are kept: the first is returned when the program is bound.
  virtual void Launch(const KernelCall& call) = 0;
  virtual void MatMul(const MatMulCall& call) = 0;
  /// Whether MatMul supports the call's epilogue; an addend alone is always supported. Call
  /// this for every matmul of a step, in the same order, before the matmuls.
  virtual bool Takes(const MatMulCall& call) {
    return !call.epilogue.beyond_addend();
  }
  virtual void Fill(std::byte* to, uint8_t value, Bytes bytes) = 0;
  virtual void Copy(std::byte* to, const std::byte* from, Bytes bytes) = 0;

  /// The algorithm by which to compute a launch of attention, always the same for one launch.
  /// Precondition: `algorithms` is not empty, and each of them supports the launch.
  virtual AttentionAlgorithm ChooseAttention(const stowage::Launch&,
                                             AttentionAlgorithms algorithms) {
    return algorithms.first();
  }
  /// Encodes the description of an array for bulk copies (gpu/warpgroup.h). Unspecified after
  /// an error, since nothing is launched then. Precondition: the device has tensor maps.
  virtual TensorMap Encode(const TensorMapSpec&) {
    STOWAGE_CHECK(false);
    return {};
  }

  /// The rank of the device.
  virtual int rank() const { return 0; }
  /// Sends and receives all messages concurrently: at most one entry per other rank. All
  /// ranks must call this in the same order. A single rank has no messages.
  virtual void Exchange(std::span<const PeerMessages> messages) {
    STOWAGE_CHECK(messages.empty());
  }

  /// The slot of the launch that is being enqueued.
  virtual FaultSlot fault() const = 0;
};

constexpr int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// The number of blocks of `threads` threads for `n` items; at least 1.
constexpr uint32_t BlocksFor(int64_t n, int64_t threads) {
  const int64_t blocks = CeilDiv(n, threads);
  return static_cast<uint32_t>(blocks < 1 ? 1 : blocks);
}

/// Enqueues a launch of `kernel`.
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

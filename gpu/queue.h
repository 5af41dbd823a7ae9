#ifndef STOWAGE_GPU_QUEUE_H_
#define STOWAGE_GPU_QUEUE_H_

// Declares Queue, to which the host code of a kernel adds work for a device: kernel launches,
// matmuls, fills, copies, and messages between the devices of ranks. The work runs in order. It is
// added once, when a program is bound, and repeated at every step. The calls must therefore not
// depend on the contents of the arena.
//
//   struct ScaleParams { float* x; int64_t n; float factor; };
//   STOWAGE_KERNEL(256) Scale(STOWAGE_PARAMS(ScaleParams) p) { ... }
//
//   LaunchKernel(queue, "scale", Scale, ScaleParams{x, n, 2.0f},
//                {.x = BlocksFor(n, 256)}, 256);
//
// A kernel has one parameter, a struct passed by value. The struct must be trivially copyable and
// must have at most kMaxParamBytes, so that a queue can store it and an emulated device can pass
// it.

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

/// The number of blocks of a kernel launch in each dimension.
struct Grid {
  uint32_t x = 1, y = 1;
};

inline constexpr size_t kMaxParamBytes = 4000;  // CUDA's limit is 4096
/// The maximum number of blocks along y.
inline constexpr int64_t kMaxGridY = 65535;

/// A kernel launch. Blocks are one-dimensional.
struct KernelCall {
  const char* name = "";  // a string literal, for errors and profiles
  const void* function = nullptr;
  const void* params = nullptr;  // copied by the queue
  size_t params_bytes = 0;
  /// Calls `function` with the params, for emulated devices. `params` must be aligned to 64
  /// bytes, because they may contain tensor maps.
  void (*invoke)(const void* function, const void* params) = nullptr;
  Grid grid;
  uint32_t threads = 0;         // per block, a multiple of 32
  uint32_t dynamic_shared = 0;  // bytes per block
};

/// A batch of matrices in memory. The rows of a matrix are contiguous, and `stride` elements apart.
/// If `transposed` is true, the matmul reads the transposes. The matrices are `batch_stride`
/// elements apart. If `batch_stride` is 0, all matmuls of the batch read one matrix.
struct MatrixOperand {
  const std::byte* data = nullptr;
  int64_t stride = 0;
  int64_t batch_stride = 0;
  bool transposed = false;
};

/// Operations on the sums of a matmul before they are rounded, and sums of the matmul's operands.
/// The bias and the addend are added, in an order that depends on the library, before the
/// multiplication by the derivative of gelu_tanh. Null members are absent. Elements have the type
/// of the matmul.
struct MatMulEpilogue {
  const std::byte* bias = nullptr;    // n elements, added to every row
  const std::byte* addend = nullptr;  // a matrix with the layout of c
  /// A matrix with the layout of c. Each sum is multiplied by the derivative of gelu_tanh at the
  /// element of this matrix that has the sum's position.
  const std::byte* gelu_x = nullptr;
  /// These members are results: the sums over k of the operands as the matmul reads them. `a_sums`
  /// has m elements, one per row of a. `b_sums` has n elements, one per column of b. They must be
  /// null if `batch` is not 1.
  std::byte* a_sums = nullptr;
  std::byte* b_sums = nullptr;

  /// Returns whether there is any operation other than an addend, which every library supports.
  bool beyond_addend() const {
    return bias != nullptr || gelu_x != nullptr || a_sums != nullptr ||
           b_sums != nullptr;
  }
};

/// Computes c = a b, or c += a b if `accumulate` is true, with a (m, k), b (k, n) and c (m, n), for
/// each of `batch` matrices. f16 and bf16 are accumulated in f32 and rounded once, after the
/// epilogue.
struct MatMulCall {
  DType dtype = DType::kF32;  // element type of a, b and c: f32, f16 or bf16
  int64_t m = 0, n = 0, k = 0;
  int64_t batch = 1;
  MatrixOperand a, b;
  std::byte* c = nullptr;
  int64_t c_stride = 0;
  int64_t c_batch_stride = 0;
  bool accumulate = false;  // must be false if there is an addend
  MatMulEpilogue epilogue = {};
  std::byte* workspace = nullptr;
  Bytes workspace_bytes = 0;
};

/// The messages to and from the device of one other rank. Both are in device memory. An empty span
/// means no message. The sender and the receiver must agree on the size of a message.
struct PeerMessages {
  int peer = 0;  // the other rank
  std::span<const std::byte> sent = {};
  std::span<std::byte> received = {};
};

/// The value of a fault word if no index of the step has been out of range so far.
inline constexpr uint32_t kNoFault = 0xFFFFFFFF;

/// The word to which the kernels of launch `launch` report that an index is out of range
/// (ReportFault in gpu/simt.h). The word holds the smallest index of a launch that has reported a
/// fault. If it is set, the updates of optimizers write nothing. Other launches still run, and may
/// update values that outlive the step, such as running statistics, unless branches in the graph
/// precede them (EnqueueLaunches in gpu/enqueue.h).
struct FaultSlot {
  uint32_t* word = nullptr;
  uint32_t launch = 0;
};

/// The tensor-core algorithms of 16-bit attention and its gradient. They round at the same points
/// of the computation but may add in different orders. An algorithm is therefore chosen once per
/// launch and reused (gpu/attention_autotuner.h). Of equally fast algorithms, the first in this
/// order is chosen.
///
/// To add an algorithm, add a name here, a row to the table in attention_autotuner.cc, and its
/// functions to the tables in gpu/kernels/attention.cu.cc.
enum class AttentionAlgorithm : uint8_t {
  kWarps,         // warp-level matmuls (mma.sync), which every device supports
  kWarpgroups,    // warpgroup-level matmuls (wgmma)
  kFiveProducts,  // gradient only: warp-level, five matmuls, none recomputed
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
  /// Returns the first algorithm of the set, in the order of AttentionAlgorithm. The set must not
  /// be empty.
  constexpr AttentionAlgorithm first() const {
    return static_cast<AttentionAlgorithm>(std::countr_zero(bits_));
  }
  constexpr AttentionAlgorithms operator&(AttentionAlgorithms other) const {
    other.bits_ &= bits_;
    return other;
  }
  /// Returns the set as a bit mask.
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

  // Errors of these functions are stored. The first one is returned when the program is bound.
  virtual void Launch(const KernelCall& call) = 0;
  virtual void MatMul(const MatMulCall& call) = 0;
  /// Returns whether MatMul supports the epilogue of the call. An addend without other operations
  /// is always supported. The host code of a kernel must call Takes before every MatMul with other
  /// operations, and must make the same calls each time it runs.
  virtual bool Takes(const MatMulCall& call) {
    return !call.epilogue.beyond_addend();
  }
  virtual void Fill(std::byte* to, uint8_t value, Bytes bytes) = 0;
  virtual void Copy(std::byte* to, const std::byte* from, Bytes bytes) = 0;

  /// Returns the algorithm for a launch of attention, which is one of `algorithms`. Returns the
  /// same algorithm each time the launch is enqueued. `algorithms` must not be empty, and all of
  /// them must support the launch.
  virtual AttentionAlgorithm ChooseAttention(const stowage::Launch&,
                                             AttentionAlgorithms algorithms) {
    return algorithms.first();
  }
  /// Returns the encoding of a tensor map for bulk copies (gpu/warpgroup.h). The result is
  /// unspecified after an error, since no work is then launched. Requires a device with tensor
  /// maps.
  virtual TensorMap Encode(const TensorMapSpec&) {
    STOWAGE_CHECK(false);
    return {};
  }

  /// Returns the rank of the device.
  virtual int rank() const { return 0; }
  /// Sends and receives all messages concurrently. `messages` must have at most one entry for each
  /// other rank, and all ranks must make these calls in the same order. With a single rank,
  /// `messages` must be empty.
  virtual void Exchange(std::span<const PeerMessages> messages) {
    STOWAGE_CHECK(messages.empty());
  }

  /// Returns the fault slot of the launch that is being enqueued.
  virtual FaultSlot fault() const = 0;
};

constexpr int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Returns the number of blocks for `n` items, if each block processes `threads` items. Returns at
/// least 1.
constexpr uint32_t BlocksFor(int64_t n, int64_t threads) {
  const int64_t blocks = CeilDiv(n, threads);
  return static_cast<uint32_t>(blocks < 1 ? 1 : blocks);
}

/// Enqueues a launch of `kernel` with `params`. `threads` and `dynamic_shared` are per block.
/// `name` must be a string literal.
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

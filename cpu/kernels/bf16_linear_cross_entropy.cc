// linear_cross_entropy and its gradient of bf16 by pairs (bf16_gemm.h): logits are f32, and
// their gradients are rounded before they are multiplied. Where there are several chunks, dw
// is summed in f32 in scratch.

#include <algorithm>
#include <array>

#include "cpu/kernel.h"
#include "cpu/kernels/bf16_kernels.h"
#include "cpu/kernels/bf16_matmul.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/half_floats.h"
#include "cpu/kernels/linear_cross_entropy.h"
#include "cpu/kernels/vec.h"

#ifdef STOWAGE_CPU_BF16_PAIRS

namespace stowage::cpu {
namespace {

struct Bf16Work : Work<float> {
  Bf16Work(const Shape& x, const Shape& w, const Attrs& attrs)
      : Work<float>(x, w, attrs),
        matmuls(std::max(chunk, vocabulary), std::max(width, vocabulary),
                std::max({chunk, width, vocabulary})) {}

  bool sums_dw() const { return rows > chunk; }
  Bytes scratch_bytes(int threads) const {
    return sums_bytes() + logits_bytes() + threads * matmuls.bytes();
  }
  Bytes dw_bytes() const { return vocabulary * width * SizeOf(DType::kF32); }

  std::byte* of_matmuls(const Launch& launch) const {
    return launch.workspace.data() + sums_bytes() + logits_bytes();
  }
  float* dw(const Launch& launch, int threads) const {
    return reinterpret_cast<float*>(launch.workspace.data() +
                                    scratch_bytes(threads));
  }

  Bf16Scratch matmuls;
};

class Bf16Weights {
 public:
  Bf16Weights(const Launch& launch, const Bf16Work& work)
      : launch_(launch), work_(work) {}

  // Rows of x from `first` on.
  Strided<const uint16_t> x(int64_t first) const {
    return {launch_.inputs[0].as<const uint16_t>() + first * work_.width,
            work_.width, 1};
  }
  const uint16_t* data() const {
    return launch_.inputs[1].as<const uint16_t>();
  }

  // logits (m, V) = x (m, C) w^T.
  void MakeLogits(ThreadPool& pool, int64_t first, int64_t m,
                  float* logits) const {
    MultiplyBf16(
        pool, m, work_.vocabulary, work_.width, x(first),
        {data(), 1, work_.width}, work_.matmuls, work_.of_matmuls(launch_),
        [&](int64_t row, int64_t column, int64_t rows, int64_t columns,
            Rows<float> sums) {
          for (int64_t i = 0; i < rows; ++i) {
            std::copy_n(sums.At(i, 0).data, columns,
                        logits + (row + i) * work_.vocabulary + column);
          }
        });
  }

 private:
  const Launch& launch_;
  const Bf16Work& work_;
};

// Rounds each row of f32 in place: element j of a row is behind it, at half the distance.
void NarrowRows(int64_t rows, int64_t n, float* x, ThreadPool& pool) {
  ParallelRanges(pool, rows, RowsPerChunk(n), [&](int64_t begin, int64_t end) {
    constexpr int64_t kBlock = 512;
    std::array<std::byte, 2 * kBlock> narrow;
    for (int64_t row = begin; row < end; ++row) {
      auto* const to = reinterpret_cast<std::byte*>(x + row * n);
      for (int64_t j = 0; j < n; j += kBlock) {
        const int64_t count = std::min(kBlock, n - j);
        Narrow(DType::kBF16, count, x + row * n + j, narrow.data());
        std::copy_n(narrow.data(), 2 * count, to + 2 * j);
      }
    }
  });
}

template <typename Label>
void RunBf16Grad(const Launch& launch, const Label* labels, ThreadPool& pool) {
  const Bf16Work work(launch.inputs[0].shape(), launch.inputs[1].shape(),
                      *launch.attrs);
  const Bf16Weights w(launch, work);
  const int64_t n = work.vocabulary;
  const int64_t width = work.width;
  const bool has_dw = launch.outputs.size() > 2;
  float* const dw_sums = work.dw(launch, pool.threads());
  // Rounds what is complete to rows of y.
  const auto round_to = [width](std::byte* y) {
    return [width, y](int64_t row, int64_t column, int64_t rows,
                      int64_t columns, Rows<float> sums) {
      for (int64_t i = 0; i < rows; ++i) {
        Narrow(DType::kBF16, columns, sums.At(i, 0).data,
               y + 2 * ((row + i) * width + column));
      }
    };
  };
  RunGradBy(launch, work, w, labels, pool, [&](int64_t first, int64_t count) {
    float* const logits = work.logits(launch);
    NarrowRows(count, n, logits, pool);
    const auto* const dlogits = reinterpret_cast<const uint16_t*>(logits);
    const auto multiply_dw = [&](const auto& done) {
      MultiplyBf16(pool, n, width, count, {dlogits, 1, 2 * n}, w.x(first),
                   work.matmuls, work.of_matmuls(launch), done);
    };
    if (has_dw && !work.sums_dw()) {
      multiply_dw(round_to(launch.outputs[2].data));
    } else if (has_dw) {
      multiply_dw([&](int64_t row, int64_t column, int64_t rows,
                      int64_t columns, Rows<float> sums) {
        for (int64_t i = 0; i < rows; ++i) {
          float* const to = dw_sums + (row + i) * width + column;
          ForEachVec<float>(columns, [&](auto at) {
            const Vec<float> sum = at.Load(sums.At(i, 0).data);
            at.Store(to, first > 0 ? at.Load(to) + sum : sum);
          });
        }
      });
    }
    MultiplyBf16(pool, count, width, n, {dlogits, 2 * n, 1},
                 {w.data(), width, 1}, work.matmuls, work.of_matmuls(launch),
                 round_to(launch.outputs[1].data + 2 * first * width));
  });
  if (!has_dw || !work.sums_dw()) return;
  ParallelRanges(pool, n * width, kChunkElements,
                 [&](int64_t begin, int64_t end) {
                   Narrow(DType::kBF16, end - begin, dw_sums + begin,
                          launch.outputs[2].data + 2 * begin);
                 });
}

StepCode RunLinearCrossEntropyByPairs(const Launch& launch,
                                      ThreadPool& pool) noexcept {
  return WithLabels(launch, [&](auto, const auto* labels) {
    const Bf16Work work(launch.inputs[0].shape(), launch.inputs[1].shape(),
                        *launch.attrs);
    RunForwardBy(launch, work, Bf16Weights(launch, work), labels, pool);
  });
}
StepCode RunLinearCrossEntropyGradByPairs(const Launch& launch,
                                          ThreadPool& pool) noexcept {
  return WithLabels(launch, [&](auto, const auto* labels) {
    RunBf16Grad(launch, labels, pool);
  });
}

Bytes WorkspaceByPairs(const OpArgs& args, std::span<const TensorType> results,
                       int threads) {
  const Bf16Work work(args.shape(0), args.shape(1), args.attrs);
  const bool has_dw = results.size() > 2;
  return work.scratch_bytes(threads) +
         (has_dw && work.sums_dw() ? work.dw_bytes() : 0);
}

// Matrices of blocks are multiplied in f32.
bool Supports(const OpArgs& args) {
  return SupportsBf16(args) && (IsComputedFloat(args.type(0).dtype) ||
                                args.attrs.Int("blocks") == kNoBlocks);
}

}  // namespace

namespace bf16_kernels {

constinit const CpuKernel LinearCrossEntropy =
    Bf16Kernel<kernels::LinearCrossEntropy, RunLinearCrossEntropyByPairs,
               WorkspaceByPairs>(Supports);
constinit const CpuKernel LinearCrossEntropyGrad =
    Bf16Kernel<kernels::LinearCrossEntropyGrad,
               RunLinearCrossEntropyGradByPairs, WorkspaceByPairs>(Supports);

}  // namespace bf16_kernels

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_BF16_PAIRS

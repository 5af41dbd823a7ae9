// linear_cross_entropy and its gradient, by chunks of rows: the logits of a chunk are
// computed in scratch and reduced to its loss; for the gradient they are replaced by
// dlogits, which two more matmuls turn into the chunk's dx and its share of dw.
//
// The sums of dw continue from chunk to chunk, so gradients are, bit for bit, those of
// matmul and cross_entropy on all rows at once, up to kBlockDepth rows; beyond, matmul
// splits its sums elsewhere.
//
// For bf16 by pairs (bf16_gemm.h), logits are f32, and their gradients are rounded before
// they are multiplied. With several chunks, dw is summed in f32 in scratch.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "cpu/kernel.h"
#include "cpu/kernels/bf16_matmul.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/gemm.h"
#include "cpu/kernels/kernel_table.h"
#include "cpu/kernels/rows.h"
#include "cpu/kernels/strided.h"
#include "cpu/kernels/vec.h"
#include "ir/attrs.h"
#include "ir/weight_type.h"
#include "runtime/kernel.h"

namespace stowage::cpu {
namespace {

// Sizes and the layout of the scratch: sums of parts of a chunk's rows, a chunk's logits, the
// matmuls' strips.
template <typename T>
struct Work {
  int64_t rows, width, vocabulary;
  int64_t chunk;  // rows of one
  int64_t strip;  // elements a thread
  T softcap;      // of the logits; 0 for none

  Work(const Shape& x, const Shape& w, const Attrs& attrs)
      : rows(x.num_elements() / x.back()),
        width(x.back()),
        vocabulary(w[0]),
        chunk(std::min(attrs.Int("chunk"), rows)),
        strip(attrs.Int("blocks") != kNoBlocks
                  ? QuantizedScratch<T>(
                        static_cast<WeightType>(attrs.Int("blocks")))
                  : StripElements<T>(std::max({width, vocabulary, chunk}))),
        softcap(static_cast<T>(attrs.FloatOr("softcap", 0))) {}

  int64_t piece() const { return RowsPerChunk(vocabulary); }
  Bytes sums_bytes() const {
    return AlignUp(CeilDiv(chunk, piece()) * SizeOf(DType::kF64),
                   kWorkspaceAlignment);
  }
  Bytes logits_bytes() const {
    return AlignUp(chunk * vocabulary * SizeOf(DTypeOf<T>()),
                   kWorkspaceAlignment);
  }
  Bytes bytes(int threads) const {
    return sums_bytes() + logits_bytes() +
           threads * strip * SizeOf(DTypeOf<T>());
  }

  double* sums(const Launch& launch) const {
    return reinterpret_cast<double*>(launch.workspace.data());
  }
  T* logits(const Launch& launch) const {
    return reinterpret_cast<T*>(launch.workspace.data() + sums_bytes());
  }
  T* strips(const Launch& launch) const {
    return reinterpret_cast<T*>(launch.workspace.data() + sums_bytes() +
                                logits_bytes());
  }
};

template <typename T>
void CapLogits(int64_t n, T cap, T* logits) {
  const Vec<T> caps = Vec<T>::All(cap), factor = Vec<T>::All(1 / cap);
  ForEachVec<T>(n, [&](auto at) {
    at.Store(logits, Tanh(at.Load(logits) * factor) * caps);
  });
}

// LogitsGrad in place of capped logits, by the uncapped ones.
template <typename T>
void CappedLogitsGrad(int64_t n, T cap, T log_sum_exp, int64_t label, T factor,
                      T* logits) {
  const Vec<T> shift = Vec<T>::All(log_sum_exp), one = Vec<T>::All(1);
  const Vec<T> factors = Vec<T>::All(factor), inverse = Vec<T>::All(1 / cap);
  const T of_label = logits[label] / cap;
  ForEachVec<T>(n, [&](auto at) {
    const Vec<T> capped = at.Load(logits), bent = capped * inverse;
    at.Store(logits, Exp(capped - shift) * factors * (one - bent * bent));
  });
  logits[label] -= factor * (1 - of_label * of_label);
}

// Makes the logits of every chunk by `w`, adds up the loss into output 0, and calls
// row(logits, number of the row, log-sum-exp, loss) for each row, whose loss is not yet
// weighted, and then chunk(first row, rows) for each chunk.
template <typename T, typename W, typename Label, typename RowFn,
          typename ChunkFn>
void ForChunks(const Launch& launch, const Work<T>& work, const W& w,
               const Label* labels, const T* row_weights, ThreadPool& pool,
               RowFn&& row_fn, ChunkFn&& chunk_fn) {
  T* logits = work.logits(launch);
  double* sums = work.sums(launch);
  const int64_t n = work.vocabulary;
  double total = 0;
  for (int64_t first = 0; first < work.rows; first += work.chunk) {
    const int64_t count = std::min(work.chunk, work.rows - first);
    w.MakeLogits(pool, first, count, logits);
    ParallelRanges(pool, count, work.piece(), [&](int64_t begin, int64_t end) {
      double sum = 0;
      for (int64_t row = begin; row < end; ++row) {
        T* of_row = logits + row * n;
        if (work.softcap > 0) CapLogits(n, work.softcap, of_row);
        const T log_sum_exp = LogSumExp(n, of_row);
        const double weight =
            row_weights == nullptr ? 1 : double{row_weights[first + row]};
        const double loss =
            double{log_sum_exp} - double{of_row[labels[first + row]]};
        sum += weight * loss;
        row_fn(of_row, first + row, log_sum_exp, static_cast<T>(loss));
      }
      sums[begin / work.piece()] = sum;
    });
    for (int64_t i = 0; i < CeilDiv(count, work.piece()); ++i) total += sums[i];
    chunk_fn(first, count);
  }
  *launch.outputs[0].as<T>() =
      static_cast<T>(total / static_cast<double>(work.rows));
}

// Operand i, if it is there: a weight for each row.
template <typename T>
const T* RowWeights(const Launch& launch, size_t i) {
  return i < launch.inputs.size() ? launch.inputs[i].as<const T>() : nullptr;
}

template <typename T, typename W, typename Label>
void RunForwardBy(const Launch& launch, const Work<T>& work, const W& w,
                  const Label* labels, ThreadPool& pool) {
  T* losses = launch.outputs[1].as<T>();
  ForChunks<T>(
      launch, work, w, labels, RowWeights<T>(launch, 3), pool,
      [&](T*, int64_t row, T, T loss) { losses[row] = loss; },
      [](int64_t, int64_t) {});
}

// chunk(first row, rows) is called when the gradient of a chunk's logits is where they were.
template <typename T, typename W, typename Label, typename ChunkFn>
void RunGradBy(const Launch& launch, const Work<T>& work, const W& w,
               const Label* labels, ThreadPool& pool, ChunkFn&& chunk_fn) {
  const T* row_weights = RowWeights<T>(launch, 4);
  const T factor = *launch.inputs[3].as<const T>() / static_cast<T>(work.rows);
  const int64_t n = work.vocabulary;
  ForChunks<T>(
      launch, work, w, labels, row_weights, pool,
      [&](T* logits, int64_t row, T log_sum_exp, T) {
        const T of_row =
            row_weights == nullptr ? factor : factor * row_weights[row];
        if (work.softcap > 0) {
          CappedLogitsGrad<T>(n, work.softcap, log_sum_exp, labels[row], of_row,
                              logits);
        } else {
          LogitsGrad<T>(n, logits, log_sum_exp, labels[row], of_row, logits);
        }
      },
      chunk_fn);
}

// run(T zero, labels) when all labels are in range.
template <typename F>
StepCode WithLabels(const Launch& launch, F&& run) {
  const TensorView& labels = launch.inputs[2];
  return OnIndex(labels.dtype(), [&](auto label_zero) {
    const auto* values = labels.as<const decltype(label_zero)>();
    if (!InRange(values, labels.size(), launch.inputs[1].shape()[0])) {
      return StepCode::kIndexOutOfRange;
    }
    OnFloat(ComputedIn(launch.inputs[0].dtype()),
            [&](auto zero) { run(zero, values); });
    return StepCode::kOk;
  });
}

// --- f32 and f64 -------------------------------------------------------------

// w, of floats or of blocks.
template <typename T>
class Weights {
 public:
  Weights(const Launch& launch, const Work<T>& work)
      : x_(launch.inputs[0].as<const T>()),
        bytes_(launch.inputs[1]),
        attrs_(*launch.attrs),
        rows_(work.vocabulary),
        width_(work.width),
        scratch_(work.strips(launch)) {}

  const T* data() const { return bytes_.as<const T>(); }
  bool in_blocks() const { return attrs_.Int("blocks") != kNoBlocks; }

  // y (m, V) = the m rows of x (C) from `first` on, times w^T.
  void MakeLogits(ThreadPool& pool, int64_t first, int64_t m, T* y) const {
    const T* const x = x_ + first * width_;
    if (in_blocks()) return MultiplyBlocks(pool, m, x, true, y);
    Product<T>(pool, m, rows_, width_, {x, width_, 1}, {data(), 1, width_},
               {y, rows_}, /*accumulate=*/false, scratch_);
  }
  // y (m, C) = x (m, V) w.
  void Multiply(ThreadPool& pool, int64_t m, const T* x, T* y) const {
    if (in_blocks()) return MultiplyBlocks(pool, m, x, false, y);
    Product<T>(pool, m, width_, rows_, {x, rows_, 1}, {data(), width_, 1},
               {y, width_}, /*accumulate=*/false, scratch_);
  }

 private:
  void MultiplyBlocks(ThreadPool& pool, int64_t m, const T* x, bool transposed,
                      T* y) const {
    const BlockMatrix w(bytes_, attrs_);
    QuantizedProduct<T>(pool, m, {x, transposed ? width_ : rows_, 1}, w,
                        transposed, {y, transposed ? rows_ : width_}, scratch_);
  }

  const T* const x_;
  const TensorView& bytes_;
  const Attrs& attrs_;
  const int64_t rows_, width_;
  T* const scratch_;
};

template <typename T, typename Label>
void RunForward(const Launch& launch, const Label* labels, ThreadPool& pool) {
  const Work<T> work(launch.inputs[0].shape(), launch.inputs[1].shape(),
                     *launch.attrs);
  RunForwardBy(launch, work, Weights<T>(launch, work), labels, pool);
}

template <typename T, typename Label>
void RunGrad(const Launch& launch, const Label* labels, ThreadPool& pool) {
  const Work<T> work(launch.inputs[0].shape(), launch.inputs[1].shape(),
                     *launch.attrs);
  const T* x = launch.inputs[0].as<const T>();
  const Weights<T> w(launch, work);
  T* dx = launch.outputs[1].as<T>();
  T* dw = launch.outputs.size() > 2 ? launch.outputs[2].as<T>() : nullptr;
  T* dlogits = work.logits(launch);
  const int64_t n = work.vocabulary;
  const int64_t width = work.width;
  RunGradBy(launch, work, w, labels, pool, [&](int64_t first, int64_t count) {
    if (dw != nullptr) {
      Product<T>(pool, n, width, count, {dlogits, 1, n},
                 {x + first * width, width, 1}, {dw, width},
                 /*accumulate=*/first > 0, work.strips(launch));
    }
    w.Multiply(pool, count, dlogits, dx + first * width);
  });
}

StepCode RunLinearCrossEntropy(const Launch& launch,
                               ThreadPool& pool) noexcept {
  return WithLabels(launch, [&](auto zero, const auto* labels) {
    RunForward<decltype(zero)>(launch, labels, pool);
  });
}
StepCode RunLinearCrossEntropyGrad(const Launch& launch,
                                   ThreadPool& pool) noexcept {
  return WithLabels(launch, [&](auto zero, const auto* labels) {
    RunGrad<decltype(zero)>(launch, labels, pool);
  });
}

Bytes Workspace(const OpArgs& args, std::span<const TensorType>, int threads) {
  return OnFloat(args.type(0).dtype, [&](auto zero) {
    return Work<decltype(zero)>(args.shape(0), args.shape(1), args.attrs)
        .bytes(threads);
  });
}

}  // namespace

namespace kernels {

constinit const CpuKernel LinearCrossEntropy = {.run = RunLinearCrossEntropy,
                                                .workspace = Workspace};
constinit const CpuKernel LinearCrossEntropyGrad = {
    .run = RunLinearCrossEntropyGrad, .workspace = Workspace};

}  // namespace kernels

// --- bf16 by pairs -----------------------------------------------------------

#ifdef STOWAGE_CPU_BF16_PAIRS

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

// Rounds each row of f32 in place: element j moves to half its distance.
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
  // Rounds complete sums to rows of y.
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

#endif  // STOWAGE_CPU_BF16_PAIRS

}  // namespace stowage::cpu

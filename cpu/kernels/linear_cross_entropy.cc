// linear_cross_entropy and its gradient, by chunks of rows: a chunk's logits lie
// in scratch, become its loss, and for the gradient its dlogits in place, which
// two more products turn into the chunk's dx and its share of dw.
//
// Every element of a product is one chain of multiply-adds, and dw's chains go
// on from chunk to chunk, so gradients are, bit for bit, those of matmul and
// cross_entropy on all rows at once.

#include <algorithm>

#include "cpu/kernel.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/cross_entropy_rows.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/gemm.h"
#include "cpu/kernels/product.h"

namespace stowage::cpu {
namespace {

// Sizes, and where in the scratch things lie: sums of pieces of a chunk's rows,
// a chunk's logits, the products' strips.
template <typename T>
struct Work {
  int64_t rows, width, vocabulary;
  int64_t chunk;  // rows of one
  int64_t strip;  // elements a thread

  Work(const Shape& x, const Shape& w, const Attrs& attrs)
      : rows(x.num_elements() / x.back()),
        width(x.back()),
        vocabulary(w[0]),
        chunk(std::min(attrs.Int("chunk"), rows)),
        strip(StripElements<T>(std::max({width, vocabulary, chunk}))) {}

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

// Makes the logits of every chunk, adds up the loss into output 0, and calls
// row(logits, number of the row, log-sum-exp) for each row and then
// chunk(first row, rows) for each chunk.
template <typename T, typename Label, typename RowFn, typename ChunkFn>
void ForChunks(const Launch& launch, const Work<T>& work, const Label* labels,
               ThreadPool& pool, RowFn&& row_fn, ChunkFn&& chunk_fn) {
  const T* x = launch.inputs[0].as<const T>();
  const T* w = launch.inputs[1].as<const T>();
  T* logits = work.logits(launch);
  double* sums = work.sums(launch);
  const int64_t n = work.vocabulary;
  double total = 0;
  for (int64_t first = 0; first < work.rows; first += work.chunk) {
    const int64_t count = std::min(work.chunk, work.rows - first);
    Product<T>(pool, count, n, work.width,
               {x + first * work.width, work.width, 1}, {w, 1, work.width},
               {logits, n}, /*accumulate=*/false, work.strips(launch));
    ParallelRanges(pool, count, work.piece(), [&](int64_t begin, int64_t end) {
      double sum = 0;
      for (int64_t row = begin; row < end; ++row) {
        T* of_row = logits + row * n;
        const T log_sum_exp = LogSumExp(n, of_row);
        sum += double{log_sum_exp} - double{of_row[labels[first + row]]};
        row_fn(of_row, first + row, log_sum_exp);
      }
      sums[begin / work.piece()] = sum;
    });
    for (int64_t i = 0; i < CeilDiv(count, work.piece()); ++i) total += sums[i];
    chunk_fn(first, count);
  }
  *launch.outputs[0].as<T>() =
      static_cast<T>(total / static_cast<double>(work.rows));
}

template <typename T, typename Label>
void RunForward(const Launch& launch, const Label* labels, ThreadPool& pool) {
  const Work<T> work(launch.inputs[0].shape(), launch.inputs[1].shape(),
                     *launch.attrs);
  T* log_sum_exps = launch.outputs[1].as<T>();
  ForChunks<T>(
      launch, work, labels, pool,
      [&](T*, int64_t row, T log_sum_exp) { log_sum_exps[row] = log_sum_exp; },
      [](int64_t, int64_t) {});
}

template <typename T, typename Label>
void RunGrad(const Launch& launch, const Label* labels, ThreadPool& pool) {
  const Work<T> work(launch.inputs[0].shape(), launch.inputs[1].shape(),
                     *launch.attrs);
  const T* x = launch.inputs[0].as<const T>();
  const T* w = launch.inputs[1].as<const T>();
  const T factor = *launch.inputs[3].as<const T>() / static_cast<T>(work.rows);
  T* dx = launch.outputs[1].as<T>();
  T* dw = launch.outputs[2].as<T>();
  T* dlogits = work.logits(launch);
  const int64_t n = work.vocabulary;
  const int64_t width = work.width;
  ForChunks<T>(
      launch, work, labels, pool,
      [&](T* logits, int64_t row, T log_sum_exp) {
        LogitsGrad<T>(n, logits, log_sum_exp, labels[row], factor, logits);
      },
      [&](int64_t first, int64_t count) {
        Product<T>(pool, n, width, count, {dlogits, 1, n},
                   {x + first * width, width, 1}, {dw, width},
                   /*accumulate=*/first > 0, work.strips(launch));
        Product<T>(pool, count, width, n, {dlogits, n, 1}, {w, width, 1},
                   {dx + first * width, width}, /*accumulate=*/false,
                   work.strips(launch));
      });
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
    OnFloat(launch.inputs[0].dtype(), [&](auto zero) { run(zero, values); });
    return StepCode::kOk;
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
}  // namespace stowage::cpu

#ifndef STOWAGE_CPU_KERNELS_LINEAR_CROSS_ENTROPY_H_
#define STOWAGE_CPU_KERNELS_LINEAR_CROSS_ENTROPY_H_

// What linear_cross_entropy and its gradient do by chunks of rows, however these are
// multiplied: a chunk's logits lie in scratch, become its loss, and for the gradient its
// dlogits in place.
//
//   RunForwardBy(launch, work, Weights<float>(launch, work), labels, pool);

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "cpu/kernel.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/cross_entropy_rows.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/product.h"
#include "cpu/kernels/vec.h"
#include "cpu/kernels/weight_blocks.h"
#include "ir/attrs.h"
#include "ir/weight_type.h"

namespace stowage::cpu {

// Sizes, and where in the scratch things lie: sums of pieces of a chunk's rows,
// a chunk's logits, the products' strips.
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

// LogitsGrad in place of capped logits, by what they were before.
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

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNELS_LINEAR_CROSS_ENTROPY_H_

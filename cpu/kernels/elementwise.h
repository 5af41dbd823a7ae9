#ifndef STOWAGE_CPU_KERNELS_ELEMENTWISE_H_
#define STOWAGE_CPU_KERNELS_ELEMENTWISE_H_

// The loop under every elementwise kernel: operands of one shape and any
// strides, a contiguous result that may lie over a contiguous operand.
//
// The body sees contiguous runs only. An operand that is strided or repeated
// within a run is staged, a block at a time, through a buffer on the stack, so
// that there is one body an op and it computes the same for every layout.
//
//   Elementwise<float, float, float>(launch, pool,
//       [](int64_t n, int64_t index, float* y, const float* a,
//          const float* b) { ... });

#include <array>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <utility>

#include "cpu/kernels/chunks.h"
#include "cpu/kernels/strided.h"
#include "cpu/kernels/vec.h"
#include "cpu/thread_pool.h"
#include "runtime/kernel.h"

namespace stowage::cpu {
namespace internal {

inline constexpr int64_t kStageElements = 512;

// One operand within a run: its elements, contiguous.
template <typename T>
class Stage {
 public:
  void StartRun(const T* first, int64_t stride, int64_t count) {
    first_ = first;
    stride_ = stride;
    if (stride == 0) {
      std::fill(buffer_, buffer_ + std::min(count, kStageElements), *first);
    }
  }
  bool direct() const { return stride_ == 1; }
  // Elements [i, i + count) of the run.
  const T* Get(int64_t i, int64_t count) {
    if (stride_ == 1) return first_ + i;
    if (stride_ != 0) {
      for (int64_t j = 0; j < count; ++j) {
        buffer_[j] = first_[(i + j) * stride_];
      }
    }
    return buffer_;
  }

 private:
  const T* first_ = nullptr;
  int64_t stride_ = 1;
  alignas(64) T buffer_[kStageElements];
};

template <typename Out, typename... In, typename Body, size_t... k>
void Elementwise(const Launch& launch, ThreadPool& pool, const Body& body,
                 std::index_sequence<k...>) {
  const TensorView& y = launch.outputs[0];
  const StridedWalk<sizeof...(In)> walk(y.shape(),
                                        {&launch.inputs[k].strides...});
  ParallelRanges(
      pool, y.size(), kChunkElements, [&](int64_t begin, int64_t end) {
        std::tuple<Stage<In>...> stages;
        walk.Runs(begin, end,
                  [&](int64_t index, const auto& offsets, int64_t count) {
                    (std::get<k>(stages).StartRun(
                         launch.inputs[k].template as<const In>() + offsets[k],
                         count == 1 ? 1 : walk.inner(k), count),
                     ...);
                    const bool direct = (std::get<k>(stages).direct() && ...);
                    const int64_t block = direct ? count : kStageElements;
                    for (int64_t i = 0; i < count; i += block) {
                      const int64_t n = std::min(block, count - i);
                      body(n, index + i, y.as<Out>() + index + i,
                           std::get<k>(stages).Get(i, n)...);
                    }
                  });
      });
}

}  // namespace internal

/// Runs body(n, index, y, operands...) over the elements of the launch's
/// result: n elements from element number `index` on, y and the operands at
/// those elements, contiguous. The element types are Out and In....
template <typename Out, typename... In, typename Body>
void Elementwise(const Launch& launch, ThreadPool& pool, const Body& body) {
  internal::Elementwise<Out, In...>(launch, pool, body,
                                    std::index_sequence_for<In...>{});
}

/// y = f(operands...) in registers of T: f takes and gives Vec<T>.
template <typename F, typename T, typename... In>
void MapVec(const F& f, int64_t n, T* y, const In*... x) {
  ForEachVec<T>(n, [&](auto at) { at.Store(y, f(at.Load(x)...)); });
}

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNELS_ELEMENTWISE_H_

#ifndef STOWAGE_CPU_KERNELS_ELEMENTWISE_H_
#define STOWAGE_CPU_KERNELS_ELEMENTWISE_H_

// Provides the loop of elementwise kernels. Operands have one shape and any strides. The result
// is contiguous and may overwrite a contiguous operand.
//
// The body of the loop sees only contiguous ranges. An operand that is strided or repeated
// within a range is copied, one block at a time, through a buffer on the stack. Each op
// therefore needs only one body, which computes the same for every layout. Operands and results
// of f16 and bf16 are converted in the same way if the body computes in f32. Results are
// rounded once.
//
//   Elementwise<float, float, float>(launch, pool,
//       [](int64_t n, int64_t index, float* y, const float* a,
//          const float* b) { ... });

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/vec.h"
#include "cpu/thread_pool.h"
#include "ir/attrs.h"
#include "ir/tensor_type.h"
#include "runtime/kernel.h"

namespace stowage::cpu {
namespace internal {

// A body without its types. The loop is compiled once, and not once per op and element type.
struct ElementwiseBody {
  const void* body;
  void (*run)(const void* body, int64_t n, int64_t index, std::byte* y,
              const std::byte* const* operands);
  // The sizes in bytes of the body's elements: of the result, then of each operand.
  std::array<size_t, 4> widths;
};
inline constexpr size_t kMaxOperands = 4;
struct BlockBody {
  const void* body;
  void (*run)(const void* body, int64_t n, int64_t index,
              const std::byte* const* operands);
};
struct ManyBody {
  const void* body;
  void (*run)(const void* body, int64_t n, const std::byte* const* x,
              std::byte* const* y);
};

// Runs the body over the first `operands` inputs of the launch. `operands` must be 1, 2 or 3.
void RunElementwise(const Launch& launch, ThreadPool& pool, int operands,
                    ElementwiseBody body);
// Runs the body over all inputs of the launch, at most kMaxBlockOperands, with elements of
// `width` bytes in the body.
inline constexpr size_t kMaxBlockOperands = 5;
void RunBlocks(const Launch& launch, ThreadPool& pool, size_t width,
               BlockBody body);
// Runs the body over the first `operands` inputs and all results, at most kMaxOperands of each,
// with elements of `width` bytes in the body.
void RunMany(const Launch& launch, ThreadPool& pool, size_t operands,
             size_t width, ManyBody body);

template <typename Out, typename... In, typename Body, size_t... k>
void CallTyped(const Body& body, int64_t n, int64_t index, std::byte* y,
               const std::byte* const* operands, std::index_sequence<k...>) {
  body(n, index, reinterpret_cast<Out*>(y),
       reinterpret_cast<const In*>(operands[k])...);
}

}  // namespace internal

/// Runs body(n, index, y, operands...) over the elements of the launch's result. Each call
/// computes the n elements starting at element `index`, where y and the operands are
/// contiguous. The element types are Out and In..., which must be the launch's types, or float
/// for f16 and bf16.
template <typename Out, typename... In, typename Body>
void Elementwise(const Launch& launch, ThreadPool& pool, const Body& body) {
  const auto run = [](const void* typed, int64_t n, int64_t index, std::byte* y,
                      const std::byte* const* operands) {
    internal::CallTyped<Out, In...>(*static_cast<const Body*>(typed), n, index,
                                    y, operands,
                                    std::index_sequence_for<In...>{});
  };
  internal::RunElementwise(launch, pool, sizeof...(In),
                           {&body, run, {sizeof(Out), sizeof(In)...}});
}

/// The maximum number of elements in a block.
inline constexpr int64_t kBlockElements = 512;

/// Runs body(n, index, operands) over blocks of the elements of the launch's results. Each call
/// computes the n elements starting at element `index`. `operands` has a pointer to contiguous
/// elements of type T for each input, of which there are at most kMaxBlockOperands. The
/// launch's elements must have the size of T, or be f16 or bf16 if T is float. The body stores
/// its results itself.
template <typename T, typename Body>
void ElementwiseBlocks(const Launch& launch, ThreadPool& pool,
                       const Body& body) {
  const auto run = [](const void* typed, int64_t n, int64_t index,
                      const std::byte* const* operands) {
    (*static_cast<const Body*>(typed))(n, index, operands);
  };
  internal::RunBlocks(launch, pool, sizeof(T), {&body, run});
}

/// Calls f(place, in, out) for the registers of T that cover all elements of the launch's
/// results. `in` has a pointer to T for each of the first `operands` inputs, and `out` has one
/// for each result. All of them must be contiguous and of one size, and of type T, or f16 or
/// bf16 if T is float. A result may overwrite an operand, so f must load before it stores.
template <typename T, typename F>
void ElementwiseMany(const Launch& launch, ThreadPool& pool, size_t operands,
                     const F& f) {
  const auto run = [](const void* typed, int64_t n, const std::byte* const* x,
                      std::byte* const* y) {
    std::array<const T*, internal::kMaxOperands> in;
    std::array<T*, internal::kMaxOperands> out;
    for (size_t k = 0; k < internal::kMaxOperands; ++k) {
      in[k] = reinterpret_cast<const T*>(x[k]);
      out[k] = reinterpret_cast<T*>(y[k]);
    }
    ForEachVec<T>(
        n, [&](auto at) { (*static_cast<const F*>(typed))(at, in, out); });
  };
  internal::RunMany(launch, pool, operands, sizeof(T), {&f, run});
}

/// Computes y = f(operands...) in registers of T, where f maps Vec<T> to Vec<T>.
template <typename F, typename T, typename... In>
void MapVec(const F& f, int64_t n, T* y, const In*... x) {
  ForEachVec<T>(n, [&](auto at) { at.Store(y, f(at.Load(x)...)); });
}

/// Computes the same as MapVec, but is compiled only once, so all callers get the same bits.
template <typename F, typename T, typename... In>
[[gnu::noinline]] void MapBlock(const F& f, int64_t n, T* y, const In*... x) {
  MapVec(f, n, y, x...);
}

namespace internal {

template <size_t kOperands, typename F>
void CallBlock(const F& f, DType dtype, int64_t n, std::byte* y,
               const std::byte* const* x) {
  static_assert(kOperands == 1 || kOperands == 2);
  OnFloat(dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* a = reinterpret_cast<const T*>(x[0]);
    if constexpr (kOperands == 1) {
      MapBlock(f, n, reinterpret_cast<T*>(y), a);
    } else {
      MapBlock(f, n, reinterpret_cast<T*>(y), a,
               reinterpret_cast<const T*>(x[1]));
    }
  });
}

}  // namespace internal

/// CpuKernel::block for an op without attributes that computes F of kOperands operands.
template <typename F, size_t kOperands>
void BlockOf(const Attrs&, DType dtype, int64_t n, std::byte* y,
             const std::byte* const* x) {
  internal::CallBlock<kOperands>(F(), dtype, n, y, x);
}
/// CpuKernel::block for an op that computes F(attrs) of kOperands operands.
template <typename F, size_t kOperands>
void BlockWithAttrs(const Attrs& attrs, DType dtype, int64_t n, std::byte* y,
                    const std::byte* const* x) {
  internal::CallBlock<kOperands>(F(attrs), dtype, n, y, x);
}

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNELS_ELEMENTWISE_H_

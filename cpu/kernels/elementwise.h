#ifndef STOWAGE_CPU_KERNELS_ELEMENTWISE_H_
#define STOWAGE_CPU_KERNELS_ELEMENTWISE_H_

// Provides the loop of elementwise kernels. All operands have the shape of the result, and any
// strides. The result is contiguous and may overwrite a contiguous operand.
//
// The body of the loop receives only contiguous ranges. If an operand is strided or broadcast
// within a range, blocks of it are copied to a buffer on the stack. Each op therefore needs only
// one body, which computes the same bits for every layout. If the body computes in f32, f16 and
// bf16 operands and results are converted through buffers on the stack, too. Results are rounded
// once.
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

// A body whose types have been erased, so that the loop is not compiled for each op and element
// type.
struct ElementwiseBody {
  const void* body;
  void (*run)(const void* body, int64_t n, int64_t index, std::byte* y,
              const std::byte* const* operands);
  // The element sizes in bytes: first of the result, then of each operand.
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

// Implements Elementwise, with the first `operands` inputs of the launch. `operands` must be 1, 2
// or 3.
void RunElementwise(const Launch& launch, ThreadPool& pool, int operands,
                    ElementwiseBody body);
// Implements ElementwiseBlocks. The elements that the body reads have `width` bytes. The launch
// must have 1 to kMaxBlockOperands inputs.
inline constexpr size_t kMaxBlockOperands = 5;
void RunBlocks(const Launch& launch, ThreadPool& pool, size_t width,
               BlockBody body);
// Implements ElementwiseMany, with the first `operands` inputs and all results, at most
// kMaxOperands of each. The elements that the body reads and writes have `width` bytes.
void RunMany(const Launch& launch, ThreadPool& pool, size_t operands,
             size_t width, ManyBody body);

template <typename Out, typename... In, typename Body, size_t... k>
void CallTyped(const Body& body, int64_t n, int64_t index, std::byte* y,
               const std::byte* const* operands, std::index_sequence<k...>) {
  body(n, index, reinterpret_cast<Out*>(y),
       reinterpret_cast<const In*>(operands[k])...);
}

}  // namespace internal

/// Calls body(n, index, y, operands...) for ranges of elements that cover the launch's result, in
/// parallel. A call must compute the n elements that start at element `index`. `y` and the operands
/// point to the elements of the range, which are contiguous. Their types are Out and In..., which
/// must be the launch's types, or float for f16 and bf16. There are one to three operands.
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

/// The maximum number of elements in a block of ElementwiseBlocks.
inline constexpr int64_t kBlockElements = 512;

/// Calls body(n, index, operands) for blocks of elements that cover the launch's results, in
/// parallel. A call must compute the n elements that start at element `index`, and store them.
/// `operands` has a pointer for each input, to contiguous elements of type T. The launch must have
/// 1 to kMaxBlockOperands inputs, whose elements have the size of T, or are f16 or bf16 if T is
/// float.
template <typename T, typename Body>
void ElementwiseBlocks(const Launch& launch, ThreadPool& pool,
                       const Body& body) {
  const auto run = [](const void* typed, int64_t n, int64_t index,
                      const std::byte* const* operands) {
    (*static_cast<const Body*>(typed))(n, index, operands);
  };
  internal::RunBlocks(launch, pool, sizeof(T), {&body, run});
}

/// Calls f(place, in, out) for the registers of T that cover all elements of the launch's results.
/// `in` has a pointer to T for each of the first `operands` inputs, and `out` has one for each
/// result, at most kMaxOperands of each. All of these inputs and results must be contiguous, and
/// have the same number of elements and the same type, which is T, or f16 or bf16 if T is float. A
/// result may overwrite an input, so f must load before it stores.
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

/// Computes the same as MapVec. It is never inlined, so all callers run the same instructions and
/// get the same bits.
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

/// Implements CpuKernel::block for an op without attributes that computes F() of one or two
/// operands.
template <typename F, size_t kOperands>
void BlockOf(const Attrs&, DType dtype, int64_t n, std::byte* y,
             const std::byte* const* x) {
  internal::CallBlock<kOperands>(F(), dtype, n, y, x);
}
/// Implements CpuKernel::block for an op that computes F(attrs) of one or two operands.
template <typename F, size_t kOperands>
void BlockWithAttrs(const Attrs& attrs, DType dtype, int64_t n, std::byte* y,
                    const std::byte* const* x) {
  internal::CallBlock<kOperands>(F(attrs), dtype, n, y, x);
}

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNELS_ELEMENTWISE_H_

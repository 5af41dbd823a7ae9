// top_k: the places of a row's elements are sorted, in scratch.

#include <algorithm>
#include <numeric>
#include <span>
#include <type_traits>

#include "base/bytes.h"
#include "cpu/kernel.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/dispatch.h"

namespace stowage::cpu {
namespace {

Bytes PlacesBytes(int64_t n) {
  return AlignUp(n * static_cast<Bytes>(sizeof(int32_t)), kWorkspaceAlignment);
}

Bytes TopKWorkspace(const OpArgs& args, std::span<const TensorType>,
                    int threads) {
  return threads * PlacesBytes(args.shape(0).back());
}

// Whether the element at place i stands before the one at j: a total order.
template <typename T>
struct Before {
  bool operator()(int32_t i, int32_t j) const {
    const T a = row[i];
    const T b = row[j];
    if constexpr (std::is_floating_point_v<T>) {
      if (a != a || b != b) return a != a && b != b ? i < j : b != b;
    }
    if (a == b) return i < j;
    return descending ? a > b : a < b;
  }
  const T* row;
  bool descending;
};

StepCode RunTopK(const Launch& launch, ThreadPool& pool) noexcept {
  const TensorView& x = launch.inputs[0];
  const TensorView& values = launch.outputs[0];
  const TensorView& indices = launch.outputs[1];
  const int64_t n = x.shape().back();
  const int64_t k = launch.attrs->Int("k");
  const bool descending = launch.attrs->Int("descending") == 1;
  const int64_t rows = x.size() / n;
  const int64_t piece = RowsPerChunk(8 * n);
  OnNumber(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    pool.ParallelFor(CeilDiv(rows, piece), [&](int64_t chunk, int thread) {
      auto* places = reinterpret_cast<int32_t*>(launch.workspace.data() +
                                                thread * PlacesBytes(n));
      const int64_t end = std::min(rows, (chunk + 1) * piece);
      for (int64_t r = chunk * piece; r < end; ++r) {
        const Before<T> before = {x.as<const T>() + r * n, descending};
        std::iota(places, places + n, 0);
        if (k < n) {
          std::partial_sort(places, places + k, places + n, before);
        } else {
          std::sort(places, places + n, before);
        }
        for (int64_t i = 0; i < k; ++i) {
          values.as<T>()[r * k + i] = before.row[places[i]];
          indices.as<int32_t>()[r * k + i] = places[i];
        }
      }
    });
  });
  return StepCode::kOk;
}

}  // namespace

namespace kernels {

constinit const CpuKernel TopK = {
    .run = RunTopK, .workspace = TopKWorkspace, .supports = SupportsNumbers};

}  // namespace kernels
}  // namespace stowage::cpu

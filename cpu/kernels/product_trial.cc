#include "cpu/kernels/product_trial.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "base/bytes.h"
#include "cpu/kernel.h"
#include "cpu/kernels/product.h"
#include "cpu/kernels/vec.h"

namespace stowage::cpu {
namespace {

// `size`, or where that is above `most`, the multiple of `unit` below, and one `unit` at
// least.
int64_t Part(int64_t size, int64_t unit, int64_t most) {
  if (size <= most) return size;
  return std::min(size, std::max<int64_t>(1, most / unit) * unit);
}

// A product, cut until it is small enough: first k, of which each kBlockDepth is done as
// the one before; then columns, in whole strips of any width; then rows, in whole tasks.
template <typename T>
struct Sizes {
  static constexpr int64_t kColumns = 24 * Vec<T>::kLanes;

  Sizes(int64_t of_m, int64_t of_n, int64_t of_k, int64_t work)
      : m(of_m), n(of_n), k(of_k) {
    k = Part(k, kBlockDepth<T>, work / (m * n));
    n = Part(n, kColumns, work / (m * k));
    m = Part(m, kMaxTaskRows, work / (n * k));
  }
  int64_t m, n, k;
};

// Bytes from the first element of (rows, columns) to behind the last.
template <typename T>
Bytes Span(const Strided<T>& x, int64_t rows, int64_t columns) {
  const int64_t elements =
      1 + (rows - 1) * std::abs(x.row) + (columns - 1) * std::abs(x.column);
  return AlignUp(elements * static_cast<Bytes>(sizeof(T)), kWorkspaceAlignment);
}

template <typename T>
std::vector<Blocking> Candidates(const Sizes<T>& sizes, const Strided<T>& b,
                                 int threads) {
  constexpr int kOther = internal::kStripVecs == 2 ? 3 : 2;
  std::vector<Blocking> candidates = {{}};
  if (b.column == 1) {
    candidates.push_back({.packs = false});
    candidates.push_back({.strip = kOther, .packs = false});
  }
  const int64_t strips = CeilDiv(sizes.n, kStripColumns<T>);
  if (RowsPerTask(sizes.m, strips, threads) < sizes.m) {
    candidates.push_back({.task_rows = 2 * kMaxTaskRows});
  }
  return candidates;
}

}  // namespace

template <typename T>
std::optional<BlockingTrial> ProductTrial(int64_t m, int64_t n, int64_t k,
                                          const Strided<T>& a,
                                          const Strided<T>& b, int threads) {
  if (m * n * k < kMinTrialWork) return std::nullopt;
  Sizes<T> sizes(m, n, k, kTrialWork * threads);
  BlockingTrial trial;
  trial.key = {sizeof(T), threads, m, n, k, a.row, a.column, b.row, b.column};
  const Bytes of_b = Span(b, sizes.k, sizes.n);
  const Bytes scratch =
      threads * StripElements<T>(sizes.k) * static_cast<Bytes>(sizeof(T));
  // Work grows with threads, and memory does not: fewer rows, then.
  Bytes of_a = 0, of_c = 0;
  for (;; sizes.m = Part(sizes.m, kMaxTaskRows, sizes.m / 2)) {
    of_a = Span(a, sizes.m, sizes.k);
    of_c = AlignUp(sizes.m * n * static_cast<Bytes>(sizeof(T)),
                   kWorkspaceAlignment);
    trial.bytes = of_a + of_b + of_c + scratch;
    if (trial.bytes <= kMaxTrialBytes || sizes.m <= kMaxTaskRows) break;
  }
  trial.candidates = Candidates(sizes, b, threads);
  if (trial.candidates.size() < 2 || trial.bytes > kMaxTrialBytes) {
    return std::nullopt;
  }
  trial.run = [=](std::byte* memory, const Blocking& blocking,
                  ThreadPool& pool) {
    const auto at = [&](Bytes bytes) {
      return reinterpret_cast<T*>(memory + bytes);
    };
    Product<T>(pool, sizes.m, sizes.n, sizes.k, {at(0), a.row, a.column},
               {at(of_a), b.row, b.column}, {at(of_a + of_b), n},
               /*accumulate=*/false, at(of_a + of_b + of_c), blocking);
  };
  return trial;
}

template std::optional<BlockingTrial> ProductTrial(int64_t, int64_t, int64_t,
                                                   const Strided<float>&,
                                                   const Strided<float>&, int);
template std::optional<BlockingTrial> ProductTrial(int64_t, int64_t, int64_t,
                                                   const Strided<double>&,
                                                   const Strided<double>&, int);

}  // namespace stowage::cpu

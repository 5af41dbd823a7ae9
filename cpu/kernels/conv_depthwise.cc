#include "cpu/kernels/conv_depthwise.h"

#include <algorithm>
#include <cstdint>

#include "cpu/kernels/chunks.h"
#include "cpu/kernels/vec.h"

namespace stowage::cpu {
namespace {

// Registers of results at a time, which share a weight.
constexpr int kSums = 4;
template <typename T>
constexpr int64_t kStep = kSums* Vec<T>::kLanes;

// Taps at a time in the gradient, which share an element of dy.
constexpr int kTapsAtOnce = 3;

struct TapPlace {
  int64_t in_slab;    // from an element's position
  int64_t in_kernel;  // its number
};

// Scratch: all taps' places; then for each thread a slab, what belongs to its
// positions, and sums, a register for each tap. Reads and writes go up to kStep
// elements beyond the ends of the first two.
template <typename T>
struct Work {
  Slab slab;
  int64_t taps, slab_size, positions, thread_size;

  explicit Work(const Walks& walks)
      : slab(walks), taps(Product(walks, &Walk::taps)) {
    if (taps == 0) {
      slab_size = positions = thread_size = 0;
      return;
    }
    slab_size = CeilDiv(slab.size(), kStep<T>) * kStep<T> + kStep<T>;
    positions = CeilDiv(slab.positions(), kStep<T>) * kStep<T> + kStep<T>;
    thread_size = slab_size + positions + taps * Vec<T>::kLanes;
  }

  Bytes taps_bytes() const {
    return AlignUp(taps * static_cast<Bytes>(sizeof(TapPlace)), 64);
  }
  TapPlace* places(std::byte* scratch) const {
    return reinterpret_cast<TapPlace*>(scratch);
  }
  T* of_thread(std::byte* scratch, int thread) const {
    return reinterpret_cast<T*>(scratch + taps_bytes()) + thread * thread_size;
  }
};

template <typename T>
void FindTaps(const ConvGeometry& g, const Walks& walks, const Work<T>& work,
              TapPlace* places) {
  if (work.taps == 0) return;
  Tap tap(walks, 0);
  for (int64_t t = 0; t < work.taps; ++t) {
    places[t] = {work.slab.Offset(tap), KernelPlace(g, walks, tap)};
    tap.Next(walks);
  }
}

// Calls f(position in the slab, place in the result) for each line of elements.
template <typename F>
void ForLines(const Walks& walks, const Slab& slab, F&& f) {
  for (int64_t d = 0; d < walks[0].count; ++d) {
    const int64_t to_d = walks[0].to_first + d * walks[0].to_step;
    for (int64_t h = 0; h < walks[1].count; ++h) {
      const int64_t to_h = walks[1].to_first + h * walks[1].to_step;
      f(slab.Position(d, h, 0),
        (to_d * walks[1].to_size + to_h) * walks[2].to_size +
            walks[2].to_first);
    }
  }
}

// results[i] = sum over taps of their weights times from[i + place].
template <typename T>
void MakeResults(const Work<T>& work, const TapPlace* places, const T* filter,
                 const T* from, T* results) {
  using V = Vec<T>;
  for (int64_t i = 0; i < work.slab.positions(); i += kStep<T>) {
    V sums[kSums];
    for (V& sum : sums) sum = V::Zero();
    for (int64_t t = 0; t < work.taps; ++t) {
      const V weight = V::All(filter[places[t].in_kernel]);
      const T* at = from + i + places[t].in_slab;
#pragma GCC unroll 4
      for (int s = 0; s < kSums; ++s) {
        sums[s] = MulAdd(weight, V::Load(at + s * V::kLanes), sums[s]);
      }
    }
    for (int s = 0; s < kSums; ++s) sums[s].Store(results + i + s * V::kLanes);
  }
}

// sums[t] += products of dy and what tap t meets, for kTaps taps.
template <int kTaps, typename T>
void AddProducts(const Work<T>& work, const TapPlace* places, const T* from,
                 const T* dy, T* sums) {
  using V = Vec<T>;
  V sum[2][kTaps];
  for (int t = 0; t < kTaps; ++t) {
    sum[0][t] = V::Load(sums + t * V::kLanes);
    sum[1][t] = V::Zero();
  }
  for (int64_t i = 0; i < work.slab.positions(); i += 2 * V::kLanes) {
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      const int64_t at = i + half * V::kLanes;
      const V of_dy = V::Load(dy + at);
#pragma GCC unroll 3
      for (int t = 0; t < kTaps; ++t) {
        sum[half][t] =
            MulAdd(of_dy, V::Load(from + at + places[t].in_slab), sum[half][t]);
      }
    }
  }
  for (int t = 0; t < kTaps; ++t) {
    (sum[0][t] + sum[1][t]).Store(sums + t * V::kLanes);
  }
}

}  // namespace

template <typename T>
Bytes DepthwiseScratch(const Walks& walks, int threads) {
  const Work<T> work(walks);
  return work.taps_bytes() +
         threads * work.thread_size * static_cast<Bytes>(sizeof(T));
}

template <typename T>
void Depthwise(const ConvGeometry& g, const Walks& walks, const T* source,
               const T* filters, T* to, std::byte* scratch, ThreadPool& pool) {
  const Work<T> work(walks);
  TapPlace* const places = work.places(scratch);
  FindTaps(g, walks, work, places);
  const int64_t source_size = Product(walks, &Walk::size);
  const int64_t to_size = Product(walks, &Walk::to_size);
  const int64_t kernel = g.kernel_size();
  const int64_t all = g.images * g.groups;
  const T* const source_end = source + all * source_size;
  const int64_t piece = RowsPerChunk(to_size);
  const int64_t step = walks[2].to_step;
  pool.ParallelFor(CeilDiv(all, piece), [&](int64_t chunk, int thread) {
    T* slab = work.of_thread(scratch, thread);
    T* results = slab + work.slab_size;
    const int64_t end = std::min(all, (chunk + 1) * piece);
    for (int64_t i = chunk * piece; i < end; ++i) {
      if (work.taps > 0) {
        work.slab.Fill(source + i * source_size, source_end, slab);
        MakeResults(work, places, filters + i % g.groups * kernel, slab,
                    results);
      }
      ForLines(walks, work.slab, [&](int64_t position, int64_t place) {
        T* line = to + i * to_size + place;
        for (int64_t j = 0; j < walks[2].count; ++j) {
          line[j * step] = work.taps > 0 ? results[position + j] : T(0);
        }
      });
    }
  });
}

template <typename T>
void DepthwiseWeightGrad(const ConvGeometry& g, const Walks& walks, const T* x,
                         const T* dy, T* dw, std::byte* scratch,
                         ThreadPool& pool) {
  constexpr int64_t kLanes = Vec<T>::kLanes;
  const Work<T> work(walks);
  TapPlace* const places = work.places(scratch);
  FindTaps(g, walks, work, places);
  const int64_t in_size = g.in_size();
  const int64_t out_size = g.out_size();
  const T* const x_end = x + g.images * g.groups * in_size;
  pool.ParallelFor(g.groups, [&](int64_t channel, int thread) {
    T* slab = work.of_thread(scratch, thread);
    T* of_dy = slab + work.slab_size;
    T* sums = of_dy + work.positions;
    std::fill_n(sums, work.taps * kLanes, T(0));
    for (int64_t image = 0; image < g.images; ++image) {
      const int64_t i = image * g.groups + channel;
      work.slab.Fill(x + i * in_size, x_end, slab);
      // What lies between lines, and behind the last, counts nothing.
      std::fill_n(slab + work.slab.size(), work.slab_size - work.slab.size(),
                  T(0));
      int64_t filled = 0;
      ForLines(walks, work.slab, [&](int64_t position, int64_t place) {
        std::fill(of_dy + filled, of_dy + position, T(0));
        std::copy_n(dy + i * out_size + place, walks[2].count,
                    of_dy + position);
        filled = position + walks[2].count;
      });
      std::fill(of_dy + filled, of_dy + work.positions, T(0));
      int64_t t = 0;
      for (; t + kTapsAtOnce <= work.taps; t += kTapsAtOnce) {
        AddProducts<kTapsAtOnce>(work, places + t, slab, of_dy,
                                 sums + t * kLanes);
      }
      for (; t < work.taps; ++t) {
        AddProducts<1>(work, places + t, slab, of_dy, sums + t * kLanes);
      }
    }
    for (int64_t t = 0; t < work.taps; ++t) {
      dw[channel * work.taps + places[t].in_kernel] =
          SumLanes(Vec<T>::Load(sums + t * kLanes));
    }
  });
}

#define STOWAGE_DEPTHWISE(T)                                            \
  template Bytes DepthwiseScratch<T>(const Walks&, int);                \
  template void Depthwise(const ConvGeometry&, const Walks&, const T*,  \
                          const T*, T*, std::byte*, ThreadPool&);       \
  template void DepthwiseWeightGrad(const ConvGeometry&, const Walks&,  \
                                    const T*, const T*, T*, std::byte*, \
                                    ThreadPool&)
STOWAGE_DEPTHWISE(float);
STOWAGE_DEPTHWISE(double);
#undef STOWAGE_DEPTHWISE

}  // namespace stowage::cpu

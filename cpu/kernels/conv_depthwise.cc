#include <algorithm>
#include <array>
#include <cstdint>

#include "cpu/kernel.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/conv_walks.h"
#include "cpu/kernels/convolution.h"
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

// Scratch: all taps' places; then for each thread a slab, the elements at its positions, and
// sums, a register per tap. Reads and writes go up to kStep elements beyond the ends of the
// first two.
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

// sums[t] += dy times the elements that tap t meets, for kTaps taps.
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
      // Elements between lines, and after the last, are ignored.
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

// --- By batch ----------------------------------------------------------------

namespace {

// Calls f(walks) for the walks that make up the result.
template <typename F>
void ForWalks(const ConvGeometry& g, bool to_x, F&& f) {
  if (to_x) {
    ForPhases(g, f);
  } else {
    f(ForwardWalks(g));
  }
}

// A map of the source with zeros wherever taps may reach beyond it, as all walks over
// it need them.
class Frame {
 public:
  Frame(const ConvGeometry& g, bool to_x) {
    ForWalks(g, to_x, [&](const Walks& walks) {
      for (size_t i = 0; i < walks.size(); ++i) {
        const Walk& walk = walks[i];
        size_[i] = walk.size;
        last_[i] = std::max(last_[i], walk.size - 1);
        if (walk.taps == 0) continue;
        const int64_t reach = (walk.taps - 1) * walk.tap_step;
        const int64_t last = walk.first + (walk.count - 1) * walk.step;
        first_[i] =
            std::min(first_[i], walk.first + std::min<int64_t>(0, reach));
        last_[i] = std::max(last_[i], last + std::max<int64_t>(0, reach));
      }
    });
  }

  int64_t size() const { return Extent(0) * Extent(1) * Extent(2); }
  /// The place of the source's element (d, h, w), which may be outside it.
  int64_t Position(int64_t d, int64_t h, int64_t w) const {
    return ((d - first_[0]) * Extent(1) + h - first_[1]) * Extent(2) + w -
           first_[2];
  }
  /// The place of the source's element with this number.
  int64_t Position(int64_t element) const {
    return Position(element / (size_[1] * size_[2]),
                    element / size_[2] % size_[1], element % size_[2]);
  }
  /// The offset from an element's place to the element that a tap meets.
  int64_t Offset(const Walks& walks, const Tap& tap) const {
    return ((tap.d * walks[0].tap_step * Extent(1)) +
            tap.h * walks[1].tap_step) *
               Extent(2) +
           tap.w * walks[2].tap_step;
  }

 private:
  int64_t Extent(size_t i) const { return last_[i] - first_[i] + 1; }

  std::array<int64_t, kConvDims> first_{}, last_{}, size_{};
};

struct FrameTap {
  int64_t in_frame;   // from an element's position
  int64_t in_kernel;  // its number
};

// The taps of all walks, walk by walk.
void FindTaps(const ConvGeometry& g, bool to_x, const Frame& frame,
              FrameTap* places) {
  ForWalks(g, to_x, [&](const Walks& walks) {
    const int64_t taps = Product(walks, &Walk::taps);
    if (taps == 0) return;
    Tap tap(walks, 0);
    for (int64_t t = 0; t < taps; ++t) {
      *places++ = {frame.Offset(walks, tap), KernelPlace(g, walks, tap)};
      tap.Next(walks);
    }
  });
}

// Channels of a task: as many as fill squares of registers.
int64_t ChannelsOfTask(const ConvGeometry& g) {
  constexpr int64_t kElements = 64;
  return std::min(g.groups,
                  CeilDiv(kElements, std::min(g.in_size(), g.out_size())));
}

// Calls store(j, register of images) for `elements` neighbours of each of `images`
// images, `stride` apart; lanes without an image are 0.
template <typename T, typename F>
void LoadImages(const T* from, int64_t stride, int64_t images, int64_t elements,
                F&& store) {
  constexpr int64_t kLanes = Vec<T>::kLanes;
  for (int64_t j = 0; j < elements; j += kLanes) {
    const int64_t count = std::min(kLanes, elements - j);
    T square[kLanes * kLanes] = {};
    if (images == kLanes && count == kLanes) {
      TransposeSquare(from + j, stride, square, kLanes);
    } else {
      for (int64_t n = 0; n < images; ++n) {
        for (int64_t i = 0; i < count; ++i) {
          square[i * kLanes + n] = from[n * stride + j + i];
        }
      }
    }
    for (int64_t i = 0; i < count; ++i) {
      store(j + i, Vec<T>::Load(square + i * kLanes));
    }
  }
}

// The reverse: `elements` registers of images to their places.
template <typename T>
void StoreImages(const T* registers, int64_t elements, int64_t images, T* to,
                 int64_t stride) {
  constexpr int64_t kLanes = Vec<T>::kLanes;
  for (int64_t j = 0; j < elements; j += kLanes) {
    const int64_t count = std::min(kLanes, elements - j);
    const T* from = registers + j * kLanes;
    if (images == kLanes && count == kLanes) {
      TransposeSquare(from, kLanes, to + j, stride);
      continue;
    }
    for (int64_t n = 0; n < images; ++n) {
      for (int64_t i = 0; i < count; ++i) {
        to[n * stride + j + i] = from[i * kLanes + n];
      }
    }
  }
}

// Scratch: all taps' places; then for each thread the frames of a task's channels, the
// maps on the other side, and sums, a register for each tap.
template <typename T>
struct FrameWork {
  int64_t channels;  // of a task
  int64_t taps;
  int64_t frame_size;  // the larger one of both directions
  int64_t map_size;    // the larger one of x's and y's

  explicit FrameWork(const ConvGeometry& g)
      : channels(ChannelsOfTask(g)),
        taps(g.kernel_size()),
        frame_size(std::max(Frame(g, true).size(), Frame(g, false).size())),
        map_size(std::max(g.in_size(), g.out_size())) {}

  Bytes taps_bytes() const {
    return AlignUp(taps * static_cast<Bytes>(sizeof(FrameTap)),
                   kWorkspaceAlignment);
  }
  int64_t thread_size() const {
    return (channels * (frame_size + map_size) + taps) * Vec<T>::kLanes;
  }
  FrameTap* places(std::byte* scratch) const {
    return reinterpret_cast<FrameTap*>(scratch);
  }
  T* frames(std::byte* scratch, int thread) const {
    return reinterpret_cast<T*>(scratch + taps_bytes()) +
           thread * thread_size();
  }
  T* maps(T* frames) const {
    return frames + channels * frame_size * Vec<T>::kLanes;
  }
  T* sums(T* frames) const {
    return maps(frames) + channels * map_size * Vec<T>::kLanes;
  }
};

// `kCount` neighbours of a line, `step` apart in the frame and `to_step` in the result.
template <int kCount, typename T>
void MakeResults(const FrameTap* places, int64_t taps, const T* filter,
                 const T* from, int64_t step, T* to, int64_t to_step) {
  using V = Vec<T>;
  V sums[kCount];
  for (V& sum : sums) sum = V::Zero();
  for (int64_t t = 0; t < taps; ++t) {
    const V weight = V::All(filter[places[t].in_kernel]);
    const T* at = from + places[t].in_frame * V::kLanes;
#pragma GCC unroll 4
    for (int s = 0; s < kCount; ++s) {
      sums[s] = MulAdd(weight, V::Load(at + s * step * V::kLanes), sums[s]);
    }
  }
  for (int s = 0; s < kCount; ++s) {
    sums[s].Store(to + s * to_step * V::kLanes);
  }
}

// All elements of the walks.
template <typename T>
void MakeMap(const Walks& walks, const Frame& frame, const FrameTap* places,
             const T* filter, const T* from, T* to) {
  constexpr int64_t kLanes = Vec<T>::kLanes;
  const int64_t taps = Product(walks, &Walk::taps);
  const Walk& line = walks[2];
  for (int64_t d = 0; d < walks[0].count; ++d) {
    const int64_t to_d = walks[0].to_first + d * walks[0].to_step;
    for (int64_t h = 0; h < walks[1].count; ++h) {
      const int64_t to_h = walks[1].to_first + h * walks[1].to_step;
      const T* at =
          taps == 0 ? from
                    : from + frame.Position(walks[0].first + d * walks[0].step,
                                            walks[1].first + h * walks[1].step,
                                            line.first) *
                                 kLanes;
      T* result = to + ((to_d * walks[1].to_size + to_h) * line.to_size +
                        line.to_first) *
                           kLanes;
      int64_t w = 0;
      for (; w + kSums <= line.count; w += kSums) {
        MakeResults<kSums>(places, taps, filter, at + w * line.step * kLanes,
                           line.step, result + w * line.to_step * kLanes,
                           line.to_step);
      }
      for (; w < line.count; ++w) {
        MakeResults<1>(places, taps, filter, at + w * line.step * kLanes,
                       line.step, result + w * line.to_step * kLanes,
                       line.to_step);
      }
    }
  }
}

// sums[t] += dy times the elements that tap t meets, for kTaps taps.
template <int kTaps, typename T>
void AddProducts(const Walks& walks, const Frame& frame, const FrameTap* places,
                 const T* from, const T* dy, T* sums) {
  using V = Vec<T>;
  V sum[kTaps];
  for (int t = 0; t < kTaps; ++t) sum[t] = V::Load(sums + t * V::kLanes);
  for (int64_t d = 0; d < walks[0].count; ++d) {
    for (int64_t h = 0; h < walks[1].count; ++h) {
      const T* at = from + frame.Position(walks[0].first + d * walks[0].step,
                                          walks[1].first + h * walks[1].step,
                                          walks[2].first) *
                               V::kLanes;
      for (int64_t w = 0; w < walks[2].count; ++w) {
        const V of_dy = V::Load(dy);
#pragma GCC unroll 9
        for (int t = 0; t < kTaps; ++t) {
          sum[t] = MulAdd(of_dy, V::Load(at + places[t].in_frame * V::kLanes),
                          sum[t]);
        }
        at += walks[2].step * V::kLanes;
        dy += V::kLanes;
      }
    }
  }
  for (int t = 0; t < kTaps; ++t) sum[t].Store(sums + t * V::kLanes);
}

// The same for any number of taps, by ever fewer at a time.
template <int kTaps, typename T>
void AddAllProducts(const Walks& walks, const Frame& frame,
                    const FrameTap* places, int64_t taps, const T* from,
                    const T* dy, T* sums) {
  int64_t t = 0;
  for (; t + kTaps <= taps; t += kTaps) {
    AddProducts<kTaps>(walks, frame, places + t, from, dy,
                       sums + t * Vec<T>::kLanes);
  }
  if constexpr (kTaps > 1) {
    AddAllProducts<kTaps / 3>(walks, frame, places + t, taps - t, from, dy,
                              sums + t * Vec<T>::kLanes);
  }
}

}  // namespace

template <typename T>
bool TakesDepthwiseByBatch(const ConvGeometry& g) {
  constexpr int64_t kMaxElements = 1600;  // of a frame: 100 KiB of registers
  return IsDepthwise(g) && g.images >= Vec<T>::kLanes &&
         FrameWork<T>(g).frame_size <= kMaxElements &&
         FrameWork<T>(g).map_size <= kMaxElements;
}

template <typename T>
Bytes DepthwiseByBatchScratch(const ConvGeometry& g, int threads) {
  const FrameWork<T> work(g);
  return work.taps_bytes() +
         threads * work.thread_size() * static_cast<Bytes>(sizeof(T));
}

template <typename T>
void DepthwiseByBatch(const ConvGeometry& g, bool to_x, const T* from,
                      const T* filters, T* to, std::byte* scratch,
                      ThreadPool& pool) {
  constexpr int64_t kLanes = Vec<T>::kLanes;
  const FrameWork<T> work(g);
  const Frame frame(g, to_x);
  FrameTap* const places = work.places(scratch);
  FindTaps(g, to_x, frame, places);
  const int64_t source = to_x ? g.out_size() : g.in_size();
  const int64_t result = to_x ? g.in_size() : g.out_size();
  const int64_t batches = CeilDiv(g.images, kLanes);
  const int64_t blocks = CeilDiv(g.groups, work.channels);
  pool.ParallelFor(batches * blocks, [&](int64_t task, int thread) {
    const int64_t image = task / blocks * kLanes;
    const int64_t channel = task % blocks * work.channels;
    const int64_t images = std::min(kLanes, g.images - image);
    const int64_t channels = std::min(work.channels, g.groups - channel);
    T* const frames = work.frames(scratch, thread);
    T* const maps = work.maps(frames);
    std::fill_n(frames, channels * frame.size() * kLanes, T(0));
    LoadImages(from + (image * g.groups + channel) * source, g.groups * source,
               images, channels * source, [&](int64_t j, Vec<T> lanes) {
                 lanes.Store(frames + (j / source * frame.size() +
                                       frame.Position(j % source)) *
                                          kLanes);
               });
    for (int64_t c = 0; c < channels; ++c) {
      const FrameTap* of_walks = places;
      ForWalks(g, to_x, [&](const Walks& walks) {
        MakeMap(walks, frame, of_walks, filters + (channel + c) * work.taps,
                frames + c * frame.size() * kLanes, maps + c * result * kLanes);
        of_walks += Product(walks, &Walk::taps);
      });
    }
    StoreImages(maps, channels * result, images,
                to + (image * g.groups + channel) * result, g.groups * result);
  });
}

template <typename T>
void DepthwiseWeightGradByBatch(const ConvGeometry& g, const T* x, const T* dy,
                                T* dw, std::byte* scratch, ThreadPool& pool) {
  constexpr int64_t kLanes = Vec<T>::kLanes;
  const FrameWork<T> work(g);
  const Walks walks = ForwardWalks(g);
  const Frame frame(g, /*to_x=*/false);
  FrameTap* const places = work.places(scratch);
  FindTaps(g, /*to_x=*/false, frame, places);
  const int64_t in = g.in_size();
  const int64_t out = g.out_size();
  pool.ParallelFor(
      CeilDiv(g.groups, work.channels), [&](int64_t task, int thread) {
        const int64_t first = task * work.channels;
        const int64_t channels = std::min(work.channels, g.groups - first);
        T* const frames = work.frames(scratch, thread);
        T* const maps = work.maps(frames);
        T* const sums = work.sums(frames);
        std::fill_n(frames, channels * frame.size() * kLanes, T(0));
        for (int64_t image = 0; image < g.images; image += kLanes) {
          const int64_t images = std::min(kLanes, g.images - image);
          const int64_t at = image * g.groups + first;
          LoadImages(x + at * in, g.groups * in, images, channels * in,
                     [&](int64_t j, Vec<T> lanes) {
                       lanes.Store(frames + (j / in * frame.size() +
                                             frame.Position(j % in)) *
                                                kLanes);
                     });
          LoadImages(
              dy + at * out, g.groups * out, images, channels * out,
              [&](int64_t j, Vec<T> lanes) { lanes.Store(maps + j * kLanes); });
          for (int64_t c = 0; c < channels; ++c) {
            std::fill_n(sums, work.taps * kLanes, T(0));
            AddAllProducts<9>(walks, frame, places, work.taps,
                              frames + c * frame.size() * kLanes,
                              maps + c * out * kLanes, sums);
            T* const to = dw + (first + c) * work.taps;
            for (int64_t t = 0; t < work.taps; ++t) {
              const T sum = SumLanes(Vec<T>::Load(sums + t * kLanes));
              T* const of_tap = to + places[t].in_kernel;
              *of_tap = image == 0 ? sum : *of_tap + sum;
            }
          }
        }
      });
}

#define STOWAGE_DEPTHWISE_BY_BATCH(T)                                    \
  template bool TakesDepthwiseByBatch<T>(const ConvGeometry&);           \
  template Bytes DepthwiseByBatchScratch<T>(const ConvGeometry&, int);   \
  template void DepthwiseByBatch(const ConvGeometry&, bool, const T*,    \
                                 const T*, T*, std::byte*, ThreadPool&); \
  template void DepthwiseWeightGradByBatch(                              \
      const ConvGeometry&, const T*, const T*, T*, std::byte*, ThreadPool&)
STOWAGE_DEPTHWISE_BY_BATCH(float);
STOWAGE_DEPTHWISE_BY_BATCH(double);
#undef STOWAGE_DEPTHWISE_BY_BATCH

}  // namespace stowage::cpu

#ifndef STOWAGE_CPU_KERNELS_CONV_MEETINGS_H_
#define STOWAGE_CPU_KERNELS_CONV_MEETINGS_H_

// Which elements of small maps meet in a convolution, and how the kernels that hold the
// images of a batch in registers (conv_by_batch.h) divide their scratch.
//
//   Scratch shared(launch.workspace.data());
//   auto* const meetings = shared.Take<int64_t>(places * taps);
//   FindMeetings(g, /*to_x=*/false, meetings);

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "cpu/kernel.h"
#include "ir/windows.h"

namespace stowage::cpu {

/// Rows of a task of convolutions by batch, and how many tasks there are at least.
inline constexpr int64_t kTaskRows = 16;
inline constexpr int64_t kMinTasks = 16;

template <typename T>
Bytes BytesOf(int64_t elements) {
  return AlignUp(elements * static_cast<Bytes>(sizeof(T)), kWorkspaceAlignment);
}

/// Takes aligned arrays from scratch, one behind the other.
class Scratch {
 public:
  explicit Scratch(std::byte* at) : at_(at) {}

  template <typename T>
  T* Take(int64_t elements) {
    T* const taken = reinterpret_cast<T*>(at_);
    at_ += BytesOf<T>(elements);
    return taken;
  }

 private:
  std::byte* at_;
};

/// What a matmul reads and makes, for each group.
struct Sides {
  Sides(const ConvGeometry& g, bool to_x)
      : depth(to_x ? g.filters : g.channels),
        rows(to_x ? g.channels : g.filters),
        from_places(to_x ? g.out_size() : g.in_size()),
        to_places(to_x ? g.in_size() : g.out_size()) {}

  int64_t depth, rows;             // channels of the source, of the result
  int64_t from_places, to_places;  // elements of a map
};

/// For every element of a map of the result and every tap, the element of the source
/// that they meet, or -1.
inline void FindMeetings(const ConvGeometry& g, bool to_x, int64_t* meetings) {
  const auto [d, h, w] = g.dims;
  const int64_t taps = g.kernel_size();
  std::fill_n(meetings, Sides(g, to_x).to_places * taps, int64_t{-1});
  const auto place = [](const ConvDim& dim, int64_t out, int64_t tap) {
    const int64_t at = out * dim.stride - dim.before + tap * dim.dilation;
    return at < dim.in ? at : -1;
  };
  for (int64_t out = 0; out < g.out_size(); ++out) {
    for (int64_t tap = 0; tap < taps; ++tap) {
      const int64_t in_d =
          place(d, out / (h.out * w.out), tap / (h.kernel * w.kernel));
      const int64_t in_h =
          place(h, out / w.out % h.out, tap / w.kernel % h.kernel);
      const int64_t in_w = place(w, out % w.out, tap % w.kernel);
      if (in_d < 0 || in_h < 0 || in_w < 0) continue;
      const int64_t in = (in_d * h.in + in_h) * w.in + in_w;
      if (to_x) {
        meetings[in * taps + tap] = out;
      } else {
        meetings[out * taps + tap] = in;
      }
    }
  }
}

/// Whether a tap meets anything at all.
inline bool Meets(const int64_t* meetings, int64_t places, int64_t taps,
                  int64_t tap) {
  for (int64_t i = 0; i < places; ++i) {
    if (meetings[i * taps + tap] >= 0) return true;
  }
  return false;
}

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNELS_CONV_MEETINGS_H_

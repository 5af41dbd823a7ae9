#ifndef STOWAGE_CPU_KERNELS_CONV_WEIGHT_TASKS_H_
#define STOWAGE_CPU_KERNELS_CONV_WEIGHT_TASKS_H_

// How conv_weight_grad is cut into tasks (conv_weight_grad.h), whose sums are of T.
//
//   const Tasks<float> tasks(g);
//   pool.ParallelFor(tasks.splits * tasks.tasks, [&](int64_t task, int thread) {
//     const Part part = tasks.PartOf(g, task);
//   });

#include <algorithm>
#include <cstdint>

#include "cpu/kernels/chunks.h"
#include "cpu/kernels/conv_bands.h"
#include "cpu/kernels/conv_walks.h"
#include "cpu/kernels/gemm.h"
#include "ir/windows.h"

namespace stowage::cpu {

inline constexpr int64_t kMaxSplits = 16;
inline constexpr int64_t kSlabRows = 288;      // of a task, about
inline constexpr int64_t kMaxStrips = 4;       // of filters, of a task
inline constexpr int64_t kBandElements = 256;  // at most

/// What a task makes: channels [channel, channel + channels) and filters [filter,
/// filter + filters) of a group, from images [begin, end).
struct Part {
  int64_t group, channel, channels, filter, filters, begin, end;
};

/// How dw is made: tasks are (split of the images, group, chunk of channels, chunk of
/// filters).
template <typename T>
struct Tasks {
  int64_t taps;
  int64_t channels, channel_chunks;
  int64_t strip;  // filters, in whole registers
  int64_t filters, filter_chunks;
  int64_t tasks;  // of one split
  int64_t splits;
  int64_t split_images;  // images of one split, the last has fewer

  explicit Tasks(const ConvGeometry& g)
      : taps(g.kernel_size()),
        channels(std::clamp<int64_t>(kSlabRows / taps, 1, g.channels)),
        channel_chunks(CeilDiv(g.channels, channels)),
        strip(Even(g.filters, kStripColumns<T>, Vec<T>::kLanes)),
        filters(Even(g.filters, kMaxStrips * strip, strip)),
        filter_chunks(CeilDiv(g.filters, filters)),
        tasks(g.groups * channel_chunks * filter_chunks),
        split_images(
            CeilDiv(g.images, std::min(g.images, CeilDiv(kMaxSplits, tasks)))) {
    splits = CeilDiv(g.images, split_images);
  }

  int64_t rows() const { return channels * taps; }
  int64_t strips() const { return CeilDiv(filters, strip); }

  Bands BandsOf(const ConvGeometry& g, int64_t images) const {
    return Bands(ForwardWalks(g), images, channels, kBandElements,
                 Vec<T>::kLanes);
  }

  /// What task `task` of all splits makes.
  Part PartOf(const ConvGeometry& g, int64_t task) const {
    Part part;
    part.begin = task / this->tasks * split_images;
    part.end = std::min(g.images, part.begin + split_images);
    task %= this->tasks;
    part.filter = task % filter_chunks * filters;
    part.filters = std::min(filters, g.filters - part.filter);
    task /= filter_chunks;
    part.channel = task % channel_chunks * channels;
    part.channels = std::min(channels, g.channels - part.channel);
    part.group = task / channel_chunks;
    return part;
  }

 private:
  // Multiples of `unit` that cut `all` into about equal parts of at most `most`.
  static int64_t Even(int64_t all, int64_t most, int64_t unit) {
    return CeilDiv(CeilDiv(all, CeilDiv(all, most)), unit) * unit;
  }
};

/// Elements of a band, as places in a slab: `count` neighbours of each line.
struct Lines {
  int64_t first, count, lines, pitch;
};

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNELS_CONV_WEIGHT_TASKS_H_

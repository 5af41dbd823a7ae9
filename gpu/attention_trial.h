#ifndef STOWAGE_GPU_ATTENTION_TRIAL_H_
#define STOWAGE_GPU_ATTENTION_TRIAL_H_

// Which algorithm of attention a device computes rightly and fastest: a launch is run in each,
// what came out is compared with that of the first, and those that agree are timed.
//
//   const Result<AttentionTrial> tried = TryAttention(launch, ways, device, stream);
//   if (!tried.ok()) ...  // the device is lost
//
// It runs in memory of its own, which is given back, on pseudo-random numbers; nothing of
// the arena is read or written. Operands have the launch's shape, strides and alignment. Of
// a large batch it takes as many entries as fit in 2 GiB and in half of what is free; of
// one entry that does not fit, as many heads, with rows that are shorter where they hold
// all heads.
//
// What it cannot survive: a kernel that makes the device fail, by which the process has
// lost it, and one that never ends. So algorithms that no device of a kind has run are tried only
// where they were asked for.

#include <optional>
#include <string>

#include "base/result.h"
#include "gpu/attention_algorithms.h"
#include "gpu/device.h"
#include "runtime/kernel.h"

namespace stowage::gpu {

struct AttentionTrial {
  /// None: there was no memory to try in, or nothing could be timed. Another trial may find
  /// one.
  std::optional<AttentionAlgorithm> way;
  /// "attention bf16(16, 1024, 12, 64): by warps 0.160 ms, by warpgroups left out: o differs
  /// by 0.1, more than 0.03"
  std::string found;
};

/// Runs each of `algorithms` twice, after its results were made NaN. An algorithm is left out where
/// something fails, an index is reported, the two runs differ in a bit, a number is not
/// finite, or one differs from the first algorithm's by more than 1/128 of the result's largest,
/// of log_sum_exp by 1e-5 of it or of 1. Of the others the fastest is chosen; the first
/// where that is not sound itself. Precondition: `launch` is of attention, attention_grad or
/// attention_qkv_grad, in 16 bits, and all algorithms take it, of which the first is known to be
/// right. Error: an algorithm has made the device fail.
Result<AttentionTrial> TryAttention(const Launch& launch,
                                    AttentionAlgorithms ways, Device& device,
                                    Stream stream);

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_ATTENTION_TRIAL_H_

#ifndef STOWAGE_GPU_ATTENTION_AUTOTUNER_H_
#define STOWAGE_GPU_ATTENTION_AUTOTUNER_H_

// Selects the algorithm of each attention launch. When a program is bound, a trial compares and
// times the candidate algorithms, once for each op, type, shape, mask, layout and alignment. The
// choice is stored in a file (runtime/autotune_cache.h). The file is valid for one device, its
// driver and the sources of the kernels, because results were compared for these only. If there is
// not enough memory for a trial, the program uses warp-level matmuls, and the next program repeats
// the trial.
//
//   AttentionAutotuner::Untried untried;  // of one program
//   STOWAGE_ASSIGN_OR_RETURN(AttentionAutotuner attention,
//                            AttentionAutotuner::Open({}, folder, device->traits()));
//   STOWAGE_ASSIGN_OR_RETURN(
//       const AttentionAlgorithm algorithm,
//       attention.Choose(launch, algorithms, *device, stream, &untried));

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gpu/device.h"
#include "gpu/queue.h"
#include "runtime/autotune_cache.h"
#include "runtime/kernel.h"

namespace stowage::gpu {

/// The properties of a launch that determine the choice. See attention_autotuner.cc.
using AttentionKey = std::array<int64_t, 36>;

class AttentionAutotuner {
 public:
  /// The launches of one program whose trial found no algorithm when the program was bound. They
  /// use kWarps for the lifetime of the program.
  using Untried = std::set<AttentionKey>;

  /// Creates an autotuner that always chooses kWarps.
  AttentionAutotuner() = default;

  /// Returns an autotuner for the algorithms of `asked` that the device supports. If `asked` is
  /// empty, the candidates are the algorithms that were correct on a device of this kind. If
  /// there are several candidates, kWarps is one of them. Choices are stored in `folder`. If
  /// `folder` is empty, there are no trials. Returns kInvalidArgument if several algorithms are
  /// requested without a folder. Propagates errors of AutotuneCache::Open.
  static Result<AttentionAutotuner> Open(AttentionAlgorithms asked,
                                         const std::string& folder,
                                         const DeviceTraits& traits);

  /// Chooses one of `algorithms`, which must all support the launch. A launch without a stored
  /// choice is tried on `stream`, which must not be capturing. If the trial finds no algorithm,
  /// the launch is added to `untried`. If a trial breaks the device, stores the first algorithm
  /// as the choice and returns the error of the device. Propagates errors of AutotuneCache::Keep.
  Result<AttentionAlgorithm> Choose(const Launch& launch,
                                    AttentionAlgorithms algorithms,
                                    Device& device, Stream stream,
                                    Untried* untried);

  /// Returns the findings of trials, one phrase per trial.
  const std::vector<std::string>& found() const { return found_; }

 private:
  // Returns nullopt if the trial found no algorithm.
  Result<std::optional<AttentionAlgorithm>> Try(const Launch& launch,
                                                AttentionAlgorithms algorithms,
                                                const AutotuneCache::Key& key,
                                                Device& device, Stream stream);

  AttentionAlgorithms allowed_ = {AttentionAlgorithm::kWarps};
  std::optional<AutotuneCache> kept_;
  std::map<AttentionKey, AttentionAlgorithm> chosen_;  // in this process
  std::vector<std::string> found_;
};

/// The result of TryAttention.
struct AttentionTrial {
  /// Empty if there was no memory, or if no algorithm could be timed. A later trial may find one.
  std::optional<AttentionAlgorithm> algorithm;
  /// "attention bf16(16, 1024, 12, 64): by warps 0.160 ms, by warpgroups left out: o differs
  /// by 0.1, more than 0.03"
  std::string found;
};

/// Runs a launch with each of `algorithms`, compares the results with the results of the first
/// algorithm, and times the algorithms that agree:
///
///   const Result<AttentionTrial> tried =
///       TryAttention(launch, algorithms, device, stream);
///   if (!tried.ok()) ...  // the device is lost
///
/// Each algorithm runs twice, on results filled with NaN. An algorithm is rejected if it fails,
/// reports an index as out of range, writes different bits in the two runs, or writes a non-finite
/// number. It is also rejected if a result differs from the first algorithm's by more than 1/128
/// of the largest magnitude. For log_sum_exp, the tolerance is 1e-5 times the largest magnitude or
/// 1, whichever is greater. The fastest algorithm that remains is chosen. If the first algorithm
/// is rejected, it is still chosen, since there is no reference for comparisons.
///
/// Operands are pseudo-random. They are placed in temporary memory outside the arena, with the
/// shape, strides and alignment of the launch. The trial reduces a large batch until its
/// entries fit in 2 GiB and in half of the free memory. If a single entry does not fit, the
/// trial reduces the number of heads.
///
/// `launch` must be a 16-bit attention, attention_grad or attention_qkv_grad that all algorithms
/// support, and the first algorithm must be known to be correct. Returns an error if an algorithm
/// made the device fail, which this process can then no longer use. A kernel that never ends hangs
/// the trial. Algorithms that have not run on any device of a kind are therefore tried only on
/// request.
Result<AttentionTrial> TryAttention(const Launch& launch,
                                    AttentionAlgorithms algorithms,
                                    Device& device, Stream stream);

/// Returns the name of an algorithm, such as "warps".
std::string_view AttentionAlgorithmName(AttentionAlgorithm algorithm);

/// Returns the algorithms of `asked` that `device` supports. If `asked` is empty, returns the
/// algorithms that were correct on a device of this kind.
AttentionAlgorithms AttentionAlgorithmsOf(const DeviceTraits& device,
                                          AttentionAlgorithms asked);

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_ATTENTION_AUTOTUNER_H_

#ifndef STOWAGE_GPU_ATTENTION_AUTOTUNER_H_
#define STOWAGE_GPU_ATTENTION_AUTOTUNER_H_

// Selects the algorithm of each attention launch (AttentionAlgorithm in gpu/queue.h). When a
// program is bound, a trial compares the results of the candidate algorithms and times them, once
// for each op, type, shape, mask, layout and alignment. The choice is stored in a file
// (runtime/autotune_cache.h). The file is valid for one device model, one driver and one version of
// the kernels' sources, because the results were compared only for these. If there is not enough
// memory for a trial, the program uses kWarps, and the next program repeats the trial.
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

/// The properties of a launch that determine the choice (AttentionKeyOf in attention_autotuner.cc).
using AttentionKey = std::array<int64_t, 36>;

class AttentionAutotuner {
 public:
  /// The keys of one program's launches for which a trial found no algorithm when the program was
  /// bound. These launches use kWarps for the lifetime of the program.
  using Untried = std::set<AttentionKey>;

  /// Creates an autotuner that always chooses kWarps.
  AttentionAutotuner() = default;

  /// Returns an autotuner whose candidates are AttentionAlgorithmsOf(traits, asked). If `asked` has
  /// several algorithms, kWarps is added. Choices are stored in `folder`. If `folder` is empty,
  /// there are no trials. Returns kInvalidArgument if `asked` is not empty, there are several
  /// candidates, and `folder` is empty. Propagates errors of AutotuneCache::Open.
  static Result<AttentionAutotuner> Open(AttentionAlgorithms asked,
                                         const std::string& folder,
                                         const DeviceTraits& traits);

  /// Returns one of `algorithms`, all of which must support the launch. If none of them is a
  /// candidate, returns the first of them. If several are candidates and no choice is stored, runs
  /// a trial on `stream`, which must not be capturing. If the trial finds no algorithm, adds the
  /// key of the launch to `untried` and returns the first candidate. If a trial makes the device
  /// fail, stores the first candidate as the choice, so that the next process does not repeat the
  /// trial, and returns the error of the device. Returns kInvalidArgument if the stored choice is
  /// not one of the candidates. Propagates errors of AutotuneCache::Keep.
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
  /// The chosen algorithm. Empty if there was not enough memory, or if no algorithm could be timed.
  /// A later trial may then find one.
  std::optional<AttentionAlgorithm> algorithm;
  /// "attention bf16(16, 1024, 12, 64): by warps 0.160 ms, by warpgroups left out: o differs
  /// by 0.1, more than 0.03"
  std::string found;
};

/// Runs a trial of `launch` with each of `algorithms`: compares their results with the results of
/// the first algorithm, and times the algorithms that agree.
///
///   const Result<AttentionTrial> tried =
///       TryAttention(launch, algorithms, device, stream);
///   if (!tried.ok()) ...  // the device is lost
///
/// Each algorithm runs twice. Before each run, the results are filled with NaN. An algorithm is
/// rejected if it fails, reports an index as out of range, writes different bits in the two runs,
/// or writes a non-finite number. It is also rejected if an element of a result differs from the
/// first algorithm's by more than 1/128 of the largest magnitude in the result. For log_sum_exp,
/// the tolerance is 1e-5 times the largest magnitude or 1, whichever is greater. The fastest
/// algorithm that is not rejected is chosen. If the first algorithm is rejected, it is chosen
/// nevertheless, since there is no reference for comparisons.
///
/// Operands are pseudo-random. They are placed in temporary memory outside the arena, with the
/// shape, strides and alignment of the launch. If the operands need more than 2 GiB or more than
/// half of the free memory, the trial uses fewer entries of the batch. If a single entry needs
/// more, the trial also uses fewer heads.
///
/// `launch` must be a 16-bit attention, attention_grad or attention_qkv_grad that all algorithms
/// support, and the first algorithm must be known to be correct. Returns an error if an algorithm
/// made the device fail. This process can then no longer use the device. If a kernel does not
/// terminate, neither does the trial. Algorithms that have not run on a device of this kind are
/// therefore tried only on request.
Result<AttentionTrial> TryAttention(const Launch& launch,
                                    AttentionAlgorithms algorithms,
                                    Device& device, Stream stream);

/// Returns the name of an algorithm, such as "warps".
std::string_view AttentionAlgorithmName(AttentionAlgorithm algorithm);

/// Returns the algorithms of `asked` that `device` supports. If `asked` is empty, returns the
/// supported algorithms whose results have been verified on a device of this kind.
AttentionAlgorithms AttentionAlgorithmsOf(const DeviceTraits& device,
                                          AttentionAlgorithms asked);

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_ATTENTION_AUTOTUNER_H_

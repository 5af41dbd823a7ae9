#ifndef STOWAGE_GPU_ATTENTION_AUTOTUNER_H_
#define STOWAGE_GPU_ATTENTION_AUTOTUNER_H_

// Chooses the algorithm of each launch of attention. When a program is bound, a trial
// compares and times the candidates, once for each op, type, shape, mask, layout and
// alignment. The choice is kept in a file (runtime/autotune_cache.h) for one device, its
// driver, and the sources of the kernels, since correctness is known for these only. If there
// is no memory for a trial, the program uses matmuls by warps, and the next one tries again.
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

/// Determines the choice; see attention_autotuner.cc.
using AttentionKey = std::array<int64_t, 36>;

class AttentionAutotuner {
 public:
  /// The launches of a program that keep kWarps for its lifetime, because their trial found
  /// nothing when it was bound.
  using Untried = std::set<AttentionKey>;

  /// Always chooses kWarps.
  AttentionAutotuner() = default;

  /// Chooses among the algorithms of `asked` that the device supports or, if `asked` is
  /// empty, those that were correct on a device of its kind; if more than one remains,
  /// kWarps is among them.
  /// Keeps choices in `folder`; without a folder there are no trials. Errors:
  /// kInvalidArgument if several are asked for without a folder; those of
  /// AutotuneCache::Open.
  static Result<AttentionAutotuner> Open(AttentionAlgorithms asked,
                                         const std::string& folder,
                                         const DeviceTraits& traits);

  /// Chooses one of `algorithms`, each of which supports the launch. A launch without a
  /// choice is tried on `stream`, outside of a capture; if the trial finds nothing, it is
  /// added to `untried`. Errors: the device's, if a trial breaks it, and then the first
  /// algorithm is kept; those of AutotuneCache::Keep.
  Result<AttentionAlgorithm> Choose(const Launch& launch,
                                    AttentionAlgorithms algorithms,
                                    Device& device, Stream stream,
                                    Untried* untried);

  /// The findings of trials, a phrase each.
  const std::vector<std::string>& found() const { return found_; }

 private:
  // None: the trial found nothing.
  Result<std::optional<AttentionAlgorithm>> Try(const Launch& launch,
                                                AttentionAlgorithms algorithms,
                                                const AutotuneCache::Key& key,
                                                Device& device, Stream stream);

  AttentionAlgorithms allowed_ = {AttentionAlgorithm::kWarps};
  std::optional<AutotuneCache> kept_;
  std::map<AttentionKey, AttentionAlgorithm> chosen_;  // by this process
  std::vector<std::string> found_;
};

/// The result of TryAttention.
struct AttentionTrial {
  /// None: there was no memory, or nothing could be timed. Another trial may find one.
  std::optional<AttentionAlgorithm> algorithm;
  /// "attention bf16(16, 1024, 12, 64): by warps 0.160 ms, by warpgroups left out: o differs
  /// by 0.1, more than 0.03"
  std::string found;
};

/// Runs a launch with each of `algorithms`, compares the results with the first's, and times
/// those that agree:
///
///   const Result<AttentionTrial> tried =
///       TryAttention(launch, algorithms, device, stream);
///   if (!tried.ok()) ...  // the device is lost
///
/// Each runs twice, on results filled with NaN. An algorithm is rejected if it fails, reports
/// an index, gives different bits in the two runs or a non-finite number, or differs from the
/// first algorithm by more than 1/128 of the result's largest magnitude (log_sum_exp: by 1e-5
/// of it or of 1). Of the others the fastest is chosen; the first if it is rejected itself.
///
/// Operands are pseudo-random, in temporary memory outside the arena, with the launch's
/// shape, strides and alignment. Of a large batch the trial uses as many entries as fit in
/// 2 GiB and in half of the free memory; of an entry that does not fit, as many heads.
///
/// Precondition: `launch` is a 16-bit attention, attention_grad or attention_qkv_grad that
/// all algorithms support, and the first is known to be correct. Error: an algorithm has made
/// the device fail, which is then lost to this process. A kernel that never ends hangs it; so
/// algorithms that no device of a kind has run are tried only if asked for.
Result<AttentionTrial> TryAttention(const Launch& launch,
                                    AttentionAlgorithms algorithms,
                                    Device& device, Stream stream);

/// The name of an algorithm, such as "warps".
std::string_view AttentionAlgorithmName(AttentionAlgorithm algorithm);

/// The algorithms of `asked` that such a device supports; if `asked` is empty, those that
/// were correct on a device of its kind.
AttentionAlgorithms AttentionAlgorithmsOf(const DeviceTraits& device,
                                          AttentionAlgorithms asked);

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_ATTENTION_AUTOTUNER_H_

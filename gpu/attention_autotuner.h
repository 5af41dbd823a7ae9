#ifndef STOWAGE_GPU_ATTENTION_AUTOTUNER_H_
#define STOWAGE_GPU_ATTENTION_AUTOTUNER_H_

// By which algorithm each launch of attention is computed. Of several that may be taken, a trial
// (gpu/attention_trial.h) chooses when a program is bound: once for each type, shape, mask,
// layout and alignment, and for attention and its gradient apart. What it chose is kept in
// a file (runtime/autotune_cache.h), of one device, its driver, and the very sources of the
// kernels: whether an algorithm is right is known of these alone. Where there was no memory for a
// trial, a program takes products of warps, and the next one tries again.
//
//   AttentionAutotuner::Untried untried;  // of one program
//   STOWAGE_ASSIGN_OR_RETURN(AttentionAutotuner attention,
//                            AttentionAutotuner::Open({}, folder, device->traits()));
//   STOWAGE_ASSIGN_OR_RETURN(const AttentionAlgorithm way,
//                            attention.Choose(launch, ways, *device, stream, &untried));

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "gpu/attention_algorithms.h"
#include "gpu/device.h"
#include "runtime/autotune_cache.h"
#include "runtime/kernel.h"

namespace stowage::gpu {

/// What the choice depends on; see attention_autotuner.cc.
using AttentionKey = std::array<int64_t, 36>;

class AttentionAutotuner {
 public:
  /// What a program computes by products of warps as long as it lives, since a trial found
  /// nothing when it was bound.
  using Untried = std::set<AttentionKey>;

  /// Takes products of warps.
  AttentionAutotuner() = default;

  /// Chooses among those of `asked` that the device has, or, where none is asked for, those
  /// that one of its kind has shown right; of several, products of warps are always one.
  /// Keeps what was chosen in `folder`; without a folder nothing is tried. Errors:
  /// kInvalidArgument where several are asked for and there is no folder; those of
  /// AutotuneCache::Open.
  static Result<AttentionAutotuner> Open(AttentionAlgorithms asked,
                                         const std::string& folder,
                                         const DeviceTraits& traits);

  /// One of `algorithms`, each of which takes the launch. What is not known yet is tried: on
  /// `stream`, outside of a capture; where that finds nothing, it is noted in `untried`.
  /// Errors: that of a device that a trial broke, for which the first algorithm is kept then;
  /// those of AutotuneCache::Keep.
  Result<AttentionAlgorithm> Choose(const Launch& launch,
                                    AttentionAlgorithms ways, Device& device,
                                    Stream stream, Untried* untried);

  /// What trials have found, a phrase each.
  const std::vector<std::string>& found() const { return found_; }

 private:
  // None: a trial found nothing.
  Result<std::optional<AttentionAlgorithm>> Try(const Launch& launch,
                                                AttentionAlgorithms ways,
                                                const AutotuneCache::Key& key,
                                                Device& device, Stream stream);

  AttentionAlgorithms allowed_ = {AttentionAlgorithm::kWarps};
  std::optional<AutotuneCache> kept_;
  std::map<AttentionKey, AttentionAlgorithm> chosen_;  // by this process
  std::vector<std::string> found_;
};

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_ATTENTION_AUTOTUNER_H_

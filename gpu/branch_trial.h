#ifndef STOWAGE_GPU_BRANCH_TRIAL_H_
#define STOWAGE_GPU_BRANCH_TRIAL_H_

// Whether graphs of a device take their branches by themselves, and rightly: a small one is
// made and launched, and what has run is looked at. A body that is left out, or taken when
// it should not be, would be a wrong result that nobody sees; so a program's branches are
// put into its graph only where this has gone well.
//
//   const Status tried = TryGraphBranches(device, stream, scratch);
//   if (!tried.ok()) ...  // the host takes the branches

#include <cstddef>
#include <span>

#include "base/bytes.h"
#include "base/result.h"
#include "gpu/device.h"

namespace stowage::gpu {

inline constexpr Bytes kBranchTrialBytes = 64;

/// Makes branches in one another and one that a fault forbids, on `stream`, and launches
/// them with choices of each body and of none. `scratch`, of the device and at a multiple of
/// 64, is used meanwhile. Errors: kUnsupported where the device has no branches in graphs,
/// or others run than were chosen, which ones; those of the device.
Status TryGraphBranches(Device& device, Stream stream,
                        std::span<std::byte, kBranchTrialBytes> scratch);

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_BRANCH_TRIAL_H_

#ifndef STOWAGE_GPU_KNOWN_ATTENTION_WAYS_H_
#define STOWAGE_GPU_KNOWN_ATTENTION_WAYS_H_

// What is known of each way of attention: its name, which devices have it, and on which it
// was seen to be right.
//
//   const AttentionWays ways = AttentionWaysOf(device->traits(), {});
//   AttentionWayName(ways.first()) == "warps";

#include <string_view>

#include "gpu/attention_ways.h"
#include "gpu/device.h"

namespace stowage::gpu {

/// By what it is computed: "warps".
std::string_view AttentionWayName(AttentionWay way);

/// Those of `asked` that such a device has; where none is asked for, those that a device of
/// its kind was seen to compute rightly.
AttentionWays AttentionWaysOf(const DeviceTraits& device, AttentionWays asked);

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_KNOWN_ATTENTION_WAYS_H_

#ifndef STOWAGE_GPU_KNOWN_ATTENTION_ALGORITHMS_H_
#define STOWAGE_GPU_KNOWN_ATTENTION_ALGORITHMS_H_

// What is known of each algorithm of attention: its name, which devices have it, and on which it
// was seen to be right.
//
//   const AttentionAlgorithms ways = AttentionAlgorithmsOf(device->traits(), {});
//   AttentionAlgorithmName(ways.first()) == "warps";

#include <string_view>

#include "gpu/attention_algorithms.h"
#include "gpu/device.h"

namespace stowage::gpu {

/// By what it is computed: "warps".
std::string_view AttentionAlgorithmName(AttentionAlgorithm way);

/// Those of `asked` that such a device has; where none is asked for, those that a device of
/// its kind was seen to compute rightly.
AttentionAlgorithms AttentionAlgorithmsOf(const DeviceTraits& device,
                                          AttentionAlgorithms asked);

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_KNOWN_ATTENTION_ALGORITHMS_H_

#include "gpu/known_attention_algorithms.h"

#include <cstddef>
#include <iterator>

namespace stowage::gpu {
namespace {

bool Anywhere(const DeviceTraits&) { return true; }
bool Nowhere(const DeviceTraits&) { return false; }
bool OnHopper(const DeviceTraits& device) {
  return device.major == 9 && device.minor == 0 && device.tensor_maps;
}

struct KnownWay {
  std::string_view name;
  /// Whether such a device has it.
  bool (*is_there)(const DeviceTraits&);
  /// Whether one of its kind has run it, and computed rightly. Only then it is tried
  /// unasked: a kernel that breaks a device, or never ends, takes the process with it.
  bool (*was_right)(const DeviceTraits&);
};

// By AttentionAlgorithm.
constexpr KnownWay kKnownWays[] = {
    // Its products ran on an H100 and an H200 (docs/archive/2026-11-26-h200.md); for
    // other devices the same PTX is compiled.
    {"warps", Anywhere, Anywhere},
    // Its products no device has run (docs/measurements/PENDING.md).
    {"warpgroups", OnHopper, Nowhere},
    // Nor these.
    {"five products", Anywhere, Nowhere},
};
static_assert(std::size(kKnownWays) == kNumAttentionAlgorithms);

}  // namespace

std::string_view AttentionAlgorithmName(AttentionAlgorithm way) {
  return kKnownWays[static_cast<size_t>(way)].name;
}

AttentionAlgorithms AttentionAlgorithmsOf(const DeviceTraits& device,
                                          AttentionAlgorithms asked) {
  AttentionAlgorithms ways;
  for (int i = 0; i < kNumAttentionAlgorithms; ++i) {
    const auto way = static_cast<AttentionAlgorithm>(i);
    const KnownWay& known = kKnownWays[i];
    const bool is_wanted =
        asked.empty() ? known.was_right(device) : asked.Has(way);
    if (is_wanted && known.is_there(device)) ways.Add(way);
  }
  return ways;
}

}  // namespace stowage::gpu

#ifndef STOWAGE_IR_CHANNEL_WINDOW_H_
#define STOWAGE_IR_CHANNEL_WINDOW_H_

// The channels that local_response_norm adds up around each: of an even number, the
// longer half lies behind, as ONNX's LRN has it.
//
//   ChannelWindow::Of(4, 96);    // 1 before and 2 after
//   ChannelWindow::Of(99, 3);    // 2 and 2: there are no more

#include <algorithm>
#include <cstdint>

namespace stowage {

struct ChannelWindow {
  int64_t before = 0, after = 0;

  /// Of `size` channels among `channels`; both are at least 1.
  static constexpr ChannelWindow Of(int64_t size, int64_t channels) {
    const int64_t before = (size - 1) / 2;
    return {.before = std::min(before, channels - 1),
            .after = std::min(size - 1 - before, channels - 1)};
  }
  constexpr int64_t length() const { return before + 1 + after; }
};

}  // namespace stowage

#endif  // STOWAGE_IR_CHANNEL_WINDOW_H_

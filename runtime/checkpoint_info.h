#ifndef STOWAGE_RUNTIME_CHECKPOINT_INFO_H_
#define STOWAGE_RUNTIME_CHECKPOINT_INFO_H_

// What a checkpoint says of the run that saved it, and what it leaves out.
//
//   info.Find("seed");  // "1", or null

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stowage {

/// What is noted of a run, by name.
using RunNotes = std::vector<std::pair<std::string, std::string>>;

/// What a checkpoint says of itself.
struct CheckpointInfo {
  int64_t step = 0;
  int64_t shards = 0;  // 0: it is one file
  RunNotes notes;
  std::string digest = {};  // of its content

  /// The note of that name, or null.
  const std::string* Find(std::string_view name) const {
    for (const auto& [key, text] : notes) {
      if (key == name) return &text;
    }
    return nullptr;
  }
};

/// Params that checkpoints leave out: nothing changes them, and whoever resumes gives
/// them their values anew, from what they came from.
struct CheckpointBase {
  std::vector<std::string> params = {};  // by name
  /// What tells the files that they come from; not empty where there are params.
  std::string content = {};
};

/// The largest step that a checkpoint may be of.
inline constexpr int64_t kMaxCheckpointStep = 1'000'000'000'000'000;

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_CHECKPOINT_INFO_H_

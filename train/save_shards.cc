#include "train/save_shards.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "base/strings.h"
#include "runtime/checkpoint_shards.h"

namespace stowage {
namespace {

// How it went at a rank, in bytes that are sent as they are.
struct Outcome {
  uint64_t digest = 0;
  int64_t code = -1;  // of its error; below 0 without one
  std::array<char, 1008> message = {};

  std::string_view text() const {
    return std::string_view(message.data(), message.size())
        .substr(0, std::string_view(message.data(), message.size()).find('\0'));
  }
};

Outcome OutcomeOf(const Result<uint64_t>& saved) {
  Outcome outcome;
  if (saved.ok()) {
    outcome.digest = *saved;
    return outcome;
  }
  outcome.code = static_cast<int64_t>(saved.error().code);
  const std::string& message = saved.error().message;
  std::copy_n(message.begin(), std::min(message.size(), outcome.message.size()),
              outcome.message.begin());
  return outcome;
}

}  // namespace

Result<std::vector<uint64_t>> SaveShards(
    const Runner& step, const RankValues& values, const std::string& path,
    int64_t number, const CheckpointBase& base, Collectives* collectives) {
  const Result<uint64_t> saved = SaveShard(step, values, path, number, base);
  if (collectives == nullptr) {
    if (!saved.ok()) return saved.error();
    return std::vector<uint64_t>{*saved};
  }
  const Outcome own = OutcomeOf(saved);
  std::vector<Outcome> all(static_cast<size_t>(values.ranks));
  if (!collectives->AllGather(std::as_bytes(std::span(&own, 1)),
                              std::as_writable_bytes(std::span(all)))) {
    return Error{ErrorCode::kDevice,
                 StrCat("[ranks] a rank was lost while the shards of ", path,
                        " were saved")};
  }
  std::vector<uint64_t> digests;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].code >= 0) {
      return Error{static_cast<ErrorCode>(all[rank].code),
                   StrCat("[ranks] rank ", rank, ": ", all[rank].text())};
    }
    digests.push_back(all[rank].digest);
  }
  return digests;
}

}  // namespace stowage

#ifndef STOWAGE_RUNTIME_CHECKPOINT_FORMAT_H_
#define STOWAGE_RUNTIME_CHECKPOINT_FORMAT_H_

// What the writers and readers of checkpoints have in common: names, digests, and how a
// checkpoint is cut into shards.
//
// A whole checkpoint is one safetensors file, whose metadata are step, number of params,
// notes and a digest of all of it. A sharded one is an index, a safetensors file without
// tensors: its metadata hold besides the header that the whole would have, the elements
// of each tensor's blocks, and the digest of each shard's header. The shards lie in a
// folder beside. Shard r holds of each tensor the r-th block, flat, and a digest of each;
// what is empty is not in it. A shard's name has the digest of its header and so of all
// of it: one name, one content.
//
//   run.safetensors                                           the index
//   run.safetensors.shards/400.2-of-4.9f86d081884c7d65.safetensors

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/result.h"
#include "formats/safetensors.h"
#include "ir/graph.h"

namespace stowage {

// What a checkpoint says of the run that saved it, and what it leaves out.
//
//   info.Find("seed");  // "1", or null

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

inline constexpr std::string_view kWholeFormat = "stowage-checkpoint-1";
inline constexpr std::string_view kShardedFormat =
    "stowage-sharded-checkpoint-1";
inline constexpr std::string_view kShardFormat = "stowage-checkpoint-shard-1";

// Metadata of checkpoints that are no notes.
inline constexpr std::string_view kFormatKey = "format";
inline constexpr std::string_view kStepKey = "step";
inline constexpr std::string_view kParamsKey = "params";
inline constexpr std::string_view kBaseKey = "base";
inline constexpr std::string_view kDigestKey = "fnv1a64";
// Of an index: the header that the whole would have, the elements of blocks in the order
// of its tensors, the digests of the shards' headers, and the folder's name.
inline constexpr std::string_view kWholeKey = "stowage.whole";
inline constexpr std::string_view kBlocksKey = "stowage.blocks";
inline constexpr std::string_view kShardsKey = "stowage.shards";
inline constexpr std::string_view kFolderKey = "stowage.folder";
// Of a shard: the digests of its blocks.
inline constexpr std::string_view kBlockDigestsKey = "xxh64";

/// Whether no note can be called so.
bool IsOwnName(std::string_view name);

/// The inverse of HexDigest. Error where the text is none.
Result<uint64_t> ParseHexDigest(std::string_view text);
/// Words with a space between them, and back.
std::string Joined(const std::vector<std::string>& words);
std::vector<std::string> Split(std::string_view text);

/// Of all that a checkpoint's digest covers but the data: step, number of params, base,
/// notes, names, types and ranges, and what an index has besides.
Fnv1a BeginDigest(const SafetensorsHeader& header);
/// Of a block, by its parts of kPartBytes, each with the digest of those before it; 0 of
/// nothing.
uint64_t DigestOn(uint64_t before, std::span<const std::byte> part);
/// By which a shard is known.
uint64_t DigestOfShard(const SafetensorsHeader& header);

/// Bytes of a tensor that one file has.
struct Piece {
  size_t tensor = 0;
  Bytes begin = 0;  // in the tensor
  Bytes size = 0;
  Bytes at = 0;  // in the file's data
};
/// What the shard of `rank` holds: of each tensor the block of so many elements. Linear.
std::vector<Piece> PiecesOfShard(const std::vector<SafeTensor>& tensors,
                                 const std::vector<int64_t>& blocks,
                                 int64_t rank);

/// "run.safetensors.shards", for the file that `path` leads to (ResolvedPath); the path of
/// what is so called beside that file; the name of a shard in it, and whether a name is
/// one.
std::string ShardFolderName(const std::string& path);
std::string Beside(const std::string& path, const std::string& name);
std::string ShardName(int64_t step, int64_t rank, int64_t ranks,
                      uint64_t digest);
bool IsShardName(std::string_view name);

/// Tensors like these values, one after the other.
SafetensorsHeader HeaderOf(const Graph& graph,
                           const std::vector<ValueId>& values);

/// What a checkpoint at `path` is to hold of `graph`, and its header but for the digest.
struct SavedValues {
  std::vector<ValueId> values;
  SafetensorsHeader header;
};
/// Errors, kInvalidArgument: a step below 0 or above kMaxCheckpointStep, or a note whose
/// name is a checkpoint's own.
Result<SavedValues> ValuesToSave(const Graph& graph, const std::string& path,
                                 int64_t step, const RunNotes& notes,
                                 const CheckpointBase& base);

/// Error kNotFinite where an element is NaN or infinite in a part of a value of the
/// program called so, which begins at byte `begin` of it.
Status CheckFinitePart(std::string_view program, const ValueInfo& value,
                       Bytes begin, std::span<const std::byte> part);

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_CHECKPOINT_FORMAT_H_

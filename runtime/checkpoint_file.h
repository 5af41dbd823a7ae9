#ifndef STOWAGE_RUNTIME_CHECKPOINT_FILE_H_
#define STOWAGE_RUNTIME_CHECKPOINT_FILE_H_

// Defines the format of checkpoints, and CheckpointFile, which represents an open checkpoint. A
// CheckpointFile provides the metadata, the tensors, and the bytes of the tensors, which are
// checked before any of them is used. runtime/checkpoint.h saves and loads checkpoints.
//
//   Result<CheckpointFile> file = CheckpointFile::Open("run.safetensors");
//   std::vector<ByteRange> wanted = ...;  // One range per tensor.
//   Result<CheckedBytes> checked = file->Check(wanted);
//   Status read = file->Read(*checked, [&](size_t tensor, Bytes begin, auto part) {
//     return runner.WritePart(file->tensors()[tensor].name, dtype, begin, part);
//   });
//
// A whole checkpoint is one safetensors file. Its metadata are the step, the number of params,
// the notes, and a digest of the complete content.
//
// A sharded checkpoint is an index and a folder of shards next to it. The index is a
// safetensors file without tensors. Its metadata also contain the header that the whole checkpoint
// would have, the number of elements in a block of each tensor, and the digest of each shard's
// header. Shard r contains block r of each tensor, as a flat array, and a digest of each block.
// Empty blocks are omitted. The name of a shard contains the digest of its header. The header
// contains the digests of the blocks, so shards of equal names have equal content.
//
//   run.safetensors                                           the index
//   run.safetensors.shards/400.2-of-4.9f86d081884c7d65.safetensors

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
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

/// Notes of a run, as pairs of name and text.
using RunNotes = std::vector<std::pair<std::string, std::string>>;

/// A checkpoint's metadata.
struct CheckpointInfo {
  int64_t step = 0;
  // The number of shards. 0 means that the checkpoint is one file.
  int64_t shards = 0;
  RunNotes notes;
  // The digest of the content. Only ReadCheckpointInfo (runtime/checkpoint.h) sets it.
  std::string digest = {};

  /// Returns the note called `name`, or null if there is none.
  const std::string* Find(std::string_view name) const {
    for (const auto& [key, text] : notes) {
      if (key == name) return &text;
    }
    return nullptr;
  }
};

/// Params that checkpoints omit, because they never change and a resumed run loads them from
/// their origin.
struct CheckpointBase {
  std::vector<std::string> params = {};  // The names of these params.
  /// Identifies the files that the params come from. Must not be empty if there are params.
  std::string content = {};
};

/// The maximum step of a checkpoint.
inline constexpr int64_t kMaxCheckpointStep = 1'000'000'000'000'000;

inline constexpr std::string_view kWholeFormat = "stowage-checkpoint-1";
inline constexpr std::string_view kShardedFormat =
    "stowage-sharded-checkpoint-1";
inline constexpr std::string_view kShardFormat = "stowage-checkpoint-shard-1";

// The metadata keys of checkpoints, other than notes.
inline constexpr std::string_view kFormatKey = "format";
inline constexpr std::string_view kStepKey = "step";
inline constexpr std::string_view kParamsKey = "params";
inline constexpr std::string_view kBaseKey = "base";
inline constexpr std::string_view kDigestKey = "fnv1a64";
// The additional metadata keys of an index: the header of the whole checkpoint, the number of
// elements in a block of each tensor, the digests of the shards' headers, and the name of the shard
// folder.
inline constexpr std::string_view kWholeKey = "stowage.whole";
inline constexpr std::string_view kBlocksKey = "stowage.blocks";
inline constexpr std::string_view kShardsKey = "stowage.shards";
inline constexpr std::string_view kFolderKey = "stowage.folder";
// The metadata key of a shard: the digests of its blocks.
inline constexpr std::string_view kBlockDigestsKey = "xxh64";

/// Returns whether `name` is a metadata key of checkpoints, so that no note may have this name.
bool IsOwnName(std::string_view name);

/// Parses the result of HexDigest. Returns kInvalidArgument if the text is not a digest.
Result<uint64_t> ParseHexDigest(std::string_view text);
/// Joins words with a space between them.
std::string Joined(const std::vector<std::string>& words);
/// Splits a string at each space.
std::vector<std::string> Split(std::string_view text);

/// Returns a hash of everything in a checkpoint except the data: step, number of params, base,
/// notes, names, types and ranges, and the fields of an index. The caller adds the data to the
/// hash. `header` must have the keys kStepKey and kParamsKey.
Fnv1a BeginDigest(const SafetensorsHeader& header);
/// Returns the digest of a block up to and including `part`. `before` is the digest of the
/// preceding parts of the block, or 0 for the first part. All parts except the last must have
/// kPartBytes bytes (runtime/values.h). The digest of an empty block is 0.
uint64_t DigestOn(uint64_t before, std::span<const std::byte> part);
/// Returns the digest that identifies a shard.
uint64_t DigestOfShard(const SafetensorsHeader& header);

/// A range of bytes of a tensor that is in one file.
struct Piece {
  size_t tensor = 0;
  Bytes begin = 0;  // The offset in the tensor.
  Bytes size = 0;
  Bytes at = 0;  // The offset in the data of the file.
};
/// Returns the contents of the shard of `rank`, which are block `rank` of each tensor. A block of
/// tensor i has blocks[i] elements, or fewer at the end of the tensor. Empty blocks are omitted.
/// Linear.
std::vector<Piece> PiecesOfShard(const std::vector<SafeTensor>& tensors,
                                 const std::vector<int64_t>& blocks,
                                 int64_t rank);

/// Returns the name of the shard folder of a checkpoint, such as "run.safetensors.shards". It is
/// the name of the file to which `path` resolves (ResolvedPath in base/files.h) with a suffix.
std::string ShardFolderName(const std::string& path);
/// Returns the path of `name` in the folder of the file to which `path` resolves.
std::string Beside(const std::string& path, const std::string& name);
/// Returns the file name of a shard.
std::string ShardName(int64_t step, int64_t rank, int64_t ranks,
                      uint64_t digest);
/// Returns whether `name` has the form of ShardName.
bool IsShardName(std::string_view name);

/// Returns a header whose tensors have the names and types of `values`, in this order and in
/// contiguous ranges.
SafetensorsHeader HeaderOf(const Graph& graph,
                           const std::vector<ValueId>& values);

/// The values in a checkpoint, and its header without the digest.
struct SavedValues {
  std::vector<ValueId> values;
  SafetensorsHeader header;
};
/// Returns the values and the header of a checkpoint of `graph`. `path` is the checkpoint's path in
/// messages. Returns kInvalidArgument if the step is below 0 or above kMaxCheckpointStep, or if a
/// note has a reserved name.
Result<SavedValues> ValuesToSave(const Graph& graph, const std::string& path,
                                 int64_t step, const RunNotes& notes,
                                 const CheckpointBase& base);

/// Returns kNotFinite if an element of `part` is NaN or infinite. `part` is the range of `value`
/// that starts at byte `begin`. The message names the value and `program`.
Status CheckFinitePart(std::string_view program, const ValueInfo& value,
                       Bytes begin, std::span<const std::byte> part);

/// A half-open range of bytes of a tensor. Empty if both are equal.
struct ByteRange {
  Bytes begin = 0;
  Bytes end = 0;
};

/// The result of CheckpointFile::Check: hashes of the checked bytes, by which a second read detects
/// that the file has changed.
struct CheckedBytes {
  // The ranges, indexed by tensor.
  std::vector<ByteRange> wanted;
  std::vector<std::vector<uint64_t>> hashes;
};

/// An open checkpoint, which is one file, or an index and the shards of several ranks. Only the
/// shards that contain wanted bytes are read.
class CheckpointFile {
 public:
  /// Reads the header of the file or index at `path`. Returns kNotFound or kIo if the file cannot
  /// be read, and kInvalidArgument if it is not a checkpoint or its header is damaged.
  static Result<CheckpointFile> Open(const std::string& path);

  /// Opens the safetensors file at `path` in the same way as Open if its metadata mark it as a
  /// checkpoint, and otherwise returns nullopt. Returns kInvalidArgument if the file is not a
  /// safetensors file.
  static Result<std::optional<CheckpointFile>> OpenIfOne(
      const std::string& path);

  const CheckpointInfo& info() const { return info_; }
  bool is_sharded() const { return !shards_.empty(); }
  /// Returns the whole tensors in the order of their bytes. The first params() tensors are
  /// params, and the others are states.
  const std::vector<SafeTensor>& tensors() const { return tensors_; }
  int64_t params() const { return params_; }
  /// Returns the origin of the params that the checkpoint omits, or null if it omits none.
  const std::string* base() const { return file_.header().Find(kBaseKey); }
  /// Returns the digest of the content. For a sharded checkpoint, it is the digest of the
  /// index, which covers all shards.
  const std::string& digest() const { return *file_.header().Find(kDigestKey); }
  /// Returns the paths of the shards. Empty if the checkpoint is one file.
  const std::vector<std::string>& shards() const { return shards_; }

  /// Checks that the content is as it was saved. Reads the complete file, or all blocks of shards
  /// that contain bytes of the wanted ranges. `wanted` must have one range per tensor. Returns kIo
  /// if a file cannot be read, kNotFound if a shard is missing, and kInvalidArgument if a file is
  /// damaged.
  Result<CheckedBytes> Check(std::vector<ByteRange> wanted) const;
  /// Returns the ranges of all bytes of all tensors.
  std::vector<ByteRange> Everything() const;

  /// Reads the checked bytes a second time and passes the wanted ranges to `take`, in parts of at
  /// most kPartBytes bytes. The parts of a tensor are passed in order. Returns kIo if a part has
  /// changed. Stops at the first error of `take` and returns it.
  using Take = std::function<Status(size_t tensor, Bytes begin,
                                    std::span<const std::byte> part)>;
  Status Read(const CheckedBytes& checked, const Take& take) const;

  /// Returns an error of this checkpoint: `[checkpoint] "path" message`.
  Error Fail(std::string_view message,
             ErrorCode code = ErrorCode::kInvalidArgument) const {
    return file_.Fail(message, code);
  }

 private:
  explicit CheckpointFile(SafetensorsFile file) : file_(std::move(file)) {}
  Status ReadHeader();
  Status ReadIndex();
  Result<SafetensorsFile> OpenShard(size_t rank) const;
  Result<CheckedBytes> CheckWhole(std::vector<ByteRange> wanted) const;
  Result<CheckedBytes> CheckShards(std::vector<ByteRange> wanted) const;
  std::vector<Piece> PiecesOf(size_t file,
                              const std::vector<ByteRange>& wanted) const;

  // The whole file, or the index.
  SafetensorsFile file_;
  CheckpointInfo info_;
  int64_t params_ = 0;
  std::vector<SafeTensor> tensors_;
  std::vector<std::string> shards_;
  // The digests of the shards.
  std::vector<uint64_t> digests_;
  // The number of elements in a block, indexed by tensor.
  std::vector<int64_t> blocks_;
};

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_CHECKPOINT_FILE_H_

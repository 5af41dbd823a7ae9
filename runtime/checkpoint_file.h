#ifndef STOWAGE_RUNTIME_CHECKPOINT_FILE_H_
#define STOWAGE_RUNTIME_CHECKPOINT_FILE_H_

// Defines the format of checkpoints, and CheckpointFile, which is an open checkpoint: its
// metadata, its tensors, and their bytes, which are checked before any of them is used.
//
//   Result<CheckpointFile> file = CheckpointFile::Open("run.safetensors");
//   std::vector<ByteRange> wanted = ...;  // Of each tensor.
//   Result<CheckedBytes> checked = file->Check(wanted);
//   Status read = file->Read(*checked, [&](size_t tensor, Bytes begin, auto part) {
//     return runner.WritePart(file->tensors()[tensor].name, dtype, begin, part);
//   });
//
// A whole checkpoint is one safetensors file. Its metadata are the step, the number of params,
// the notes, and a digest of the complete content.
//
// A sharded checkpoint is an index and a folder of shards next to it. The index is a
// safetensors file without tensors. Its metadata also contain the header of the whole file, the
// number of elements in each tensor's blocks, and the digest of each shard's header. Shard r
// holds block r of each tensor, flat, and a digest of each block. Empty blocks are omitted. The
// name of a shard contains the digest of its header, which covers its complete content. Equal
// names therefore mean equal content.
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
  // The digest of the content. Set only by ReadCheckpointInfo.
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
// The metadata keys of an index: the header of the whole file, the numbers of elements of
// blocks in the order of its tensors, the digests of the shards' headers, and the folder's
// name.
inline constexpr std::string_view kWholeKey = "stowage.whole";
inline constexpr std::string_view kBlocksKey = "stowage.blocks";
inline constexpr std::string_view kShardsKey = "stowage.shards";
inline constexpr std::string_view kFolderKey = "stowage.folder";
// The metadata key of a shard: the digests of its blocks.
inline constexpr std::string_view kBlockDigestsKey = "xxh64";

/// Returns whether the name is reserved, so that no note may have it.
bool IsOwnName(std::string_view name);

/// Parses the result of HexDigest. Returns an error if the text is not a digest.
Result<uint64_t> ParseHexDigest(std::string_view text);
/// Joins words with a space between them.
std::string Joined(const std::vector<std::string>& words);
/// Splits a string at spaces.
std::vector<std::string> Split(std::string_view text);

/// Returns a hash of everything in a checkpoint except the data: step, number of params, base,
/// notes, names, types and ranges, and the fields of an index. The caller adds the data.
Fnv1a BeginDigest(const SafetensorsHeader& header);
/// Returns the digest of a block up to and including `part`, where `before` is the digest of
/// the parts before it. Parts have kPartBytes. The digest of an empty block is 0.
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
/// Returns the contents of the shard of `rank`. It holds block `rank` of each tensor, where a
/// block of tensor i has blocks[i] elements. Linear.
std::vector<Piece> PiecesOfShard(const std::vector<SafeTensor>& tensors,
                                 const std::vector<int64_t>& blocks,
                                 int64_t rank);

/// Returns the name of the shard folder, such as "run.safetensors.shards", of the file that
/// `path` resolves to (ResolvedPath).
std::string ShardFolderName(const std::string& path);
/// Returns the path of `name` in the folder of the file that `path` resolves to.
std::string Beside(const std::string& path, const std::string& name);
/// Returns the file name of a shard.
std::string ShardName(int64_t step, int64_t rank, int64_t ranks,
                      uint64_t digest);
/// Returns whether `name` has the form of ShardName.
bool IsShardName(std::string_view name);

/// Returns a header with tensors that have the names and types of these values, in contiguous
/// ranges.
SafetensorsHeader HeaderOf(const Graph& graph,
                           const std::vector<ValueId>& values);

/// The contents of a checkpoint of `graph` at `path`, and its header without the digest.
struct SavedValues {
  std::vector<ValueId> values;
  SafetensorsHeader header;
};
/// Returns the values and the header of a checkpoint. Returns kInvalidArgument if the step is
/// below 0 or above kMaxCheckpointStep, or a note has a reserved name.
Result<SavedValues> ValuesToSave(const Graph& graph, const std::string& path,
                                 int64_t step, const RunNotes& notes,
                                 const CheckpointBase& base);

/// Returns kNotFinite if an element of `part` is NaN or infinite. `part` is the range of the
/// program's value that starts at byte `begin`.
Status CheckFinitePart(std::string_view program, const ValueInfo& value,
                       Bytes begin, std::span<const std::byte> part);

/// A half-open range of bytes of a tensor. Empty if both are equal.
struct ByteRange {
  Bytes begin = 0;
  Bytes end = 0;
};

/// Identifies checked bytes when they are read a second time, with a hash of each part.
struct CheckedBytes {
  // The ranges, indexed by tensor.
  std::vector<ByteRange> wanted;
  std::vector<std::vector<uint64_t>> hashes;
};

/// An open checkpoint, which is one file or the shards of several ranks. Only the shards that
/// hold wanted bytes are read.
class CheckpointFile {
 public:
  /// Reads the header of one file or of an index. Returns kNotFound or kIo if the file cannot
  /// be read, and kInvalidArgument if it is not a checkpoint.
  static Result<CheckpointFile> Open(const std::string& path);

  /// Opens the safetensors file at `path` as Open does if it is marked as a checkpoint.
  /// Otherwise returns nullopt.
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

  /// Reads the complete file, or all blocks of shards that contain bytes of the wanted ranges,
  /// and checks that they are as saved. `wanted` has one range per tensor. Returns kIo if a
  /// file cannot be read, kNotFound if a shard is missing, and kInvalidArgument if a file is
  /// damaged.
  Result<CheckedBytes> Check(std::vector<ByteRange> wanted) const;
  /// Returns the ranges of all bytes of all tensors.
  std::vector<ByteRange> Everything() const;

  /// Reads the checked bytes a second time and passes the wanted ranges to `take`. The parts of
  /// a tensor are passed in order. Returns kIo if a part has changed. Stops at the first error
  /// of `take` and returns it.
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

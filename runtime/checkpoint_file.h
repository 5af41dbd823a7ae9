#ifndef STOWAGE_RUNTIME_CHECKPOINT_FILE_H_
#define STOWAGE_RUNTIME_CHECKPOINT_FILE_H_

// The format of checkpoints, and CheckpointFile, an open one: its metadata, its tensors,
// and their bytes, which are checked before any of them is used.
//
//   Result<CheckpointFile> file = CheckpointFile::Open("run.safetensors");
//   std::vector<ByteRange> wanted = ...;  // of each tensor
//   Result<CheckedBytes> checked = file->Check(wanted);
//   Status read = file->Read(*checked, [&](size_t tensor, Bytes begin, auto part) {
//     return runner.WritePart(file->tensors()[tensor].name, dtype, begin, part);
//   });
//
// A whole checkpoint is one safetensors file, whose metadata are step, number of params,
// notes and a digest of all of it. A sharded one is an index, a safetensors file without
// tensors: its metadata also hold the header of the whole file, the elements of each
// tensor's blocks, and the digest of each shard's header. The shards are in a folder
// beside it. Shard r holds the r-th block of each tensor, flat, and a digest of each;
// empty blocks are left out. A shard's name has the digest of its header and so of all of
// it: equal names mean equal content.
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

/// Notes of a run, by name.
using RunNotes = std::vector<std::pair<std::string, std::string>>;

/// A checkpoint's metadata.
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

/// Params that checkpoints leave out: they never change, and a resumed run loads them
/// again from their origin.
struct CheckpointBase {
  std::vector<std::string> params = {};  // by name
  /// Identifies the files that they come from; not empty if there are params.
  std::string content = {};
};

/// The maximum step of a checkpoint.
inline constexpr int64_t kMaxCheckpointStep = 1'000'000'000'000'000;

inline constexpr std::string_view kWholeFormat = "stowage-checkpoint-1";
inline constexpr std::string_view kShardedFormat =
    "stowage-sharded-checkpoint-1";
inline constexpr std::string_view kShardFormat = "stowage-checkpoint-shard-1";

// Metadata of checkpoints other than notes.
inline constexpr std::string_view kFormatKey = "format";
inline constexpr std::string_view kStepKey = "step";
inline constexpr std::string_view kParamsKey = "params";
inline constexpr std::string_view kBaseKey = "base";
inline constexpr std::string_view kDigestKey = "fnv1a64";
// For an index: the header of the whole file, the elements of blocks in the order of its
// tensors, the digests of the shards' headers, and the folder's name.
inline constexpr std::string_view kWholeKey = "stowage.whole";
inline constexpr std::string_view kBlocksKey = "stowage.blocks";
inline constexpr std::string_view kShardsKey = "stowage.shards";
inline constexpr std::string_view kFolderKey = "stowage.folder";
// For a shard: the digests of its blocks.
inline constexpr std::string_view kBlockDigestsKey = "xxh64";

/// Returns whether the name is reserved, so that no note may have it.
bool IsOwnName(std::string_view name);

/// The inverse of HexDigest. Error if the text is not a digest.
Result<uint64_t> ParseHexDigest(std::string_view text);
/// Joins words with a space between them, and splits them.
std::string Joined(const std::vector<std::string>& words);
std::vector<std::string> Split(std::string_view text);

/// The digest of everything in a checkpoint but the data: step, number of params, base,
/// notes, names, types and ranges, and the fields of an index.
Fnv1a BeginDigest(const SafetensorsHeader& header);
/// The digest of a block, by its parts of kPartBytes, each with the digest of those
/// before it; 0 for an empty one.
uint64_t DigestOn(uint64_t before, std::span<const std::byte> part);
/// Identifies a shard.
uint64_t DigestOfShard(const SafetensorsHeader& header);

/// Bytes of a tensor that one file has.
struct Piece {
  size_t tensor = 0;
  Bytes begin = 0;  // in the tensor
  Bytes size = 0;
  Bytes at = 0;  // in the file's data
};
/// The contents of the shard of `rank`: of each tensor the block of that many elements.
/// Linear.
std::vector<Piece> PiecesOfShard(const std::vector<SafeTensor>& tensors,
                                 const std::vector<int64_t>& blocks,
                                 int64_t rank);

/// "run.safetensors.shards", for the file that `path` resolves to (ResolvedPath); the
/// path of an entry of that name beside that file; the name of a shard in it, and whether
/// a name is one.
std::string ShardFolderName(const std::string& path);
std::string Beside(const std::string& path, const std::string& name);
std::string ShardName(int64_t step, int64_t rank, int64_t ranks,
                      uint64_t digest);
bool IsShardName(std::string_view name);

/// Tensors like these values, one after the other.
SafetensorsHeader HeaderOf(const Graph& graph,
                           const std::vector<ValueId>& values);

/// The contents of a checkpoint of `graph` at `path`, and its header without the digest.
struct SavedValues {
  std::vector<ValueId> values;
  SafetensorsHeader header;
};
/// Errors, kInvalidArgument: a step below 0 or above kMaxCheckpointStep, or a note with a
/// reserved name.
Result<SavedValues> ValuesToSave(const Graph& graph, const std::string& path,
                                 int64_t step, const RunNotes& notes,
                                 const CheckpointBase& base);

/// Error kNotFinite if an element is NaN or infinite in a part, beginning at byte
/// `begin`, of the program's value of that name.
Status CheckFinitePart(std::string_view program, const ValueInfo& value,
                       Bytes begin, std::span<const std::byte> part);

/// A half-open range of bytes of a tensor; empty if both are equal.
struct ByteRange {
  Bytes begin = 0;
  Bytes end = 0;
};

/// Identifies checked bytes when they are read again: a hash of every part.
struct CheckedBytes {
  std::vector<ByteRange> wanted;  // by tensor
  std::vector<std::vector<uint64_t>> hashes;
};

/// A checkpoint that is open, one file or shards of several ranks; only the shards that
/// hold wanted bytes are read.
class CheckpointFile {
 public:
  /// Reads the header, of one file or of an index. Errors: kNotFound, kIo;
  /// kInvalidArgument if it is not a checkpoint.
  static Result<CheckpointFile> Open(const std::string& path);

  /// As above if the safetensors file at `path` is marked as a checkpoint; otherwise
  /// nothing.
  static Result<std::optional<CheckpointFile>> OpenIfOne(
      const std::string& path);

  const CheckpointInfo& info() const { return info_; }
  bool is_sharded() const { return !shards_.empty(); }
  /// Whole tensors, in the order of their bytes; the first params() are params, the
  /// others states.
  const std::vector<SafeTensor>& tensors() const { return tensors_; }
  int64_t params() const { return params_; }
  /// The origin of the params that it leaves out, or null.
  const std::string* base() const { return file_.header().Find(kBaseKey); }
  /// The digest of its content; for a sharded checkpoint, of the index and so of all
  /// shards.
  const std::string& digest() const { return *file_.header().Find(kDigestKey); }
  /// The paths of its shards; none if it is whole.
  const std::vector<std::string>& shards() const { return shards_; }

  /// Reads the wanted ranges of each tensor, and a whole file completely, and checks that
  /// they are as saved. Errors: kIo; kNotFound for a missing shard; kInvalidArgument for
  /// damage.
  Result<CheckedBytes> Check(std::vector<ByteRange> wanted) const;
  /// All bytes of all tensors.
  std::vector<ByteRange> Everything() const;

  /// Reads the checked bytes again and passes the wanted ranges to `take`, in parts,
  /// those of a tensor in order. Errors: kIo if a part has changed; the first error of
  /// `take`, which ends the read.
  using Take = std::function<Status(size_t tensor, Bytes begin,
                                    std::span<const std::byte> part)>;
  Status Read(const CheckedBytes& checked, const Take& take) const;

  /// An error of this checkpoint: `[checkpoint] "path" message`.
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

  SafetensorsFile file_;  // the whole, or the index
  CheckpointInfo info_;
  int64_t params_ = 0;
  std::vector<SafeTensor> tensors_;
  std::vector<std::string> shards_;
  std::vector<uint64_t> digests_;  // of the shards
  std::vector<int64_t> blocks_;    // elements, by tensor
};

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_CHECKPOINT_FILE_H_

#ifndef STOWAGE_RUNTIME_CHECKPOINT_FILE_H_
#define STOWAGE_RUNTIME_CHECKPOINT_FILE_H_

// An open checkpoint: its metadata, its tensors, and their bytes, which are checked
// before any of them is used. It is one file, or shards of several ranks; readers need
// not know which, and only the required shards are read.
//
//   Result<CheckpointFile> file = CheckpointFile::Open("run.safetensors");
//   std::vector<ByteRange> wanted = ...;  // of each tensor
//   Result<CheckedBytes> checked = file->Check(wanted);
//   Status read = file->Read(*checked, [&](size_t tensor, Bytes begin, auto part) {
//     return runner.WritePart(file->tensors()[tensor].name, dtype, begin, part);
//   });

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
#include "base/result.h"
#include "formats/safetensors.h"
#include "runtime/checkpoint_format.h"

namespace stowage {

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

#ifndef STOWAGE_RUNTIME_CHECKPOINT_FILE_H_
#define STOWAGE_RUNTIME_CHECKPOINT_FILE_H_

// A checkpoint that is open: what it says of itself, its tensors, and their bytes, which
// are checked before any of them is handed on. Whether it is one file or shards of
// several ranks, whoever reads it need not know; of shards only those are read that have
// what is wanted.
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

/// Bytes of a tensor, half-open; none of them where the two are equal.
struct ByteRange {
  Bytes begin = 0;
  Bytes end = 0;
};

/// By what bytes that were checked are known again: a hash of every part that was read.
struct CheckedBytes {
  std::vector<ByteRange> wanted;  // by tensor
  std::vector<std::vector<uint64_t>> hashes;
};

class CheckpointFile {
 public:
  /// Reads the header, of one file or of an index. Errors: kNotFound, kIo;
  /// kInvalidArgument where it is no checkpoint's.
  static Result<CheckpointFile> Open(const std::string& path);

  /// The same where the safetensors file at `path` calls itself a checkpoint; else
  /// nothing.
  static Result<std::optional<CheckpointFile>> OpenIfOne(
      const std::string& path);

  const CheckpointInfo& info() const { return info_; }
  bool is_sharded() const { return !shards_.empty(); }
  /// Whole, in the order of their bytes; the first params() are params, the others states.
  const std::vector<SafeTensor>& tensors() const { return tensors_; }
  int64_t params() const { return params_; }
  /// What the params are of that it leaves out, or null.
  const std::string* base() const { return file_.header().Find(kBaseKey); }
  /// Of its content; of a checkpoint in shards, of the index and so of all of them.
  const std::string& digest() const { return *file_.header().Find(kDigestKey); }
  /// The paths of its shards; none where it is whole.
  const std::vector<std::string>& shards() const { return shards_; }

  /// Reads what is wanted of each tensor, and of a whole file all, and checks that it is
  /// what was saved. Errors: kIo; kNotFound for a shard that is not there;
  /// kInvalidArgument for what is damaged.
  Result<CheckedBytes> Check(std::vector<ByteRange> wanted) const;
  /// All bytes of all tensors.
  std::vector<ByteRange> Everything() const;

  /// Reads again what was checked and hands on what is wanted of it, in parts, those of a
  /// tensor in order. Errors: kIo where a part is no longer what it was; those of `take`,
  /// the first of which ends it all.
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

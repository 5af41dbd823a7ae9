#include "runtime/checkpoint_shards.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string_view>
#include <system_error>
#include <unordered_set>
#include <utility>

#include "base/bytes.h"
#include "base/strings.h"
#include "formats/safetensors.h"
#include "ir/tensor_type.h"
#include "runtime/checkpoint_file.h"
#include "runtime/checkpoint_format.h"
#include "runtime/initial_values.h"

namespace stowage {
namespace {

namespace fs = std::filesystem;

// The elements of a block of each tensor of `header`: as the step of a rank splits it, or
// as many as come to each where it does not.
std::vector<int64_t> BlocksOf(const RankValues& values, const Graph& step,
                              const SavedValues& saved) {
  std::vector<int64_t> blocks;
  for (const ValueId id : saved.values) {
    const ValueInfo& value = values.whole.value(id);
    const int64_t elements = value.type.shape.num_elements();
    blocks.push_back(BlockOf(values, step, value)
                         .value_or((elements - 1) / values.ranks + 1));
  }
  return blocks;
}

// A run of bytes that a leaf of the rank's step has, of a value of which it is a piece.
struct Source {
  const ValueInfo& value;
  Piece piece;
  std::string name;
  Bytes begin = 0;  // in what is called so
};

std::vector<Source> SourcesOf(const RankValues& values, const Graph& step,
                              const SavedValues& saved,
                              const std::vector<int64_t>& blocks) {
  std::vector<Source> sources;
  for (const Piece& piece :
       PiecesOfShard(saved.header.tensors, blocks, values.rank)) {
    const ValueInfo& value = values.whole.value(saved.values[piece.tensor]);
    const bool is_split = BlockOf(values, step, value).has_value();
    sources.push_back({value, piece,
                       is_split ? values.own_name(value.name) : value.name,
                       is_split ? 0 : piece.begin});
  }
  return sources;
}

Status ReadSource(
    const Source& source, const Runner& step,
    const std::function<Status(Bytes begin, std::span<const std::byte> part)>&
        take) {
  return InParts(
      source.piece.size, [&](Bytes begin, std::span<std::byte> part) -> Status {
        STOWAGE_RETURN_IF_ERROR(step.ReadPart(
            source.name, source.value.type.dtype, source.begin + begin, part));
        return take(begin, part);
      });
}

// The header of a shard, once its values have been read and found finite.
Result<SafetensorsHeader> HeaderOfShard(const std::vector<Source>& sources,
                                        const Runner& step,
                                        const std::string& path) {
  SafetensorsHeader header;
  std::vector<std::string> digests;
  for (const Source& source : sources) {
    const Piece& piece = source.piece;
    const DType dtype = source.value.type.dtype;
    uint64_t digest = 0;
    const Status finite =
        ReadSource(source, step,
                   [&](Bytes begin, std::span<const std::byte> part) -> Status {
                     digest = DigestOn(digest, part);
                     return CheckFinitePart(step.name(), source.value,
                                            piece.begin + begin, part);
                   });
    if (!finite.ok()) {
      return Error{finite.error().code,
                   StrCat(finite.error().message, "; ", Quoted(path),
                          " is not written, and what it held before is still "
                          "there")};
    }
    header.tensors.push_back({source.value.name,
                              {dtype, {piece.size / SizeOf(dtype)}},
                              piece.at,
                              piece.at + piece.size});
    digests.push_back(HexDigest(digest));
  }
  header.metadata = {{std::string(kFormatKey), std::string(kShardFormat)},
                     {std::string(kBlockDigestsKey), Joined(digests)}};
  return header;
}

std::string FolderOf(const std::string& path) {
  return Beside(path, ShardFolderName(path));
}

// A file by which a rank shows the others that it is in the same folder.
std::string SignOf(const std::string& path, int64_t rank, int64_t sign) {
  return StrCat(FolderOf(path), "/.", sign, "-of-rank-", rank, ".lock");
}

}  // namespace

Status PrepareShards(const std::string& path, int64_t rank, int64_t sign) {
  const std::string folder = FolderOf(path);
  std::error_code failed;
  fs::create_directory(folder, failed);
  if (failed) {
    return Error{ErrorCode::kIo,
                 StrCat("[checkpoint] no folder ", Quoted(folder),
                        " for shards can be made: ", failed.message())};
  }
  const std::string own = SignOf(path, rank, sign);
  std::ofstream made(own);
  if (made) return {};
  return Error{ErrorCode::kIo,
               StrCat("[checkpoint] the folder ", Quoted(folder),
                      " for shards takes no files: ", std::strerror(errno))};
}

Status CheckSigns(const std::string& path, int64_t ranks, int64_t sign) {
  for (int64_t rank = 0; rank < ranks; ++rank) {
    std::error_code ignored;
    if (fs::exists(SignOf(path, rank, sign), ignored)) continue;
    return Error{ErrorCode::kIo,
                 StrCat("[checkpoint] what rank ", rank, " of ", ranks,
                        " writes to ", Quoted(FolderOf(path)),
                        " is not to be seen from rank 0; shards need a folder "
                        "that all ranks see, or leave --save-as sharded away")};
  }
  return {};
}

void RemoveSign(const std::string& path, int64_t rank, int64_t sign) {
  std::error_code ignored;
  fs::remove(SignOf(path, rank, sign), ignored);
}

Result<uint64_t> SaveShard(const Runner& step, const RankValues& values,
                           const std::string& path, int64_t number,
                           const CheckpointBase& base) {
  STOWAGE_ASSIGN_OR_RETURN(const SavedValues saved,
                           ValuesToSave(values.whole, path, number, {}, base));
  const std::vector<int64_t> blocks = BlocksOf(values, step.graph(), saved);
  const std::vector<Source> sources =
      SourcesOf(values, step.graph(), saved, blocks);
  STOWAGE_ASSIGN_OR_RETURN(const SafetensorsHeader header,
                           HeaderOfShard(sources, step, path));
  const uint64_t digest = DigestOfShard(header);
  const std::string prefix = SafetensorsPrefix(header);
  const std::string shard =
      StrCat(FolderOf(path), "/",
             ShardName(number, values.rank, values.ranks, digest));
  STOWAGE_ASSIGN_OR_RETURN(const OutputFile file, OutputFile::Claim(shard));
  STOWAGE_RETURN_IF_ERROR(
      file.ReplaceBy([&](const OutputFile::WritePart& write) -> Status {
        STOWAGE_RETURN_IF_ERROR(write(std::as_bytes(std::span(prefix))));
        for (const Source& source : sources) {
          STOWAGE_RETURN_IF_ERROR(ReadSource(
              source, step, [&](Bytes, std::span<const std::byte> part) {
                return write(part);
              }));
        }
        return {};
      }));
  return digest;
}

Status SaveShardIndex(const Runner& step, const RankValues& values,
                      std::span<const uint64_t> shards, const OutputFile& file,
                      const std::string& path, int64_t number,
                      const RunNotes& notes, const CheckpointBase& base) {
  STOWAGE_ASSIGN_OR_RETURN(
      SavedValues saved,
      ValuesToSave(values.whole, file.path(), number, notes, base));
  const std::string folder = ShardFolderName(path);
  std::vector<std::string> digests, blocks;
  for (size_t rank = 0; rank < shards.size(); ++rank) {
    const std::string name = ShardName(number, static_cast<int64_t>(rank),
                                       values.ranks, shards[rank]);
    std::error_code ignored;
    if (!fs::exists(StrCat(Beside(file.path(), folder), "/", name), ignored)) {
      return Error{
          ErrorCode::kIo,
          StrCat("[checkpoint] the shard of rank ", rank, " of ", shards.size(),
                 ", ", Quoted(name), ", is not to be seen in ",
                 Quoted(Beside(file.path(), folder)),
                 "; shards need a folder that all ranks see. ",
                 Quoted(file.path()),
                 " is not written, and what it held before is still "
                 "there")};
    }
    digests.push_back(HexDigest(shards[rank]));
  }
  for (const int64_t block : BlocksOf(values, step.graph(), saved)) {
    blocks.push_back(StrCat(block));
  }
  SafetensorsHeader whole;
  whole.tensors = std::move(saved.header.tensors);
  const Bytes data = whole.tensors.empty() ? 0 : whole.tensors.back().end;
  SafetensorsHeader index;
  index.metadata = std::move(saved.header.metadata);
  index.metadata.front().second = kShardedFormat;
  index.metadata.emplace_back(
      kWholeKey, StrCat(data, " ", FormatSafetensorsHeader(whole)));
  index.metadata.emplace_back(kBlocksKey, Joined(blocks));
  index.metadata.emplace_back(kShardsKey, Joined(digests));
  index.metadata.emplace_back(kFolderKey, folder);
  index.metadata.emplace_back(kDigestKey,
                              HexDigest(BeginDigest(index).digest()));
  return file.Replace(SafetensorsPrefix(index));
}

namespace {

// Adds the shards in `folder` that the file at `path` tells of, if it is an index of
// them. Error: it may be one, and cannot be read.
Status AddShardsOf(const std::string& path, const fs::path& folder,
                   std::unordered_set<std::string>* used) {
  const Result<std::optional<CheckpointFile>> file =
      CheckpointFile::OpenIfOne(path);
  if (!file.ok()) {
    if (file.error().code == ErrorCode::kNotFound) return {};
    // A file of another kind has no header that begins so.
    std::ifstream in(path, std::ios::binary);
    in.seekg(8);
    const bool may_be = !in || in.peek() == '{';
    return may_be ? Status(file.error()) : Status();
  }
  if (!file->has_value()) return {};
  for (const std::string& shard : (*file)->shards()) {
    if (fs::path(shard).parent_path() == folder) {
      used->insert(fs::path(shard).filename().string());
    }
  }
  return {};
}

// The regular files in a folder.
Result<std::vector<fs::path>> FilesIn(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code failed;
  fs::directory_iterator each(folder, failed);
  while (!failed && each != fs::directory_iterator()) {
    std::error_code ignored;
    if (each->is_regular_file(ignored)) files.push_back(each->path());
    each.increment(failed);
  }
  if (!failed) return files;
  return Error{ErrorCode::kIo, StrCat("[checkpoint] ", Quoted(folder.string()),
                                      ": ", failed.message())};
}

}  // namespace

Status RemoveUnusedShards(const std::string& path) {
  const fs::path folder = FolderOf(path);
  std::error_code failed, ignored;
  if (!fs::is_directory(folder, failed)) return {};
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<fs::path> beside,
                           FilesIn(folder.parent_path()));
  std::unordered_set<std::string> used;
  for (const fs::path& file : beside) {
    STOWAGE_RETURN_IF_ERROR(AddShardsOf(file.string(), folder, &used));
  }
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<fs::path> within, FilesIn(folder));
  for (const fs::path& file : within) {
    const std::string name = file.filename().string();
    const bool is_unused = IsShardName(name) && !used.contains(name);
    if (is_unused || IsLeftOver(name)) fs::remove(file, ignored);
  }
  // Where nothing is left in it; a link to another folder stays.
  if (!fs::is_symlink(folder, failed) && fs::is_empty(folder, failed)) {
    fs::remove(folder, ignored);
  }
  return {};
}

}  // namespace stowage

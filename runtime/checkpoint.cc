#include "runtime/checkpoint.h"

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
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/strings.h"
#include "formats/array.h"
#include "formats/npy.h"
#include "formats/safetensors.h"
#include "ir/op_def.h"
#include "ir/tensor_type.h"
#include "runtime/checkpoint_file.h"
#include "runtime/values.h"
#include "runtime/weights.h"

namespace stowage {
namespace {

// Returns whether a step of `graph` changes its params or states.
bool Updates(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [](const Node& node) {
    return GetOpDef(node.op).updates > 0;
  });
}

// Checks that all values are finite, before the content of `file` is replaced; passes each
// part to `also` unless it is null.
Status CheckFinite(const Runner& runner, const std::vector<ValueId>& values,
                   const OutputFile& file, Fnv1a* also = nullptr) {
  for (const ValueId id : values) {
    const ValueInfo& value = runner.graph().value(id);
    const Status finite = ReadInParts(
        runner, value,
        [&](Bytes begin, std::span<const std::byte> part) -> Status {
          if (also != nullptr) also->Update(part);
          return CheckFinitePart(runner.name(), value, begin, part);
        });
    if (finite.ok()) continue;
    return Error{finite.error().code,
                 StrCat(finite.error().message, "; ", Quoted(file.path()),
                        " is not written, and what it held before is still "
                        "there")};
  }
  return {};
}

Status Write(const Runner& runner, const std::vector<ValueId>& values,
             const SafetensorsHeader& header, const OutputFile& file) {
  const std::string prefix = SafetensorsPrefix(header);
  return file.ReplaceBy([&](const OutputFile::WritePart& write) -> Status {
    STOWAGE_RETURN_IF_ERROR(write(std::as_bytes(std::span(prefix))));
    for (const ValueId id : values) {
      STOWAGE_RETURN_IF_ERROR(ReadInParts(
          runner, runner.graph().value(id),
          [&](Bytes, std::span<const std::byte> part) { return write(part); }));
    }
    return {};
  });
}

bool IsNpz(const std::string& path) {
  constexpr std::string_view kEnding = ".npz";
  if (path.size() < kEnding.size()) return false;
  return std::ranges::equal(
      std::string_view(path).substr(path.size() - kEnding.size()), kEnding,
      [](char a, char b) { return a == b || (a >= 'A' && a + 32 == b); });
}

// An NPZ, which is in memory as a whole before it is written.
Status WriteNpz(const Runner& runner, const std::vector<ValueId>& values,
                const OutputFile& file) {
  std::vector<NamedArray> arrays;
  for (const ValueId id : values) {
    const ValueInfo& value = runner.graph().value(id);
    arrays.push_back({value.name, {.type = value.type, .bytes = {}}});
    Array& array = arrays.back().array;
    array.bytes.resize(static_cast<size_t>(value.type.bytes()));
    STOWAGE_RETURN_IF_ERROR(
        runner.ReadBytes(value.name, value.type.dtype, array.data()));
  }
  STOWAGE_ASSIGN_OR_RETURN(const std::string archive, NpzBytes(arrays));
  return file.Replace(archive);
}

}  // namespace

Status CheckFinite(const Runner& runner) {
  const Graph& graph = runner.graph();
  for (const ValueId id : PersistentValues(graph)) {
    const ValueInfo& value = graph.value(id);
    if (!IsFloat(value.type.dtype)) continue;
    STOWAGE_RETURN_IF_ERROR(ReadInParts(
        runner, value, [&](Bytes begin, std::span<const std::byte> part) {
          return CheckFinitePart(runner.name(), value, begin, part);
        }));
  }
  return {};
}

Status SaveCheckpoint(const Runner& runner, const std::string& path,
                      int64_t step, const RunNotes& notes,
                      const CheckpointBase& base) {
  STOWAGE_ASSIGN_OR_RETURN(const OutputFile file, OutputFile::Claim(path));
  return SaveCheckpoint(runner, file, step, notes, base);
}

Status SaveCheckpoint(const Runner& runner, const OutputFile& file,
                      int64_t step, const RunNotes& notes,
                      const CheckpointBase& base) {
  STOWAGE_ASSIGN_OR_RETURN(
      SavedValues saved,
      ValuesToSave(runner.graph(), file.path(), step, notes, base));
  SafetensorsHeader& header = saved.header;
  Fnv1a digest = BeginDigest(header);
  STOWAGE_RETURN_IF_ERROR(CheckFinite(runner, saved.values, file, &digest));
  header.metadata.emplace_back(kDigestKey, HexDigest(digest.digest()));
  return Write(runner, saved.values, header, file);
}

Status SaveWeights(const Runner& runner, const std::string& path) {
  STOWAGE_ASSIGN_OR_RETURN(const OutputFile file, OutputFile::Claim(path));
  return SaveWeights(runner, file);
}

Status SaveWeights(const Runner& runner, const OutputFile& file) {
  const std::vector<ValueId> values = WeightValues(runner.graph());
  STOWAGE_RETURN_IF_ERROR(CheckFinite(runner, values, file));
  if (IsNpz(file.path())) return WriteNpz(runner, values, file);
  SafetensorsHeader header = HeaderOf(runner.graph(), values);
  // As PyTorch's writer sets it; some readers require it.
  header.metadata = {{"format", "pt"}};
  return Write(runner, values, header, file);
}

Status CheckSaveWeights(const Graph& graph, const std::string& path) {
  if (!IsNpz(path)) return {};
  constexpr Bytes kMaxBytes = (Bytes{1} << 32) - 1;
  const auto fail = [&](const std::string& why) {
    return Error{ErrorCode::kUnsupported,
                 StrCat("[save-weights] ", Quoted(path), " is an NPZ, ", why,
                        "; give it a name that ends in .safetensors")};
  };
  Bytes bytes = 0;
  for (const ValueId id : WeightValues(graph)) {
    const ValueInfo& value = graph.value(id);
    if (value.type.dtype == DType::kBF16) {
      return fail(StrCat("which has no bf16, as ", Quoted(value.name), " is"));
    }
    bytes += value.type.bytes();
  }
  if (bytes <= kMaxBytes) return {};
  return fail(StrCat("which holds less than 4 GiB, and the weights are ", bytes,
                     " bytes"));
}

namespace {

// Checks that the params that the checkpoint leaves out come from `base`.
Status CheckBase(const CheckpointFile& checkpoint, const CheckpointBase& base) {
  const std::string* const saved = checkpoint.base();
  if (saved == nullptr || *saved == base.content) return {};
  return checkpoint.Fail(
      StrCat("is of params trained beside a base that it leaves out, ", *saved,
             base.content.empty() ? "; here there is no base"
                                  : StrCat("; the base here is ", base.content),
             "; resume beside the files that it was trained with"));
}

// Checks that the tensors are the params and states of `graph`, the program called `name`,
// except those of `base`.
Status CheckTensors(const CheckpointFile& checkpoint, const Graph& graph,
                    std::string_view name, const CheckpointBase& base) {
  const std::string program = StrCat("program ", Quoted(name));
  std::unordered_map<std::string_view, size_t> saved;
  for (size_t i = 0; i < checkpoint.tensors().size(); ++i) {
    saved.emplace(checkpoint.tensors()[i].name, i);
  }
  const auto role_of = [&](size_t index) {
    return static_cast<int64_t>(index) < checkpoint.params() ? Role::kParam
                                                             : Role::kState;
  };
  // A checkpoint that records no base must have all tensors.
  std::unordered_set<std::string_view> left_out;
  if (checkpoint.base() != nullptr) {
    left_out.insert(base.params.begin(), base.params.end());
  }
  std::unordered_set<std::string_view> known;
  for (const ValueId id : PersistentValues(graph)) {
    const ValueInfo& value = graph.value(id);
    known.insert(value.name);
    const auto found = saved.find(value.name);
    if (found == saved.end()) {
      if (value.role == Role::kParam && left_out.contains(value.name)) continue;
      return checkpoint.Fail(
          StrCat("lacks the ", RoleName(value.role), " ", Quoted(value.name),
                 " of ", program,
                 "; it is of another model, optimizer, loss scale or adapter"));
    }
    const SafeTensor& tensor = checkpoint.tensors()[found->second];
    if (tensor.type != value.type) {
      return checkpoint.Fail(
          StrCat("has ", Quoted(value.name), " as ", tensor.type.ToString(),
                 ", ", program, " has ", value.type.ToString(),
                 tensor.type.shape == value.type.shape
                     ? "; it is of a run in another element type"
                     : "; it is of another model"));
    }
    if (role_of(found->second) != value.role) {
      return checkpoint.Fail(
          StrCat("has ", checkpoint.params(), " params, so that ",
                 Quoted(value.name), " is a ", RoleName(role_of(found->second)),
                 "; in ", program, " it is a ", RoleName(value.role)));
    }
  }
  // An evaluation may ignore an optimizer's states; any other unknown tensor means another
  // model or optimizer.
  const bool leaves_states = !Updates(graph);
  for (size_t i = 0; i < checkpoint.tensors().size(); ++i) {
    const SafeTensor& tensor = checkpoint.tensors()[i];
    if (known.contains(tensor.name)) continue;
    if (role_of(i) == Role::kState && leaves_states) continue;
    return checkpoint.Fail(StrCat(
        "has a ", RoleName(role_of(i)), " ", Quoted(tensor.name), " that ",
        program,
        " lacks; it is of another model, optimizer, loss scale or adapter"));
  }
  return {};
}

// The destination of a tensor in a rank's step.
struct Target {
  std::string name;  // empty: nowhere
  DType dtype = DType::kF32;
  ByteRange range;  // of the tensor
  Bytes bytes = 0;  // of what is called so, at least as many
};

std::vector<Target> TargetsOf(const CheckpointFile& checkpoint,
                              const Runner& step, const RankValues& values) {
  std::unordered_map<std::string_view, const ValueInfo*> known;
  for (const ValueId id : PersistentValues(values.whole)) {
    const ValueInfo& value = values.whole.value(id);
    known.emplace(value.name, &value);
  }
  std::vector<Target> targets;
  for (const SafeTensor& tensor : checkpoint.tensors()) {
    Target& target = targets.emplace_back();
    const auto found = known.find(tensor.name);
    if (found == known.end()) continue;  // an optimizer's
    const ValueInfo& value = *found->second;
    target = {value.name,
              value.type.dtype,
              {0, value.type.bytes()},
              value.type.bytes()};
    const auto block = BlockOf(values, step.graph(), value);
    if (!block) continue;
    target.name = values.own_name(value.name);
    target.bytes = *block * SizeOf(target.dtype);
    const Bytes begin = std::min(values.rank * target.bytes, target.range.end);
    target.range = {begin, std::min(begin + target.bytes, target.range.end)};
  }
  return targets;
}

// Zeros the padding after the bytes that a target takes.
Status FillUp(const Target& target, Runner& step) {
  const Bytes taken = target.range.end - target.range.begin;
  return InParts(
      target.bytes - taken, [&](Bytes begin, std::span<std::byte> part) {
        std::ranges::fill(part, std::byte{0});
        return step.WritePart(target.name, target.dtype, taken + begin, part);
      });
}

}  // namespace

Result<CheckpointInfo> ReadCheckpointInfo(const std::string& path) {
  STOWAGE_ASSIGN_OR_RETURN(const CheckpointFile checkpoint,
                           CheckpointFile::Open(path));
  CheckpointInfo info = checkpoint.info();
  info.digest = checkpoint.digest();
  return info;
}

Status CheckCheckpoint(const std::string& path) {
  STOWAGE_ASSIGN_OR_RETURN(const CheckpointFile checkpoint,
                           CheckpointFile::Open(path));
  const Result<CheckedBytes> checked =
      checkpoint.Check(checkpoint.Everything());
  return checked.ok() ? Status() : checked.error();
}

Result<int64_t> LoadCheckpoint(Runner& runner, const std::string& path,
                               const CheckpointBase& base) {
  return LoadCheckpoint(runner, {.whole = runner.graph()}, path, base);
}

Result<int64_t> LoadCheckpoint(Runner& step, const RankValues& values,
                               const std::string& path,
                               const CheckpointBase& base) {
  STOWAGE_ASSIGN_OR_RETURN(const CheckpointFile checkpoint,
                           CheckpointFile::Open(path));
  // Before the data, so that a large file that does not fit is not read.
  STOWAGE_RETURN_IF_ERROR(CheckBase(checkpoint, base));
  STOWAGE_RETURN_IF_ERROR(
      CheckTensors(checkpoint, values.whole, step.name(), base));
  // Everything is checked before any of it is used.
  const std::vector<Target> targets = TargetsOf(checkpoint, step, values);
  std::vector<ByteRange> wanted;
  std::vector<std::string> names;
  for (const Target& target : targets) {
    wanted.push_back(target.range);
    if (!target.name.empty()) names.push_back(target.name);
  }
  STOWAGE_ASSIGN_OR_RETURN(const CheckedBytes checked,
                           checkpoint.Check(std::move(wanted)));
  STOWAGE_RETURN_IF_ERROR(AllOrNone(step, names, [&]() -> Status {
    STOWAGE_RETURN_IF_ERROR(checkpoint.Read(
        checked,
        [&](size_t tensor, Bytes begin, std::span<const std::byte> part) {
          const Target& target = targets[tensor];
          return step.WritePart(target.name, target.dtype,
                                begin - target.range.begin, part);
        }));
    for (const Target& target : targets) {
      STOWAGE_RETURN_IF_ERROR(FillUp(target, step));
    }
    return {};
  }));
  return checkpoint.info().step;
}

namespace {

namespace fs = std::filesystem;

// The elements of a block of each tensor of `header`: as a rank's step splits it, or an
// equal share if it does not.
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

// Contiguous bytes of a value, and their position in a leaf of the rank's step.
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

// The header of a shard. Reads its values and checks that they are finite.
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

// A file by which the ranks check that they see the same folder.
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

// Adds the shards in `folder` that the file at `path` refers to, if it is an index. Error:
// it may be an index and cannot be read.
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
  // Succeeds only for an empty folder; a link to another folder stays.
  if (!fs::is_symlink(folder, failed) && fs::is_empty(folder, failed)) {
    fs::remove(folder, ignored);
  }
  return {};
}

}  // namespace stowage

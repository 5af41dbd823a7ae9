#include "runtime/checkpoint_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <optional>
#include <system_error>
#include <unordered_set>
#include <utility>

#include "base/files.h"
#include "base/hash.h"
#include "base/result.h"
#include "base/strings.h"
#include "ir/tensor_type.h"
#include "runtime/values.h"

namespace stowage {
namespace {

namespace fs = std::filesystem;

constexpr std::array kIndexKeys = {kWholeKey, kBlocksKey, kShardsKey,
                                   kFolderKey};
constexpr std::array kCheckpointKeys = {kFormatKey, kStepKey, kParamsKey,
                                        kBaseKey, kDigestKey};

// A path without an existing folder has nothing beside it.
fs::path Resolved(const std::string& path) {
  const Result<std::string> resolved = ResolvedPath(path);
  return resolved.ok() ? *resolved : path;
}

}  // namespace

bool IsOwnName(std::string_view name) {
  return std::ranges::find(kCheckpointKeys, name) != kCheckpointKeys.end() ||
         std::ranges::find(kIndexKeys, name) != kIndexKeys.end();
}

Result<uint64_t> ParseHexDigest(std::string_view text) {
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [after, code] = std::from_chars(text.data(), end, value, 16);
  if (code == std::errc() && after == end && text.size() == 16) return value;
  return Error{ErrorCode::kInvalidArgument,
               StrCat(Quoted(text), " is no digest of 16 digits")};
}

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += StrCat(text.empty() ? "" : " ", word);
  }
  return text;
}

std::vector<std::string> Split(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

Fnv1a BeginDigest(const SafetensorsHeader& header) {
  Fnv1a hash;
  hash.Update(StrCat("step ", *header.Find(kStepKey), ";params ",
                     *header.Find(kParamsKey), ";"));
  if (const std::string* const base = header.Find(kBaseKey)) {
    hash.Update(StrCat("base ", Quoted(*base), ";"));
  }
  for (const std::string_view key : kIndexKeys) {
    const std::string* const text = header.Find(key);
    if (text != nullptr) hash.Update(StrCat(key, " ", Quoted(*text), ";"));
  }
  for (const auto& [name, text] : header.metadata) {
    if (IsOwnName(name)) continue;
    hash.Update(StrCat("note ", Quoted(name), Quoted(text), ";"));
  }
  for (const SafeTensor& tensor : header.tensors) {
    hash.Update(StrCat(Quoted(tensor.name), tensor.type.ToString(),
                       tensor.begin, ",", tensor.end, ";"));
  }
  return hash;
}

uint64_t DigestOn(uint64_t before, std::span<const std::byte> part) {
  return Xxh64({reinterpret_cast<const char*>(part.data()), part.size()},
               before);
}

uint64_t DigestOfShard(const SafetensorsHeader& header) {
  return Xxh64(FormatSafetensorsHeader(header));
}

std::vector<Piece> PiecesOfShard(const std::vector<SafeTensor>& tensors,
                                 const std::vector<int64_t>& blocks,
                                 int64_t rank) {
  std::vector<Piece> pieces;
  Bytes at = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorType& type = tensors[i].type;
    const int64_t elements = type.shape.num_elements();
    // Not by a product, which could overflow.
    if (rank > 0 && blocks[i] > (elements - 1) / rank) continue;
    const int64_t first = rank * blocks[i];
    const Bytes size =
        std::min(blocks[i], elements - first) * SizeOf(type.dtype);
    pieces.push_back({i, first * SizeOf(type.dtype), size, at});
    at += size;
  }
  return pieces;
}

std::string ShardFolderName(const std::string& path) {
  return StrCat(Resolved(path).filename().string(), ".shards");
}

std::string Beside(const std::string& path, const std::string& name) {
  return (Resolved(path).parent_path() / name).string();
}

std::string ShardName(int64_t step, int64_t rank, int64_t ranks,
                      uint64_t digest) {
  return StrCat(step, ".", rank, "-of-", ranks, ".", HexDigest(digest),
                ".safetensors");
}

bool IsShardName(std::string_view name) {
  // "400.2-of-4.9f86d081884c7d65.safetensors"
  const auto number = [&](std::string_view behind) -> std::optional<int64_t> {
    int64_t value = 0;
    const auto [after, code] =
        std::from_chars(name.data(), name.data() + name.size(), value);
    if (code != std::errc()) return std::nullopt;
    name.remove_prefix(static_cast<size_t>(after - name.data()));
    if (!name.starts_with(behind)) return std::nullopt;
    name.remove_prefix(behind.size());
    return value;
  };
  const std::string whole(name);
  const auto step = number("."), rank = number("-of-"), ranks = number(".");
  if (!step || !rank || !ranks) return false;
  const Result<uint64_t> digest = ParseHexDigest(name.substr(0, 16));
  return digest.ok() && whole == ShardName(*step, *rank, *ranks, *digest);
}

SafetensorsHeader HeaderOf(const Graph& graph,
                           const std::vector<ValueId>& values) {
  SafetensorsHeader header;
  Bytes end = 0;
  for (const ValueId id : values) {
    const ValueInfo& value = graph.value(id);
    const Bytes begin = end;
    end += value.type.bytes();
    header.tensors.push_back({value.name, value.type, begin, end});
  }
  return header;
}

Result<SavedValues> ValuesToSave(const Graph& graph, const std::string& path,
                                 int64_t step, const RunNotes& notes,
                                 const CheckpointBase& base) {
  const auto invalid = [&](std::string_view message) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[checkpoint] ", Quoted(path), " ", message)};
  };
  if (step < 0 || step > kMaxCheckpointStep) {
    return invalid(StrCat("cannot be of step ", step, "; expected 0 to ",
                          kMaxCheckpointStep));
  }
  for (const auto& [name, text] : notes) {
    if (!IsOwnName(name)) continue;
    return invalid(
        StrCat("has metadata of its own called ", Quoted(name),
               ", which a note cannot be; give the note another name"));
  }
  SavedValues saved{PersistentValues(graph), {}};
  const std::unordered_set<std::string_view> left_out(base.params.begin(),
                                                      base.params.end());
  std::erase_if(saved.values, [&](ValueId id) {
    const ValueInfo& value = graph.value(id);
    return value.role == Role::kParam && left_out.contains(value.name);
  });
  const auto params = std::ranges::count_if(saved.values, [&](ValueId id) {
    return graph.value(id).role == Role::kParam;
  });
  saved.header = HeaderOf(graph, saved.values);
  auto& metadata = saved.header.metadata;
  metadata = {{std::string(kFormatKey), std::string(kWholeFormat)},
              {std::string(kStepKey), StrCat(step)},
              {std::string(kParamsKey), StrCat(params)}};
  if (!left_out.empty()) metadata.emplace_back(kBaseKey, base.content);
  metadata.insert(metadata.end(), notes.begin(), notes.end());
  return saved;
}

Status CheckFinitePart(std::string_view program, const ValueInfo& value,
                       Bytes begin, std::span<const std::byte> part) {
  const DType dtype = value.type.dtype;
  const std::optional<int64_t> index = FindNonFinite(dtype, part);
  if (!index) return {};
  return Error{ErrorCode::kNotFinite,
               StrCat("[checkpoint] the ", RoleName(value.role), " ",
                      Quoted(value.name), " of program ", Quoted(program),
                      " is ", FloatText(dtype, part, *index), " at element ",
                      begin / SizeOf(dtype) + *index, " of ",
                      value.type.shape.num_elements())};
}

namespace {

std::optional<int64_t> NumberIn(std::string_view text) {
  int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [after, code] = std::from_chars(text.data(), end, number);
  if (code != std::errc() || after != end) return std::nullopt;
  return number;
}

uint64_t HashOf(std::span<const std::byte> part) { return DigestOn(0, part); }

}  // namespace

Result<CheckpointFile> CheckpointFile::Open(const std::string& path) {
  STOWAGE_ASSIGN_OR_RETURN(
      SafetensorsFile opened,
      SafetensorsFile::Open(path, "checkpoint", FileUse::kOwn));
  CheckpointFile file(std::move(opened));
  STOWAGE_RETURN_IF_ERROR(file.ReadHeader());
  return file;
}

Result<std::optional<CheckpointFile>> CheckpointFile::OpenIfOne(
    const std::string& path) {
  STOWAGE_ASSIGN_OR_RETURN(
      SafetensorsFile opened,
      SafetensorsFile::Open(path, "checkpoint", FileUse::kOwn));
  const std::string* const format = opened.header().Find(kFormatKey);
  if (format == nullptr ||
      (*format != kWholeFormat && *format != kShardedFormat)) {
    return std::optional<CheckpointFile>();
  }
  CheckpointFile file(std::move(opened));
  STOWAGE_RETURN_IF_ERROR(file.ReadHeader());
  return std::optional(std::move(file));
}

// Parses the metadata of the header.
Status CheckpointFile::ReadHeader() {
  const SafetensorsHeader& header = file_.header();
  const std::string* const format = header.Find(kFormatKey);
  const std::string* const step = header.Find(kStepKey);
  const std::string* const params = header.Find(kParamsKey);
  const bool is_index = format != nullptr && *format == kShardedFormat;
  if (format == nullptr || (*format != kWholeFormat && !is_index) ||
      step == nullptr || params == nullptr ||
      header.Find(kDigestKey) == nullptr) {
    return Fail(
        StrCat("is not of the format ", Quoted(kWholeFormat), " or ",
               Quoted(kShardedFormat),
               "; only files that Stowage saved can be resumed, the weights "
               "of others can be loaded (docs/guides/runs_and_weights.md)"));
  }
  const std::optional<int64_t> step_number = NumberIn(*step);
  if (!step_number || *step_number < 0 || *step_number > kMaxCheckpointStep) {
    return Fail(StrCat("is of step ", Quoted(*step),
                       "; expected a number from 0 to ", kMaxCheckpointStep));
  }
  info_.step = *step_number;
  tensors_ = header.tensors;
  if (is_index) STOWAGE_RETURN_IF_ERROR(ReadIndex());
  const std::optional<int64_t> count = NumberIn(*params);
  if (!count || *count < 0 || *count > std::ssize(tensors_)) {
    return Fail(StrCat("has ", Quoted(*params), " params among ",
                       tensors_.size(), " tensors; expected a number from ", 0,
                       " to ", tensors_.size()));
  }
  params_ = *count;
  for (const SafeTensor& tensor : tensors_) {
    if (tensor.foreign.empty()) continue;
    return Fail(StrCat("has ", Quoted(tensor.name), " as ", tensor.foreign,
                       ", which no checkpoint holds"));
  }
  for (const auto& [name, text] : header.metadata) {
    if (!IsOwnName(name)) info_.notes.emplace_back(name, text);
  }
  return {};
}

// Reads the tensors and the shards of an index.
Status CheckpointFile::ReadIndex() {
  const SafetensorsHeader& header = file_.header();
  const auto damaged = [&](std::string_view why) {
    return Fail(StrCat("is damaged, as an index of shards: ", why));
  };
  for (const std::string_view key :
       {kWholeKey, kBlocksKey, kShardsKey, kFolderKey}) {
    if (header.Find(key) == nullptr) {
      return damaged(StrCat("it lacks ", Quoted(key)));
    }
  }
  const std::string actual = HexDigest(BeginDigest(header).digest());
  const std::string& digest = *header.Find(kDigestKey);
  if (actual != digest) {
    return damaged(StrCat("its content has the digest ", actual,
                          ", it was saved with ", digest));
  }
  const std::vector<std::string> blocks = Split(*header.Find(kBlocksKey));
  const std::vector<std::string> shards = Split(*header.Find(kShardsKey));
  const std::string& folder = *header.Find(kFolderKey);
  const bool is_name = !folder.empty() && folder != "." && folder != ".." &&
                       folder.find('/') == std::string::npos &&
                       folder.find('\0') == std::string::npos;
  if (shards.empty() || !header.tensors.empty() || !is_name) {
    return damaged(StrCat("it has ", shards.size(), " shards in ",
                          Quoted(folder), " and ", header.tensors.size(),
                          " tensors of its own"));
  }
  // The end of the data follows from the tensors' ranges.
  const std::string& whole = *header.Find(kWholeKey);
  const std::vector<std::string> words = Split(whole);
  const std::optional<int64_t> bytes =
      words.empty() ? std::nullopt : NumberIn(words[0]);
  if (!bytes) return damaged("it does not say how many bytes there are");
  Result<SafetensorsHeader> described = ParseSafetensorsHeader(
      std::string_view(whole).substr(words[0].size()), *bytes);
  if (!described.ok()) return damaged(described.error().message);
  tensors_ = std::move(described->tensors);
  if (tensors_.size() != blocks.size()) {
    return damaged(StrCat("it has blocks of ", blocks.size(), " of ",
                          tensors_.size(), " tensors"));
  }
  const auto ranks = std::ssize(shards);
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const std::optional<int64_t> block = NumberIn(blocks[i]);
    const SafeTensor& tensor = tensors_[i];
    if (!tensor.foreign.empty()) continue;  // refused below
    const int64_t elements = tensor.type.shape.num_elements();
    if (!block || *block < (elements - 1) / ranks + 1) {
      return damaged(StrCat("blocks of ", blocks[i], " elements, one of ",
                            ranks, " ranks each, do not cover ",
                            Quoted(tensor.name), " ", tensor.type.ToString()));
    }
    blocks_.push_back(*block);
  }
  info_.shards = ranks;
  const std::string beside = Beside(file_.path(), folder);
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const Result<uint64_t> of_shard =
        ParseHexDigest(shards[static_cast<size_t>(rank)]);
    if (!of_shard.ok()) return damaged(of_shard.error().message);
    digests_.push_back(*of_shard);
    shards_.push_back(
        StrCat(beside, "/", ShardName(info_.step, rank, ranks, *of_shard)));
  }
  return {};
}

// Opens a shard and checks that its header is the one of the index.
Result<SafetensorsFile> CheckpointFile::OpenShard(size_t rank) const {
  Result<SafetensorsFile> shard =
      SafetensorsFile::Open(shards_[rank], "checkpoint", FileUse::kOwn);
  if (!shard.ok()) {
    Error error = shard.error();
    error.message += StrCat("; it is a shard of ", Quoted(file_.path()),
                            ", which needs all of them, in the folder that "
                            "they were saved to");
    return error;
  }
  const SafetensorsHeader& header = shard->header();
  const bool is_known = std::ranges::all_of(
      header.tensors,
      [](const SafeTensor& tensor) { return tensor.foreign.empty(); });
  if (!is_known || DigestOfShard(header) != digests_[rank]) {
    return shard->Fail(StrCat("is damaged: its header is not the one that ",
                              Quoted(file_.path()), " was saved with"));
  }
  return shard;
}

std::vector<ByteRange> CheckpointFile::Everything() const {
  std::vector<ByteRange> all;
  for (const SafeTensor& tensor : tensors_) {
    all.push_back({0, tensor.end - tensor.begin});
  }
  return all;
}

// The pieces of a file that contain wanted bytes; of an unsharded file, all.
std::vector<Piece> CheckpointFile::PiecesOf(
    size_t file, const std::vector<ByteRange>& wanted) const {
  std::vector<Piece> pieces;
  if (!is_sharded()) {
    for (size_t i = 0; i < tensors_.size(); ++i) {
      const SafeTensor& tensor = tensors_[i];
      pieces.push_back({i, 0, tensor.end - tensor.begin, tensor.begin});
    }
    return pieces;
  }
  pieces = PiecesOfShard(tensors_, blocks_, static_cast<int64_t>(file));
  std::erase_if(pieces, [&](const Piece& piece) {
    const ByteRange& range = wanted[piece.tensor];
    return std::max(range.begin, piece.begin) >=
           std::min(range.end, piece.begin + piece.size);
  });
  return pieces;
}

Result<CheckedBytes> CheckpointFile::Check(
    std::vector<ByteRange> wanted) const {
  STOWAGE_CHECK(wanted.size() == tensors_.size());
  return is_sharded() ? CheckShards(std::move(wanted))
                      : CheckWhole(std::move(wanted));
}

Result<CheckedBytes> CheckpointFile::CheckWhole(
    std::vector<ByteRange> wanted) const {
  Fnv1a digested = BeginDigest(file_.header());
  CheckedBytes checked{std::move(wanted), {}};
  std::vector<uint64_t>& hashes = checked.hashes.emplace_back();
  for (const Piece& piece : PiecesOf(0, checked.wanted)) {
    STOWAGE_RETURN_IF_ERROR(InParts(
        piece.size, [&](Bytes begin, std::span<std::byte> part) -> Status {
          STOWAGE_RETURN_IF_ERROR(file_.Read(piece.at + begin, part));
          digested.Update(part);
          hashes.push_back(HashOf(part));
          return {};
        }));
  }
  const std::string actual = HexDigest(digested.digest());
  const std::string& digest = *file_.header().Find(kDigestKey);
  if (actual == digest) return checked;
  return Fail(StrCat("is damaged: its content has the digest ", actual,
                     ", it was saved with ", digest));
}

Result<CheckedBytes> CheckpointFile::CheckShards(
    std::vector<ByteRange> wanted) const {
  CheckedBytes checked{std::move(wanted), {}};
  for (size_t rank = 0; rank < shards_.size(); ++rank) {
    std::vector<uint64_t>& hashes = checked.hashes.emplace_back();
    const std::vector<Piece> pieces = PiecesOf(rank, checked.wanted);
    if (pieces.empty()) continue;
    STOWAGE_ASSIGN_OR_RETURN(const SafetensorsFile shard, OpenShard(rank));
    const std::string* const digests = shard.header().Find(kBlockDigestsKey);
    const std::vector<std::string> saved =
        digests == nullptr ? std::vector<std::string>() : Split(*digests);
    const auto& held = shard.header().tensors;
    if (saved.size() != held.size()) {
      return shard.Fail(StrCat("is damaged: it has digests of ", saved.size(),
                               " blocks, and ", held.size(), " of these"));
    }
    for (const Piece& piece : pieces) {
      const SafeTensor& tensor = tensors_[piece.tensor];
      const auto block = std::ranges::find(shard.header().tensors, tensor.name,
                                           &SafeTensor::name);
      const auto index = static_cast<size_t>(block - held.begin());
      if (block == held.end() || block->begin != piece.at ||
          block->end - block->begin != piece.size) {
        return shard.Fail(StrCat("is damaged: it does not hold ", piece.size,
                                 " bytes of ", Quoted(tensor.name), " at byte ",
                                 piece.at, " of its data"));
      }
      uint64_t digest = 0;
      STOWAGE_RETURN_IF_ERROR(InParts(
          piece.size, [&](Bytes begin, std::span<std::byte> part) -> Status {
            STOWAGE_RETURN_IF_ERROR(shard.Read(piece.at + begin, part));
            digest = DigestOn(digest, part);
            hashes.push_back(HashOf(part));
            return {};
          }));
      if (HexDigest(digest) == saved[index]) continue;
      return shard.Fail(StrCat("is damaged: its block of ", Quoted(tensor.name),
                               " has the digest ", HexDigest(digest),
                               ", it was saved with ", saved[index]));
    }
  }
  return checked;
}

Status CheckpointFile::Read(const CheckedBytes& checked,
                            const Take& take) const {
  for (size_t i = 0; i < checked.hashes.size(); ++i) {
    const std::vector<Piece> pieces = PiecesOf(i, checked.wanted);
    if (pieces.empty()) continue;
    std::optional<SafetensorsFile> shard;
    if (is_sharded()) {
      STOWAGE_ASSIGN_OR_RETURN(shard, OpenShard(i));
    }
    const SafetensorsFile& file = shard ? *shard : file_;
    auto hash = checked.hashes[i].begin();
    for (const Piece& piece : pieces) {
      const SafeTensor& tensor = tensors_[piece.tensor];
      const ByteRange& wanted = checked.wanted[piece.tensor];
      const auto on_part = [&](Bytes begin,
                               std::span<std::byte> part) -> Status {
        const uint64_t expected = *hash++;
        const Bytes at = piece.begin + begin;  // in the tensor
        const Bytes from = std::max(at, wanted.begin);
        const Bytes to =
            std::min(at + static_cast<Bytes>(part.size()), wanted.end);
        if (from >= to) return {};
        STOWAGE_RETURN_IF_ERROR(file.Read(piece.at + begin, part));
        if (HashOf(part) != expected) {
          return file.Fail(StrCat("has changed while it was read, in ",
                                  Quoted(tensor.name), " behind byte ", at),
                           ErrorCode::kIo);
        }
        return take(piece.tensor, from,
                    part.subspan(static_cast<size_t>(from - at),
                                 static_cast<size_t>(to - from)));
      };
      STOWAGE_RETURN_IF_ERROR(InParts(piece.size, on_part));
    }
  }
  return {};
}

}  // namespace stowage

#include "runtime/checkpoint_format.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <optional>
#include <system_error>
#include <unordered_set>

#include "base/files.h"
#include "base/strings.h"
#include "ir/tensor_type.h"
#include "runtime/floats.h"
#include "runtime/initial_values.h"

namespace stowage {
namespace {

namespace fs = std::filesystem;

constexpr std::array kIndexKeys = {kWholeKey, kBlocksKey, kShardsKey,
                                   kFolderKey};
constexpr std::array kCheckpointKeys = {kFormatKey, kStepKey, kParamsKey,
                                        kBaseKey, kDigestKey};

// Where there is no such folder, nothing is beside the path.
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

}  // namespace stowage

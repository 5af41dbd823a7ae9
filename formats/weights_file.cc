#include "formats/weights_file.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "base/files.h"
#include "base/hash.h"
#include "base/result.h"
#include "base/strings.h"
#include "formats/safetensors.h"

namespace stowage {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRoom = "weights";
constexpr Bytes kWindow = 65'536;

std::optional<WeightType> TypeOfFile(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return WeightType::kF32;
    case DType::kF16:
      return WeightType::kF16;
    case DType::kBF16:
      return WeightType::kBF16;
    default:
      return {};
  }
}

bool Exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

constexpr std::string_view kSplitTensors = "split.tensors.count";

// The number of a GGUF shard, from 1, and the number of shards; 1 of 1 if the model is not
// split.
struct SplitPlace {
  int64_t shard = 1, count = 1;
};

Result<SplitPlace> PlaceInSplit(const GgufHeader& header,
                                const std::string& path) {
  if (header.Find("split.count") == nullptr) return SplitPlace{};
  const auto fail = [&](const auto&... what) {
    return InvalidArgumentError("[", kRoom, "] ", Quoted(path),
                                " has no place among shards: ", what...);
  };
  const auto count = header.Int("split.count");
  if (!count.ok()) return fail(count.error().message);
  const auto number = header.Int("split.no");
  if (!number.ok()) return fail(number.error().message);
  if (*number < 0 || *number >= *count) {
    return fail("split.no is ", *number, " and split.count ", *count,
                "; shards are numbered from 0");
  }
  return SplitPlace{*number + 1, *count};
}

// "-00002-of-00003.gguf"
std::string ShardEnd(int64_t shard, int64_t count) {
  const auto digits = [](int64_t number) {
    const std::string text = StrCat(number);
    return std::string(text.size() < 5 ? 5 - text.size() : 0, '0') + text;
  };
  return StrCat("-", digits(shard), "-of-", digits(count), ".gguf");
}

// The path of another shard, from that of one.
std::string ShardName(const std::string& path, int64_t shard, int64_t count) {
  const size_t end = ShardEnd(shard, count).size();
  return StrCat(path.substr(0, path.size() > end ? path.size() - end : 0),
                ShardEnd(shard, count));
}

}  // namespace

std::string WeightTensor::Describe() const {
  return foreign.empty() ? StrCat(FormatOf(type).name, shape.ToString())
                         : foreign;
}

Error WeightsFile::Fail(std::string_view message, ErrorCode code) const {
  return {code, StrCat("[", kRoom, "] ", Quoted(path_), " ", message)};
}

Result<WeightsFile> WeightsFile::Open(const std::string& path) {
  WeightsFile weights;
  weights.path_ = path;
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    STOWAGE_RETURN_IF_ERROR(weights.OpenFolder());
  } else if (path.ends_with(".safetensors.index.json")) {
    STOWAGE_RETURN_IF_ERROR(weights.ReadConfigBeside());
    STOWAGE_RETURN_IF_ERROR(
        weights.OpenShards(fs::path(path).parent_path().string(), path));
  } else if (path.ends_with(".json")) {
    return weights.Fail(
        "is JSON, which holds no weights; expected a .safetensors or .gguf "
        "file, an index of shards (.safetensors.index.json), or the folder");
  } else {
    STOWAGE_ASSIGN_OR_RETURN(InputFile file, InputFile::Open(path, kRoom));
    STOWAGE_ASSIGN_OR_RETURN(const bool is_gguf, IsGguf(file));
    if (is_gguf) {
      STOWAGE_RETURN_IF_ERROR(weights.OpenGguf(std::move(file)));
    } else {
      STOWAGE_RETURN_IF_ERROR(weights.ReadConfigBeside());
      STOWAGE_RETURN_IF_ERROR(weights.OpenSafetensors(path));
    }
  }
  STOWAGE_RETURN_IF_ERROR(weights.SortTensors());
  return weights;
}

const std::string* WeightsFile::Note(std::string_view key) const {
  const auto found = notes_.find(key);
  return found == notes_.end() ? nullptr : &found->second;
}

Status WeightsFile::OpenFolder() {
  const auto in_folder = [&](std::string_view name) {
    return (fs::path(path_) / name).string();
  };
  STOWAGE_RETURN_IF_ERROR(ReadConfig(in_folder("config.json")));
  const std::string index = in_folder("model.safetensors.index.json");
  const std::string whole = in_folder("model.safetensors");
  if (Exists(index)) return OpenShards(path_, index);
  if (Exists(whole)) return OpenSafetensors(whole);
  return Fail(
      "has neither model.safetensors.index.json nor model.safetensors; other "
      "formats in folders are not read",
      ErrorCode::kNotFound);
}

Result<GgufHeader> WeightsFile::AddGguf(InputFile file) {
  auto header = ReadGgufHeader(file);
  if (!header.ok()) {
    return Fail(StrCat("cannot be taken: ", header.error().message),
                header.error().code);
  }
  for (const GgufTensor& tensor : header->tensors()) {
    tensors_.push_back({.name = tensor.name,
                        .type = tensor.type,
                        .shape = tensor.shape,
                        .file = files_.size(),
                        .begin = tensor.begin,
                        .bytes = tensor.bytes});
  }
  files_.push_back(std::move(file));
  return header;
}

Status WeightsFile::OpenGguf(InputFile file) {
  STOWAGE_ASSIGN_OR_RETURN(gguf_, AddGguf(std::move(file)));
  STOWAGE_ASSIGN_OR_RETURN(const SplitPlace place, PlaceInSplit(*gguf_, path_));
  if (place.count <= 1) return {};
  const std::string first = ShardName(path_, 1, place.count);
  if (place.shard != 1) {
    return Fail(StrCat("is shard ", place.shard, " of ", place.count,
                       "; open the first, ", Quoted(first)));
  }
  if (path_ != first) {
    return Fail(StrCat("is the first of ", place.count,
                       " shards; its name must end in ",
                       Quoted(ShardEnd(1, place.count))));
  }
  return OpenGgufShards(place.count);
}

Status WeightsFile::OpenGgufShards(int64_t count) {
  for (int64_t shard = 2; shard <= count; ++shard) {
    const std::string path = ShardName(path_, shard, count);
    if (!Exists(path)) {
      return Fail(StrCat("is the first of ", count, " shards, and ",
                         Quoted(path), " is not there"),
                  ErrorCode::kNotFound);
    }
    STOWAGE_ASSIGN_OR_RETURN(InputFile file, InputFile::Open(path, kRoom));
    auto header = AddGguf(std::move(file));
    if (!header.ok()) {
      return Error{header.error().code,
                   StrCat("[", kRoom, "] shard ", shard, ", ", Quoted(path),
                          ": ", header.error().message)};
    }
    STOWAGE_ASSIGN_OR_RETURN(const SplitPlace place,
                             PlaceInSplit(*header, path));
    if (place.shard != shard || place.count != count) {
      return Fail(StrCat("has a foreign shard ", Quoted(path), ", which is ",
                         place.shard, " of ", place.count, "; expected ", shard,
                         " of ", count));
    }
  }
  const GgufValue* const stated = gguf_->Find(kSplitTensors);
  if (stated == nullptr) return {};
  STOWAGE_ASSIGN_OR_RETURN(const int64_t tensors, gguf_->Int(kSplitTensors));
  if (tensors == std::ssize(tensors_)) return {};
  return Fail(StrCat("has ", tensors_.size(), " tensors in its ", count,
                     " shards, and ", kSplitTensors, " is ", tensors,
                     "; a shard is of another file"));
}

Status WeightsFile::OpenSafetensors(const std::string& path) {
  STOWAGE_ASSIGN_OR_RETURN(SafetensorsFile file,
                           SafetensorsFile::Open(path, kRoom));
  const Bytes data = file.data_begin();
  for (const auto& [key, note] : file.header().metadata) notes_[key] = note;
  for (const SafeTensor& from : file.header().tensors) {
    WeightTensor tensor{.name = from.name,
                        .foreign = from.foreign,
                        .file = files_.size(),
                        .begin = data + from.begin,
                        .bytes = from.end - from.begin};
    if (from.foreign.empty()) {
      const auto type = TypeOfFile(from.type.dtype);
      if (type) {
        tensor.type = *type;
        tensor.shape = from.type.shape;
      } else {
        tensor.foreign = from.type.ToString();
      }
    }
    tensors_.push_back(std::move(tensor));
  }
  files_.push_back(std::move(file).TakeFile());
  return {};
}

Status WeightsFile::OpenShards(const std::string& folder,
                               const std::string& index) {
  constexpr std::string_view kMap = "weight_map.";
  STOWAGE_ASSIGN_OR_RETURN(const std::string text, ReadFile(index));
  auto values = JsonValues::Parse(text);
  if (!values.ok()) {
    return Fail(StrCat("has a damaged model.safetensors.index.json: ",
                       values.error().message));
  }
  // Tensors by file; sorted, so that files are opened in the order of names.
  std::map<std::string, std::vector<std::string>> shards;
  for (const auto& [path, value] : values->values()) {
    if (!path.starts_with(kMap)) continue;
    const auto* const name = std::get_if<std::string>(&value);
    const std::string tensor = path.substr(kMap.size());
    if (name == nullptr || name->empty() ||
        name->find('/') != std::string::npos) {
      return Fail(StrCat("has an index that puts ", Quoted(tensor), " in ",
                         name == nullptr ? "no file" : Quoted(*name),
                         "; expected the name of a file in the folder"));
    }
    shards[*name].push_back(tensor);
  }
  if (shards.empty()) {
    return Fail(
        "has a model.safetensors.index.json without a \"weight_map\" of names "
        "to files");
  }
  for (const auto& [name, expected] : shards) {
    const size_t first = tensors_.size();
    STOWAGE_RETURN_IF_ERROR(
        OpenSafetensors((fs::path(folder) / name).string()));
    std::vector<std::string> has;
    for (size_t i = first; i < tensors_.size(); ++i) {
      has.push_back(tensors_[i].name);
    }
    std::ranges::sort(has);
    std::vector<std::string> lacking, left;
    std::ranges::set_difference(expected, has, std::back_inserter(lacking));
    std::ranges::set_difference(has, expected, std::back_inserter(left));
    if (!lacking.empty()) {
      return Fail(StrCat("has ", Quoted(name), " without ",
                         Quoted(lacking.front()),
                         ", which the index says is there"));
    }
    if (!left.empty()) {
      return Fail(StrCat("has ", Quoted(name), " with ", Quoted(left.front()),
                         ", of which the index does not say that it is there"));
    }
  }
  return {};
}

Status WeightsFile::ReadConfig(const std::string& path) {
  STOWAGE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  auto config = JsonValues::Parse(text);
  if (!config.ok()) {
    return Fail(StrCat("has a damaged config.json: ", config.error().message));
  }
  config_ = *std::move(config);
  return {};
}

Status WeightsFile::ReadConfigBeside() {
  const std::string path =
      (fs::path(path_).parent_path() / "config.json").string();
  return Exists(path) ? ReadConfig(path) : Status();
}

Status WeightsFile::SortTensors() {
  std::ranges::sort(tensors_, {}, &WeightTensor::name);
  const auto twice =
      std::ranges::adjacent_find(tensors_, {}, &WeightTensor::name);
  if (twice == tensors_.end()) return {};
  return Fail(StrCat("has ", Quoted(twice->name), " in two files"));
}

const WeightTensor* WeightsFile::Find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(
      tensors_, name, {}, [](const WeightTensor& tensor) -> std::string_view {
        return tensor.name;
      });
  return found != tensors_.end() && found->name == name ? &*found : nullptr;
}

Result<std::string> WeightsFile::Content() const {
  constexpr Bytes kMebibyte = 1 << 20;
  std::vector<std::byte> window(static_cast<size_t>(kMebibyte));
  std::vector<uint64_t> parts;
  Bytes all = 0;
  for (const InputFile& file : files_) {
    for (Bytes begin = 0; begin < file.size(); begin += kMebibyte) {
      const auto part = std::span(window).first(
          static_cast<size_t>(std::min(kMebibyte, file.size() - begin)));
      STOWAGE_RETURN_IF_ERROR(file.ReadAt(begin, part));
      parts.push_back(
          Xxh64({reinterpret_cast<const char*>(part.data()), part.size()}));
    }
    all += file.size();
  }
  const std::span<const std::byte> hashes = std::as_bytes(std::span(parts));
  return StrCat(all, " bytes of weights, digest ",
                HexDigest(Xxh64({reinterpret_cast<const char*>(hashes.data()),
                                 hashes.size()})));
}

Status WeightsFile::ReadBytes(const WeightTensor& tensor, Bytes begin,
                              std::span<std::byte> to) const {
  STOWAGE_CHECK(begin >= 0 && begin + std::ssize(to) <= tensor.bytes);
  return files_[tensor.file].ReadAt(tensor.begin + begin, to);
}

Status WeightsFile::ReadFloats(const WeightTensor& tensor, int64_t first,
                               std::span<float> to) const {
  STOWAGE_CHECK(tensor.foreign.empty());
  const BlockFormat& format = FormatOf(tensor.type);
  Bytes begin = BytesOf(tensor.type, first);
  if (tensor.type == WeightType::kF32) {
    return ReadBytes(tensor, begin, std::as_writable_bytes(to));
  }
  const int64_t most = kWindow / format.bytes * format.numbers;
  std::vector<std::byte> window;
  while (!to.empty()) {
    const int64_t count = std::min(std::ssize(to), most);
    window.resize(static_cast<size_t>(BytesOf(tensor.type, count)));
    STOWAGE_RETURN_IF_ERROR(ReadBytes(tensor, begin, window));
    Dequantize(tensor.type, window, to.first(static_cast<size_t>(count)));
    to = to.subspan(static_cast<size_t>(count));
    begin += std::ssize(window);
  }
  return {};
}

}  // namespace stowage

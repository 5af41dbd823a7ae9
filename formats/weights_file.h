#ifndef STOWAGE_FORMATS_WEIGHTS_FILE_H_
#define STOWAGE_FORMATS_WEIGHTS_FILE_H_

// Published weights of a model: a GGUF file, or the first of its shards
// ("-00001-of-00003.gguf"), a safetensors file, or a folder in the layout of Hugging Face,
// with config.json and model.safetensors, or model.safetensors.index.json, which may also be
// opened itself, and the files that it names.
//
// Opening reads headers alone. A tensor is then read into the caller's memory, in whole or
// in part, as stored or as floats, with a buffer of at most 64 KiB.
//
//   Result<WeightsFile> file = WeightsFile::Open("SmolLM2-135M-Instruct.Q4_1.gguf");
//   const WeightTensor* tensor = file->Find("token_embd.weight");
//   std::vector<float> row(static_cast<size_t>(tensor->shape.back()));
//   Status read = file->ReadFloats(*tensor, /*first=*/0, row);

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/files.h"
#include "base/result.h"
#include "formats/gguf.h"
#include "formats/json.h"
#include "ir/tensor_type.h"

namespace stowage {

struct WeightTensor {
  std::string name;
  WeightType type = WeightType::kF32;
  Shape shape = {};
  /// For a tensor that no WeightType represents, its type in the file, "I64(4)"; `type` and
  /// `shape` are then invalid. Else empty.
  std::string foreign = {};
  size_t file = 0;  // index of the open file
  Bytes begin = 0;  // in it
  Bytes bytes = 0;

  /// "Q4_1(576, 576)"
  std::string Describe() const;
};

class WeightsFile {
 public:
  /// Opens a folder, a file of either format, recognized by its first bytes, or an index, by
  /// its name. The config.json of a safetensors file is searched for beside it. Errors:
  /// kNotFound for a missing path, shard or file of a folder; kIo; kUnsupported; those of
  /// GgufHeader::Parse; kInvalidArgument for a damaged file, an index that names a file in
  /// another folder, a tensor that its file lacks or that two files have, a GGUF shard that
  /// is not the first or belongs to another split.
  static Result<WeightsFile> Open(const std::string& path);

  const std::string& path() const { return path_; }
  /// By name.
  const std::vector<WeightTensor>& tensors() const { return tensors_; }
  /// The tensor of that name, or null.
  const WeightTensor* Find(std::string_view name) const;

  /// The value of `key` in the metadata of a safetensors file, or null.
  const std::string* Note(std::string_view key) const;

  /// The description of the model: the header of a GGUF file or its first shard, or
  /// config.json; null if there is none.
  const GgufHeader* gguf() const { return gguf_ ? &*gguf_ : nullptr; }
  const JsonValues* config() const { return config_ ? &*config_ : nullptr; }

  /// Identifies the content: the size of its files and the XXH64 of the XXH64s of their
  /// mebibytes. Reads all files, a mebibyte at a time. Error kIo.
  Result<std::string> Content() const;

  /// Reads to.size() stored bytes of a tensor from `begin` on. Precondition: they exist.
  /// Error kIo.
  Status ReadBytes(const WeightTensor& tensor, Bytes begin,
                   std::span<std::byte> to) const;
  /// Reads to.size() elements of a tensor as floats, from element `first` on.
  /// Preconditions: they exist and are whole blocks; the tensor is not foreign. Error kIo.
  Status ReadFloats(const WeightTensor& tensor, int64_t first,
                    std::span<float> to) const;

  /// An error of this file: `[weights] "path" message`.
  Error Fail(std::string_view message,
             ErrorCode code = ErrorCode::kInvalidArgument) const;

 private:
  WeightsFile() = default;
  Status OpenFolder();
  Status OpenGguf(InputFile file);
  Status OpenGgufShards(int64_t count);
  Result<GgufHeader> AddGguf(InputFile file);
  Status OpenSafetensors(const std::string& path);
  Status OpenShards(const std::string& folder, const std::string& index);
  Status ReadConfig(const std::string& path);
  Status ReadConfigBeside();  // a file, where there is one
  Status SortTensors();

  std::string path_;
  std::vector<InputFile> files_;
  std::vector<WeightTensor> tensors_;
  std::map<std::string, std::string, std::less<>> notes_;
  std::optional<GgufHeader> gguf_;
  std::optional<JsonValues> config_;
};

}  // namespace stowage

#endif  // STOWAGE_FORMATS_WEIGHTS_FILE_H_

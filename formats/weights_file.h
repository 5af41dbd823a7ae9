#ifndef STOWAGE_FORMATS_WEIGHTS_FILE_H_
#define STOWAGE_FORMATS_WEIGHTS_FILE_H_

// The weights of a model as others publish them, whatever holds them: a GGUF file, or the
// first of the shards that it is split into ("-00001-of-00003.gguf"), a safetensors file, or a folder as Hugging Face lays it out, with config.json and
// model.safetensors, or model.safetensors.index.json and the files that it names (which
// may be opened by the index, too).
//
// Opening reads headers alone. A tensor is then read where the caller wants it, in whole
// or in part, as it lies or as floats; beside that no more than a window of 64 KiB.
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
#include "formats/json_values.h"
#include "ir/tensor_type.h"

namespace stowage {

struct WeightTensor {
  std::string name;
  WeightType type = WeightType::kF32;
  Shape shape = {};
  /// What the file says it is, "I64(4)", where no WeightType can be that: then `type`
  /// and `shape` mean nothing.
  std::string foreign = {};
  size_t file = 0;  // of those that are open
  Bytes begin = 0;  // in it
  Bytes bytes = 0;

  /// "Q4_1(576, 576)"
  std::string Describe() const;
};

class WeightsFile {
 public:
  /// Opens what is at `path`: a folder, or a file of either format, known by its first
  /// bytes, or an index by its name; of a safetensors file, config.json is looked for
  /// beside it. Errors: kNotFound
  /// for a path, a shard or a file of a folder that is not there, kIo, kUnsupported,
  /// GgufHeader::Parse's; kInvalidArgument for a damaged file, an index that names a
  /// file in another folder, a tensor that its file lacks or that another file has too, a
  /// shard of GGUF that is not the first or is of another split.
  static Result<WeightsFile> Open(const std::string& path);

  const std::string& path() const { return path_; }
  /// By name.
  const std::vector<WeightTensor>& tensors() const { return tensors_; }
  /// The tensor of that name, or null.
  const WeightTensor* Find(std::string_view name) const;

  /// The note under `key` in the metadata of a safetensors file, or null.
  const std::string* Note(std::string_view key) const;

  /// What describes the model: the header of a GGUF file, that of its first shard, or
  /// config.json; null where there is none.
  const GgufHeader* gguf() const { return gguf_ ? &*gguf_ : nullptr; }
  const JsonValues* config() const { return config_ ? &*config_ : nullptr; }

  /// What tells its content from another's: the bytes of its files and the XXH64 of
  /// the XXH64s of their mebibytes. Reads all of them, a mebibyte at a time. Error kIo.
  Result<std::string> Content() const;

  /// Reads bytes of a tensor as they lie, from `begin` on: as many as `to` has.
  /// Precondition: the tensor has them. Error kIo.
  Status ReadBytes(const WeightTensor& tensor, Bytes begin,
                   std::span<std::byte> to) const;
  /// Reads numbers of a tensor as floats, from number `first` on: as many as `to` has.
  /// Preconditions: the tensor has them and is not foreign; they are whole blocks. Error
  /// kIo.
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

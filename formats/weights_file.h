#ifndef STOWAGE_FORMATS_WEIGHTS_FILE_H_
#define STOWAGE_FORMATS_WEIGHTS_FILE_H_

// Reads the published weights of a model. The path is one of the following:
// - a GGUF file, or the first of its shards ("-00001-of-00003.gguf");
// - a safetensors file;
// - a folder in the layout of Hugging Face, with config.json and either model.safetensors or
//   model.safetensors.index.json and the files that the index names;
// - such an index file.
//
// Opening reads only headers, an index and config.json. ReadBytes and ReadFloats then read a
// tensor, or a range of it, into the caller's memory. ReadFloats uses an additional buffer of at
// most 64 KiB.
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
  /// The type in the file, such as "I64(4)", if no WeightType represents it. `type` and `shape` are
  /// then invalid. "" for other tensors.
  std::string foreign = {};
  size_t file = 0;  // index of the file that has the tensor
  Bytes begin = 0;  // offset in this file
  Bytes bytes = 0;

  /// Returns the type and shape, such as "Q4_1(576, 576)".
  std::string Describe() const;
};

class WeightsFile {
 public:
  /// Opens a folder, an index, which is recognized by its name, or a GGUF or safetensors file. A
  /// GGUF file is recognized by its first bytes. For a safetensors file or an index, config.json is
  /// read from the same folder if it exists. Returns kNotFound for a missing path, shard or file of
  /// a folder, and kIo if a file cannot be read. Propagates errors of GgufHeader::Parse. Returns
  /// kInvalidArgument if
  ///  - a file is damaged;
  ///  - an index names a file in another folder, a tensor that its file does not have, or not all
  ///    tensors of a file;
  ///  - two files have the same tensor;
  ///  - a GGUF shard is not the first, or belongs to another split.
  static Result<WeightsFile> Open(const std::string& path);

  const std::string& path() const { return path_; }
  /// Returns the tensors, sorted by name.
  const std::vector<WeightTensor>& tensors() const { return tensors_; }
  /// Returns the tensor called `name`, or null.
  const WeightTensor* Find(std::string_view name) const;

  /// Returns the value of `key` in the metadata of a safetensors file, or null.
  const std::string* Note(std::string_view key) const;

  /// Returns the header of a GGUF file or its first shard, or null for other formats.
  const GgufHeader* gguf() const { return gguf_ ? &*gguf_ : nullptr; }
  /// Returns config.json, or null if there is none.
  const JsonValues* config() const { return config_ ? &*config_ : nullptr; }

  /// Returns a string that identifies the content of all files: the total size, and a hash, which
  /// is the XXH64 of the XXH64s of each mebibyte. Reads all files, a mebibyte at a time. Returns
  /// kIo if reading fails.
  Result<std::string> Content() const;

  /// Reads to.size() bytes of a tensor in the format of the file, starting at byte `begin` of the
  /// tensor. The bytes must exist. Returns kIo if reading fails.
  Status ReadBytes(const WeightTensor& tensor, Bytes begin,
                   std::span<std::byte> to) const;
  /// Reads to.size() elements of a tensor as floats, starting at element `first`. The elements must
  /// exist and consist of whole blocks. The tensor must not be foreign. Returns kIo if reading
  /// fails.
  Status ReadFloats(const WeightTensor& tensor, int64_t first,
                    std::span<float> to) const;

  /// Returns an error about this file with the message `[weights] "path" message`.
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
  Status ReadConfigBeside();  // from the folder of a file, if it exists
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

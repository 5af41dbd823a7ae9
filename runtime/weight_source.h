#ifndef STOWAGE_RUNTIME_WEIGHT_SOURCE_H_
#define STOWAGE_RUNTIME_WEIGHT_SOURCE_H_

// The tensors of a file of weights, by name: a safetensors file or an NPZ of any program
// (formats/safetensors.h), or a Stowage checkpoint, whole or in shards, which
// distinguishes params from states.
//
//   Result<WeightSource> source = WeightSource::Open("run.safetensors", "weights");
//   for (const SafeTensor& tensor : source->tensors()) { ... }
//   Status read = source->Read(0, bytes);

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "formats/safetensors.h"
#include "ir/graph.h"
#include "runtime/checkpoint_file.h"

namespace stowage {

class WeightSource {
 public:
  /// `room` is the prefix of errors. Errors: those of TensorFile::Open and
  /// CheckpointFile::Open.
  static Result<WeightSource> Open(const std::string& path,
                                   std::string_view room);

  const std::vector<SafeTensor>& tensors() const;
  /// The number of params in a checkpoint; they precede the states.
  std::optional<int64_t> params() const;

  /// Reads tensors()[i], checked if it is in shards. Precondition: `to` has its size.
  /// Errors: kIo; those of CheckpointFile::Check.
  Status Read(size_t i, std::span<std::byte> to) const;
  /// Checks that a checkpoint is as saved; does nothing for other files.
  Status Check() const;

  /// An error of this file: `[room] "path" message`.
  Error Fail(std::string_view message,
             ErrorCode code = ErrorCode::kInvalidArgument) const {
    return file_.Fail(message, code);
  }

 private:
  WeightSource(TensorFile file, std::optional<CheckpointFile> checkpoint)
      : file_(std::move(file)), checkpoint_(std::move(checkpoint)) {}

  TensorFile file_;  // of shards, the index
  std::optional<CheckpointFile> checkpoint_;
};

// Distinguishes the values of a trained model from those that only training needs. A file
// of weights holds the params and the model's own states, such as a batch norm's running
// statistics; an optimizer's states are only needed to resume.
//
//   for (ValueId id : WeightValues(runner.graph())) ...

/// The params of `graph`, then those of its states that a node of the forward phase
/// reads or writes, each in the order of declaration. Linear in operands.
std::vector<ValueId> WeightValues(const Graph& graph);

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_WEIGHT_SOURCE_H_

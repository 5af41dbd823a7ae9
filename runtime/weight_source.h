#ifndef STOWAGE_RUNTIME_WEIGHT_SOURCE_H_
#define STOWAGE_RUNTIME_WEIGHT_SOURCE_H_

// The tensors of a file that weights are taken from by name: a safetensors file or an NPZ
// of any program (formats/safetensors.h), or one of Stowage's checkpoints, whole or in
// shards, of which is known where the params end.
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
  /// `room` opens the messages of errors. Errors: those of TensorFile::Open and
  /// CheckpointFile::Open.
  static Result<WeightSource> Open(const std::string& path,
                                   std::string_view room);

  const std::vector<SafeTensor>& tensors() const;
  /// Of a checkpoint, how many tensors are params, which come first.
  std::optional<int64_t> params() const;

  /// Reads tensors()[i]; of a checkpoint in shards, checked. Precondition: `to` has its
  /// size. Errors: kIo; those of CheckpointFile::Check.
  Status Read(size_t i, std::span<std::byte> to) const;
  /// That all of a checkpoint is what was saved; nothing of other files.
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

// What makes a trained model, and what only its training needs. A file of weights
// holds the params and the states that the model itself keeps, such as a batch norm's
// running statistics; an optimizer's states are for going on.
//
//   for (ValueId id : WeightValues(runner.graph())) ...

/// The params of `graph`, then those of its states that a node of the forward phase
/// reads or writes, each in the order of declaration. Linear in operands.
std::vector<ValueId> WeightValues(const Graph& graph);

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_WEIGHT_SOURCE_H_

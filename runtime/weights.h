#ifndef STOWAGE_RUNTIME_WEIGHTS_H_
#define STOWAGE_RUNTIME_WEIGHTS_H_

// Loads weights from a safetensors file or an NPZ, which any program may have written, or from a
// checkpoint. Tensors are matched to params by name. Rules describe files with different names or
// layouts. In this header, "params" include the states of the model, such as the running statistics
// of a batch norm, but not the states of an optimizer (WeightValues).
//
//   session.Initialize(/*seed=*/1);        // Sets optimizer states and missing params.
//   Result<LoadedWeights> loaded = LoadWeights(
//       runner, "gpt2.safetensors",
//       {.rename = {{"transformer.*", "*"}},
//        .transpose = {"*.c_fc.weight"},
//        .allow_unused = {"lm_head.weight"}});
//
//   SaveWeights(runner, "out.safetensors");  // Declared in runtime/checkpoint.h.
//
// Patterns have the syntax of GlobMatches (base/strings.h). Elements are cast from any float type
// to the float type of the param. A matrix that fits its param only if it is transposed is an
// error, unless a rule transposes it. A square matrix fits in both layouts, and the file does not
// show which layout it has. If a framework stores weights as (out, in), as PyTorch's Linear does,
// rules must therefore also transpose the square matrices.

#include <cstddef>
#include <cstdint>
#include <functional>
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
#include "runtime/session.h"

namespace stowage {

/// The tensors of a file of weights: a safetensors file, an NPZ (formats/safetensors.h), or a whole
/// or sharded checkpoint (runtime/checkpoint_file.h). Only a checkpoint distinguishes params from
/// states.
///
///   Result<WeightSource> source = WeightSource::Open("run.safetensors", "weights");
///   for (const SafeTensor& tensor : source->tensors()) { ... }
///   Status read = source->Read(0, bytes);
class WeightSource {
 public:
  /// Opens the file at `path`. `package` is the prefix of error messages. Propagates errors of
  /// TensorFile::Open and CheckpointFile::OpenIfOne.
  static Result<WeightSource> Open(const std::string& path,
                                   std::string_view package);

  const std::vector<SafeTensor>& tensors() const;
  /// Returns the number of params if the file is a checkpoint, otherwise nullopt. In tensors(), the
  /// params precede the states.
  std::optional<int64_t> params() const;

  /// Reads tensors()[i] into `to`, which must have the tensor's size in bytes. If the checkpoint is
  /// sharded, also checks the bytes (CheckpointFile::Check). Returns kIo if the file cannot be
  /// read. Propagates errors of CheckpointFile::Check and CheckpointFile::Read.
  Status Read(size_t i, std::span<std::byte> to) const;
  /// Checks that the content of a checkpoint is as it was saved. Does nothing for other files.
  /// Propagates errors of CheckpointFile::Check.
  Status Check() const;

  /// Returns an error of this file: `[package] "path" message`.
  Error Fail(std::string_view message,
             ErrorCode code = ErrorCode::kInvalidArgument) const {
    return file_.Fail(message, code);
  }

 private:
  WeightSource(TensorFile file, std::optional<CheckpointFile> checkpoint)
      : file_(std::move(file)), checkpoint_(std::move(checkpoint)) {}

  // The file, or the index of a sharded checkpoint.
  TensorFile file_;
  std::optional<CheckpointFile> checkpoint_;
};

/// Returns the values of `graph` that are part of the trained model: the params, followed by the
/// states that a node of the forward phase reads, both in the order of declaration. Linear in the
/// number of values and operands.
std::vector<ValueId> WeightValues(const Graph& graph);

/// A rule that renames tensors of the file whose names match the pattern `from`. The new name is
/// `to`, in which the text that the stars in `from` match replaces the stars, in order.
struct RenameRule {
  std::string from, to;
};

/// Parses a rule of the form "FROM=TO". Returns kInvalidArgument if there is no "=", if a side is
/// empty, or if TO has more stars than FROM.
Result<RenameRule> ParseRenameRule(std::string_view text);

/// Rules for loading weights. A rule that matches nothing is an error, because its name is
/// misspelled or the file is the wrong one.
struct WeightRules {
  // All rules are applied to each name, one after the other.
  std::vector<RenameRule> rename = {};
  /// Patterns of params, by their names in the program, that the file stores as transposed
  /// matrices. Each pattern must match a matrix. Other params that match it are loaded unchanged.
  std::vector<std::string> transpose = {};
  /// Patterns of params that may be missing from the file. They keep their current values.
  std::vector<std::string> allow_missing = {};
  /// Patterns of tensors, by their names in the file, that may remain unused.
  std::vector<std::string> allow_unused = {};
};

/// The result of matching a file's tensors to a program's params.
struct LoadedWeights {
  int64_t loaded = 0;  // The number of params that were in the file.
  // The params that were not in the file, which WeightRules::allow_missing allows.
  std::vector<std::string> missing;
  // The tensors that no param used, which WeightRules::allow_unused allows.
  std::vector<std::string> unused;
};

/// Writes the params of `runner` that are in the file at `path`, according to `rules`. All errors
/// of names, types and shapes are found before the first param is written. The optimizer states in
/// a checkpoint (runtime/checkpoint.h) are ignored. Errors name tensors and shapes.
///
/// Returns kNotFound or kIo if the file cannot be read. Returns kInvalidArgument if
/// - the file is neither a safetensors file nor an NPZ, or is a corrupt checkpoint,
/// - a rule matches nothing, or rules give two tensors the same name,
/// - params are missing, or tensors are unused, and no rule allows it,
/// - no param is in the file,
/// - a shape differs, or fits only transposed,
/// - the element type differs, and one of the types is not a float type, or
/// - an element is NaN or infinite, in the file or after a cast to a narrower type.
///
/// After an error of the last kind, or if reading or writing elements fails, all params that are in
/// the file count as not set (AllOrNone in runtime/values.h).
Result<LoadedWeights> LoadWeights(Runner& runner, const std::string& path,
                                  const WeightRules& rules = {});

/// Passes the bytes that LoadWeights would write for a program of `graph` to `take`, one param per
/// call, row-major and in the param's type. Returns the errors of LoadWeights. Stops at the
/// first error of `take` and returns it.
Result<LoadedWeights> ReadWeights(
    const Graph& graph, const std::string& path, const WeightRules& rules,
    const std::function<Status(const ValueInfo&, std::span<const std::byte>)>&
        take);

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_WEIGHTS_H_

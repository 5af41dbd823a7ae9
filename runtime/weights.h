#ifndef STOWAGE_RUNTIME_WEIGHTS_H_
#define STOWAGE_RUNTIME_WEIGHTS_H_

// Loads weights from a safetensors file or an NPZ of any program, or from a checkpoint. Tensors
// are matched to params by name. Rules describe other names or layouts. The model's own states,
// such as the running statistics of a batch norm, count as params here. The states of an
// optimizer do not.
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
// Patterns have the syntax of GlobMatches (base/strings.h). Elements are cast from any float
// type to the type of the param. A matrix that fits only transposed is an error unless a rule
// transposes it. A square matrix fits both ways, and the file does not show which is meant. For
// frameworks that store weights as (out, in), such as PyTorch's Linear, square matrices
// therefore also need the rule.

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

/// The tensors of a file of weights: a safetensors file, an NPZ (formats/safetensors.h), or a
/// checkpoint, whole or sharded. A checkpoint distinguishes params from states.
///
///   Result<WeightSource> source = WeightSource::Open("run.safetensors", "weights");
///   for (const SafeTensor& tensor : source->tensors()) { ... }
///   Status read = source->Read(0, bytes);
class WeightSource {
 public:
  /// Opens the file at `path`. `package` is the prefix of errors. Propagates errors of
  /// TensorFile::Open and CheckpointFile::OpenIfOne.
  static Result<WeightSource> Open(const std::string& path,
                                   std::string_view package);

  const std::vector<SafeTensor>& tensors() const;
  /// Returns the number of params in a checkpoint, which precede its states, or nullopt for
  /// other files.
  std::optional<int64_t> params() const;

  /// Reads tensors()[i] into `to`, which must have its size. Checks the tensor if it is in
  /// shards. Returns kIo if the file cannot be read. Propagates errors of
  /// CheckpointFile::Check.
  Status Read(size_t i, std::span<std::byte> to) const;
  /// Checks that a checkpoint is as saved. Does nothing for other files.
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

/// Returns the values of a trained model: the params of `graph`, then the states that are
/// operands of a node of the forward phase, both in the order of declaration. Linear in the
/// number of operands.
std::vector<ValueId> WeightValues(const Graph& graph);

/// Renames tensors of the file that match `from` to `to`. The stars in `to` are replaced by the
/// text that the stars in `from` match.
struct RenameRule {
  std::string from, to;
};

/// Parses a rule of the form "A=B". Returns an error if there is no "=", a side is empty, or B
/// has more stars than A.
Result<RenameRule> ParseRenameRule(std::string_view text);

/// Rules for loading weights. A rule that matches nothing is an error, because the name is
/// misspelled or the file is the wrong one.
struct WeightRules {
  // Applied one after another to each name.
  std::vector<RenameRule> rename = {};
  /// Params, by their names in the program, that the file stores as transposed matrices.
  /// Matching params that are not matrices are loaded unchanged.
  std::vector<std::string> transpose = {};
  /// Params that may be missing from the file. They keep their current values.
  std::vector<std::string> allow_missing = {};
  /// Tensors, by their names in the file, that may remain unused.
  std::vector<std::string> allow_unused = {};
};

/// The result of matching a file's tensors to a program's params.
struct LoadedWeights {
  int64_t loaded = 0;
  // Params that were missing, as a rule allowed.
  std::vector<std::string> missing;
  // Tensors that were unused, as a rule allowed.
  std::vector<std::string> unused;
};

/// Writes the params of `runner` that the file has. All errors of names, types and shapes are
/// found before the first param is written. The optimizer states in a checkpoint
/// (runtime/checkpoint.h) are ignored. Errors name tensors and shapes.
///
/// Returns kNotFound or kIo if the file cannot be read. Returns kInvalidArgument if
/// - the file is neither a safetensors file nor an NPZ, or is a corrupt checkpoint,
/// - a rule matches nothing, or rules give two tensors the same name,
/// - params are missing, or tensors are unused, and no rule allows it,
/// - a shape differs, or fits only transposed,
/// - the element type differs, and one of the types is not a float, or
/// - an element is NaN or infinite, in the file or after a cast to a narrower type.
///
/// After an error of the last kind, none of the params that the file has is set any longer
/// (AllOrNone in runtime/values.h).
Result<LoadedWeights> LoadWeights(Runner& runner, const std::string& path,
                                  const WeightRules& rules = {});

/// Passes the bytes that LoadWeights writes for a program of `graph` to `take`, row-major and
/// in the param's type, one param after another. Propagates errors of LoadWeights. Stops at the
/// first error of `take` and returns it.
Result<LoadedWeights> ReadWeights(
    const Graph& graph, const std::string& path, const WeightRules& rules,
    const std::function<Status(const ValueInfo&, std::span<const std::byte>)>&
        take);

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_WEIGHTS_H_

#ifndef STOWAGE_RUNTIME_WEIGHTS_H_
#define STOWAGE_RUNTIME_WEIGHTS_H_

// Loads weights from files: a safetensors file or an NPZ of any program, or a checkpoint.
// Tensors are matched to params by name, and rules describe other names or layouts. The
// model's own states, such as a batch norm's running statistics, count as params here; an
// optimizer's states do not.
//
//   session.Initialize(/*seed=*/1);        // an optimizer's states, what is missing
//   Result<LoadedWeights> loaded = LoadWeights(
//       runner, "gpt2.safetensors",
//       {.rename = {{"transformer.*", "*"}},
//        .transpose = {"*.c_fc.weight"},
//        .allow_unused = {"lm_head.weight"}});
//
//   SaveWeights(runner, "out.safetensors");  // runtime/checkpoint.h
//
// Patterns are those of GlobMatches (base/strings.h). Elements are cast from any float type
// to the param's. A matrix that only fits transposed is an error unless a rule transposes
// it. A square one fits both ways, and the file does not show which is meant: frameworks
// that keep weights as (out, in), like PyTorch's Linear, need the rule for square ones too.

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

/// The tensors of a file of weights: a safetensors file or an NPZ (formats/safetensors.h),
/// or a checkpoint, whole or in shards, which distinguishes params from states.
///
///   Result<WeightSource> source = WeightSource::Open("run.safetensors", "weights");
///   for (const SafeTensor& tensor : source->tensors()) { ... }
///   Status read = source->Read(0, bytes);
class WeightSource {
 public:
  /// `package` is the prefix of errors. Errors: those of TensorFile::Open and
  /// CheckpointFile::Open.
  static Result<WeightSource> Open(const std::string& path,
                                   std::string_view package);

  const std::vector<SafeTensor>& tensors() const;
  /// The number of params in a checkpoint; they precede the states.
  std::optional<int64_t> params() const;

  /// Reads tensors()[i], checked if it is in shards. Precondition: `to` has its size.
  /// Errors: kIo; those of CheckpointFile::Check.
  Status Read(size_t i, std::span<std::byte> to) const;
  /// Checks that a checkpoint is as saved; does nothing for other files.
  Status Check() const;

  /// An error of this file: `[package] "path" message`.
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

/// The values of a trained model: the params of `graph`, then those of its states that a
/// node of the forward phase reads or writes, each in the order of declaration. Linear in
/// operands.
std::vector<ValueId> WeightValues(const Graph& graph);

/// Renames tensors of the file that match `from` to `to`, whose stars take the text
/// matched by those of `from`.
struct RenameRule {
  std::string from, to;
};

/// "A=B" as a rule. Errors: no "=", an empty side, more stars in B than in A.
Result<RenameRule> ParseRenameRule(std::string_view text);

/// A rule that matches nothing is an error: the name is misspelt, or the file is the
/// wrong one.
struct WeightRules {
  std::vector<RenameRule> rename = {};  // applied in turn
  /// Params, by their names here, whose matrices the file has transposed. Matches that
  /// are not matrices are unchanged.
  std::vector<std::string> transpose = {};
  /// Params that the file may lack; they keep the values they have.
  std::vector<std::string> allow_missing = {};
  /// Tensors, by their names in the file, that may stay unused.
  std::vector<std::string> allow_unused = {};
};

/// The mapping between a file's tensors and a program's params.
struct LoadedWeights {
  int64_t loaded = 0;
  std::vector<std::string> missing;  // params that were allowed to be missing
  std::vector<std::string> unused;   // tensors that were allowed to be unused
};

/// Writes the params of `runner` that the file has. All errors of names, types and shapes
/// are found before the first is written; the optimizer's states in a checkpoint
/// (runtime/checkpoint.h) are ignored. Errors, naming tensors and shapes: kNotFound, kIo;
/// kInvalidArgument for a file that is neither a safetensors file nor an NPZ, a corrupt
/// checkpoint, a rule that matches nothing, params that it lacks or tensors that no param
/// takes and no rule allows, two that a rule gives one name, another shape, one that fits
/// only transposed, elements of another type that are not floats, and for NaN or
/// infinity, in the file or by a cast to a narrower type, after which none of these
/// params has values (AllOrNone in runtime/values.h).
Result<LoadedWeights> LoadWeights(Runner& runner, const std::string& path,
                                  const WeightRules& rules = {});

/// Passes the bytes that LoadWeights writes for a program of `graph` to `take`, row-major and in
/// the param's type, one param after another. Errors: those of LoadWeights, and the first error
/// of `take`, which ends it.
Result<LoadedWeights> ReadWeights(
    const Graph& graph, const std::string& path, const WeightRules& rules,
    const std::function<Status(const ValueInfo&, std::span<const std::byte>)>&
        take);

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_WEIGHTS_H_

#ifndef STOWAGE_RUNTIME_WEIGHTS_H_
#define STOWAGE_RUNTIME_WEIGHTS_H_

// Loads weights from other programs' files. Any safetensors or NPZ file can give the
// params of a program their values: tensors are matched to params by name, and rules
// describe other names or layouts. The model's own states, such as a batch norm's running
// statistics, count as params here (runtime/weight_source.h).
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
// Patterns are those of base/strings.h. Elements are cast from any float type to the
// param's. A matrix that only fits transposed is an error unless a rule transposes it. A
// square one fits both ways, and the file does not show which is meant: frameworks that
// keep weights as (out, in), like PyTorch's Linear, need the rule for square ones too.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "runtime/session.h"

namespace stowage {

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
/// params has values (AllOrNone in runtime/check_programs.h).
Result<LoadedWeights> LoadWeights(Runner& runner, const std::string& path,
                                  const WeightRules& rules = {});

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_WEIGHTS_H_

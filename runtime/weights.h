#ifndef STOWAGE_RUNTIME_WEIGHTS_H_
#define STOWAGE_RUNTIME_WEIGHTS_H_

// Weights of other programs' files. Any safetensors or NPZ file can give the params of a
// program their values: tensors go to params by name, and rules say what is called
// or stored otherwise there. States that the model itself keeps, such as a batch
// norm's running statistics, are params here (runtime/weight_source.h).
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
// Patterns are those of base/glob.h. Elements are cast from any float type to the
// param's. A matrix whose shape fits only the other way round is an error unless a
// rule transposes it; a square one fits both ways, so that nobody but its author
// can tell: frameworks that keep weights as (out, in), as PyTorch's Linear does,
// need the rule for square ones too.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "runtime/session.h"

namespace stowage {

/// Tensors of the file that match `from` are called `to` here, whose stars are what
/// those of `from` stood for.
struct RenameRule {
  std::string from, to;
};

/// "A=B" as a rule. Errors: no "=", an empty side, more stars in B than in A.
Result<RenameRule> ParseRenameRule(std::string_view text);

/// A rule that matches nothing is an error: its name is misspelt, or it is another file's.
struct WeightRules {
  std::vector<RenameRule> rename = {};  // each in turn, on what the others made
  /// Params, by their names here, whose matrices the file has transposed. Of what
  /// matches, all that is no matrix is left as it is.
  std::vector<std::string> transpose = {};
  /// Params that the file may lack; they keep the values they have.
  std::vector<std::string> allow_missing = {};
  /// Tensors, by their names in the file, that no param needs to take.
  std::vector<std::string> allow_unused = {};
};

/// What became of a file's tensors and of a program's params.
struct LoadedWeights {
  int64_t loaded = 0;
  std::vector<std::string> missing;  // params that were allowed to be
  std::vector<std::string> unused;   // tensors, likewise
};

/// Writes the params of `runner` that the file has. Whatever is wrong with names,
/// types and shapes is known before the first is written; of a checkpoint
/// (runtime/checkpoint.h) the optimizer's states are not taken. Errors, naming
/// tensors and shapes: kNotFound, kIo; kInvalidArgument for a file that is neither a
/// safetensors file nor an NPZ, a checkpoint whose content is not what was saved, a rule
/// that matches nothing, params that it lacks or tensors that no param takes and no rule
/// allows, two that a rule gives one name, another shape, one that fits only transposed,
/// elements of another type that are no floats, and for NaN or infinity, in the
/// file or by a cast to a narrower type, after which none of these params has values
/// (AllOrNone in runtime/check_programs.h).
Result<LoadedWeights> LoadWeights(Runner& runner, const std::string& path,
                                  const WeightRules& rules = {});

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_WEIGHTS_H_

#ifndef STOWAGE_AUTODIFF_PARAM_GROUPS_H_
#define STOWAGE_AUTODIFF_PARAM_GROUPS_H_

// Params that are trained otherwise than the rest: without weight decay, by a
// learning rate of their own, or not at all. A group names its params by a
// pattern (base/glob.h), and the first group whose pattern matches a param's
// name is the one that applies to it. A param that no pattern matches keeps the
// optimizer's own settings. The updates are those of PyTorch's param groups,
// where `decay` is a group's weight_decay and its lr is `lr_scale` times the
// step's.
//
//   // GPT-2 as it is usually trained: decay for matrices only.
//   TrainOptions options{.optimizer = AdamW{.decay = 0.1},
//                        .groups = {{.pattern = "*.bias", .decay = 0},
//                                   {.pattern = "*ln_*", .decay = 0},
//                                   {.pattern = "wte", .lr_scale = 0.1},
//                                   {.pattern = "wpe", .frozen = true}}};

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autodiff/optimizer.h"
#include "base/result.h"
#include "ir/graph.h"

namespace stowage {

struct ParamGroup {
  /// Of the params' names: `*` is any run of characters, `?` exactly one.
  std::string pattern;
  /// Takes the place of the optimizer's decay.
  std::optional<double> decay = std::nullopt;
  /// Multiplies the learning rate, in f32. With 0 the params stay as they are,
  /// but have gradients and states.
  double lr_scale = 1;
  /// Neither gradients nor states are made for the params, and they stay as
  /// they are. Then `decay` and `lr_scale` say nothing.
  bool frozen = false;
};

/// The first group whose pattern matches `param`; null where none does.
const ParamGroup* FindParamGroup(std::span<const ParamGroup> groups,
                                 std::string_view param);

/// Error kInvalidArgument: a pattern that matches no param of `graph` (the error
/// names some that there are), a decay below 0 or not finite, an lr_scale below
/// 0 or not finite in f32. Takes time for every param and group.
Status CheckParamGroups(const Graph& graph, std::span<const ParamGroup> groups);

/// The names of `wrt`, or where it is empty of all float params of `graph`, but
/// for the params that are frozen. Error kInvalidArgument: all of them are.
Result<std::vector<std::string>> WithoutFrozen(
    const Graph& graph, const std::vector<std::string>& wrt,
    std::span<const ParamGroup> groups);

/// `groups` with a decay of 0 for the params of `graph` whose names match one of
/// `patterns`; what else applies to them stays. Error kInvalidArgument: a pattern that
/// matches no param, or only frozen ones.
Result<std::vector<ParamGroup>> WithoutDecay(
    const Graph& graph, std::vector<ParamGroup> groups,
    std::span<const std::string> patterns);

/// `optimizer` with the decay that `group` gives its params. `group` may be
/// null.
Optimizer OptimizerOfGroup(const Optimizer& optimizer, const ParamGroup* group);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_PARAM_GROUPS_H_

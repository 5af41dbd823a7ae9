#ifndef STOWAGE_AUTODIFF_PARAM_GROUPS_H_
#define STOWAGE_AUTODIFF_PARAM_GROUPS_H_

// Defines param groups, like those of torch.optim. The params of a group have their own settings or
// their own optimizer, their settings may be inputs of the step, and they may be frozen.
//
//   TrainOptions options{.optimizer = AdamW{.decay = 0.1}};
//   options.groups = {{.pattern = "*.bias", .decay = 0}};

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autodiff/optimizer.h"
#include "base/result.h"
#include "ir/graph.h"

namespace stowage {

/// States which settings of a group are inputs of the step. The program must write them before
/// every step, like "lr". For Adam and similar optimizers, the momentum is beta1.
struct GroupInputs {
  bool lr = false;
  bool momentum = false;
  bool decay = false;

  bool any() const { return lr || momentum || decay; }
};

/// A set of params with their own optimizer, weight decay or learning rate, or frozen params. A
/// pattern selects the params by name. A param belongs to the first group whose pattern matches its
/// name. A param that belongs to no group is updated with the settings of TrainOptions::optimizer.
/// The updates equal those of a param group in PyTorch whose weight_decay is `decay` and whose lr
/// is `lr_scale` times the step's lr.
///
///   // GPT-2 as it is usually trained: decay for matrices only.
///   TrainOptions options{.optimizer = AdamW{.decay = 0.1},
///                        .groups = {{.pattern = "*.bias", .decay = 0},
///                                   {.pattern = "*ln_*", .decay = 0},
///                                   {.pattern = "wte", .lr_scale = 0.1},
///                                   {.pattern = "wpe", .frozen = true}}};
///
///   // Params of a backbone with their own learning rate and momentum at every step.
///   options.groups = {{.pattern = "backbone.*",
///                      .optimizer = Momentum{.decay = 1e-4},
///                      .name = "backbone",
///                      .inputs = {.lr = true, .momentum = true}}};
///   ...
///   step.Write("lr:backbone", 1e-4), step.Write("momentum:backbone", 0.9);
struct ParamGroup {
  /// The pattern of the params' names (GlobMatches, base/strings.h). `*` matches any sequence of
  /// characters, and `?` matches any single character.
  std::string pattern;
  /// Replaces the optimizer's decay.
  std::optional<double> decay = std::nullopt;
  /// Multiplies the learning rate, in f32. With 0, optimizers that multiply their update by the
  /// learning rate (all but Rprop) do not change the params, which still have gradients and states.
  double lr_scale = 1;
  /// If true, the params do not change and have neither gradients nor states. The other settings of
  /// the group are then ignored, but must be valid.
  bool frozen = false;
  /// Replaces the optimizer, with all of its settings.
  std::optional<Optimizer> optimizer = std::nullopt;
  /// If true, updates maximize the loss: the gradient is negated before the decay is added.
  bool maximize = false;
  /// The name of the group, which its inputs "lr:<name>", "momentum:<name>" and "decay:<name>"
  /// contain. The step reads these scalars instead of "lr" and the optimizer's constants. They are
  /// f64 if any param of the model is f64, and f32 otherwise. Groups with the same name share their
  /// inputs. A step has no input "lr" if every trained param is in a group with its own learning
  /// rate.
  std::string name = {};
  GroupInputs inputs = {};
};

/// These functions return the name of an input of the group called `group`.
std::string GroupRateName(std::string_view group);
std::string GroupMomentumName(std::string_view group);
std::string GroupDecayName(std::string_view group);
/// Returns whether `name` has the form of a name of a group's input.
bool IsGroupInput(std::string_view name);

/// Returns the first group whose pattern matches `param`, or null.
const ParamGroup* FindParamGroup(std::span<const ParamGroup> groups,
                                 std::string_view param);

/// Checks `groups` for a model whose optimizer is `optimizer`. Returns kInvalidArgument in these
/// cases:
///   - A pattern matches no param of `graph`.
///   - A decay is negative or not finite, or an lr_scale is negative or not finite in f32.
///   - The optimizer of a group is invalid (CheckOptimizer).
///   - A group has inputs but no name, or `graph` has a value with the name of an input.
/// Returns kUnsupported if the momentum or the decay of a group is an input, but the group's
/// optimizer (OptimizerOfGroup) supports it only as a constant. Takes O(params * groups) time.
Status CheckParamGroups(const Graph& graph, const Optimizer& optimizer,
                        std::span<const ParamGroup> groups);

/// Returns the names of the params to train: the names in `wrt`, or the names of all float params
/// of `graph` if `wrt` is empty, without frozen params. If there are no groups, returns `wrt`.
/// Returns kInvalidArgument if all of these params are frozen.
Result<std::vector<std::string>> WithoutFrozen(
    const Graph& graph, const std::vector<std::string>& wrt,
    std::span<const ParamGroup> groups);

/// Returns `groups`, preceded by one group with a decay of 0 for each trained param of `graph`
/// whose name matches one of `patterns`. The other settings of these params are kept. Returns
/// kInvalidArgument if a pattern matches no param or only frozen params.
Result<std::vector<ParamGroup>> WithoutDecay(
    const Graph& graph, std::vector<ParamGroup> groups,
    std::span<const std::string> patterns);

/// Returns the optimizer of `group`, or `optimizer` if the group has none or `group` is null. If
/// the group has a decay, it replaces the optimizer's decay.
Optimizer OptimizerOfGroup(const Optimizer& optimizer, const ParamGroup* group);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_PARAM_GROUPS_H_

#ifndef STOWAGE_AUTODIFF_PARAM_GROUPS_H_
#define STOWAGE_AUTODIFF_PARAM_GROUPS_H_

// Defines param groups, like those of torch.optim: sets of params with their own settings or
// optimizer, with settings that are inputs of the step, or that are frozen.
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

/// The settings of a group that are inputs of the step, to be written before every step like "lr".
/// For Adam and similar optimizers, the momentum is beta1.
struct GroupInputs {
  bool lr = false;
  bool momentum = false;
  bool decay = false;

  bool any() const { return lr || momentum || decay; }
};

/// A set of params with their own optimizer, weight decay or learning rate, or frozen params. The
/// params are selected by a pattern (base/strings.h). The first group whose pattern matches a
/// param's name applies to the param. A param that matches no group is updated with the optimizer's
/// settings. The updates are equal to those of PyTorch's param groups with `decay` as weight_decay
/// and `lr_scale` times the step's lr as lr.
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
  /// Matches the params' names. `*` matches any sequence of characters, and `?` any single one.
  std::string pattern;
  /// Replaces the optimizer's decay.
  std::optional<double> decay = std::nullopt;
  /// Multiplies the learning rate, in f32. With 0, the params do not change, but still have
  /// gradients and states.
  double lr_scale = 1;
  /// If true, the params do not change and have neither gradients nor states. `decay` and
  /// `lr_scale` are then ignored.
  bool frozen = false;
  /// Replaces the optimizer, with all of its settings.
  std::optional<Optimizer> optimizer = std::nullopt;
  /// If true, updates maximize the loss: the gradient is negated before the decay is added.
  bool maximize = false;
  /// The name of the group's inputs "lr:<name>", "momentum:<name>" and "decay:<name>". The step
  /// reads these scalars in place of "lr" and the optimizer's constants. They are f64 if any param
  /// of the model is f64, and f32 otherwise. Groups with the same name share their inputs. A step
  /// has no input "lr" if every trained param is in a group with its own learning rate.
  std::string name = {};
  GroupInputs inputs = {};
};

/// Return the names of the inputs of the group called `group`.
std::string GroupRateName(std::string_view group);
std::string GroupMomentumName(std::string_view group);
std::string GroupDecayName(std::string_view group);
/// Returns whether `name` has the form of an input of a group.
bool IsGroupInput(std::string_view name);

/// Returns the first group whose pattern matches `param`, or null.
const ParamGroup* FindParamGroup(std::span<const ParamGroup> groups,
                                 std::string_view param);

/// Returns kInvalidArgument if a pattern matches no param of `graph` (the message names some
/// params), if a decay is negative or not finite, if an lr_scale is negative or not finite in f32,
/// if a group has inputs but no name, if `graph` already has a value with the name of an input, or
/// if an optimizer is invalid (CheckOptimizer). Returns kUnsupported if a momentum or decay is an
/// input but the group's optimizer, or `optimizer` if it has none, supports it only as a constant.
/// O(params * groups).
Status CheckParamGroups(const Graph& graph, const Optimizer& optimizer,
                        std::span<const ParamGroup> groups);

/// Returns the names in `wrt`, or the names of all float params of `graph` if `wrt` is empty,
/// without frozen params. If there are no groups, returns `wrt`. Returns kInvalidArgument if all of
/// the params are frozen.
Result<std::vector<std::string>> WithoutFrozen(
    const Graph& graph, const std::vector<std::string>& wrt,
    std::span<const ParamGroup> groups);

/// Returns `groups` with a decay of 0 for the params of `graph` whose names match one of
/// `patterns`. Other settings of these params are kept. Returns kInvalidArgument if a pattern
/// matches no param or only frozen params.
Result<std::vector<ParamGroup>> WithoutDecay(
    const Graph& graph, std::vector<ParamGroup> groups,
    std::span<const std::string> patterns);

/// Returns the optimizer of `group`, or `optimizer` if it has none, with the decay of the group.
/// `group` may be null.
Optimizer OptimizerOfGroup(const Optimizer& optimizer, const ParamGroup* group);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_PARAM_GROUPS_H_

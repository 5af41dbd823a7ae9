#ifndef STOWAGE_AUTODIFF_PARAM_GROUPS_H_
#define STOWAGE_AUTODIFF_PARAM_GROUPS_H_

// Groups of params that are trained otherwise than the rest: with other settings, by another
// optimizer, with settings that are inputs of the step, or not at all.
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

/// Settings that are inputs of the step, which are written before every step like "lr". The
/// momentum is also Adam's beta1.
struct GroupInputs {
  bool lr = false;
  bool momentum = false;
  bool decay = false;

  bool any() const { return lr || momentum || decay; }
};

/// Params with other settings than the rest: another optimizer, weight decay or learning rate,
/// or frozen. A group names its params by a pattern (base/strings.h); the first group whose
/// pattern matches a param's name applies, and a param without a match keeps the optimizer's
/// settings. The updates are those of PyTorch's param groups, with `decay` as weight_decay and
/// `lr_scale` times the step's lr as lr.
///
///   // GPT-2 as it is usually trained: decay for matrices only.
///   TrainOptions options{.optimizer = AdamW{.decay = 0.1},
///                        .groups = {{.pattern = "*.bias", .decay = 0},
///                                   {.pattern = "*ln_*", .decay = 0},
///                                   {.pattern = "wte", .lr_scale = 0.1},
///                                   {.pattern = "wpe", .frozen = true}}};
///
///   // A rate and a momentum of their own at every step, for params of a backbone.
///   options.groups = {{.pattern = "backbone.*",
///                      .optimizer = Momentum{.decay = 1e-4},
///                      .name = "backbone",
///                      .inputs = {.lr = true, .momentum = true}}};
///   ...
///   step.Write("lr:backbone", 1e-4), step.Write("momentum:backbone", 0.9);
struct ParamGroup {
  /// Matches the params' names: `*` is any run of characters, `?` exactly one.
  std::string pattern;
  /// Replaces the optimizer's decay.
  std::optional<double> decay = std::nullopt;
  /// Multiplies the learning rate, in f32. With 0 the params do not change but have gradients
  /// and states.
  double lr_scale = 1;
  /// The params do not change and have neither gradients nor states; `decay` and `lr_scale` are
  /// unused.
  bool frozen = false;
  /// Replaces the optimizer; its settings are those of these params.
  std::optional<Optimizer> optimizer = std::nullopt;
  /// The updates ascend: they negate the gradient, and then add the decay.
  bool maximize = false;
  /// The name in "lr:<name>", "momentum:<name>" and "decay:<name>", the scalars that the step reads
  /// in place of "lr" and of the optimizer's constants: f64 if a param is f64, else f32. Groups may
  /// share a name, and thereby inputs. A step whose groups all have a rate has no input "lr".
  std::string name = {};
  GroupInputs inputs = {};
};

/// The names of the inputs of a group.
std::string GroupRateName(std::string_view group);
std::string GroupMomentumName(std::string_view group);
std::string GroupDecayName(std::string_view group);
/// Whether `name` is one of these.
bool IsGroupInput(std::string_view name);

/// The first group whose pattern matches `param`, or null.
const ParamGroup* FindParamGroup(std::span<const ParamGroup> groups,
                                 std::string_view param);

/// Error kInvalidArgument: a pattern that matches no param of `graph` (the error names some
/// params), a decay below 0 or not finite, an lr_scale below 0 or not finite in f32, inputs
/// without a name or that `graph` has already, an invalid optimizer (CheckOptimizer), an input
/// for a momentum or decay that the update, by `optimizer` or the group's own, has only as a
/// constant. O(params * groups).
Status CheckParamGroups(const Graph& graph, const Optimizer& optimizer,
                        std::span<const ParamGroup> groups);

/// The names of `wrt`, or of all float params of `graph` if it is empty, without frozen params.
/// Error kInvalidArgument: all of them are frozen.
Result<std::vector<std::string>> WithoutFrozen(
    const Graph& graph, const std::vector<std::string>& wrt,
    std::span<const ParamGroup> groups);

/// `groups` with a decay of 0 for the params of `graph` whose names match one of `patterns`;
/// their other settings stay. Error kInvalidArgument: a pattern that matches no param, or
/// only frozen ones.
Result<std::vector<ParamGroup>> WithoutDecay(
    const Graph& graph, std::vector<ParamGroup> groups,
    std::span<const std::string> patterns);

/// The optimizer of `group`, or else `optimizer`, with the group's decay; `group` may be null.
Optimizer OptimizerOfGroup(const Optimizer& optimizer, const ParamGroup* group);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_PARAM_GROUPS_H_

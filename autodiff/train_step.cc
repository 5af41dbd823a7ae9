#include "autodiff/train_step.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "autodiff/backward.h"
#include "autodiff/optimizer.h"
#include "autodiff/step_parts.h"
#include "base/result.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/element_groups.h"

namespace stowage {
namespace {

constexpr double kMinScale = std::numeric_limits<float>::min();

template <typename T>
Status CheckScaling(std::string_view name, T value, bool holds,
                    std::string_view expected) {
  if (holds) return {};
  return Error{
      ErrorCode::kInvalidArgument,
      StrCat("[loss scale] ", name, " is ", value, "; expected ", expected)};
}

// Error: the model has `name`, and not as an input that the step can use.
Status CheckScalarInput(const Graph& forward, std::string_view name) {
  const std::optional<ValueId> id = forward.Find(name);
  if (!id) return {};
  const ValueInfo& info = forward.value(*id);
  if (info.role != Role::kInput || info.type != TensorType{DType::kI64, {}}) {
    return InvalidArgumentError(
        "[autodiff] ", Quoted(name), " in graph ", Quoted(forward.name()),
        " is ", RoleName(info.role), " ", info.type.ToString(),
        "; the step needs this name for an input i64()");
  }
  return {};
}

// Error: the model has a value with a name that the step declares.
Status CheckFree(const Graph& forward, std::string_view name,
                 std::string_view what) {
  if (!forward.Find(name)) return {};
  return InvalidArgumentError("[autodiff] graph ", Quoted(forward.name()),
                              " has a value ", Quoted(name),
                              "; the step needs this name for its ", what);
}

}  // namespace

Status CheckLossScaling(const LossScaling& scaling) {
  const auto& [init, is_dynamic, growth, backoff, interval] = scaling;
  STOWAGE_RETURN_IF_ERROR(CheckScaling(
      "init_scale", init, init >= kMinScale && init <= 1 / kMinScale,
      "a number from 2^-126 to 2^126"));
  if (!is_dynamic) return {};
  STOWAGE_RETURN_IF_ERROR(CheckScaling("growth_factor", growth,
                                       growth > 1 && std::isfinite(growth),
                                       "a finite number above 1"));
  STOWAGE_RETURN_IF_ERROR(CheckScaling("backoff_factor", backoff,
                                       backoff > 0 && backoff < 1,
                                       "a number between 0 and 1"));
  return CheckScaling("growth_interval", interval, interval >= 1, "at least 1");
}

std::string AverageName(std::string_view param) {
  return StrCat(param, ".ema");
}

bool UpdatesWait(const TrainOptions& options) {
  return options.clip_norm || options.loss_scaling;
}

bool UpdatesReadSeed(const TrainOptions& options) {
  const auto reads = [](const ParamGroup& group) {
    return group.optimizer && ReadsSeed(*group.optimizer);
  };
  return ReadsSeed(options.optimizer) ||
         std::ranges::any_of(options.groups, reads);
}

Status CheckTrainOptions(const Graph& forward, const TrainOptions& options) {
  for (const ValueId id : forward.Leaves(Role::kCache)) {
    return InvalidArgumentError(
        "[autodiff] graph ", Quoted(forward.name()), " has the cache ",
        Quoted(forward.value(id).name),
        "; a step of training keeps nothing for the next one but "
        "params and states");
  }
  STOWAGE_RETURN_IF_ERROR(CheckOptimizer(options.optimizer));
  if (options.clip_norm &&
      !(*options.clip_norm > 0 && std::isfinite(*options.clip_norm))) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[optimizer] clip_norm is ", *options.clip_norm,
                        "; expected a finite number above 0")};
  }
  if (options.ema) {
    if (!(*options.ema > 0 && *options.ema < 1)) {
      return InvalidArgumentError("[optimizer] ema is ", *options.ema,
                                  "; expected a decay above 0 and below 1");
    }
    STOWAGE_RETURN_IF_ERROR(CheckFree(forward, kAverageUpdates, "averages"));
  }
  STOWAGE_RETURN_IF_ERROR(
      CheckParamGroups(forward, options.optimizer, options.groups));
  for (const std::string& name : options.wrt) {
    const std::optional<ValueId> id = forward.Find(name);
    if (!id || forward.value(*id).role == Role::kParam) continue;
    return InvalidArgumentError(
        "[autodiff] cannot train ", Quoted(name), ", whose role is ",
        RoleName(forward.value(*id).role), "; expected a param");
  }
  STOWAGE_RETURN_IF_ERROR(CheckFree(forward, "lr", "learning rate"));
  if (options.loss_scaling) {
    STOWAGE_RETURN_IF_ERROR(CheckLossScaling(*options.loss_scaling));
    for (const std::string_view name :
         {"loss_scale", "loss_scale.good_steps", "loss_scale.skipped",
          "new:loss_scale", "update_skipped"}) {
      STOWAGE_RETURN_IF_ERROR(CheckFree(forward, name, "loss scaling"));
    }
  }
  STOWAGE_RETURN_IF_ERROR(CheckScalarInput(forward, "step"));
  if (!UpdatesReadSeed(options)) return {};
  return CheckScalarInput(forward, "seed");
}

std::string_view ShardingName(Sharding sharding) {
  switch (sharding) {
    case Sharding::kNone:
      return "none";
    case Sharding::kStates:
      return "states";
    case Sharding::kGradients:
      return "gradients";
    case Sharding::kWeights:
      break;
  }
  return "weights";
}

Result<Sharding> ParseSharding(std::string_view name) {
  for (const Sharding sharding : kShardings) {
    if (name == ShardingName(sharding)) return sharding;
  }
  return InvalidArgumentError("[ranks] there is no sharding ", Quoted(name),
                              "; expected none, states, gradients or weights");
}

Status CheckRanks(const Ranks& ranks) {
  if (ranks.ranks < 1) {
    return InvalidArgumentError("[ranks] there are ", ranks.ranks,
                                " ranks; expected at least 1");
  }
  if (ranks.rank < 0 || ranks.rank >= ranks.ranks) {
    return InvalidArgumentError("[ranks] rank ", ranks.rank, " is none of ",
                                ranks.ranks, "; expected 0 to ",
                                ranks.ranks - 1);
  }
  if (ranks.bucket_bytes < 1) {
    return InvalidArgumentError("[ranks] a bucket has ", ranks.bucket_bytes,
                                " bytes; expected at least 1");
  }
  return {};
}

int64_t BlockGranule(int64_t elements) {
  return elements < kMinElementsIn8Bit ? 4 : kMomentBlock;
}

int64_t BlockElements(int64_t elements, int64_t ranks) {
  return RankBlock(elements, ranks, BlockGranule(elements));
}

std::string OwnName(std::string_view name) { return StrCat("own:", name); }

Result<Graph> LinkBackward(const Graph& forward, const Graph& backward,
                           std::string_view loss, std::string_view scale) {
  STOWAGE_ASSIGN_OR_RETURN(const Graph saving, SaveInLoops(forward, backward));
  GraphBuilder g(StrCat(forward.name(), ".linked"));
  Linker linker(saving, backward, loss, &g);
  linker.DeclareLeaves();
  LossGradient seed;
  if (!scale.empty()) seed.scale = g.Input(scale, DType::kF32, {});
  linker.CopyForward();
  STOWAGE_RETURN_IF_ERROR(linker.WireUp(seed));
  for (NodeId id = 0; id < backward.num_nodes(); ++id) {
    linker.CopyBackwardNode(id);
  }
  linker.DeclareOutputs();
  for (const GraphOutput& output : backward.outputs()) {
    g.Output(output.name, linker.backward(output.value));
  }
  return g.Finish();
}

Result<Graph> BuildTrainStep(const Graph& forward, std::string_view loss,
                             const TrainOptions& options) {
  STOWAGE_RETURN_IF_ERROR(CheckTrainOptions(forward, options));
  STOWAGE_ASSIGN_OR_RETURN(const Differentiated graphs,
                           Differentiate(forward, loss, options));
  GraphBuilder g(StrCat(forward.name(), ".step"));
  Linker linker(graphs.forward, graphs.backward, loss, &g);
  Updater updater(options, &g);
  linker.DeclareLeaves();
  updater.DeclareInputs();
  linker.CopyForward();
  STOWAGE_RETURN_IF_ERROR(linker.WireUp(updater.Seed()));

  const auto update = [&](size_t i) {
    const Trained& trained = graphs.trained[i];
    updater.Update(linker.forward(trained.param),
                   linker.backward(trained.gradient));
  };
  CopyBackward(graphs, linker, [&](size_t i) {
    if (!UpdatesWait(options)) update(i);
  });
  linker.DeclareOutputs();
  std::map<std::string, Value> by_param;
  std::vector<Value> gradients;
  for (const Trained& trained : graphs.trained) {
    gradients.push_back(linker.backward(trained.gradient));
    by_param[graphs.forward.value(trained.param).name] = gradients.back();
  }
  updater.GiveOut(by_param);
  if (UpdatesWait(options)) {
    updater.Await(gradients);
    for (size_t i = 0; i < graphs.trained.size(); ++i) update(i);
  }
  return g.Finish();
}

}  // namespace stowage

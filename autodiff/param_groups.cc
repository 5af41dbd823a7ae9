#include "autodiff/param_groups.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <variant>

#include "base/strings.h"

namespace stowage {

namespace {

// Whether a momentum and a decay may be inputs: whether a rule of PyTorch's optimizer reads them.
bool HasGeneralRule(const Optimizer& optimizer) {
  if (const auto* adamw = std::get_if<AdamW>(&optimizer)) {
    return adamw->moments == Moments::kFull;
  }
  if (const auto* momentum = std::get_if<Momentum>(&optimizer)) {
    return !momentum->bf16_velocity;
  }
  return !std::holds_alternative<Lion>(optimizer) &&
         !std::holds_alternative<Adafactor>(optimizer) &&
         !std::holds_alternative<Muon>(optimizer) &&
         !std::holds_alternative<UpdateRule>(optimizer);
}
bool HasMomentum(const Optimizer& optimizer) {
  return std::visit(
      [](const auto& kind) {
        return requires { kind.momentum; }
        || requires { kind.beta1; };
      },
      optimizer);
}

// Some of the params, for messages: `"w1", "b1" and 7 more`.
std::string SomeParams(const Graph& graph) {
  constexpr size_t kMax = 5;
  const std::vector<ValueId> params = graph.Leaves(Role::kParam);
  if (params.empty()) return "no params";
  std::string names;
  for (size_t i = 0; i < std::min(params.size(), kMax); ++i) {
    names += StrCat(i == 0 ? "" : ", ", Quoted(graph.value(params[i]).name));
  }
  if (params.size() > kMax) {
    names += StrCat(" and ", params.size() - kMax, " more");
  }
  return names;
}

constexpr std::string_view kRatePrefix = "lr:";
constexpr std::string_view kMomentumPrefix = "momentum:";
constexpr std::string_view kDecayPrefix = "decay:";

Status CheckGroupInputs(const Graph& graph, const Optimizer& optimizer,
                        const ParamGroup& group) {
  const GroupInputs& inputs = group.inputs;
  if (!inputs.any()) return {};
  if (group.name.empty()) {
    return InvalidArgumentError("[autodiff] param group ",
                                Quoted(group.pattern),
                                " has inputs and no name; give it one");
  }
  for (const std::string& name :
       {GroupRateName(group.name), GroupMomentumName(group.name),
        GroupDecayName(group.name)}) {
    if (!graph.Find(name)) continue;
    return InvalidArgumentError(
        "[autodiff] graph ", Quoted(graph.name()), " has a value ",
        Quoted(name), ", the name of an input of param group ",
        Quoted(group.pattern), "; give the group another name");
  }
  const Optimizer own = OptimizerOfGroup(optimizer, &group);
  const bool has_general = HasGeneralRule(own);
  const bool has_momentum = has_general && HasMomentum(own);
  if ((inputs.decay && !has_general) || (inputs.momentum && !has_momentum)) {
    return Error{
        ErrorCode::kUnsupported,
        StrCat("[optimizer] the ",
               inputs.momentum && !has_momentum ? "momentum" : "decay", " of ",
               OptimizerName(own), " is no input of a step, as param group ",
               Quoted(group.pattern), " wants; expected one of ",
               "PyTorch's optimizers with full states, or no input")};
  }
  return {};
}

bool IsFrozen(std::span<const ParamGroup> groups, std::string_view param) {
  const ParamGroup* const group = FindParamGroup(groups, param);
  return group != nullptr && group->frozen;
}

}  // namespace

const ParamGroup* FindParamGroup(std::span<const ParamGroup> groups,
                                 std::string_view param) {
  const auto group = std::ranges::find_if(groups, [&](const ParamGroup& g) {
    return GlobMatches(g.pattern, param);
  });
  return group == groups.end() ? nullptr : &*group;
}

std::string GroupRateName(std::string_view group) {
  return StrCat(kRatePrefix, group);
}
std::string GroupMomentumName(std::string_view group) {
  return StrCat(kMomentumPrefix, group);
}
std::string GroupDecayName(std::string_view group) {
  return StrCat(kDecayPrefix, group);
}
bool IsGroupInput(std::string_view name) {
  return name.starts_with(kRatePrefix) || name.starts_with(kMomentumPrefix) ||
         name.starts_with(kDecayPrefix);
}

Status CheckParamGroups(const Graph& graph, const Optimizer& optimizer,
                        std::span<const ParamGroup> groups) {
  const std::vector<ValueId> params = graph.Leaves(Role::kParam);
  for (const ParamGroup& group : groups) {
    const auto matches = [&](ValueId id) {
      return GlobMatches(group.pattern, graph.value(id).name);
    };
    if (std::ranges::none_of(params, matches)) {
      return InvalidArgumentError(
          "[autodiff] pattern ", Quoted(group.pattern),
          " of a param group matches no param of graph ", Quoted(graph.name()),
          ", which has ", SomeParams(graph),
          "; expected the name of a param, where * is any run of "
          "characters and ? any one");
    }
    if (group.decay && !(*group.decay >= 0 && std::isfinite(*group.decay))) {
      return InvalidArgumentError("[autodiff] decay of param group ",
                                  Quoted(group.pattern), " is ", *group.decay,
                                  "; expected a finite number of at least 0");
    }
    // lr_scale multiplies the learning rate, which is f32.
    if (!(group.lr_scale >= 0 &&
          group.lr_scale <= std::numeric_limits<float>::max())) {
      return InvalidArgumentError(
          "[autodiff] lr_scale of param group ", Quoted(group.pattern), " is ",
          group.lr_scale,
          "; expected a number of at least 0 that is finite in f32");
    }
    STOWAGE_RETURN_IF_ERROR(
        CheckOptimizer(OptimizerOfGroup(optimizer, &group)));
    STOWAGE_RETURN_IF_ERROR(CheckGroupInputs(graph, optimizer, group));
  }
  return {};
}

Result<std::vector<std::string>> WithoutFrozen(
    const Graph& graph, const std::vector<std::string>& wrt,
    std::span<const ParamGroup> groups) {
  // Without groups nothing is frozen; BuildBackward reports mistakes in `wrt`.
  if (groups.empty()) return wrt;
  std::vector<std::string> names = wrt;
  if (names.empty()) {
    for (const ValueId id : graph.Leaves(Role::kParam)) {
      const ValueInfo& info = graph.value(id);
      if (IsFloat(info.type.dtype)) names.push_back(info.name);
    }
  }
  if (names.empty()) return names;
  std::erase_if(names, [&](const std::string& name) {
    const std::optional<ValueId> id = graph.Find(name);
    return id && graph.value(*id).role == Role::kParam &&
           IsFrozen(groups, name);
  });
  if (!names.empty()) return names;
  return InvalidArgumentError(
      "[autodiff] every param of graph ", Quoted(graph.name()),
      " that would be trained is frozen by a param group, and it has ",
      SomeParams(graph), "; leave at least one to train");
}

Result<std::vector<ParamGroup>> WithoutDecay(
    const Graph& graph, std::vector<ParamGroup> groups,
    std::span<const std::string> patterns) {
  const std::vector<ValueId> params = graph.Leaves(Role::kParam);
  // First and by name, because only the first matching group applies to a param.
  std::vector<ParamGroup> all;
  for (const std::string& pattern : patterns) {
    bool matches = false, trains = false;
    for (const ValueId id : params) {
      const std::string& name = graph.value(id).name;
      if (!GlobMatches(pattern, name)) continue;
      matches = true;
      if (IsFrozen(groups, name)) continue;
      trains = true;
      const ParamGroup* const group = FindParamGroup(groups, name);
      all.push_back(group == nullptr ? ParamGroup{} : *group);
      all.back().pattern = name;
      all.back().decay = 0;
      all.back().inputs.decay = false;
    }
    if (trains) continue;
    return InvalidArgumentError(
        "[autodiff] pattern ", Quoted(pattern),
        " of params without decay matches ",
        matches ? "only frozen params" : "no param", " of graph ",
        Quoted(graph.name()), ", which has ", SomeParams(graph),
        "; expected the name of a trained param, where * is any run "
        "of characters and ? any one");
  }
  std::ranges::move(groups, std::back_inserter(all));
  return all;
}

Optimizer OptimizerOfGroup(const Optimizer& optimizer,
                           const ParamGroup* group) {
  const bool has_own = group != nullptr && group->optimizer;
  Optimizer of_group = has_own ? *group->optimizer : optimizer;
  if (group != nullptr && group->decay) {
    std::visit([&](auto& kind) { kind.decay = *group->decay; }, of_group);
  }
  return of_group;
}

}  // namespace stowage

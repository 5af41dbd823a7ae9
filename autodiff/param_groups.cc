#include "autodiff/param_groups.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <variant>

#include "base/glob.h"
#include "base/strings.h"
#include "ir/dtype.h"

namespace stowage {
namespace {

template <typename... Args>
Error Fail(const Args&... args) {
  return Error{ErrorCode::kInvalidArgument, StrCat("[autodiff] ", args...)};
}

// Some of the params, for messages: `"w1", "b1" and 7 more`.
std::string SomeParams(const Graph& graph) {
  constexpr size_t kMost = 5;
  const std::vector<ValueId> params = graph.Leaves(Role::kParam);
  if (params.empty()) return "no params";
  std::string names;
  for (size_t i = 0; i < std::min(params.size(), kMost); ++i) {
    names += StrCat(i == 0 ? "" : ", ", Quoted(graph.value(params[i]).name));
  }
  if (params.size() > kMost) {
    names += StrCat(" and ", params.size() - kMost, " more");
  }
  return names;
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

Status CheckParamGroups(const Graph& graph,
                        std::span<const ParamGroup> groups) {
  const std::vector<ValueId> params = graph.Leaves(Role::kParam);
  for (const ParamGroup& group : groups) {
    const auto matches = [&](ValueId id) {
      return GlobMatches(group.pattern, graph.value(id).name);
    };
    if (std::ranges::none_of(params, matches)) {
      return Fail("pattern ", Quoted(group.pattern),
                  " of a param group matches no param of graph ",
                  Quoted(graph.name()), ", which has ", SomeParams(graph),
                  "; expected the name of a param, where * is any run of "
                  "characters and ? any one");
    }
    if (group.decay && !(*group.decay >= 0 && std::isfinite(*group.decay))) {
      return Fail("decay of param group ", Quoted(group.pattern), " is ",
                  *group.decay, "; expected a finite number of at least 0");
    }
    // It multiplies the learning rate, which is f32.
    if (!(group.lr_scale >= 0 &&
          group.lr_scale <= std::numeric_limits<float>::max())) {
      return Fail("lr_scale of param group ", Quoted(group.pattern), " is ",
                  group.lr_scale,
                  "; expected a number of at least 0 that is finite in f32");
    }
  }
  return {};
}

Result<std::vector<std::string>> WithoutFrozen(
    const Graph& graph, const std::vector<std::string>& wrt,
    std::span<const ParamGroup> groups) {
  // Without groups nothing is frozen, and mistakes in `wrt` are left to whoever
  // differentiates by it.
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
  return Fail("every param of graph ", Quoted(graph.name()),
              " that would be trained is frozen by a param group, and it has ",
              SomeParams(graph), "; leave at least one to train");
}

Result<std::vector<ParamGroup>> WithoutDecay(
    const Graph& graph, std::vector<ParamGroup> groups,
    std::span<const std::string> patterns) {
  const std::vector<ValueId> params = graph.Leaves(Role::kParam);
  // Before the others, by name: of a param the first group alone applies.
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
      all.push_back({.pattern = name,
                     .decay = 0,
                     .lr_scale = group == nullptr ? 1 : group->lr_scale});
    }
    if (trains) continue;
    return Fail("pattern ", Quoted(pattern),
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
  Optimizer of_group = optimizer;
  if (group != nullptr && group->decay) {
    std::visit([&](auto& kind) { kind.decay = *group->decay; }, of_group);
  }
  return of_group;
}

}  // namespace stowage

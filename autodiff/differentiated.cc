#include "autodiff/differentiated.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "autodiff/backward.h"
#include "autodiff/param_groups.h"
#include "autodiff/saved_in_loops.h"
#include "base/glob.h"
#include "base/strings.h"
#include "ir/layout.h"
#include "ir/uses.h"

namespace stowage {
namespace {

template <typename... Args>
Error Fail(const Args&... args) {
  return Error{ErrorCode::kInvalidArgument, StrCat("[autodiff] ", args...)};
}

std::vector<Trained> FindTrained(const Graph& forward, const Graph& backward) {
  const Layouts layouts = ComputeLayouts(backward);
  const Uses uses(backward, layouts);
  std::vector<Trained> trained;
  const size_t prefix = GradientName("").size();
  for (const GraphOutput& output : backward.outputs()) {
    const std::string name = output.name.substr(prefix);
    NodeId last = backward.value(output.value).producer;
    if (const std::optional<ValueId> leaf = backward.Find(name)) {
      last = std::max(last, uses.last_use(*leaf));
    }
    trained.push_back({*forward.Find(name), output.value, last});
  }
  return trained;
}

// That every pattern of `gradients` is for a param that is trained.
Status CheckGradients(const Graph& forward, const std::vector<Trained>& trained,
                      const TrainOptions& options) {
  for (const std::string& pattern : options.gradients) {
    const auto matches = [&](const Trained& t) {
      return GlobMatches(pattern, forward.value(t.param).name);
    };
    if (std::ranges::any_of(trained, matches)) continue;
    return Fail("pattern ", Quoted(pattern),
                " of the gradients to give out matches none of the ",
                trained.size(), " params that are trained, such as ",
                Quoted(forward.value(trained.front().param).name));
  }
  return {};
}

}  // namespace

Result<Differentiated> Differentiate(const Graph& forward,
                                     std::string_view loss,
                                     const TrainOptions& options) {
  STOWAGE_ASSIGN_OR_RETURN(std::vector<std::string> wrt,
                           WithoutFrozen(forward, options.wrt, options.groups));
  STOWAGE_ASSIGN_OR_RETURN(
      Graph backward,
      BuildBackward(forward, loss, BackwardOptions{.wrt = std::move(wrt)}));
  STOWAGE_ASSIGN_OR_RETURN(Graph saving, SaveInLoops(forward, backward));
  std::vector<Trained> trained = FindTrained(saving, backward);
  STOWAGE_RETURN_IF_ERROR(CheckGradients(saving, trained, options));
  return Differentiated{std::move(saving), std::move(backward),
                        std::move(trained)};
}

void CopyBackward(const Differentiated& model, Linker& linker,
                  const std::function<void(size_t)>& made) {
  std::multimap<NodeId, size_t> ready;
  for (size_t i = 0; i < model.trained.size(); ++i) {
    ready.emplace(model.trained[i].last, i);
  }
  const auto tell = [&](NodeId id) {
    const auto [begin, end] = ready.equal_range(id);
    for (auto it = begin; it != end; ++it) made(it->second);
  };
  tell(kNoNode);
  for (NodeId id = 0; id < model.backward.num_nodes(); ++id) {
    linker.CopyBackwardNode(id);
    tell(id);
  }
}

}  // namespace stowage

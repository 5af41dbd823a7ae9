#include "autodiff/train_step.h"

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "autodiff/linker.h"
#include "autodiff/saved_in_loops.h"
#include "autodiff/updater.h"
#include "base/strings.h"
#include "ir/builder.h"

namespace stowage {

Result<Graph> LinkBackward(const Graph& forward, const Graph& backward,
                           std::string_view loss) {
  STOWAGE_ASSIGN_OR_RETURN(const Graph saving, SaveInLoops(forward, backward));
  GraphBuilder g(StrCat(forward.name(), ".linked"));
  Linker linker(saving, backward, loss, &g);
  linker.DeclareLeaves();
  linker.CopyForward();
  STOWAGE_RETURN_IF_ERROR(linker.WireUp());
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

#include "autodiff/saved_in_loops.h"

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "ir/bodies.h"
#include "ir/builder.h"
#include "ir/control_flow.h"
#include "ir/graph_copy.h"

namespace stowage {
namespace {

using Names = std::vector<std::string>;

// The loop whose stacked results `name` would be among; kNoNode where there is none.
NodeId LoopOf(const Graph& graph, std::string_view name, std::string* inner) {
  NodeId found = kNoNode;
  size_t longest = 0;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (node.op != OpKind::kLoop) continue;
    const std::string suffix =
        SavedInLoopName("", graph.value(node.results[0]).name);
    if (suffix.size() <= longest || !name.ends_with(suffix)) continue;
    found = id;
    longest = suffix.size();
    *inner = std::string(name.substr(0, name.size() - suffix.size()));
  }
  return found;
}

Result<Graph> WithSaved(const Graph& graph, const Names& names);

// Appends loop `id`, which also hands back `saved` of its body.
Status CopyLoop(const Graph& graph, NodeId id, const Names& saved,
                GraphCopy* copy, GraphBuilder* g) {
  const Node& node = graph.node(id);
  const std::string& loop = graph.value(node.results[0]).name;
  STOWAGE_ASSIGN_OR_RETURN(const Graph body,
                           WithSaved(*BodiesOf(node).front(), saved));
  std::vector<ValueId> outputs;
  for (const GraphOutput& output : body.outputs()) {
    outputs.push_back(output.value);
  }
  Names names;
  for (const ValueId result : node.results) {
    names.push_back(graph.value(result).name);
  }
  for (const std::string& value : saved) {
    const auto found = body.Find(value);
    if (!found) continue;  // the linker says what is missing
    outputs.push_back(*found);
    names.push_back(SavedInLoopName(value, loop));
  }
  STOWAGE_ASSIGN_OR_RETURN(Graph saving,
                           MakeBody(body, LeavesOf(body), outputs));
  Attrs attrs = node.attrs;
  attrs.Set("bodies",
            SubGraphs{std::make_shared<const Graph>(std::move(saving))});
  std::vector<Value> inputs;
  for (const ValueId input : node.inputs) inputs.push_back((*copy)[input]);
  copy->SetOrigin(id);
  const std::vector<Value> results =
      g->EmitNamed(node.op, inputs, attrs, names);
  if (g->error()) return *g->error();
  for (size_t r = 0; r < node.results.size(); ++r) {
    const ValueInfo& info = graph.value(node.results[r]);
    g->SetRole(results[r],
               info.role == Role::kOutput ? Role::kActivation : info.role);
    copy->Map(node.results[r], results[r]);
  }
  return {};
}

Result<Graph> WithSaved(const Graph& graph, const Names& names) {
  std::map<NodeId, Names> saved;  // by loop
  for (const std::string& name : names) {
    std::string inner;
    if (graph.Find(name)) continue;
    const NodeId loop = LoopOf(graph, name, &inner);
    if (loop != kNoNode) saved[loop].push_back(inner);
  }
  if (saved.empty()) return graph;
  GraphBuilder g(graph.name());
  GraphCopy copy(graph, &g);
  copy.DeclareLeaves();
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const auto more = saved.find(id);
    if (more == saved.end()) {
      copy.CopyNode(id);
    } else {
      STOWAGE_RETURN_IF_ERROR(CopyLoop(graph, id, more->second, &copy, &g));
    }
  }
  copy.DeclareOutputs();
  return g.Finish();
}

}  // namespace

std::string SavedInLoopName(std::string_view value, std::string_view loop) {
  return StrCat(value, "@", loop);
}

Result<Graph> SaveInLoops(const Graph& forward, const Graph& backward) {
  Names names;
  for (const ValueId id : backward.Leaves(Role::kSaved)) {
    names.push_back(backward.value(id).name);
  }
  return WithSaved(forward, names);
}

}  // namespace stowage

#include "planner/fit/pieces/pieces.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "base/index.h"
#include "base/strings.h"
#include "ir/layout.h"
#include "ir/op_def.h"

namespace stowage {

StepBuilder OfGraph(Graph graph) {
  return [graph = std::make_shared<const Graph>(std::move(graph))](
             int64_t, Sampling) -> Result<PiecedStep> {
    return PiecedStep{.graph = *graph};
  };
}

}  // namespace stowage

namespace stowage::fit {
namespace {

// The piece that a node is in; all are in one.
size_t PieceOf(const std::vector<NodeId>& begins, NodeId node) {
  const auto next = std::ranges::upper_bound(begins, node);
  STOWAGE_CHECK(next != begins.begin());
  return Index(next - begins.begin()) - 1;
}

// The nodes of each piece that run. Views are left out: where one is taken is
// where it is first wanted, which may be in the next piece.
std::vector<std::vector<NodeId>> RunsOf(const PiecedStep& step) {
  std::vector<std::vector<NodeId>> runs(step.begins.size());
  for (NodeId id = 0; id < step.graph.num_nodes(); ++id) {
    if (GetOpDef(step.graph.node(id).op).is_view()) continue;
    runs[PieceOf(step.begins, id)].push_back(id);
  }
  return runs;
}

// Equal for pieces whose nodes have the same ops and types, in order.
uint64_t Likeness(const Graph& graph, const std::vector<NodeId>& nodes) {
  Fnv1a hash;
  for (const NodeId id : nodes) {
    const Node& node = graph.node(id);
    hash.Update(OpName(node.op));
    for (const ValueId result : node.results) {
      hash.Update(graph.value(result).type.ToString());
    }
  }
  return hash.digest();
}

Error Unlike(const PiecedStep& step, std::string_view why) {
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[micro-batches] graph ", Quoted(step.graph.name()), " ",
                      why, "; expected a sample of the step to plan it by")};
}

}  // namespace

bool IsWhole(const PiecedStep& step) {
  return std::ranges::count(step.counts, 1) == std::ssize(step.counts);
}

int64_t CountOf(const PiecedStep& step, NodeId node) {
  return step.counts[PieceOf(step.begins, node)];
}

double FlopsOf(const PiecedStep& step) {
  double flops = 0;
  for (NodeId id = 0; id < step.graph.num_nodes(); ++id) {
    flops += NodeFlops(step.graph, step.graph.node(id)) *
             static_cast<double>(CountOf(step, id));
  }
  return flops;
}

Result<Script> StretchScript(const PiecedStep& sample, const Script& script,
                             const PiecedStep& step) {
  const std::vector<std::vector<NodeId>> of_sample = RunsOf(sample);
  std::map<uint64_t, size_t> kinds;
  for (size_t piece = 0; piece < of_sample.size(); ++piece) {
    kinds[Likeness(sample.graph, of_sample[piece])] = piece;
  }
  // As positions in their pieces.
  std::vector<Script> by_piece(of_sample.size());
  for (const Rerun& rerun : script) {
    const size_t piece = PieceOf(sample.begins, rerun.stage);
    const std::vector<NodeId>& runs = of_sample[piece];
    const auto place = [&](NodeId node) {
      return static_cast<NodeId>(std::ranges::lower_bound(runs, node) -
                                 runs.begin());
    };
    for (const NodeId node : {rerun.stage, rerun.node}) {
      if (std::ranges::binary_search(runs, node)) continue;
      return Unlike(sample, "runs a node of one piece again for another");
    }
    by_piece[piece].push_back({place(rerun.stage), place(rerun.node)});
  }
  Script stretched;
  size_t number = 0;
  for (const std::vector<NodeId>& runs : RunsOf(step)) {
    ++number;
    const auto kind = kinds.find(Likeness(step.graph, runs));
    if (kind == kinds.end()) {
      return Unlike(step, StrCat("has a piece, number ", number,
                                 ", that is like none of the sample's"));
    }
    for (const Rerun& rerun : by_piece[kind->second]) {
      stretched.push_back({runs[Index(rerun.stage)], runs[Index(rerun.node)]});
    }
  }
  return stretched;
}

std::vector<std::string> NamesInPieces(const Graph& graph,
                                       const std::vector<std::string>& names,
                                       int64_t pieces) {
  std::vector<std::string> all;
  for (const std::string& name : names) {
    const size_t before = all.size();
    for (int64_t p = 1; p <= pieces && !graph.Find(name); ++p) {
      const std::string of_piece = StrCat(name, "/", p);
      if (graph.Find(of_piece)) all.push_back(of_piece);
    }
    if (all.size() == before) all.push_back(name);
  }
  return all;
}

std::vector<Remade> InAllPieces(std::vector<Remade> of_each) {
  std::vector<Remade> all;
  std::map<std::string, size_t, std::less<>> index;
  for (Remade& remade : of_each) {
    remade.name.resize(std::min(remade.name.size(), remade.name.rfind('/')));
    const auto [at, is_new] = index.try_emplace(remade.name, all.size());
    if (is_new) {
      all.push_back(std::move(remade));
      continue;
    }
    Remade& sum = all[at->second];
    sum.freed = std::max(sum.freed, remade.freed);
    sum.flops += remade.flops;
    sum.times += remade.times;
  }
  return all;
}

}  // namespace stowage::fit

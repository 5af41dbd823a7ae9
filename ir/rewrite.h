#ifndef STOWAGE_IR_REWRITE_H_
#define STOWAGE_IR_REWRITE_H_

// Runs the nodes of a graph into a new one, some of them more than once: what
// recomputation is made of. The first run of a node keeps its names; a further
// run gives its results fresh ones, "h.0.ln_1~recomputed". Nodes may be given
// other operands than they had, of the same types.
//
//   Rewriter to(graph);
//   std::vector<Value> y = to.Run(0, {to.leaf(x)});
//   std::vector<Value> again = to.Run(0, {to.leaf(x)});
//   Result<Graph> rewritten = to.Finish();

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/builder.h"
#include "ir/graph.h"

namespace stowage {

/// What the names of results of a further run end with, or have before a number.
inline constexpr std::string_view kRunAgainSuffix = "~recomputed";

class Rewriter {
 public:
  /// `from` must outlive this. Its leaves are there from the start.
  explicit Rewriter(const Graph& from);

  /// What stands for a leaf of the old graph.
  Value leaf(ValueId id) const { return first_[static_cast<size_t>(id)]; }

  /// Appends node `id` of the old graph with these operands; returns its
  /// results, which are inert after an error. Phase and origin stay.
  std::vector<Value> Run(NodeId id, std::span<const Value> operands);

  /// Declares the old graph's outputs, each as the result of its node's first
  /// run, and ends the rewriting: the first error, or the verified graph.
  /// Precondition: the nodes that make outputs have been run. Linear.
  Result<Graph> Finish();

 private:
  std::string FreshName(const std::string& of);

  const Graph& from_;
  GraphBuilder to_;
  std::vector<Value> first_;  // by id in from_: the leaf, or of the first run
};

}  // namespace stowage

#endif  // STOWAGE_IR_REWRITE_H_

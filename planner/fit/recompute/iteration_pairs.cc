#include "planner/fit/recompute/iteration_pairs.h"

#include <algorithm>
#include <set>

#include "base/bytes.h"
#include "ir/layout.h"
#include "ir/op_def.h"
#include "ir/tensor_type.h"
#include "planner/fit/cost.h"

namespace stowage::fit {
namespace {

// The value of its body that a loop copies to hand it back, if it is a leaf: what was
// carried into the iteration.
std::optional<ValueId> CopiedLeaf(const Graph& body, ValueId output) {
  const ValueInfo& info = body.value(output);
  if (info.is_leaf()) return output;
  const Node& maker = body.node(info.producer);
  if (maker.op != OpKind::kCopy || !body.value(maker.inputs[0]).is_leaf()) {
    return std::nullopt;
  }
  return maker.inputs[0];
}

// What must be there for `wanted`, by value.
std::vector<bool> NeededFor(const Graph& body,
                            const std::vector<ValueId>& wanted) {
  std::vector<bool> needed(Index(body.num_values()), false);
  for (const ValueId id : wanted) needed[Index(id)] = true;
  for (NodeId n = body.num_nodes() - 1; n >= 0; --n) {
    const Node& node = body.node(n);
    if (!IsNeeded(node, needed)) continue;
    for (const ValueId input : node.inputs) needed[Index(input)] = true;
  }
  return needed;
}

// How many bodies stand in one another in `node`.
int DepthOf(const Node& node) {
  int depth = 0;
  for (const auto& body : BodiesOf(node)) {
    depth = std::max(depth, 1);
    for (const Node& inner : body->nodes()) {
      depth = std::max(depth, 1 + DepthOf(inner));
    }
  }
  return depth;
}

class PairFinder {
 public:
  PairFinder(const Graph& graph, const IterationOptions& options)
      : graph_(graph), options_(options), layouts_(ComputeLayouts(graph)) {
    FindReaders();
  }

  std::vector<IterationPair> Find() {
    std::vector<IterationPair> pairs;
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      if (graph_.node(id).op != OpKind::kLoop || taken_.contains(id)) continue;
      if (auto pair = FindPair(id)) {
        taken_.insert(pair->backward);
        pairs.push_back(*std::move(pair));
      }
    }
    return pairs;
  }

 private:
  // Of each value: its one reader, kNoNode for none, -2 for several, or an output.
  static constexpr NodeId kMany = -2;

  void FindReaders() {
    reader_.assign(Index(graph_.num_values()), kNoNode);
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      for (const ValueId input : graph_.node(id).inputs) {
        NodeId& reader = reader_[Index(input)];
        reader = reader == kNoNode || reader == id ? id : kMany;
      }
    }
    for (const GraphOutput& output : graph_.outputs()) {
      reader_[Index(output.value)] = kMany;
    }
  }

  // What the loop `id` hands to one loop that goes back, and to nothing else.
  std::optional<IterationPair> FindPair(NodeId id) const {
    const Node& node = graph_.node(id);
    const LoopParts loop = PartsOfLoop(node);
    if (HoldsCollectives(loop.body) || IsKept(node)) return std::nullopt;
    const std::vector<ValueId> leaves = LeavesOf(loop.body);
    IterationPair pair = {.forward = id};
    for (const bool is_copy : {false, true}) {
      for (size_t r = loop.handed_on(); r < loop.outputs(); ++r) {
        const auto leaf = CopiedLeaf(loop.body, OutputOf(loop.body, r));
        if (leaf.has_value() != is_copy) continue;
        if (leaf && !IsHandedOn(loop, leaves, *leaf)) continue;
        const NodeId reader = reader_[Index(node.results[r])];
        if (!GoesBack(loop, node, reader, node.results[r])) continue;
        if (pair.backward != kNoNode && pair.backward != reader) continue;
        pair.backward = reader;
        (is_copy ? pair.carried_in : pair.made).push_back(r);
      }
    }
    if (pair.backward == kNoNode || taken_.contains(pair.backward)) {
      return std::nullopt;
    }
    const std::optional<IterationPair> by_iterations = OfIterations(pair, loop);
    const std::optional<IterationPair> by_segments = OfSegments(pair, loop);
    const int64_t segment =
        by_segments ? SegmentOf(pair, by_segments->needed, loop) : 1;
    if (segment == 1) return by_iterations;
    pair = *by_segments;
    pair.segment = segment;
    return pair;
  }

  static bool IsHandedOn(const LoopParts& loop,
                         const std::vector<ValueId>& leaves, ValueId leaf) {
    for (size_t handed = 0; handed < loop.handed_on(); ++handed) {
      if (leaves[loop.leaf_of(handed)] == leaf) return true;
    }
    return false;
  }

  bool IsKept(const Node& node) const {
    return std::ranges::any_of(node.results, [&](ValueId result) {
      return std::ranges::count(options_.kept, graph_.value(result).name) > 0;
    });
  }

  // Whether `reader` is a loop of a later phase that takes the slices of `value`, in
  // whichever order, and reads it as nothing else.
  bool GoesBack(const LoopParts& loop, const Node& node, NodeId reader,
                ValueId value) const {
    if (reader < 0) return false;
    const Node& back = graph_.node(reader);
    if (back.op != OpKind::kLoop || back.phase <= node.phase) return false;
    const LoopParts parts = PartsOfLoop(back);
    if (parts.iterations != loop.iterations) return false;
    for (size_t i = 0; i < parts.operands(); ++i) {
      if (back.inputs[i] == value && !parts.is_sliced(i)) return false;
    }
    return !HoldsCollectives(parts.body);
  }

  // The pair with every iteration made again by itself, if it can be.
  std::optional<IterationPair> OfIterations(IterationPair pair,
                                            const LoopParts& loop) const {
    if (pair.made.empty()) return std::nullopt;
    pair.carried_in.clear();
    pair.needed = NeededFor(loop.body, Wanted(pair, loop));
    return CanRunAgain(pair, loop) ? std::optional(pair) : std::nullopt;
  }

  // Likewise in segments of several, in which iterations also make what the next ones need.
  std::optional<IterationPair> OfSegments(IterationPair pair,
                                          const LoopParts& loop) const {
    if (!CanBeCut(pair, loop)) return std::nullopt;
    const std::vector<ValueId> leaves = LeavesOf(loop.body);
    std::vector<ValueId> wanted = Wanted(pair, loop);
    std::vector<bool> is_wanted(loop.handed_on(), false);
    for (bool grew = true; grew;) {
      grew = false;
      pair.needed = NeededFor(loop.body, wanted);
      for (size_t handed = 0; handed < loop.handed_on(); ++handed) {
        const ValueId leaf = leaves[loop.leaf_of(handed)];
        if (is_wanted[handed] || !pair.needed[Index(leaf)]) continue;
        is_wanted[handed] = true;
        wanted.push_back(OutputOf(loop.body, handed));
        grew = true;
      }
    }
    return CanRunAgain(pair, loop) ? std::optional(pair) : std::nullopt;
  }

  static std::vector<ValueId> Wanted(const IterationPair& pair,
                                     const LoopParts& loop) {
    std::vector<ValueId> wanted;
    for (const auto* results : {&pair.made, &pair.carried_in}) {
      for (const size_t r : *results) {
        wanted.push_back(OutputOf(loop.body, r));
      }
    }
    return wanted;
  }

  // Whether what the iterations read is there when they run again: what is carried can be
  // stacked, and all else is as it was.
  bool CanRunAgain(const IterationPair& pair, const LoopParts& loop) const {
    const std::vector<ValueId> leaves = LeavesOf(loop.body);
    for (size_t handed = 0; handed < loop.handed_on(); ++handed) {
      const ValueId leaf = leaves[loop.leaf_of(handed)];
      const int rank = loop.body.value(leaf).type.shape.rank();
      if (pair.needed[Index(leaf)] && rank == kMaxRank) return false;
    }
    return !IsOverwritten(pair, loop);
  }

  // Whether what the iterations read from outside is another before they run again.
  bool IsOverwritten(const IterationPair& pair, const LoopParts& loop) const {
    const Node& node = graph_.node(pair.forward);
    const std::vector<ValueId> leaves = LeavesOf(loop.body);
    std::vector<ValueId> roots;
    for (size_t i = loop.carried; i < loop.operands(); ++i) {
      if (pair.needed[Index(leaves[i])]) {
        roots.push_back(layouts_[Index(node.inputs[i])].root);
      }
    }
    for (NodeId id = pair.forward; id < pair.backward; ++id) {
      const Node& between = graph_.node(id);
      for (int r = 0; r < GetOpDef(between.op).updates; ++r) {
        const ValueId target = between.inputs[static_cast<size_t>(r)];
        if (std::ranges::count(roots, layouts_[Index(target)].root) > 0) {
          return true;
        }
      }
    }
    return false;
  }

  // Whether all that has slices can be seen as segments of slices, and the bodies stand
  // one deeper.
  bool CanBeCut(const IterationPair& pair, const LoopParts& loop) const {
    const auto is_cut = [&](ValueId value) {
      const Shape& shape = graph_.value(value).type.shape;
      return shape.rank() < kMaxRank &&
             IsContiguous(shape, layouts_[Index(value)].strides);
    };
    for (const NodeId id : {pair.forward, pair.backward}) {
      const Node& node = graph_.node(id);
      const LoopParts parts = PartsOfLoop(node);
      // In micro-batches of a batch the loop stands in another.
      if (DepthOf(node) + 2 > kMaxBodyDepth) return false;
      for (size_t i = 0; i < parts.operands(); ++i) {
        if (parts.is_sliced(i) && !is_cut(node.inputs[i])) return false;
      }
      for (size_t r = parts.handed_on(); r < parts.outputs(); ++r) {
        if (!is_cut(node.results[r])) return false;
      }
    }
    return loop.iterations > 1;
  }

  // How many iterations a segment has.
  int64_t SegmentOf(const IterationPair& pair, const std::vector<bool>& needed,
                    const LoopParts& loop) const {
    if (options_.segment) {
      return loop.iterations % *options_.segment == 0 ? *options_.segment : 1;
    }
    // All iterations in one segment need no less than all of them kept.
    int64_t best = 1;
    Bytes least = BytesByIterations(pair, loop);
    const auto consider = [&](int64_t segment) {
      if (segment == 1 || segment == loop.iterations) return;
      const Bytes bytes = BytesInSegments(pair, needed, loop, segment);
      if (bytes > least || (bytes == least && segment > best)) return;
      best = segment;
      least = bytes;
    };
    for (int64_t d = 1; d <= loop.iterations / d; ++d) {
      if (loop.iterations % d != 0) continue;
      consider(d);
      consider(loop.iterations / d);
    }
    return best;
  }

  // What an iteration carries that is needed; of what is stacked for other reasons nothing,
  // unless `stacked_too`.
  Bytes Carried(const LoopParts& loop, const std::vector<bool>& needed,
                bool stacked_too) const {
    const std::vector<ValueId> leaves = LeavesOf(loop.body);
    Bytes bytes = 0;
    for (size_t handed = 0; handed < loop.handed_on(); ++handed) {
      const ValueId leaf = leaves[loop.leaf_of(handed)];
      if (!needed[Index(leaf)] || (!stacked_too && StackOf(loop, leaf)))
        continue;
      bytes += loop.body.value(leaf).type.bytes();
    }
    return bytes;
  }

  static Bytes BytesOf(const LoopParts& loop,
                       const std::vector<size_t>& results) {
    Bytes bytes = 0;
    for (const size_t r : results) {
      bytes += loop.body.value(OutputOf(loop.body, r)).type.bytes();
    }
    return bytes;
  }

  // What lies there for the loop that goes back, if every iteration is made again by itself,
  // or, where none can be, is kept.
  Bytes BytesByIterations(const IterationPair& pair,
                          const LoopParts& loop) const {
    const auto by_iterations = OfIterations(pair, loop);
    const Bytes made = BytesOf(loop, pair.made);
    const Bytes carried_in = BytesOf(loop, pair.carried_in);
    if (!by_iterations) return loop.iterations * (made + carried_in);
    const Bytes carried =
        Carried(loop, by_iterations->needed, /*stacked_too=*/false);
    return loop.iterations * (carried + carried_in) + made;
  }

  Bytes BytesInSegments(const IterationPair& pair,
                        const std::vector<bool>& needed, const LoopParts& loop,
                        int64_t segment) const {
    const LoopParts back = PartsOfLoop(graph_.node(pair.backward));
    Bytes bytes =
        loop.iterations / segment * Carried(loop, needed, /*stacked_too=*/true);
    bytes +=
        segment * (BytesOf(loop, pair.made) + BytesOf(loop, pair.carried_in));
    for (size_t r = 0; r < back.handed_on(); ++r) {
      bytes += back.body.value(OutputOf(back.body, r)).type.bytes();
    }
    return bytes;
  }

  const Graph& graph_;
  const IterationOptions& options_;
  const Layouts layouts_;
  std::vector<NodeId> reader_;  // by value
  std::set<NodeId> taken_;      // loops that go back, of pairs
};

}  // namespace

std::vector<IterationPair> FindIterationPairs(const Graph& graph,
                                              const IterationOptions& options) {
  return PairFinder(graph, options).Find();
}

ValueId OutputOf(const Graph& body, size_t r) {
  return body.outputs()[r].value;
}

std::optional<size_t> StackOf(const LoopParts& loop, ValueId leaf) {
  for (size_t r = loop.handed_on(); r < loop.outputs(); ++r) {
    if (CopiedLeaf(loop.body, OutputOf(loop.body, r)) == leaf) return r;
  }
  return std::nullopt;
}

bool IsNeeded(const Node& node, const std::vector<bool>& needed) {
  return std::ranges::any_of(
      node.results, [&](ValueId result) { return needed[Index(result)]; });
}

}  // namespace stowage::fit

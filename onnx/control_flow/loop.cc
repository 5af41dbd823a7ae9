// Loop: a loop, a loop of a cond, or its iterations written out.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/strings.h"
#include "ir/ops.h"
#include "onnx/control_flow.h"
#include "onnx/control_flow/common.h"

namespace stowage::onnx {
namespace {

// Nodes that the iterations of one Loop may be written out to, and Loops of a model that may
// be tried again so: each may hold others.
constexpr int64_t kMaxWrittenOut = 1 << 14;
constexpr int64_t kMaxTriedAgain = 64;
// Iterations that a loop may have.
constexpr int64_t kMaxIterations = int64_t{1} << 31;

// A Loop of a file: how often it runs, and what its graph takes and gives.
struct LoopNode {
  const pb::GraphProto* graph = nullptr;
  std::optional<int64_t> iterations;  // at most
  bool has_condition = false;         // which the node looks at
  std::optional<bool> is_first;       // whether it holds at first, where known
  size_t carried = 0, stacked = 0;

  const std::string& input(size_t i) const {
    return graph->input(static_cast<int>(i)).name();
  }
  const std::string& output(size_t i) const {
    return graph->output(static_cast<int>(i)).name();
  }
};

Result<LoopNode> ReadLoop(ImportedNode& node) {
  LoopNode loop;
  STOWAGE_ASSIGN_OR_RETURN(loop.graph, GraphOf(node, "body"));
  loop.carried = static_cast<size_t>(std::max(node.num_operands() - 2, 0));
  STOWAGE_RETURN_IF_ERROR(
      CheckGraph(node, *loop.graph, loop.carried + 2, loop.carried + 1));
  loop.stacked =
      static_cast<size_t>(loop.graph->output_size()) - loop.carried - 1;
  for (int i = 2; i < node.num_operands(); ++i) {
    if (!node.Has(i)) return node.Wrong(StrCat("lacks operand ", i));
  }
  if (node.Has(0)) {
    STOWAGE_ASSIGN_OR_RETURN(const std::vector<int64_t> iterations,
                             node.Ints(0, "number of iterations"));
    if (iterations.size() != 1) {
      return node.Wrong(StrCat("has ", iterations.size(),
                               " numbers of iterations; expected one"));
    }
    // Files of a `while` say as many as 64 bits hold, which says nothing.
    if (iterations[0] <= kMaxIterations) loop.iterations = iterations[0];
  }
  loop.is_first = true;
  if (node.Has(1)) {
    loop.has_condition = true;
    STOWAGE_ASSIGN_OR_RETURN(loop.is_first,
                             KnownCondition(node, node.OperandAt(1)));
  }
  if (loop.is_first == false) loop.iterations = 0;
  return loop;
}

// The results of a body's stacked output in all iterations, as one value.
Value LoopRows(const Values& values) {
  Values rows;
  for (const Value& value : values) {
    Shape shape = {1};
    for (const int64_t dim : value.shape()) shape.push_back(dim);
    rows.push_back(Reshape(value, shape));
  }
  return rows.size() == 1 ? rows[0] : Concat(rows, 0);
}

Error HasNoEnd(const ImportedNode& node) {
  return node.Unsupported(
      "goes on by what is computed in each step, without a number of "
      "iterations "
      "that "
      "it has at most; a plan must know one");
}

// The iterations one after the other, as nodes of the graph around.
Result<Operands> WrittenOut(ImportedNode& node, const Scope& scope,
                            GraphImporter& importer, const LoopNode& loop) {
  const int64_t most =
      kMaxWrittenOut / std::max<int64_t>(importer.CountNodes(*loop.graph), 1);
  if (loop.iterations.value_or(0) > most) {
    return node.Unsupported(StrCat("has ", *loop.iterations,
                                   " iterations; at most ", most,
                                   " of them are written out"));
  }
  Operands carried;
  for (size_t k = 0; k < loop.carried; ++k) {
    carried.push_back(
        Passed(node.OperandAt(static_cast<int>(k) + 2), node.context()));
  }
  std::vector<Values> stacked(loop.stacked);
  bool goes_on = loop.is_first.value_or(false);
  for (int64_t iteration = 0;
       goes_on && iteration < loop.iterations.value_or(most); ++iteration) {
    Operands inputs = {KnownNumber(iteration), KnownTrue()};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    STOWAGE_ASSIGN_OR_RETURN(
        const std::vector<Operand*> outputs,
        importer.AddGraph(*loop.graph, scope, std::move(inputs), nullptr));
    for (size_t k = 0; k < loop.carried; ++k) {
      carried[k] = Passed(*outputs[k + 1], node.context());
    }
    for (size_t k = 0; k < loop.stacked; ++k) {
      if (!node.Wants(static_cast<int>(loop.carried + k))) continue;
      const size_t i = loop.carried + 1 + k;
      STOWAGE_ASSIGN_OR_RETURN(const Value value,
                               HandedBack(node, loop.output(i), *outputs[i]));
      stacked[k].push_back(value);
      STOWAGE_RETURN_IF_ERROR(CheckCarried(node, loop.output(i),
                                           stacked[k][0].type(), value.type()));
    }
    if (!loop.has_condition || iteration + 1 == loop.iterations) continue;
    STOWAGE_ASSIGN_OR_RETURN(const std::optional<bool> known,
                             KnownCondition(node, *outputs[0]));
    if (!known) return HasNoEnd(node);
    goes_on = *known;
  }
  if (goes_on && !loop.iterations) {
    return node.Unsupported(StrCat("does not end within ", most,
                                   " iterations, and has no number of them, or "
                                   "one above ",
                                   kMaxIterations));
  }
  Operands results = std::move(carried);
  for (size_t k = 0; k < loop.stacked; ++k) {
    const bool wanted = node.Wants(static_cast<int>(loop.carried + k));
    if (wanted && stacked[k].empty()) {
      return node.Unsupported(StrCat("runs no iteration, so that its result ",
                                     loop.carried + k, " has no elements"));
    }
    results.push_back(wanted ? AsOperand(LoopRows(stacked[k])) : Operand());
  }
  STOWAGE_RETURN_IF_ERROR(CheckBuilt(node));
  return results;
}

// A loop whose graph is its body or, with `checks`, a branch of it that is taken while
// the condition holds.
class LoopImport {
 public:
  LoopImport(ImportedNode& node, const Scope& scope, GraphImporter& importer,
             const LoopNode& loop)
      : node_(node), scope_(scope), importer_(importer), loop_(loop) {}

  /// False where the condition has to be checked, and `checks` is not set.
  Result<bool> Import(bool checks) {
    Body body(loop_.graph->name().empty() ? "loop" : loop_.graph->name(),
              node_.context());
    iteration_ = body.Leaf(loop_.input(0), {DType::kI64, {}});
    body.SetIteration(iteration_, *loop_.iterations);
    if (checks) go_ = body.Leaf(loop_.input(1), {DType::kBool, {}});
    for (size_t k = 0; k < loop_.carried; ++k) {
      handed_.carried_leaves.push_back(
          body.Leaf(loop_.input(k + 2), Carried(k).type));
    }
    if (checks) {
      STOWAGE_RETURN_IF_ERROR(AddChecked(body));
    } else {
      STOWAGE_ASSIGN_OR_RETURN(const bool is_plain, AddPlain(body));
      if (!is_plain) return false;
    }
    for (size_t k = 0; k < loop_.carried; ++k) {
      STOWAGE_RETURN_IF_ERROR(CheckCarried(node_, loop_.input(k + 2),
                                           handed_.carried_leaves[k].type(),
                                           handed_.next[k].type()));
    }
    const bool counts = IsRead(body, iteration_);
    if (counts) {
      const int64_t one = 1;
      handed_.next.push_back(
          Add(iteration_, Constant(body.graph(), DType::kI64, {},
                                   std::as_bytes(std::span(&one, 1)))));
      handed_.carried_leaves.push_back(iteration_);
    }
    if (checks) {
      handed_.next.push_back(goes_on_);
      handed_.carried_leaves.push_back(go_);
    }
    STOWAGE_RETURN_IF_ERROR(CheckBuilt(node_));
    body.Leave();

    for (size_t k = 0; k < loop_.carried; ++k) {
      handed_.carried.push_back(node_.In(static_cast<int>(k) + 2));
    }
    if (counts) {
      Operand first = KnownNumber(0);
      handed_.carried.push_back(ValueOf(first, node_.context()));
    }
    if (checks) {
      Operand first = KnownTrue();
      Value go = loop_.is_first ? ValueOf(first, node_.context()) : node_.In(1);
      if (go.rank() != 0) go = Reshape(go, {});
      handed_.carried.push_back(go);
    }
    STOWAGE_ASSIGN_OR_RETURN(
        const Values made,
        EmitLoop(node_, body, *loop_.iterations, /*reverse=*/false, handed_));
    for (size_t k = 0; k < loop_.carried; ++k) {
      results_.push_back(AsOperand(made[k]));
    }
    size_t next = handed_.carried.size();
    for (size_t k = 0; k < loop_.stacked; ++k) {
      results_.push_back(Wants(k) ? AsOperand(made[next++]) : Operand());
    }
    return true;
  }
  const Operands& results() const { return results_; }

 private:
  bool Wants(size_t stacked) const {
    return node_.Wants(static_cast<int>(loop_.carried + stacked));
  }
  const Operand& Carried(size_t k) const {
    return node_.OperandAt(static_cast<int>(k) + 2);
  }

  // The nodes of the graph in the loop's body; false where these do not tell that the
  // condition always holds.
  Result<bool> AddPlain(Body& body) {
    Operands inputs = {AsOperand(iteration_), KnownTrue()};
    for (const Value& leaf : handed_.carried_leaves) {
      inputs.push_back(AsOperand(leaf));
    }
    STOWAGE_ASSIGN_OR_RETURN(
        const std::vector<Operand*> outputs,
        importer_.AddGraph(*loop_.graph, scope_, std::move(inputs), &body));
    if (loop_.has_condition) {
      STOWAGE_ASSIGN_OR_RETURN(const std::optional<bool> known,
                               KnownCondition(node_, *outputs[0]));
      if (known != true) return false;
    }
    for (size_t i = 1; i < outputs.size(); ++i) {
      if (i > loop_.carried && !Wants(i - loop_.carried - 1)) continue;
      STOWAGE_ASSIGN_OR_RETURN(const Value value,
                               HandedBack(node_, loop_.output(i), *outputs[i]));
      (i <= loop_.carried ? handed_.next : handed_.stacked).push_back(value);
    }
    return true;
  }

  // A cond: the nodes of the graph, or nothing done.
  Status AddChecked(Body& body) {
    for (size_t k = 0; k < loop_.stacked; ++k) {
      if (!Wants(k)) continue;
      return node_.Unsupported(StrCat(
          "stacks ", Quoted(loop_.output(loop_.carried + 1 + k)),
          " while a computed condition holds, for at most ", *loop_.iterations,
          " iterations; a plan must know for how many"));
    }
    Scope within{.outer = &scope_, .opsets = scope_.opsets, .body = &body};
    Operands held = {AsOperand(go_)};
    held[0].name = loop_.input(1);
    for (size_t k = 0; k < loop_.carried; ++k) {
      held.push_back(AsOperand(handed_.carried_leaves[k]));
      held.back().name = loop_.input(k + 2);
    }
    std::vector<Branch> branches;
    Branch rests{std::make_unique<Body>("rest", node_.context())};
    for (Operand& operand : held) {
      rests.results.push_back(
          rests.body->LeafFor(*rests.body->Capture(&operand)));
    }
    rests.body->Leave();
    branches.push_back(std::move(rests));

    Operand iteration = AsOperand(iteration_);
    iteration.name = loop_.input(0);
    Branch runs{std::make_unique<Body>("iteration", node_.context())};
    Operands inputs = {*runs.body->Capture(&iteration), KnownTrue()};
    for (size_t k = 0; k < loop_.carried; ++k) {
      inputs.push_back(*runs.body->Capture(&held[k + 1]));
    }
    STOWAGE_ASSIGN_OR_RETURN(
        const std::vector<Operand*> outputs,
        importer_.AddGraph(*loop_.graph, within, std::move(inputs),
                           runs.body.get()));
    const Result<std::optional<bool>> known =
        KnownCondition(node_, *outputs[0]);
    if (!known.ok()) return known.error();
    for (size_t i = 0; i <= loop_.carried; ++i) {
      STOWAGE_ASSIGN_OR_RETURN(Value value,
                               HandedBack(node_, loop_.output(i), *outputs[i]));
      if (i == 0 && value.rank() != 0) value = Reshape(value, {});
      if (i > 0) {
        STOWAGE_RETURN_IF_ERROR(CheckCarried(node_, loop_.input(i + 1),
                                             held[i].type, value.type()));
      }
      runs.results.push_back(value);
    }
    runs.body->Leave();
    branches.push_back(std::move(runs));
    STOWAGE_ASSIGN_OR_RETURN(Values made, EmitCond(node_, go_, branches));
    goes_on_ = made[0];
    handed_.next.assign(made.begin() + 1, made.end());
    return {};
  }

  ImportedNode& node_;
  const Scope& scope_;
  GraphImporter& importer_;
  const LoopNode& loop_;
  Handed handed_;
  Value iteration_, go_, goes_on_;  // in the body
  Operands results_;
};

Result<Operands> AsLoop(ImportedNode& node, const Scope& scope,
                        GraphImporter& importer, const LoopNode& loop) {
  if (loop.is_first) {
    LoopImport plain(node, scope, importer, loop);
    STOWAGE_ASSIGN_OR_RETURN(const bool is_plain,
                             plain.Import(/*checks=*/false));
    if (is_plain) return plain.results();
  }
  LoopImport checked(node, scope, importer, loop);
  const Result<bool> done = checked.Import(/*checks=*/true);
  if (!done.ok()) return done.error();
  return checked.results();
}

}  // namespace

Result<Operands> ImportLoop(ImportedNode& node, const Scope& scope,
                            GraphImporter& importer) {
  STOWAGE_ASSIGN_OR_RETURN(const LoopNode loop, ReadLoop(node));
  if (!loop.iterations && !loop.is_first) return HasNoEnd(node);
  if (!loop.iterations || *loop.iterations < 1 ||
      (*loop.iterations == 1 && loop.is_first)) {
    return WrittenOut(node, scope, importer, loop);
  }
  Result<Operands> results = AsLoop(node, scope, importer, loop);
  ImportContext& context = node.context();
  if (results.ok() || context.graph->error() || !loop.is_first ||
      ++context.loops_tried_again > kMaxTriedAgain) {
    return results;
  }
  Result<Operands> written = WrittenOut(node, scope, importer, loop);
  return written.ok() ? std::move(written) : std::move(results);
}

}  // namespace stowage::onnx

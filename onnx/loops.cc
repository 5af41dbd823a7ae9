// The conversion of Loop (a loop, a loop of a cond, or unrolled) and Scan.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/strings.h"
#include "ir/ops.h"
#include "onnx/control_flow.h"

namespace stowage::onnx {
namespace {

// The maximum number of nodes of an unrolled Loop, and of Loops of a model that are unrolled
// after failing as loops; Loops may be nested.
constexpr int64_t kMaxWrittenOut = 1 << 14;
constexpr int64_t kMaxTriedAgain = 64;
// The maximum number of iterations.
constexpr int64_t kMaxIterations = int64_t{1} << 31;

// A Loop node: its iterations, and the inputs and outputs of its body.
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
    // A `while` has the largest 64-bit number.
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

// The concatenation of a scan output over all iterations.
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

// Unrolls the iterations into the enclosing graph.
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

// A loop whose body is the subgraph or, with `checks`, a cond of the subgraph that is taken
// while the condition holds.
class LoopImport {
 public:
  LoopImport(ImportedNode& node, const Scope& scope, GraphImporter& importer,
             const LoopNode& loop)
      : node_(node), scope_(scope), importer_(importer), loop_(loop) {}

  /// Returns false if the condition must be checked and `checks` is not set.
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

  // Converts the subgraph into the loop's body. Returns false if the condition is not known to
  // hold always.
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

  // A cond of the subgraph and an identity.
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

// --- Scan ---------------------------------------------------------------------

namespace {

struct ScanNode {
  const pb::GraphProto* graph = nullptr;
  size_t states = 0, inputs = 0, stacked = 0;
  // By scan input and output: the iteration axis, and whether it is reversed.
  std::vector<int64_t> input_axes = {}, input_directions = {};
  std::vector<int64_t> output_axes = {}, output_directions = {};

  // The direction of the loop; scan inputs and outputs of the other one are reversed.
  bool reverse() const {
    return std::count(input_directions.begin(), input_directions.end(), 1) ==
           std::ssize(input_directions);
  }
};

// A list of `count` numbers; zeros if the file omits it.
Result<std::vector<int64_t>> NumbersOf(const ImportedNode& node,
                                       std::string_view name, size_t count) {
  std::vector<int64_t> numbers = node.IntList(name);
  if (numbers.empty()) numbers.resize(count, 0);
  if (numbers.size() == count) return numbers;
  return node.Wrong(StrCat("has ", numbers.size(), " ", name, " for ", count,
                           " values; expected as many"));
}

Result<ScanNode> ReadScan(ImportedNode& node, bool batched) {
  ScanNode scan;
  const int first = batched ? 1 : 0;
  STOWAGE_ASSIGN_OR_RETURN(scan.graph, GraphOf(node, "body"));
  const int64_t inputs = node.Int("num_scan_inputs", 0);
  if (inputs < 1 || inputs > node.num_operands() - first) {
    return node.Wrong(StrCat("scans ", inputs, " of ",
                             node.num_operands() - first,
                             " operands; expected at least one of them"));
  }
  for (int i = first; i < node.num_operands(); ++i) {
    if (!node.Has(i)) return node.Wrong(StrCat("lacks operand ", i));
  }
  scan.inputs = static_cast<size_t>(inputs);
  scan.states = static_cast<size_t>(node.num_operands() - first) - scan.inputs;
  STOWAGE_RETURN_IF_ERROR(
      CheckGraph(node, *scan.graph, scan.states + scan.inputs, scan.states));
  scan.stacked = static_cast<size_t>(scan.graph->output_size()) - scan.states;
  STOWAGE_ASSIGN_OR_RETURN(
      scan.input_directions,
      NumbersOf(node, batched ? "directions" : "scan_input_directions",
                scan.inputs));
  STOWAGE_ASSIGN_OR_RETURN(scan.input_axes,
                           NumbersOf(node, "scan_input_axes", scan.inputs));
  STOWAGE_ASSIGN_OR_RETURN(scan.output_axes,
                           NumbersOf(node, "scan_output_axes", scan.stacked));
  STOWAGE_ASSIGN_OR_RETURN(
      scan.output_directions,
      NumbersOf(node, "scan_output_directions", scan.stacked));
  return scan;
}

// x with axis `from` moved to `to`.
Value Moved(Value x, int64_t from, int64_t to) {
  Axes order;
  for (int i = 0; i < x.rank(); ++i) {
    if (i != from) order.push_back(i);
  }
  order.insert(order.begin() + to, from);
  return from == to ? x : Permute(x, order);
}

// x with its first axis reversed.
Value TurnedAround(Value x) {
  const Value places = Iota(*x.builder(), DType::kI64,
                            static_cast<double>(x.dim(0) - 1), -1, x.dim(0));
  return Gather(x, places);
}

// The scan of values whose first axis is the iteration axis; scan outputs have it first too,
// in the file's order.
Result<Values> EmitScan(ImportedNode& node, const Scope& scope,
                        GraphImporter& importer, const ScanNode& scan,
                        const Values& states, const Values& inputs) {
  const int64_t iterations = inputs[0].dim(0);
  const bool reverse = scan.reverse();
  Handed handed{.carried = states};
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].dim(0) != iterations) {
      return node.Wrong(StrCat(
          "scans ", iterations, " slices of ",
          Quoted(scan.graph->input(static_cast<int>(scan.states)).name()),
          " and ", inputs[i].dim(0), " of ",
          Quoted(scan.graph->input(static_cast<int>(scan.states + i)).name()),
          "; expected as many"));
    }
    handed.sliced.push_back(scan.input_directions[i] == int64_t{reverse}
                                ? inputs[i]
                                : TurnedAround(inputs[i]));
  }
  STOWAGE_RETURN_IF_ERROR(CheckBuilt(node));
  Body body(scan.graph->name().empty() ? "scan" : scan.graph->name(),
            node.context());
  Operands operands;
  const auto leaf = [&](const TensorType& type) {
    const int i = static_cast<int>(operands.size());
    const Value value = body.Leaf(scan.graph->input(i).name(), type);
    operands.push_back(AsOperand(value));
    return value;
  };
  for (const Value& state : states) {
    handed.carried_leaves.push_back(leaf(state.type()));
  }
  for (const Value& input : handed.sliced) {
    TensorType slice{input.dtype(), {}};
    for (int i = 1; i < input.rank(); ++i) slice.shape.push_back(input.dim(i));
    handed.sliced_leaves.push_back(leaf(slice));
  }
  // Only dropouts use the iteration number.
  const Value iteration = body.Leaf("iteration", {DType::kI64, {}});
  body.SetIteration(iteration, iterations);
  STOWAGE_ASSIGN_OR_RETURN(
      const std::vector<Operand*> outputs,
      importer.AddGraph(*scan.graph, scope, std::move(operands), &body));
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = scan.graph->output(static_cast<int>(i)).name();
    if (i >= scan.states && !node.Wants(static_cast<int>(i))) continue;
    STOWAGE_ASSIGN_OR_RETURN(const Value value,
                             HandedBack(node, name, *outputs[i]));
    if (i < scan.states) {
      STOWAGE_RETURN_IF_ERROR(
          CheckCarried(node, name, states[i].type(), value.type()));
    }
    (i < scan.states ? handed.next : handed.stacked).push_back(value);
  }
  if (IsRead(body, iteration)) {
    handed.sliced_leaves.push_back(iteration);
    handed.sliced.push_back(
        Iota(*inputs[0].builder(), DType::kI64, 0, 1, iterations));
  }
  body.Leave();
  STOWAGE_ASSIGN_OR_RETURN(Values made,
                           EmitLoop(node, body, iterations, reverse, handed));
  size_t next = scan.states;
  for (size_t k = 0; k < scan.stacked; ++k) {
    if (!node.Wants(static_cast<int>(scan.states + k))) continue;
    Value& value = made[next++];
    if (scan.output_directions[k] != int64_t{reverse}) {
      value = TurnedAround(value);
    }
  }
  STOWAGE_RETURN_IF_ERROR(CheckBuilt(node));
  return made;
}

// Operator set 8: all values have a leading batch axis, and examples are scanned separately.
Result<Values> EmitBatchedScan(ImportedNode& node, const Scope& scope,
                               GraphImporter& importer, const ScanNode& scan,
                               const Values& states, const Values& inputs) {
  const int64_t batch = inputs[0].rank() > 0 ? inputs[0].dim(0) : 0;
  Handed handed;
  Body body("example", node.context());
  const Scope within{.outer = &scope, .opsets = scope.opsets, .body = &body};
  Values inner_states, inner_inputs;
  for (const Values* const list : {&states, &inputs}) {
    for (const Value& value : *list) {
      if (value.rank() < (list == &inputs ? 2 : 1) || value.dim(0) != batch) {
        return node.Wrong(StrCat("scans ", value.type().ToString(),
                                 "; expected the ", batch,
                                 " examples of a batch in front"));
      }
      TensorType one{value.dtype(), {}};
      for (int i = 1; i < value.rank(); ++i) one.shape.push_back(value.dim(i));
      handed.sliced.push_back(value);
      handed.sliced_leaves.push_back(body.Leaf("of_example", one));
      (list == &states ? inner_states : inner_inputs)
          .push_back(handed.sliced_leaves.back());
    }
  }
  STOWAGE_ASSIGN_OR_RETURN(
      handed.stacked,
      EmitScan(node, within, importer, scan, inner_states, inner_inputs));
  body.Leave();
  return EmitLoop(node, body, batch, /*reverse=*/false, handed);
}

}  // namespace

Result<Operands> ImportScan(ImportedNode& node, const Scope& scope,
                            GraphImporter& importer) {
  const bool batched = node.version() < 9;
  STOWAGE_ASSIGN_OR_RETURN(const ScanNode scan, ReadScan(node, batched));
  if (batched && node.Has(0)) {
    return node.Unsupported("has lengths of sequences; expected none");
  }
  Values states, inputs;
  for (int i = batched ? 1 : 0; i < node.num_operands(); ++i) {
    const Value value = node.In(i);
    STOWAGE_RETURN_IF_ERROR(CheckBuilt(node));
    if (states.size() < scan.states) {
      states.push_back(value);
      continue;
    }
    STOWAGE_ASSIGN_OR_RETURN(
        const int64_t axis,
        node.Axis(scan.input_axes[inputs.size()], value.rank()));
    inputs.push_back(Moved(value, axis, 0));
  }
  STOWAGE_ASSIGN_OR_RETURN(
      const Values made,
      batched ? EmitBatchedScan(node, scope, importer, scan, states, inputs)
              : EmitScan(node, scope, importer, scan, states, inputs));
  Operands results;
  size_t next = 0;
  for (size_t i = 0; i < scan.states + scan.stacked; ++i) {
    if (i >= scan.states && !node.Wants(static_cast<int>(i))) {
      results.emplace_back();
      continue;
    }
    Value value = made[next++];
    if (i >= scan.states) {
      STOWAGE_ASSIGN_OR_RETURN(
          const int64_t axis,
          node.Axis(scan.output_axes[i - scan.states], value.rank()));
      value = Moved(value, 0, axis);
    }
    results.push_back(AsOperand(value));
  }
  STOWAGE_RETURN_IF_ERROR(CheckBuilt(node));
  return results;
}

}  // namespace stowage::onnx

// Scan: a loop over slices.

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/strings.h"
#include "ir/ops.h"
#include "onnx/control_flow.h"
#include "onnx/control_flow/common.h"

namespace stowage::onnx {
namespace {

struct ScanNode {
  const pb::GraphProto* graph = nullptr;
  size_t states = 0, inputs = 0, stacked = 0;
  // Of inputs and of what is stacked: which axis has the iterations, and whether the last
  // comes first.
  std::vector<int64_t> input_axes = {}, input_directions = {};
  std::vector<int64_t> output_axes = {}, output_directions = {};

  // The direction of the loop; what goes the other way is turned around.
  bool reverse() const {
    return std::count(input_directions.begin(), input_directions.end(), 1) ==
           std::ssize(input_directions);
  }
};

// A list with a number for each of `count`, zeros where the file has none.
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

// x with axis `from` moved to where `to` is.
Value Moved(Value x, int64_t from, int64_t to) {
  Axes order;
  for (int i = 0; i < x.rank(); ++i) {
    if (i != from) order.push_back(i);
  }
  order.insert(order.begin() + to, from);
  return from == to ? x : Permute(x, order);
}

// x with its first axis turned around.
Value TurnedAround(Value x) {
  const Value places = Iota(*x.builder(), DType::kI64,
                            static_cast<double>(x.dim(0) - 1), -1, x.dim(0));
  return Gather(x, places);
}

// The scan of values that have their slices along the first axis; what is stacked has
// them there, too, in the order in which the file wants them.
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
  // Dropouts need the number of the iteration, and nothing else does.
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

// Operator set 8: all values have a batch in front, and each example is scanned alone.
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

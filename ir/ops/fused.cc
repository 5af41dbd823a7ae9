// Chains of elementwise ops, by themselves and after a matmul (ir/fused.h).

#include "ir/fused.h"

#include <array>
#include <span>
#include <string>
#include <vector>

#include "base/strings.h"
#include "ir/graph.h"
#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"

namespace stowage::op_defs {
namespace {

// Whether `node` reads `before` and otherwise only leaves.
bool GoesOn(const Graph& program, const Node& node, ValueId before) {
  bool reads_chain = false;
  for (const ValueId input : node.inputs) {
    if (input == before) {
      reads_chain = true;
    } else if (!program.value(input).is_leaf()) {
      return false;
    }
  }
  return reads_chain;
}

// Checks that the attribute is one program with `operands` leaves of `type`, and returns the
// types of its results.
TypesResult CheckProgram(const OpArgs& args, const TensorType& type,
                         size_t operands) {
  const SubGraphs& graphs = args.attrs.Graphs("program");
  if (graphs.size() != 1) {
    return args.Fail(StrCat("has ", graphs.size(), " programs; expected one"));
  }
  const Graph& program = *graphs.front();
  const auto fail = [&](const auto&... what) {
    return args.Fail(
        StrCat("program ", Quoted(program.name()), " ", StrCat(what...)));
  };
  size_t leaves = 0;
  for (ValueId id = 0; id < program.num_values(); ++id) {
    const ValueInfo& value = program.value(id);
    if (value.type != type) {
      return fail("has ", Quoted(value.name), ", which is ",
                  value.type.ToString(), "; expected ", type.ToString());
    }
    if (!value.is_leaf()) continue;
    if (value.role != Role::kInput || leaves != static_cast<size_t>(id)) {
      return fail("has ", Quoted(value.name), ", which is ",
                  RoleName(value.role),
                  "; its leaves are inputs, in front of all else");
    }
    ++leaves;
  }
  if (leaves != operands || leaves > kMaxFusedOperands) {
    return fail("has ", leaves, " leaves; expected ", operands, " and at most ",
                kMaxFusedOperands);
  }
  const auto nodes = static_cast<size_t>(program.num_nodes());
  if (nodes == 0 || nodes > kMaxFusedSteps) {
    return fail("has ", nodes, " nodes; expected 1 to ", kMaxFusedSteps);
  }
  ValueId before = 0;
  for (const Node& node : program.nodes()) {
    const std::string& name = program.value(node.results[0]).name;
    if (!MayBeFused(node.op)) {
      return fail("has ", Quoted(name), ", made by ", OpName(node.op),
                  "; its nodes are elementwise ops of one float type");
    }
    // The matmul itself is no result.
    const bool reads_product = args.op == OpKind::kFusedMatMul && before != 0 &&
                               (node.inputs[0] == 0 || node.inputs.back() == 0);
    if (!GoesOn(program, node, before) || reads_product) {
      return fail(
          "has ", Quoted(name),
          "; each node works on the result of the one before, the first "
          "on leaf 0, and else on leaves",
          args.op == OpKind::kFusedMatMul ? " behind the first" : "");
    }
    before = node.results[0];
  }
  const auto outputs = program.outputs();
  if (outputs.empty() || outputs.size() > kMaxFusedResults ||
      outputs[0].value != before) {
    return fail("has ", outputs.size(), " outputs; expected 1 to ",
                kMaxFusedResults, ", the first of them the last node's");
  }
  for (size_t r = 1; r < outputs.size(); ++r) {
    bool is_new = !program.value(outputs[r].value).is_leaf();
    for (size_t other = 0; other < r; ++other) {
      is_new = is_new && outputs[other].value != outputs[r].value;
    }
    if (is_new) continue;
    return fail("has the output ", Quoted(outputs[r].name),
                "; each is the result of another node");
  }
  return Typed(args, std::vector<TensorType>(outputs.size(), type));
}

TypesResult InferElementwise(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"program", AttrKind::kGraphs}}));
  if (args.count() == 0) return args.Fail("has no operands; expected one");
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "x", DTypes::kFloat));
  for (int i = 1; i < args.count(); ++i) {
    STOWAGE_RETURN_IF_ERROR(CheckSameType(args, 0, "x", i, "operand"));
  }
  return CheckProgram(args, args.type(0), args.types.size());
}

double ProgramFlops(const OpArgs& args) {
  double flops = 0;
  const Graph& program = ProgramOf(args.attrs);
  const TensorType& type = program.value(0).type;
  const std::array<TensorType, 2> types = {type, type};
  for (const Node& node : program.nodes()) {
    const OpDef& def = GetOpDef(node.op);
    const OpArgs part = {.op = node.op,
                         .types = std::span(types).first(node.inputs.size()),
                         .names = {},
                         .attrs = node.attrs};
    flops += def.flops(part, std::span(types).first(1));
  }
  return flops;
}

double ElementwiseFlops(const OpArgs& args, std::span<const TensorType>) {
  return ProgramFlops(args);
}

// --- fused_matmul ---

constexpr int kFactors = 2;

TypesResult InferFusedMatMul(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"transpose_a", AttrKind::kFlag},
                                            {"transpose_b", AttrKind::kFlag},
                                            {"program", AttrKind::kGraphs}}));
  if (args.count() < kFactors) {
    return args.Fail(
        StrCat("has ", args.count(), " operands; expected a, b and more"));
  }
  const Attrs attrs{{"transpose_a", args.attrs.Int("transpose_a")},
                    {"transpose_b", args.attrs.Int("transpose_b")}};
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<TensorType> product,
                           MatMul.infer({.op = args.op,
                                         .types = args.types.first(kFactors),
                                         .names = args.names.first(kFactors),
                                         .attrs = attrs}));
  for (int i = kFactors; i < args.count(); ++i) {
    STOWAGE_RETURN_IF_ERROR(CheckType(args, i, "operand", product[0],
                                      "since that is the product's type"));
  }
  return CheckProgram(args, product[0], args.types.size() - kFactors + 1);
}

double FusedMatMulFlops(const OpArgs& args,
                        std::span<const TensorType> results) {
  return MatMul.flops(args, results) + ProgramFlops(args);
}

// The operands after a and b are contiguous or one row that is broadcast to all rows.
bool AcceptsFusedMatMul(const OpArgs& args, int i, const Strides& strides) {
  if (i < kFactors) return MatMul.accepts(args, i, strides);
  const Shape& shape = args.shape(i);
  if (IsContiguous(shape, strides)) return true;
  const int last = shape.rank() - 1;
  for (int axis = 0; axis < last; ++axis) {
    if (shape[axis] != 1 && strides[axis] != 0) return false;
  }
  return shape[last] == 1 || strides[last] == 1;
}

}  // namespace

// The last node's result may overwrite an operand: all have been read by then.
constinit const OpDef FusedElementwise = {
    .num_inputs = kAnyNumber,
    .infer = InferElementwise,
    .flops = ElementwiseFlops,
    .accepts = AcceptAnyStrides,
    .may_overwrite = (1u << kMaxFusedOperands) - 1};
constinit const OpDef FusedMatMul = {.num_inputs = kAnyNumber,
                                     .infer = InferFusedMatMul,
                                     .flops = FusedMatMulFlops,
                                     .accepts = AcceptsFusedMatMul};

}  // namespace stowage::op_defs

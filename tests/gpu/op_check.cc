#include "tests/gpu/op_check.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/graph_copy.h"
#include "ir/layout.h"
#include "ir/op_kind.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "ir/uses.h"
#include "planner/plan_memory.h"
#include "runtime/session.h"
#include "tests/support/elements.h"
#include "tests/support/interpret.h"
#include "tests/support/op_cases.h"

namespace stowage::testing {

Result<OutputBytes> RunOnce(const Graph& graph, const Tensors& leaves,
                            Backend& backend, bool poison) {
  STOWAGE_ASSIGN_OR_RETURN(Plan plan,
                           PlanMemory(graph, {.device = backend.Needs()}));
  STOWAGE_ASSIGN_OR_RETURN(
      Session session,
      Session::Create({{"op", graph, std::move(plan)}}, backend,
                      {.arena = {}, .poison = poison}));
  Runner& op = session.front();
  for (const auto& [name, elements] : leaves) {
    const DType dtype = graph.value(*graph.Find(name)).type.dtype;
    const auto size = static_cast<size_t>(SizeOf(dtype));
    std::vector<std::byte> bytes(elements.size() * size);
    for (size_t i = 0; i < elements.size(); ++i) {
      EncodeElement(dtype, elements[i], bytes.data() + i * size);
    }
    STOWAGE_RETURN_IF_ERROR(op.WriteBytes(name, dtype, bytes));
  }
  if (const StepCode code = op.Step(); code != StepCode::kOk) {
    return op.Explain(code);
  }
  OutputBytes outputs;
  for (const GraphOutput& output : graph.outputs()) {
    const TensorType& type = graph.value(output.value).type;
    std::vector<std::byte>& bytes = outputs[output.name];
    bytes.resize(static_cast<size_t>(type.bytes()));
    STOWAGE_RETURN_IF_ERROR(op.ReadBytes(output.name, type.dtype, bytes));
  }
  return outputs;
}

std::vector<double> DecodeElements(DType dtype,
                                   const std::vector<std::byte>& bytes) {
  const auto size = static_cast<size_t>(SizeOf(dtype));
  std::vector<double> elements;
  for (size_t i = 0; i < bytes.size(); i += size) {
    elements.push_back(DecodeElement(dtype, &bytes[i]));
  }
  return elements;
}

namespace {

// Whether the op is computed in another way, and so in another order, where an operand is
// off some alignment: by a library of products, or attention by tensor cores.
bool MayTakeAnotherWay(OpKind op) {
  switch (op) {
    case OpKind::kMatMul:
    case OpKind::kEpilogueMatMul:
    case OpKind::kFusedMatMul:
    case OpKind::kQuantizedMatMul:
    case OpKind::kLinearCrossEntropy:
    case OpKind::kLinearCrossEntropyGrad:
    case OpKind::kLstm:
    case OpKind::kLstmGrad:
    case OpKind::kLstmWeightGrad:
    case OpKind::kConv:
    case OpKind::kConvTranspose:
    case OpKind::kConvWeightGrad:
    case OpKind::kAttention:
    case OpKind::kAttentionGrad:
    case OpKind::kAttentionQkvGrad:
    case OpKind::kAttentionBiasGrad:
      return true;
    default:
      return false;
  }
}

// The largest error of any output; NaN where there is one.
double LargestErrorOf(const OutputBytes& outputs, const Graph& graph,
                      const Tensors& expected) {
  double largest = 0;
  for (const GraphOutput& output : graph.outputs()) {
    const DType dtype = graph.value(output.value).type.dtype;
    const double error =
        LargestError(DecodeElements(dtype, outputs.at(output.name)),
                     expected.at(output.name));
    if (std::isnan(error)) return error;
    largest = std::max(largest, error);
  }
  return largest;
}

// The largest error of the case's outputs; an error says what else is wrong.
Result<double> Check(const OpCase& c, Backend& backend) {
  const Graph graph = BuildCase(c);
  const Tensors leaves = CaseLeaves(c);
  const Tensors expected = Interpret(graph, leaves, Rounding::kTo16Bits);
  STOWAGE_ASSIGN_OR_RETURN(const OutputBytes replayed,
                           RunOnce(graph, leaves, backend));
  STOWAGE_ASSIGN_OR_RETURN(const OutputBytes poisoned,
                           RunOnce(graph, leaves, backend, /*poison=*/true));
  const double error = LargestErrorOf(replayed, graph, expected);
  if (std::isnan(error)) return error;
  if (replayed != poisoned) {
    return Error{ErrorCode::kDevice, "a replay and a poisoned run differ"};
  }
  STOWAGE_ASSIGN_OR_RETURN(const OffAlignment off,
                           PutOffAlignment(graph, leaves));
  STOWAGE_ASSIGN_OR_RETURN(const OutputBytes moved,
                           RunOnce(off.graph, off.leaves, backend));
  if (MayTakeAnotherWay(c.op)) {
    const double error_moved = LargestErrorOf(moved, graph, expected);
    return std::isnan(error_moved) ? error_moved : std::max(error, error_moved);
  }
  if (moved != replayed) {
    return Error{ErrorCode::kDevice,
                 "operands off their alignment give other bits"};
  }
  return error;
}

}  // namespace

void CheckOps(DType real, const OpCheckOptions& options, Backend& backend,
              CheckRow* row) {
  constexpr int kMaxNamed = 3;
  nlohmann::ordered_json failures = nlohmann::ordered_json::array();
  std::string named;
  int rows = 0, skipped = 0;
  double worst = 0, worst_share = 0;  // the error, and of its tolerance
  std::string worst_name = "none";
  const std::vector<OpCase> cases = GpuOpCases(real);
  const size_t first = std::min(options.first, cases.size());
  const size_t end = first + std::min(options.count, cases.size() - first);
  for (size_t i = first; i < end; ++i) {
    const OpCase& c = cases[i];
    ++rows;
    if (options.skip.contains(c.name)) {
      ++skipped;
      continue;
    }
    if (options.at) options.at(c.name);
    const Result<double> error = Check(c, backend);
    if (error.ok() && *error / c.tolerance > worst_share) {
      worst = *error;
      worst_share = *error / c.tolerance;
      worst_name = c.name;
    }
    if (error.ok() && *error <= c.tolerance) continue;
    const std::string why =
        error.ok() ? StrCat("error ", *error, " above ", c.tolerance)
                   : error.error().message;
    if (failures.size() < kMaxNamed) {
      named += StrCat(named.empty() ? "" : "; ", c.name, ": ", why);
    }
    failures.push_back({{"case", c.name}, {"why", why}});
  }
  row->figure = StrCat(
      rows - skipped - static_cast<int>(failures.size()), " of ", rows,
      " rows, replayed, poisoned and off alignment; nearest to its tolerance ",
      worst_name, ", error ", worst);
  if (skipped > 0) row->figure += StrCat("; ", skipped, " skipped");
  if (!failures.empty()) row->Fail(named);
  row->data = {
      {"rows", rows},         {"skipped", skipped},
      {"failures", failures}, {"worst_case", worst_name},
      {"worst_error", worst}, {"worst_error_of_tolerance", worst_share}};
}

Result<OffAlignment> PutOffAlignment(const Graph& graph,
                                     const Tensors& leaves) {
  // Elements before a leaf's first: with any size of an element, off 16 bytes.
  constexpr int64_t kShifts[] = {1, 2, 3, 5, 6, 7};
  const Uses uses(graph, ComputeLayouts(graph));
  OffAlignment off{.graph = graph, .leaves = leaves};
  GraphBuilder g(graph.name());
  GraphCopy copy(graph, &g);
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    ValueInfo leaf = graph.value(id);
    const auto elements = leaves.find(leaf.name);
    if (!leaf.is_leaf() || leaf.on_host || uses.overwriter(id) != kNoNode ||
        elements == leaves.end()) {
      continue;
    }
    const int64_t shift =
        kShifts[static_cast<size_t>(off.moved++) % std::size(kShifts)];
    const Shape shape = leaf.type.shape;
    const int64_t end = shift + shape.num_elements();
    leaf.type.shape = Shape{end};
    copy.Map(id, Reshape(Slice(g.LeafLike(leaf), 0, shift, end), shape));
    std::vector<double>& moved = off.leaves.at(leaf.name);
    moved.insert(moved.begin(), static_cast<size_t>(shift), 0.0);
  }
  copy.DeclareLeaves();
  for (NodeId n = 0; n < graph.num_nodes(); ++n) copy.CopyNode(n);
  copy.DeclareOutputs();
  STOWAGE_ASSIGN_OR_RETURN(off.graph, g.Finish());
  return off;
}

}  // namespace stowage::testing

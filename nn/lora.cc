#include "nn/lora.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "base/result.h"
#include "base/strings.h"
#include "ir/graph_copy.h"
#include "ir/op_kind.h"
#include "ir/ops.h"

namespace stowage {
namespace {

constexpr std::string_view kDown = ".lora_A.weight";
constexpr std::string_view kUp = ".lora_B.weight";
constexpr std::string_view kMagnitude = ".lora_magnitude_vector";
constexpr std::string_view kSquaredNorm = ".lora_squared_norm";

// The params of an adapter, and factor (x A^T) B^T; inert on errors.
struct LowRankResults {
  Value down, up, share;
};

// `weight` is the layer's shape, for messages.
LowRankResults LowRank(Value x, std::string_view name, int64_t out_features,
                       int64_t rank, double alpha, double factor,
                       const Shape& weight, SourceLoc loc) {
  GraphBuilder& g = *x.builder();
  const int64_t in_features = x.shape().back();
  const int64_t most = std::min(in_features, out_features);
  if (rank < 1 || rank > most) {
    g.Fail(
        StrCat("[lora] ", Quoted(name), " has rank ", rank, " beside a weight ",
               weight.ToString(), "; expected 1 to ", most),
        loc);
    return {};
  }
  if (!std::isfinite(alpha) || alpha == 0) {
    g.Fail(StrCat("[lora] ", Quoted(name), " has alpha ", alpha,
                  "; expected a finite number other than 0"),
           loc);
    return {};
  }
  const double bound = 1 / std::sqrt(static_cast<double>(in_features));
  const Value down = g.Param(StrCat(name, kDown), x.dtype(),
                             {rank, in_features}, Init::Uniform(bound), loc);
  const Value up = g.Param(StrCat(name, kUp), x.dtype(), {out_features, rank},
                           Init::Zeros(), loc);
  // The factor multiplies the smaller value.
  const Value thin =
      g.Name(StrCat(name, ".lora_A"), MatMul(x, down, false, true, loc), loc);
  const Value scaled = MulScalar(thin, factor, loc);
  const Value share = g.Name(StrCat(name, ".lora_B"),
                             MatMul(scaled, up, false, true, loc), loc);
  return {down, up, share};
}

// A matmul by an adapted weight.
struct AdaptedMatMul {
  std::string_view name;  // of the layer
  Value x, weight;
  bool transpose_b = false;
  Value base;  // its result
};

// m / |w| of each output of a layer (nn/lora.h), in x's type. Norms are computed in at least
// f32; in bf16 they would have three digits.
Value DoraScale(const AdaptedMatMul& layer, const LowRankResults& low_rank,
                double factor) {
  GraphBuilder& g = *layer.x.builder();
  const DType dtype = layer.x.dtype();
  const DType wide = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  const Shape outputs = {layer.base.shape().back()};
  const Value magnitude = g.Param(StrCat(layer.name, kMagnitude), wide, outputs,
                                  Init::Zeros(), SourceLoc{});
  const Value of_base = g.Param(StrCat(layer.name, kSquaredNorm), wide, outputs,
                                Init::Zeros(), SourceLoc{});
  const auto& [down, up, share] = low_rank;
  const Value across = Cast(
      Transpose(MatMul(down, layer.weight, false, layer.transpose_b)), wide);
  const Value within =
      Cast(MatMul(up, MatMul(down, down, false, true)), wide);  // B A A^T
  const Value sum =
      Add(MulScalar(across, 2 * factor), MulScalar(within, factor * factor));
  const Value squares = Add(of_base, ReduceSum(Mul(Cast(up, wide), sum), {1}));
  const Value norm =
      g.Name(StrCat(layer.name, ".lora_norm"), StopGradient(Sqrt(squares)));
  return Cast(Div(magnitude, norm), dtype);
}

// The output of the layer with its adapter; `dropped` is the adapter's input.
Value Adapted(const AdaptedMatMul& layer, Value dropped,
              const LowRankResults& low_rank, const LoraRules& rules) {
  if (!rules.dora) return Add(layer.base, low_rank.share);
  const Value scale = DoraScale(layer, low_rank, LoraFactor(rules));
  if (rules.dropout == 0) {
    return Mul(Add(layer.base, low_rank.share), scale);
  }
  const Value of_dropped =
      MatMul(dropped, layer.weight, false, layer.transpose_b);
  return Add(Sub(layer.base, of_dropped),
             Mul(Add(of_dropped, low_rank.share), scale));
}

// By value: a node that reads it other than as a matmul's second operand, and the operand's
// index; absent if there is none.
struct Reader {
  NodeId node = kNoNode;
  size_t operand = 0;
};
std::map<ValueId, Reader> OtherReaders(const Graph& graph) {
  std::map<ValueId, Reader> readers;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.op == OpKind::kMatMul && i == 1) continue;
      readers.insert({node.inputs[i], {id, i}});
    }
  }
  return readers;
}

// The params that the rules match; for a pattern, only those that can have adapters.
Result<std::set<ValueId>> FindTargets(const Graph& graph,
                                      const LoraRules& rules) {
  const std::map<ValueId, Reader> readers = OtherReaders(graph);
  std::set<ValueId> targets;
  for (const std::string& target : rules.targets) {
    const bool is_pattern = target.find_first_of("*?[") != std::string::npos;
    size_t matching = 0;
    for (const ValueId id : graph.Leaves(Role::kParam)) {
      const ValueInfo& info = graph.value(id);
      if (info.type.shape.rank() != 2 || !IsFloat(info.type.dtype)) continue;
      if (!MeansLayer(target, info.name)) continue;
      if (const auto other = readers.find(id); other != readers.end()) {
        if (is_pattern) continue;
        const auto& [node, operand] = other->second;
        return InvalidArgumentError(
            "[lora] param ", Quoted(info.name), " is operand ", operand, " of ",
            OpName(graph.node(node).op), " ", graph.Describe(node),
            "; adapters stand beside a matmul's second "
            "operand, so leave it out of the targets");
      }
      targets.insert(id);
      ++matching;
    }
    if (matching == 0) {
      return InvalidArgumentError(
          "[lora] no layer of ", Quoted(graph.name()), " is called ",
          Quoted(target),
          ", by its name in whole, by the end of it behind a "
          "dot or by a pattern, and has a matrix that matmuls alone read");
    }
  }
  return targets;
}

// Returns whether an output of the graph has the value's own name.
bool IsOutput(const Graph& graph, ValueId id) {
  return std::ranges::any_of(graph.outputs(), [&](const GraphOutput& output) {
    return output.value == id && output.name == graph.value(id).name;
  });
}

// An input for dropout, existing or declared here.
Value ScalarInput(GraphBuilder& g, std::string_view name) {
  const std::optional<Value> there = g.Find(name);
  return there ? *there : g.Input(name, DType::kI64, {});
}

// Ids above those of the model's dropouts.
constexpr int64_t kFirstDropout = int64_t{1} << 20;

}  // namespace

Value Lora(Value x, std::string_view name, int64_t out_features,
           const LoraOptions& options, SourceLoc loc) {
  const Value base = Linear(x, name, out_features, options.base, loc);
  if (!base.ok()) return base;
  const int64_t in_features = x.shape().back();
  const Shape weight = options.base.out_in ? Shape{out_features, in_features}
                                           : Shape{in_features, out_features};
  const Value share =
      LowRank(x, name, out_features, options.rank, options.alpha,
              options.alpha / static_cast<double>(options.rank), weight, loc)
          .share;
  if (!share.ok()) return share;
  return x.builder()->Name(StrCat(name, ".adapted"), Add(base, share, loc),
                           loc);
}

double LoraFactor(const LoraRules& rules) {
  const auto rank = static_cast<double>(rules.rank);
  return rules.alpha / (rules.rank_stabilized ? std::sqrt(rank) : rank);
}

Result<Graph> WithLora(const Graph& graph, const LoraRules& rules) {
  if (!(rules.dropout >= 0 && rules.dropout < 1)) {
    return InvalidArgumentError("[lora] dropout is ", rules.dropout,
                                "; expected a number in [0, 1)");
  }
  STOWAGE_ASSIGN_OR_RETURN(const std::set<ValueId> targets,
                           FindTargets(graph, rules));
  GraphBuilder g(graph.name());
  GraphCopy copy(graph, &g);
  copy.DeclareLeaves();
  Dropouts dropouts;
  if (rules.dropout > 0) {
    const Value seed = ScalarInput(g, "seed"), step = ScalarInput(g, "step");
    dropouts = Dropouts(seed, step, rules.dropout, kFirstDropout);
  }
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    copy.CopyNode(id);
    const Node& node = graph.node(id);
    if (node.op != OpKind::kMatMul || !targets.contains(node.inputs[1])) {
      continue;
    }
    const ValueInfo& weight = graph.value(node.inputs[1]);
    if (node.attrs.Int("transpose_a") == 1) {
      return InvalidArgumentError(
          "[lora] the matmul by ", Quoted(weight.name),
          " transposes its first operand; adapters stand "
          "beside x W, so leave it out of the targets");
    }
    const AdaptedMatMul layer = {
        .name = LayerOfWeight(weight.name),
        .x = copy[node.inputs[0]],
        .weight = copy[node.inputs[1]],
        .transpose_b = node.attrs.Int("transpose_b") == 1,
        .base = copy[node.results[0]]};
    if (!layer.base.ok()) continue;  // Finish says why
    const Value dropped = dropouts.Apply(layer.x);
    const LowRankResults low_rank =
        LowRank(dropped, layer.name, layer.base.shape().back(), rules.rank,
                rules.alpha, LoraFactor(rules), weight.type.shape, SourceLoc{});
    if (!low_rank.share.ok()) continue;
    const std::string& result = graph.value(node.results[0]).name;
    std::string adapted = StrCat(result, ".adapted");
    if (IsOutput(graph, node.results[0])) {
      g.Name(StrCat(result, ".base"), layer.base);
      adapted = result;
    }
    copy.Map(node.results[0],
             g.Name(adapted, Adapted(layer, dropped, low_rank, rules)));
  }
  copy.DeclareOutputs();
  return g.Finish();
}

std::string_view LayerOfWeight(std::string_view weight) {
  constexpr std::string_view kWeight = ".weight";
  if (weight.ends_with(kWeight)) weight.remove_suffix(kWeight.size());
  return weight;
}

bool MeansLayer(std::string_view target, std::string_view weight) {
  const std::string_view layer = LayerOfWeight(weight);
  return GlobMatches(target, weight) || GlobMatches(target, layer) ||
         GlobMatches(StrCat("*.", target), layer);
}

LoraParams LoraParamsOf(std::string_view weight) {
  const std::string_view layer = LayerOfWeight(weight);
  return {.down = StrCat(layer, kDown),
          .up = StrCat(layer, kUp),
          .magnitude = StrCat(layer, kMagnitude),
          .squared_norm = StrCat(layer, kSquaredNorm)};
}

bool IsLoraParam(std::string_view name) {
  return name.ends_with(kDown) || name.ends_with(kUp) ||
         name.ends_with(kMagnitude);
}

}  // namespace stowage
